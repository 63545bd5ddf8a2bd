"""cast and quantize against the independent `fixedpoint` package and against Python's fractions."""

from __future__ import annotations

import itertools
import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
import torch
from fixedpoint import FixedPoint
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import cast, dequantize, quantize
from tests.unit.oracle import ROUNDING_NAMES, bounds, by_fixedpoint, by_fraction, resized

MODES = list(itertools.product(Rounding, Overflow))
MANTISSA_BITS = {torch.float32: 24, torch.float64: 53, torch.int64: 63}

# By hand, in units of the LSB of a signed format of 3 bits: -4 to 3.
BY_HAND = {
    #        -4.5 -2.5 -1.5 -1.25 -0.5 0.25 0.5 0.75 1.5 2.5 3.5
    "HALF_EVEN": (-4, -2, -2, -1, 0, 0, 0, 1, 2, 2, 4),
    "HALF_UP": (-4, -2, -1, -1, 0, 0, 1, 1, 2, 3, 4),
    "FLOOR": (-5, -3, -2, -2, -1, 0, 0, 0, 1, 2, 3),
    "TRUNC": (-4, -2, -1, -1, 0, 0, 0, 0, 1, 2, 3),
    "HALF_AWAY": (-5, -3, -2, -1, -1, 0, 1, 1, 2, 3, 4),
}
VALUES = tuple(Fraction(n, 4) for n in (-18, -10, -6, -5, -2, 1, 2, 3, 6, 10, 14))


@pytest.mark.parametrize("rounding", BY_HAND)
def test_the_oracles_themselves_by_hand(rounding: str) -> None:
    """The mapping of names to `fixedpoint`'s, on cases worked out on paper, before it judges anything."""
    for value, expected in zip(VALUES, BY_HAND[rounding], strict=True):
        clamped = min(max(expected, -4), 3)
        wrapped = {-5: 3, 4: -4}.get(expected, expected)
        for oracle in (by_fixedpoint, by_fraction):
            assert oracle(value, (8, 0, True), rounding, "SATURATE") == expected
            assert oracle(value, (3, 0, True), rounding, "SATURATE") == clamped
            assert oracle(value, (3, 0, True), rounding, "WRAP") == wrapped
            assert oracle(value, (3, 0, False), rounding, "SATURATE") == min(max(expected, 0), 7)
            assert oracle(value, (3, 0, False), rounding, "WRAP") == expected % 8
            # The same numbers an eighth as large, in a format without integer bits.
            assert oracle(value / 8, (3, 3, True), rounding, "SATURATE") == clamped


@pytest.mark.parametrize(("rounding", "overflow"), MODES)
def test_cast_by_hand(rounding: Rounding, overflow: Overflow) -> None:
    mantissas = [int(value * 4) for value in VALUES]
    expected = [
        min(max(e, -4), 3) if overflow is Overflow.SATURATE else (e + 4) % 8 - 4 for e in BY_HAND[rounding.name]
    ]
    for dtype in MANTISSA_BITS:
        found = cast(torch.tensor(mantissas, dtype=dtype), 2, FixedFormat(3, 0), rounding, overflow)
        assert found.dtype == torch.float32 and found.tolist() == expected  # the carrier of three bits


def formats(max_bits: int) -> st.SearchStrategy[FixedFormat]:
    """Formats of every kind, fraction widths below zero and above the width included."""
    return st.builds(FixedFormat, st.integers(1, max_bits), st.integers(-70, 90), st.booleans())


@st.composite
def casts(draw: st.DrawFn) -> tuple[torch.dtype, list[int], int, FixedFormat]:
    """A carrier, mantissas it holds, their fraction width, and a target near enough for something to happen."""
    dtype = draw(st.sampled_from(list(MANTISSA_BITS)))
    bits = MANTISSA_BITS[dtype]
    fmt = draw(formats(bits))
    shift = draw(st.one_of(st.integers(-6, 10), st.integers(-80, 80)))
    limit = 2**bits - (dtype == torch.int64)
    near_target = st.integers(-(2**fmt.width), 2**fmt.width).map(
        lambda m: max(-limit, min(limit, (m << shift if shift > 0 else m >> -shift)))
    )
    # Ties, and their neighbours.
    half = st.integers(-4, 4).map(lambda m: max(-limit, min(limit, (2 * m + 1) << max(0, min(62, shift - 1)))))
    about_half = st.builds(lambda m, d: max(-limit, min(limit, m + d)), half, st.integers(-1, 1))
    mantissas = draw(
        st.lists(st.one_of(near_target, half, about_half, st.integers(-limit, limit)), min_size=4, max_size=12)
    )
    return dtype, mantissas, fmt.frac_width + shift, fmt


@pytest.mark.parametrize(("rounding", "overflow"), MODES)
@settings(max_examples=80)
@given(case=casts())
@example(case=(torch.int64, [-(2**63) + 1, 2**63 - 1, -1, 0, 1], 0, FixedFormat(63, 0)))
@example(case=(torch.int64, [-(2**62), 2**62, 2**62 - 1, -(2**62) - 1, -(2**62) + 1], 63, FixedFormat(4, 0)))
@example(case=(torch.int64, [2**62, -(2**62), 1, -1, 0], 64, FixedFormat(4, 0)))
@example(case=(torch.float32, [2**24, -(2**24), 2**24 - 1], 1, FixedFormat(24, 0)))
@example(case=(torch.float64, [2**53, -(2**53), 2**53 - 1], 1, FixedFormat(53, 0, False)))
@example(case=(torch.int64, [1, -1, 3], 0, FixedFormat(63, 62)))
@example(case=(torch.int64, [1, -1, 3], 0, FixedFormat(62, 80)))
def test_cast(rounding: Rounding, overflow: Overflow, case: tuple[torch.dtype, list[int], int, FixedFormat]) -> None:
    dtype, mantissas, frac, fmt = case
    result = cast(torch.tensor(mantissas, dtype=dtype), frac, fmt, rounding, overflow)
    target = (fmt.width, fmt.frac_width, fmt.signed)
    values = [m * Fraction(2) ** -frac for m in mantissas]
    found = [int(v) for v in result.tolist()]
    assert found == [by_fraction(v, target, rounding.name, overflow.name) for v in values]
    assert found == [by_fixedpoint(v, target, rounding.name, overflow.name) for v in values]
    assert not torch.signbit(result[result == 0].double()).any(), "-0.0"


floats = st.one_of(
    st.floats(-8, 8, width=32, allow_subnormal=False),
    st.integers(-(2**12), 2**12).map(lambda n: n / 256),
    st.floats(-(2.0**40), 2.0**40, width=32, allow_subnormal=False),
)


@pytest.mark.parametrize(("rounding", "overflow"), MODES)
@settings(max_examples=80)
@given(
    values=st.lists(floats, min_size=4, max_size=12),
    fmt=st.builds(FixedFormat, st.integers(1, 53), st.integers(-45, 60), st.booleans()),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_quantize(
    rounding: Rounding, overflow: Overflow, values: list[float], fmt: FixedFormat, dtype: torch.dtype
) -> None:
    result = quantize(torch.tensor(values, dtype=dtype), fmt, rounding, overflow)
    target = (fmt.width, fmt.frac_width, fmt.signed)
    exact = [Fraction(v) for v in values]
    found = [int(v) for v in result.tolist()]
    assert found == [by_fraction(v, target, rounding.name, overflow.name) for v in exact]
    assert found == [by_fixedpoint(v, target, rounding.name, overflow.name) for v in exact]
    assert not torch.signbit(result[result == 0].double()).any(), "-0.0"
    low, high = bounds(target)
    assert all(low <= m <= high for m in found)
    assert dequantize(result, fmt).tolist() == [math.ldexp(m, -fmt.frac_width) for m in found]


@pytest.mark.parametrize(("rounding", "overflow"), [mode for mode in MODES if mode[0].name in ROUNDING_NAMES])
@settings(max_examples=40)
@given(data=st.data(), width=st.integers(2, 20), signed=st.booleans(), floats=st.lists(floats, min_size=6, max_size=6))
def test_quantize_in_a_format_of_the_other_package(
    rounding: Rounding,
    overflow: Overflow,
    data: st.DataObject,
    width: int,
    signed: bool,
    floats: list[float],
) -> None:
    """Formats and modes both packages know, so that theirs starts from the float and uses its own binary point."""
    fmt = FixedFormat(width, data.draw(st.integers(0, width - signed)), signed)
    found = quantize(torch.tensor(floats), fmt, rounding, overflow)
    expected = []
    for value in floats:
        exact = FixedPoint(value, True, 48, 160)
        expected.append(resized(exact, (width, fmt.frac_width, signed), rounding.name, overflow.name))
    assert found.tolist() == expected


@settings(max_examples=100)
@given(mantissas=st.lists(st.integers(-(2**20), 2**20), min_size=8, max_size=8), shift=st.integers(1, 12))
def test_half_away_is_what_decimal_calls_half_up(mantissas: list[int], shift: int) -> None:
    """The rounding of Python's ``decimal``, which rounds magnitudes, and so does what QONNX calls HALF_UP."""
    mantissas += [(2 * m + 1) << (shift - 1) for m in (-3, -2, -1, 0, 1, 2)]  # ties
    exact = [Decimal(m) / Decimal(2**shift) for m in mantissas]
    expected = [int(value.to_integral_value(ROUND_HALF_UP)) for value in exact]
    for dtype in MANTISSA_BITS:
        found = cast(torch.tensor(mantissas, dtype=dtype), shift, FixedFormat(24, 0), Rounding.HALF_AWAY)
        assert found.tolist() == expected
    floats = torch.tensor([float(value) for value in exact], dtype=torch.float64)
    assert quantize(floats, FixedFormat(24, 0), Rounding.HALF_AWAY).tolist() == expected
