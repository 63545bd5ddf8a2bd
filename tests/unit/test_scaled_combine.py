"""Sums, differences and products of scaled integers against fractions, and against gemmlowp's published routines."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Rounding, ScaledFormat
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.opdef import Request
from mase_hw.passes.quantize.integers.combine import Requantised, RoundedSum, common_scale, product_of, sum_of, total_of
from tests.unit.test_requantize import tflite_multiplier, two_roundings

WANT = ScaledFormat.make(8, 0.0831, -11)


def op(name: str, arithmetic: Arithmetic, **parameters: Tensor) -> Quantized:
    return Quantized(default_catalogue()[name], arithmetic, parameters)


def codes(module: nn.Module, want: FixedFormat, *operands: tuple[list[int], FixedFormat]) -> list[int]:
    """The codes that a module gives, on the values of codes."""
    values = [dequantize(torch.tensor(m, dtype=torch.float64), fmt) for m, fmt in operands]
    return [int(v) for v in quantize(module(*values), want).tolist()]


def drawn(fmt: ScaledFormat, count: int, seed: int) -> list[int]:
    """Codes of a format, both ends and the zero point among them."""
    draw = random.Random(seed)
    some = [fmt.min_mantissa, fmt.max_mantissa, fmt.zero_point]
    return some + [draw.randint(fmt.min_mantissa, fmt.max_mantissa) for _ in range(count - 3)]


def rounded(value: Fraction, want: ScaledFormat) -> int:
    """The code nearest to a value, ties to even."""
    return max(want.min_mantissa, min(want.max_mantissa, round(value / Fraction(want.scale)) + want.zero_point))


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("width", [1, 2, 5, 8, 12, 16])
def test_a_sum_is_rounded_once(name: str, width: int) -> None:
    """Of scales that have nothing in common, and of equal ones."""
    for other in (0.0211, 0.0593):
        x = ScaledFormat.make(width, 0.0593, (1 << (width - 1)) // 3)
        y = ScaledFormat.make(width, other, 1 if width > 1 else 0, signed=False)
        want = ScaledFormat.make(width, 0.0831, -1)
        made = Requantised(op(name, sum_of(x, y, Fraction(want.scale))), want)
        a, b = drawn(x, 400, 0), drawn(y, 400, 1)
        b[1], b[2] = b[2], b[1]
        sign = -1 if name == "sub" else 1
        exact = [
            Fraction(x.scale) * (m - x.zero_point) + sign * Fraction(y.scale) * (n - y.zero_point)
            for m, n in zip(a, b, strict=True)
        ]
        assert codes(made, want, (a, x), (b, y)) == [rounded(v, want) for v in exact]


@pytest.mark.parametrize("reversed", [False, True])
def test_a_stored_operand(reversed: bool) -> None:
    x, y = ScaledFormat.make(8, 0.05, 9), ScaledFormat.make(8, 0.0007, -3)
    stored, a = drawn(y, 7, 3), drawn(x, 7, 4)
    constant = dequantize(torch.tensor(stored), y)
    arithmetic = sum_of(x, y, Fraction(WANT.scale), constant=True, reversed=reversed)
    made = Requantised(op("sub", arithmetic, constant=constant), WANT)
    exact = [
        (Fraction(x.scale) * (m - 9) - Fraction(y.scale) * (n + 3)) * (-1 if reversed else 1)
        for m, n in zip(a, stored, strict=True)
    ]
    assert codes(made, WANT, (a, x)) == [rounded(v, WANT) for v in exact]


def test_a_product() -> None:
    """Exact, and rounded once, or twice as by TensorFlow Lite, with a ratio above 1 as well."""
    for scale in (0.05, 0.9):
        x, y = ScaledFormat.make(8, scale, 100), ScaledFormat.make(8, 0.7, -128)
        a, b = drawn(x, 600, 5), drawn(y, 600, 6)[::-1]
        exact = op("mul", product_of(x, y))
        values = [Fraction(x.scale) * Fraction(y.scale) * (m - 100) * (n + 128) for m, n in zip(a, b, strict=True)]
        assert codes(Requantised(exact, WANT), WANT, (a, x), (b, y)) == [rounded(v, WANT) for v in values]
        ratio = x.scale * y.scale / WANT.scale
        twice = Requantised(exact, WANT, rounding=Rounding.HALF_AWAY, twice=True, ratios=[ratio])
        expected = [
            max(-128, min(127, two_roundings((m - 100) * (n + 128), *tflite_multiplier(ratio)) - 11))
            for m, n in zip(a, b, strict=True)
        ]
        assert codes(twice, WANT, (a, x), (b, y)) == expected


def tflite_sum(a: int, b: int, x: ScaledFormat, y: ScaledFormat, want: ScaledFormat, sign: int) -> int:
    """ADD and SUB of 8 bits as in ``reference_integer_ops/add.h`` and ``sub.h``."""
    twice = 2 * max(x.scale, y.scale)
    first = two_roundings((a - x.zero_point) << 20, *tflite_multiplier(x.scale / twice))
    second = two_roundings((b - y.zero_point) << 20, *tflite_multiplier(y.scale / twice))
    real = twice / ((1 << 20) * want.scale)
    found = two_roundings(first + sign * second, *tflite_multiplier(real)) + want.zero_point
    return max(want.min_mantissa, min(want.max_mantissa, found))


@pytest.mark.parametrize("subtract", [False, True])
def test_a_sum_as_of_tensorflow_lite(subtract: bool) -> None:
    """Scales that differ much and little, equal ones, powers of two (ties), and a fused ReLU."""
    for n, (one, other, out) in enumerate([(0.02, 0.03, 0.04), (0.5, 0.5, 0.5), (0.3, 0.0004, 0.25), (0.07, 0.9, 3.0)]):
        x, y = ScaledFormat.make(8, one, -128), ScaledFormat.make(8, other, 5)
        want = ScaledFormat.make(8, out, 3, low=3 if n % 2 else None)
        a, b = drawn(x, 500, n), drawn(y, 500, 10 + n)[::-1]
        expected = [tflite_sum(m, k, x, y, want, -1 if subtract else 1) for m, k in zip(a, b, strict=True)]
        assert codes(RoundedSum(x, y, want, subtract=subtract), want, (a, x), (b, y)) == expected
        stored = RoundedSum(x, y, want, subtract=subtract, constant=torch.tensor(b))
        assert codes(stored, want, (a, x)) == expected
    x, y = y, x
    want = ScaledFormat.make(8, 3.0, 3)
    backwards = RoundedSum(x, y, want, subtract=True, constant=torch.tensor(a), reversed=True)
    assert codes(backwards, want, (b, x)) == [tflite_sum(m, k, y, x, want, -1) for m, k in zip(a, b, strict=True)]


def test_multipliers_have_as_many_bits_as_asked() -> None:
    x, y = ScaledFormat.make(8, 0.05), ScaledFormat.make(8, 0.011)
    for bits in (4, 12, 31):
        (large, small), fmt = common_scale((x, y), Fraction(0.08), bits)
        assert large.bit_length() <= bits and fmt.width <= 8 + bits + 2
        assert abs(Fraction(large, small) / (Fraction(x.scale) / Fraction(y.scale)) - 1) < Fraction(5, 1 << bits)
    assert common_scale((x, x), Fraction(0.08))[0] == (1, 1)
    assert common_scale((ScaledFormat.make(8, 0.5), ScaledFormat.make(8, 2.0)), Fraction(1))[0] == (1, 4)
    wide = ScaledFormat.make(30, 0.3), ScaledFormat.make(30, 0.1)
    assert common_scale(wide, Fraction(1))[1].width <= 50


def test_what_does_not_fit_is_refused() -> None:
    x = ScaledFormat.make(8, 1.0)
    with pytest.raises(FormatError, match="too far apart"):
        sum_of(x, ScaledFormat.make(8, 1e-6), Fraction(1), bits=8)
    with pytest.raises(FormatError, match="too fine"):
        RoundedSum(x, x, ScaledFormat.make(8, math.ldexp(1.0, -20)))
    exact = product_of(x, x)
    for formats, says in (
        ({**exact.formats, "data_in_1": FixedFormat(8, 0)}, "in all its tensors"),
        ({**exact.formats, "data_in_0": ScaledFormat.make(8, [1.0, 2.0])}, "one scale"),
        ({**exact.formats, "data_out_0": ScaledFormat.make(16, 1.0, 3)}, "without a zero point"),
        ({**exact.formats, "data_out_0": ScaledFormat.make(16, 1.0, low=3)}, "limits"),
        ({**exact.formats, "data_out_0": ScaledFormat.make(16, 2.0)}, "product of the scales"),
    ):
        with pytest.raises(UnsupportedError, match=says):
            op("mul", Arithmetic(formats))


def test_gradients_pass() -> None:
    x, y = ScaledFormat.make(8, 0.05, 9), ScaledFormat.make(8, 0.02, -3)
    made = Requantised(op("add", sum_of(x, y, Fraction(WANT.scale))), WANT)
    a, b = (torch.tensor([0.3, -0.7], requires_grad=True) for _ in range(2))
    made(a, b).sum().backward()
    for each in (a, b):
        assert each.grad is not None and torch.allclose(each.grad, torch.ones(2), atol=1e-6)


@pytest.mark.parametrize(("name", "attributes"), [
    ("sum", {"dim": (2, 3), "keepdim": True}),
    ("avg_pool2d", {"kernel_size": (3, 5), "divisor_override": 1}),
])  # fmt: skip
def test_a_mean_is_rounded_once(name: str, attributes: dict[str, object]) -> None:
    """Exact sums, whose zero points add up, and one requantisation, to another scale."""
    x = ScaledFormat.make(8, 0.0593, -77)
    a = Arithmetic({"data_in_0": x, "data_out_0": total_of(x, 15, mean=True)}, attributes=attributes)
    made = Requantised(op(name, a), WANT)
    images = [[drawn(x, 15, 3 * n + c) for c in range(3)] for n in range(40)]
    values = dequantize(torch.tensor(images, dtype=torch.float64), x).reshape(40, 3, 3, 5)
    got = quantize(made(values), WANT).flatten().tolist()
    exact = [Fraction(x.scale) * (sum(codes) + 15 * 77) / 15 for image in images for codes in image]
    assert got == [rounded(v, WANT) for v in exact]


@pytest.mark.parametrize("border", [0, 1])
def test_an_average_as_of_tensorflow_lite(border: int) -> None:
    """Of codes, half away from zero, without the border: ``reference_integer_ops/pooling.h``."""
    x = ScaledFormat.make(8, 0.0593, -77)
    attributes = {"kernel_size": 2, "stride": 1, "padding": border, "count_include_pad": False}
    a = Arithmetic({"data_in_0": x, "data_out_0": x}, Rounding.HALF_AWAY, attributes=attributes)
    rows = [drawn(x, 6, n) for n in range(5)]
    image = dequantize(torch.tensor(rows, dtype=torch.float64), x)[None, None]
    got = quantize(op("avg_pool2d", a)(image), x)[0, 0].tolist()
    for i, row in enumerate(got):
        for j, code in enumerate(row):
            y, z = i - border, j - border
            some = [rows[r][c] for r in (y, y + 1) for c in (z, z + 1) if 0 <= r < 5 and 0 <= c < 6]
            total, count = sum(some), len(some)
            away = (total + count // 2) // count if total > 0 else -((-total + count // 2) // count)
            assert code == away


def test_a_border_holds_the_zero_point() -> None:
    x = ScaledFormat.make(8, 0.0593, -77)
    a = Arithmetic({"data_in_0": x, "data_out_0": x}, attributes={"pad": (1, 0, 0, 2)})
    image = torch.tensor([[1.0, -1.0]])[None, None]
    values = op("pad", a)(image)[0, 0]
    assert values[:, 0].tolist() == [0.0] * 3 and values[1:].abs().max() == 0 and abs(values[0, 1] - 1) < 0.03


def test_averages_of_zeros_besides_are_refused() -> None:
    x, names = ScaledFormat.make(8, 0.5, 3), ("data_in_0", "data_out_0")
    for attributes, out, says in (
        ({"padding": 1}, x, "a zero point of 0"),
        ({"divisor_override": 3}, x, "a zero point of 0"),
        ({"divisor_override": 1}, x.centred, "times the numbers that are added"),
        ({}, total_of(x, 4), "one scale and one zero point"),
    ):
        with pytest.raises(UnsupportedError, match=says):
            op("avg_pool2d", Arithmetic(dict(zip(names, (x, out), strict=True)), attributes=attributes))
    with pytest.raises(UnsupportedError, match="scaled integers with one scale"):
        op("sum", Arithmetic({"data_in_0": x, "data_out_0": FixedFormat(12, 0)}, attributes={"dim": 1}))


@pytest.mark.parametrize(
    ("data", "multiplier", "found"),
    [(9, 31, 2), (18, 31, 2), (20, 31, 4), (25, 31, 4), (32, 31, 4), (20, 17, 1), (25, 17, 1), (26, 17, 2),
     (20, 18, 2), (24, 24, 2), (18, 24, 1), (12, 12, 1), (8, 1, 0)],
)  # fmt: skip
def test_multiplier_blocks_are_those_of_synthesis(data: int, multiplier: int, found: int) -> None:
    """DSP48E1 that Yosys 0.70 (`synth_xilinx -family xc7`) takes for a lane: signed data, unsigned multiplier."""
    hardware = default_catalogue()["requantize"].hardware
    assert hardware is not None
    formats = {
        "data_in_0": FixedFormat(data, 0),
        "multiplier": FixedFormat(multiplier, 0, signed=False),
        "data_out_0": FixedFormat(8, 0),
    }
    shapes = {"data_in_0": (1, 6), "multiplier": (1,)}
    request = Request("r", Arithmetic(formats, attributes={"shift": 9}), shapes, {"data_in_0": (3,)})
    assert hardware.multipliers(hardware.build(request)) == 3 * found


def test_multiplier_blocks_of_sums() -> None:
    """Of 8 bits and a zero point: two for a multiplier of 31 bits, one for fewer, none for a power of two."""
    hardware = default_catalogue()["add"].hardware
    assert hardware is not None
    x, y, out = ScaledFormat.make(8, 1.0, 5), ScaledFormat.make(8, 1.0), FixedFormat(42, 0)
    for factors, found in (((1, 1), 0), ((1999999999, 1 << 20), 2), ((100003, 77), 2)):
        a = Arithmetic({"data_in_0": x, "data_in_1": y, "data_out_0": out}, attributes={"multipliers": factors})
        request = Request("s", a, dict.fromkeys(("data_in_0", "data_in_1"), (1, 6)), {"data_in_0": (3,)})
        assert hardware.multipliers(hardware.build(request)) == 3 * found
