"""Operations that change no number: reshapes, and conversions between integers and what they stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mase_hw.formats import Rounding, ScaledFormat
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import ACTIVATIONS, clamped, twice
from mase_hw.importers.tflite.step import Step, Value, format_of


def reshape(s: Step) -> Value:
    """``RESHAPE``, ``SQUEEZE`` and ``EXPAND_DIMS``: the file says the sizes of the result."""
    x = s.data()
    _same_format(s, x)
    return s.result(s.writer.reshape(s.as_in_file(x), s.out.shape), x.fmt, first=False)


def _same_format(s: Step, x: Value) -> None:
    want = format_of(s.out)
    if (want.scale, want.zero_point) != (x.fmt.scale, x.fmt.zero_point):
        raise Refused("a scale or a zero point of its result that its data has not")


def quantize(s: Step) -> Value:
    """``QUANTIZE`` of integers to another scale; of floats it is the input of the hardware."""
    want = format_of(s.out)
    return _requantised(s, want, s.data().fmt.scale / want.scale)


def relu(number: int) -> Callable[[Step], Value]:
    """A ReLU that is an operation of its own; its kernel divides the scales in float32."""

    def rule(s: Step) -> Value:
        want = clamped(format_of(s.out), *ACTIVATIONS[number])
        return _requantised(s, want, float(np.float32(s.data().fmt.scale) / np.float32(want.scale)))

    return rule


def _requantised(s: Step, want: ScaledFormat, ratio: float) -> Value:
    x = s.data()
    found, first = twice([ratio], 255)
    return s.result(s.requantised(x.node, x.fmt, want, found, Rounding.HALF_AWAY, first), want, first=x.first)


RULES = {
    "RESHAPE": reshape,
    "SQUEEZE": reshape,
    "EXPAND_DIMS": reshape,
    "QUANTIZE": quantize,
    "RELU": relu(1),
    "RELU_N1_TO_1": relu(2),
    "RELU6": relu(3),
}
"""Operation -> what writes it."""
