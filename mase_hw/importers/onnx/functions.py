"""Operations of ONNX that work element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.elements import DTYPES
from mase_hw.importers.onnx.step import Step, scalar

Rule = Callable[[Step], Any]


def _plain(function: Any) -> Rule:
    return lambda s: s.call(function, s.data())


def _operands(s: Step) -> tuple[Ref, Ref]:
    a, b = s.data(0), s.data(1)
    dims = max(len(s.shape(0)), len(s.shape(1)))
    if s.writer.is_data(a):
        return a, scalar(b, len(s.shape(0)))
    if s.writer.is_data(b):
        return scalar(a, dims) if s.node.operation in ("Add", "Sub", "Mul", "Div", "Pow") else a, b
    return a, b


def _aligned(s: Step) -> None:
    """Before opset 7, the second operand may say with which axis of the first one it begins."""
    if s.opset < 7:
        s.node.get("broadcast", 0)
        axis, own = s.node.get("axis", None), s.shape(1)
        if axis is not None and own:
            behind = len(s.shape()) - s.axis(axis, len(s.shape())) - len(own)
            s.inputs[1] = s.writer.reshape(s.any(1), (*own, *[1] * behind))


def _raised(s: Step) -> None:
    """Data as many dimensions as a stored operand has."""
    for data, other in ((0, 1), (1, 0)):
        if s.writer.is_data(s.any(data)) and not s.writer.is_data(s.any(other)):
            for _ in range(len(s.shape(other)) - len(s.shape(data))):
                s.inputs[data] = s.call(torch.unsqueeze, s.any(data), 0)


def _binary(function: Any, s: Step) -> Ref:
    _aligned(s)
    _raised(s)
    a, b = _operands(s)
    return s.call(function, a, b)


def _add(s: Step) -> Ref:
    """``Add``; right behind a product with a stored matrix it is the bias of that layer."""
    for data, other in ((0, 1), (1, 0)):
        x, bias = s.data(data), s.data(other)
        layer: Any = s.writer.layer_of(x)
        bare = isinstance(layer, nn.Linear) and getattr(layer, "bias", None) is None
        fits = bare and isinstance(bias, Tensor) and tuple(bias.shape) == (layer.out_features,)
        if fits and s.readers[s.node.inputs[data]] == 1:
            layer.bias = nn.Parameter(bias.float())
            s.writer.weights[f"{x.target}.bias"] = s.writer.noted(bias)
            return x
    return _binary(torch.add, s)


def _divide(s: Step) -> Ref:
    _aligned(s)
    a, b = _operands(s)
    whole = all(not s.writer.like(v).dtype.is_floating_point for v in (s.data(0), s.data(1)))
    if not whole:
        return s.call(torch.div, a, b)
    if isinstance(b, Tensor) and bool((b == 0).any()):
        raise Refused("a division of integers by zero")
    return s.call(torch.div, a, b, rounding_mode="trunc")


def _several(function: Any, s: Step) -> Ref:
    """``Max`` and ``Min`` take any number of tensors."""
    found = s.data(0)
    for index in range(1, len(s.inputs)):
        found = s.call(function, found, s.data(index))
    return found


def _clip(s: Step) -> Ref:
    low, high = (s.maybe_known(i, "a bound") for i in (1, 2))
    ends = [None if v is None else v.item() for v in (low, high)]
    if s.has(0) and ends == [0, 6]:
        return s.call(F.relu6, s.data())
    if ends[0] == 0 and ends[1] is None:
        return s.call(F.relu, s.data())
    return s.data() if ends == [None, None] else s.call(torch.clamp, s.data(), *ends)


def _hard_sigmoid(s: Step) -> Ref:
    alpha, beta = s.node.get("alpha", 0.2), s.node.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return s.call(F.hardsigmoid, s.data())
    return s.call(torch.clamp, s.call(torch.add, s.call(torch.mul, s.data(), alpha), beta), 0.0, 1.0)


def _selu(s: Step) -> Ref:
    alpha, gamma = s.node.get("alpha", 1.67326319217681884765625), s.node.get("gamma", 1.05070102214813232421875)
    if math.isclose(alpha, 1.6732632, rel_tol=1e-6) and math.isclose(gamma, 1.0507010, rel_tol=1e-6):
        return s.call(F.selu, s.data())
    return s.call(torch.mul, s.call(F.elu, s.data(), alpha), gamma)


def _gelu(s: Step) -> Ref:
    kind = s.node.get("approximate", "none")
    if kind not in ("none", "tanh"):
        raise Refused(f"the approximation {kind!r:.60}")
    return s.call(F.gelu, s.data(), approximate=kind)


def _shrink(s: Step) -> Ref:
    """``Shrink`` to what PyTorch calls soft or hard."""
    end, bias = s.node.get("lambd", 0.5), s.node.get("bias", 0.0)
    if end < 0 or bias not in (0.0, end):
        raise Refused(f"lambd {end:g} with a bias of {bias:g}", "use a bias of 0, or of lambd")
    return s.call(F.softshrink if bias else F.hardshrink, s.data(), end)


def _where(s: Step) -> Ref:
    chosen = s.any(0)
    if isinstance(chosen, Tensor) and (bool(chosen.all()) or not bool(chosen.any())):
        taken = 1 if bool(chosen.all()) else 2
        if len(s.shape(taken)) == max(len(s.shape(i)) for i in range(3)) and all(
            n in (1, own) for i in range(3) for n, own in zip(s.shape(i)[::-1], s.shape(taken)[::-1], strict=False)
        ):
            return s.any(taken)
    return s.call(torch.where, chosen, *(scalar(s.data(i), 0) for i in (1, 2)))


def _cast(s: Step) -> Ref:
    s.node.get("saturate", 1)
    dtype = DTYPES.get(s.node.get("to"))
    if dtype is None:
        raise Refused(f"a cast to the element type {s.node.get('to')!r:.60}")
    x = s.any(0)
    have = s.writer.like(x).dtype
    return x if dtype == have else s.writer.method("to", x, dtype)


def _dropout(s: Step) -> Ref:
    s.node.get("seed", 0)
    if s.opset < 7 and not s.node.get("is_test", 0):
        raise Refused("a dropout in training is random", "export the model in evaluation mode")
    if s.has(2) and bool(s.known(2, "the training mode").any()):
        raise Refused("a dropout in training is random", "export the model in evaluation mode")
    return s.data()


RULES: dict[str, Rule] = {
    **{name: _plain(getattr(torch, name.lower())) for name in (
        "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Abs", "Sign", "Floor", "Ceil", "Round", "Sin",
        "Cos", "Tan", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh",
    )},
    "Relu": _plain(F.relu),
    "Softplus": _plain(F.softplus),
    "Softsign": _plain(F.softsign),
    "HardSwish": _plain(F.hardswish),
    "Mish": _plain(F.mish),
    "Neg": lambda s: s.call(torch.neg, s.data()),
    "Not": _plain(torch.logical_not),
    "Identity": lambda s: s.any(0),
    "LeakyRelu": lambda s: s.call(F.leaky_relu, s.data(), s.node.get("alpha", 0.01)),
    "Elu": lambda s: s.call(F.elu, s.data(), s.node.get("alpha", 1.0)),
    "Celu": lambda s: s.call(F.celu, s.data(), s.node.get("alpha", 1.0)),
    "Selu": _selu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "ThresholdedRelu": lambda s: s.call(F.threshold, s.data(), s.node.get("alpha", 1.0), 0.0),
    "Shrink": _shrink,
    "Clip": _clip,
    "Dropout": _dropout,
    "Cast": _cast,
    "Add": _add,
    "Sub": functools.partial(_binary, torch.sub),
    "Mul": functools.partial(_binary, torch.mul),
    "Div": _divide,
    "Pow": functools.partial(_binary, torch.pow),
    "Equal": functools.partial(_binary, torch.eq),
    "Less": functools.partial(_binary, torch.lt),
    "LessOrEqual": functools.partial(_binary, torch.le),
    "Greater": functools.partial(_binary, torch.gt),
    "GreaterOrEqual": functools.partial(_binary, torch.ge),
    "And": functools.partial(_binary, torch.logical_and),
    "Or": functools.partial(_binary, torch.logical_or),
    "Xor": functools.partial(_binary, torch.logical_xor),
    "Max": functools.partial(_several, torch.maximum),
    "Min": functools.partial(_several, torch.minimum),
    "Sum": functools.partial(_several, torch.add),
    "Where": _where,
}  # fmt: skip
"""Operation -> what writes it."""
