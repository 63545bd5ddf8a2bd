"""The solver of da4ml, where it is installed: its list of operations becomes a graph of ours."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mase_hw.errors import ToolError
from mase_hw.ops.unrolled._graph import Graph
from mase_hw.ops.unrolled._solver import finished
from mase_hw.ops.unrolled._trees import Signed, moved, sum_of

VERSIONS = "0.6"
"""Versions whose lists of operations are understood."""


def solve(matrix: Sequence[Sequence[int]], constants: Sequence[int], inputs: Sequence[tuple[int, int]]) -> Graph:
    """The graph of ``matrix @ x + constants`` as da4ml finds it; arguments as of our own solver.

    Raises:
        ToolError: If da4ml is not installed, in another version, or answers with operations that are not additions.
    """
    api = _installed()
    kernel = np.ascontiguousarray(np.array(matrix, dtype=np.float32).T)  # it reads the memory as it lies
    if (kernel.T.astype(np.int64) != np.array(matrix, dtype=object)).any():
        raise ToolError("da4ml takes weights of up to 24 bits", got="a wider one", remedy="use our own solver")
    intervals = [api.QInterval(float(low), float(high), 1.0) for low, high in inputs]
    found = api.solve(kernel, qintervals=intervals, adder_size=1, carry_size=-1)
    graph = Graph(inputs)
    terms: list[Signed | None] = [((i, 0, 0), 1) for i in range(len(inputs))]
    for part in found.solutions:
        terms = _outputs(graph, part, terms)
    graph.outputs = finished(graph, terms, constants)
    return graph


def _installed() -> Any:
    try:
        version = importlib.import_module("da4ml").__version__
        api = importlib.import_module("da4ml.cmvm")
    except ImportError as error:
        raise ToolError(
            "da4ml is not installed", got=str(error), remedy="pip install 'mase_hw[da4ml]', or use our own solver"
        ) from error
    if not str(version).startswith(f"{VERSIONS}."):
        raise ToolError("this version of da4ml is not known", got=version, expected=f"{VERSIONS}.*")
    return api


def _outputs(graph: Graph, part: Any, given: Sequence[Signed | None]) -> list[Signed | None]:
    """What one stage of da4ml computes from terms with signs."""
    values: list[Signed | None] = []
    for op in part.ops:
        if op.opcode == -1:
            values.append(moved(given[op.id0], int(part.inp_shifts[op.id0]), False))
        elif op.opcode in (0, 1):
            one, other = values[op.id0], moved(values[op.id1], int(op.data), op.opcode == 1)
            values.append(sum_of(graph, one, other))
        else:
            raise ToolError("an operation of da4ml is no addition", got=op.opcode, remedy="use our own solver")
    found = []
    for index, shift, negative in zip(part.out_idxs, part.out_shifts, part.out_negs, strict=True):
        found.append(None if index < 0 else moved(values[index], int(shift), bool(negative)))
    return found
