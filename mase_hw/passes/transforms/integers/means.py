"""Averages of scaled integers as exact sums: the requantisation behind them divides and rounds, once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mase_hw.errors import UnsupportedError
from mase_hw.ops.reductions.reduce import dims_of

SLIDING = ("avg_pool1d", "avg_pool2d")
ADAPTIVE = {"adaptive_avg_pool1d": "avg_pool1d", "adaptive_avg_pool2d": "avg_pool2d"}
MEANS = (*SLIDING, *ADAPTIVE, "mean", "mean_over")
"""Ops that average."""


def sum_in_place_of(
    name: str, attributes: Mapping[str, Any], shape: Sequence[int], out: Sequence[int], node: str
) -> tuple[str, dict[str, Any], int, bool]:
    """The op that gives the sums of an average.

    Args:
        name: The op, one of :data:`MEANS`.
        attributes: Its attributes.
        shape: Of the data.
        out: Of the result.
        node: The node, for errors.

    Returns:
        The op, its attributes, how many numbers each sum has, and whether zeros of a border are among them.

    Raises:
        UnsupportedError: If the sums have not equally many.
    """
    if name not in SLIDING and name not in ADAPTIVE:
        kept = {key: attributes[key] for key in ("dim", "keepdim") if key in attributes}
        return "sum", kept, math.prod(shape[d] for d in dims_of(kept, len(shape))), False
    dims = 1 if name.endswith("1d") else 2
    if name in ADAPTIVE:
        sizes = list(zip(shape[-dims:], out[-dims:], strict=True))
        if any(size % wanted for size, wanted in sizes):
            raise _uneven(node, "an adaptive pool whose windows differ in size")
        kernel = tuple(size // wanted for size, wanted in sizes)
        return (
            ADAPTIVE[name],
            {"kernel_size": kernel, "stride": kernel, "divisor_override": 1},
            math.prod(kernel),
            False,
        )
    padding, kernel = (_each(attributes.get(key) or 0, dims) for key in ("padding", "kernel_size"))
    bordered = any(padding)
    if attributes.get("ceil_mode") or (bordered and not attributes.get("count_include_pad", True)):
        raise _uneven(node, "a pool whose windows at the border count fewer elements")
    count = attributes.get("divisor_override") or math.prod(kernel)
    return name, {**attributes, "divisor_override": 1}, int(count), bordered


def _each(value: Any, dims: int) -> tuple[int, ...]:
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    return given * dims if len(given) == 1 else given


def _uneven(node: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} has no one divisor, which scaled integers need",
        node=node,
        remedy="use windows of one size, or a border that counts as zeros",
    )
