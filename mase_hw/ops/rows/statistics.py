"""Variance, standard deviation and Euclidean length of rows: exact moments, rounded once.

Of a row of ``N`` mantissas the integers ``q = sum(x**2)`` and ``V = N q - sum(x)**2`` are exact. With ``correction`` 0
or 1 and ``D = N (N - correction)`` the variance is ``V / D``, the standard deviation its root, and the length the root
of ``q``. A quotient is exact and rounded once (:mod:`mase_hw.ops._division`). A root is computed bit by bit, and what
remains decides the rounding, so it is the exactly rounded one as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import port
from mase_hw.layouts import Layout
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through, symbolic, wider
from mase_hw.numerics.wide import WIDE, Wide
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._division import divide_cast
from mase_hw.ops._tensors import as_they_come, lanes_within
from mase_hw.ops.rows._rows import RowParams, abreast, row_shape
from mase_hw.ops.rows._rows import relayout as in_rows
from mase_hw.steps import Steps

VAR, STD, NORM = range(3)
"""Codes of the parameter ``FUNCTION``."""
DIVIDE_LATENCY = 3


class RowVar(nn.Module):
    """Variance of the last dimension, which stays with size 1; what ``var`` is lowered to.

    Args:
        size: Of the last dimension.
        correction: 0 or 1, taken off the size in the divisor.
    """

    def __init__(self, size: int, correction: int = 1) -> None:
        super().__init__()
        self.size, self.correction = size, correction

    def forward(self, input: Tensor) -> Tensor:
        """``(..., size)`` -> ``(..., 1)``."""
        return input.var(-1, correction=self.correction, keepdim=True)


class RowStd(RowVar):
    """Standard deviation of the last dimension, which stays with size 1."""

    def forward(self, input: Tensor) -> Tensor:
        """``(..., size)`` -> ``(..., 1)``."""
        return input.std(-1, correction=self.correction, keepdim=True)


class RowNorm(RowVar):
    """Euclidean length of the last dimension, which stays with size 1."""

    def forward(self, input: Tensor) -> Tensor:
        """``(..., size)`` -> ``(..., 1)``."""
        length: Tensor = torch.linalg.vector_norm(input, dim=-1, keepdim=True)
        return length


class StatisticParams(RowParams, frozen=True):
    """Parameters of ``fixed_row_statistic``."""

    function: int
    correction: int
    moment_width: int

    def attributes(self) -> Attributes:
        """The size of a row, and the correction of its number."""
        return {"size": self.data_in_0.size[0], "correction": self.correction}


def moment_width(source: FixedFormat, size: int, function: int) -> int:
    """Bits of the largest moment."""
    spread = (1 << source.width) - 1
    return max(
        1, (size * magnitude(source) ** 2 if function == NORM else size * size * spread * spread // 4).bit_length()
    )


def root_bits(a: Arithmetic, width: int) -> tuple[int, int]:
    """How far a radicand is shifted left, in pairs of bits, and bits of its root."""
    grow = max(0, a.formats["data_out_0"].frac_width + 1 - a.formats["data_in_0"].frac_width)
    return grow, (width + 2 * grow + 1) // 2


def _rows(x: Tensor, attributes: Attributes) -> tuple[Tensor, Sequence[int]]:
    """The elements of every row in the last dimension, and the shape of the result."""
    if "size" in attributes:
        return x, (*x.shape[:-1], 1)
    dims = dims_of(attributes, x.ndim)
    kept = [d for d in range(x.ndim) if d not in dims]
    keep = bool(attributes.get("keepdim", False))
    shape = [1 if d in dims else s for d, s in enumerate(x.shape) if keep or d not in dims]
    return x.permute(*kept, *dims).reshape(*(x.shape[d] for d in kept), -1), shape


def dims_of(attributes: Attributes, rank: int) -> tuple[int, ...]:
    """The dimensions of a row, in order; all if none is named."""
    dim = attributes.get("dim")
    if dim is None or dim in ((), []):
        return tuple(range(rank))
    return tuple(sorted({int(d) % rank for d in (dim if isinstance(dim, list | tuple) else [dim])}))


def correction_of(attributes: Attributes) -> int:
    """What is taken off the size in the divisor, 1 unless it is said otherwise."""
    given, unbiased = attributes.get("correction"), attributes.get("unbiased")
    if given is not None:
        return int(given)
    return 1 if unbiased is None else int(unbiased)


def golden(function: int, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0``, one number for each row."""
    target = a.formats["data_out_0"]
    x, shape = _rows(t["data_in_0"], a.attributes)
    dtype = carrier(magnitude(target))
    if symbolic(x):
        return {"data_out_0": as_carrier(x[..., 0].reshape(shape), dtype)}
    out = _exact(function, a, x.detach().to(torch.int64))
    if x.requires_grad and out.is_floating_point():
        out = straight_through(out, _surrogate(function, a, x))
    return {"data_out_0": as_carrier(out, dtype).reshape(shape)}


def _exact(function: int, a: Arithmetic, x: Tensor) -> Tensor:
    source, target, size = a.formats["data_in_0"], a.formats["data_out_0"], x.shape[-1]
    width, correction = moment_width(source, size, function), correction_of(a.attributes)
    grow, _ = root_bits(a, width)
    dtype = wider(torch.int64, carrier((1 << (width + 2 * grow)) * 4, wide=True))
    x = as_carrier(x, dtype)
    moment, divisor = (x * x).sum(-1), 1
    if function != NORM:
        total = x.sum(-1)
        moment, divisor = size * moment - total * total, size * (size - correction)
    if function == VAR:
        limits = ((1 << width) - 1, divisor)
        frac = 2 * source.frac_width
        return divide_cast(moment, torch.tensor(divisor), limits, frac, target, a.modes)
    frac = source.frac_width + grow + 1
    if dtype is WIDE:
        found = [_root(v << 2 * grow, divisor) for v in Wide.of(moment).integers()]
        roots = Wide.listed(found, moment.shape, moment.device)
        return cast(roots, frac, target, a.rounding, a.overflow)
    whole = (moment << 2 * grow) // divisor
    root = torch.sqrt(whole.double()).to(torch.int64)
    root = torch.where(root * root > whole, root - 1, root)
    root = torch.where((root + 1) * (root + 1) <= whole, root + 1, root)
    left = root * root * divisor != moment << 2 * grow
    return cast(2 * root + left.to(torch.int64), frac, target, a.rounding, a.overflow)


def _root(moment: int, divisor: int) -> int:
    """Twice the root of a quotient, and whether it is more than that."""
    root = math.isqrt(moment // divisor)
    return 2 * root + (root * root * divisor != moment)


def _surrogate(function: int, a: Arithmetic, x: Tensor) -> Tensor:
    """The float function in units of the output, for the gradient only."""
    target, values = a.formats["data_out_0"], x.double() * a.formats["data_in_0"].scale
    square = (values.square() if function == NORM else (values - values.mean(-1, keepdim=True)).square()).sum(-1)
    square = square if function == NORM else square / (x.shape[-1] - correction_of(a.attributes))
    smooth = square if function == VAR else square.clamp(min=1e-12).sqrt()
    smooth = smooth * math.ldexp(1.0, target.frac_width)
    return smooth.clamp(target.min_mantissa, target.max_mantissa) if a.overflow is Overflow.SATURATE else smooth


def relayout(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """The rows in the order in which they come, one element each."""
    if in_rows(layout, layout.shape, attributes) is None:
        return None
    last = layout.factors_of(len(layout.shape) - 1) if layout.shape else []
    if not last:
        return Layout(tuple(shape), layout.factors, layout.order)
    order = tuple(i for i in layout.order if i != last[0])
    return Layout(tuple(shape), layout.factors[:-1], order, layout.beside if layout.beside > 1 else 0)


def _build(function: int, r: Request) -> StatisticParams:
    a, (rows, size) = r.arithmetic, row_shape(r)
    correction = correction_of(a.attributes)
    if "size" not in a.attributes or (function != NORM and size <= correction):
        raise UnsupportedError(
            "rows of this op are along dimension 0, or too short",
            node=r.node,
            got=f"{dict(a.attributes)} of {list(r.shapes['data_in_0'])}",
            expected="dimensions without that of frames, and more elements than the correction",
            remedy="name other dimensions; compile lowers them to the last one",
        )
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (rows, size))
    lanes_within(r.node, "data_out_0", r.parallelism.get("data_out_0", (1,)), (rows, abreast(r)))
    return StatisticParams(
        data_in_0=port((rows, size), a.formats["data_in_0"], lanes, abreast(r)),
        data_out_0=port((rows, 1), a.formats["data_out_0"], 1, abreast(r)),
        cast=a.modes,
        function=function,
        correction=correction,
        moment_width=moment_width(a.formats["data_in_0"], size, function),
    )


def _latency(p: StatisticParams) -> Latency:
    """A step takes a beat; the last one of a row waits until its result has a place."""
    tiles = p.data_in_0.tiles[0]
    rows = p.data_in_0.beats // tiles
    _, bits = root_bits(Arithmetic.of(p), p.moment_width)
    levels = (p.data_in_0.lanes[0] - 1).bit_length()
    # Moments, their difference, division, root and cast, FIFO.
    pipe = 2 + levels + 2 + DIVIDE_LATENCY + (0 if p.function == VAR else 1 + bits + 1) + 1
    every = np.arange(rows * tiles, dtype=np.int64)
    last = np.arange(1, rows + 1, dtype=np.int64) * tiles - 1
    steps = Steps.at(
        rows * tiles, needed=[every], freed=[every], emitted=last, delay=[0], room=[0], pipe=pipe,
        queue=(pipe + tiles) // tiles + 1,
    )  # fmt: skip
    return Latency.from_steps(steps)


def _case(function: int, name: str, shape: tuple[int, ...], lanes: int, formats: str, **more: Any) -> Case:
    offered = {"data_in_0": lanes, "data_out_0": 1}
    return case(
        functools.partial(_build, function), name, shape, offered, formats, size=shape[-1], **{"correction": 1, **more}
    )


def _cases(function: int) -> Callable[[], list[Case]]:

    def case(*given: Any, **more: Any) -> Case:
        return _case(function, *given, **more)

    def var() -> list[Case]:
        return [
            case("one_lane", (3, 7), 1, "s8.4 u12.5"),
            case("fold", (2, 3, 10), 4, "u8.3 s12.2 floor", correction=0),
            case("two_rows", (2, 2, 7), 3, "s8.4 u12.5", beside=2),
            case("beyond_int64", (3, 6), 4, "s36.28 s40.26 half_away wrap"),
        ]

    def std() -> list[Case]:
        return [
            case("uneven_fold", (2, 3, 7), 3, "s8.4 u10.6"),
            case("one_beat", (9, 4), 4, "u8.3 s8.1 half_up", correction=0),
            case("three_rows", (6, 5), 2, "s8.4 u8.4", beside=3),
            case("beyond_int64", (3, 5), 2, "s34.28 u34.28"),
            case("ties", (9, 2), 2, "s4.2 u4.2", correction=0),
        ]

    def norm() -> list[Case]:
        return [
            case("fold", (3, 6), 2, "s8.4 u10.4", correction=0),
            case("two_rows", (4, 6), 4, "s8.4 u10.4", correction=0, beside=2),
            case("one_element", (5, 1), 1, "s8.4 s9.5 trunc", correction=0),
            case("beyond_int64", (3, 6), 4, "s36.30 s40.30", correction=0),
        ]

    return {VAR: var, STD: std, NORM: norm}[function]


def _order(node: str, attributes: Attributes) -> None:
    order = attributes.get("p", attributes.get("ord", 2))
    if order not in (2, "fro", None):
        raise UnsupportedError(
            "a norm of another order than 2 is written as powers and a sum, which needs a positive order",
            node=node,
            field="p",
            got=order,
            expected="a positive number or math.inf, and dimensions without that of frames",
            remedy="write the least magnitude as x.abs().amin(dim), and the number of elements that are not 0 as a sum",
        )


def _op(name: str, function: int, module: type[nn.Module], **targets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type="builtin_func",
        modules=(module,),
        attributes=("size", "correction"),
        golden=functools.partial(golden, function),
        relayout=relayout,
        hardware=Hardware(
            module="fixed_row_statistic",
            params=StatisticParams,
            build=functools.partial(_build, function),
            latency=_latency,
            cases=_cases(function),
            layout="rows",
            positions=as_they_come,
        ),
        **targets,
    )


OPS = (
    _op("var", VAR, RowVar, functions=(torch.var,), methods=("var",)),
    _op("std", STD, RowStd, functions=(torch.std,), methods=("std",)),
    _op("norm", NORM, RowNorm, functions=(torch.norm, torch.linalg.vector_norm), methods=("norm",), check=_order),
)
