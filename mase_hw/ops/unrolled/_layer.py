"""A layer of constant weights as a graph: what the constants are, and what of the cast they take over."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Rounding
from mase_hw.opdef import Arithmetic
from mase_hw.ops.unrolled._da4ml import solve as solve_with_da4ml
from mase_hw.ops.unrolled._graph import Graph
from mase_hw.ops.unrolled._solver import digits, solve

MOST_DIGITS = 16_384
"""Most non-zero digits of the weights of an unrolled layer."""
SOLVERS = {"own": solve, "da4ml": solve_with_da4ml}
"""What finds the additions, by the names in the configuration."""
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Layer:
    """An unrolled layer.

    Args:
        graph: Its sums, half an output LSB included where ``halves`` says so.
        frac: Fraction width of the sums.
        halves: Of every output: whether half an output LSB is in the sum already, so that rounding drops bits.
    """

    graph: Graph
    frac: int
    halves: tuple[bool, ...]


@functools.lru_cache(maxsize=64)
def _graph(matrix: Rows, constants: tuple[int, ...], fmt: FixedFormat, solver: str) -> Graph:
    return SOLVERS[solver](matrix, constants, [(fmt.min_mantissa, fmt.max_mantissa)] * len(matrix[0]))


def layer_of(node: str, a: Arithmetic, parameters: Mapping[str, Tensor], solver: str) -> Layer:
    """The graph of ``cast(W x + b)``.

    Args:
        node: Its name, for errors.
        a: Formats and cast modes.
        parameters: Mantissas of ``weight (out, in, ...)``, and perhaps of ``bias`` and ``weight_shift``.
        solver: A key of :data:`SOLVERS`.

    Raises:
        ToolError: If the solver is not installed.
        UnsupportedError: If there are too many constants.
    """
    weights = [[int(w) for w in row] for row in parameters["weight"].flatten(1).tolist()]
    shifts = _integers(parameters.get("weight_shift"), len(weights))
    biases = _integers(parameters.get("bias"), len(weights))
    frac = product_frac = a.formats["data_in_0"].frac_width + a.formats["weight"].frac_width
    if "bias" in parameters:
        frac = max(frac, a.formats["bias"].frac_width)
        biases = [b << (frac - a.formats["bias"].frac_width) for b in biases]
    matrix = tuple(
        tuple(w << (shift + frac - product_frac) for w in row) for row, shift in zip(weights, shifts, strict=True)
    )
    found = sum(len(digits(w)) for row in matrix for w in row)
    if found > MOST_DIGITS:
        raise UnsupportedError(
            "a layer has too many constants to be unrolled",
            node=node,
            field=f"hardware.implementation.{node}",
            got=f"{len(matrix)} x {len(matrix[0])} weights of {found} non-zero digits",
            expected=f"at most {MOST_DIGITS} digits",
            remedy="fold this layer ('tree', 'chain', 'packed', 'logic'), or give its weights fewer bits or more zeros",
        )
    drop = frac - a.formats["data_out_0"].frac_width
    fmt = a.formats["data_in_0"]
    rounded = drop > 0 and a.rounding in (Rounding.HALF_EVEN, Rounding.HALF_UP)
    halves = tuple(rounded and drop <= _width(row, b, fmt) for row, b in zip(matrix, biases, strict=True))
    constants = tuple(b + (1 << (drop - 1) if half else 0) for b, half in zip(biases, halves, strict=True))
    return Layer(_graph(matrix, constants, fmt, solver), frac, halves)


def _integers(values: Tensor | None, count: int) -> list[int]:
    return [0] * count if values is None else [int(v) for v in values.flatten().tolist()]


def _width(row: Sequence[int], constant: int, fmt: FixedFormat) -> int:
    """Bits of the largest magnitude of a sum."""
    most = max(abs(fmt.min_mantissa), fmt.max_mantissa)
    return (sum(map(abs, row)) * most + abs(constant)).bit_length()
