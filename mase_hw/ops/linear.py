"""Linear: exact products, sums and bias, one cast at the end.

``y[..., o] = cast(sum_i x[..., i] * w[o, i] * 2**s[o] + b[o])``, where ``s`` is the optional ``weight_shift`` of
weights with a format per output channel; of weights in block floating point every block of inputs has one of its own,
``s[o, b]``. Integers in groups have a factor ``f[o, b]`` in place of ``2**s[o, b]``, with ``f`` in the place of ``s``.
The products and the bias are aligned to the finer of their two fraction
widths, so the sum is exact; :func:`mase_hw.numerics.cast` rounds once.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.formats import BlockFormat, FixedFormat, GroupFormat, Overflow, ScaledUse
from mase_hw.hardware.params import Cast, Matrix, Multiplication, Tensor3, Vector, port, resized
from mase_hw.nn.values import OnValues, add_parts, cast_to, operands
from mase_hw.numerics import as_carrier, carrier, cast, straight_through, wider
from mase_hw.numerics.exact_sums import SumOfProducts, exact_linear, reduced_matmul
from mase_hw.opdef import Arithmetic, Hardware, Latency, OpDef, Request, SomeChannels
from mase_hw.ops._scaled import exact_sum, exact_sums
from mase_hw.ops._tensors import finest_bias, lanes_within
from mase_hw.ops.products._blocks import BlockParams, block_of, shared_by, whole_blocks
from mase_hw.ops.products._linear_cases import cases
from mase_hw.ops.products._multipliers import (
    IMPLEMENTATIONS,
    choose,
    dot_latency,
    multiplies,
    narrow,
    stored,
)
from mase_hw.ops.products._schedule import ORDERS, inputs_first, taken
from mase_hw.steps import Counts, Steps
from mase_hw.streams import ceil_div


class LinearParams(BlockParams, frozen=True):
    """Parameters of ``fixed_linear``; see the module for their meaning."""

    data_in_0: Tensor3
    weight: Matrix
    has_bias: bool
    bias: Vector
    has_weight_shift: bool
    weight_shift: Vector
    weight_block: int
    weight_factors: bool
    data_out_0: Tensor3
    cast: Cast
    multiplication: Multiplication
    inputs_first: bool
    ahead: bool

    @property
    def rows(self) -> int:
        """Vectors per frame."""
        return self.data_in_0.size[1] * self.data_in_0.size[2]

    @property
    def in_tiles(self) -> int:
        """Input beats a vector."""
        return self.data_in_0.tiles[0]

    @property
    def out_tiles(self) -> int:
        """Output beats a vector."""
        return self.data_out_0.tiles[0]

    @property
    def run(self) -> int:
        """Steps a sum."""
        return self.in_tiles

    @property
    def products(self) -> int:
        """Products of an output lane and step."""
        return self.data_in_0.lanes[0]

    def repetitions(self) -> dict[str, int]:
        """The parameters come once for every vector."""
        shifts = self.rows * (self.in_tiles if self.inputs_first else 1)
        return {"weight": self.rows, "bias": self.rows, "weight_shift": shifts}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (..., in)``, ``weight (out, in)``, optional ``bias``, ``weight_shift (out,)`` -> ``data_out_0``.

    Weights in block floating point have shifts ``(out, blocks)``.
    """
    x, w, b, shift = t["data_in_0"], t["weight"], t.get("bias"), t.get("weight_shift")
    sums = SumOfProducts.of(a.formats, x.shape[-1])
    dtype = carrier(sums.bound, wide=True)  # refuses what fits none, before anything is multiplied
    fmt = a.formats["weight"]
    if isinstance(fmt, BlockFormat) and shift is not None:
        parts = (exact_linear(x[..., s], w[:, s], sums.products) for s in fmt.blocks(x.shape[-1]))
        wide = (as_carrier(part, wider(part.dtype, dtype)) for part in parts)
        factors = fmt.factors(shift.to(torch.int64)).unbind(1)
        total = functools.reduce(operator.add, (p * as_carrier(f, p.dtype) for p, f in zip(wide, factors, strict=True)))
        acc = sums.finish(total, b, None, dtype)
    else:
        acc = sums.finish(exact_linear(x, w, sums.products), b, shift, dtype)
    out = cast(acc, sums.frac, a.formats["data_out_0"], a.rounding, a.overflow)
    if not acc.dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        out = straight_through(out, _surrogate(a, t, sums))
    return {"data_out_0": out}


def _surrogate(a: Arithmetic, t: Mapping[str, Tensor], sums: SumOfProducts) -> Tensor:
    """The result in float64, for the gradient only: int64 carries none."""
    fmt = a.formats["data_out_0"]
    weight, shift = t["weight"].double(), t.get("weight_shift")
    if shift is not None:
        given = a.formats["weight"]
        weight = weight * given.spread(given.factors(shift).double(), weight.shape)
    acc = nn.functional.linear(t["data_in_0"].double(), weight)
    result = sums.finish(acc, t.get("bias"), None) * math.ldexp(1.0, fmt.frac_width - sums.frac)
    return result.clamp(fmt.min_mantissa, fmt.max_mantissa) if a.overflow is Overflow.SATURATE else result


def _on_values(a: Arithmetic, t: Mapping[str, Tensor]) -> OnValues | None:
    last = cast_to(a)
    found = operands(a, t, last)
    if last is None or found is None:
        return None
    ((first, weight), *rest), bias = found

    def run(x: Tensor) -> Tensor:
        if not rest:
            return nn.functional.linear(x, weight, bias)
        sums = [nn.functional.linear(x[..., part], more) for part, more in rest]
        return add_parts([nn.functional.linear(x[..., first], weight, bias), *sums], last)

    return OnValues(run, last, lambda: not reduced_matmul())


def _channels(a: Arithmetic, t: Mapping[str, Tensor], numbers: Sequence[int]) -> SomeChannels:
    """Some elements of the output vectors."""
    own = {name: value[list(numbers)] for name, value in t.items() if name != "data_in_0"}
    return a, {"data_in_0": t["data_in_0"], **own}, -1


def _build(r: Request) -> LinearParams:
    formats, shapes = r.arithmetic.formats, r.shapes
    p_in = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shapes["data_in_0"])
    p_out = lanes_within(r.node, "data_out_0", r.parallelism["data_out_0"], shapes["data_out_0"])
    columns = shapes["data_in_0"][-1]
    p_in = whole_blocks(r, p_in, shared_by(r), columns)
    block = block_of(r, columns, p_in, ceil_div(columns, p_in), columns)
    filled = columns % p_in > 0 or shapes["data_out_0"][-1] % p_out > 0
    weight_stored = stored(formats["weight"], filled)
    bias_format = formats.get("bias", weight_stored)
    shift_format = formats.get("weight_shift", FixedFormat(1, 0, signed=False))
    return LinearParams(
        data_in_0=port(shapes["data_in_0"], formats["data_in_0"], p_in),
        weight=port(shapes["weight"], weight_stored, p_in, p_out, dims=2),
        has_bias="bias" in shapes,
        bias=port(shapes["weight"][:1], bias_format, p_out, dims=1),
        has_weight_shift="weight_shift" in shapes,
        weight_shift=port(shapes["weight"][:1], shift_format, p_out, dims=1),
        weight_block=block,
        weight_factors=block > 0 and isinstance(formats["weight"], GroupFormat),
        data_out_0=port(shapes["data_out_0"], formats["data_out_0"], p_out),
        cast=r.arithmetic.modes,
        multiplication=choose(r, p_out, p_in),
        inputs_first=r.order == "inputs_first" and p_in < columns and p_out < shapes["data_out_0"][-1],
        ahead=r.fast,
    )


def _latency(p: LinearParams) -> Latency:
    tiles, passes, rows = p.in_tiles, p.out_tiles, p.rows
    # The held activation, dot product, shifter, accumulator, output FIFO.
    pipe = p.ahead + 2 + dot_latency(p.data_in_0.lanes[0], p) + p.has_weight_shift
    if p.inputs_first:
        return Latency.from_steps(inputs_first(rows, tiles, passes, pipe))
    # A step takes an activation beat: row by row, pass by pass over the row, tile by tile.
    row, tile = (axis.reshape(-1) for axis in np.indices((rows, tiles)))
    first = row * (passes * tiles) + tile
    steps = Steps.at(
        rows * passes * tiles,
        needed=(first,),
        # The replay buffer reads its memory into an output register one step ahead: the slot of a beat is free again
        # when the step before the one that uses the beat is done.
        freed=(first + ((passes - 1) * tiles - 1 if passes > 1 else 0),),
        emitted=np.arange(1, rows * passes + 1) * tiles - 1,
        delay=(2 if passes > 1 else 0,),
        pipe=pipe,
        # A single pass needs no buffer and goes straight through.
        room=(2 * tiles if passes > 1 else 0,),
        queue=max((pipe + tiles) // tiles + 1, 2),
    )
    return Latency.from_steps(steps)


def _takes(p: LinearParams) -> dict[str, Counts]:
    """A weight that is taken a step ahead of its activation could not be late."""
    if p.ahead:
        return {}
    return p.with_shifts(taken(p.rows, p.in_tiles, p.out_tiles, p.inputs_first))


def _tiled(p: LinearParams) -> tuple[LinearParams, int] | None:
    """The rows of all output tiles as rows of one."""
    tiles, lanes = p.out_tiles, p.data_out_0.lanes[0]
    if p.inputs_first or p.weight_block or p.data_out_0.size[0] % lanes:
        return None
    sized = {
        "data_in_0": (*p.data_in_0.size[:2], p.data_in_0.size[2] * tiles),
        "weight": (p.weight.size[0], lanes),
        "bias": (lanes,) if p.has_bias else p.bias.size,
        "weight_shift": (lanes,) if p.has_weight_shift else p.weight_shift.size,
        "data_out_0": (lanes, p.data_out_0.size[1], p.data_out_0.size[2] * tiles),
    }
    return resized(p, sized), tiles


def _multipliers(p: LinearParams) -> int:
    shared = ceil_div(p.data_out_0.lanes[0], p.multiplication.packed)
    return p.data_in_0.lanes[0] * shared if multiplies(p) else 0


def _exact(formats: Mapping[str, FixedFormat], shapes: Mapping[str, tuple[int, ...]]) -> FixedFormat:
    """The narrowest format that holds every sum that these formats allow."""
    return exact_sum(formats, shapes["data_in_0"][-1], -1)


OPS = (
    OpDef(
        name="linear",
        mase_type="module_related_func",
        modules=(nn.Linear,),
        functions=(nn.functional.linear,),
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        on_values=_on_values,
        channels=_channels,
        finest=finest_bias,
        exact=_exact,
        scaled=ScaledUse("sums", exact_sums, _exact),
        ternary=("weight",),
        blocks=("weight",),
        formats=("data_in_0", "weight", "bias", "data_out_0"),
        hardware=Hardware(
            module="fixed_linear",
            params=LinearParams,
            build=_build,
            latency=_latency,
            cases=lambda: cases(_build),
            takes=_takes,
            tiled=_tiled,
            work=lambda p: math.prod(p.data_in_0.shape) * p.data_out_0.size[0] if multiplies(p) else 0,
            multipliers=_multipliers,
            implementations=IMPLEMENTATIONS,
            fast=True,
            delegates={"unrolled": "unrolled_linear", "table": "tabled_linear"},
            orders=ORDERS,
            narrow=lambda p: ("weight",) * narrow(p),
            registers_static=True,
            layout="rows",
            abreast="pointwise",
            permuted=("weight",),
            static=("weight", "bias", "weight_shift"),
        ),
    ),
)
