"""Weights that a layer computes from others (``torch.nn.utils.parametrize``), put in their place once and for all."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from mase_hw.host.user_code import user_code
from mase_hw.ir.faithful.same_function import in_evaluation
from mase_hw.ir.trace.tracer import private_copy

_MAKING_WEIGHTS = (WeightNorm, SpectralNorm, BasePruningMethod)
"""Hooks of ``torch.nn.utils`` that compute a weight before every call."""
_PARTS = ("g", "v", "orig", "u", "mask")
"""What the parts of such a weight are called, behind its name."""


def settled(model: nn.Module) -> nn.Module:
    """A model with the value in evaluation of every weight that is parametrized, or made by a hook of torch.

    Not with ``remove_parametrizations``: that changes the class, which copies share with the model they were made of.

    Args:
        model: Any model; it is not changed.

    Returns:
        A copy, of plain layers; the model itself if nothing is to be computed.

    Raises:
        GraphError: If a weight cannot be computed; names the layer, and the user's line.
    """
    if not any(_is_parametrized(m) or _hooks(m) for m in model.modules()):
        return model
    made: nn.Module = private_copy(model)
    for path, module in list(made.named_modules()):
        if _is_parametrized(module):
            _settle(module, path)
        for key, hook in _hooks(module).items():
            _run_once(module, key, hook, path)
    return made


def _is_parametrized(module: nn.Module) -> bool:
    return parametrize.is_parametrized(module) and type(module).__name__.startswith("Parametrized")


def _hooks(module: nn.Module) -> dict[int, Any]:
    return {key: hook for key, hook in module._forward_pre_hooks.items() if isinstance(hook, _MAKING_WEIGHTS)}


def _run_once(module: nn.Module, key: int, hook: Any, path: str) -> None:
    """What a hook makes of the parts of a weight becomes that weight."""
    name = str(getattr(hook, "_tensor_name", None) or hook.name)
    with in_evaluation(module), torch.no_grad(), user_code("a weight that a hook makes cannot be computed", node=path):
        hook(module, ())
        value = getattr(module, name).detach().clone()
    del module._forward_pre_hooks[key]
    module.__dict__.pop(name, None)
    for table in (module._parameters, module._buffers):
        for part in [n for n in table if n.startswith(f"{name}_") and n.removeprefix(f"{name}_") in _PARTS]:
            del table[part]
    module.register_parameter(name, nn.Parameter(value))


def _settle(module: nn.Module, path: str) -> None:
    parts = module._modules["parametrizations"]
    assert parts is not None  # it is parametrized
    with in_evaluation(module), torch.no_grad(), user_code("a parametrized weight cannot be computed", node=path):
        values = {name: getattr(module, name).detach().clone() for name in parts._modules}
    trained = {
        name for name, part in parts._modules.items() if part is not None and any(True for _ in part.parameters())
    }
    del module._modules["parametrizations"]
    module.__class__ = type(module).__bases__[0]
    for name, value in values.items():
        if name in trained:
            module.register_parameter(name, nn.Parameter(value))
        else:
            module.register_buffer(name, value)
