"""Requantisation against Python's integers and fractions, and against the published routines of gemmlowp."""

from __future__ import annotations

import random
from fractions import Fraction
from math import frexp

import pytest
import torch

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Rounding, ScaledFormat, enough_bits, multipliers, quantize_multiplier
from mase_hw.nn import Quantized
from mase_hw.ops.requantize import golden, requantization

from .oracle import round_fraction

INT_MAX, INT_MIN = (1 << 31) - 1, -(1 << 31)


def doubling_high_mul(a: int, b: int) -> int:
    """``SaturatingRoundingDoublingHighMul`` of gemmlowp's fixedpoint.h."""
    if a == b == INT_MIN:
        return INT_MAX
    product = a * b
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    return abs(nudged) // (1 << 31) * (1 if nudged >= 0 else -1)  # C divides towards zero


def rounding_divide_by_pot(x: int, exponent: int) -> int:
    """``RoundingDivideByPOT`` of gemmlowp's fixedpoint.h."""
    mask = (1 << exponent) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> exponent) + (1 if remainder > threshold else 0)


def tflite_multiplier(real: float) -> tuple[int, int]:
    """``QuantizeMultiplier`` of TensorFlow Lite's quantization_util.cc: multiplier and exponent."""
    fraction, exponent = frexp(real)
    fixed = int(fraction * (1 << 31) + 0.5)
    return (fixed // 2, exponent + 1) if fixed == 1 << 31 else (fixed, exponent)


def two_roundings(x: int, multiplier: int, exponent: int) -> int:
    """``MultiplyByQuantizedMultiplier`` as built by default."""
    left, right = max(exponent, 0), max(-exponent, 0)
    return rounding_divide_by_pot(doubling_high_mul(x << left, multiplier), right)


def one_rounding(x: int, multiplier: int, exponent: int) -> int:
    """``MultiplyByQuantizedMultiplier`` with ``TFLITE_SINGLE_ROUNDING``."""
    shift = 31 - exponent
    return (x * multiplier + (1 << (shift - 1))) >> shift


@pytest.mark.parametrize("seed", range(3))
def test_the_multiplier_is_that_of_tensorflow_lite(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        real = draw.uniform(0.5, 1.0) * 2.0 ** draw.randint(-25, 20)
        multiplier, shift = quantize_multiplier(real)
        assert (multiplier, 31 - shift) == tflite_multiplier(real)


@pytest.mark.parametrize("bits", [1, 2, 8, 16, 31, 40])
def test_a_multiplier_is_the_nearest_of_its_bits(bits: int) -> None:
    draw = random.Random(bits)
    for _ in range(200):
        ratio = Fraction(draw.randint(1, 1 << 60), draw.randint(1, 1 << 60))
        multiplier, shift = quantize_multiplier(ratio, bits)
        assert 1 << (bits - 1) <= multiplier < 1 << bits
        error = abs(multiplier - ratio * Fraction(2) ** shift)
        # A ratio just below a power of two is next to that power.
        assert error <= Fraction(1, 2)


def test_powers_of_two_are_exact() -> None:
    for exponent in range(-20, 20):
        multiplier, shift = quantize_multiplier(2.0**exponent)
        assert Fraction(multiplier) / Fraction(2) ** shift == Fraction(2) ** exponent


@pytest.mark.parametrize("width", [4, 8, 12])
@pytest.mark.parametrize("spread", [0, 3, 4, 9])
def test_enough_bits_move_no_result_far(width: int, spread: int) -> None:
    """At most 1/64 of a step, in every channel; and one block has the multiplier of a result of 8 bits."""
    draw = random.Random(spread)
    ratios = [Fraction(1), *(Fraction(draw.randint(2048, 4095), 2048) / 2**spread for _ in range(9))]
    found = multipliers(ratios, enough_bits(width, ratios))
    for value, ratio in zip(found.values, ratios, strict=True):
        assert abs(value / Fraction(2) ** found.shift / ratio - 1) * 2 ** (width - 1) <= Fraction(1, 64)
    assert enough_bits(8, ratios[1:2]) == 17


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("inf"), float("nan"), Fraction(-1, 3)])
def test_ratios_that_no_scale_has_are_refused(ratio: float) -> None:
    with pytest.raises(FormatError, match="not positive"):
        quantize_multiplier(ratio)


def test_channels_share_a_shift() -> None:
    ratios = [Fraction(1, 100), Fraction(1, 3), Fraction(1, 7)]
    found = multipliers(ratios, 12)
    assert max(found.values).bit_length() == 12 and not found.align
    for value, ratio in zip(found.values, ratios, strict=True):
        assert abs(Fraction(value) - ratio * 2**found.shift) <= Fraction(1, 2)
    # 4095.6 / 4096 rounds up to a bit more than there are.
    above = multipliers([Fraction(40956, 40960)], 12)
    assert above.values == (1,) and above.shift == 0
    with pytest.raises(FormatError, match="would be 0"):
        multipliers([Fraction(1), Fraction(1, 1000)], 8)


def test_exact_channels_have_all_bits() -> None:
    ratios = [Fraction(1, 100), Fraction(1, 3), Fraction(5)]
    found = multipliers(ratios, exact=True)
    for value, align, ratio in zip(found.values, found.align, ratios, strict=True):
        assert (value, found.shift - align) == quantize_multiplier(ratio)


def run(module: Quantized, mantissas: list[int]) -> list[int]:
    """The golden of a requantisation on integers."""
    made = {name: module.get_buffer(name) for name in module.parameter_names}
    given = torch.tensor(mantissas, dtype=torch.int64)
    return [int(v) for v in golden(module.arithmetic, {"data_in_0": given, **made})["data_out_0"].flatten()]


def module(have: FixedFormat, want: FixedFormat, **options: object) -> Quantized:
    """A requantisation."""
    return Quantized(default_catalogue()["requantize"], *requantization(have, want, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("seed", range(4))
def test_sums_are_rounded_as_by_tensorflow_lite(seed: int, twice: bool) -> None:
    """32-bit sums, multipliers below and above 1, ties made on purpose."""
    draw = random.Random(seed)
    for exponent in (-12, -7, -1, 0, 3):
        scale = draw.uniform(0.5, 1.0) * 2.0**exponent
        scale = 2.0**exponent if seed == 0 else scale  # powers of two have ties
        zero = draw.randint(-128, 127)
        want = ScaledFormat.make(8, 1.0, zero)
        rounding = Rounding.HALF_AWAY if twice else Rounding.HALF_UP
        made = module(ScaledFormat.make(32, scale), want, twice=twice, exact=True, rounding=rounding)
        reach = min(INT_MAX >> 4, int(300 / scale))
        sums = [draw.randint(-reach, reach) for _ in range(300)] + list(range(-70, 70)) + [reach, -reach]
        multiplier, shift = tflite_multiplier(scale)
        apply = two_roundings if twice else one_rounding
        expected = [max(-128, min(127, apply(x, multiplier, shift) + zero)) for x in sums]
        assert run(made, sums) == expected


def test_channels_rounded_twice_have_shifts_of_their_own() -> None:
    """As in a depthwise convolution, with scales on both sides of 1."""
    scales = [0.013, 1.7, 0.4, 0.00021]
    have, want = ScaledFormat.make(32, scales, axis=-2), ScaledFormat.make(8, 1.0, -5)
    made = module(have, want, twice=True, rounding=Rounding.HALF_AWAY)
    draw = random.Random(0)
    sums = [[[draw.randint(-9000, 9000) for _ in range(50)] for _ in scales] for _ in range(2)]
    expected = [
        max(-128, min(127, two_roundings(x, *tflite_multiplier(s)) - 5))
        for image in sums
        for row, s in zip(image, scales, strict=True)
        for x in row
    ]
    given = torch.tensor(sums)
    made_of = {name: made.get_buffer(name) for name in made.parameter_names}
    got = golden(made.arithmetic, {"data_in_0": given, **made_of})["data_out_0"]
    assert got.flatten().long().tolist() == expected


@pytest.mark.parametrize("width", [1, 2, 3, 7, 12, 16])
@pytest.mark.parametrize("rounding", list(Rounding))
def test_every_width_and_rounding_against_fractions(width: int, rounding: Rounding) -> None:
    draw = random.Random(width)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    zero = draw.randint(low, high)
    have = ScaledFormat.make(20, 0.0003, draw.randint(-1000, 1000))
    want = ScaledFormat.make(width, 0.3 / (1 << width), zero)
    made = module(have, want, rounding=rounding, bits=9)
    (multiplier,) = made.get_buffer("multiplier").tolist()
    shift = made.arithmetic.attributes["shift"]
    xs = [draw.randint(-(1 << 19), (1 << 19) - 1) for _ in range(300)] + list(range(-40, 40))
    exact = [Fraction((x - have.zero_point) * multiplier) / Fraction(2) ** shift for x in xs]
    assert run(made, xs) == [max(low, min(high, round_fraction(v, rounding.name) + zero)) for v in exact]


def test_fixed_point_is_the_case_of_a_power_of_two() -> None:
    """Between fixed-point formats a requantisation is the cast."""
    from mase_hw.numerics import cast

    have, want = FixedFormat(12, 7), FixedFormat(6, 3)
    xs = list(range(-2048, 2048, 3))
    for rounding in Rounding:
        assert run(module(have, want, rounding=rounding), xs) == cast(torch.tensor(xs), 7, want, rounding).tolist()


def test_between_the_families() -> None:
    have, want = FixedFormat(8, 4), ScaledFormat.make(8, 0.1037, 3)
    got = run(module(have, want), list(range(-128, 128)))
    assert got == [max(-128, min(127, round(Fraction(m, 16) / Fraction(0.1037)) + 3)) for m in range(-128, 128)]
    back = run(module(want, have), list(range(-128, 128)))
    assert back == [max(-128, min(127, round((m - 3) * Fraction(0.1037) * 16))) for m in range(-128, 128)]


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (ScaledFormat.make(48, 1e-12), ScaledFormat.make(16, 0.004, 77)),
        (ScaledFormat.make(48, 2.8e9), ScaledFormat.make(48, 1.0)),
    ],
    ids=["few_bits", "every_bit"],
)
def test_beyond_63_bits_rounding_is_exact(have: ScaledFormat, want: ScaledFormat) -> None:
    draw = random.Random(0)
    for rounding in (Rounding.HALF_EVEN, Rounding.HALF_AWAY, Rounding.FLOOR, Rounding.TRUNC):
        made = module(have, want, rounding=rounding)
        multiplier, shift = int(made.get_buffer("multiplier")), made.arithmetic.attributes["shift"]
        xs = [draw.randint(-(1 << 47), (1 << 47) - 1) >> draw.randint(0, 47) for _ in range(200)]
        exact = [Fraction(x * multiplier) / Fraction(2) ** shift for x in xs]
        low, high, zero = want.min_mantissa, want.max_mantissa, want.zero_point
        assert run(made, xs) == [max(low, min(high, round_fraction(v, rounding.name) + zero)) for v in exact]


def test_equal_scales_are_multiplied_by_one() -> None:
    """Between formats of fixed point, and where only the zero point goes, there is nothing to multiply by."""
    data = ScaledFormat.make(8, 0.037, 100)
    for have, want in ((FixedFormat(12, 7), FixedFormat(6, 3)), (data, data.centred)):
        made = module(have, want)
        assert made.get_buffer("multiplier").tolist() == [1]
    assert run(made, list(range(-128, 128))) == list(range(-228, 28))


def test_gradients_pass_straight_through() -> None:
    made = module(ScaledFormat.make(32, 0.001), ScaledFormat.make(8, 0.05, 4))
    x = torch.tensor([1.0, -2.0, 100.0], requires_grad=True)
    made(x).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.tensor([1.0, 1.0, 0.0]), atol=1e-6)


def sums(weight: torch.Tensor, bias: torch.Tensor, zero: int) -> tuple[Quantized, Quantized]:
    """A linear op or a convolution of scaled integers, and its requantisation."""
    op = default_catalogue()["linear" if weight.dim() == 2 else "conv2d"]
    data = ScaledFormat.make(8, 0.03, zero)
    scales = [float(s) for s in weight.detach().abs().flatten(1).amax(1) / 127]
    formats: dict[str, FixedFormat] = {
        "data_in_0": data,
        "weight": ScaledFormat.make(8, scales, narrow=True),
        "bias": ScaledFormat.make(32, [data.scale * s for s in scales]),
    }
    assert op.scaled is not None and op.scaled.sums is not None
    shapes = {"data_in_0": (1, weight.shape[1], 5, 5) if weight.dim() > 2 else (1, weight.shape[1])}
    formats["data_out_0"] = op.scaled.sums(formats, {**shapes, "weight": tuple(weight.shape)})
    attributes = {"padding": 1} if weight.dim() > 2 else {}
    exact = Quantized(op, Arithmetic(formats, attributes=attributes), {"weight": weight, "bias": bias})
    return exact, module(formats["data_out_0"], ScaledFormat.make(8, 0.05, -9))


def test_a_convolution_pads_with_the_zero_point() -> None:
    """Against sums of Python integers over the whole padded image."""
    torch.manual_seed(0)
    weight, bias = torch.randn(3, 2, 3, 3), torch.randn(3)
    for zero in (0, -128, 37):
        exact, last = sums(weight, bias, zero)
        x = torch.randn(2, 2, 5, 4)
        fmt = exact.arithmetic.formats["data_in_0"]
        q = (x.double() / fmt.scale).round().clamp(-128 - zero, 127 - zero).long()  # less the zero point
        scales = exact.arithmetic.formats["weight"].scales  # type: ignore[attr-defined]
        for o in range(3):
            w = (weight[o].double() / scales[o]).round().long()
            b = round(float(bias[o]) / (fmt.scale * scales[o]))
            padded = torch.zeros(2, 2, 7, 6, dtype=torch.int64)
            padded[:, :, 1:6, 1:5] = q
            for n in range(2):
                for i in range(5):
                    for j in range(4):
                        acc = int((padded[n, :, i : i + 3, j : j + 3] * w).sum()) + b
                        value = float(exact(x)[n, o, i, j])
                        assert round(value / (fmt.scale * scales[o])) == acc
                        ratio = Fraction(fmt.scale) * Fraction(scales[o]) / Fraction(0.05)
                        y = max(-128, min(127, round(acc * ratio) - 9))
                        assert round(float(last(exact(x))[n, o, i, j]) / 0.05) - 9 == y
        if zero:
            break  # one loop over every pixel is enough of them


def test_training_moves_the_bias_with_the_weights() -> None:
    """What the zero point adds is taken off with the weights of the moment."""
    torch.manual_seed(1)
    weight, bias = torch.nn.Parameter(torch.randn(4, 6) / 2), torch.nn.Parameter(torch.randn(4))
    exact, last = sums(weight, bias, 50)
    x = torch.randn(9, 6)
    before = last(exact(x))
    assert (before - torch.nn.functional.linear(x, weight, bias)).abs().max() < 0.2
    target = torch.nn.functional.linear(x, weight * 0.9, bias)
    ((before - target) ** 2).sum().backward()
    assert weight.grad is not None and bias.grad is not None and weight.grad.abs().min() > 0
    with torch.no_grad():
        weight *= 0.5
    assert (last(exact(x)) - torch.nn.functional.linear(x, weight, bias)).abs().max() < 0.2


def test_formats_that_do_not_fit_together_are_refused() -> None:
    op = default_catalogue()["linear"]
    data, weight = ScaledFormat.make(8, 0.1, 3), ScaledFormat.make(8, 0.5)
    out = ScaledFormat.make(24, 0.05)
    parameters = {"weight": torch.zeros(2, 4)}
    for formats, says in (
        ({"data_in_0": FixedFormat(8, 3), "weight": weight, "data_out_0": out}, "in all its tensors"),
        ({"data_in_0": data, "weight": weight, "data_out_0": out}, "a bias, which takes it off"),
        ({"data_in_0": data.centred, "weight": weight, "data_out_0": data}, "at the scale of the products"),
        (
            {"data_in_0": data.centred, "weight": ScaledFormat.make(8, 0.5, 1), "data_out_0": out},
            "weights without a zero point",
        ),
        ({"data_in_0": ScaledFormat.make(8, [0.1, 0.2]), "weight": weight, "data_out_0": out}, "one scale"),
    ):
        with pytest.raises(UnsupportedError, match=says) as info:
            Quantized(op, Arithmetic(formats), parameters)
        assert info.value.node == "linear"


@pytest.mark.parametrize("exact", [False, True])
def test_a_much_finer_result_is_shifted_by_its_multiplier(exact: bool) -> None:
    """Hardware shifts to the right only."""
    have, want = ScaledFormat.make(4, [0.9, 0.7], axis=-1), ScaledFormat.make(16, 0.0007, 3)
    made = module(have, want, bits=5, exact=exact)
    assert made.arithmetic.attributes["shift"] == 0
    factors, aligned = made.get_buffer("multiplier").tolist(), "multiplier_shift" in made.parameter_names
    shifts = made.get_buffer("multiplier_shift").tolist() if aligned else [0, 0]
    for factor, shift, scale in zip(factors, shifts, have.scales, strict=True):
        assert abs(Fraction(factor << shift) / (Fraction(scale) / Fraction(want.scale)) - 1) < Fraction(1, 16)
    assert run(made, [-8, 7]) == [-8 * (factors[0] << shifts[0]) + 3, 7 * (factors[1] << shifts[1]) + 3]


@pytest.mark.parametrize("exact", [False, True])
def test_a_multiplier_that_no_integer_holds_is_refused(exact: bool) -> None:
    """Shifting to the left is up to the multiplier, so that a very large ratio would need a very wide one."""
    have = ScaledFormat.make(8, 2.0**61)
    assert module(have, ScaledFormat.make(8, 1.0), bits=16, exact=exact).get_buffer("multiplier").tolist() == [1 << 61]
    with pytest.raises(FormatError, match=r"(?s)too far apart.*a multiplier of 64 bits.*larger scale"):
        module(have, ScaledFormat.make(8, 0.25), bits=16, exact=exact)
