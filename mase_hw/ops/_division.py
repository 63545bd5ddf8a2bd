"""Exact division by constants, rounded once: averages of all kinds.

The quotient is a correctly rounded one of floats where that decides the rounding as the exact one does
(:data:`_WHOLE`), else an integer with its remainder.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.numerics import carrier, cast, magnitude, settled
from mase_hw.numerics.grid import rounded
from mase_hw.numerics.observing import CastObserver, cast_observer
from mase_hw.numerics.wide import LOW, WIDE, Wide

_WHOLE = ((torch.float32, 1 << 23), (torch.float64, 1 << 52))
"""Below these, a numerator has a quotient that a correctly rounded division leaves on its side of every half.

``n / d`` is at least ``1 / (2 d)`` away from a half that it does not meet, and rounded by at most ``n / d * 2**-24`` in
float32 and ``n / d * 2**-53`` in float64, which is less. Divisors are exact up to twice as much.
"""


def _quotient(n: Tensor, d: Tensor, shift: int, own: bool = False) -> Tensor:
    d = d * math.ldexp(1.0, -shift)
    return n.div_(d) if own else n / d


class _Divide(torch.autograd.Function):
    """``round(n * 2**shift / d)`` as an integer; straight-through backward."""

    @staticmethod
    def forward(ctx: Any, n: Tensor, d: Tensor, shift: int, rounding: Rounding) -> Tensor:
        ctx.save_for_backward(d)
        ctx.shift = shift
        if n.dtype != torch.int64:
            return rounded(_quotient(n, d, shift), rounding)
        mag = n.abs()
        whole, div = (mag << shift, d) if shift >= 0 else (mag, d << -shift)
        quotient = torch.div(whole, div, rounding_mode="floor")
        twice = 2 * (whole - quotient * div)
        if rounding is Rounding.HALF_EVEN:
            up = (twice > div) | ((twice == div) & (quotient % 2 == 1))
        elif rounding is Rounding.HALF_UP:
            up = (twice > div) | ((twice == div) & (n >= 0))
        elif rounding is Rounding.HALF_AWAY:
            up = twice >= div  # of the magnitude
        elif rounding is Rounding.FLOOR:
            up = (twice > 0) & (n < 0)
        else:
            up = torch.zeros_like(twice, dtype=torch.bool)
        result = quotient + up.to(n.dtype)
        return torch.where(n < 0, -result, result)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (d,) = ctx.saved_tensors
        grad = grads[0] * math.ldexp(1.0, ctx.shift) / d
        return grad, None, None, None


NEAREST = Cast()


def divide_cast(
    mantissa: Tensor,
    divisor: Tensor,
    limits: tuple[int, int],
    frac: int,
    fmt: FixedFormat,
    modes: Cast = NEAREST,
    *,
    own: bool = False,
) -> Tensor:
    """Divide exact mantissas by integers and round the quotient once into a format.

    Args:
        mantissa: Integers in a carrier, any shape; the value is ``mantissa * 2**-frac``.
        divisor: Positive integers (int64) that broadcast to the mantissas.
        limits: Largest magnitude of ``mantissa`` that can occur, and largest divisor.
        frac: Fraction width of ``mantissa``.
        fmt: Target format.
        modes: What happens to the part of the quotient below the target's LSB, and beyond the target's range.
        own: The tensor of mantissas has the shape of the result and may be written, as nobody reads it afterwards.

    Returns:
        Mantissas of ``fmt``; gradients as in :func:`mase_hw.numerics.cast`, divided by the divisor.

    Raises:
        FormatError: If no carrier holds a scaled numerator or divisor, or the divisor has more than 61 bits.
    """
    bound, largest = limits
    shift = fmt.frac_width - frac
    # With a divisor of more than four times the largest numerator every shift gives the same.
    shift = max(shift, -(bound.bit_length() + 2))
    numerator = bound << max(shift, 0)
    # In integers the remainder is doubled.
    most = 2 * max(numerator, (largest << max(-shift, 0)) << 1)
    if carrier(most, wide=True) is WIDE or mantissa.dtype is WIDE:
        carrier(2 * most, wide=True)  # two bits more decide the rounding
        digits = _beyond(mantissa, divisor, shift, largest)
        return cast(digits, fmt.frac_width + 2, fmt, modes.rounding, modes.overflow)
    dtype = _dtype(mantissa, numerator, largest)
    given, by = mantissa.to(dtype), divisor.to(mantissa.device, dtype)
    observer = cast_observer()
    plain = observer is None and not fmt.zero_point and carrier(magnitude(fmt)) in (torch.float32, dtype)
    if plain and dtype != torch.int64 and not (torch.is_grad_enabled() and mantissa.requires_grad):
        return settled(_quotient(given, by, shift, own), fmt, modes.rounding, modes.overflow)
    quotient: Tensor = _Divide.apply(given, by, shift, modes.rounding)  # type: ignore[no-untyped-call]
    if observer is not None:
        quotient = _observed(observer, quotient, mantissa, divisor, shift, modes.rounding)
    return cast(quotient, fmt.frac_width, fmt, Rounding.FLOOR, modes.overflow)


def _beyond(mantissa: Tensor | Wide, divisor: Tensor, shift: int, largest: int) -> Wide:
    """``n * 2**(shift + 2) / d``, whose last bit is set as well where there is a remainder, by long division.

    Raises:
        FormatError: If a remainder with one more bit is beyond int64.
    """
    digit = LOW - largest.bit_length()
    if digit < 1:
        raise FormatError("a divisor has too many bits", got=str(largest.bit_length()), expected=f"at most {LOW - 1}")
    up, d = shift + 2, divisor.to(mantissa.device, torch.int64)
    lost: Tensor | int = 0
    if up < 0:
        whole = Wide.of(mantissa)
        mantissa, dropped = whole >> -up, whole - ((whole >> -up) << -up)
        lost = dropped.high | dropped.low
    parts: list[tuple[Tensor | int, int]] = [(0, max(up, 0))]
    if isinstance(mantissa, Wide):
        first, parts = mantissa.high, [(mantissa.low, LOW), *parts]
    else:
        first = mantissa.to(torch.int64)
    step = torch.div(first, d, rounding_mode="floor")
    quotient, remainder = Wide.of(step), first - step * d
    for low, bits in parts:
        for end in range(bits, 0, -digit):
            taken = min(digit, end)
            remainder = (remainder << taken) | ((low >> (end - taken)) & ((1 << taken) - 1))
            step = torch.div(remainder, d, rounding_mode="floor")
            quotient, remainder = (quotient << taken) + step, remainder - step * d
    return Wide(quotient.high, quotient.low | ((remainder | lost) != 0).to(torch.int64))


def _dtype(mantissa: Tensor, numerator: int, divisor: int) -> torch.dtype:
    """What divides exactly enough, from the largest numerator and divisor; gradients are those of float64."""
    narrow = mantissa.is_cpu and not (torch.is_grad_enabled() and mantissa.requires_grad)
    for dtype, limit in _WHOLE if narrow else _WHOLE[1:]:
        if numerator < limit and divisor <= 2 * limit:
            return dtype
    return torch.int64


def _observed(observer: CastObserver, quotient: Tensor, n: Tensor, d: Tensor, shift: int, rounding: Rounding) -> Tensor:
    """Show the rounding to an observer, with what it may give instead; the range comes with the cast."""
    whole = n.to(torch.int64) << max(0, shift)
    div = d.to(n.device, torch.int64) << max(0, -shift)
    floor = torch.div(whole, div, rounding_mode="floor")
    tie = 2 * (whole - floor * div) == div
    return observer.rounded(quotient.to(torch.int64), floor, tie, rounding)


def surrogate(total: Tensor, divisor: Tensor, frac: int, fmt: FixedFormat, overflow: Overflow) -> Tensor:
    """The quotient in float64, for the gradient only: int64 carries none.

    Args:
        total: What was summed, float64 with a gradient.
        divisor: As for :func:`divide_cast`.
        frac: Fraction width of ``total``.
        fmt: Target format.
        overflow: Saturation stops the gradient.
    """
    result = total * math.ldexp(1.0, fmt.frac_width - frac) / divisor
    return result.clamp(fmt.min_mantissa, fmt.max_mantissa) if overflow is Overflow.SATURATE else result
