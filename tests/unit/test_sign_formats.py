"""Binary and ternary numbers against Python's fractions: which there are, their codes, and how floats become them."""

from __future__ import annotations

import dataclasses
import json
import random
from fractions import Fraction

import numpy as np
import pytest
import torch

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import ConfigError, FormatError, UnsupportedError
from mase_hw.formats import BlockFormat, FixedFormat, ScaledFormat, SignFormat, of_code
from mase_hw.hardware.beats import decode, encode, to_words
from mase_hw.ir.checkpoint.values import ValueReader, ValueWriter
from mase_hw.ir.tensors import TensorMetadata
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, magnitude, quantize
from mase_hw.streams import Stream
from mase_hw.vectors.faults import _flip

FORMATS = [
    *(SignFormat.binary(frac) for frac in (-3, 0, 5, 30)),
    *(SignFormat.ternary(frac, t) for frac, t in ((-3, 0.5), (0, 0.0), (4, 0.7), (7, 0.123456789), (30, 0.999))),
]


def some_values(fmt: SignFormat, draw: random.Random) -> list[float]:
    """Any numbers, those of the format, and those at its limits and next to them."""
    step = 2.0**-fmt.frac_width
    edges = [fmt.threshold * step, step, 0.0]
    edges += [float(np.nextafter(edge, side)) for edge in edges for side in (-np.inf, np.inf)]
    return [draw.uniform(-2, 2) * step for _ in range(50)] + [s * e for e in edges for s in (-1, 1)]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_floats_become_signs(fmt: SignFormat, dtype: torch.dtype) -> None:
    values = torch.tensor(some_values(fmt, random.Random(1)), dtype=dtype)
    found = quantize(values, fmt)
    limit = Fraction(fmt.threshold) * Fraction(2) ** -fmt.frac_width
    for value, mantissa in zip(values.tolist(), found.tolist(), strict=True):
        exact = Fraction(value)
        sign = -1 if exact < 0 else 1
        assert mantissa == (sign if fmt.width == 1 or abs(exact) > limit else 0), (value, limit)
    assert len(found.unique()) == (2 if fmt.width == 1 else 3) and magnitude(fmt) == 1
    # What is such a number stays what it is.
    assert torch.equal(quantize(dequantize(found, fmt), fmt), found)
    assert dequantize(found, fmt).abs().max() == 2.0**-fmt.frac_width


@pytest.mark.parametrize("fmt", FORMATS[:1] + FORMATS[-2:], ids=str)
def test_gradients_pass_straight_through(fmt: SignFormat) -> None:
    x = torch.tensor([-9.0, -0.1, 0.0, 0.01, 100.0], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    (dequantize(quantize(x, fmt), fmt) * weights).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, weights)


def test_nan_is_refused() -> None:
    with pytest.raises(FormatError, match="NaN"):
        quantize(torch.tensor([0.0, float("nan")]), SignFormat.binary(0), name="fc.weight")


def test_codes() -> None:
    """One bit of a binary number, two of a ternary one; in a word the first number has the low bits."""
    bits = Stream("weight", "in", (1, 6), SignFormat.binary(3), (6,))
    beats = np.array([[1, -1, -1, 1, 1, -1]])
    assert to_words(bits, beats).strip() == f"{0b100110:02x}" and bits.bits == 6
    assert decode(bits, encode(bits, beats)).tolist() == beats.tolist()
    twice = Stream("weight", "in", (1, 4), SignFormat.ternary(3), (4,))
    beats = np.array([[1, -1, 0, -1]])
    assert to_words(twice, beats).strip() == f"{0b11001101:02x}"
    assert decode(twice, encode(twice, beats)).tolist() == beats.tolist()
    for stream, wrong in ((bits, 0), (bits, 2), (twice, -2)):
        with pytest.raises(ConfigError, match="does not fit"):
            encode(stream, np.full((1, stream.lanes), wrong))


def test_a_wrong_bit_of_a_memory() -> None:
    """The number whose code differs, as `fixed_sign_product` takes it: of 00, 01, 10, 11 these are 0, 1, 0 and -1."""
    assert [of_code(code, 2) for code in range(4)] == [0, 1, 0, -1] and [of_code(code, 1) for code in (0, 1)] == [1, -1]
    binary, ternary = SignFormat.binary(0), SignFormat.ternary(0)
    assert (_flip(1, binary, 1, 0), _flip(-1, binary, 1, 0)) == (-1, 1)
    for fmt in (binary, ternary):  # binary with two bits, where lanes are filled with 0
        assert [_flip(1, fmt, 2, bit) for bit in (0, 1)] == [0, -1]
        assert [_flip(-1, fmt, 2, bit) for bit in (0, 1)] == [0, 1]
    assert [_flip(0, ternary, 2, bit) for bit in (0, 1)] == [1, 0]
    # Codes that the format does not have are numbers of two's complement to the hardware, too.
    limited = dataclasses.replace(ScaledFormat.make(5, 0.5), lows=(-12,), highs=(12,))
    for fmt in (BlockFormat(5, 0, True, 4, 8, "e2m1"), limited):
        assert fmt.max_mantissa == 12
        assert [_flip(12, fmt, 5, bit) for bit in range(5)] == [13, 14, 8, 4, -4]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_kept_in_metadata_and_checkpoints(fmt: SignFormat) -> None:
    tensor = TensorMetadata([2, 3], "float", [32])
    tensor.fmt = fmt
    assert (tensor.type, tensor.precision, tensor.signed) == (fmt.kind, [fmt.width, fmt.frac_width], True)
    assert tensor.fmt == fmt
    tensors: dict[str, torch.Tensor] = {}
    written = json.loads(json.dumps(ValueWriter(tensors)(fmt, "x")))
    assert ValueReader(tensors, {})(written) == fmt
    tensor.fmt = FixedFormat(8, 4)
    assert tensor.threshold is None and tensor.fmt == FixedFormat(8, 4)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((3, 0), "width"),
        ((1, 0, False), "width"),
        ((2, 0, True, 1.0), "threshold"),
        ((2, 0, True, -0.1), "threshold"),
        ((2, 0, True, float("nan")), "threshold"),
        ((1, 0, True, 0.5), "threshold"),
        ((1, 1000), "frac_width"),
    ],
)
def test_no_such_format(arguments: tuple[int, int], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        SignFormat(*arguments)
    assert caught.value.field == field


def test_only_weights() -> None:
    catalogue = default_catalogue()
    s8, binary = FixedFormat(8, 4), SignFormat.binary(0)
    with pytest.raises(UnsupportedError, match="relu takes no binary data_in_0"):
        Quantized(catalogue["relu"], Arithmetic({"data_in_0": binary, "data_out_0": s8}))
    with pytest.raises(UnsupportedError, match="linear takes no binary data_out_0") as caught:
        formats = {"data_in_0": s8, "weight": binary, "data_out_0": binary}
        Quantized(catalogue["linear"], Arithmetic(formats), {"weight": torch.ones(2, 2)})
    assert caught.value.expected == "binary numbers for weight only"


@pytest.mark.parametrize("fmt", [SignFormat.binary(2), SignFormat.ternary(1, 0.6)], ids=str)
def test_a_layer_is_sums_and_differences(fmt: SignFormat) -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(5, 7), torch.randn(5), torch.rand(9, 7) * 4 - 2
    formats = {
        "data_in_0": FixedFormat(8, 5),
        "weight": fmt,
        "bias": FixedFormat(9, 6),
        "data_out_0": FixedFormat(8, 3),
    }
    layer = Quantized(default_catalogue()["linear"], Arithmetic(formats), {"weight": weight, "bias": bias})
    limit = Fraction(fmt.threshold) * Fraction(2) ** -fmt.frac_width
    for row, got in zip(x.tolist(), layer(x).tolist(), strict=True):
        entered = [max(-128, min(127, round(Fraction(v) * 32))) for v in row]
        for o in range(5):
            total = Fraction(max(-256, min(255, round(Fraction(bias[o].item()) * 64))), 64)
            for m, w in zip(entered, weight[o].tolist(), strict=True):
                if fmt.width == 1 or abs(Fraction(w)) > limit:
                    total += (1 if w >= 0 else -1) * Fraction(m, 32) / 2**fmt.frac_width
            assert Fraction(got[o]) == Fraction(max(-128, min(127, round(total * 8))), 8)
