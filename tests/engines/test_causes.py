"""What a diagnosis says a wrong element was computed from: exactly the elements of the definition of the op."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.formats import FixedFormat
from mase_hw.simulate.diagnose.inputs import SHOWN, InputValues, input_values
from mase_hw.simulate.result import find_first_mismatch
from mase_hw.streams import Stream
from tests.unit.pipeline import seeded

Index = tuple[int, ...]


class Net(nn.Module):
    """Every kind of dependence: a window, a largest element, the same element twice, a row, with a view between."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2)
        self.fc = nn.Linear(12, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.pool(self.conv(x)) + y
        return self.fc(torch.flatten(h, 1)).clamp(-1.0, 1.0)


X, Y = (torch.rand(shape, generator=torch.Generator().manual_seed(7)) - 0.5 for shape in ((1, 2, 4, 4), (1, 3, 2, 2)))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return mase_hw.compile(seeded(Net).eval(), (X, Y), out=tmp_path_factory.mktemp("causes") / "b").graph


def window(at: Index) -> set[Index]:
    """Of a 3 x 3 convolution of two channels with padding 1 on 4 x 4."""
    _, _, row, column = at
    near = itertools.product(range(2), range(row - 1, row + 2), range(column - 1, column + 2))
    return {(0, c, i, j) for c, i, j in near if 0 <= i < 4 and 0 <= j < 4}


CASES: dict[str, tuple[str, tuple[int, ...], list[tuple[str, Callable[[Index], set[Index]]]]]] = {
    "conv": ("conv", (1, 3, 4, 4), [("data_in_0", window)]),
    "pool": (
        "pool",
        (1, 3, 2, 2),
        [("data_in_0", lambda at: {(0, at[1], 2 * at[2] + i, 2 * at[3] + j) for i in (0, 1) for j in (0, 1)})],
    ),
    "add": ("add", (1, 3, 2, 2), [("data_in_0", lambda at: {at}), ("data_in_1", lambda at: {at})]),
    "fc": ("fc", (1, 4), [("data_in_0", lambda at: {(0, i) for i in range(12)})]),
    "clamp": ("clamp", (1, 4), [("data_in_0", lambda at: {at})]),
}


@pytest.mark.parametrize("name", CASES)
def test_elements(graph: Any, name: str) -> None:
    node, shape, expected = CASES[name]
    inputs = {"x": X, "y": Y}
    seen: dict[str, Tensor] = {}
    module = graph.meta_of(graph.node(node)).module
    hook = module.register_forward_pre_hook(lambda _, args: seen.update(enumerate(args)))  # type: ignore[arg-type]
    with torch.no_grad():
        graph.model(**inputs)
    hook.remove()
    for flat, at in enumerate(itertools.product(*map(range, shape))):
        found = input_values(graph, node, flat, inputs)
        assert [values.port for values in found] == [port for port, _ in expected]
        for number, (values, (_, definition)) in enumerate(zip(found, expected, strict=True)):
            assert set(values.elements) == definition(at), f"{name}{list(at)}"
            given = [float(seen[number][index]) for index in values.elements]  # type: ignore[index]
            assert [m * values.scale for m in values.mantissas] == given


def test_text() -> None:
    """A few values, and how many more there are."""
    many = InputValues("data_in_0", "conv", tuple((0, i) for i in range(SHOWN + 5)), tuple(range(SHOWN + 5)), 0.25)
    assert str(many).startswith("data_in_0 (conv): [0, 0] = 0 (0), [0, 1] = 1 (0.25), [0, 2] = 2 (0.5)")
    assert str(many).endswith(f"[0, {SHOWN - 1}] = {SHOWN - 1} ({(SHOWN - 1) / 4:g}), and 5 more in the JSON")
    few = InputValues("data_in_0", "conv", ((3,),), (-2,), 0.5)
    assert str(few) == "data_in_0 (conv): [3] = -2 (-1)"


def test_an_op_without_a_gradient(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which nothing is known: all elements."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no gradient")

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    (values,) = input_values(graph, "conv", 0, {"x": X, "y": Y})
    assert len(values.elements) == X.numel()


def test_every_lane_that_differs() -> None:
    """Of the first beat that does, pad lanes included."""
    stream = Stream("data_out_0", "out", (2, 5), FixedFormat(8, 4), (3,))
    expected = np.arange(12).reshape(4, 3)
    found = expected.copy()
    found[1] += [1, 0, 7]  # the second beat of the first row: elements 3 and 4, and a pad lane
    count, first = find_first_mismatch(stream, expected, found)
    assert count == 1 and first is not None and first.lanes_wrong == 2
    assert [(d.lane, d.index, d.expected, d.found) for d in first.lanes] == [(0, (0, 3), 3, 4), (2, None, 5, 12)]
    assert first.lanes_text() == "lane 0 [0, 3] expected 3 found 4; lane 2 pad expected 5 found 12"
    assert first.to_json()["lanes"][1] == {"lane": 2, "index": None, "expected": 5, "found": 12}
    assert first.to_json()["lanes_wrong"] == 2
