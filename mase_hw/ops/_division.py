"""Exact division by constants, rounded once: averages of all kinds.

The quotient is computed as an integer with its remainder, and the remainder decides the rounding; no device divides
floats in a way that could be seen in the result.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import carrier, cast
from mase_hw.observing import CastObserver, cast_observer

_EXACT = 1 << 52
"""Below this the floor of a float64 quotient is exact: it is at least one place away from the next integer."""


class _Divide(torch.autograd.Function):
    """``round(n * 2**shift / d)`` as an integer in float64 or int64; straight-through backward."""

    @staticmethod
    def forward(ctx: Any, n: Tensor, d: Tensor, shift: int, rounding: Rounding) -> Tensor:
        ctx.save_for_backward(d)
        ctx.shift = shift
        mag = n.abs()
        whole, div = (mag * (1 << shift), d) if shift >= 0 else (mag, d * (1 << -shift))
        exact = n.dtype == torch.int64
        quotient = torch.div(whole, div, rounding_mode="floor") if exact else torch.floor(whole / div)
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
        rounded = quotient + up.to(n.dtype)
        return torch.where(n < 0, -rounded, rounded)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (d,) = ctx.saved_tensors
        grad = grads[0] * math.ldexp(1.0, ctx.shift) / d
        return grad, None, None, None


def divide_cast(
    mantissa: Tensor,
    divisor: Tensor,
    limits: tuple[int, int],
    frac: int,
    fmt: FixedFormat,
    rounding: Rounding = Rounding.HALF_EVEN,
    overflow: Overflow = Overflow.SATURATE,
) -> Tensor:
    """Divide exact mantissas by integers and round the quotient once into a format.

    Args:
        mantissa: Integers in a carrier, any shape; the value is ``mantissa * 2**-frac``.
        divisor: Positive integers (int64) that broadcast to the mantissas.
        limits: Largest magnitude of ``mantissa`` that can occur, and largest divisor.
        frac: Fraction width of ``mantissa``.
        fmt: Target format.
        rounding: What happens to the part of the quotient below the target's LSB.
        overflow: What happens beyond the target's range.

    Returns:
        Mantissas of ``fmt``; gradients as in :func:`mase_hw.numerics.cast`, divided by the divisor.

    Raises:
        FormatError: If a scaled numerator or divisor does not fit 63 bits.
    """
    bound, largest = limits
    shift = fmt.frac_width - frac
    # With a divisor of more than four times the largest numerator every shift gives the same.
    shift = max(shift, -(bound.bit_length() + 2))
    # The remainder is doubled.
    most = max(bound << max(shift, 0), (largest << max(-shift, 0)) << 1)
    carrier(2 * most)
    dtype = torch.float64 if most <= _EXACT else torch.int64
    quotient: Tensor = _Divide.apply(mantissa.to(dtype), divisor.to(mantissa.device, dtype), shift, rounding)  # type: ignore[no-untyped-call]
    observer = cast_observer()
    if observer is not None:
        quotient = _observed(observer, quotient, mantissa, divisor, shift, rounding)
    return cast(quotient, fmt.frac_width, fmt, Rounding.FLOOR, overflow)


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
