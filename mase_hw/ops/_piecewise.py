"""Functions of wide inputs: a quadratic over each of some segments, mostly a few hundred, in integers.

The inputs are cut into octaves of both signs (the bit length of ``m``, or of ``~m`` where ``m`` is negative), and
every octave into 2**n equal segments, as few as the error allows: poles and tails cost no more than the rest (the
segmentation of D. Lee et al., "Hierarchical segmentation for hardware function evaluation", IEEE TVLSI 2009, with
octaves as the outer level). In a segment, with ``t`` the place of the code in it as a fraction of ``step`` bits::

    y = c0 + (c1 + floor(c2 * t)) * t        everything else exact; one cast at the end

The coefficients interpolate the function at the Chebyshev nodes. The error of ``y`` is measured against the function
in float64 and is at most :data:`BUDGET` of the output's LSB before the cast, so the result differs by at most
1 LSB from the exactly rounded one.
"""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.formats.attributes import attributes_of
from mase_hw.numerics import as_carrier, carrier, cast, takes_wide, wider
from mase_hw.numerics.observing import cast_observer
from mase_hw.opdef import Memory
from mase_hw.ops._functions import Key, entry, values

BUDGET = 0.25
"""Largest error before the cast, in LSBs of the output."""
GUARD = 5
"""Fraction bits of the coefficients beyond those of the output."""
MAX_SEGMENTS = 1 << 15
_EXHAUSTIVE = 1 << 19
"""Codes of an octave up to which every one is measured."""
_SAMPLES = 64
"""Codes measured of each segment beyond that."""
_FIRST = 8
"""Codes of each segment, about, that are measured before all others."""
_TABLE_BITS = 16
"""Functions of inputs up to so many bits are computed once for every one of them, and looked up from then on."""
_AT_ONCE = 1 << 15
"""Codes measured at a time."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Piecewise:
    """All that fixes the bits of a piecewise function.

    Args:
        base: By octave: number of the segment that the magnitude 0 would have, modulo the size of the address.
        left: By octave: how far the magnitude is shifted left so that its fraction of a segment has ``step`` bits.
        coefficients: ``(3, segments)``: c0, c1, c2 with ``frac`` fraction bits.
        step: Bits of the place in a segment.
        frac: Fraction bits of the coefficients.
        worst: Largest measured error before the cast, in LSBs of the output.
        exhaustive: Whether every code was measured.
    """

    base: Ints
    left: Ints
    coefficients: Ints
    step: int
    frac: int
    worst: float
    exhaustive: bool

    @property
    def segments(self) -> int:
        """Number of segments."""
        return int(self.coefficients.shape[1])

    @property
    def address(self) -> int:
        """Bits of a segment's number."""
        return max(1, (self.segments - 1).bit_length())

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of c0, c1, c2 as signed numbers."""
        return tuple(max(_signed_bits(int(c.min())), _signed_bits(int(c.max()))) for c in self.coefficients)

    @property
    def left_width(self) -> int:
        """Bits of a shift."""
        return max(1, self.step.bit_length())

    @functools.cached_property
    def wide(self) -> torch.dtype:
        """The carrier of the quadratic and of its products.

        Raises:
            FormatError: If there is none.
        """
        widths = self.widths
        bound = 1 << max(widths[0], widths[1] + 1, widths[2] + 1) + self.step
        return wider(torch.int64, carrier(bound, wide=True))

    def with_coefficients(self, stored: Memory) -> Piecewise:
        """The same with the coefficients of a memory like that of :meth:`memories`."""
        rows, at = [], 0
        for width in self.widths:
            codes = [word >> at & ((1 << width) - 1) for word in stored.words]
            rows.append([code - (code >> (width - 1) << width) for code in codes])
            at += width
        return replace(self, coefficients=np.array(rows, dtype=np.int64))

    def memories(self) -> dict[str, Memory]:
        """Coefficients by segment, c0 in the low bits; segment and shift by octave, the shift in the low bits."""
        note = f"{self.segments} segments, at most {self.worst:.3f} LSBs off before the cast, "
        note += "every input code measured" if self.exhaustive else "measured in many places of each segment"
        words = [0] * self.segments
        at = 0
        for row, width in zip(self.coefficients.tolist(), self.widths, strict=True):
            words = [word | (c & ((1 << width) - 1)) << at for word, c in zip(words, row, strict=True)]
            at += width
        octaves = [b << self.left_width | s for b, s in zip(self.base.tolist(), self.left.tolist(), strict=True)]
        return {
            "TABLE_FILE": Memory(tuple(words), at, note),
            "OCTAVE_FILE": Memory(tuple(octaves), self.address + self.left_width),
        }


def _signed_bits(value: int) -> int:
    return (value if value >= 0 else ~value).bit_length() + 1


def octave_bits(fmt: FixedFormat) -> int:
    """Bits of the bit length of a magnitude."""
    return (fmt.width - int(fmt.signed)).bit_length()


def fit(key: Key) -> Piecewise:
    """Cut a function into segments.

    Raises:
        FormatError: If overflow wraps, the function needs too many segments, or a sum fits no carrier.
    """
    found = _fitted(key, takes_wide())
    if isinstance(found, FormatError):
        raise copy.copy(found)  # a caller that catches it may add to it
    return found


@functools.lru_cache(maxsize=256)
def _fitted(key: Key, _wide: bool) -> Piecewise | FormatError:
    """The same, or why not: that no cut is fine enough takes longest to find out."""
    try:
        return _fit(key)
    except FormatError as error:
        return error.with_traceback(None)


def _fit(key: Key) -> Piecewise:
    name, _, source, target, _, overflow = key
    if overflow is Overflow.WRAP:
        raise FormatError(
            f"{name} of a wide input saturates",
            field="overflow",
            got="wrap",
            expected="saturate",
            remedy="an error of 1 LSB could wrap around; use saturate, or an input of at most 12 bits",
        )
    found = [_Octave(key, sign, length) for sign in range(1 + source.signed) for length in range(_lengths(source))]
    parts = [octave.split() for octave in found]
    total = sum(part.count for part in parts)
    if total > MAX_SEGMENTS:
        raise _too_many(key, total)
    step = max(1, *(part.shift for part in parts))
    size = 1 << octave_bits(source)
    base, left = np.zeros((1 + source.signed, size), np.int64), np.zeros((1 + source.signed, size), np.int64)
    address = (1 << max(1, (total - 1).bit_length())) - 1
    at = 0
    for octave, part in zip(found, parts, strict=True):
        base[octave.sign, octave.length] = (at - (octave.start >> part.shift)) & address
        left[octave.sign, octave.length] = step - part.shift
        at += part.count
    coefficients = np.concatenate([part.coefficients for part in parts], axis=1)
    result = Piecewise(
        base.reshape(-1),
        left.reshape(-1),
        coefficients,
        step,
        target.frac_width + GUARD,
        max(part.worst for part in parts),
        all(octave.exhaustive for octave in found),
    )
    _ = result.wide  # refuses what fits no carrier
    return result


def _lengths(fmt: FixedFormat) -> int:
    return fmt.width - int(fmt.signed) + 1


def _too_many(key: Key, segments: int) -> FormatError:
    return FormatError(
        f"{key[0]} of these formats needs too large a memory",
        got=f"{key[2]} to {key[3]}: {segments} segments or more",
        expected=f"at most {MAX_SEGMENTS}",
        remedy="use fewer fraction bits for the output, or fewer bits for the input",
    )


@dataclass(frozen=True)
class _Part:
    """An octave cut into segments of 2**shift codes."""

    shift: int
    coefficients: Ints
    worst: float

    @property
    def count(self) -> int:
        return int(self.coefficients.shape[1])


class _Octave:
    """The codes of one sign whose magnitudes have the same bit length."""

    def __init__(self, key: Key, sign: int, length: int) -> None:
        self.key, self.sign, self.length = key, sign, length
        self.start = 1 << (length - 1) if length else 0
        self.codes = max(1, self.start)
        self.exhaustive = self.codes <= _EXHAUSTIVE
        target = key[3]
        self.low, self.high = (m * target.scale for m in (target.min_mantissa, target.max_mantissa))
        self.bound = 4 * max(abs(self.low), abs(self.high), target.scale)

    def split(self) -> _Part:
        """As few segments as the error allows."""
        everywhere = self._values(np.arange(self.codes, dtype=np.float64)) if self.exhaustive else None
        for shift in range(max(0, self.length - 1), -1, -1):
            count = self.codes >> shift
            if count > MAX_SEGMENTS:
                raise _too_many(self.key, count)
            coefficients = self._fit(shift, count)
            worst = self._error(shift, count, coefficients, everywhere)
            if worst <= BUDGET:
                return _Part(shift, coefficients, worst)
        raise FormatError(
            f"{self.key[0]} cannot be computed to {BUDGET} LSBs",
            got=f"{self.key[2]} to {self.key[3]}",
            remedy="use fewer fraction bits for the output",
        )

    def _values(self, place: Floats) -> Floats:
        """The function at places of the octave, which may lie between codes; poles are far outside the output."""
        magnitude = torch.from_numpy(place) + self.start
        mantissa = -1 - magnitude if self.sign else magnitude
        exact = values(self.key[0], attributes_of(dict(self.key[1])), mantissa, self.key[2]).clamp(
            -self.bound, self.bound
        )
        return np.asarray(exact.numpy(), dtype=np.float64)

    def _fit(self, shift: int, count: int) -> Ints:
        width = 1 << shift
        begin = np.arange(count, dtype=np.float64) * width
        span = (width - 1) / width
        if width == 1:
            c = np.stack([self._values(begin), np.zeros(count), np.zeros(count)])
        elif width == 2:
            first, second = self._values(begin), self._values(begin + 1)
            c = np.stack([first, (second - first) / span, np.zeros(count)])
        else:
            nodes = [span / 2 * (1 + math.cos(math.pi * n / 6)) for n in (5, 3, 1)]
            # All places in one call: for the many octaves of few segments, calls are what takes the time.
            places = np.stack([begin, begin + width - 1, *(begin + node * width for node in nodes)])
            ends = self._values(places.reshape(-1)).reshape(places.shape)
            a, b, d = ends[2:]
            slope_ab, slope_bd = (b - a) / (nodes[1] - nodes[0]), (d - b) / (nodes[2] - nodes[1])
            bend = (slope_bd - slope_ab) / (nodes[2] - nodes[0])
            slope = slope_ab - bend * (nodes[0] + nodes[1])
            c = np.stack([a - nodes[0] * (slope + bend * nodes[0]), slope, bend])
            # Where the output saturates all along, the smallest coefficients do.
            c[:, (ends >= self.high).all(axis=0)] = np.array([[self.high], [0.0], [0.0]])
            c[:, (ends <= self.low).all(axis=0)] = np.array([[self.low], [0.0], [0.0]])
        return np.rint(c * math.ldexp(1.0, self.key[3].frac_width + GUARD)).astype(np.int64)

    def _error(self, shift: int, count: int, c: Ints, everywhere: Floats | None) -> float:
        """In LSBs of the output, where it does not saturate; where that is more than the budget, any such error.

        A few places of each segment tell most cuts that are too coarse; the others are measured some segments at a
        time, so that what is being computed stays in the processor's cache.
        """
        width = 1 << shift
        if everywhere is not None:
            place = np.arange(width, dtype=np.int64)
        else:
            place = np.unique(np.linspace(0, width - 1, min(width, _SAMPLES)).astype(np.int64))
        worst = 0.0
        if len(place) >= 2 * _FIRST:
            worst = self._measured(width, c, 0, place[:: len(place) // _FIRST], everywhere)
        at_once = max(1, _AT_ONCE // len(place))
        for begin in range(0, count, at_once):
            if worst > BUDGET:
                break
            worst = max(worst, self._measured(width, c[:, begin : begin + at_once], begin, place, everywhere))
        return worst

    def _measured(self, width: int, c: Ints, begin: int, place: Ints, everywhere: Floats | None) -> float:
        """The same at certain places of some segments."""
        if everywhere is not None:
            rows: Floats = everywhere.reshape(-1, width)[begin : begin + c.shape[1]]
            exact = rows if len(place) == width else rows[:, place]
        else:
            whole = place[None] + np.arange(begin, begin + c.shape[1], dtype=np.int64)[:, None] * width
            exact = self._values(whole.reshape(-1).astype(np.float64)).reshape(whole.shape)
        inner = _floor(c[2][:, None], place, width.bit_length() - 1) + c[1][:, None]
        got = (c[0][:, None] + inner * (place / width)) * math.ldexp(1.0, -(self.key[3].frac_width + GUARD))
        off = np.abs(got - exact)
        if self.low < exact.min() and exact.max() < self.high:
            return float(off.max()) * math.ldexp(1.0, self.key[3].frac_width)
        saturated = ((got >= self.high) & (exact >= self.high)) | ((got <= self.low) & (exact <= self.low))
        return float(off.max(where=~saturated, initial=0.0)) * math.ldexp(1.0, self.key[3].frac_width)


def _floor(c: Ints, place: Ints, bits: int) -> Ints:
    """``c * place >> bits`` with a place of so many bits; by halves of it where the product would leave int64."""
    if int(np.abs(c).max()).bit_length() + bits < 63:
        return c * place >> bits
    half = bits // 2
    low: Ints = c * (place & ((1 << half) - 1)) >> half
    return (c * (place >> half) + low) >> (bits - half)


def evaluate(key: Key, mantissas: Tensor, given: Piecewise | None = None) -> Tensor:
    """Output mantissas of :func:`fit`, or of what is given, for mantissas of any shape, on their device."""
    source = key[2]
    if given is None and source.width <= _TABLE_BITS and cast_observer() is None:
        return entry(_table(key), mantissas.to(torch.int32) - source.min_mantissa)
    return _computed(key, mantissas, fit(key) if given is None else given)


@functools.lru_cache(maxsize=64)
def _table(key: Key) -> Tensor:
    """What is computed for every mantissa in order."""
    source = key[2]
    with torch.inference_mode(False):
        return _computed(key, torch.arange(source.min_mantissa, source.max_mantissa + 1), fit(key))


def _computed(key: Key, mantissas: Tensor, plan: Piecewise) -> Tensor:
    _, _, source, target, rounding, overflow = key
    m = mantissas.to(torch.int64)

    def stored(values: Ints, at: Tensor) -> Tensor:
        return entry(torch.from_numpy(values), at)

    if source.signed:
        negative = m >> 63
        magnitude = m ^ negative  # ~m of a negative m
        octave = torch.frexp(magnitude.to(torch.float64)).exponent - (negative << octave_bits(source))
    else:
        magnitude, octave = m, torch.frexp(m.to(torch.float64)).exponent  # 0 has exponent 0
    place = magnitude << stored(plan.left, octave)
    segment = (stored(plan.base, octave) + (place >> plan.step)) & ((1 << plan.address) - 1)
    t = place & ((1 << plan.step) - 1)
    c0, c1, c2 = (as_carrier(stored(row, segment), plan.wide) for row in plan.coefficients)
    inner = (c2.mul_(t) >> plan.step).add_(c1)
    return cast((c0 << plan.step).add_(inner.mul_(t)), plan.frac + plan.step, target, rounding, overflow, own=True)
