"""What surrounds the arithmetic: carriers, kinds of input, special floats, gradients, autocast."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import carrier, cast, dequantize, magnitude, quantize
from tests.unit.oracle import by_fraction

S8 = FixedFormat(8, 4)


@pytest.mark.parametrize(
    ("bound", "dtype"),
    [
        (0, torch.float32),
        (2**24, torch.float32),
        (2**24 + 1, torch.float64),
        (2**53, torch.float64),
        (2**53 + 1, torch.int64),
        (2**63 - 1, torch.int64),
    ],
)
def test_carrier_is_the_narrowest_exact_dtype(bound: int, dtype: torch.dtype) -> None:
    assert carrier(bound) == dtype
    # All neighbours below the bound survive the dtype, whatever sign; that is what "exact" means.
    near = [s * (bound - d) for s in (1, -1) for d in range(min(bound, 3) + 1)]
    assert [int(v) for v in torch.tensor(near, dtype=dtype).tolist()] == near


def test_carriers_are_not_exact_one_further() -> None:
    assert int(torch.tensor(2**24 + 1, dtype=torch.float32)) != 2**24 + 1
    assert int(torch.tensor(2**53 + 1, dtype=torch.float64)) != 2**53 + 1


@pytest.mark.parametrize("bound", [2**63, 2**63 + 1, 2**80])
def test_nothing_holds_more_than_63_bits(bound: int) -> None:
    with pytest.raises(FormatError, match=r"does not fit the widest carrier\n  where: fc1\n  got: \d+ bits"):
        carrier(bound, name="fc1")


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [1, 8, 24, 25, 53, 54, 63])
def test_magnitude(width: int, signed: bool) -> None:
    assert magnitude(FixedFormat(width, 3, signed)) == (2 ** (width - 1) if signed else 2**width - 1)


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [
        (FixedFormat(25, 0), torch.float32),
        (FixedFormat(24, 0, False), torch.float32),
        (FixedFormat(25, 0, False), torch.float64),
        (FixedFormat(26, 0), torch.float64),
        (FixedFormat(54, 0), torch.float64),
    ],
)
def test_mantissas_come_in_the_carrier_of_their_format(fmt: FixedFormat, dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, fmt.min_value, fmt.max_value], dtype=torch.float64)
    found = quantize(values, fmt)
    assert found.dtype == dtype and found.tolist() == [0, fmt.min_mantissa, fmt.max_mantissa]
    assert dequantize(found, fmt).dtype == dtype and torch.equal(dequantize(found, fmt).double(), values)


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [
        (FixedFormat(8, 100), torch.float32),
        (FixedFormat(8, 101), torch.float64),
        (FixedFormat(8, -92), torch.float32),
        (FixedFormat(8, -93), torch.float64),
    ],
)
def test_values_of_extreme_scales_are_float64(fmt: FixedFormat, dtype: torch.dtype) -> None:
    """Beyond an exponent of 100 at either end; the values are exact in any case."""
    mantissas = torch.tensor([-128.0, -1.0, 0.0, 127.0])
    found = dequantize(mantissas, fmt)
    assert found.dtype == dtype
    assert [Fraction(v) for v in found.tolist()] == [int(m) / Fraction(2) ** fmt.frac_width for m in mantissas.tolist()]


@pytest.mark.parametrize("fmt", [FixedFormat(55, 0), FixedFormat(54, 0, False), FixedFormat(63, 10)])
def test_formats_beyond_a_float_are_refused(fmt: FixedFormat) -> None:
    with pytest.raises(FormatError, match=r"at most 53 bits\n  where: fc1\.weight"):
        quantize(torch.zeros(1), fmt, name="fc1.weight")
    with pytest.raises(FormatError, match="do not fit a float64"):
        dequantize(torch.zeros(1, dtype=torch.int64), fmt)


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype(source: torch.dtype) -> None:
    values = torch.tensor([0.0, 0.34375, -1.03125, 7.9375, -8.0, 100.0, -100.0, 3.0]).to(source)
    for rounding, overflow in itertools.product(Rounding, Overflow):
        found = quantize(values, S8, rounding, overflow)
        expected = [by_fraction(Fraction(v), (8, 4, True), rounding.name, overflow.name) for v in values.tolist()]
        assert found.dtype == torch.float32 and found.tolist() == expected


@pytest.mark.parametrize("source", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_integers(source: torch.dtype) -> None:
    values = torch.tensor([0, 1, 5, 120]).to(source)
    expected = [by_fraction(Fraction(int(v)), (8, 3, True), "HALF_EVEN", "SATURATE") for v in values]
    assert quantize(values, FixedFormat(8, 3)).tolist() == expected


def test_integers_wrap_exactly_whatever_their_size() -> None:
    values = [2**53 + 1, 2**60 + 3, -(2**62) - 7, 2**63 - 1]
    found = quantize(torch.tensor(values), FixedFormat(8, 0), overflow=Overflow.WRAP)
    assert found.tolist() == [by_fraction(Fraction(v), (8, 0, True), "FLOOR", "WRAP") for v in values]


def test_the_caller_keeps_its_tensors() -> None:
    values, mantissas = torch.tensor([0.3, 50.0]), torch.tensor([3.0, 900.0])
    for rounding, overflow in itertools.product(Rounding, Overflow):
        quantize(values, S8, rounding, overflow)
        cast(mantissas, 2, FixedFormat(4, 0), rounding, overflow)
    assert torch.equal(values, torch.tensor([0.3, 50.0])) and mantissas.tolist() == [3, 900]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 4)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert quantize(torch.ones(shape), S8).shape == shape and cast(torch.ones(shape), 2, S8).shape == shape


def test_nan_names_the_tensor_and_counts() -> None:
    values = torch.tensor([1.0, math.nan, math.nan])
    with pytest.raises(FormatError, match=r"(?s)NaN cannot be quantised.*where: fc1\.weight.*got: 2 NaN of 3 values"):
        quantize(values, S8, name="fc1.weight")


@pytest.mark.parametrize("source", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("rounding", Rounding)
def test_infinity_saturates(rounding: Rounding, source: torch.dtype) -> None:
    values = torch.tensor([math.inf, -math.inf], dtype=source)
    assert quantize(values, S8, rounding).tolist() == [127, -128]
    assert quantize(values, FixedFormat(8, -4, False), rounding).tolist() == [255, 0]
    assert quantize(values, FixedFormat(30, 4), rounding).tolist() == [2**29 - 1, -(2**29)]
    with pytest.raises(FormatError, match="infinity cannot wrap\n  where: x"):
        quantize(values, S8, rounding, Overflow.WRAP, name="x")


@pytest.mark.parametrize(("rounding", "overflow"), list(itertools.product(Rounding, Overflow)))
def test_minus_zero_never_leaves(rounding: Rounding, overflow: Overflow) -> None:
    tiny = torch.tensor([-0.0, -1e-30, -0.03, -0.25, -256.0, 256.0])
    for signed in (True, False):
        fmt = FixedFormat(8, 1, signed)
        for found in (
            quantize(tiny, fmt, rounding, overflow),
            cast(torch.tensor([-0.0, -1.0]), 5, fmt, rounding, overflow),
        ):
            assert (
                not torch.signbit(found[found == 0]).any()
                and not torch.signbit(dequantize(found, fmt)[found == 0]).any()
            )


@settings(max_examples=60)
@given(
    value=st.floats(width=32, allow_nan=False, allow_infinity=False),
    frac=st.integers(-200, 300),
    rounding=st.sampled_from(Rounding),
)
@example(value=0.0, frac=128, rounding=Rounding.HALF_EVEN)
@example(value=2.0**-149, frac=130, rounding=Rounding.HALF_EVEN)
@example(value=-(2.0**-149), frac=-20, rounding=Rounding.FLOOR)
@example(value=-(2.0**127), frac=-160, rounding=Rounding.FLOOR)
def test_extreme_scales(value: float, frac: int, rounding: Rounding) -> None:
    """Floats from the smallest subnormal to the largest, against scales no float32 holds."""
    fmt = FixedFormat(8, frac)
    found = quantize(torch.tensor([value, 0.0]), fmt, rounding)
    assert found.tolist() == [by_fraction(Fraction(value), (8, frac, True), rounding.name, "SATURATE"), 0]


def test_scale_beyond_float64() -> None:
    """An absurd fraction width is an error of ours or works; it never is an OverflowError."""
    for frac in (5000, -5000):
        try:
            fmt = FixedFormat(8, frac)
        except FormatError as error:
            assert error.field == "frac_width"
        else:
            assert quantize(torch.zeros(2), fmt).tolist() == [0, 0]


def gradient(values: list[float], fmt: FixedFormat, overflow: Overflow = Overflow.SATURATE) -> list[float]:
    x = torch.tensor(values, requires_grad=True)
    dequantize(quantize(x, fmt, overflow=overflow), fmt).sum().backward()
    assert isinstance(x.grad, Tensor)
    return x.grad.tolist()


def test_gradients_pass_rounding_and_stop_at_saturation() -> None:
    """Just inside the range they pass, also where rounding moves a value to the end of it."""
    values = [0.3, -0.3, 7.9375, 7.96, -8.0, -8.02, 8.0, -8.1, 100.0, -100.0, math.inf]
    assert gradient(values, S8) == [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert gradient([-0.1, -0.01, 0.1, 15.9], FixedFormat(8, 4, False)) == [0, 1, 1, 1]
    assert gradient([0.3, 100.0, -100.0], S8, Overflow.WRAP) == [1, 1, 1]
    assert gradient([0.3, 1e6], FixedFormat(40, 20)) == [1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_of_a_cast_is_its_scale(dtype: torch.dtype) -> None:
    m = torch.tensor([3.0, 1000.0, -5.0], dtype=dtype, requires_grad=True)
    cast(m, 6, FixedFormat(8, 2)).sum().backward()
    assert m.grad is not None and m.grad.tolist() == [1 / 16, 1 / 16, 1 / 16]
    n = torch.tensor([3.0, 10000.0], dtype=dtype, requires_grad=True)
    cast(n, 6, FixedFormat(8, 2)).sum().backward()
    assert n.grad is not None and n.grad.tolist() == [1 / 16, 0]


def test_autocast_changes_nothing() -> None:
    values = torch.linspace(-9, 9, 1001)
    plain = quantize(values, FixedFormat(14, 10))
    narrow = cast(plain, 10, S8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(quantize(values, FixedFormat(14, 10)), plain)
        assert torch.equal(cast(plain, 10, S8), narrow)
        assert torch.equal(dequantize(plain, FixedFormat(14, 10)), plain / 1024)
