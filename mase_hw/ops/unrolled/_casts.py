"""Casts that a sum takes: its own, or that and the one behind it at once.

A linear layer gives a format that holds its sums roughly, and the next op takes fewer bits. Where nothing else reads
what is between, the two casts are one. Halves of both LSBs are in the constant of the sum, so that both rounded values
are bits of it; only a tie of the second one needs to know whether the first one rounded a tie. The first one's range
needs no look where its ends are beyond those of the second.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.ops.unrolled._network import WIDE, Step, cast_int

_HALVES = (Rounding.HALF_EVEN, Rounding.HALF_UP)
"""Rounding that drops bits once half of the LSB is added."""


@dataclass(frozen=True)
class Casts:
    """What becomes of a sum.

    Args:
        fmt: Of the result.
        rounding: How bits are dropped.
        overflow: What happens beyond the range.
        frac: Fraction width to which a sum of more is rounded before, without a limit; None for none.
    """

    fmt: FixedFormat
    rounding: Rounding
    overflow: Overflow
    frac: int | None = None

    @classmethod
    def of(cls, step: Step) -> Casts:
        """That of a step alone."""
        a = step.arithmetic
        return cls(a.formats["data_out_0"], a.rounding, a.overflow)

    def first(self, frac: int) -> int | None:
        """Fraction width to which a sum with so much of it is rounded before; None if that changes nothing."""
        between = self.frac is not None and self.fmt.frac_width < self.frac < frac
        return self.frac if between and self.rounding in _HALVES else None

    def halves(self, frac: int) -> int:
        """What is added to a sum so that rounding it drops bits; 0 where that is not so."""
        if frac <= self.fmt.frac_width or self.rounding not in _HALVES:
            return 0
        first = self.first(frac)
        return (1 << (frac - self.fmt.frac_width - 1)) + (0 if first is None else 1 << (frac - first - 1))

    def cast(self, value: int, frac: int) -> int:
        """The mantissa of the result of a sum."""
        first = self.first(frac)
        if first is not None:
            value, frac = cast_int(value, frac, FixedFormat(WIDE, first), self.rounding, Overflow.SATURATE), first
        return cast_int(value, frac, self.fmt, self.rounding, self.overflow)

    def ends(self, exact: Sequence[int], frac: int) -> tuple[int, int]:
        """The smallest and the largest result of a sum between two numbers; all there are if some come round."""
        wide = dataclasses.replace(self, fmt=FixedFormat(WIDE, self.fmt.frac_width))
        low, high = (wide.cast(end, frac) for end in exact)
        least, most = self.fmt.min_mantissa, self.fmt.max_mantissa
        if self.overflow is Overflow.WRAP and (low < least or high > most):
            return least, most
        return min(max(low, least), most), min(max(high, least), most)


def at_once(steps: Sequence[Step], sums: Collection[str]) -> dict[int, Casts]:
    """Steps that only cast what a step before them sums up, by their numbers, and both casts.

    Args:
        steps: Of a network.
        sums: Names of the ops whose results are casts of sums.
    """
    readers = collections.Counter(index - 1 for step in steps for index in step.inputs)
    found = {}
    for number, then in enumerate(steps):
        before = then.inputs[0] - 1
        if then.op is None or then.op.name != "cast" or before < 0 or readers[before] > 1:
            continue
        op = steps[before].op
        both = _both(steps[before], then) if op is not None and op.name in sums else None
        if both is not None:
            found[number] = both
    return found


def _both(step: Step, then: Step) -> Casts | None:
    """A cast that is that of a step and the next one's; None if they have to be two."""
    one, other = Casts.of(step), Casts.of(then)
    attributes = [
        a for each in (step, then) for a in ("drops", "elements") if each.arithmetic.attributes.get(a) is not None
    ]
    if attributes or not (isinstance(one.fmt, FixedFormat) and isinstance(other.fmt, FixedFormat)):
        return None
    if one.rounding is not other.rounding or one.rounding not in (*_HALVES, Rounding.FLOOR):
        return None
    if {one.overflow, other.overflow} != {Overflow.SATURATE} or other.fmt.frac_width > one.fmt.frac_width:
        return None
    if one.rounding is Rounding.HALF_EVEN and other.fmt.frac_width == one.fmt.frac_width - 1:
        return None  # half of its LSB is the LSB of the first one, and a tie of that would borrow from the bits above
    wide = FixedFormat(WIDE, other.fmt.frac_width)
    ends = (one.fmt.min_mantissa, one.fmt.max_mantissa)
    low, high = (cast_int(end, one.fmt.frac_width, wide, one.rounding, Overflow.SATURATE) for end in ends)
    if low > other.fmt.min_mantissa or high < other.fmt.max_mantissa:
        return None
    return Casts(other.fmt, other.rounding, other.overflow, one.fmt.frac_width)
