"""Quantisation in files: QONNX' ``Quant``, ``BipolarQuant`` and ``Trunc``, and ONNX' ``QuantizeLinear`` with its kin.

Values that are known become numbers of the grid at once. Data passes a node that only marks where, and to what, its
values are rounded; :mod:`mase_hw.importers.settle` makes fixed point of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Rounding
from mase_hw.importers.graph import Marker, Ref, Refused
from mase_hw.importers.onnx import layers
from mase_hw.importers.onnx.step import Step
from mase_hw.ops.arithmetic.copy import passed_on

ROUNDINGS = {
    "ROUND": Rounding.HALF_EVEN,
    "HALF_EVEN": Rounding.HALF_EVEN,
    "FLOOR": Rounding.FLOOR,
    "DOWN": Rounding.TRUNC,
    "HALF_UP": Rounding.HALF_AWAY,
}
"""Names of QONNX -> modes; its ``HALF_UP`` rounds ties away from zero."""
_ROUND: dict[Rounding, Callable[[Tensor], Tensor]] = {
    Rounding.HALF_EVEN: torch.round,
    Rounding.FLOOR: torch.floor,
    Rounding.TRUNC: torch.trunc,
    Rounding.HALF_AWAY: lambda x: torch.sign(x) * torch.floor(x.abs() + 0.5),
}
MOST_BITS = 32
_SCALED = "quantise with scales that are powers of two, symmetrically"


def frac_width(scale: Tensor) -> int:
    """The fraction width of a step that is a power of two."""
    if scale.numel() != 1:
        raise Refused("data with a scale for each channel", _SCALED)
    return int(frac_widths(scale)[0])


def frac_widths(scale: Tensor) -> list[int]:
    """The fraction width of every step."""
    found = []
    for value in scale.double().reshape(-1).tolist():
        if not math.isfinite(value) or value <= 0:
            raise Refused(f"a scale of {value:g}", "a scale is finite and above zero")
        part, exponent = math.frexp(value)
        if part != 0.5:
            raise Refused(f"a scale of {value:.9g}, which is no power of two", _SCALED)
        found.append(1 - exponent)
    return found


def bits(s: Step, index: int, what: str = "the bit width") -> int:
    """A known number of bits."""
    value = s.known(index, what)
    number = float(value.reshape(-1)[0]) if value.numel() == 1 else math.nan
    if not number.is_integer() or not 1 <= number <= MOST_BITS:
        raise Refused(f"{what} is {value.tolist()!r:.60}, not one number from 1 to {MOST_BITS}")
    return int(number)


def rounding(s: Step, default: str) -> Rounding:
    """The rounding mode."""
    name = s.node.get("rounding_mode", default).upper()
    if name not in ROUNDINGS:
        raise Refused(f"the rounding mode {name[:40]!r}", f"use one of {', '.join(ROUNDINGS)}")
    return ROUNDINGS[name]


def no_offset(s: Step, index: int) -> None:
    """Refuse a zero point."""
    zero = s.known(index, "the zero point")
    if bool((zero != 0).any()):
        raise Refused(f"a zero point of {zero.reshape(-1)[0].item():g}", _SCALED)


def quant(s: Step) -> Ref:
    """``Quant``: ``round(clip(x / scale))``, times the scale."""
    width, mode = bits(s, 3), rounding(s, "ROUND")
    signed, narrow = bool(s.node.get("signed", 1)), bool(s.node.get("narrow", 0))
    no_offset(s, 2)
    scale = s.known(1, "the scale")
    if width == 1 and signed:
        return _bipolar(s, scale)
    return _quantised(s, s.data(), scale, width, signed, narrow, mode)


def bipolar_quant(s: Step) -> Ref:
    """``BipolarQuant``: the scale, with the sign of the value; 0 counts as positive."""
    return _bipolar(s, s.known(1, "the scale"))


def _bipolar(s: Step, scale: Tensor) -> Ref:
    frac_widths(scale)
    x = s.data()
    if isinstance(x, Tensor):
        return torch.where(x >= 0, scale, -scale)
    frac = frac_width(scale)
    step = math.ldexp(1.0, -frac)
    # 2 * step where the value is not negative, less one step: both are exact.
    positive = s.writer.method("to", s.call(torch.ge, x, 0.0), torch.float32)
    return s.call(torch.sub, s.call(torch.mul, positive, 2 * step), step)


def _quantised(
    s: Step, x: Ref, scale: Tensor, width: int, signed: bool, narrow: bool, mode: Rounding, name: str = ""
) -> Ref:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    narrower = low + 1 if narrow and signed else low
    highest = high - 1 if narrow and not signed else high
    if isinstance(x, Tensor):
        fracs = frac_widths(scale)
        whole = _ROUND[mode]((x.double() / scale.double()).clamp(narrower, highest))
        made = (whole * scale.double()).float()
        if len(set(fracs)) == 1:
            s.writer.note(made, FixedFormat(width, fracs[0], signed))
        return made
    frac = frac_width(scale)
    if (narrower, highest) != (low, high):
        ends = (math.ldexp(narrower, -frac), math.ldexp(highest, -frac))
        x = s.call(torch.clamp, x, *ends)
    return mark(s, x, FixedFormat(width, frac, signed), mode)


def mark(s: Step, x: Ref, fmt: FixedFormat, mode: Rounding, given: FixedFormat | None = None) -> Ref:
    """A node that says to which format data is rounded."""
    made = s.call(passed_on, x)
    s.writer.markers[made.name] = Marker(fmt, mode, given)
    return made


def trunc(s: Step) -> Ref:
    """``Trunc`` of version 2 (with an output scale) or 1: drops the last bits of what is quantised."""
    mode, scale = rounding(s, "FLOOR"), s.known(1, "the scale")
    no_offset(s, 2)
    if len(s.inputs) != (6 if s.node.version > 1 else 5):
        raise Refused(f"{len(s.inputs)} inputs in version {s.node.version} of {s.node.domain}")
    frac, given = frac_width(scale), bits(s, 3, "the input bit width")
    x, signed = s.data(), True
    if s.node.version > 1:
        signed = bool(s.node.get("signed", 1))
        if s.node.get("narrow", 0):
            raise Refused("a narrow range of what is truncated", "use the whole range")
        target, width = frac_width(s.known(4, "the output scale")), bits(s, 5, "the output bit width")
        given_width, given_frac = MOST_BITS * 2, frac
    else:
        lost = given - bits(s, 4, "the output bit width")
        x = s.call(torch.mul, x, math.ldexp(1.0, -lost))
        # Nothing is clipped: what comes is a number of the input bit width, signed or not.
        target, width = frac, given - lost + 1
        given_width, given_frac = given + 1, frac + lost
    if isinstance(x, Tensor):
        low, high = FixedFormat(width, target, signed).min_value, FixedFormat(width, target, signed).max_value
        step = math.ldexp(1.0, -target)
        return (_ROUND[mode](x.double() / step) * step).clamp(low, high).float()
    return mark(s, x, FixedFormat(width, target, signed), mode, FixedFormat(given_width, given_frac, signed))


_TYPES = {torch.uint8: (8, False), torch.int8: (8, True), torch.int16: (16, True), torch.int32: (32, True)}


def _zero(s: Step, index: int, default: torch.dtype = torch.uint8) -> tuple[int, bool]:
    """Width and sign of the numbers that a zero point is one of; half of an unsigned range counts as 0 of a signed one.

    A ``uint8`` with the zero point 128 stands for the same values as an ``int8`` with 0, and the reverse.
    """
    zero = s.maybe_known(index, "the zero point")
    dtype = default if zero is None else zero.dtype
    if dtype not in _TYPES:
        raise Refused(f"quantised numbers of the type {dtype}")
    width, signed = _TYPES[dtype]
    values = {0} if zero is None else {int(v) for v in zero.reshape(-1).tolist()}
    if values == {0}:
        return width, signed
    half = -(1 << (width - 1)) if signed else 1 << (width - 1)
    if values == {half}:
        return width, not signed
    raise Refused(f"a zero point of {sorted(values)[0]}", _SCALED)


def quantize_linear(s: Step) -> Ref:
    """``QuantizeLinear``: the result stands for the quantised values, not for their numbers."""
    s.node.get("saturate", 1)
    s.node.fixed("output_dtype", 0)
    s.node.fixed("block_size", 0)
    width, signed = _zero(s, 2)
    scale = _along(s, s.known(1, "the scale"), s.node.get("axis", 1))
    return s.writer.codes(_quantised(s, s.data(), scale, width, signed, False, Rounding.HALF_EVEN), scale)


def dequantize_linear(s: Step) -> Ref:
    """``DequantizeLinear`` of stored numbers, or of what :func:`quantize_linear` gave with the same scale."""
    s.node.fixed("block_size", 0)
    x, scale = s.any(0), _along(s, s.known(1, "the scale"), s.node.get("axis", 1))
    width, signed = _zero(s, 2, x.dtype if isinstance(x, Tensor) else torch.uint8)
    if isinstance(x, Tensor):
        if x.dtype.is_floating_point:
            raise Refused("it reads floats in the place of quantised numbers")
        zero = s.maybe_known(2, "the zero point")
        shift = 0 if zero is None or not bool(zero.any()) else int(zero.reshape(-1)[0])
        fracs = frac_widths(scale)
        made = ((x.double() - shift) * scale.double()).float()
        if len(set(fracs)) == 1:
            s.writer.note(made, FixedFormat(width, fracs[0], signed))
        return made
    return s.writer.values(x, scale)


def _along(s: Step, scale: Tensor, axis: int) -> Tensor:
    """Scales in the shape in which they multiply the first input."""
    if scale.numel() == 1:
        return scale.reshape(())
    dims = len(s.shape())
    axis = s.axis(axis, dims)
    return scale.reshape([-1 if i == axis else 1 for i in range(dims)])


def qlinear_conv(s: Step) -> Ref:
    """``QLinearConv``: a convolution between two dequantisations and a quantisation."""
    x_scale, w_scale, y_scale = (s.known(i, "a scale") for i in (1, 4, 6))
    _zero(s, 2)
    x = s.writer.values(s.any(0), x_scale.reshape(()))
    weight = s.known(3, "the weight")
    w_width, w_signed = _zero(s, 5, weight.dtype)
    zero = s.known(5, "the zero point")
    per = w_scale.reshape([-1] + [1] * (weight.dim() - 1)) if w_scale.numel() > 1 else w_scale.reshape(())
    fracs = frac_widths(w_scale)
    values = ((weight.double() - int(zero.reshape(-1)[0])) * per.double()).float()
    if len(set(fracs)) == 1:
        s.writer.note(values, FixedFormat(w_width, fracs[0], w_signed))
    bias = s.maybe_known(8, "the bias")
    products = (x_scale.double() * w_scale.double()).reshape(-1)
    inputs = [x, values, None if bias is None else (bias.double() * products).float()]
    y_width, y_signed = _zero(s, 7)
    made = layers.conv(Step(s.node, inputs, s.writer, s.opset, s.readers))
    scale = y_scale.reshape(())
    return s.writer.codes(_quantised(s, made, scale, y_width, y_signed, False, Rounding.HALF_EVEN), scale)


RULES = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "QLinearConv": qlinear_conv,
}
"""Operation of ONNX -> what writes it."""
QONNX = {"Quant": quant, "IntQuant": quant, "BipolarQuant": bipolar_quant, "Trunc": trunc}
"""Operation of QONNX -> what writes it."""
MOVES = frozenset({"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "MaxPool"})
"""Operations that choose or move quantised integers as they would the values they stand for."""
DOMAINS = frozenset({"qonnx.custom_op.general", "onnx.brevitas"})
"""Domains of QONNX."""
