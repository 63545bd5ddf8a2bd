"""Ops of scaled integers equal LiteRT's reference kernels, code by code."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from mase_hw import import_model
from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError
from mase_hw.formats import Rounding, ScaledFormat, quantize_multiplier
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.ops._functions import codes
from mase_hw.ops.requantize import requantization
from mase_hw.passes.quantize.integers.combine import Requantised, RoundedSum, product_of, total_of
from mase_hw.passes.quantize.integers.pieces import hard_swish_codes
from tests.importers.tflite_files import File, executed, schema
from tests.unit.lite import reference

RNG = np.random.default_rng(0)
ALL = np.arange(256).astype(np.uint8).view(np.int8)
PAIRS = [v.reshape(-1) for v in np.meshgrid(ALL, ALL)]
TWICE: dict[str, Any] = {"rounding": Rounding.HALF_AWAY, "twice": True}


def made(name: str, a: Arithmetic) -> Quantized:
    return Quantized(default_catalogue()[name], a)


def given(module: nn.Module, want: ScaledFormat, *data: tuple[Any, ScaledFormat]) -> npt.NDArray[np.int64]:
    """The codes that a module gives for codes."""
    values = [dequantize(torch.tensor(m, dtype=torch.float64), fmt) for m, fmt in data]
    found: npt.NDArray[np.int64] = quantize(module(*values), want).long().numpy()
    return found


def drawn(low: float = 0.004, high: float = 0.6) -> ScaledFormat:
    """A format of 8 bits with a scale of float32."""
    scale = float(np.float32(np.exp(RNG.uniform(np.log(low), np.log(high)))))
    return ScaledFormat.make(8, scale, int(RNG.integers(-128, 128)))


HALVES = [ScaledFormat.make(8, 2.0**-k, z) for k, z in ((2, 5), (1, -9), (0, 1))]
"""Scales with which every second sum is a tie."""


@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("ties", [False, True])
def test_two_operands(name: str, ties: bool) -> None:
    """Every pair of codes."""
    x, y, want = HALVES if ties else (drawn(), drawn(), drawn(0.05, 0.5))
    data = list(zip(PAIRS, (x, y), strict=True))
    expected = reference(name, f"{name.capitalize()}Options", {}, data, ((65536,), want))
    if name == "MUL":
        ratio = np.float32(np.float32(x.scale) * np.float32(y.scale)) / np.float32(want.scale)
        module: nn.Module = Requantised(made("mul", product_of(x, y)), want, ratios=[float(ratio)], **TWICE)
    else:
        module = RoundedSum(x, y, want, subtract=name == "SUB")
    assert len(set(expected.tolist())) > 50
    assert (given(module, want, *data) == expected).all()


def test_another_scale() -> None:
    for x, want in ((drawn(), drawn()), (HALVES[0], HALVES[2])):
        arithmetic, parameters = requantization(x, want, ratios=[x.scale / want.scale], **TWICE)
        module = Quantized(default_catalogue()["requantize"], arithmetic, parameters)
        expected = reference("QUANTIZE", "QuantizeOptions", {}, [(ALL, x)], ((256,), want))
        assert (given(module, want, (ALL, x)) == expected).all()


@pytest.mark.parametrize("border", [0, 1])
def test_an_average(border: int) -> None:
    x, images = drawn(), RNG.integers(-128, 128, (8, 7, 5, 3)).astype(np.int8)
    size = (7, 5) if border else (5, 3)
    settings = {"padding": 1 - border, "strideW": 1, "strideH": 1, "filterWidth": 3, "filterHeight": 3}
    expected = reference("AVERAGE_POOL_2D", "Pool2DOptions", settings, [(images, x)], ((8, *size, 3), x))
    attributes = {"kernel_size": 3, "stride": 1, "padding": border, "count_include_pad": False}
    a = Arithmetic({"data_in_0": x, "data_out_0": x}, Rounding.HALF_AWAY, attributes=attributes)
    found = given(made("avg_pool2d", a), x, (images.transpose(0, 3, 1, 2), x))
    assert (found.transpose(0, 2, 3, 1) == expected).all()


def test_a_mean() -> None:
    """The kernel divides its multiplier by the number of elements, shifted as far as it may be, without rounding."""
    x, want, images = drawn(), drawn(0.05, 0.5), RNG.integers(-128, 128, (64, 7, 5, 3)).astype(np.int8)
    expected = reference("MEAN", "ReducerOptions", {"keepDims": False}, [(images, x)], ((64, 3), want), [1, 2])
    multiplier, shift = quantize_multiplier(x.scale / want.scale)
    more = (35).bit_length() - 1
    ratio = Fraction((multiplier << more) // 35) / Fraction(2) ** (shift + more)
    a = Arithmetic({"data_in_0": x, "data_out_0": total_of(x, 35)}, attributes={"dim": (2, 3)})
    found = given(Requantised(made("sum", a), want, ratios=[ratio], **TWICE), want, (images.transpose(0, 3, 1, 2), x))
    assert (found == expected).all()


@pytest.mark.parametrize("name", ["LOGISTIC", "TANH", "HARD_SWISH"])
def test_a_function(name: str) -> None:
    """Every code of several scales; hard-swish by the table of its kernel, the others as they are."""
    op = {"LOGISTIC": "sigmoid", "TANH": "tanh", "HARD_SWISH": "hardswish"}[name]
    differ = 0
    for _ in range(12):
        x = drawn(0.002, 1.0)
        fine = {"LOGISTIC": ScaledFormat.make(8, 1 / 256, -128), "TANH": ScaledFormat.make(8, 1 / 128)}
        want = fine.get(name, drawn(x.scale, 2 * x.scale))
        options = "HardSwishOptions" if name == "HARD_SWISH" else ""
        expected = reference(name, options, {}, [(ALL, x)], ((256,), want), version=1)
        a = Arithmetic({"data_in_0": x, "data_out_0": want})
        nearest = given(made(op, a), want, (ALL, x))
        differ += int((nearest != expected).sum())
        if name == "HARD_SWISH":
            table = Arithmetic(a.formats, attributes={"codes": hard_swish_codes(x, want)})
            assert (given(made(op, table), want, (codes(x).numpy(), x)) == expected).all()
    assert (differ > 0) == (name == "HARD_SWISH")


def sloped(name: str, x: ScaledFormat, want: ScaledFormat, slope: float, fine: ScaledFormat) -> tuple[Any, Any]:
    """Every code, as an operation with a slope and as the kernel computes it."""
    f = File()
    given = f.input(1, 256, scale=x.scale, zero=x.zero_point)
    if name == "LEAKY_RELU":
        options = schema.LeakyReluOptionsT()
        options.alpha = slope
        f.output(f.function(name, given, want.scale, want.zero_point, options))
    else:
        stored = f.stored([int(quantize(torch.tensor(slope), fine))], fine.scale, fine.zero_point)
        y = f.result((1, 256), want.scale, want.zero_point)
        f.operation(name, [given.index, stored.index], [y.index])
        f.output(y)
    graph = import_model(f.data())
    assert [m.op.name for m in graph.model.modules() if isinstance(m, Quantized)] == ["table"]
    found = graph.model(dequantize(torch.tensor(ALL, dtype=torch.float64)[None], x))
    place = f"t{len(f.graph.tensors) - 1}"
    return quantize(found, want).numpy().astype(int), executed(f.data(), ALL[None, None])[place][0]


@pytest.mark.parametrize("name", ["LEAKY_RELU", "PRELU"])
def test_slopes(name: str) -> None:
    """Every code of several scales, with slopes within and beyond 1, and with ties."""
    cases = [(drawn(), drawn(), float(RNG.uniform(-1, 1.5))) for _ in range(6)] + [(HALVES[1], HALVES[0], 0.25)]
    for x, want, slope in cases:
        fine = ScaledFormat.make(8, float(np.float32(abs(slope) / 77)), int(RNG.integers(-50, 50)))
        got, expected = sloped(name, x, want, slope, fine)
        np.testing.assert_array_equal(got, expected)


def test_tables_that_do_not_fit_are_refused() -> None:
    x = drawn()
    for table in (tuple(range(256)), (0,) * 255):
        module = made("sigmoid", Arithmetic({"data_in_0": x, "data_out_0": x}, attributes={"codes": table}))
        with pytest.raises(FormatError, match="does not fit its formats"):
            module(torch.zeros(3))
    with pytest.raises(FormatError, match="no such fine result"):
        hard_swish_codes(x, ScaledFormat.make(8, x.scale / 200))
