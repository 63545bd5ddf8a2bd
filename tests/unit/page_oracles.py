"""Oracles written from ``docs/arithmetic.md`` alone: Python integers, and functions in float64.

Nothing of the package computes here. A format is ``(width, frac_width, signed)``; names are those of the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.unit.oracle import Format, bounds, by_fraction

Function = Callable[[float], float]
Modes = tuple[str, str]
"""Rounding and overflow."""
EVEN: Modes = ("HALF_EVEN", "SATURATE")
Row = list[int]


def bits(n: int) -> int:
    return n.bit_length()


def largest(fmt: Format) -> int:
    return max(abs(bounds(fmt)[0]), bounds(fmt)[1])


def cast(mantissa: int, frac: int, fmt: Format, modes: Modes = EVEN) -> int:
    return by_fraction(mantissa * Fraction(2) ** -frac, fmt, *modes)


def tabled(function: Function, code: int, source: Format, target: Format, modes: Modes = EVEN) -> int:
    """Functions of one value, tables."""
    value = function(code * 2.0 ** -source[1])
    low, high = bounds(target)
    if math.isinf(value):
        return high if value > 0 else low
    return by_fraction(Fraction(value), target, *modes)


class Segments:
    """Functions of one value, segments: of every octave its ``s`` and coefficients, found when they are asked for."""

    def __init__(self, function: Function, source: Format, target: Format) -> None:
        self.function, self.source, self.target = function, source, target
        self.frac = target[1] + 5
        self.lsb = 2.0 ** -target[1]
        self.low, self.high = (m * self.lsb for m in bounds(target))
        self.bound = 4 * max(abs(self.low), abs(self.high), self.lsb)
        self.octaves: dict[tuple[bool, int], tuple[int, list[Row]]] = {}

    def __call__(self, m: int, modes: Modes = EVEN) -> int:
        g = m if m >= 0 else -1 - m
        length = bits(g)
        key = m < 0, length
        if key not in self.octaves:
            self.octaves[key] = self._cut(*key)
        s, rows = self.octaves[key]
        place = g - (1 << (length - 1) if length else 0)
        c0, c1, c2 = rows[place >> s]
        u = place & ((1 << s) - 1)
        return cast((c0 << s) + (c1 + (c2 * u >> s)) * u, self.frac + s, self.target, modes)

    def _cut(self, negative: bool, length: int) -> tuple[int, list[Row]]:
        start = 1 << (length - 1) if length else 0
        codes = max(start, 1)

        def y(place: float) -> float:
            m = start + place
            value = self.function((-1 - m if negative else m) * 2.0 ** -self.source[1])
            return min(max(value, -self.bound), self.bound)

        for s in range(max(length - 1, 0), -1, -1):
            rows = [self._segment(y, b, 1 << s) for b in range(0, codes, 1 << s)]
            if all(self._near(y, at << s, 1 << s, row) for at, row in enumerate(rows)):
                return s, rows
        raise AssertionError("no cut is fine enough")

    def _segment(self, y: Function, b: int, n: int) -> Row:
        span = (n - 1) / n
        if n == 1:
            c = [y(b), 0.0, 0.0]
        elif n == 2:
            c = [y(b), (y(b + 1) - y(b)) / span, 0.0]
        else:
            t = [span / 2 * (1 + math.cos(math.pi * k / 6)) for k in (5, 3, 1)]
            at = [y(b + n * each) for each in t]
            first, second = (at[1] - at[0]) / (t[1] - t[0]), (at[2] - at[1]) / (t[2] - t[1])
            c2 = (second - first) / (t[2] - t[0])
            c1 = first - c2 * (t[0] + t[1])
            c = [at[0] - t[0] * (c1 + c2 * t[0]), c1, c2]
            seen = [y(b), y(b + n - 1), *at]
            if min(seen) >= self.high:
                c = [self.high, 0.0, 0.0]
            if max(seen) <= self.low:
                c = [self.low, 0.0, 0.0]
        return [round(each * 2.0**self.frac) for each in c]

    def _near(self, y: Function, b: int, n: int, row: Row) -> bool:
        """Whether the segment is off by at most a quarter of an LSB at every code."""
        c0, c1, c2 = row
        for u in range(n):
            got = (c0 + (c1 + (c2 * u // n)) * u / n) * 2.0**-self.frac
            exact = y(b + u)
            beyond = (got >= self.high and exact >= self.high) or (got <= self.low and exact <= self.low)
            if not beyond and abs(got - exact) > self.lsb / 4:
                return False
        return True


def piece(
    x: int, source: Format, target: Format, ends: Sequence[float], pairs: Sequence[tuple[float, float]], modes: Modes
) -> int:
    """Pieces: slopes and offsets of the first, the middle and the last, ``ends`` the two thresholds."""
    tolerance = Fraction(2) ** -(target[1] + 7)
    reach = largest(source) * Fraction(2) ** -source[1]
    (slopes, slope_frac), (offsets, offset_frac) = (
        _constants([Fraction(pair[i]) for pair in pairs], allowed)
        for i, allowed in enumerate((tolerance / reach, tolerance))
    )
    low, high = bounds(source)
    begins = [
        (low if end < 0 else high + 1)
        if math.isinf(end)
        else (math.floor if above else math.ceil)(Fraction(end) * Fraction(2) ** source[1]) + above
        for end, above in zip(ends, (0, 1), strict=True)
    ]
    i = 0 if x < begins[0] else 2 if x >= begins[1] else 1
    exact = slopes[i] * x * Fraction(2) ** -(slope_frac + source[1]) + offsets[i] * Fraction(2) ** -offset_frac
    return by_fraction(exact, target, *modes)


def _constants(values: list[Fraction], tolerance: Fraction) -> tuple[Row, int]:
    frac = max(bits(v.denominator) - 1 for v in values)
    if any(abs(v) * 2**frac >= 2**24 for v in values):
        k = 0
        while Fraction(1, 2**k) > 2 * tolerance:
            k += 1
        frac = min(frac, k)
    return [round(v * 2**frac) for v in values], frac


class Exponentials:
    """Softmax: the exponential of a distance."""

    def __init__(self, source: Format, out_frac: int, n: int, scale: float = 1.0, log: bool = False) -> None:
        width, frac, _ = source
        self.k = max(out_frac, 0) + bits(n - 1) + log
        self.index = self._index(width, frac, scale)
        self.n = 0
        if self.index <= 12:
            self.table = self._falling(self.index, 0, frac, scale, self.k)
            return
        self.k += 1
        self.index = self._index(width, frac, scale)
        self.n = self.index // 2
        for guard in (4, 6, 8, 10):
            self.q = self.k + guard
            low = self._falling(self.n, 0, frac, scale, self.q)
            high = self._falling(self.index - self.n, self.n, frac, scale, self.q)
            for j in range(1, len(high)):
                high[j] = min(high[j], high[j - 1] * low[-1] >> self.q)
            off = sum(
                max(abs(v - math.exp(-i * scale * 2.0 ** (shift - frac)) * 2.0**self.q) for i, v in enumerate(table))
                for table, shift in ((low, 0), (high, self.n))
            )
            self.low, self.high = low, high
            if off <= 2.0 ** (self.q - self.k) / 8:
                return
        raise AssertionError("no factors are fine enough")

    def _index(self, width: int, frac: int, scale: float) -> int:
        last = min(2**width, math.ceil(math.log(2) * (self.k + 1) / scale * 2.0**frac))
        return max(1, min(width, bits(last)))

    @staticmethod
    def _falling(size: int, shift: int, frac: int, scale: float, fraction_bits: int) -> Row:
        found: Row = []
        for i in range(2**size):
            entry = round(math.exp(-i * scale * 2.0 ** (shift - frac)) * 2.0**fraction_bits)
            found.append(min([entry, *found[-1:]]))
        return found

    def __call__(self, d: int) -> int:
        if d >= 1 << self.index:
            return 0
        if not self.n:
            return self.table[d]
        product = self.high[d >> self.n] * self.low[d % (1 << self.n)]
        drop = 2 * self.q - self.k
        return (product + (1 << (drop - 1))) >> drop


def softmax(
    row: Row, e: Exponentials, target: Format, modes: Modes, keep: Sequence[bool] | None = None, least: bool = False
) -> Row:
    """Softmax and softmin, and masks."""
    allowed = [True] * len(row) if keep is None else keep
    if not any(allowed):
        return [0] * len(row)
    best = (min if least else max)(x for x, kept in zip(row, allowed, strict=True) if kept)
    each = [e(abs(best - x)) if kept else 0 for x, kept in zip(row, allowed, strict=True)]
    return [by_fraction(Fraction(one, sum(each)), target, *modes) for one in each]


def logarithm_of(e: Exponentials, n: int, target: Format) -> tuple[Segments, int]:
    """``ln(s)`` of a row, and its fraction bits."""
    k = max(target[1], 0) + 3
    source = (e.k + bits(n), e.k, False)
    return Segments(lambda x: math.log(x) if x > 0 else -math.inf, source, (bits(int(math.log(n))) + k, k, False)), k


def log_softmax(row: Row, e: Exponentials, ln: tuple[Segments, int], source: Format, target: Format, m: Modes) -> Row:
    distances = [max(row) - x for x in row]
    total = Fraction(ln[0](sum(e(d) for d in distances)), 2 ** ln[1])
    return [by_fraction(-d * Fraction(2) ** -source[1] - total, target, *m) for d in distances]


@dataclass
class Norm:
    """Norms: what follows from the formats, then a row."""

    n: int
    centre: bool
    eps: float
    formats: Mapping[str, Format]

    def __post_init__(self) -> None:
        source, out = self.formats["data_in_0"], self.formats["data_out_0"]
        width, frac, _ = source
        a = largest(out)
        if "bias" in self.formats:
            bias = self.formats["bias"]
            a += math.ceil(largest(bias) * Fraction(2) ** (out[1] - bias[1]))
        self.p = bits(4 * a - 1)
        x = self.n**2 * (self.eps * 2.0 ** (2 * frac))
        least = max(self.n - self.centre, math.floor(x), 1)
        self.g = bits(math.ceil(Fraction(4 * 2**self.p, least)) - 1)
        self.g += self.g % 2
        self.e = round(x * 2.0**self.g)
        below = max(bits(self.e) - 30, 0)
        self.e = self.e >> below << below
        v = self.n**2 * (2**width - 1) ** 2 // 4 if self.centre else (self.n * largest(source)) ** 2
        self.b = max(each + each % 2 for each in (bits((v << self.g) + self.e), self.p + 2))
        fine = out[1] + 5
        if "weight" in self.formats:
            fine += bits(largest(self.formats["weight"]) - 1) - self.formats["weight"][1]
        self.d = max(0, (self.b - self.g) // 2 - fine)
        widths = (self.p + 2, self.p + 2, False), (self.p + 2, self.p, False)
        self.root = Segments(lambda m: 1 / math.sqrt(m) if m > 0 else math.inf, *widths)

    def __call__(self, row: Row, weight: Row | None, bias: Row | None, modes: Modes) -> Row:
        s = sum(row) if self.centre else 0
        r = ((self.n * sum(x * x for x in row) - s * s) << self.g) + self.e
        shift = min(self.b // 2 - (bits(r) + 1) // 2, self.b // 2 - 1)
        root = self.root((r << 2 * shift) >> (self.b - self.p - 2))
        frac = self.p + (self.b - self.g) // 2 - self.d
        found = []
        for i, x in enumerate(row):
            y = Fraction((((self.n * x - s) << shift) >> self.d) * root) * Fraction(2) ** -frac
            if weight is not None:
                y *= weight[i] * Fraction(2) ** -self.formats["weight"][1]
            if bias is not None:
                y += bias[i] * Fraction(2) ** -self.formats["bias"][1]
            found.append(by_fraction(y, self.formats["data_out_0"], *modes))
        return found
