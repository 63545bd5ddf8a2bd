"""Formulas with a name of their own, which a pass writes out: they have no hardware of their own, and need none."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
from torch import Tensor

from mase_hw.opdef import OpDef


def _op(name: str, lowered: str, *more: Any, refused: str = "") -> OpDef:
    """A formula that is a function of torch, and a method where tensors have it."""
    functions = [f for place in (torch, torch.special) if callable(f := getattr(place, name, None))]
    methods = [m for m in (name, f"{name}_") if callable(getattr(Tensor, m, None))]
    made = OpDef(
        name=name,
        mase_type="builtin_func",
        functions=tuple(dict.fromkeys([*functions, *more])),
        methods=tuple(methods),
        lowered=tuple(lowered.split()),
    )
    return dataclasses.replace(made, refused=refused) if refused else made


_WHOLE = (
    "only a remainder of a division by a power of two is exact in hardware; scale the input, so that the divisor is "
    "one, or write x - y * torch.floor(x / y), each part of which has a format"
)
OPS = (
    _op("addcmul", "mul add"),
    _op("addcdiv", "div mul add"),
    _op("rsub", "mul sub"),
    _op("lerp", "sub mul add"),
    _op("frac", "trunc sub"),
    _op("logaddexp", "maximum sub abs softplus add"),
    _op("hypot", "mul add sqrt"),
    _op("rad2deg", "mul"),
    _op("deg2rad", "mul"),
    _op("count_nonzero", "ne_number sum"),
    _op("inner", "linear"),
    _op("nan_to_num", "contiguous"),
    _op("any", "amax"),
    _op("all", "amin"),
    _op("floor_divide", "floor_quotient", operator.floordiv),
    _op("remainder", "mul floor sub", operator.mod, refused=_WHOLE),
    _op("fmod", "mul trunc sub", refused=_WHOLE),
    _op("var_mean", "var mean"),
    _op("std_mean", "std mean"),
    _op("aminmax", "amin amax"),
)
