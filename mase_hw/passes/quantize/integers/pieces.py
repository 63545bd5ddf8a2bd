"""Functions of linear pieces on scaled integers: tables, or exact pieces and the requantisation behind them.

Up to :data:`~mase_hw.ops._functions.TABLE_BITS` bits a function is a table of the codes nearest to its exact values:
they are computed with fractions, so that every tie is one. Of wider data each piece is an integer slope and an integer
offset, with up to :data:`~mase_hw.ops.pieces.SLOPE_BITS` bits; their result is exact and is rounded once, behind them.

The table of TensorFlow Lite's reference kernel of HARD_SWISH, code by code.

The kernel (``HardSwish`` in ``reference_ops.h``) computes with integers of 16 bits, so that some codes are not those
nearest to the function. Its codes are the attribute ``codes`` of ``hardswish``. The kernels of LOGISTIC and TANH give
the nearest codes, as the ops do without one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic, Catalogue, OpDef
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Rounding, ScaledFormat, quantize_multiplier, steps_of
from mase_hw.formats.attributes import Attributes
from mase_hw.numerics import magnitude
from mase_hw.numerics.integer_cast import rounded
from mase_hw.ops._functions import CODES, TABLE_BITS, codes
from mase_hw.ops.pieces import BY_NAME, SLOPE_BITS, constants
from mase_hw.ops.prelu import exact_slopes
from mase_hw.passes.quantize.integers.combine import WIDEST

FINEST = 24
"""Most fraction bits of the weights of a PReLU."""


def piece_codes(
    name: str, attributes: Attributes, x: ScaledFormat, y: ScaledFormat, rounding: Rounding = Rounding.HALF_EVEN
) -> tuple[int, ...]:
    """The code nearest to the exact value of a function, for every code of its argument, by the bits of the code.

    Args:
        name: Of the function, one of :data:`~mase_hw.ops.pieces.PIECES`.
        attributes: Of the function.
        x: Format of the argument, with one scale.
        y: Format of the result, with one scale.
        rounding: Of the value; the zero point is added to the rounded one.
    """
    function = BY_NAME[name]
    shape = function.shape(**function.given(attributes))
    (step,), (unit,) = steps_of(x), steps_of(y)
    low, high = y.limits[0]

    def one(code: int) -> int:
        value = (code - x.zero_point) * step
        below = value <= shape.low if shape.closed else value < shape.low
        slope, offset = shape.first if below else shape.last if value > shape.high else shape.middle
        exact = Fraction(slope) * value + Fraction(offset)
        return max(low, min(high, rounded(exact / unit, rounding, y.odd_ties) + y.zero_point))

    return tuple(one(int(code)) for code in codes(x))


def steps_format(op: OpDef) -> ScaledFormat:
    """The format of signs and of truth values: whole numbers."""
    fmt = BY_NAME[op.name].result
    assert fmt is not None  # of these it is fixed
    return ScaledFormat.make(fmt.width, fmt.scale, signed=fmt.signed)


def exact_pieces(name: str, attributes: Attributes, x: ScaledFormat, step: Fraction) -> ScaledFormat:
    """The format of exact results: finer than ``step`` by a power of two, as fine as their bits allow.

    Args:
        name: As of :func:`piece_codes`, as are the attributes.
        attributes: Likewise.
        x: Format of the data, without a zero point.
        step: Of the result of the requantisation.

    Raises:
        FormatError: If the results do not fit in steps of the requantisation.
    """
    function = BY_NAME[name]
    shape = function.shape(**function.given(attributes))
    reach = magnitude(x) * steps_of(x)[0]
    pairs = (shape.first, shape.middle, shape.last)
    largest = max(abs(Fraction(slope)) * reach + abs(Fraction(offset)) for slope, offset in pairs) / step
    finer = min(SLOPE_BITS, WIDEST - 2 - int(largest).bit_length())
    if finer < 0:
        raise FormatError(
            f"{name} has results that are too large for their scale",
            got=f"{float(largest):.6g} steps",
            expected=f"less than 2**{WIDEST - 2}",
            remedy="give the result a larger scale",
        )
    unit = step / 2**finer
    formats: dict[str, FixedFormat] = {"data_in_0": x, "data_out_0": ScaledFormat.make(2, unit)}
    c = constants(name, Arithmetic(formats, attributes=attributes))
    bound = max(
        (magnitude(x) * abs(slope) << c.out_frac - c.slope_frac) + (abs(offset) << c.out_frac - c.offset_frac)
        for slope, offset in zip(c.slopes, c.offsets, strict=True)
    )
    return ScaledFormat.make(bound.bit_length() + 1, unit)


def in_pieces(
    catalogue: Catalogue,
    op: OpDef,
    attributes: Attributes,
    x: ScaledFormat,
    y: ScaledFormat,
    rounding: Rounding,
) -> tuple[OpDef, Arithmetic]:
    """The op that stands for a function of linear pieces, and its arithmetic; its result may need a requantisation.

    Args:
        catalogue: The ops.
        op: The function.
        attributes: Of it.
        x: Format of the data; what reads wide data with a zero point takes the same less it.
        y: Format of what follows, with one scale.
        rounding: Of a table.
    """
    if x.width <= TABLE_BITS:
        table = piece_codes(op.name, attributes, x, y, rounding)
        return catalogue["table"], Arithmetic({"data_in_0": x, "data_out_0": y}, rounding, attributes={CODES: table})
    x = x.centred
    exact = exact_pieces(op.name, attributes, x, steps_of(y)[0])
    return op, Arithmetic({"data_in_0": x, "data_out_0": exact}, attributes=attributes)


def slopes_of(x: ScaledFormat, weight: Tensor, width: int) -> dict[str, FixedFormat]:
    """The formats of a PReLU with an exact result.

    Args:
        x: Format of the data; the op takes the same less a zero point.
        weight: Slopes of negative data.
        width: Bits of the slopes, which are in fixed point.

    Raises:
        FormatError: If a slope is not finite.
    """
    values = weight.detach().double().cpu()
    if not bool(torch.isfinite(values).all()):
        raise FormatError("a weight is not finite", expected="finite numbers")
    most = Fraction(float(values.abs().max())) if values.numel() else Fraction(0)
    last = (1 << (width - 1)) - 1
    frac = next(
        (f for f in range(FINEST, -31, -1) if rounded(most * Fraction(2) ** f, Rounding.HALF_EVEN) <= last), -30
    )
    fmt = FixedFormat(width, min(frac, FINEST))
    return {"data_in_0": x.centred, "weight": fmt, "data_out_0": exact_slopes(x.centred, fmt)}


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
