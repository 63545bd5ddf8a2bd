"""Formats, their ranges and the names of the cast modes."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mase_hw.errors import FormatError
from mase_hw.formats import MAX_WIDTH, FixedFormat, Overflow, Rounding
from tests.unit.oracle import bounds, round_fraction


@pytest.mark.parametrize(
    ("fmt", "low", "high", "scale", "text"),
    [
        (FixedFormat(8, 4), -8.0, 7.9375, 1 / 16, "s8.4"),
        (FixedFormat(8, 4, False), 0.0, 15.9375, 1 / 16, "u8.4"),
        (FixedFormat(4, -3), -64.0, 56.0, 8.0, "s4.-3"),
        (FixedFormat(4, 6), -0.125, 7 / 64, 1 / 64, "s4.6"),
        (FixedFormat(1, 0), -1.0, 0.0, 1.0, "s1.0"),
        (FixedFormat(1, 0, False), 0.0, 1.0, 1.0, "u1.0"),
    ],
)
def test_by_hand(fmt: FixedFormat, low: float, high: float, scale: float, text: str) -> None:
    assert (fmt.min_value, fmt.max_value, fmt.scale, str(fmt)) == (low, high, scale, text)
    assert fmt.precision == [fmt.width, fmt.frac_width]


@given(width=st.integers(1, MAX_WIDTH), frac=st.integers(-300, 300), signed=st.booleans())
def test_ranges(width: int, frac: int, signed: bool) -> None:
    fmt = FixedFormat(width, frac, signed)
    assert (fmt.min_mantissa, fmt.max_mantissa) == bounds((width, frac, signed))
    assert fmt.max_mantissa - fmt.min_mantissa + 1 == 2**width
    assert fmt.magnitude_bits == width - signed
    if width <= 53:
        assert Fraction(fmt.max_value) == fmt.max_mantissa * Fraction(2) ** -frac
        assert Fraction(fmt.min_value) == fmt.min_mantissa * Fraction(2) ** -frac
        assert Fraction(fmt.scale) == Fraction(2) ** -frac


@pytest.mark.parametrize("width", [0, -1, -8, MAX_WIDTH + 1, 10**9])
def test_width_out_of_range(width: int) -> None:
    with pytest.raises(
        FormatError, match=rf"out of range\n  field: width\n  got: {width}\n  expected: 1 to {MAX_WIDTH}"
    ):
        FixedFormat(width, 0)


@pytest.mark.parametrize("value", [8.0, "8", None, True, math.nan])
@pytest.mark.parametrize("field", ["width", "frac_width"])
def test_not_an_integer(field: str, value: object) -> None:
    given = {"width": 8, "frac_width": 4, field: value}
    with pytest.raises(FormatError, match=f"{field} of a fixed-point format is not an integer") as caught:
        FixedFormat(**given)  # type: ignore[arg-type]
    assert caught.value.field == field and caught.value.got == repr(value)
    assert isinstance(caught.value, ValueError)


def test_formats_are_values() -> None:
    assert FixedFormat(8, 4) == FixedFormat(8, 4, True) != FixedFormat(8, 4, False)
    assert len({FixedFormat(8, 4), FixedFormat(8, 4), FixedFormat(8, 5)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        FixedFormat(8, 4).width = 9  # type: ignore[misc]


@pytest.mark.parametrize(
    ("low", "high", "width", "signed", "frac"),
    [
        (-1.0, 1.0, 8, True, 6),  # 1.0 needs one integer bit beside the sign
        (-1.0, 0.99, 8, True, 7),  # but -1.0 does not
        (-1.0, 0.999, 8, True, 6),  # 0.999 * 128 rounds to 128, which is one too many
        (0.0, 1.0, 8, False, 7),
        (0.0, 0.99, 8, False, 8),
        (-3.2, 2.0, 8, True, 5),
        (0.0, 300.0, 8, True, -2),
        (0.0, 0.001, 4, True, 12),
        (0.0, 0.0, 8, True, 7),
        (0.0, 0.0, 8, False, 8),
        (-1.0, 0.0, 1, True, 0),
        (0.0, 127.5, 8, True, -1),  # a tie goes to 128
        (0.0, 126.5, 8, True, 0),  # and this one to 126
    ],
)
def test_covering_by_hand(low: float, high: float, width: int, signed: bool, frac: int) -> None:
    assert FixedFormat.covering(low, high, width, signed) == FixedFormat(width, frac, signed)


numbers = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.integers(-600, 600).map(lambda n: n / 2),
    st.builds(math.ldexp, st.sampled_from([-1.0, 1.0, 0.99, -0.999]), st.integers(-30, 30)),
)


@settings(max_examples=400)
@given(ends=st.tuples(numbers, numbers), width=st.integers(1, 32), signed=st.booleans())
def test_covering_is_the_finest_that_fits(ends: tuple[float, float], width: int, signed: bool) -> None:
    low, high = sorted(ends)
    assume(signed or low >= 0)
    assume((low, high) != (0, 0))
    assume(max(abs(low), abs(high)) > 1e-100)  # beyond that the bound of fraction widths decides

    def fits(frac: int) -> bool:
        smallest, largest = bounds((width, frac, signed))
        mantissas = [round_fraction(Fraction(v) * Fraction(2) ** frac, "HALF_EVEN") for v in (low, high)]
        return smallest <= mantissas[0] and mantissas[1] <= largest

    found = FixedFormat.covering(low, high, width, signed)
    assert (found.width, found.signed) == (width, signed)
    assert fits(found.frac_width)
    assert not any(fits(found.frac_width + finer) for finer in range(1, 5))


@pytest.mark.parametrize("ends", [(math.nan, 1.0), (0.0, math.inf), (-math.inf, 0.0)])
def test_covering_nothing_finite(ends: tuple[float, float]) -> None:
    with pytest.raises(FormatError, match=r"(?s)range is not finite.*look for NaN or infinity"):
        FixedFormat.covering(*ends, 8)


def test_covering_negative_numbers_unsigned() -> None:
    with pytest.raises(FormatError, match="unsigned format cannot hold a negative range"):
        FixedFormat.covering(-0.5, 1.0, 8, signed=False)


@pytest.mark.parametrize("kind", [Rounding, Overflow])
def test_modes_by_name_and_code(kind: type[Rounding] | type[Overflow]) -> None:
    for member in kind:
        spellings = (member, member.name, member.name.lower(), member.name.title(), int(member))
        assert {kind.parse(s) for s in spellings} == {member}  # type: ignore[arg-type]


def test_codes_of_the_rtl() -> None:
    modes = [("HALF_EVEN", 0), ("HALF_UP", 1), ("FLOOR", 2), ("TRUNC", 3), ("HALF_AWAY", 4)]
    assert [(r.name, int(r)) for r in Rounding] == modes
    assert [(o.name, int(o)) for o in Overflow] == [("SATURATE", 0), ("WRAP", 1)]


@pytest.mark.parametrize("value", ["half_odd", "halfeven", 5, -1, True, 1.0, None, ""])
def test_unknown_modes(value: object) -> None:
    with pytest.raises(
        FormatError, match=r"(?s)unknown rounding mode.*half_even \| half_up \| floor \| trunc \| half_away"
    ) as caught:
        Rounding.parse(value)  # type: ignore[arg-type]
    assert caught.value.got == repr(value)
    if value == "halfeven":
        assert caught.value.remedy == "did you mean 'half_even'?"
    with pytest.raises(FormatError, match="unknown overflow mode"):
        Overflow.parse("clamp")
