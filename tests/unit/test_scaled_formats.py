"""Scaled integers against Python's fractions: which numbers there are, and how floats become mantissas and back."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction

import pytest
import torch

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat, as_scaled, steps_of
from mase_hw.ir.checkpoint.values import ValueReader, ValueWriter
from mase_hw.ir.tensors import TensorMetadata
from mase_hw.numerics import cast, dequantize, magnitude, quantize
from mase_hw.numerics.observing import observing
from mase_hw.vectors.watch import RANGE, FaultyCast

from .oracle import round_fraction

WIDTHS = [*range(1, 17), 32]


def some_formats(seed: int) -> list[ScaledFormat]:
    """A format of every width, signed or not, with any scale and zero point."""
    draw = random.Random(seed)
    found = []
    for width in WIDTHS:
        signed = bool(draw.getrandbits(1))
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        scale = draw.uniform(1.0, 2.0) * 2.0 ** draw.randint(-30, 20)
        found.append(ScaledFormat.make(width, scale, draw.randint(low, high), signed=signed))
    return found


def test_by_hand() -> None:
    """What a format says of its numbers, and the formats that it becomes."""
    data, channels = ScaledFormat.make(8, 0.5, -3), ScaledFormat.make(2, [0.5, 0.25], narrow=True)
    assert (data.min_value, data.max_value, data.rule) == (-62.5, 65.0, "(integer + 3) * 0.5")
    assert data.centred == ScaledFormat.make(9, 0.5, low=-125, high=130)
    assert (channels.limits, channels.rule) == (((-1, 1),), "integer * the scale of its channel")
    for frac, scale in ((-3, 8.0), (0, 1.0), (5, 1 / 32)):
        assert as_scaled(FixedFormat(6, frac, signed=False)) == ScaledFormat.make(6, scale, signed=False)


def half_even(value: Fraction) -> int:
    """Python rounds halves to even."""
    return round(value)


@pytest.mark.parametrize("seed", range(3))
def test_floats_become_the_nearest_mantissas(seed: int) -> None:
    draw = random.Random(seed + 100)
    for fmt in some_formats(seed):
        low, high = fmt.min_mantissa, fmt.max_mantissa
        span = (high - low + 1) * fmt.scale
        values = torch.tensor([draw.uniform(-1.2, 1.2) * span for _ in range(50)], dtype=torch.float64)
        got = quantize(values, fmt)
        step = Fraction(fmt.scale)
        for value, mantissa in zip(values.tolist(), got.tolist(), strict=True):
            exact = Fraction(value) / step
            # The quotient in float64 is the nearest one: where that is a tie and the exact one is none, either is next.
            wanted = {half_even(exact + d * abs(exact) * Fraction(1, 2**53)) for d in (-1, 0, 1)}
            assert int(mantissa) in {max(low, min(high, w + fmt.zero_point)) for w in wanted}


@pytest.mark.parametrize("seed", range(3))
def test_every_mantissa_is_found_again(seed: int) -> None:
    draw = random.Random(seed)
    for fmt in some_formats(seed):
        low, high = fmt.min_mantissa, fmt.max_mantissa
        some = range(low, high + 1) if fmt.width <= 10 else [low, high, *(draw.randint(low, high) for _ in range(200))]
        mantissas = torch.tensor(list(some), dtype=torch.float64)
        values = dequantize(mantissas, fmt)
        exact = [Fraction(fmt.scale) * (int(m) - fmt.zero_point) for m in some]
        bits = 24 if values.dtype == torch.float32 else 53
        for value, want in zip(values.tolist(), exact, strict=True):
            assert abs(Fraction(value) - want) <= abs(want) * Fraction(1, 2**bits) * Fraction(9, 8)
        assert quantize(values, fmt).double().equal(mantissas)


def test_channels_have_scales_along_a_dimension() -> None:
    fmt = ScaledFormat.make(8, [0.5, 0.25, 3.0], axis=1)
    values = torch.full((2, 3, 4), 1.5)
    assert quantize(values, fmt)[0, :, 0].tolist() == [3, 6, 0]  # 0.5 is a tie, to even
    last = ScaledFormat.make(8, [0.5, 0.25, 3.0], axis=-2)
    assert quantize(values, last).equal(quantize(values, fmt))
    assert dequantize(quantize(values, fmt), fmt)[1, :, 2].tolist() == [1.5, 1.5, 0.0]
    with pytest.raises(FormatError, match="not as many channels"):
        quantize(torch.zeros(2, 4), fmt)
    with pytest.raises(FormatError, match="not as many channels"):
        quantize(torch.zeros(3), fmt)


def test_limits_hold_in_every_channel() -> None:
    fmt = ScaledFormat.make(4, [1.0, 1.0], low=[-3, -7], high=[4, 0])
    values = torch.tensor([[-20.0, 20.0], [-20.0, 20.0]])
    assert quantize(values, fmt).tolist() == [[-3, 4], [-7, 0]]
    narrow = ScaledFormat.make(8, 1.0, narrow=True)
    assert (narrow.min_mantissa, narrow.max_mantissa) == (-127, 127)
    assert quantize(torch.tensor([-1000.0]), narrow).tolist() == [-127]
    clamped = ScaledFormat.make(8, 0.1, -100).clamped(0.0, 6.0)
    assert clamped.limits == ((-100, -40),)
    assert ScaledFormat.make(8, 0.1, -100).clamped(None, 1e9).limits == ((-128, 127),)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_a_cast_rounds_saturates_and_adds_the_zero_point(rounding: Rounding) -> None:
    """In this order: the parity and the sign that rounding looks at are those before the zero point."""
    fmt = ScaledFormat.make(6, 0.7, 5, low=-20, high=30)
    sums = torch.arange(-400, 400)
    want = [max(-20, min(30, round_fraction(Fraction(int(m), 8), rounding.name) + 5)) for m in sums]
    for dtype in (torch.float32, torch.float64, torch.int64):
        assert cast(sums.to(dtype), 3, fmt, rounding).tolist() == want


@pytest.mark.parametrize("zero", [-15, 0, 4, 7])
@pytest.mark.parametrize("odd", [False, True])
def test_ties_go_to_odd_steps_where_the_format_says_so(zero: int, odd: bool) -> None:
    """A step less before rounding half to even and a step more behind it; of casts and of floats."""
    fmt = dataclasses.replace(ScaledFormat.make(6, 0.25, zero, low=-20, high=30), odd_ties=odd)
    eighths, step = torch.arange(-400, 400), int(odd)
    want = [max(-20, min(30, round(Fraction(int(m), 8) - step) + step + zero)) for m in eighths]
    if odd == bool(zero % 2):  # what QONNX computes
        assert want == [max(-20, min(30, round(Fraction(int(m), 8) + zero))) for m in eighths]
    for dtype in (torch.float32, torch.float64, torch.int64):
        assert cast(eighths.to(dtype), 3, fmt).tolist() == want
        with observing(FaultyCast(RANGE)):  # step by step
            inner = cast(eighths.to(dtype), 3, fmt).tolist()
        assert [m for m, w in zip(inner, want, strict=True) if -20 < w < 30] == [w for w in want if -20 < w < 30]
    assert quantize(eighths / 32, fmt).tolist() == want
    away = [max(-20, min(30, by_half_away(Fraction(int(m), 8)) + zero)) for m in eighths]
    assert cast(eighths, 3, fmt, Rounding.HALF_AWAY).tolist() == away


def by_half_away(value: Fraction) -> int:
    return (abs(value) + Fraction(1, 2)).__floor__() * (1 if value >= 0 else -1)


def test_wrapping_is_refused() -> None:
    with pytest.raises(FormatError, match="scaled integers saturate"):
        cast(torch.zeros(1), 0, ScaledFormat.make(8, 1.0), overflow=Overflow.WRAP)
    with pytest.raises(FormatError, match="scaled integers saturate"):
        quantize(torch.zeros(1), ScaledFormat.make(8, 1.0), overflow=Overflow.WRAP)


def test_nan_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="NaN") as info:
        quantize(torch.tensor([0.0, float("nan")]), ScaledFormat.make(8, 1.0), name="fc1.weight")
    assert info.value.node == "fc1.weight"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"width": 8, "scale": 0.0}, "a scale"),
        ({"width": 8, "scale": -1.0}, "a scale"),
        ({"width": 8, "scale": float("inf")}, "a scale"),
        ({"width": 8, "scale": float("nan")}, "a scale"),
        ({"width": 8, "scale": []}, "the scales"),
        ({"width": 8, "scale": ["x"]}, "a scale"),
        ({"width": 0, "scale": 1.0}, "width"),
        ({"width": 8, "scale": 1.0, "zero_point": 128}, "zero point"),
        ({"width": 8, "scale": 1.0, "zero_point": -1, "signed": False}, "zero point"),
        ({"width": 8, "scale": 1.0, "zero_point": 1.0}, "zero point"),
        ({"width": 8, "scale": 1.0, "narrow": True, "signed": False}, "narrow range"),
        ({"width": 1, "scale": 1.0, "narrow": True}, "narrow range"),
        ({"width": 4, "scale": 1.0, "low": -9}, "lows"),
        ({"width": 4, "scale": 1.0, "low": 3, "high": 2}, "limits"),
        ({"width": 4, "scale": [1.0, 2.0], "low": [0, 0, 0]}, "lows"),
    ],
)
def test_formats_that_do_not_exist_are_refused(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        ScaledFormat.make(**arguments)  # type: ignore[arg-type]


def test_a_fraction_width_is_refused() -> None:
    with pytest.raises(FormatError, match="fraction width"):
        ScaledFormat(8, 3)


def test_equal_formats_are_equal_however_they_are_written() -> None:
    assert ScaledFormat.make(8, 0.5) == ScaledFormat.make(8, Fraction(1, 2), low=-128, high=127, axis=3)
    assert ScaledFormat.make(8, [0.5, 0.5], low=[-3, -3]) == ScaledFormat.make(8, [0.5, 0.5], low=-3)
    assert ScaledFormat.make(8, 1.0) != FixedFormat(8, 0)
    assert hash(ScaledFormat.make(8, 1.0)) == hash(ScaledFormat.make(8, 1))


def test_steps_are_exact_in_both_families() -> None:
    assert steps_of(FixedFormat(8, 3)) == (Fraction(1, 8),)
    assert steps_of(ScaledFormat.make(8, [0.1, 0.2])) == (Fraction(0.1), Fraction(0.2))


@pytest.mark.parametrize(
    "fmt",
    [
        ScaledFormat.make(8, 0.1, -3),
        ScaledFormat.make(4, [0.1, 0.3], axis=1, low=[-3, -8], high=[4, 0]),
        ScaledFormat.make(8, 0.25, signed=False, high=200),
        dataclasses.replace(ScaledFormat.make(8, 0.25, 3), odd_ties=True),
        FixedFormat(8, 3),
    ],
    ids=str,
)
def test_metadata_and_checkpoints_carry_a_format(fmt: FixedFormat) -> None:
    tensor = TensorMetadata([2, 2], "float", [32])
    tensor.fmt = fmt
    assert tensor.fmt == fmt
    assert tensor.type == ("integer" if isinstance(fmt, ScaledFormat) else "fixed")
    written = ValueWriter(lambda _: "")(fmt, "here")
    read = ValueReader({}, {})(written)
    assert read == fmt and type(read) is type(fmt)
    tensor.fmt = FixedFormat(8, 2)
    assert tensor.fmt == FixedFormat(8, 2) and tensor.scale is None


def test_centred_numbers_are_the_same_without_the_zero_point() -> None:
    for fmt in some_formats(7):
        centred = fmt.centred
        assert centred.zero_point == 0
        assert centred.min_mantissa == fmt.min_mantissa - fmt.zero_point
        assert centred.max_mantissa == fmt.max_mantissa - fmt.zero_point
        assert magnitude(centred) < 1 << centred.width


def test_an_op_of_fixed_point_refuses_scaled_integers_by_name() -> None:
    from mase_hw.catalogue import Arithmetic, default_catalogue
    from mase_hw.nn import Quantized

    fmt = ScaledFormat.make(8, 0.1)
    with pytest.raises(UnsupportedError, match="fixed point only") as info:
        Quantized(default_catalogue()["cumsum"], Arithmetic({"data_in_0": fmt, "data_out_0": fmt}))
    assert info.value.node == "cumsum"
