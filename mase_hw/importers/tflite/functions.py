"""Functions of one value as tables of the codes that the reference kernels give.

The kernels of LOGISTIC and TANH fill a table of 256 codes in float32. Here exp and tanh are rounded correctly to
float32, so that the table does not depend on the mathematical library of a machine.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import MULTIPLIER_BITS, ScaledFormat, quantize_multiplier
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import MOST_SHIFT, inverse_root, round_away, scaled_by, scaled_value
from mase_hw.importers.tflite.softmax import result_format
from mase_hw.importers.tflite.step import Step, Value, format_of
from mase_hw.importers.tflite.sums import sloped
from mase_hw.nn import Quantized
from mase_hw.numerics.integer_functions import Integers
from mase_hw.ops._functions import CODES, codes
from mase_hw.passes.quantize.integers.pieces import hard_swish_codes

Floats = np.ndarray[Any, np.dtype[np.float32]]
_ONE, _BEYOND = np.float32(1), np.float32(1 << 20)
_KEPT = 20
"""Fraction bits of the reciprocal root of an integer."""


def _logistic(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        exponential = np.exp(-x.astype(np.float64)).astype(np.float32)
    return _ONE / (_ONE + exponential)


def _tanh(x: Floats) -> Floats:
    return np.tanh(x.astype(np.float64)).astype(np.float32)


def _exp(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.exp(x.astype(np.float64)).astype(np.float32)


def _gelu(x: Floats) -> Floats:
    far = (x * np.float32(-math.sqrt(0.5))).astype(np.float64)
    return np.float32(0.5) * x * np.asarray([math.erfc(v) for v in far], np.float32)


def _gelu_by_tanh(x: Floats) -> Floats:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (_ONE + _tanh(inner))


def _table(function: Callable[[Floats], Floats], x: ScaledFormat, y: ScaledFormat) -> tuple[int, ...]:
    """The result for every code of the data (``LUTPopulate``), by the bits of the code."""
    steps = (codes(x).numpy() - x.zero_point).astype(np.float32)
    with np.errstate(over="ignore"):
        results = function(np.float32(x.scale) * steps) * (_ONE / np.float32(y.scale))
    results = np.clip(results, -_BEYOND, _BEYOND)
    return tuple(max(-128, min(127, round_away(float(v)) + y.zero_point)) for v in results)


def nearest(op: str, function: Callable[[Floats], Floats], scale: float, zero: int, s: Step) -> Value:
    """A function whose kernel has one scale and one zero point of its results."""
    want = result_format(s, scale, zero)
    return _tabled(s, op, want, _table(function, s.data().fmt, want))


def rounded(function: Callable[[Floats], Floats], s: Step) -> Value:
    """A function whose kernel fills a table, for results of any scale."""
    want = format_of(s.out)
    return _tabled(s, "table", want, _table(function, s.data().fmt, want))


def gelu(s: Step) -> Value:
    """``GELU``, exact or by tanh."""
    return rounded(_gelu_by_tanh if s.op.option("Approximate") else _gelu, s)


def absolute(s: Step) -> Value:
    """``ABS``: rounded twice; the kernel computes the ratio of the scales in float32."""
    x, want = s.data().fmt, format_of(s.out)
    ratio = float(np.float32(x.scale) / np.float32(want.scale))
    return _tabled(s, "table", want, _sloped(x, want, lambda code: scaled_value(-code, ratio)))


def inverse_square_root(s: Step) -> Value:
    """``RSQRT`` of numbers that are not negative, for which alone its kernel runs: Newton's steps in integers."""
    x, want = s.data().fmt, format_of(s.out)
    if x.zero_point != x.min_mantissa:
        raise Refused(f"data with the zero point {x.zero_point}, which may be negative", "quantise it with -128")
    ratio = 1.0 / float(np.sqrt(np.float32(x.scale)) * np.float32(want.scale))
    multiplier, shift = quantize_multiplier(ratio)

    def one(value: int) -> int:
        if not value:
            return want.max_mantissa
        root, exponent = inverse_root(value)
        found = scaled_by(scaled_by(1, root, exponent + _KEPT), multiplier, MULTIPLIER_BITS - shift - _KEPT)
        return max(want.min_mantissa, min(want.max_mantissa, found + want.zero_point))

    return _tabled(s, "table", want, tuple(one(int(code) - x.zero_point) for code in codes(x)))


def divided(s: Step) -> Value:
    """``DIV`` by one stored number: a reciprocal and a product of 32 bits, each rounded, as the kernel has them."""
    x, want, info = s.data().fmt, s.out_format(), s.info(1)
    numbers = {int(v) for v in s.known(1, "the divisor", "int8").reshape(-1)}
    if len(numbers) > 1:
        raise Refused(f"{len(numbers)} different divisors", "multiply by their reciprocals")
    other, divisor = format_of(info), numbers.pop() - format_of(info).zero_point
    if not divisor:
        raise Refused("a division by 0")
    whole = int(abs(divisor)).bit_length()
    inverse = int(Integers(32).reciprocal(np.asarray((abs(divisor) << 32 - whole) - (1 << 31))))
    ratio = np.float32(x.scale) / (np.float32(other.scale) * np.float32(want.scale))
    multiplier, shift = quantize_multiplier(float(ratio))

    def one(code: int) -> int:
        value = (code - x.zero_point) * (1 if divisor > 0 else -1)
        room = 31 - (value.bit_length() if value >= 0 else (-value - 1).bit_length())
        quotient = scaled_by(value, inverse, room)
        down = MULTIPLIER_BITS - shift - (whole - 1) - room
        if not -MOST_SHIFT <= down <= 0:
            raise Refused(f"a ratio of its scales of {ratio:.3g}")
        return max(want.min_mantissa, min(want.max_mantissa, scaled_by(quotient, multiplier, down) + want.zero_point))

    return _tabled(s, "table", want, tuple(one(int(code)) for code in codes(x)))


def hard_swish(s: Step) -> Value:
    """``HARD_SWISH``, which its kernel computes with integers of 16 bits."""
    want = format_of(s.out)
    return _tabled(s, "hardswish", want, hard_swish_codes(s.data().fmt, want))


def leaky_relu(s: Step) -> Value:
    """``LEAKY_RELU``: two multipliers, each rounded twice; the kernel computes their ratios in float32."""
    x, want = s.data().fmt, format_of(s.out)
    alpha, scale = np.float32(_finite(s.op.number("Alpha"))), np.float32(x.scale)
    negative = float(scale * alpha / np.float32(want.scale))
    return _tabled(s, "table", want, _sloped(x, want, lambda code: scaled_value(code, negative)))


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise Refused(f"a slope of {number}", "give it a slope that is a number")
    return number


def prelu(s: Step) -> Value:
    """``PRELU``: negative numbers are multiplied by an integer first, exactly; with one slope it is a table."""
    x, want, info = s.data().fmt, format_of(s.out), s.info(1)
    slopes = set(s.known(1, "the slope", "int8").reshape(-1).tolist())
    if len(info.scales) != 1:
        raise Refused(f"slopes of {len(info.scales)} scales")
    negative = float(np.float32(x.scale) * np.float32(info.scales[0]) / np.float32(want.scale))
    if len(slopes) != 1:
        return sloped(s, float(np.float32(x.scale) / np.float32(want.scale)), negative)
    slope = slopes.pop() - info.zeros[0]
    return _tabled(s, "table", want, _sloped(x, want, lambda code: scaled_value(code * slope, negative)))


def _sloped(x: ScaledFormat, want: ScaledFormat, negative: Callable[[int], int]) -> tuple[int, ...]:
    """The result for every code: brought to the other scale from 0 on, and what a kernel makes of it below."""
    positive = float(np.float32(x.scale) / np.float32(want.scale))

    def one(code: int) -> int:
        found = scaled_value(code, positive) if code >= 0 else negative(code)
        return max(want.min_mantissa, min(want.max_mantissa, found + want.zero_point))

    return tuple(one(int(code) - x.zero_point) for code in codes(x))


IN_FLOAT: dict[str, Callable[[Floats], Floats]] = {
    "NEG": np.negative, "SQUARE": np.square, "SQRT": np.sqrt, "FLOOR": np.floor,
}  # fmt: skip
"""Operations without integers that float32 rounds correctly: one of a DEQUANTIZE, and a QUANTIZE of it, are a table."""


def computed_in_float(s: Step) -> Value:
    """One of :data:`IN_FLOAT`, of what a ``DEQUANTIZE`` gave."""
    x, function = s.values[s.op.inputs[0]], IN_FLOAT[s.op.operation]
    before = x.function
    both = function if before is None else lambda v: function(before(v))
    return dataclasses.replace(x, function=both)


def quantised_again(s: Step) -> Value:
    """``QUANTIZE`` of what was computed in float: a table of the codes (``AffineQuantize``)."""
    value, want = s.values[s.op.inputs[0]], format_of(s.out)
    x = value.fmt
    if max(x.width, want.width) > 8:
        raise Refused(f"data of {max(x.width, want.width)} bits that goes through float", "quantise the model to int8")
    values = (float(np.float32(x.scale)) * (codes(x).numpy() - x.zero_point)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        found = values if value.function is None else value.function(values)
        steps = found / np.float32(want.scale)
    if not bool(np.isfinite(steps).all()):
        raise Refused("a function of a negative number", "clamp its data before")
    table = [max(-128, min(127, round_away(float(v)) + want.zero_point)) for v in np.clip(steps, -_BEYOND, _BEYOND)]
    return _tabled(s, "table", want, table, value)


def _tabled(s: Step, op: str, want: ScaledFormat, table: Sequence[int], x: Value | None = None) -> Value:
    x = x or s.data()
    arithmetic = Arithmetic({"data_in_0": x.fmt, "data_out_0": want}, attributes={CODES: tuple(table)})
    node = s.put(Quantized(s.catalogue[op], arithmetic), [x.node], s.writer.shape(x.node))
    return s.result(node, want, first=x.first)


RULES: dict[str, Callable[[Step], Value]] = {
    "LOGISTIC": functools.partial(nearest, "sigmoid", _logistic, 1 / 256, -128),
    "TANH": functools.partial(nearest, "tanh", _tanh, 1 / 128, 0),
    "EXP": functools.partial(rounded, _exp),
    "RSQRT": inverse_square_root,
    "GELU": gelu,
    "ABS": absolute,
    "DIV": divided,
    "HARD_SWISH": hard_swish,
    "LEAKY_RELU": leaky_relu,
    "PRELU": prelu,
}
"""Operation -> what writes it."""
