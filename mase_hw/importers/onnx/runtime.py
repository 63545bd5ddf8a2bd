"""ONNX Runtime's operations on quantised integers (QOperator format, domain ``com.microsoft``), and ``ConvInteger``.

Each is defined as a dequantisation of what it reads, the operation on values, and a quantisation of the result.
``ConvInteger`` and ``MatMulInteger`` give sums as they are: integers with the step of their data, if weights have 1.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.importers.graph import Codes, Known, Ref, Refused
from mase_hw.importers.onnx import layers, pools, quantisers, reductions, shapes
from mase_hw.importers.onnx.quantisers import data_of, rounded_to, stored_values
from mase_hw.importers.onnx.step import Step

_INTEGERS = frozenset({torch.int8, torch.uint8})


def _on_values(s: Step, inputs: list[Ref | None]) -> Step:
    """The same node, with values in the place of integers."""
    return Step(s.node, inputs, s.writer, s.opset, s.readers)


def one_value(rule: Callable[[Step], Ref], s: Step) -> Ref:
    """An operation on ``(x, scale, zero point, scale of the result, its zero point)``."""
    _channels_first(s)
    return rounded_to(s, rule(_on_values(s, [data_of(s, 0)])), 3)


def _channels_first(s: Step) -> None:
    if s.node.get("channels_last", 0):
        raise Refused("its images have their channels last", "quantise the model with channels first")


def two_values(function: Callable[..., Tensor], s: Step) -> Ref:
    """``QLinearAdd`` and ``QLinearMul``: either operand may be stored."""
    operands = [stored_values(s, x, i) if isinstance(x := s.any(i), Tensor) else data_of(s, i) for i in (0, 3)]
    return rounded_to(s, s.call(function, *operands), 6)


def _softmax(s: Step) -> Ref:
    found: Ref = reductions.RULES["Softmax"](dataclasses.replace(s, opset=s.node.get("opset", 13)))
    return found


def _mean(s: Step) -> Ref:
    dims = len(s.shape())
    axes = [s.axis(a, dims) for a in s.node.ints("axes", list(range(1, dims)))]
    for axis in axes:
        s.frame_axis(axis)
    return s.call(torch.mean, s.data(), axes, bool(s.node.get("keepdims", 1)))


def concat(s: Step) -> Ref:
    """``QLinearConcat``: scale and zero point of the result first, then three inputs for each tensor."""
    if len(s.inputs) < 5 or len(s.inputs) % 3 != 2:
        raise Refused(f"{len(s.inputs)} inputs, not two and three for every tensor")
    places = range(2, len(s.inputs), 3)
    parts = [stored_values(s, x, i) if isinstance(x := s.any(i), Tensor) else data_of(s, i) for i in places]
    return rounded_to(s, shapes.concat(_on_values(s, list(parts))), 0)


def gemm(s: Step) -> Ref:
    """``QGemm``: a linear layer; its bias has the scale of the products."""
    if s.node.get("alpha", 1.0) != 1.0:
        raise Refused(f"alpha is {s.node.get('alpha', 1.0):g}", "take alpha into the scale of the weights")
    if len(s.inputs) < 8 or s.inputs[7] is None:
        raise Refused("its result is not quantised", "give it a scale and a zero point of the result")
    weight = stored_values(s, s.known(3, "the weight"), 3, axis=0 if s.node.get("transB", 0) else 1)
    bias = s.maybe_known(6, "the bias")
    if bias is not None:
        exact = bias.double() * (s.known(1, "a scale").double() * s.known(4, "a scale").double()).reshape(-1)
        bias = s.writer.note(exact.float(), Known(exact=exact))
    made = layers.gemm(_on_values(s, [data_of(s, 0), weight, bias]))
    return rounded_to(s, made, 7)


def sums(rule: Callable[[Step], Ref], axis: int, s: Step) -> Ref:
    """``ConvInteger`` and ``MatMulInteger``: exact sums of int32, of data less its zero point and stored weights."""
    known = s.writer.codes_of(s.any(0))
    if known is None:
        raise Refused("it reads integers that nothing has quantised", "put a QuantizeLinear before it")
    given, zeros = s.maybe_known(2, "the zero point"), s.maybe_known(3, "the zero points of its weights")
    zero = 0 if given is None else int(given.reshape(-1)[0])
    if zero != known.zero or (given is not None and given.numel() != 1):
        raise Refused(f"the zero point {zero} of integers with {known.zero}")
    weight = s.known(1, "the weight")
    if weight.dtype not in _INTEGERS:
        raise Refused(f"weights of the type {weight.dtype}")
    values = quantisers.values_of_integers(weight, torch.ones(()), zeros, axis, s)
    x = s.writer.values(s.any(0), known)
    return s.writer.codes(rule(_on_values(s, [x, values])), Codes(known.step, 0))


def numbers(s: Step) -> Ref:
    """``Cast`` of such sums to float: the numbers themselves, not the values they stand for."""
    known = s.writer.codes_of(s.any(0))
    if known is None or known.zero or s.node.get("to") != 1:
        raise Refused("it computes with quantised integers", "put a DequantizeLinear before it")
    return s.call(torch.mul, s.writer.values(s.any(0), known), 1.0 / float(known.step))


RULES = {
    "ConvInteger": functools.partial(sums, layers.conv, 0),
    "MatMulInteger": functools.partial(sums, layers.matmul, 1),
}
"""Operation of ONNX -> what writes it."""
MICROSOFT = {
    "QLinearAdd": functools.partial(two_values, torch.add),
    "QLinearMul": functools.partial(two_values, torch.mul),
    "QGemm": gemm,
    "QLinearLeakyRelu": functools.partial(
        one_value, lambda s: s.call(F.leaky_relu, s.data(), s.node.get("alpha", 0.01))
    ),
    "QLinearSigmoid": functools.partial(one_value, lambda s: s.call(torch.sigmoid, s.data())),
    "QLinearSoftmax": functools.partial(one_value, _softmax),
    "QLinearGlobalAveragePool": functools.partial(one_value, pools.RULES["GlobalAveragePool"]),
    "QLinearAveragePool": functools.partial(one_value, pools.RULES["AveragePool"]),
    "QLinearReduceMean": functools.partial(one_value, _mean),
    "QLinearConcat": concat,
}
"""Operation of ONNX Runtime's own domain -> what writes it."""
