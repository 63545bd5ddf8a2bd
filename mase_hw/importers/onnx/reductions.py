"""Operations of ONNX over axes: sums, means, extremes, norms and places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.step import Step

Rule = Callable[[Step], Any]


def _over(s: Step, since: int) -> tuple[tuple[int, ...], bool] | None:
    """The axes over which a node works, and whether they stay; None if it leaves its data as it is."""
    dims = len(s.shape())
    axes, keep = s.axes("axes", 1, since, dims), bool(s.node.get("keepdims", 1))
    if s.node.get("noop_with_empty_axes", 0) and not axes:
        return None
    axes = axes or list(range(dims))
    for axis in axes:
        s.frame_axis(axis)
    return tuple(axes), keep


def _reduce(function: Any, since: int) -> Rule:
    def rule(s: Step) -> Ref:
        found = _over(s, since)
        return s.data() if found is None else s.call(function, s.data(), found[0], keepdim=found[1])

    return rule


def _after(first: Any, since: int, then: Any = None) -> Rule:
    """A sum of what a function gives, and what is computed of it."""

    def rule(s: Step) -> Ref:
        x, found = first(s, s.data()), _over(s, since)
        made = x if found is None else s.call(torch.sum, x, found[0], keepdim=found[1])
        return made if then is None else s.call(then, made)

    return rule


def _l2(s: Step) -> Ref:
    found = _over(s, 18)
    return s.call(torch.abs, s.data()) if found is None else _norm(s, *found)


def _norm(s: Step, axes: tuple[int, ...], keep: bool) -> Ref:
    return s.call(torch.linalg.vector_norm, s.data(), 2, axes, keep)


def _product(s: Step) -> Ref:
    """``ReduceProd`` of what is known, such as sizes."""
    found = _over(s, 18)
    value = s.known(0, "a product of elements")
    if found is None:
        return value
    for axis in sorted((a % value.dim() for a in found[0]), reverse=True):
        value = value.prod(axis, keepdim=found[1])
    return value


def _place(function: Any) -> Rule:
    def rule(s: Step) -> Ref:
        s.node.fixed("select_last_index", 0)
        axis = s.axis(s.node.get("axis", 0), len(s.shape()))
        s.frame_axis(axis)
        return s.call(function, s.data(), axis, bool(s.node.get("keepdims", 1)))

    return rule


def _top(s: Step) -> list[Ref]:
    """``TopK`` of one: the largest or the smallest element, and its place."""
    count, axis = s.numbers(1, "the number of elements"), s.axis(s.node.get("axis", -1), len(s.shape()))
    s.node.get("sorted", 1)
    s.frame_axis(axis)
    if count != [1]:
        raise Refused(f"the {count} first elements: hardware finds one", "leave the order to the host")
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
    return _norm(s, tuple(range(2, len(s.shape()))), True)


def _softmax(function: Any) -> Rule:
    def rule(s: Step) -> Ref:
        axis = s.axis(s.node.get("axis", -1), len(s.shape()))
        s.frame_axis(axis)
        return s.call(function, s.data(), axis)

    return rule


def _same(s: Step, x: Ref) -> Ref:
    return x


def _square(s: Step, x: Ref) -> Ref:
    return s.call(torch.mul, x, x)


def _mean(s: Step) -> Ref:
    """``Mean`` of any number of tensors."""
    found = s.data(0)
    for index in range(1, len(s.inputs)):
        found = s.call(torch.add, found, s.data(index))
    return found if len(s.inputs) == 1 else s.call(torch.mul, found, 1 / len(s.inputs))


RULES: dict[str, Rule] = {
    "Softmax": _softmax(F.softmax),
    "LogSoftmax": _softmax(F.log_softmax),
    "ReduceMean": _reduce(torch.mean, 18),
    "ReduceSum": _reduce(torch.sum, 13),
    "ReduceMax": _reduce(torch.amax, 18),
    "ReduceMin": _reduce(torch.amin, 18),
    "ReduceL1": _after(lambda s, x: s.call(torch.abs, x), 18),
    "ReduceL2": _l2,
    "ReduceSumSquare": _after(_square, 18),
    "ReduceLogSum": _after(_same, 18, torch.log),
    "ReduceLogSumExp": _reduce(torch.logsumexp, 18),
    "ReduceProd": _product,
    "ArgMax": _place(torch.argmax),
    "ArgMin": _place(torch.argmin),
    "TopK": _top,
    "CumSum": _running,
    "LpNormalization": _normalised,
    "MeanVarianceNormalization": _standardised,
    "LRN": _local_response,
    "GlobalLpPool": _global_power,
    "Mean": _mean,
}
"""Operation -> what writes it."""
