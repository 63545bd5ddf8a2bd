"""Operations of ONNX over axes: sums, means, extremes, norms and places."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.step import Step
from mase_hw.ops.rows.top import top_places, top_values

Rule = Callable[[Step], Any]


Axes = tuple[tuple[int, ...], bool, tuple[int, ...]]
"""Axes within a frame, whether they stay, and the shape of the result."""


def _over(s: Step) -> Axes | None:
    """The axes over which a node works; None if it leaves its data as it is."""
    shape = s.shape()
    axes, keep = s.axes(1, len(shape)), bool(s.node.get("keepdims", 1))
    if s.node.get("noop_with_empty_axes", 0) and not axes:
        return None
    axes = axes or list(range(len(shape)))
    sizes = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
    frames = s.writer.frames_dim(s.any(0))
    if frames in axes:
        if not s.alone or shape[frames] != 1:
            s.frame_axis(frames)
        axes.remove(frames)
    return tuple(axes), keep, tuple(sizes)


def _along(s: Step, function: Any, x: Ref, over: Axes) -> Ref:
    """A function over axes; that of the one frame of a file is taken away behind it."""
    axes, keep, sizes = over
    return s.writer.reshape(function(x, axes, keep) if axes else x, sizes)


def _reduce(function: Any, s: Step) -> Ref:
    over = _over(s)
    if over is None:
        return s.data()
    return _along(s, lambda x, axes, keep: s.call(function, x, axes, keepdim=keep), s.data(), over)


def _after(first: Any, then: Any = None) -> Rule:
    """A sum of what a function gives, and what is computed of it."""

    def rule(s: Step) -> Ref:
        x, over = first(s, s.data()), _over(s)
        made = x
        if over is not None:
            made = _along(s, lambda x, axes, keep: s.call(torch.sum, x, axes, keepdim=keep), x, over)
        return made if then is None else s.call(then, made)

    return rule


def _l2(s: Step) -> Ref:
    over = _over(s)
    if over is None or not over[0]:
        made = s.call(torch.abs, s.data())
        return made if over is None else s.writer.reshape(made, over[2])
    return _along(s, lambda x, axes, keep: s.call(torch.linalg.vector_norm, x, 2, axes, keep), s.data(), over)


def _product(s: Step) -> Ref:
    """``ReduceProd`` of what is known, such as sizes."""
    found = _over(s)
    value = s.known(0, "a product of elements")
    if found is None:
        return value
    for axis in sorted((a % value.dim() for a in found[0]), reverse=True):
        value = value.prod(axis, keepdim=found[1])
    return value


def _place(function: Any, s: Step) -> Ref:
    axis, keep = s.axis(s.node.get("axis", 0), len(s.shape())), bool(s.node.get("keepdims", 1))
    s.frame_axis(axis)
    if not s.node.get("select_last_index", 0):
        return s.call(function, s.data(), axis, keep)
    turned = s.call(function, s.call(torch.flip, s.data(), (axis,)), axis, keep)
    return s.call(torch.rsub, turned, s.shape()[axis] - 1)


def _hardmax(s: Step) -> Ref:
    """``Hardmax``: 1 at the first of the largest elements."""

    def hot(x: Ref, axis: int) -> Ref:
        shape = s.writer.shape(x)
        made = s.table(torch.eye(shape[axis]), s.call(torch.argmax, x, axis, False))
        last = len(shape) - 1
        return made if axis == last else s.call(torch.movedim, made, last, axis)

    return _over_axis(s, hot)


def _top(s: Step) -> list[Ref]:
    """``TopK``: the largest or the smallest elements, and their places."""
    count, axis = s.numbers(1, "the number of elements"), s.axis(s.node.get("axis", -1), len(s.shape()))
    s.node.get("sorted", 1)
    s.frame_axis(axis)
    if count != [1]:
        if len(count) != 1 or not 0 < count[0] <= s.shape()[axis]:
            raise Refused(f"the {count} first of {s.shape()[axis]} elements")
        last, largest = len(s.shape()) - 1, bool(s.node.get("largest", 1))
        rows = s.data() if axis == last else s.call(torch.transpose, s.data(), axis, last)
        # Of equal elements the first one comes first, of which torch.topk says nothing.
        found = [s.call(of, rows, s.shape()[axis], count[0], largest) for of in (top_values, top_places)]
        return found if axis == last else [s.call(torch.transpose, each, axis, last) for each in found]
    value, place = (torch.amax, torch.argmax) if s.node.get("largest", 1) else (torch.amin, torch.argmin)
    return [s.call(value, s.data(), axis, True), s.call(place, s.data(), axis, True)]


def _running(s: Step) -> Ref:
    """``CumSum``."""
    axis = s.numbers(1, "the axis")
    if len(axis) != 1:
        raise Refused(f"the axes {axis}")
    dim = s.axis(axis[0], len(s.shape()))
    s.frame_axis(dim)
    turned, before = s.node.get("reverse", 0), s.node.get("exclusive", 0)
    x = s.call(torch.flip, s.data(), (dim,)) if turned else s.data()
    made = s.call(torch.cumsum, x, dim)
    made = s.call(torch.sub, made, x) if before else made
    return s.call(torch.flip, made, (dim,)) if turned else made


def _normalised(s: Step) -> Ref:
    """``LpNormalization``."""
    axis, power = s.axis(s.node.get("axis", -1), len(s.shape())), s.node.get("p", 2)
    s.frame_axis(axis)
    if power == 2:
        return s.call(F.normalize, s.data(), 2.0, axis)
    if power != 1:
        raise Refused(f"a norm of the order {power}")
    return s.call(torch.div, s.data(), s.call(torch.sum, s.call(torch.abs, s.data()), axis, keepdim=True))


def _standardised(s: Step) -> Ref:
    """``MeanVarianceNormalization``, over axes of a frame."""
    axes = tuple(s.axis(a, len(s.shape())) for a in s.node.ints("axes", [0, 2, 3]))
    for axis in axes:
        s.frame_axis(axis)
    centred = s.call(torch.sub, s.data(), s.call(torch.mean, s.data(), axes, keepdim=True))
    squares = s.call(torch.mean, s.call(torch.mul, centred, centred), axes, keepdim=True)
    return s.call(torch.div, centred, s.call(torch.add, s.call(torch.sqrt, squares), 1e-9))


def _local_response(s: Step) -> Ref:
    """``LRN`` over an odd number of channels."""
    size, alpha, beta, bias = (
        s.node.get("size", None), s.node.get("alpha", 1e-4), s.node.get("beta", 0.75), s.node.get("bias", 1.0)
    )  # fmt: skip
    if not isinstance(size, int) or size < 1 or size % 2 == 0:
        raise Refused(f"{size} channels, which lie unevenly around one", "use an odd size")
    return s.call(F.local_response_norm, s.data(), size, alpha, beta, bias)


def _global_power(s: Step) -> Ref:
    """``GlobalLpPool``."""
    s.node.fixed("p", 2)
    return s.call(torch.linalg.vector_norm, s.data(), 2, tuple(range(2, len(s.shape()))), True)


def _over_axis(s: Step, function: Callable[[Ref, int], Ref]) -> Ref:
    """Over one axis; before opset 13 over all from an axis on."""
    shape, before = s.shape(), s.opset < 13
    axis, x = s.axis(s.node.get("axis", 1 if before else -1), len(shape)), s.data()
    s.frame_axis(axis)
    if not before or math.prod(shape[axis + 1 :]) == 1:
        return function(x, axis)
    rows = s.writer.reshape(x, (*shape[:axis], math.prod(shape[axis:])))
    return s.writer.reshape(function(rows, axis), shape)


def _softmax(function: Any) -> Rule:
    return lambda s: _over_axis(s, lambda x, axis: s.call(function, x, axis))


def _mean(s: Step) -> Ref:
    """``Mean`` of any number of tensors."""
    found = s.data(0)
    for index in range(1, len(s.inputs)):
        found = s.call(torch.add, found, s.data(index))
    return found if len(s.inputs) == 1 else s.call(torch.mul, found, 1 / len(s.inputs))


RULES: dict[str, Rule] = {
    "Softmax": _softmax(F.softmax),
    "LogSoftmax": _softmax(F.log_softmax),
    "ReduceMean": functools.partial(_reduce, torch.mean),
    "ReduceSum": functools.partial(_reduce, torch.sum),
    "ReduceMax": functools.partial(_reduce, torch.amax),
    "ReduceMin": functools.partial(_reduce, torch.amin),
    "ReduceL1": _after(lambda s, x: s.call(torch.abs, x)),
    "ReduceL2": _l2,
    "ReduceSumSquare": _after(lambda s, x: s.call(torch.mul, x, x)),
    "ReduceLogSum": _after(lambda s, x: x, torch.log),
    "ReduceLogSumExp": functools.partial(_reduce, torch.logsumexp),
    "ReduceProd": _product,
    "ArgMax": functools.partial(_place, torch.argmax),
    "ArgMin": functools.partial(_place, torch.argmin),
    "Hardmax": _hardmax,
    "TopK": _top,
    "CumSum": _running,
    "LpNormalization": _normalised,
    "MeanVarianceNormalization": _standardised,
    "LRN": _local_response,
    "GlobalLpPool": _global_power,
    "Mean": _mean,
}
"""Operation -> what writes it."""
