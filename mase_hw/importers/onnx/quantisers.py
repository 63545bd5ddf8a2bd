"""Quantisation in files of ONNX: ``QuantizeLinear``, ``DequantizeLinear`` and what computes with integers."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.importers.graph import Codes, Known, Ref, Refused
from mase_hw.importers.onnx import grids, layers
from mase_hw.importers.onnx.elements import bits_of, integers_like, name_of, zeros_of
from mase_hw.importers.onnx.step import Step


def _zero(s: Step, index: int) -> tuple[int, int, bool]:
    """The one zero point of data, with width and sign of the integers; 0 of uint8 if it is left out."""
    zero = _zeros(s, index)
    width, signed = bits_of(zero)
    found = {int(v) for v in zero.reshape(-1).tolist()}
    if len(found) != 1:
        raise Refused(f"zero points of data for each channel: {sorted(found)[:4]}", "quantise it with one zero point")
    return found.pop(), width, signed


def _zeros(s: Step, index: int) -> Tensor:
    """The zero points, whose type is that of the integers; if they are left out, 0 of the type that is asked for."""
    zero, asked = s.maybe_known(index, "the zero point"), s.node.get("output_dtype", 0)
    if not asked:
        return torch.zeros((), dtype=torch.uint8) if zero is None else zero
    made = zeros_of(asked)
    if made is None:
        raise Refused(f"output_dtype is the element type {asked}", "quantise to integers of 4, 8 or 16 bits")
    if zero is not None and bits_of(zero) != bits_of(made):
        raise Refused(f"output_dtype is {name_of(made)}, and the zero point is {name_of(zero)}")
    return made if zero is None else zero


def quantize_linear(s: Step) -> Ref:
    """``QuantizeLinear``: the result stands for the quantised values, not for their numbers."""
    s.node.get("saturate", 1)
    s.node.get("axis", 1)
    s.node.fixed("block_size", 0)
    x, scale = s.data(), s.known(1, "the scale")
    if isinstance(x, Tensor):
        return _stored(s, x, scale)
    return _rounded(s, x, scale, 2)


def rounded_to(s: Step, x: Ref, index: int, *, zero_first: bool = False) -> Ref:
    """Data as integers, whose scale and zero point are an input and the one behind it.

    Args:
        s: The node.
        x: The data.
        index: Of the input that is the scale.
        zero_first: The zero point is added before rounding, as ONNX' evaluator does it in ``QLinearConv`` and
            ``QLinearMatMul``; ties go to even integers then. Else behind it.
    """
    return _rounded(s, x, s.known(index, "a scale"), index + 1, zero_first)


def stored_values(s: Step, x: Tensor, index: int, axis: int = 0) -> Tensor:
    """What stored integers stand for, whose scale and zero point are the inputs behind them."""
    return _values(s, x, s.known(index + 1, "a scale"), s.maybe_known(index + 2, "the zero point"), axis)


def values_of_integers(x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, s: Step) -> Tensor:
    """What stored integers stand for, with this scale and these zero points."""
    return _values(s, x, scale, zero, axis)


def _rounded(s: Step, x: Ref, scale: Tensor, index: int, zero_first: bool = False) -> Ref:
    """Data as integers, with the zero point of an input."""
    zero, width, signed = _zero(s, index)
    made = grids.rounded(s, x, scale, zero, grids.Integers(width, signed), tied=not (zero_first and zero % 2))
    return s.writer.codes(made, Codes(scale.reshape(()), zero))


def _stored(s: Step, x: Tensor, scale: Tensor) -> Tensor:
    """Stored values as integers, as the specification has it in float32."""
    grids.steps(scale)
    zero = _zeros(s, 2)
    low, high = grids.Integers(*bits_of(zero)).limits
    axis = s.node.get("axis", 1)
    whole = torch.round(x.float() / _along(s, scale, axis)) + _along(s, zero.float(), axis)
    return integers_like(whole.clamp(low, high), zero)


def dequantize_linear(s: Step) -> Ref:
    """``DequantizeLinear`` of stored numbers, or of what :func:`quantize_linear` gave with the same scale."""
    s.node.fixed("block_size", 0)
    s.node.fixed("output_dtype", 0)
    x, scale, axis = s.any(0), s.known(1, "the scale"), s.node.get("axis", 1)
    zero = s.maybe_known(2, "the zero point")
    if isinstance(x, Tensor):
        return _values(s, x, scale, zero, axis)
    return data_of(s, 0)


def _values(s: Step, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """What stored integers stand for."""
    if x.dtype.is_floating_point:
        raise Refused("it reads floats in the place of quantised numbers")
    width, signed = bits_of(x)
    if zero is not None and bits_of(zero) != (width, signed):
        raise Refused(f"a zero point of the type {name_of(zero)} of numbers of {name_of(x)}")
    integers, fixed = x.double(), True
    if zero is not None:
        values = set(zero.reshape(-1).tolist())
        half = -(1 << (width - 1)) if signed else 1 << (width - 1)
        fixed, signed = values in ({0}, {half}), signed if values == {0} else not signed if values == {half} else True
        integers = integers - _along_values(x, zero, axis).double()
    return grids.stored(s, integers, _along_values(x, scale, axis), width, signed, fixed=fixed)


def _along(s: Step, values: Tensor, axis: int) -> Tensor:
    return _along_values(s.known(0, "the numbers"), values, axis)


def _along_values(x: Tensor, values: Tensor, axis: int) -> Tensor:
    """Scales or zero points in the shape in which they meet stored numbers."""
    if values.numel() == 1:
        return values.reshape(())
    if values.dim() != 1 or not -x.dim() <= axis < x.dim() or x.shape[axis] != values.numel():
        fits = [i for i, n in enumerate(x.shape) if values.dim() == 1 and n == values.numel()]
        raise Refused(
            f"scales of the shape {list(values.shape)} along axis {axis} of {list(x.shape)}",
            f"set its axis to {fits[0]}" if fits else "give one scale, or one for every channel",
        )
    return values.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])


def data_of(s: Step, index: int) -> Ref:
    """The values of integers, whose scale and zero point are the inputs behind them."""
    scale = s.known(index + 1, "a scale")
    if scale.numel() != 1:
        raise Refused("data with a scale for each channel", "quantise it with one scale")
    grids.steps(scale)
    made, codes = s.any(index), Codes(scale.reshape(()), _zero(s, index + 2)[0])
    known = s.writer.codes_of(made)
    if known is not None and known.integers is not None:
        values = _values(s, known.integers, scale, s.maybe_known(index + 2, "the zero point"), 0)
        s.writer.table_known(known.table, values, codes)
    return s.writer.values(made, codes)


def qlinear_conv(s: Step) -> Ref:
    """``QLinearConv``: a convolution between two dequantisations and a quantisation."""
    x, weight = data_of(s, 0), s.known(3, "the weight")
    w_scale = s.known(4, "a scale")
    values = _values(s, weight, w_scale, s.maybe_known(5, "the zero point"), 0)
    bias = s.maybe_known(8, "the bias")
    if bias is not None:
        products = (s.known(1, "a scale").double() * w_scale.double()).reshape(-1)
        exact = bias.double() * products
        bias = s.writer.note(exact.float(), Known(exact=exact))
    made = layers.conv(Step(s.node, [x, values, bias], s.writer, s.opset, s.readers))
    return rounded_to(s, made, 6, zero_first=True)


def qlinear_matmul(s: Step) -> Ref:
    """``QLinearMatMul`` with a stored matrix or another stream, likewise."""
    x, weight = data_of(s, 0), s.any(3)
    if isinstance(weight, Tensor):
        if weight.dim() != 2:
            raise Refused(f"a product with stored numbers of the shape {list(weight.shape)}")
        values: Any = _values(s, weight, s.known(4, "a scale"), s.maybe_known(5, "the zero point"), 1)
    else:
        values = data_of(s, 3)
    made = layers.matmul(Step(s.node, [x, values], s.writer, s.opset, s.readers))
    return rounded_to(s, made, 6, zero_first=True)


def clip(s: Step) -> Ref:
    """``Clip`` of integers, with which files of QDQ say a width below 8 bits or a narrow range."""
    x, known = s.any(0), s.writer.codes_of(s.any(0))
    marker = None if known is None else s.writer.markers.get(x.name)
    if known is None or marker is None or s.readers[s.node.inputs[0]] != 1:
        raise Refused("it clips integers that something else reads", "clip them right behind their quantisation")
    width, signed = marker.fmt.width, marker.fmt.signed
    if known.zero and not isinstance(marker.fmt, ScaledFormat):
        signed = not signed  # fixed point has it with the other sign
    ends = list(grids.Integers(width, signed).limits)
    for index in (1, 2):
        given = s.maybe_known(index, "a bound")
        if given is not None:
            ends[index - 1] = int(given.reshape(-1)[0])
    low, high = ends
    if isinstance(marker.fmt, ScaledFormat):
        low, high = max(low, marker.fmt.min_mantissa), min(high, marker.fmt.max_mantissa)
        if low > high:
            raise Refused(f"bounds of {ends} that leave nothing")
        s.writer.markers[x.name] = dataclasses.replace(
            marker, fmt=dataclasses.replace(marker.fmt, lows=(low,), highs=(high,))
        )
        return x
    low, high = low - known.zero, high - known.zero
    bits = max(high.bit_length() + (low < 0), (-low - 1).bit_length() + 1 if low < 0 else 1)
    narrower = FixedFormat(bits, marker.fmt.frac_width, low < 0)
    if (narrower.min_mantissa, narrower.max_mantissa) == (low, high):
        s.writer.markers[x.name] = dataclasses.replace(marker, fmt=narrower)
        return x
    step = marker.fmt.scale
    return s.writer.codes(s.call(torch.clamp, x, low * step, high * step), known)


def dynamic(s: Step) -> Ref:
    """``DynamicQuantizeLinear`` is refused: its scale is computed from the data."""
    raise Refused(
        "its scale and zero point are computed from each input, and hardware has them fixed",
        "quantise the model statically, with calibration data",
    )


RULES = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "DynamicQuantizeLinear": dynamic,
}
"""Operation of ONNX -> what writes it."""
MICROSOFT = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}
"""Operation of ONNX Runtime's own domain -> what writes it."""
_MOVED = "Reshape Flatten Transpose Squeeze Unsqueeze Identity MaxPool Split Slice Gather Expand DepthToSpace"
MOVES = frozenset(_MOVED.split())
"""Operations that choose or move quantised integers as they would the values they stand for."""
