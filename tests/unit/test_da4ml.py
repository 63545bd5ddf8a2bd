"""The adapter of da4ml: its lists of operations become graphs of ours, or it says why not."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mase_hw.errors import ToolError
from mase_hw.ops.unrolled import _da4ml

MATRIX = [[3, 0, -5], [7, 6, 1], [0, 0, 0]]
ENDS = [(-8, 7)] * 3


def answering(monkeypatch: pytest.MonkeyPatch, version: str, *stages: Any) -> None:
    """Put a da4ml of that version in place that answers with these stages."""
    package, part = ModuleType("da4ml"), ModuleType("da4ml.cmvm")
    package.__version__ = version  # type: ignore[attr-defined]
    part.QInterval = lambda low, high, step: (low, high, step)  # type: ignore[attr-defined]
    part.solve = lambda kernel, **_: SimpleNamespace(solutions=stages)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "da4ml", package)
    monkeypatch.setitem(sys.modules, "da4ml.cmvm", part)


def op(id0: int, id1: int, opcode: int, data: int = 0) -> SimpleNamespace:
    """An operation as da4ml lists it."""
    return SimpleNamespace(id0=id0, id1=id1, opcode=opcode, data=data)


def stage(ops: list[Any], outputs: list[tuple[int, int, bool]], shifts: list[int]) -> SimpleNamespace:
    """A stage: operations, outputs as place, shift and sign, shifts of the inputs."""
    places, moved, signs = zip(*outputs, strict=True)
    return SimpleNamespace(ops=ops, out_idxs=places, out_shifts=moved, out_negs=signs, inp_shifts=shifts)


def test_operations_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages with every kind of shift and sign: -(4 x - y / 2 * 2) + ..., by hand."""
    inputs = [op(0, -1, -1), op(1, -1, -1)]
    # a = 2 x; s2 = a + 4 y; s3 = s2 - 2 a; first output -2 s2, second s3, third nothing.
    first = stage([*inputs, op(0, 1, 0, 2), op(2, 0, 1, 1)], [(2, 1, True), (3, 0, False), (-1, 0, False)], [1, 0])
    # The second stage adds the first two: out = -2 s2 + s3 * 8, and passes zero on.
    second = stage([*inputs, op(0, 1, 0, 3)], [(2, 0, False), (-1, 0, False)], [0, 0, 0])
    answering(monkeypatch, "0.6.7", first, second)
    graph = _da4ml.solve([[0, 0], [0, 0]], [5, -3], ENDS[:2])
    for x, y in ((3, -4), (-8, 7), (0, 1)):
        s2 = 2 * x + 4 * y
        assert graph.evaluate([x, y]) == [-2 * s2 + 8 * (s2 - 4 * x) + 5, -3]


@pytest.mark.parametrize(
    ("version", "ops", "says"),
    [("0.7.0", [], "this version of da4ml"), ("0.6.0", [op(0, -1, 2)], "is no addition")],
)
def test_what_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, ops: Any, says: str) -> None:
    answering(monkeypatch, version, stage(ops, [(0, 0, False)], [0]))
    with pytest.raises(ToolError, match=says):
        _da4ml.solve(MATRIX, [0] * 3, ENDS)


def test_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "da4ml", None)
    with pytest.raises(ToolError, match="da4ml is not installed"):
        _da4ml.solve(MATRIX, [0] * 3, ENDS)


@pytest.mark.parametrize("seed", range(6))
def test_the_real_one(seed: int) -> None:
    """What it finds for random matrices is the product."""
    pytest.importorskip("da4ml", reason="needs the extra da4ml: pip install 'mase-hw[da4ml]'")
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-128, 128, (5, 7)) * (rng.random((5, 7)) < 0.8)
    constants = rng.integers(-50, 50, 5).tolist()
    graph = _da4ml.solve(matrix.tolist(), constants, [(-128, 127)] * 7)
    x = rng.integers(-128, 128, 7)
    assert graph.evaluate(x.tolist()) == (matrix @ x + np.array(constants)).tolist()
