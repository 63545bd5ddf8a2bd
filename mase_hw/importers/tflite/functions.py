"""Functions of one value as tables of the codes that the reference kernels give.

The kernels of LOGISTIC and TANH fill a table of 256 codes in float32. Here exp and tanh are rounded correctly to
float32, so that the table does not depend on the mathematical library of a machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import ScaledFormat
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import round_away, scaled_value
from mase_hw.importers.tflite.step import Step, Value, format_of
from mase_hw.nn import Quantized
from mase_hw.ops._functions import CODES, codes
from mase_hw.passes.transforms.integers.pieces import hard_swish_codes

Floats = np.ndarray[Any, np.dtype[np.float32]]
_ONE = np.float32(1)


def _logistic(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        exponential = np.exp(-x.astype(np.float64)).astype(np.float32)
    return _ONE / (_ONE + exponential)


def _tanh(x: Floats) -> Floats:
    return np.tanh(x.astype(np.float64)).astype(np.float32)


def _table(function: Callable[[Floats], Floats], x: ScaledFormat, y: ScaledFormat) -> tuple[int, ...]:
    """The result for every code of the data (``LUTPopulate``), by the bits of the code."""
    steps = (codes(x).numpy() - x.zero_point).astype(np.float32)
    results = function(np.float32(x.scale) * steps) * (_ONE / np.float32(y.scale))
    return tuple(max(-128, min(127, round_away(float(v)) + y.zero_point)) for v in results)


def nearest(op: str, function: Callable[[Floats], Floats], scale: float, zero: int) -> Callable[[Step], Value]:
    """A function whose kernel has one scale and one zero point of its results."""

    def rule(s: Step) -> Value:
        want = format_of(s.out)
        if (want.scale, want.zero_point) != (scale, zero):
            raise Refused(f"a result of the scale {want.scale:g} and the zero point {want.zero_point}",
                          f"quantise it with {scale:g} and {zero}, as the kernel asks for")  # fmt: skip
        return _tabled(s, op, want, _table(function, s.data().fmt, want))

    return rule


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
    """``PRELU`` with one slope, an integer: negative numbers are multiplied by it first, exactly."""
    x, want, info = s.data().fmt, format_of(s.out), s.info(1)
    slopes = set(s.known(1, "the slope", "int8").reshape(-1).tolist())
    if len(slopes) != 1 or len(info.scales) != 1:
        raise Refused(
            f"{len(slopes)} different slopes, each of which its kernel rounds twice",
            "train it with one slope",
        )
    slope = slopes.pop() - info.zeros[0]
    negative = float(np.float32(x.scale) * np.float32(info.scales[0]) / np.float32(want.scale))
    return _tabled(s, "table", want, _sloped(x, want, lambda code: scaled_value(code * slope, negative)))


def _sloped(x: ScaledFormat, want: ScaledFormat, negative: Callable[[int], int]) -> tuple[int, ...]:
    """The result for every code: brought to the other scale from 0 on, and what a kernel makes of it below."""
    positive = float(np.float32(x.scale) / np.float32(want.scale))

    def one(code: int) -> int:
        found = scaled_value(code, positive) if code >= 0 else negative(code)
        return max(want.min_mantissa, min(want.max_mantissa, found + want.zero_point))

    return tuple(one(int(code) - x.zero_point) for code in codes(x))


def _tabled(s: Step, op: str, want: ScaledFormat, table: Sequence[int]) -> Value:
    x = s.data()
    arithmetic = Arithmetic({"data_in_0": x.fmt, "data_out_0": want}, attributes={CODES: tuple(table)})
    node = s.put(Quantized(s.catalogue[op], arithmetic), [x.node], s.writer.shape(x.node))
    return s.result(node, want, first=x.first)


RULES = {
    "LOGISTIC": nearest("sigmoid", _logistic, 1 / 256, -128),
    "TANH": nearest("tanh", _tanh, 1 / 128, 0),
    "HARD_SWISH": hard_swish,
    "LEAKY_RELU": leaky_relu,
    "PRELU": prelu,
}
"""Operation -> what writes it."""
