"""Arithmetic on values instead of mantissas: the same numbers in fewer passes over memory.

A value is its mantissa times a power of two, so sums of products that are exact in mantissas are exact in values. In
float32, a format's step is made by adding ``1.5 * 2**23`` steps, where neighbouring floats are one step apart: the
addition rounds to the nearest step, ties to even, and subtracting the same is exact. (Fast rounding by a large
constant: Dekker, Numer. Math. 18, 1971.)

Ops offer this as ``OpDef.on_values``; the definition stays ``golden``, and tests compare all bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import magnitude


@dataclass(frozen=True)
class Cast:
    """The cast of exact values to a format by clamping and adding a constant, in place.

    Args:
        low: Smallest value.
        high: Largest value.
        constant: What rounds to a step when it is added and subtracted.
    """

    low: float
    high: float
    constant: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """The values of the format nearest to ``x``, half-even and saturating, written into ``x``."""
        # Both ends are on the grid, so it does not matter that saturation comes first. Gives no negative zero.
        return x.clamp_(self.low, self.high).add_(self.constant).sub_(self.constant)


@dataclass(frozen=True)
class OnValues:
    """An op of one input from values to values.

    Args:
        exact: The result before the cast, exact, in a new tensor; None where this input must be computed in mantissas.
        cast: What follows; None if the result is in its format already.
        allowed: Whether torch's settings leave ``exact`` exact, asked at every use.
        positive: ``exact`` is ``max(x, 0)``, which the cast before it can do as well.
    """

    exact: Callable[[Tensor], Tensor | None]
    cast: Cast | None
    allowed: Callable[[], bool] | None = None
    positive: bool = False

    def __call__(self, x: Tensor) -> Tensor | None:
        """The result, in a tensor of its own; None where it must be computed in mantissas after all."""
        if self.allowed is not None and not self.allowed():
            return None
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor | None:
        """The result where ``allowed`` was asked before."""
        y = self.exact(x)
        return y if y is None or self.cast is None else self.cast(y)

    def then(self, after: OnValues) -> OnValues | None:
        """Both in one, if all that ``after`` does is to clamp what this one gives; else None."""
        mine, theirs = self.cast, after.cast
        if not after.positive or mine is None or (theirs is not None and theirs.constant is not mine.constant):
            return None
        high = mine.high if theirs is None else min(mine.high, theirs.high)
        return replace(self, cast=Cast(max(mine.low, 0.0), high, mine.constant))


MAX_EXPONENT = 40
"""Fraction widths up to this keep products, sums and the constant far from both ends of float32."""
_EXACT = 1 << 24
_WIDEST = 1 << 22
"""Largest mantissas that can be rounded by the constant."""


def in_float32(*formats: FixedFormat) -> bool:
    """Whether values of these formats, and the products of two of them, have ordinary float32 exponents."""
    return all(abs(f.frac_width) <= MAX_EXPONENT and magnitude(f) <= _EXACT for f in formats)


@functools.cache
def _constant(frac_width: int) -> Tensor:
    """What rounds to a step; a tensor, because a number would be made one in every call."""
    with torch.inference_mode(False):
        return torch.tensor(math.ldexp(1.5, 23 - frac_width), dtype=torch.float32, device="cpu")


def cast_to(a: Arithmetic) -> Cast | None:
    """The cast to ``data_out_0``; None if it needs the general one."""
    fmt = a.formats["data_out_0"]
    if (a.rounding, a.overflow) != (Rounding.HALF_EVEN, Overflow.SATURATE):
        return None
    if not in_float32(fmt) or magnitude(fmt) > _WIDEST:
        return None
    return Cast(fmt.min_value, fmt.max_value, _constant(fmt.frac_width))


def selection(
    a: Arithmetic, low: int, exact: Callable[[Tensor], Tensor | None], positive: bool = False
) -> OnValues | None:
    """An op that gives numbers of its input, or 0; it needs no cast if the output format holds them all.

    Args:
        a: Formats and modes.
        low: Smallest mantissa that is given.
        exact: The op before the cast.
        positive: It is ``max(x, 0)``.
    """
    fx, fy = a.formats["data_in_0"], a.formats["data_out_0"]
    if not in_float32(fx, fy):
        return None
    finer = fy.frac_width - fx.frac_width
    if finer >= 0 and low << finer >= fy.min_mantissa and fx.max_mantissa << finer <= fy.max_mantissa:
        return OnValues(exact, None, positive=positive)
    cast = cast_to(a)
    return None if cast is None else OnValues(exact, cast, positive=positive)


def operands(a: Arithmetic, t: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None] | None:
    """Weight and bias as float32 values, if all sums of products with ``data_in_0`` are exact in float32.

    The bound is that of these weights, not of any weights of their format: the largest sum of magnitudes of one output,
    in units of the finest bit.

    Args:
        a: Formats.
        t: Mantissas of ``weight`` (outputs first), optional ``bias`` and ``weight_shift``.
    """
    names = [name for name in ("weight", "bias") if name in t]
    if any(v.device.type != "cpu" for v in t.values()) or not in_float32(
        a.formats["data_in_0"], *(a.formats[n] for n in names)
    ):
        return None
    fx, fw = a.formats["data_in_0"], a.formats["weight"]
    weight, bias = t["weight"].double(), t.get("bias")
    if "weight_shift" in t:
        factor = torch.ones_like(t["weight_shift"], dtype=torch.int64) << t["weight_shift"].to(torch.int64)
        weight = weight * factor.double().reshape(-1, *[1] * (weight.dim() - 1))
    frac = product_frac = fx.frac_width + fw.frac_width
    # In float64: what is beyond its 53 bits is beyond float32 anyway.
    bound = weight.abs().flatten(1).sum(1) * magnitude(fx)
    if bias is not None:
        fb = a.formats["bias"]
        frac = max(frac, fb.frac_width)
        bound = bound * math.ldexp(1.0, frac - product_frac)
        bound = bound + bias.double().abs() * math.ldexp(1.0, frac - fb.frac_width)
        bias = (bias.double() * fb.scale).float()
    if bound.numel() and float(bound.max()) > _EXACT:
        return None
    return (weight * fw.scale).float(), bias


def enter(x: Tensor, fmt: FixedFormat) -> Tensor | None:
    """Values of a format nearest to a float32 tensor, as a new tensor; None if that needs the general way.

    None for NaN too, which the general way refuses.
    """
    if x.dtype != torch.float32 or not in_float32(fmt) or magnitude(fmt) > _WIDEST:
        return None
    constant = _constant(fmt.frac_width)
    y = x.clamp(fmt.min_value, fmt.max_value).add_(constant).sub_(constant)
    # Clamped numbers are finite, so their sum is NaN only if one of them is.
    return None if math.isnan(y.sum().item()) else y
