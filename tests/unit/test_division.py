"""Exact division against Python's fractions, at the ends of what 64 bits hold."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
import torch

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.numerics.observing import observing
from mase_hw.numerics.wide import Wide
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
    [(1 << 124, 3, 0), (1 << 100, 1 << 30, 140), (1 << 90, 1 << 31, 140), (1 << 40, 3, -90)],
    ids=["top", "below", "below_by_two_bits", "up"],
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


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(("bits", "divisor_bits", "frac"), [(40, 61, -50), (110, 59, 12), (60, 30, -40), (100, 7, 70)])
def test_random_wide_quotients(bits: int, divisor_bits: int, frac: int, rounding: Rounding) -> None:
    """Numerators that are shifted beyond int64, or beyond it themselves, in either direction."""
    random = Random(f"{bits} {divisor_bits} {frac}")
    numerators = [random.randint(-(1 << bits), 1 << bits) for _ in range(40)]
    divisors = [random.randint(1, (1 << divisor_bits) - 1) for _ in numerators]
    given: Any = Wide.listed(numerators, (40,)) if bits > 62 else torch.tensor(numerators)
    limits = (1 << bits, (1 << divisor_bits) - 1)
    got = divide_cast(given, torch.tensor(divisors), limits, frac, FixedFormat(60, 10), Cast(rounding))
    values = [Fraction(n, d) / Fraction(2) ** frac for n, d in zip(numerators, divisors, strict=True)]
    assert got.to(torch.int64).tolist() == [by_fraction(v, (60, 10, True), rounding.name, "SATURATE") for v in values]


class Shown:
    """An observer that makes every quotient one larger."""

    def saw(self, *_: Any) -> bool:
        return True

    def rounded(self, value: torch.Tensor, floor: torch.Tensor, tie: torch.Tensor, rounding: Rounding) -> torch.Tensor:
        assert rounding is Rounding.HALF_EVEN
        self.quotients = list(zip(value.tolist(), floor.tolist(), tie.tolist(), strict=True))
        return value + 1

    def fitted(self, result: torch.Tensor, *_: Any) -> torch.Tensor:
        return result


def test_quotients_are_shown() -> None:
    numerators, observer = list(range(-9, 10)), Shown()
    with observing(observer):
        got = divide_cast(torch.tensor(numerators), torch.tensor(4), (9, 4), 0, FixedFormat(8, 0))
    assert observer.quotients == [(round(Fraction(n, 4)), n // 4, n % 4 == 2) for n in numerators]
    assert got.tolist() == [round(Fraction(n, 4)) + 1 for n in numerators]


def test_gradients_are_those_of_float64() -> None:
    n = torch.tensor([1.0, -5.0], dtype=torch.float64, requires_grad=True)
    divide_cast(n, torch.tensor(3), (8, 3), 0, FixedFormat(12, 6)).sum().backward()
    assert n.grad is not None and n.grad.tolist() == [64 / 3, 64 / 3]


def test_a_divisor_of_too_many_bits_is_refused() -> None:
    with pytest.raises(FormatError, match="a divisor has too many bits"):
        divide_cast(torch.tensor([1]), torch.tensor([1 << 61]), (1 << 50, 1 << 61), -30, FixedFormat(8, 0))


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
