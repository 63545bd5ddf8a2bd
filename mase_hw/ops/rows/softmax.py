"""Softmax, softmin and log_softmax along the last dimension.

With ``m`` the maximum of a row (the minimum for softmin), ``d = |x - m|`` and ``e = exp(-d)`` rounded to ``K`` fraction
bits (:mod:`mase_hw.ops.rows._rows`), the sum ``s`` of a row is exact, and

* softmax and softmin are ``cast(e / s)``, the exact quotient rounded once;
* log_softmax is ``cast(-d - ln(s))``, exact but for the logarithm, which is computed in segments
  (:mod:`mase_hw.ops._piecewise`).

**Error.** ``e`` is off by at most half an LSB in a table, and by 0.625 in a product of two, and exact for ``d = 0``, so
of ``N`` elements ``e / s`` is off by less than ``N / 2 * 2**-K`` or ``0.625 N * 2**-K``. ``2**K`` is at least ``N``
LSBs of the output in the first case and twice as many in the second: at most half of one before the cast. For
log_softmax ``K`` has one bit more and the logarithm three fraction bits more than the output, which is 0.35 LSB. With a
cast to the nearest number the result differs by at most 1 LSB from the exact one.

**Scale.** ``softmax(scale * x)`` has ``exp(-scale * d)`` in its tables, which are rounded in the same way: neither a
multiplier nor another error, so ``1 / sqrt(size)`` of an attention costs nothing.

**Scaled integers.** A distance of codes times their scale is one of values, so that scale is another factor in the
tables. The step of the result is a factor of the sum: a share is divided by both in one, rounded once. A result whose
step is no power of two has :data:`GUARD` bits more of ``K``, so that it differs from the exact one by hardly more than
its rounding. A requantisation behind it adds a zero point.

**Order.** ``e`` falls with ``d``, a quotient rises with ``e``, and a cast keeps the order: of two elements of a row
the larger one never gets the smaller result (for softmin, the larger one), and the maximum always has the largest.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat, ScaledUse
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import ExponentTables, Segments, port
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through, symbolic
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, Memory, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._division import divide_cast
from mase_hw.ops._functions import Key
from mase_hw.ops._piecewise import evaluate as logarithm
from mase_hw.ops._piecewise import fit
from mase_hw.ops._tensors import as_they_come, lanes_within
from mase_hw.ops.rows._rows import (
    Exponent,
    RowParams,
    abreast,
    along,
    evaluate,
    exponent,
    lowered_size,
    relayout,
    row_shape,
    row_steps,
)
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

SOFTMAX, SOFTMIN, LOG = range(3)
"""Codes of the parameter ``FUNCTION``."""
LOG_LATENCY = 8
FACTOR_BITS = 24
"""Bits of the step of a result; a step in float32 has them."""
GUARD = 8
"""Bits of exponentials beyond those of a result, where its step is that of a source, and no power of two."""


class SoftmaxParams(RowParams, frozen=True):
    """Parameters of ``fixed_softmax``; those of the logarithm have no meaning for the others."""

    function: int
    masked: bool
    exponent: ExponentTables
    log_width: int
    log_frac: int
    segments: Segments
    divisor_factor: int
    share_levels: int

    def fmt(self, name: str) -> FixedFormat:
        """The format of a port; the result has a step of its own."""
        return stepped(super().fmt(name), self.divisor_factor if name == "data_out_0" else 1)

    def attributes(self) -> Attributes:
        """The size of a row."""
        return {"size": self.data_in_0.size[0]}


def softmax_rows(input: Tensor, size: int, scale: float = 1.0) -> Tensor:
    """Softmax of ``scale * input`` along the last dimension, which has ``size`` elements; the scale is above 0."""
    return functional.softmax(input if scale == 1 else input * scale, -1)


def softmin_rows(input: Tensor, size: int) -> Tensor:
    """Softmin along the last dimension, which has ``size`` elements."""
    return functional.softmin(input, -1)


def log_softmax_rows(input: Tensor, size: int) -> Tensor:
    """The logarithm of softmax along the last dimension, which has ``size`` elements."""
    return functional.log_softmax(input, -1)


FLOAT = {SOFTMAX: functional.softmax, SOFTMIN: functional.softmin, LOG: functional.log_softmax}


def result_format(a: Arithmetic) -> FixedFormat:
    """The format of the result in fixed point, as if the step of scaled integers were the power of two below it."""
    fmt = a.formats["data_out_0"]
    if not isinstance(fmt, ScaledFormat):
        return fmt
    return FixedFormat(fmt.width, 1 - math.frexp(fmt.scale)[1], fmt.signed)


def divisor_factor(a: Arithmetic, frac: int, size: int) -> tuple[int, int]:
    """The step of the result by that of :func:`result_format`, from 1 to below 2: an odd integer, and a shift of it.

    It has :data:`FACTOR_BITS`, or as many as its product with a sum leaves in an int64.

    Args:
        a: The arithmetic of the softmax.
        frac: Fraction bits of the exponentials.
        size: How many there are in a row.
    """
    bits = min(FACTOR_BITS, 62 - frac - size.bit_length())
    mantissa = math.ldexp(round(math.ldexp(math.frexp(a.formats["data_out_0"].scale)[0], bits)), 1 - bits)
    factor, power = mantissa.as_integer_ratio()
    return factor, power.bit_length() - 1


def shares(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """What is wrong with formats of a softmax; as :attr:`mase_hw.formats.ScaledUse.wrong`."""
    x, out = formats["data_in_0"], formats["data_out_0"]
    if x.per_channel or out.per_channel:
        return "one scale for each tensor"
    if isinstance(out, ScaledFormat) and (out.zero_point or out.lows or out.highs):
        return "a result without a zero point and limits; requantise it"
    return ""


def exponentials(a: Arithmetic, size: int, function: int) -> Exponent:
    """The table of exp for rows of ``size`` elements."""
    source, target = a.formats["data_in_0"], result_format(a)
    frac = max(target.frac_width, 0) + (size - 1).bit_length() + int(function == LOG)
    frac += GUARD if math.frexp(a.formats["data_out_0"].scale)[0] != 0.5 else 0
    scale = float(a.attributes.get("scale", 1.0))
    if isinstance(source, ScaledFormat):
        scale *= source.scale  # a distance of codes is one of values: the zero point falls out
    plan = exponent(source.width, source.frac_width, frac, scale)
    # Half an LSB off in a table, 5/8 of one in a product.
    return exponent(source.width, source.frac_width, frac + 1, scale) if plan.fine else plan


def logarithms(a: Arithmetic, size: int) -> Key:
    """The logarithm of a sum of ``size`` exponentials, as a piecewise function."""
    frac = exponentials(a, size, LOG).frac
    fine = max(a.formats["data_out_0"].frac_width, 0) + 3
    whole = int(math.log(size)).bit_length()
    source = FixedFormat(frac + size.bit_length(), frac, signed=False)
    return ("log", (), source, FixedFormat(whole + fine, fine, signed=False), Rounding.HALF_EVEN, Overflow.SATURATE)


def golden(function: int, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0`` of the same shape; rows along ``dim``, or the last dimension."""
    target, dim = result_format(a), along(a.attributes, t["data_in_0"].ndim)
    dtype = carrier(magnitude(target))
    if symbolic(t["data_in_0"]):
        return {"data_out_0": as_carrier(t["data_in_0"], dtype)}
    out = _exact(function, a, t["data_in_0"].detach(), dim)
    if t["data_in_0"].requires_grad and out.is_floating_point():
        out = straight_through(out, gradient_of(function, a, t["data_in_0"], dim))
    return {"data_out_0": as_carrier(out, dtype)}


def _exact(function: int, a: Arithmetic, x: Tensor, dim: int) -> Tensor:
    source, target, size = a.formats["data_in_0"], result_format(a), x.shape[dim] if x.ndim else 1
    x = as_carrier(x, carrier(1 << source.width))  # of a distance
    distance = x - x.amin(dim, keepdim=True) if function == SOFTMIN else x.amax(dim, keepdim=True) - x
    plan = exponentials(a, size, function)
    terms = evaluate(plan, distance.clone() if function == LOG else distance)
    total = as_carrier(terms, carrier(size << plan.frac)).sum(dim, keepdim=True)
    if function != LOG:
        return shares_cast(a, plan, terms, total, size)
    key = logarithms(a, size)
    frac = max(source.frac_width, key[3].frac_width)
    far, near = (frac - fmt.frac_width for fmt in (source, key[3]))
    dtype = carrier((1 << source.width + far) + (1 << key[3].width + near))
    exact = as_carrier(distance, dtype) * -(1 << far) - as_carrier(logarithm(key, total), dtype) * (1 << near)
    return cast(exact, frac, target, a.rounding, a.overflow)


def stepped(fmt: FixedFormat, factor: int) -> FixedFormat:
    """The format with a step that is larger by a factor and the shift of :func:`divisor_factor`."""
    if factor == 1:
        return fmt
    step = Fraction(factor, 1 << factor.bit_length() - 1) / Fraction(2) ** fmt.frac_width
    return ScaledFormat.make(fmt.width, step, signed=fmt.signed)


def shares_cast(a: Arithmetic, plan: Exponent, terms: Tensor, total: Tensor, size: int) -> Tensor:
    """Exponentials divided by the sum of a row of ``size`` and by the step of the result, rounded once.

    Args:
        a: The arithmetic of the softmax.
        plan: Of the exponentials.
        terms: These, which may be written to.
        total: Their sum, above 0.
        size: How many there are in a row.
    """
    factor, shift = divisor_factor(a, plan.frac, size)
    limits = (1 << plan.frac, factor * size << plan.frac)
    if shift:
        total = as_carrier(total, carrier(limits[1])) * factor
    return divide_cast(terms, total, limits, -shift, result_format(a), a.modes, own=True)


def gradient_of(
    function: int, a: Arithmetic, x: Tensor, dim: int, given: Callable[[Tensor], Tensor] = lambda v: v
) -> Tensor:
    """The float function of what ``given`` makes of the values, in units of the output, for the gradient only."""
    target = result_format(a)
    scale = a.formats["data_in_0"].scale * float(a.attributes.get("scale", 1.0))
    smooth: Tensor = FLOAT[function](given(x.double() * scale), dim)
    smooth = smooth / a.formats["data_out_0"].scale
    return smooth.clamp(target.min_mantissa, target.max_mantissa) if a.overflow is Overflow.SATURATE else smooth


def _build(function: int, r: Request) -> SoftmaxParams:
    a, (rows, size) = r.arithmetic, row_shape(r)
    lowered_size(r)
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (rows, size)), abreast(r)
    plan = exponentials(a, size, function)
    segments = Segments()
    fmt = FixedFormat(1, 0)
    if function == LOG:
        key = logarithms(a, size)
        cut, fmt = fit(key), key[3]
        segments = Segments(cut.segments, cut.step, cut.frac, *cut.widths)
    return SoftmaxParams(
        data_in_0=port((rows, size), a.formats["data_in_0"], *lanes),
        data_out_0=port((rows, size), result_format(a), *lanes),
        cast=a.modes,
        function=function,
        masked=False,
        exponent=plan.parameters(r.fast),
        log_width=fmt.width,
        log_frac=fmt.frac_width,
        segments=segments,
        divisor_factor=1 if function == LOG else divisor_factor(a, plan.frac, size)[0],
        share_levels=r.levels or 1,
    )


def _memories(function: int, a: Arithmetic) -> dict[str, Memory]:
    size = int(a.attributes["size"])
    found = exponentials(a, size, function).memories()
    return found | (fit(logarithms(a, size)).memories() if function == LOG else {})


def rows_latency(p: Any, *before: Steps, is_log: bool = False) -> Latency:
    """What comes before, the maximum of a row, its exponentials, their sum, and the shares or what is subtracted."""
    beats, tiles = p.data_in_0.beats, p.data_in_0.tiles[0]
    levels = (p.data_in_0.lanes[0] - 1).bit_length()
    return Latency.from_steps(
        *before,
        row_steps(beats, tiles, note=2),
        Steps.registered(beats, pipe=p.exponent.exp_stages),
        row_steps(beats, tiles, note=2 + levels + (LOG_LATENCY if is_log else int(p.divisor_factor > 1))),
        Steps.registered(beats, pipe=1 if is_log else share_stages(p.data_out_0.fmt, p.share_levels)),
    )


def share_stages(result: FixedFormat, levels: int) -> int:
    """Cycles of a ``row_share``: so many bits of the quotient in each, and one for its cast."""
    return 1 + ceil_div(2 + max(result.frac_width, 0), levels)


EVEN = (Rounding.HALF_EVEN, Overflow.SATURATE)


def steps_case(
    build: Callable[[Request], Any], shape: tuple[int, ...], lanes: int, step: float, **attributes: Any
) -> Case:
    """A case of 8 bits whose result has a step that is no power of two."""
    formats = {"data_in_0": FixedFormat(8, 4), "data_out_0": ScaledFormat.make(8, step, signed=False)}
    arithmetic = Arithmetic(formats, attributes=attributes_of(attributes))
    return Case("step", build(Request("step", arithmetic, {"data_in_0": shape}, {"data_in_0": (lanes,)})), 4)


def _cases(function: int) -> Callable[[], list[Case]]:
    build = functools.partial(_build, function)

    def of(name: str, shape: tuple[int, ...], *given: Any, **asked: Any) -> Case:
        return case(build, name, shape, *given, size=shape[-1], **asked)

    def softmax() -> list[Case]:
        return [
            of("one_lane", (1, 3, 9), 1, "s8.4 u8.8"),
            of("uneven_fold", (2, 3, 7), 3, "u8.5 s8.6 half_up wrap"),
            of("wide", (5, 6), 2, "s16.12 u16.14 floor"),
            of("one_beat", (6, 4), 4, "s4.2 u6.5", frames=5),
            of("fast", (5, 6), 3, "s16.12 u16.14", fast=True),
            of("levels", (3, 7), 2, "s8.4 u8.8", levels=3),
            of("two_rows", (1, 4, 7), 3, "u8.5 s8.6 half_up", beside=2),
            steps_case(build, (4, 6), 2, float(np.float32(1 / 255)), size=6),
        ]

    def softmin() -> list[Case]:
        return [
            of("fold", (4, 6), 2, "s8.4 u9.9 half_away"),
            of("three_rows", (6, 4), 4, "s8.4 u9.9 half_away", beside=3),
        ]

    def log() -> list[Case]:
        return [
            of("one_lane", (3, 5), 1, "s8.4 s8.3"),
            of("uneven_fold", (2, 2, 7), 3, "s14.10 s12.6 trunc wrap"),
            of("two_rows", (4, 5), 2, "s8.4 s8.3", beside=2),
        ]

    return {SOFTMAX: softmax, SOFTMIN: softmin, LOG: log}[function]


def _op(name: str, function: int, rows: Callable[..., Tensor], **targets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type="module_related_func",
        attributes=("dim", "size"),
        golden=functools.partial(golden, function),
        relayout=relayout,
        scaled=None if function == LOG else ScaledUse("shares", shares),
        hardware=Hardware(
            module="fixed_softmax",
            params=SoftmaxParams,
            build=functools.partial(_build, function),
            latency=lambda p: rows_latency(p, is_log=p.function == LOG),
            cases=_cases(function),
            follows_input=True,
            fast=True,
            levels=0 if function == LOG else 1,
            layout="rows",
            positions=as_they_come,
            memories=functools.partial(_memories, function),
        ),
        **{**targets, "functions": (rows, *targets["functions"])},
    )


OPS = (
    _op(
        "softmax",
        SOFTMAX,
        softmax_rows,
        modules=(nn.Softmax, nn.Softmax2d),
        functions=(functional.softmax, torch.softmax, torch.special.softmax),
        methods=("softmax",),
    ),
    _op("softmin", SOFTMIN, softmin_rows, modules=(nn.Softmin,), functions=(functional.softmin,)),
    _op(
        "log_softmax",
        LOG,
        log_softmax_rows,
        modules=(nn.LogSoftmax,),
        functions=(functional.log_softmax, torch.log_softmax, torch.special.log_softmax),
        methods=("log_softmax",),
    ),
)
