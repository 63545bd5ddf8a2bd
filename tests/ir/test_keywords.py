"""Calls whose arguments are all given by keyword make the same graph as those that give them in order."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.catalogue import default_catalogue
from mase_hw.ir import MaseGraph
from mase_hw.ir.trace.signatures import signatures_of

X, Y, Z, IMAGE, KERNEL, CUBE, IDS = "x", "y", "z", "image", "kernel", "cube", "ids"
INPUTS: dict[str, Tensor] = {
    X: torch.rand(4, 4) + 0.1,
    Y: torch.rand(4, 4) + 0.1,
    Z: torch.rand(4, 4) + 0.1,
    IMAGE: torch.rand(1, 4, 6, 6),
    KERNEL: torch.rand(4, 4, 3, 3),
    CUBE: torch.rand(1, 4, 6, 6, 6),
    IDS: torch.tensor([[0, 1, 2, 1]]),
    "cube_kernel": torch.rand(4, 4, 3, 3, 3),
    "row": torch.rand(1, 4, 6),
    "row_kernel": torch.rand(4, 4, 3),
    "vector": torch.rand(4),
    "flag": torch.rand(4, 4) > 0.5,
    "scale": torch.tensor(2.0),
}
CANDIDATES: list[tuple[Any, ...]] = [
    *((X,), (X, Y), (X, 1), (X, 0.5), (X, Y, Z), (X, 0, 1), (X, [0, 1]), (X, (2, 2, 4)), (X, 0, [2, 2]), ([X, Y], 1)),
    *(("flag",), ("flag", "flag"), ("flag", X, Y), (X, "flag", 0.5), (X, 0.5, 2.0), (X, "vector"), (X, 1, IDS)),
    *(
        (IMAGE, KERNEL),
        (CUBE, "cube_kernel"),
        ("row", "row_kernel"),
        (IMAGE, 2),
        (CUBE, 2),
        ("row", 2),
        (IMAGE, 2.0, 2),
    ),
    *((IMAGE, [2, 2]), (CUBE, [2, 2, 2]), ("row", [2]), (IMAGE, (3, 3), (1, 1)), ("row", 2.0, 2), (CUBE, 2.0, 2)),
    *((IDS, X), (IDS, 4), (X, IDS), (X, 0, "ids_row"), (X, [4]), (X, 2), (X, 1, 0, 2), (X, [1], [1]), (X, "scale")),
    *(
        (IMAGE, "vector", "vector"),
        (X, Y, KERNEL),
        (X, IDS, 1),
        ([1, 2],),
        ([2, 2], 3.0),
        (4,),
        (X, [1, 1]),
        ("unfolded",),
    ),
    *((X, 2, 1), ([X, Y],), (X, "vector", 0.5), ("unfolded", (4, 4), (2, 2)), (X, X, "bilinear"), (IMAGE, [1, 1])),
    *((X, torch.float64), ("x_cpu",), (X, [2]), (X, [1, 0]), (CUBE, (2, 2)), (IMAGE, 1, [2, 2]), (IMAGE, 1.0)),
]
INPUTS |= {"ids_row": torch.tensor([0, 2]), "unfolded": torch.rand(1, 16, 9), "bilinear": torch.rand(3, 4, 4)}
CALLED_IN_ORDER = frozenset({"builtins", "_operator", "math"})
"""Modules whose functions Python does not call by keyword."""


class Call(nn.Module):
    """A function, or the method of that name, with inputs in the place of their names."""

    def __init__(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.target, self.args, self.kwargs = target, args, kwargs

    def forward(self, given: dict[str, Tensor]) -> Any:
        return self.call(given)

    def call(self, given: Any) -> Any:
        def put(value: Any) -> Any:
            if isinstance(value, list) and value and isinstance(value[0], str):
                return [given[name] for name in value]
            return given[value] if isinstance(value, str) and value in INPUTS else value

        args, kwargs = [put(a) for a in self.args], {k: put(v) for k, v in self.kwargs.items()}
        if isinstance(self.target, str):
            return getattr(args[0], self.target)(*args[1:], **kwargs)
        return self.target(*args, **kwargs)


def runs(call: Call) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call.call({name: value.clone() for name, value in INPUTS.items()})
        except Exception:  # whatever does not take these arguments says so in its own way
            return False
    return True


def by_keyword(target: Any, args: tuple[Any, ...]) -> Iterator[Call]:
    """The call with names for its arguments, as far as they have some; a method has its tensor before them."""
    first = 1 if isinstance(target, str) else 0
    for signature in signatures_of(target):
        parameters = list(signature.parameters.values())[first : len(args)]
        names = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        if names and len(names) == len(args) - first:
            yield Call(target, args[:first], dict(zip(names, args[first:], strict=True)))


def nodes_of(call: Call) -> list[str]:
    graph = MaseGraph(torch.fx.symbolic_trace(_Flat(call))).fx_graph
    return [repr((n.op, n.target, n.args, n.kwargs)) for n in graph.nodes]


class _Flat(nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(
        self, x: Any, y: Any, z: Any, image: Any, kernel: Any, cube: Any, ids: Any, cube_kernel: Any, row: Any,
        row_kernel: Any, vector: Any, flag: Any, scale: Any, ids_row: Any, unfolded: Any, bilinear: Any,
    ) -> Any:  # fmt: skip
        given = dict(
            zip(INPUTS, (x, y, z, image, kernel, cube, ids, cube_kernel, row, row_kernel, vector), strict=False)
        )
        return self.call.call(
            given | dict(zip(list(INPUTS)[11:], (flag, scale, ids_row, unfolded, bilinear), strict=True))
        )


TARGETS = [
    target
    for op in default_catalogue()
    for target in (*op.functions, *op.methods)
    if isinstance(target, str)
    or (getattr(target, "__module__", None) or "torch").split(".")[0] not in (*CALLED_IN_ORDER, "mase_hw")
]


ALWAYS = frozenset({torch.relu, torch.add, torch.where, torch.conv2d, torch.softmax, "masked_fill", "clamp", "to"})
TENTH = [target for place, target in enumerate(TARGETS) if target in ALWAYS or place % 10 == 0]


@pytest.mark.parametrize(
    ("targets", "least"), [(TENTH, 40), pytest.param(TARGETS, 400, marks=pytest.mark.slow)], ids=["a tenth", "all"]
)
def test_every_call_by_keyword(targets: list[Any], least: int) -> None:
    """Of every function and method of the catalogue that takes more than its tensor."""
    tried, calls = set(), 0
    for target in targets:
        for args in (a for a in CANDIDATES if not isinstance(target, str) or (isinstance(a[0], str) and len(a) > 1)):
            call = Call(target, args, {})
            named = next(filter(runs, by_keyword(target, args)), None) if runs(call) else None
            if named is None:
                continue
            tried.add(target)
            calls += 1
            assert nodes_of(named) == nodes_of(call), (target, args)
            break
    assert calls >= least
    assert tried >= ALWAYS


def test_what_has_no_order_stays_by_keyword() -> None:
    calls = {
        "alpha": Call(torch.add, (), {"input": X, "other": Y, "alpha": 2}),
        "non_blocking": Call("to", (X, "cpu"), {"non_blocking": True}),
    }
    assert nodes_of(calls["alpha"])[-2].endswith("(x, y), {'alpha': 2})")
    assert nodes_of(calls["non_blocking"])[-2].endswith("(x, 'cpu'), {'non_blocking': True})")
