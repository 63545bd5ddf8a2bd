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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.numerics import magnitude
from mase_hw.numerics.exact_sums import EXACT_FLOAT32, ranges_within
from mase_hw.opdef import Arithmetic


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
        x = x if x.is_floating_point() else x.to(self.constant.dtype)  # integers that a model made of data
        # Both ends are on the grid, so it does not matter that saturation comes first. Gives no negative zero.
        return x.clamp_(self.low, self.high).add_(self.constant).sub_(self.constant)


@dataclass(frozen=True)
class OnValues:
    """An op from values to values.

    Args:
        exact: The result before the cast, exact, in a new tensor; None where this input must be computed in mantissas.
        cast: What follows; None if the result is in its format already.
        allowed: Whether torch's settings leave ``exact`` exact, asked at every use.
        clamp: ``exact`` is a clamp between these, which the cast before it can do as well.
    """

    exact: Callable[..., Tensor | None]
    cast: Cast | None
    allowed: Callable[[], bool] | None = None
    clamp: tuple[float, float] | None = None

    def __call__(self, *x: Tensor | None) -> Tensor | None:
        """The result, in a tensor of its own; None where it must be computed in mantissas after all."""
        if self.allowed is not None and not self.allowed():
            return None
        return self.compute(*x)

    def compute(self, *x: Tensor | None) -> Tensor | None:
        """The result where ``allowed`` was asked before."""
        y = self.exact(*x)
        return y if y is None or self.cast is None else self.cast(y)

    def then(self, after: OnValues) -> OnValues | None:
        """Both in one, if all that ``after`` does is to clamp what this one gives; else None."""
        mine, theirs = self.cast, after.cast
        if after.clamp is None or mine is None or (theirs is not None and theirs.constant is not mine.constant):
            return None
        # Clamping comes before rounding here and after it there, which is the same for ends on the grid.
        if not all(math.isinf(end) or _on_grid(end, mine) for end in after.clamp):
            return None
        low, high = max(mine.low, after.clamp[0]), min(mine.high, after.clamp[1])
        if theirs is not None:
            low, high = max(low, theirs.low), min(high, theirs.high)
        return replace(self, cast=Cast(low, high, mine.constant)) if low <= high else None


def _on_grid(value: float, cast: Cast) -> bool:
    """Whether a value is a multiple of the step of a cast, whose constant is ``1.5 * 2**23`` steps."""
    steps = value / (float(cast.constant) / (1.5 * (1 << 23)))
    return steps == math.floor(steps)


MAX_EXPONENT = 40
"""Fraction widths up to this keep products, sums and the constant far from both ends of float32."""
_WIDEST = 1 << 22
"""Largest mantissas that can be rounded by the constant."""


def in_float32(*formats: FixedFormat) -> bool:
    """Whether values of these formats, and the products of two of them, have ordinary float32 exponents."""
    if any(isinstance(f, ScaledFormat) for f in formats):
        return False  # values of any scale are not exact
    return all(abs(f.frac_width) <= MAX_EXPONENT and magnitude(f) <= EXACT_FLOAT32 for f in formats)


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
    a: Arithmetic, low: int, exact: Callable[[Tensor], Tensor | None], clamp: tuple[float, float] | None = None
) -> OnValues | None:
    """An op that gives numbers of its input, or 0; it needs no cast if the output format holds them all.

    Args:
        a: Formats and modes.
        low: Smallest mantissa that is given.
        exact: The op before the cast.
        clamp: It is a clamp between these.
    """
    fx, fy = a.formats["data_in_0"], a.formats["data_out_0"]
    if not in_float32(fx, fy):
        return None
    finer = fy.frac_width - fx.frac_width
    if finer >= 0 and low << finer >= fy.min_mantissa and fx.max_mantissa << finer <= fy.max_mantissa:
        return OnValues(exact, None, clamp=clamp)
    cast = cast_to(a)
    return None if cast is None else OnValues(exact, cast, clamp=clamp)


Parts = tuple[tuple[slice, Tensor], ...]
"""Ranges of input channels with the weights of each, as float32 values."""


def operands(
    a: Arithmetic, t: Mapping[str, Tensor], last: Cast | None, *, split: bool = True
) -> tuple[Parts, Tensor | None] | None:
    """Weights and bias as float32 values, if all sums of products with ``data_in_0`` are exact in float32.

    The bound is that of these weights, not of any weights of their format: the largest sum of magnitudes of one output,
    in units of the finest bit. Where it is beyond 2**24, the input channels are cut into ranges whose sums are within
    it. Each is exact; so is what two of them add up to, or it is rounded and its magnitude is at least 2**24 units. If
    the cast saturates there, the result is the same.

    Args:
        a: Formats.
        t: Mantissas of ``weight`` (outputs first, input channels second), optional ``bias`` and ``weight_shift``.
        last: The cast that follows.
        split: The op can be computed on a part of its input channels.

    Returns:
        The parts and the bias, which belongs to the first; None if float32 is not enough.
    """
    names = [name for name in ("weight", "bias") if name in t]
    if any(v.device.type != "cpu" for v in t.values()) or not in_float32(
        a.formats["data_in_0"], *(a.formats[n] for n in names)
    ):
        return None
    fx, fw = a.formats["data_in_0"], a.formats["weight"]
    weight, bias = t["weight"].double(), t.get("bias")
    if "weight_shift" in t:
        factor = fw.factors(t["weight_shift"].to(torch.int64))
        weight = weight * fw.spread(factor.double(), weight.shape)
    frac = product_frac = fx.frac_width + fw.frac_width
    # In float64: what is beyond its 53 bits is beyond float32 anyway.
    own = weight.abs()
    own = own.flatten(2).sum(2) if own.dim() > 2 else own
    bound = own.flatten(1).sum(1) * magnitude(fx)
    if bias is not None:
        fb = a.formats["bias"]
        frac = max(frac, fb.frac_width)
        bound = bound * math.ldexp(1.0, frac - product_frac)
        bound = bound + bias.double().abs() * math.ldexp(1.0, frac - fb.frac_width)
        bias = (bias.double() * fb.scale).float()
    values = (weight * fw.scale).float()
    if not bound.numel() or float(bound.max()) <= EXACT_FLOAT32:
        return ((slice(None), values),), bias
    unit = math.ldexp(1.0, -frac)
    saturates = last is not None and max(-last.low, last.high) <= EXACT_FLOAT32 * unit
    if not split or not saturates:
        return None
    reach = own * (magnitude(fx) * math.ldexp(1.0, frac - product_frac))
    used = None if bias is None else bias.double().abs() * math.ldexp(1.0, frac)
    ranges = ranges_within(reach, EXACT_FLOAT32, used)
    if ranges is None:
        return None
    return tuple((part, values[:, part].contiguous()) for part in ranges), bias


def add_parts(parts: Sequence[Tensor], last: Cast) -> Tensor:
    """The sum of exact sums, as far as the cast that follows can tell; written into the first.

    Args:
        parts: As :func:`operands` cut them, each within 2**24 units.
        last: The cast, which saturates within 2**24 units.
    """
    first, *rest = parts
    if len(rest) < 2:
        return first.add_(rest[0]) if rest else first
    # Three might pass 2**24 and come back.
    total = first.double()
    for part in rest:
        total.add_(part)
    return total.clamp_(last.low, last.high).float()


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
