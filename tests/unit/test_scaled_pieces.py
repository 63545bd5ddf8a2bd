"""Linear pieces of scaled integers equal exact rational arithmetic: every code of 8 bits, drawn ones of 16."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Rounding, ScaledFormat, steps_of
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.ops.requantize import requantization
from mase_hw.passes.quantize.integers.pieces import in_pieces, slopes_of, steps_format

OPS = default_catalogue()
Real = Fraction
LEAK, LAMBDA, EDGE, VALUE = (Fraction(v) for v in (0.01, 0.3, 0.25, -1.7))
FUNCTIONS: dict[str, tuple[dict[str, Any], Callable[[Real], Real]]] = {
    "leaky_relu": ({"negative_slope": 0.01}, lambda v: v if v >= 0 else v * LEAK),
    "threshold": ({"threshold": 0.25, "value": -1.7}, lambda v: v if v > EDGE else VALUE),
    "hardshrink": ({"lambd": 0.3}, lambda v: v if abs(v) > LAMBDA else Fraction(0)),
    "softshrink": ({"lambd": 0.3}, lambda v: max(v - LAMBDA, Fraction(0)) + min(v + LAMBDA, Fraction(0))),
    "hardsigmoid": ({}, lambda v: min(max(v * Fraction(1 / 6) + Fraction(1, 2), Fraction(0)), Fraction(1))),
}
"""Attributes, and the function as PyTorch documents it."""


def nearest(value: Fraction, rounding: Rounding) -> int:
    """Rounded to an integer, by the words of the mode."""
    low = math.floor(value)
    rest = value - low
    if rounding is Rounding.FLOOR:
        return low
    if rest == Fraction(1, 2):
        return low + (low % 2 if rounding is Rounding.HALF_EVEN else value > 0)
    return low + (rest > Fraction(1, 2))


def exactly(function: Callable[[Real], Real], x: ScaledFormat, code: int) -> Fraction:
    """The function of what a code stands for."""
    return function((code - x.zero_point) * Fraction(x.scales[0]))


def given(name: str, attributes: dict[str, Any], x: ScaledFormat, y: ScaledFormat, rounding: Rounding, m: Any) -> Any:
    """The codes that a function gives for codes, requantised behind it if need be; and the op that gives them."""
    op, a = in_pieces(OPS, OPS[name], attributes, x, y, rounding)
    values = dequantize(torch.tensor(m, dtype=torch.float64), x)
    out = Quantized(op, a)(values)
    have = a.formats["data_out_0"]
    if have != y:
        out = Quantized(OPS["requantize"], *requantization(have, y, rounding=rounding))(out)
    return quantize(out, y).long().tolist(), op.name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_code_of_eight_bits(name: str) -> None:
    """The nearest code, with ties as the mode has them, at scales with ties and at others."""
    attributes, function = FUNCTIONS[name]
    for x, y in (
        (ScaledFormat.make(8, 0.0371, 13), ScaledFormat.make(8, 0.0292, -20)),
        (ScaledFormat.make(8, 0.125, -3), ScaledFormat.make(8, 0.25, 5, low=-60, high=60)),
        (ScaledFormat.make(8, 0.03, signed=False), ScaledFormat.make(7, 0.1, signed=False)),
    ):
        for rounding in (Rounding.HALF_EVEN, Rounding.HALF_AWAY, Rounding.FLOOR):
            codes = list(range(x.min_mantissa, x.max_mantissa + 1))
            wanted = [
                min(max(nearest(exactly(function, x, m) / Fraction(y.scale), rounding) + y.zero_point, y.min_mantissa),
                    y.max_mantissa)
                for m in codes
            ]  # fmt: skip
            got, op = given(name, attributes, x, y, rounding, codes)
            assert op == "table" and got == wanted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wide_data(name: str) -> None:
    """16 bits: nearest, but where the exact value is within 2**-12 LSB of a tie, and exactly so of exact constants."""
    attributes, function = FUNCTIONS[name]
    codes = [*np.random.default_rng(4).integers(-(1 << 15), 1 << 15, 600).tolist(), -32768, 32767, 0, -1, 1]
    for x, y in (
        (ScaledFormat.make(16, 0.00037, 130), ScaledFormat.make(16, 0.0002, -200)),
        (ScaledFormat.make(16, 2.0**-12), ScaledFormat.make(10, 2.0**-6)),
    ):
        got, op = given(name, attributes, x, y, Rounding.HALF_EVEN, codes)
        assert op == name
        near = 0
        for code, m in zip(codes, got, strict=True):
            exact = exactly(function, x, code) / Fraction(y.scale)
            wanted = min(max(nearest(exact, Rounding.HALF_EVEN) + y.zero_point, y.min_mantissa), y.max_mantissa)
            if m != wanted:  # only next to a tie that 30 bits of a constant do not tell
                assert abs(exact - math.floor(exact) - Fraction(1, 2)) < Fraction(1, 1 << 12) and abs(m - wanted) == 1
                near += 1
        assert near <= 2
        assert len(set(got)) > 2


@pytest.mark.parametrize("slopes", [[0.2], [0.25, -0.1, 1.5]])
@pytest.mark.parametrize("width", [8, 16])
def test_prelu(slopes: list[float], width: int) -> None:
    """With the slopes as its weights have them, of every channel: exact, and rounded once behind it."""
    x, y = ScaledFormat.make(width, 0.01371, 7), ScaledFormat.make(width, 0.01193, -5)
    half = 1 << (width - 1)
    channels = len(slopes)
    codes = np.arange(-half, half) if width == 8 else np.random.default_rng(1).integers(-half, half, 300)
    codes = np.stack([codes] * 3, 1)
    formats = slopes_of(x, torch.tensor(slopes), 8)
    weight = formats["weight"]
    kept = [Fraction(round(Fraction(s) * 2**weight.frac_width), 2**weight.frac_width) for s in slopes]
    assert max(abs(Fraction(s) - k) for s, k in zip(slopes, kept, strict=True)) <= Fraction(1, 2**weight.frac_width)
    module = Quantized(OPS["prelu"], Arithmetic(formats), {"weight": torch.tensor(slopes)})
    last = Quantized(OPS["requantize"], *requantization(formats["data_out_0"], y))
    values = dequantize(torch.tensor(codes, dtype=torch.float64), x)
    got = quantize(last(module(values)), y).long().numpy()
    for row, found in zip(codes.tolist(), got.tolist(), strict=True):
        for channel, (code, m) in enumerate(zip(row, found, strict=True)):
            slope = kept[channel % channels]
            exact = exactly(lambda v, slope=slope: v if v >= 0 else v * slope, x, code) / steps_of(y)[0]
            wanted = min(max(nearest(exact, Rounding.HALF_EVEN) + y.zero_point, y.min_mantissa), y.max_mantissa)
            assert m == wanted, (code, channel)


STEPS: dict[str, Callable[[Real, Real], int]] = {
    "sign": lambda v, _: (v > 0) - (v < 0),
    "lt_number": lambda v, n: v < n,
    "le_number": lambda v, n: v <= n,
    "gt_number": lambda v, n: v > n,
    "ge_number": lambda v, n: v >= n,
    "eq_number": lambda v, n: v == n,
    "ne_number": lambda v, n: v != n,
}


def stepped(name: str, x: ScaledFormat, number: float, codes: Any) -> Any:
    a = Arithmetic({"data_in_0": x, "data_out_0": steps_format(OPS[name])}, attributes={"number": number})
    return Quantized(OPS[name], a)(dequantize(torch.tensor(codes, dtype=torch.float64), x)).int().tolist()


@pytest.mark.parametrize("name", STEPS)
def test_signs_and_comparisons(name: str) -> None:
    """Every code, with zero points, against numbers on and beside codes and beyond all of them."""
    for x in (ScaledFormat.make(8, 0.0371, 13), ScaledFormat.make(7, 0.3, 90, signed=False), ScaledFormat.make(6, 0.5)):
        codes = list(range(x.min_mantissa, x.max_mantissa + 1))
        step = x.scales[0]
        for number in (0.0, 5 * step, -3 * step, 0.1, -0.4 * step, 1e4, -1e4, 2 * step * (1 + 2**-50)):
            wanted = [int(STEPS[name]((m - x.zero_point) * Fraction(step), Fraction(number))) for m in codes]
            assert stepped(name, x, number, codes) == wanted, (x, number)


def test_the_sign_of_wide_sums_of_several_scales() -> None:
    x = ScaledFormat.make(39, [0.3, 1e-5, 7.0], axis=1)
    codes = [[0, -1, 1], [-(1 << 38), (1 << 38) - 1, -5], [7, 0, 0]]
    assert stepped("sign", x, 0.0, codes) == [[(m > 0) - (m < 0) for m in row] for row in codes]
    assert stepped("ge_number", x, 0.0, codes) == [[int(m >= 0) for m in row] for row in codes]
    with pytest.raises(UnsupportedError, match="one scale, unless it is compared with 0"):
        stepped("lt_number", x, 0.5, codes)


def test_gradients() -> None:
    """A table has the slope between neighbouring codes; a PReLU learns its slopes."""
    x, y = ScaledFormat.make(8, 0.03, 4), ScaledFormat.make(8, 0.03, -2)
    op, a = in_pieces(OPS, OPS["leaky_relu"], {"negative_slope": 0.25}, x, y, Rounding.HALF_EVEN)
    values = torch.tensor([-1.2, 1.2], requires_grad=True)
    Quantized(op, a)(values).sum().backward()
    assert values.grad is not None and values.grad[1] == 1.0 and abs(values.grad[0] - 0.25) <= 0.25
    weight = nn.Parameter(torch.tensor([0.3]))
    module = Quantized(OPS["prelu"], Arithmetic(slopes_of(x, weight, 8)), {"weight": weight})
    module(torch.tensor([[-1.0], [2.0]])).sum().backward()
    assert weight.grad is not None and abs(weight.grad.item() + 1.0) < 0.02


def test_what_does_not_fit_is_refused() -> None:
    x, far = ScaledFormat.make(16, 1e6), ScaledFormat.make(16, 1e-9)
    with pytest.raises(FormatError, match="results that are too large"):
        in_pieces(OPS, OPS["leaky_relu"], {}, x, far, Rounding.HALF_EVEN)
    with pytest.raises(FormatError, match="not finite"):
        slopes_of(x, torch.tensor([math.inf]), 8)
    channels = ScaledFormat.make(8, [0.1, 0.2], axis=1)
    for name, out, why in (
        ("leaky_relu", channels, "one scale for each tensor"),
        ("leaky_relu", ScaledFormat.make(40, 0.1, 3), "without a zero point"),
        ("prelu", ScaledFormat.make(40, 0.1), "as exact as"),
    ):
        formats: dict[str, FixedFormat] = {"data_in_0": x, "data_out_0": out}
        parameters = {}
        if name == "prelu":
            formats["weight"], parameters["weight"] = FixedFormat(8, 6), torch.ones(1)
        with pytest.raises(UnsupportedError, match=why):
            Quantized(OPS[name], Arithmetic(formats), parameters)
