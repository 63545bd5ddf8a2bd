"""Division by a constant as a product with one: every quotient, against Python's fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.ops.arithmetic.whole_quotient import _op, floor_quotient
from mase_hw.ops.unrolled._quotients import as_product, quotients


def rounded(x: Fraction, rounding: Rounding) -> int:
    """A number as the table of docs/numbers.md rounds it."""
    floor = math.floor(x)
    rest = x - floor
    if rounding is Rounding.FLOOR:
        return floor
    if rounding is Rounding.TRUNC:
        return math.trunc(x)
    if rest != Fraction(1, 2):
        return floor + int(rest > Fraction(1, 2))
    if rounding is Rounding.HALF_UP:
        return floor + 1
    if rounding is Rounding.HALF_AWAY:
        return floor + int(x > 0)
    return floor + floor % 2


@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda r: r.name.lower())
def test_every_quotient(rounding: Rounding) -> None:
    draw, found = random.Random(rounding.value), 0
    for _ in range(60):
        low = draw.randint(-700, 300)
        ends = low, low + draw.randint(1, 900)
        divisor, frac, out = draw.randint(3, 130), draw.randint(-2, 6), draw.randint(-2, 8)
        numbers, scale = range(ends[0], ends[1] + 1), Fraction(2) ** (out - frac)
        wanted = [rounded(Fraction(v, divisor) * scale, rounding) for v in numbers]
        fmt = FixedFormat(6, out)
        held = [max(fmt.min_mantissa, min(fmt.max_mantissa, each)) for each in wanted]
        assert quotients(ends, divisor, frac, fmt, Cast(rounding, Overflow.SATURATE)).tolist() == held
        product = as_product(ends, divisor, frac, out, rounding)
        if product is not None:
            m, c, s = product
            assert [(m * v + c) >> s for v in numbers] == wanted
            found += 1
    assert found == 60 or rounding not in (Rounding.FLOOR, Rounding.HALF_UP)
    assert found > 20


def test_ties_to_even_have_no_product() -> None:
    """Of 0 to 40, 3, 9, 15 by 6 are ties, which go down and up in turn."""
    assert as_product((0, 40), 6, 0, 0, Rounding.HALF_EVEN) is None
    assert as_product((0, 40), 6, 0, 0, Rounding.HALF_UP) is not None
    assert as_product((-5, 5), 3, 0, 0, Rounding.TRUNC) is None


def test_whole_quotients_have_the_hardware_of_a_division() -> None:
    """Made once more, as when the package is imported."""
    division = default_catalogue()["div"].hardware
    made = _op("floor_quotient", floor_quotient, Rounding.FLOOR, list).hardware
    assert division is not None and made is not None and made.module == division.module
