"""The functions of one value that hardware computes from memory: one line each.

A function is any differentiable torch function, evaluated in float64 on the CPU when a table is made, and in the
gradient of the quantised module. What is not defined for negative values (``positive``) gets 0 in their place, so
``log`` and ``rsqrt`` saturate and ``sqrt`` gives 0 there; an infinite value saturates like any other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RELATED, BUILTIN = "module_related_func", "builtin_func"


@dataclass(frozen=True)
class Function:
    """A function of one value.

    Args:
        name: ``mase_op``.
        f: The function on floats; takes the attributes as keyword arguments.
        targets: Module classes, functions and names of methods that are this function.
        attributes: Names of what ``f`` takes beside the value; those missing in a call have torch's default.
        positive: Negative values count as 0.
        kind: ``mase_type``.
    """

    name: str
    f: Callable[..., Tensor]
    targets: tuple[Any, ...]
    attributes: tuple[str, ...] = ()
    positive: bool = False
    kind: str = RELATED

    def given(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Those attributes of a node that the function takes."""
        return {name: attributes[name] for name in self.attributes if name in attributes}

    def __call__(self, x: Tensor, attributes: Mapping[str, Any]) -> Tensor:
        """Values of the function, same shape and dtype; infinite where it has a pole."""
        return self.f(x.clamp(min=0) if self.positive else x, **self.given(attributes))


def _of(name: str, f: Callable[..., Tensor], *targets: Any, attributes: str = "") -> Function:
    """A function that has a module: what it is computed with, and all that it is called in a model."""
    return Function(name, f, tuple(dict.fromkeys(targets)), tuple(attributes.split()))


def _plain(name: str, f: Callable[..., Tensor], positive: bool = False) -> Function:
    """A function that has one name everywhere: function of torch and math, method, and those that write in place."""
    places = (torch, torch.special, math)
    functions = [getattr(place, n) for place in places for n in (name, f"{name}_") if hasattr(place, n)]
    methods = [n for n in (name, f"{name}_") if hasattr(Tensor, n)]
    return Function(name, f, tuple(dict.fromkeys([*functions, *methods])), (), positive, BUILTIN)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Both forms without the cancellation of ``1 + erf`` and ``1 + tanh`` far below zero."""
    if approximate == "tanh":
        return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
    if approximate == "none":
        return x * torch.erfc(-x * math.sqrt(0.5)) / 2
    return F.gelu(x, approximate=approximate)  # which says what is wrong with it


def inverse_power(input: Tensor, scale: float = 1.0, offset: float = 1.0, exponent: float = 0.75) -> Tensor:
    """``(offset + scale * x) ** -exponent``, the factor of local response normalisation; for ``x`` of 0 and more.

    Args:
        input: Any shape.
        scale: Factor of the value.
        offset: What is added.
        exponent: Of the reciprocal.
    """
    return (offset + scale * input) ** -exponent


FUNCTIONS = (
    _of("sigmoid", torch.sigmoid, nn.Sigmoid, F.sigmoid, torch.sigmoid, torch.sigmoid_, torch.special.expit,
        "sigmoid", "sigmoid_"),
    _of("tanh", torch.tanh, nn.Tanh, F.tanh, torch.tanh, torch.tanh_, math.tanh, "tanh", "tanh_"),
    _of("elu", F.elu, nn.ELU, F.elu, F.elu_, attributes="alpha"),
    _of("selu", F.selu, nn.SELU, F.selu, F.selu_, torch.selu, torch.selu_),
    _of("celu", F.celu, nn.CELU, F.celu, F.celu_, torch.celu, torch.celu_, attributes="alpha"),
    _of("gelu", _gelu, nn.GELU, F.gelu, attributes="approximate"),
    _of("silu", F.silu, nn.SiLU, F.silu),
    _of("mish", F.mish, nn.Mish, F.mish),
    _of("hardswish", F.hardswish, nn.Hardswish, F.hardswish),
    _of("softplus", F.softplus, nn.Softplus, F.softplus, attributes="beta threshold"),
    _of("softsign", F.softsign, nn.Softsign, F.softsign),
    _of("logsigmoid", F.logsigmoid, nn.LogSigmoid, F.logsigmoid),
    Function("inverse_power", inverse_power, (inverse_power,), ("scale", "offset", "exponent"), positive=True),
    _of("tanhshrink", F.tanhshrink, nn.Tanhshrink, F.tanhshrink),
    _plain("exp", torch.exp),
    _plain("reciprocal", torch.reciprocal),
    _plain("sqrt", torch.sqrt, positive=True),
    _plain("rsqrt", torch.rsqrt, positive=True),
    _plain("log", torch.log, positive=True),
    _plain("erf", torch.erf),
    _plain("sin", torch.sin),
    _plain("cos", torch.cos),
    _plain("exp2", torch.exp2),
    _plain("log2", torch.log2, positive=True),
    Function("pow", torch.pow, (torch.pow, math.pow, operator.pow, torch.float_power, "pow", "pow_", "float_power"),
        ("exponent",), kind=BUILTIN),
)  # fmt: skip
"""Adding a function is one line here."""

TABLE = Function("table", torch.clone, (), kind=BUILTIN)
"""No function of a model: what a table of codes says, which a source or a pass gives."""

BY_NAME = {function.name: function for function in (*FUNCTIONS, TABLE)}
