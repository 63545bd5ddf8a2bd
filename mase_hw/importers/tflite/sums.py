"""Operations of two tensors, and tensors side by side."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, Multipliers, Rounding, ScaledFormat, steps_of
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import product_scale, twice
from mase_hw.importers.tflite.step import TO_FIRST, Step, Value, format_of
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, magnitude
from mase_hw.ops._binary import CONSTANT
from mase_hw.ops.concat import MOST
from mase_hw.ops.movement.rearrange import Places
from mase_hw.ops.requantize import requantization_by
from mase_hw.passes.quantize.integers.combine import LEFT_SHIFT, RoundedSum, product_of


def added(s: Step, *, subtract: bool) -> Value:
    """``ADD`` and ``SUB``: both operands, shifted to the left, and their sum are rounded twice each."""
    x, y, constant, reversed_ = _operands(s)
    first, nodes = _operands_alike(s, x, constant)
    want = s.out_format()
    codes = None if constant is None else _broadcast(constant, first)
    left = LEFT_SHIFT
    if x.fmt.width > 8:
        left = 15
        if s.op.option("PotScaleInt16"):
            raise Refused("sums of 16 bits whose scales are taken for powers of two", "convert the model again")
    made = RoundedSum(x.fmt, y, want, subtract=subtract, constant=codes, reversed=reversed_, left=left)
    shape = s.writer.shape(nodes[0])
    total = _sum(s, made, nodes, "sums")
    return s.result(s.put(made.last, [total], shape), want, first=first)


def _sum(s: Step, made: RoundedSum, nodes: list[fx.Node], name: str) -> fx.Node:
    """The sum of both operands as they are rounded, not yet rounded itself."""
    shape = s.writer.shape(nodes[0])
    operands = [s.put(made.first, nodes[:1], shape, "first")]
    if made.second is not None:
        assert isinstance(made.second, Quantized)  # a requantisation, as the first
        operands.append(s.put(made.second, nodes[1:], shape, "second"))
    return s.put(made.sum, operands, shape, name)


def multiplied(s: Step) -> Value:
    """``MUL``: the exact product is rounded twice; the kernel computes the ratio of the scales in float32."""
    x, y, constant, _ = _operands(s)
    first, nodes = _operands_alike(s, x, constant)
    want = s.out_format()
    arithmetic = product_of(x.fmt, y, constant=constant is not None)
    parameters = {} if constant is None else {CONSTANT: dequantize(_broadcast(constant, first).double(), y)}
    made = s.put(Quantized(s.catalogue["mul"], arithmetic, parameters), nodes, s.writer.shape(nodes[0]), "product")
    have = arithmetic.formats["data_out_0"]
    assert isinstance(have, ScaledFormat)  # as the operands are
    ratio = float(np.float32(product_scale(x.fmt, y.scale)) / np.float32(want.scale))
    found, first_bits = twice([ratio], magnitude(x.fmt.centred) * magnitude(y.centred))
    return s.result(s.requantised(made, have, want, found, Rounding.HALF_AWAY, first_bits), want, first=first)


def squared_difference(s: Step) -> Value:
    """``SQUARED_DIFFERENCE``: both operands, shifted to the left by 7 bits, and the square are rounded twice each."""
    x, y, constant, reversed_ = _operands(s)
    first, nodes = _operands_alike(s, x, constant)
    want, codes = format_of(s.out), None if constant is None else _broadcast(constant, first)
    both = 2 * max(x.fmt.scale, y.scale)
    made = RoundedSum(x.fmt, y, ScaledFormat.make(8, both), subtract=True, constant=codes, reversed=reversed_, left=7)
    shape = s.writer.shape(nodes[0])
    apart = _sum(s, made, nodes, "difference")
    difference = made.sum.arithmetic.formats["data_out_0"]
    assert isinstance(difference, ScaledFormat)  # as the operands are
    square = product_of(difference, difference)
    have = square.formats["data_out_0"]
    assert isinstance(have, ScaledFormat)
    found, bits = twice([both * both / ((1 << 14) * want.scale)], (magnitude(difference.centred) // 2) ** 2)
    node = s.put(Quantized(s.catalogue["mul"], square), [apart, apart], shape, "square")
    return s.result(s.requantised(node, have, want, found, Rounding.HALF_AWAY, bits), want, first=first)


def sloped(s: Step, positive: float, negative: float) -> Value:
    """``PRELU`` with a slope for every channel: what is above 0 and what is below are rounded twice, and added.

    Args:
        s: The operation, whose second input are the slopes.
        positive: Ratio of the scales from 0 on.
        negative: The same of products with slopes.
    """
    x, want, weight = s.data(), format_of(s.out), format_of(s.info(1))
    first, (node,) = _operands_alike(s, x, s.known(1, "the slope", "int8"))
    shape, zero = s.writer.shape(node), x.fmt.zero_point
    part, one = ScaledFormat.make(16, want.scale), Multipliers((1,), 0)
    above, below = dataclasses.replace(x.fmt, lows=(zero,)), dataclasses.replace(x.fmt, highs=(zero,))

    def requantised(node: fx.Node, have: ScaledFormat, ratio: float, name: str) -> fx.Node:
        found, bits = twice([ratio], magnitude(have.centred))
        made = requantization_by(have, part, found, Rounding.HALF_AWAY, bits)
        return s.put(Quantized(s.catalogue["requantize"], *made), [node], shape, name)

    sides = []
    for fmt, name in ((above, "positive"), (below, "negative")):
        made = requantization_by(x.fmt, fmt, one, Rounding.FLOOR)
        sides.append(s.put(Quantized(s.catalogue["requantize"], *made), [node], shape, name))
    slopes = dequantize(_broadcast(s.known(1, "the slope", "int8"), first).double(), weight)
    arithmetic = product_of(below, weight, constant=True)
    have = arithmetic.formats["data_out_0"]
    assert isinstance(have, ScaledFormat)  # as the operands are
    product = s.put(Quantized(s.catalogue["mul"], arithmetic, {CONSTANT: slopes}), sides[1:], shape, "product")
    parts = [
        requantised(sides[0], above, positive, "positive_part"),
        requantised(product, have, negative, "negative_part"),
    ]
    total = ScaledFormat.make(17, want.scale)
    formats: dict[str, FixedFormat] = {"data_in_0": part, "data_in_1": part, "data_out_0": total}
    whole = s.put(Quantized(s.catalogue["add"], Arithmetic(formats)), parts, shape, "sums")
    return s.result(s.requantised(whole, total, want, one, Rounding.FLOOR), want, first=first)


def batch_matmul(s: Step) -> Value:
    """``BATCH_MATMUL`` of two tensors that are data: an exact sum of products, rounded twice."""
    want, sides = format_of(s.out), [s.data(0), s.data(1)]
    if any(len(v.shape) < 3 or v.shape[:-2] != sides[0].shape[:-2] for v in sides):
        raise Refused(f"matrices of the shapes {list(sides[0].shape)} and {list(sides[1].shape)}")
    formats, given = list[ScaledFormat](), list[fx.Node]()
    for value, name in zip(sides, ("first", "second"), strict=True):
        fmt, (rows, columns) = value.fmt.centred, value.shape[-2:]
        heads = math.prod(value.shape[1:-2])
        node = s.rows(value, (1, heads, rows, columns))
        made = requantization_by(value.fmt, fmt, Multipliers((1,), 0), Rounding.FLOOR)
        node = s.put(Quantized(s.catalogue["requantize"], *made), [node], (1, heads, rows, columns), name)
        turned = bool(s.op.option("AdjX")) and not given
        # By token: for each row all heads.
        given.append(s.writer.call(torch.permute, node, (0, 3, 1, 2) if turned else (0, 2, 1, 3)))
        formats.append(fmt)
    transposed = bool(s.op.option("AdjY"))
    (_, tokens, heads, inner), (_, rows, _, columns) = map(s.writer.shape, given)
    arithmetic = product_of(*formats)
    bound = inner * magnitude(formats[0]) * magnitude(formats[1])
    have = ScaledFormat.make(bound.bit_length() + 1, steps_of(arithmetic.formats["data_out_0"])[0])
    arithmetic = Arithmetic({**arithmetic.formats, "data_out_0": have}, attributes={"transposed": transposed})
    shape = (1, tokens, heads, rows if transposed else columns)
    node = s.put(Quantized(s.catalogue["grouped_matmul"], arithmetic), given, shape, "sums")
    found, bits = twice([product_scale(formats[0], formats[1].scale) / want.scale], bound)
    node = s.requantised(node, have, want, found, Rounding.HALF_AWAY, bits)
    node = s.writer.reshape(s.writer.call(torch.permute, node, (0, 2, 1, 3)), s.out.shape)
    return s.result(node, want, first=False)


def _operands(s: Step) -> tuple[Value, ScaledFormat, Tensor | None, bool]:
    """Data, the format of the second operand, its integers if it is stored, and whether it comes first."""
    stored = [i for i in range(2) if s.info(i).stored is not None]
    if len(stored) == 2:
        raise Refused("both operands are stored", "convert the model with constants folded")
    if not stored:
        x, y = s.data(0), s.data(1)
        if x.shape != y.shape and not (len(x.shape) == len(y.shape) and _met(x.shape, y.shape) in (x.shape, y.shape)):
            raise Refused(
                f"operands of the shapes {list(x.shape)} and {list(y.shape)}",
                "repeat the smaller one in the model, so that both have one shape",
            )
        return x, y.fmt, None, False
    (index,) = stored
    return s.data(1 - index), format_of(s.info(index)), s.known(index, "an operand", s.info(1 - index).kind), index == 0


def _met(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...] | None:
    """The shape in which two shapes of as many dimensions meet; None if they do not."""
    if any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
        return None
    return tuple(max(pair) for pair in zip(one, other, strict=True))


def _operands_alike(s: Step, x: Value, constant: Tensor | None) -> tuple[bool, list[fx.Node]]:
    """As :func:`_alike`, and of one shape: smaller data is repeated, as integers, also to that of a stored operand."""
    values = [x] if constant is not None else [x, s.data(1)]
    first, nodes = _alike(s, values)
    shapes = [s.writer.shape(node) for node in nodes]
    if constant is not None and constant.dim() <= len(x.shape):
        held = _broadcast(constant, first).shape
        shapes.append((1,) * (len(x.shape) - len(held)) + tuple(held))
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    found = [
        expanded(s, node, value.fmt, shape, part)
        for value, node, part in zip(values, nodes, ("one_expanded", "other_expanded"), strict=False)
    ]
    return first, found


def expanded(s: Step, node: fx.Node, fmt: FixedFormat, shape: tuple[int, ...], part: str) -> fx.Node:
    """A tensor of integers repeated along its dimensions of size 1; ``part`` is what its node is called."""
    have = s.writer.shape(node)
    if have == shape:
        return node
    index = torch.arange(math.prod(have)).reshape(have).expand(shape).reshape(-1)
    places = Places.of(index.numpy(), math.prod(have))
    formats = {"data_in_0": fmt, "data_out_0": fmt}
    arithmetic = Arithmetic(formats, attributes={"shape": shape, **places.to_dict()})
    return s.put(Quantized(s.catalogue["rearrange"], arithmetic), [node], shape, part)


def _alike(s: Step, values: list[Value]) -> tuple[bool, list[fx.Node]]:
    """Nodes of several values with the channels of images in one place: first if one has them there."""
    first = any(value.first for value in values)
    return first, [s.channels_first(value) if first else s.as_in_file(value) for value in values]


def _broadcast(constant: Tensor, first: bool) -> Tensor:
    """A stored operand in the order of the data."""
    if not first:
        return constant
    whole = constant.reshape((1,) * (4 - constant.dim()) + tuple(constant.shape))
    return torch.permute(whole, TO_FIRST)


def concatenation(s: Step) -> Value:
    """``CONCATENATION``: integers side by side, at one scale."""
    values = [s.data(i) for i in range(len(s.op.inputs))]
    want, (x, *_) = s.out_format(), values
    for value in values:
        if (value.fmt.scale, value.fmt.zero_point) != (want.scale, want.zero_point):
            raise Refused("tensors side by side that have several scales or zero points")
    if s.out_format(activation=False).limits != want.limits:
        raise Refused("a fused activation, which its kernel does not have")
    dims = len(x.shape)
    axis = s.op.option("Axis")
    if not -dims <= axis < dims or any(len(v.shape) != dims for v in values) or axis % dims == 0:
        raise Refused(f"the axis {axis} of tensors of {dims} dimensions, the first of which is the batch")
    first, nodes = _alike(s, values)
    where = TO_FIRST.index(axis % dims) if first else axis % dims
    fmt = format_of(s.out)
    given = [value.fmt for value in values]  # a fused activation leaves fewer integers of the same scale
    part = 0
    while len(nodes) > 1:
        few, rest = nodes[:MOST], nodes[MOST:]
        nodes = [_side_by_side(s, few, where, [*given[:MOST], fmt], f"part_{part}" if rest else ""), *rest]
        given = [fmt, *given[MOST:]]
        part += 1
    return s.result(nodes[0], fmt, first=first)


def _side_by_side(s: Step, nodes: list[fx.Node], where: int, fmts: list[ScaledFormat], part: str) -> fx.Node:
    """As many tensors as the module of hardware has ports for; formats of these, and of the result."""
    shapes = [s.writer.shape(node) for node in nodes]
    shape = list(shapes[0])
    shape[where] = sum(each[where] for each in shapes)
    if any(n != m for each in shapes for i, (n, m) in enumerate(zip(each, shape, strict=True)) if i != where):
        raise Refused(f"tensors of the shapes {[list(each) for each in shapes]} side by side")
    formats = {f"data_in_{i}": fmt for i, fmt in enumerate(fmts[:-1])} | {"data_out_0": fmts[-1]}
    return s.put(Quantized(s.catalogue["cat"], Arithmetic(formats, attributes={"dim": where})), nodes, shape, part)


RULES: dict[str, Callable[[Step], Value]] = {
    "ADD": functools.partial(added, subtract=False),
    "SUB": functools.partial(added, subtract=True),
    "MUL": multiplied,
    "SQUARED_DIFFERENCE": squared_difference,
    "CONCATENATION": concatenation,
}
"""Operation -> what writes it."""
