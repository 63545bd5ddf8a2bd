"""Normalisation of rows of integers: exact moments, one reciprocal square root a row.

A row of ``N`` mantissas ``x`` has the exact sums ``s = sum(x)`` (0 if it is not centred) and ``q = sum(x**2)``. With
the integers ``V = N q - s**2`` and ``c = N x - s``, and with ``E = N**2 eps`` in squared LSBs of the input::

    (x - mean) / sqrt(var + eps) = c / sqrt(V + E)

``R = V * 2**G + round(E * 2**G)`` is shifted left by pairs of bits until one of its two highest is set. The highest
``p + 2`` bits are a number ``m`` from 1/4 to 1, of which ``r = 1/sqrt(m)`` comes from segments
(:mod:`mase_hw.ops._piecewise`) with ``p`` fraction bits. The row is ``floor(c * 2**shift / 2**D) * r``, at a fraction
that is the same for every row; products with the weight, the sum with the bias and the one cast are exact.

**Error**, in LSBs of the output, where it does not saturate. Let ``A`` be the largest number of the output plus that of
the bias, so that what stands before the bias is at most ``A``. Cutting off ``m`` changes ``r`` by less than
``2**-(p+1)``, relatively, and ``r`` itself is off by at most ``3/4 * 2**-p``: with ``2**p >= 4 A`` that is 5/16.
Rounding ``E`` is at most 1/64, because ``R >= 16 A`` unless all of ``c`` is 0 (``V`` is 0 or at least ``N - 1``). The
floor is at most 1/16 by the choice of ``D``. Together below 2/5 before the cast: with a cast to the nearest number the
result differs by at most 1 LSB from the exact one.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import carrier, magnitude, wider
from mase_hw.opdef import Arithmetic
from mase_hw.ops._functions import Key, entry
from mase_hw.ops._piecewise import evaluate

RADICAND_BITS = 62
"""The most of ``R`` that int64 holds; a longer one is computed row by row in Python integers."""
EPSILON_BITS = 30
"""Bits of the mantissa of ``E``; the others of a larger one are 0."""


@dataclass(frozen=True)
class Plan:
    """All that fixes the bits of a normalised row.

    Args:
        size: Elements of a row, ``N``.
        width: Bits of an element, with a sign.
        centre: Whether the mean is subtracted.
        epsilon: Mantissa of ``E * 2**G``.
        epsilon_shift: How far it is shifted left.
        radicand_frac: ``G``, even; below 0 where ``E`` is so large that the lowest bits of ``V`` never count.
        radicand: Bits of ``R``, even.
        scale: ``p``.
        drop: ``D``.
    """

    size: int
    width: int
    centre: bool
    epsilon: int
    epsilon_shift: int
    radicand_frac: int
    radicand: int
    scale: int
    drop: int

    @property
    def frac(self) -> int:
        """Fraction bits of a normalised element."""
        return self.scale + (self.radicand - self.radicand_frac) // 2 - self.drop

    @property
    def cut(self) -> int:
        """Bits of ``R``, shifted, below ``m``."""
        return self.radicand - self.scale - 2

    @functools.cached_property
    def shifts(self) -> Tensor:
        """How many pairs of bits ``R`` is shifted left, by its length."""
        pairs = self.radicand // 2
        return torch.tensor([min(pairs - (length + 1) // 2, pairs - 1) for length in range(self.radicand + 1)])

    @functools.cached_property
    def factors(self) -> tuple[Tensor, Tensor]:
        """``2**shift / 2**D``, and what ``R`` is multiplied with to be ``m``, by the length of ``R``, in float64."""
        shifts = self.shifts.tolist()
        return torch.tensor([2.0 ** (s - self.drop) for s in shifts], dtype=torch.float64), torch.tensor(
            [2.0 ** (2 * s - self.cut) for s in shifts], dtype=torch.float64
        )

    @property
    def centred_width(self) -> int:
        """Bits of ``c * 2**shift``, signed: it is below ``sqrt(N) * sqrt(R / 2**G)``, and ``R`` is at least ``E``."""
        size = (self.size - 1).bit_length()
        epsilon = max(1, (self.epsilon << self.epsilon_shift).bit_length())
        shifted = self.width + size + 1 + self.radicand // 2 - (epsilon + 1) // 2
        return max(min((self.radicand - self.radicand_frac) // 2 + (size + 1) // 2 + 1, shifted), self.drop + 1)

    @property
    def largest(self) -> int:
        """Largest magnitude of a normalised element's mantissa."""
        return 1 << (self.centred_width - 1 - self.drop + self.scale + 1)


def precision(a: Arithmetic) -> int:
    """``p``, from the formats of output and bias alone."""
    target = a.formats["data_out_0"]
    most = magnitude(target)
    if "bias" in a.formats:
        bias = a.formats["bias"]
        most += math.ceil(math.ldexp(magnitude(bias), target.frac_width - bias.frac_width))
    return (4 * most - 1).bit_length()


def key_of(a: Arithmetic) -> Key:
    """The reciprocal square root of ``m``, as a piecewise function."""
    p = precision(a)
    formats = FixedFormat(p + 2, p + 2, signed=False), FixedFormat(p + 2, p, signed=False)
    return ("rsqrt", (), *formats, Rounding.HALF_EVEN, Overflow.SATURATE)


@functools.lru_cache(maxsize=64)
def _plan(source: FixedFormat, scale: int, fine: int, size: int, centre: bool, eps: float) -> Plan:
    most = (1 << scale) // 4
    exact = size * size * math.ldexp(eps, 2 * source.frac_width)
    least = max(size - 1 if centre else size, int(exact), 1)
    extra = max(0, (-(-16 * most // least) - 1).bit_length())
    extra += extra % 2
    whole = round(math.ldexp(exact, extra))
    shift = max(0, whole.bit_length() - EPSILON_BITS)
    epsilon = whole >> shift
    spread = (1 << source.width) - 1
    largest = (size * size * spread * spread) // 4 if centre else (size * magnitude(source)) ** 2
    bits = ((largest << extra) + (epsilon << shift)).bit_length()
    bits = max(bits + bits % 2, scale + 2 + scale % 2)
    low = max(0, bits - RADICAND_BITS)
    if shift >= low and (epsilon << shift) >> low >= 2 << (scale + 2) and largest.bit_length() <= RADICAND_BITS - 2:
        # Those bits of E are 0, and R is so large that in none of its values they are bits of m.
        extra, shift, bits = extra - low, shift - low, bits - low
    if source.width + size.bit_length() > 61:
        raise FormatError(
            "the sum of a row does not fit 64 bits",
            got=f"{size} elements of {source.width} bits",
            remedy="use a narrower input, or shorter rows",
        )
    drop = max(0, (bits - extra) // 2 - fine)
    return Plan(size, source.width + (not source.signed), centre, epsilon, shift, extra, bits, scale, drop)


def plan_of(a: Arithmetic, size: int, centre: bool, eps: float) -> Plan:
    """How rows of ``size`` elements are normalised.

    Raises:
        FormatError: If the sum of a row does not fit 64 bits.
    """
    fine = a.formats["data_out_0"].frac_width + 5
    if "weight" in a.formats:
        weight = a.formats["weight"]
        fine += (magnitude(weight) - 1).bit_length() - weight.frac_width
    return _plan(a.formats["data_in_0"], precision(a), fine, size, centre, eps)


def normalise(plan: Plan, key: Key, x: Tensor, wide: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    """Rows of mantissas, the last dimension a row -> two factors of the normalised mantissas.

    The first one is that of each element, the second one that of each row; the product has ``plan.frac`` fraction bits.

    Args:
        plan: How.
        key: Of the reciprocal square root.
        x: The mantissas, in a carrier of the sum of a row's squares, or in int64.
        wide: Carrier of everything else and of the result, see :func:`check_fits`.
    """
    if plan.radicand > RADICAND_BITS:
        x = x.to(torch.int64)
        total = x.sum(-1, keepdim=True) if plan.centre else torch.zeros_like(x[..., :1])
        shift, m = _of_long_rows(plan, x, total)
        return _shifted(x * plan.size - total, shift - plan.drop), evaluate(key, m).to(wide)
    total = x.sum(-1, keepdim=True).to(wide) if plan.centre else torch.zeros_like(x[..., :1], dtype=wide)
    radicand = (x * x).sum(-1, keepdim=True).to(wide).mul_(plan.size).sub_(total * total)
    low = -plan.radicand_frac
    radicand = radicand >> low if low > 0 else radicand.mul_(1 << -low)
    radicand = radicand.add_(plan.epsilon << plan.epsilon_shift)
    length, c = _bit_length(radicand), x.to(wide, copy=True)
    if wide == torch.int64:
        shift = entry(plan.shifts, length)
        r = evaluate(key, (radicand << 2 * shift) >> plan.cut)
        return c.mul_(plan.size).sub_(total) << shift >> plan.drop, r.to(wide)
    factor, of_radicand = (entry(factors, length) for factors in plan.factors)
    r = evaluate(key, radicand.mul_(of_radicand).floor_())
    return c.mul_(factor * plan.size).sub_(total.mul_(factor)).floor_(), r.to(wide)


def _of_long_rows(plan: Plan, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """How far each row is shifted, and ``m``, where ``R`` is longer than int64: squares are summed in two limbs."""
    half = (plan.width + 1) // 2
    high, low = x >> half, x & ((1 << half) - 1)
    sums = ((high * high).sum(-1), (high * low).sum(-1), (low * low).sum(-1), total[..., 0])
    found, shifts = [], plan.shifts.tolist()
    for a, b, c, s in zip(*(part.flatten().tolist() for part in sums), strict=True):
        spread = plan.size * ((a << 2 * half) + (b << half + 1) + c) - s * s
        scaled = spread << plan.radicand_frac if plan.radicand_frac > 0 else spread >> -plan.radicand_frac
        radicand = scaled + (plan.epsilon << plan.epsilon_shift)
        shift = shifts[radicand.bit_length()]
        found.append((shift, (radicand << 2 * shift) >> plan.cut))
    made = torch.tensor(found, dtype=torch.int64, device=x.device).reshape(*total.shape[:-1], 1, 2)
    return made[..., 0], made[..., 1]


def _shifted(x: Tensor, shift: Tensor) -> Tensor:
    """``floor(x * 2**shift)``, within int64."""
    return torch.where(shift < 0, x >> (-shift).clamp(0, 63), x << shift.clamp(min=0))


def _bit_length(x: Tensor) -> Tensor:
    """Of integers that are not negative; 0 of 0."""
    if x.dtype == torch.int64:
        x = (x & ~(x >> 1)).double()  # the same length, and no run of ones that a float would round up
    return torch.frexp(x).exponent


def carrier_of(plan: Plan, bound: int) -> torch.dtype:
    """What holds all that :func:`normalise` computes with, and results up to a bound: float64 where it does."""
    # N q and s**2 of a row without a sign are each up to four times their largest difference.
    bits = max(plan.radicand, plan.radicand - plan.radicand_frac + 2, plan.centred_width)
    return torch.float64 if max(bound, plan.largest, 1 << bits) <= 1 << 53 else torch.int64


def check_fits(a: Arithmetic, plan: Plan) -> tuple[int, torch.dtype]:
    """The fraction of the exact result, with weight and bias, and the carrier in which it is computed.

    Raises:
        FormatError: If no carrier holds it.
    """
    carrier(1 << (plan.centred_width - plan.drop))  # an element by itself
    frac, bound = plan.frac, plan.largest
    if "weight" in a.formats:
        frac, bound = frac + a.formats["weight"].frac_width, bound * magnitude(a.formats["weight"])
    if "bias" in a.formats:
        bias = a.formats["bias"]
        both = max(frac, bias.frac_width)
        bound = (bound << (both - frac)) + (magnitude(bias) << (both - bias.frac_width))
        frac = both
    return frac, wider(carrier_of(plan, bound), carrier(bound, wide=True))
