"""How a tensor is written as SystemVerilog parameters, in MASE's names, and read back as a stream."""

from __future__ import annotations

import math
from typing import Any

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.streams import Direction, Stream

DIMS = 3
"""Dimensions of an activation's parameters; outer ones are multiplied into the last."""
CAST_SLICE = ("lib/fixed_cast_unit.sv", "lib/register_slice.sv", "lib/fixed_cast_slice.sv")
"""Files of ``fixed_cast_slice``, which casts all lanes of a beat and keeps the result in a register."""


def fold_shape(shape: tuple[int, ...], dims: int = DIMS) -> tuple[int, ...]:
    """Sizes innermost first, exactly ``dims`` of them: padded with 1, outer dimensions multiplied together."""
    sizes = list(reversed(shape)) or [1]
    if len(sizes) > dims:
        sizes = [*sizes[: dims - 1], math.prod(sizes[dims - 1 :])]
    return tuple(sizes + [1] * (dims - len(sizes)))


def tensor_params(
    prefix: str, shape: tuple[int, ...], fmt: FixedFormat, parallelism: tuple[int, ...], dims: int = DIMS
) -> dict[str, int]:
    """The parameters ``<PREFIX>_PRECISION_0/1``, ``_SIGNED``, ``_TENSOR_SIZE_DIM_n``, ``_PARALLELISM_DIM_n``."""
    lanes = parallelism + (1,) * (dims - len(parallelism))
    values = {
        f"{prefix}_PRECISION_0": fmt.width,
        f"{prefix}_PRECISION_1": fmt.frac_width,
        f"{prefix}_SIGNED": int(fmt.signed),
    }
    values |= {f"{prefix}_TENSOR_SIZE_DIM_{i}": size for i, size in enumerate(fold_shape(shape, dims))}
    return values | {f"{prefix}_PARALLELISM_DIM_{i}": lanes[i] for i in range(dims)}


def format_of(params: Any, prefix: str) -> FixedFormat:
    """The format of a tensor, from the parameters; one with a zero point has scaled integers, of a scale of 1."""
    width, frac = getattr(params, f"{prefix}_PRECISION_0"), getattr(params, f"{prefix}_PRECISION_1")
    signed, zero = bool(getattr(params, f"{prefix}_SIGNED")), getattr(params, f"{prefix}_ZERO_POINT", 0)
    return ScaledFormat.make(width, 1.0, zero, signed=signed) if zero else FixedFormat(width, frac, signed)


def shape_of(params: Any, prefix: str, dims: int = DIMS) -> tuple[int, ...]:
    """The folded shape of a tensor, outermost dimension first, from the parameters."""
    return tuple(getattr(params, f"{prefix}_TENSOR_SIZE_DIM_{i}") for i in reversed(range(dims)))


def stream_of(params: Any, prefix: str, direction: Direction, *, dims: int = DIMS, repeat: int = 1) -> Stream:
    """The stream of a tensor, from the parameters; the port is the prefix in lower case."""
    lanes = tuple(getattr(params, f"{prefix}_PARALLELISM_DIM_{i}") for i in range(dims))
    return Stream(
        prefix.lower(), direction, shape_of(params, prefix, dims), format_of(params, prefix), lanes, repeat=repeat
    )


def lanes_within(node: str, name: str, lanes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Parallelism along the innermost dimension, checked.

    Raises:
        UnsupportedError: If it exceeds the tensor, or an outer dimension is to be parallel.
    """
    size = shape[-1] if shape else 1
    if not 1 <= lanes[0] <= size or any(p != 1 for p in lanes[1:]):
        raise UnsupportedError(
            "this parallelism is not possible here",
            node=node,
            field=f"parallelism.{name}",
            got=list(lanes),
            expected=f"1 to {size} lanes along the innermost dimension, 1 along the others",
            remedy=f"lower hardware.parallelism.{node}.{name}",
        )
    return lanes[0]
