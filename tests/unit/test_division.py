"""Exact division against Python's fractions, at the ends of what 64 bits hold."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.ops._division import divide_cast
from tests.unit.oracle import by_fraction

MOST = (1 << 62) - 1
"""The largest numerator whose double is an int64."""


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(
    ("bound", "largest", "frac", "target"),
    [
        (1 << 9, 7, 3, (8, 2, True)),
        (1 << 9, 7, 3, (12, 9, True)),
        (1 << 52, 49, 10, (40, 2, True)),
        (1 << 53, 49, 0, (60, 0, True)),
        (MOST, 3, 0, (63, 0, True)),
        (1 << 6, 1 << 20, 40, (8, 0, True)),
        (MOST + 1, 3, 0, (61, 0, True)),
        (1 << 60, 49, 80, (8, 0, True)),
        (1 << 40, 3, -23, (8, 0, True)),
        (1 << 40, 3, 10, (54, 60, True)),
    ],
)
def test_division(
    bound: int, largest: int, frac: int, target: tuple[int, int, bool], rounding: Rounding, overflow: Overflow
) -> None:
    """Numbers around zero, halves and both ends, by small divisors and the largest."""
    numerators = sorted({s * v for s in (1, -1) for v in (0, 1, 2, 3, 5, bound // 2, bound - 1, bound)})
    for divisor in sorted({1, 2, 3, 4, largest}):
        got = divide_cast(
            torch.tensor(numerators),
            torch.tensor(divisor),
            (bound, largest),
            frac,
            FixedFormat(*target),
            Cast(rounding, overflow),
        )
        values = [Fraction(n, divisor) / Fraction(2) ** frac for n in numerators]
        assert got.to(torch.int64).tolist() == [by_fraction(v, target, rounding.name, overflow.name) for v in values]


@pytest.mark.parametrize(
    ("bound", "largest", "frac"),
    [(1 << 124, 3, 0), (1 << 100, 1 << 30, 140), (1 << 40, 3, -90)],
    ids=["top", "below", "up"],
)
def test_what_126_bits_do_not_hold_is_refused(bound: int, largest: int, frac: int) -> None:
    """A numerator that is too large, a divisor that is after it was shifted, and a numerator that was."""
    with pytest.raises(FormatError, match="carrier") as caught:
        divide_cast(torch.tensor([1]), torch.tensor([largest]), (bound, largest), frac, FixedFormat(8, 0))
    assert caught.value.node is None  # the node that divides is named by what runs it


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("bound", [(1 << 23) - 1, 1 << 23, (1 << 52) - 1, 1 << 52])
def test_next_to_every_half(bound: int, rounding: Rounding) -> None:
    """The largest numerators that floats divide, and the first that they do not, as close to a half as there is."""
    target = FixedFormat(62, 1, signed=True)
    for divisor in (3, 7, 4095, 4097, (1 << 22) + 1, (1 << 23) - 1):
        # 2 n / d is k + 1/2 and up to 2 / d more or less.
        halves = [(2 * k + 1) * divisor // 4 for k in (0, 1, 2, bound // divisor - 2, 2 * bound // divisor - 2)]
        near = {s * (n + more) for n in halves for more in range(-2, 3) for s in (1, -1)}
        numerators = sorted({n for n in near if abs(n) <= bound} | {bound, -bound})
        limits = (bound, divisor)
        got = divide_cast(torch.tensor(numerators), torch.tensor(divisor), limits, 0, target, Cast(rounding))
        wanted = [by_fraction(Fraction(n, divisor), (62, 1, True), rounding.name, "SATURATE") for n in numerators]
        assert got.to(torch.int64).tolist() == wanted, divisor


@pytest.mark.parametrize("overflow", Overflow)
def test_saturation_beyond_the_narrow_carrier(overflow: Overflow) -> None:
    """Quotients that float32 cannot hold, cast to formats that it does: those just beyond 2**24 among them."""
    for width in (8, 24, 25):
        target = FixedFormat(width, 0)
        numerators = [s * n for n in (127, 128, 1 << 24, (1 << 24) + 1, (1 << 40) + 1, (1 << 51) + 1) for s in (1, -1)]
        limits = (1 << 52, 1)
        own = torch.tensor(numerators, dtype=torch.float64)
        got = divide_cast(own, torch.tensor(1), limits, 0, target, Cast(overflow=overflow), own=True)
        wanted = [by_fraction(Fraction(n), (width, 0, True), "HALF_EVEN", overflow.name) for n in numerators]
        assert got.tolist() == wanted
