"""Ops that hardware has in fixed point only, among scaled integers: a requantisation before them and one behind.

Every tensor of such an op is in fixed point whose step is at least :data:`GUARD` bits finer than that of the scaled
integers it stands for. What it reads is off by at most ``2**-(GUARD + 1)`` of its own step, and its result is rounded
once to ``2**-GUARD`` of the step that is wanted, and then to that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, ScaledFormat, steps_of
from mase_hw.opdef import OpDef

GUARD = 16
"""Bits of fixed point beyond the step of scaled integers, where a file says what results are."""
OWN_GUARD = 3
"""The same where scales are chosen: what this adds to the error of a rounding is an eighth of it."""


def fixed_for(fmt: FixedFormat, guard: int = GUARD) -> FixedFormat:
    """The format of fixed point in which numbers of a format are computed with; itself, if it is fixed point.

    Args:
        fmt: Of data or of a result, with one scale.
        guard: Bits beyond its step.
    """
    if not isinstance(fmt, ScaledFormat):
        return fmt
    step = steps_of(fmt)[0]
    low, high = ((end - fmt.zero_point) * step for end in (fmt.min_mantissa, fmt.max_mantissa))
    return _covering(low, high, step, guard)


def formats_around(
    op: OpDef, have: Mapping[str, FixedFormat], parameters: Mapping[str, Tensor], want: ScaledFormat
) -> dict[str, FixedFormat]:
    """The formats of all tensors of an op in fixed point.

    Args:
        op: The op.
        have: Of its data, as it comes.
        parameters: Its stored tensors.
        want: Of its result.

    Raises:
        FormatError: A parameter that is not finite.
    """
    out = fixed_for(want)
    formats = {name: data_around(op, fmt) for name, fmt in have.items()}
    for name, value in parameters.items():
        low, high = (float(each) for each in value.detach().double().aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise FormatError("a parameter is not finite", field=name, expected="finite numbers")
        # What is added to the result is as fine as that; what multiplies it has as many bits.
        fine = out.scale if name == "bias" else max(-low, high) * 2.0**-out.width
        fmt = _covering(Fraction(low), Fraction(high), Fraction(fine or 1.0), 0)
        limit = None if op.finest is None else op.finest(name, {**formats, "data_out_0": out})
        drop = 0 if limit is None else max(fmt.frac_width - limit, 0)
        formats[name] = FixedFormat(max(fmt.width - drop, 2), fmt.frac_width - drop, fmt.signed)
    return {**formats, "data_out_0": out}


def in_steps(fmt: FixedFormat, step: Fraction) -> ScaledFormat:
    """A format that counts steps, as one of the numbers that these are."""
    return ScaledFormat.make(fmt.width, step / Fraction(2) ** fmt.frac_width, signed=fmt.signed)


def counts_steps(op: OpDef, parameters: Iterable[str]) -> bool:
    """Whether the parameters of an op can say how many steps of a result of any scale they stand for.

    A result is then rounded once, as exactly as in fixed point of its width; files, in which more is promised, have
    the guard bits instead.
    """
    return op.scaled is not None and op.scaled.kind == "around" and "weight" in parameters


def steps_out(want: ScaledFormat) -> FixedFormat:
    """The format of results counted in steps, to which a zero point is added behind the op."""
    return want.centred.mantissas


def data_around(op: OpDef, fmt: FixedFormat, guard: int = GUARD) -> FixedFormat:
    """The format in which an op takes data: as it comes where the op takes scaled integers.

    Args:
        op: The op.
        fmt: Of the data, as it comes.
        guard: As of :func:`fixed_for`.
    """
    if op.scaled is None or op.scaled.kind != "around" or not isinstance(fmt, ScaledFormat):
        return fixed_for(fmt, guard)
    return fmt.centred if op.scaled.at_zero({}) else fmt


def _covering(low: Fraction, high: Fraction, step: Fraction, guard: int) -> FixedFormat:
    """The narrowest format between two ends whose step is a power of two and so many bits finer than another one."""
    inverse = 1 / step
    frac = inverse.numerator.bit_length() - inverse.denominator.bit_length()
    frac += Fraction(2) ** frac < inverse
    if Fraction(2) ** frac != inverse:
        frac += guard
    first, last = math.floor(low * Fraction(2) ** frac), math.ceil(high * Fraction(2) ** frac)
    signed = first < 0
    width = max(last.bit_length() if last > 0 else 0, (-first - 1).bit_length() if signed else 0) + signed
    return FixedFormat(max(width, 2), frac, signed)
