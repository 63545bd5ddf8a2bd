"""A model that changes itself when it runs is refused, with the name of what changed, wherever Python can keep it."""

from __future__ import annotations

import itertools
import random
import types
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

import mase_hw
from mase_hw.errors import GraphError
from mase_hw.ir.faithful.fingerprint import fingerprint
from mase_hw.ir.faithful.state import check_stateless
from tests.faithful.layers import Base
from tests.unit.pipeline import inputs

X = inputs(1, 6)
COUNT = 0
BOX: list[int] = []
KEPT: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


class Buffer(Base):
    def start(self) -> None:
        self.register_buffer("seen", torch.zeros(3))

    def step(self, x: Any) -> None:
        self.seen = self.seen + 1


class InPlace(Base):
    def start(self) -> None:
        self.register_buffer("seen", torch.zeros(3), persistent=False)

    def step(self, x: Any) -> None:
        self.seen.add_(0.001)  # type: ignore[operator]


class Hidden(Buffer):
    """A buffer of which its state says nothing."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {}


class Weight(Base):
    def step(self, x: Any) -> None:
        self.fc.weight.data.mul_(1.0001)


class Counter(Base):
    n = 0

    def step(self, x: Any) -> None:
        self.n += 1


class Toggle(Base):
    n = 0

    def step(self, x: Any) -> None:
        self.n = 1 - self.n


class OfThree(Base):
    n = 0

    def step(self, x: Any) -> None:
        self.n = (self.n + 1) % 3


class OfClass(Base):
    n = 0

    def step(self, x: Any) -> None:
        type(self).n += 1


class Global(Base):
    def step(self, x: Any) -> None:
        global COUNT
        COUNT += 1


def helper() -> None:
    BOX.append(1)


class Helper(Base):
    def step(self, x: Any) -> None:
        helper()


def counting() -> Any:
    n = 0

    def count() -> None:
        nonlocal n
        n += 1

    return count


class Closure(Base):
    count = staticmethod(counting())

    def step(self, x: Any) -> None:
        self.count()


class Imported(Base):
    """A variable of a module, which is a variable of a function around it."""

    def start(self) -> None:
        from tests.faithful import counted

        self.count = lambda: setattr(counted, "CALLS", counted.CALLS + 1)

    def step(self, x: Any) -> None:
        self.count()


class Default(Base):
    def step(self, x: Any, box: list[int] = [0]) -> None:  # noqa: B006
        box[0] += 1


class Listed(Base):
    def start(self) -> None:
        self.calls: deque[int] = deque()

    def step(self, x: Any) -> None:
        self.calls.append(1)


class Nested(Base):
    def start(self) -> None:
        self.of = {"inner": types.SimpleNamespace(n=[0])}

    def step(self, x: Any) -> None:
        self.of["inner"].n[0] += 1


class Array(Base):
    def start(self) -> None:
        self.values = np.zeros(50)

    def step(self, x: Any) -> None:
        self.values[7] += 1


class Counting(Base):
    def start(self) -> None:
        self.numbers = itertools.count()

    def step(self, x: Any) -> None:
        next(self.numbers)


class Cycle(Base):
    """Adds something at every seventh call only."""

    def start(self) -> None:
        self.numbers = itertools.cycle([0, 0, 0, 0, 0, 0, 1])

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) + next(self.numbers)


class Weak(Base):
    def step(self, x: Any) -> None:
        KEPT[self] = KEPT.get(self, 0) + 1


class Swaps(Base):
    def step(self, x: Any) -> None:
        self.fc.__class__ = Other if type(self.fc) is nn.Linear else nn.Linear


class Other(nn.Linear):
    pass


class Hooks(Base):
    def step(self, x: Any) -> None:
        self.fc.register_forward_hook(lambda module, given, result: result * 2)


class Numbers(Base):
    def start(self) -> None:
        self.generator = random.Random(3)

    def step(self, x: Any) -> None:
        self.generator.random()


class Dtype(Base):
    def step(self, x: Any) -> None:
        double = torch.get_default_dtype() is torch.float64
        torch.set_default_dtype(torch.float32 if double else torch.float64)


STATE: dict[type[Base], str] = {
    Buffer: "model.seen",
    InPlace: "model.seen",
    Hidden: "model.seen",
    Weight: "model.fc.weight",
    Counter: "model.n",
    Toggle: "model.n",
    OfThree: "model.n",
    OfClass: "class OfClass: n",
    Global: "test_state.COUNT",
    Helper: "test_state.BOX",
    Closure: "count: n",
    Imported: "counted.CALLS",
    Default: "step.__defaults__[0][0]",
    Listed: "model.calls",
    Nested: "model.of['inner'].n[0]",
    Array: "model.values",
    Counting: "model.numbers",
    Cycle: "model.numbers",
    Weak: "test_state.KEPT",
    Swaps: "model.fc",
    Hooks: "model.fc._forward_hooks",
    Numbers: "model.generator",
    Dtype: "torch.get_default_dtype()",
}


@pytest.mark.parametrize("kind", STATE, ids=lambda kind: kind.__name__)
def test_what_changed_is_named(kind: type[Base], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    held = {name: value.clone() for name, value in model.fc.state_dict().items()}
    try:
        with pytest.raises(GraphError, match="the model changes itself when it runs") as caught:
            mase_hw.compile(model, X, out=tmp_path / "b")
    finally:
        torch.set_default_dtype(torch.float32)
    assert STATE[kind] in (caught.value.node or ""), str(caught.value)
    assert "later" in str(caught.value.got) and caught.value.remedy
    assert not list(tmp_path.iterdir())
    # It was a copy that ran.
    assert all(torch.equal(value, held[name]) for name, value in model.fc.state_dict().items())


class Noisy(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * random.random()


class Latched(Base):
    """Keeps what it saw first; the trace cannot."""

    first: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.first is None:
            self.first = 1.0 if isinstance(x, fx.Proxy) else float(x.abs().max())
        return self.fc(x) * self.first


class Delayed(Base):
    """Adds its last input to this one; the first time there is none, and it takes this one twice."""

    last: Any = None

    def forward(self, x: Tensor) -> Tensor:
        before = x if self.last is None or isinstance(x, fx.Proxy) else self.last
        self.last = None if isinstance(x, fx.Proxy) else x
        return self.fc(x) + before[:, :3]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Delayed, "different results for the same input"),
        (Noisy, "different results for the same input"),
        (Latched, "something else than the model"),
    ],
)
def test_what_shows_only_in_results(kind: type[Base], says: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    with pytest.raises(GraphError, match=says):
        mase_hw.compile(kind().eval(), X, out=tmp_path / "b")


def test_an_input_that_the_model_refuses() -> None:
    """Nobody promised that it takes the example the other way round."""

    class Picky(Base):
        def forward(self, x: Tensor) -> Tensor:
            if not torch.equal(x, X):
                raise ValueError("only this one")
            return self.fc(x)

    check_stateless(Picky().eval(), {"x": X})


def test_the_fingerprint_is_of_contents() -> None:
    """The same twice, other for one bit, and for objects that hold each other it ends."""
    model = Base()
    model.loop = {"self": model}  # type: ignore[assignment]
    model.odd = [torch.empty(0), torch.ones(2).to_sparse(), torch.empty(2, device="meta"), {1, 2}, b"x", 1 << 20_000]  # type: ignore[assignment]
    before = fingerprint(model)
    assert fingerprint(model) == before
    with torch.no_grad():
        model.fc.weight.view(torch.int32)[2, 4] ^= 1
    changed = {path for path, text in fingerprint(model).items() if before.get(path) != text}
    assert changed == {"model.fc.weight"}


def test_the_fingerprint_runs_no_code_of_what_it_looks_at() -> None:
    """A table of a class derived from dict may import a library when asked: what it and its attributes hold counts."""

    class Lazy(dict[str, int]):
        seen = 0

        def items(self) -> Any:
            raise AssertionError("asked")

    model, table = Base(), Lazy(a=1)
    vars(model)["table"] = table
    before = fingerprint(model)
    for change in (lambda: table.__setitem__("a", 2), lambda: setattr(table, "seen", 1)):
        change()
        after = fingerprint(model)
        assert after != before
        before = after
