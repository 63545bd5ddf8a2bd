"""Linear: exact products, sums and bias, one cast at the end.

``y[..., o] = cast(sum_i x[..., i] * w[o, i] + b[o])``. The products and the bias are aligned to the finer of their
two fraction widths, so the sum is exact; :func:`mase_hw.numerics.cast` rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, Case, Cycles, Hardware, Latency, OpDef, Request
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import as_carrier, carrier, cast, exact_linear, magnitude, straight_through
from mase_hw.ops._tensors import format_of, lanes_within, shape_of, stream_of, tensor_params
from mase_hw.streams import Stream, ceil_div


@dataclass(frozen=True)
class LinearParams:
    """Parameters of ``fixed_linear``; see the module for their meaning."""

    DATA_IN_0_PRECISION_0: int
    DATA_IN_0_PRECISION_1: int
    DATA_IN_0_SIGNED: int
    DATA_IN_0_TENSOR_SIZE_DIM_0: int
    DATA_IN_0_TENSOR_SIZE_DIM_1: int
    DATA_IN_0_TENSOR_SIZE_DIM_2: int
    DATA_IN_0_PARALLELISM_DIM_0: int
    DATA_IN_0_PARALLELISM_DIM_1: int
    DATA_IN_0_PARALLELISM_DIM_2: int
    WEIGHT_PRECISION_0: int
    WEIGHT_PRECISION_1: int
    WEIGHT_SIGNED: int
    WEIGHT_TENSOR_SIZE_DIM_0: int
    WEIGHT_TENSOR_SIZE_DIM_1: int
    WEIGHT_PARALLELISM_DIM_0: int
    WEIGHT_PARALLELISM_DIM_1: int
    HAS_BIAS: int
    BIAS_PRECISION_0: int
    BIAS_PRECISION_1: int
    BIAS_SIGNED: int
    BIAS_TENSOR_SIZE_DIM_0: int
    BIAS_PARALLELISM_DIM_0: int
    DATA_OUT_0_PRECISION_0: int
    DATA_OUT_0_PRECISION_1: int
    DATA_OUT_0_SIGNED: int
    DATA_OUT_0_TENSOR_SIZE_DIM_0: int
    DATA_OUT_0_TENSOR_SIZE_DIM_1: int
    DATA_OUT_0_TENSOR_SIZE_DIM_2: int
    DATA_OUT_0_PARALLELISM_DIM_0: int
    DATA_OUT_0_PARALLELISM_DIM_1: int
    DATA_OUT_0_PARALLELISM_DIM_2: int
    ROUNDING: int
    OVERFLOW: int

    @property
    def rows(self) -> int:
        """Vectors a frame."""
        return self.DATA_IN_0_TENSOR_SIZE_DIM_1 * self.DATA_IN_0_TENSOR_SIZE_DIM_2

    @property
    def in_tiles(self) -> int:
        """Input beats a vector."""
        return ceil_div(self.DATA_IN_0_TENSOR_SIZE_DIM_0, self.DATA_IN_0_PARALLELISM_DIM_0)

    @property
    def out_tiles(self) -> int:
        """Output beats a vector."""
        return ceil_div(self.DATA_OUT_0_TENSOR_SIZE_DIM_0, self.DATA_OUT_0_PARALLELISM_DIM_0)


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (..., in)``, ``weight (out, in)``, optional ``bias (out,)`` -> ``data_out_0 (..., out)``."""
    x, w, b = t["data_in_0"], t["weight"], t.get("bias")
    fx, fw = a.formats["data_in_0"], a.formats["weight"]
    product_frac = frac = fx.frac_width + fw.frac_width
    bound = x.shape[-1] * magnitude(fx) * magnitude(fw)
    if b is not None:
        fb = a.formats["bias"]
        frac = max(product_frac, fb.frac_width)
        bound = (bound << (frac - product_frac)) + (magnitude(fb) << (frac - fb.frac_width))
    acc = exact_linear(x, w, bound)
    if b is not None:
        dtype = carrier(bound) if acc.dtype != torch.float64 else acc.dtype
        acc = as_carrier(acc, dtype) * (1 << (frac - product_frac))
        acc = acc + as_carrier(b, dtype) * (1 << (frac - fb.frac_width))
    out = cast(acc, frac, a.formats["data_out_0"], a.rounding, a.overflow)
    if acc.dtype == torch.int64 and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        out = straight_through(out, _surrogate(a, t, frac, product_frac))
    return {"data_out_0": out}


def _surrogate(a: Arithmetic, t: Mapping[str, Tensor], frac: int, product_frac: int) -> Tensor:
    """The result in float64, for the gradient only: int64 carries none."""
    fmt = a.formats["data_out_0"]
    acc = nn.functional.linear(t["data_in_0"].double(), t["weight"].double()) * math.ldexp(1.0, frac - product_frac)
    if "bias" in t:
        acc = acc + t["bias"].double() * math.ldexp(1.0, frac - a.formats["bias"].frac_width)
    result = acc * math.ldexp(1.0, fmt.frac_width - frac)
    return result.clamp(fmt.min_mantissa, fmt.max_mantissa) if a.overflow is Overflow.SATURATE else result


def _build(r: Request) -> LinearParams:
    formats, shapes = r.arithmetic.formats, r.shapes
    p_in = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shapes["data_in_0"])
    p_out = lanes_within(r.node, "data_out_0", r.parallelism["data_out_0"], shapes["data_out_0"])
    bias_format = formats.get("bias", formats["weight"])
    return LinearParams(
        **tensor_params("DATA_IN_0", shapes["data_in_0"], formats["data_in_0"], (p_in,)),
        **tensor_params("WEIGHT", shapes["weight"], formats["weight"], (p_in, p_out), dims=2),
        HAS_BIAS=int("bias" in shapes),
        **tensor_params("BIAS", shapes["weight"][:1], bias_format, (p_out,), dims=1),
        **tensor_params("DATA_OUT_0", shapes["data_out_0"], formats["data_out_0"], (p_out,)),
        ROUNDING=int(r.arithmetic.rounding),
        OVERFLOW=int(r.arithmetic.overflow),
    )


def _ports(p: LinearParams) -> tuple[Stream, ...]:
    bias = (stream_of(p, "BIAS", "in", dims=1, repeat=p.rows),) if p.HAS_BIAS else ()
    return (
        stream_of(p, "DATA_IN_0", "in"),
        stream_of(p, "WEIGHT", "in", dims=2, repeat=p.rows),
        *bias,
        stream_of(p, "DATA_OUT_0", "out"),
    )


def _arithmetic(p: LinearParams) -> Arithmetic:
    names = ["data_in_0", "weight", *(["bias"] if p.HAS_BIAS else []), "data_out_0"]
    formats = {name: format_of(p, name.upper()) for name in names}
    return Arithmetic(formats, Rounding(p.ROUNDING), Overflow(p.OVERFLOW))


def _latency(p: LinearParams) -> Latency:
    tiles, passes = p.in_tiles, p.out_tiles
    # The replay buffer writes, reads and registers; a single pass needs no buffer and goes straight through.
    buffer = 2 if passes > 1 else 0
    # Operand register, product register, adder tree, accumulator, output queue.
    pipe = 4 + math.ceil(math.log2(p.DATA_IN_0_PARALLELISM_DIM_0))

    def departures(arrivals: Cycles) -> Cycles:
        out, issue = [], -1
        for row in range(p.rows):
            ready = arrivals[row * tiles : (row + 1) * tiles] + buffer
            for _ in range(passes):
                for tile in range(tiles):
                    issue = max(issue + 1, int(ready[tile]))
                out.append(issue + pipe)
        return np.array(out, dtype=np.int64)

    return Latency(p.rows * tiles * passes, departures, p.rows * tiles)


def _case(
    name: str,
    shape: tuple[int, ...],
    out: int,
    lanes: tuple[int, int],
    formats: tuple[str, str, str | None, str],
    modes: tuple[Rounding, Overflow] = (Rounding.HALF_EVEN, Overflow.SATURATE),
    frames: int = 4,
) -> Case:
    def fmt(text: str) -> FixedFormat:
        width, frac = text[1:].split(".")
        return FixedFormat(int(width), int(frac), text[0] == "s")

    x, w, b, y = formats
    request = Request(
        name,
        Arithmetic(
            {"data_in_0": fmt(x), "weight": fmt(w), "data_out_0": fmt(y)} | ({"bias": fmt(b)} if b else {}), *modes
        ),
        {"data_in_0": shape, "weight": (out, shape[-1]), "data_out_0": (*shape[:-1], out)}
        | ({"bias": (out,)} if b else {}),
        {"data_in_0": (lanes[0],), "data_out_0": (lanes[1],)},
    )
    return Case(name, _build(request), frames)


def _cases() -> list[Case]:
    s8 = ("s8.4", "s8.6", "s8.5", "s8.3")
    half_up, floor, trunc = Rounding.HALF_UP, Rounding.FLOOR, Rounding.TRUNC
    return [
        _case("even_fold", (1, 16), 8, (4, 2), s8),
        _case("no_bias", (1, 16), 8, (4, 4), ("s8.4", "s8.6", None, "s8.3")),
        _case("uneven_fold", (1, 10), 7, (4, 3), s8, (half_up, Overflow.SATURATE)),
        _case("serial", (1, 5), 3, (1, 1), s8, (trunc, Overflow.SATURATE)),
        _case("unrolled", (1, 6), 5, (6, 5), s8, (floor, Overflow.WRAP), 12),
        _case("one_pass", (1, 9), 4, (2, 4), s8, (half_up, Overflow.WRAP), 8),
        _case("one_tile", (1, 4), 9, (4, 2), s8, (trunc, Overflow.WRAP), 8),
        _case("scalar", (1, 1), 1, (1, 1), s8, frames=16),
        _case("rows", (2, 3, 8), 6, (4, 2), s8, frames=3),
        _case("deep_rows", (2, 2, 3, 4), 3, (2, 2), s8, frames=2),
        _case("two_bit", (1, 12), 6, (5, 2), ("s2.0", "s2.1", "s2.0", "s2.0"), (half_up, Overflow.SATURATE)),
        _case("wide", (1, 12), 5, (4, 2), ("s16.8", "s16.14", "s16.10", "s16.8")),
        _case("beyond_float64", (1, 6), 4, (3, 2), ("s30.4", "s28.6", "s31.12", "s32.-16"), (floor, Overflow.SATURATE)),
        _case("unsigned_in", (1, 8), 4, (3, 2), ("u8.8", "s4.3", "s12.14", "u6.4")),
        _case("unsigned", (1, 7), 5, (3, 2), ("u8.4", "u4.2", "u9.7", "u12.5")),
        _case("fine_bias", (1, 8), 4, (4, 2), ("s8.0", "s8.0", "s8.5", "s8.-7"), (half_up, Overflow.WRAP)),
    ]


def _finest(tensor: str, formats: Mapping[str, FixedFormat]) -> int | None:
    """A bias finer than the products would widen every sum for bits below their last place."""
    return formats["data_in_0"].frac_width + formats["weight"].frac_width if tensor == "bias" else None


OPS = (
    OpDef(
        name="linear",
        mase_type="module_related_func",
        modules=(nn.Linear,),
        functions=(nn.functional.linear,),
        parameters=("weight", "bias"),
        golden=golden,
        finest=_finest,
        formats=("data_in_0", "weight", "bias", "data_out_0"),
        hardware=Hardware(
            module="fixed_linear",
            file="ops/fixed_linear.sv",
            dependence_files=(
                "lib/fixed_adder_tree.sv",
                "lib/fixed_dot_product.sv",
                "lib/fixed_accumulator.sv",
                "lib/fixed_cast_unit.sv",
                "lib/replay_buffer.sv",
                "lib/stream_fifo.sv",
            ),
            params=LinearParams,
            build=_build,
            ports=_ports,
            arithmetic=_arithmetic,
            latency=_latency,
            cases=_cases,
            work=lambda p: math.prod(shape_of(p, "DATA_IN_0")) * p.DATA_OUT_0_TENSOR_SIZE_DIM_0,
            multipliers=lambda p: p.DATA_IN_0_PARALLELISM_DIM_0 * p.DATA_OUT_0_PARALLELISM_DIM_0,
            static=("weight", "bias"),
            tied=lambda p: {} if p.HAS_BIAS else {"bias": "'0", "bias_valid": "1'b0", "bias_ready": ""},
        ),
    ),
)
