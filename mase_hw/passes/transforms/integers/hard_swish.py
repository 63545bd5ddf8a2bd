"""The table of TensorFlow Lite's reference kernel of HARD_SWISH, code by code.

The kernel (``HardSwish`` in ``reference_ops.h``) computes with integers of 16 bits, so that some codes are not those
nearest to the function. Its codes are the attribute ``codes`` of ``hardswish``. The kernels of LOGISTIC and TANH give
the nearest codes, as the ops do without one.
"""

from __future__ import annotations

import numpy as np

from mase_hw.errors import FormatError
from mase_hw.formats import ScaledFormat, quantize_multiplier
from mase_hw.ops._functions import codes


def _towards_zero(value: int, divisor: int) -> int:
    return abs(value) // divisor * (1 if value >= 0 else -1)


def _high_product(a: int, b: int) -> int:
    """``SaturatingRoundingDoublingHighMul`` of 16 bits; multipliers are positive, so that nothing saturates."""
    half = 1 << 14
    return _towards_zero(a * b + (half if a * b >= 0 else 1 - half), 1 << 15)


def _divided(value: int, exponent: int) -> int:
    """``RoundingDivideByPOT``: by a power of two, ties away from zero."""
    rest, threshold = value & ((1 << exponent) - 1), (((1 << exponent) - 1) >> 1) + (value < 0)
    return (value >> exponent) + (rest > threshold)


def _shifted(value: int, bits: int) -> int:
    """To the left, saturating."""
    return max(-(1 << 15), min((1 << 15) - 1, value << bits))


def _short(ratio: float) -> tuple[int, int]:
    """A multiplier of 16 bits, and its exponent."""
    multiplier, shift = quantize_multiplier(ratio)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), 31 - shift


def hard_swish_codes(x: ScaledFormat, y: ScaledFormat) -> tuple[int, ...]:
    """What the reference kernel gives for every code of 8 bits, by the bits of the code.

    Args:
        x: Format of the argument.
        y: Format of the result.

    Raises:
        FormatError: A result so much finer than the argument that the kernel refuses it.
    """
    fine = np.float32(1 / 128) * np.float32(x.scale)  # as the kernel computes it
    result, result_exponent = _short(float(fine / np.float32(y.scale)))
    relu, relu_exponent = _short(float(fine / (np.float32(3.0) / np.float32(32768.0))))
    if result_exponent > 0:
        raise FormatError("the kernel has no such fine result", field="scale", got=y.scale, expected="a larger one")

    def one(code: int) -> int:
        value = (code - x.zero_point) << 7
        out, gate = _high_product(value, result), value
        if relu_exponent > 0:
            gate = _shifted(gate, relu_exponent - 1)
        gate = _high_product(gate, relu)
        if relu_exponent > 0:
            gate = _shifted(gate, 1)
        elif relu_exponent < 0:
            gate = _divided(gate, -relu_exponent)
        gate = (gate + (1 << 15)) >> 1
        found = _divided(_towards_zero(gate * out, 1 << 15), -result_exponent) + y.zero_point
        return max(y.min_mantissa, min(y.max_mantissa, found))

    return tuple(one(int(code)) for code in codes(x))
