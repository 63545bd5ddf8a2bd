"""What is no model that can be traced, though PyTorch calls it a module: wrapped, scripted, or without values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mase_hw.errors import GraphError

_WRAPPERS: tuple[tuple[str, str, str], ...] = (
    ("OptimizedModule", "was compiled with torch.compile", "_orig_mod"),
    ("DataParallel", "is wrapped for several devices", "module"),
    ("DistributedDataParallel", "is wrapped for several devices", "module"),
)
"""Class, what it means, and the attribute with the model inside."""


def check_model(model: Any) -> None:
    """Refuse what is no module, or none whose Python code is there to be traced.

    Raises:
        GraphError: Says what it is and how to get at the model.
    """
    if not isinstance(model, nn.Module):
        raise GraphError(
            "the model is not a module",
            got=model.__name__ if isinstance(model, type) else type(model).__name__,
            expected="torch.nn.Module, torch.fx.GraphModule, or torch.fx.Graph with its module as root",
            remedy="pass an instance of the model, not its class" if isinstance(model, type) else None,
        )
    name = type(model).__name__
    for wrapper, meaning, attribute in _WRAPPERS:
        if name == wrapper and isinstance(getattr(model, attribute, None), nn.Module):
            raise GraphError(
                f"the model {meaning}", node=name, expected="the model itself", remedy=f"pass model.{attribute}"
            )
    if isinstance(model, torch.jit.ScriptModule):
        raise GraphError(
            "the model is TorchScript, which has no Python code to trace",
            node=name,
            expected="the module that it was made of",
            remedy="pass that, before torch.jit.script or torch.jit.trace",
        )
    if type(model).forward is nn.Module.forward and "forward" not in vars(model):
        raise GraphError(
            "the model cannot be traced: it has no forward",
            node=name,
            expected="a module that computes something",
            remedy="a list of modules in their order is nn.Sequential",
        )
    for path, value in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(value):
            raise GraphError(
                "the model has tensors without a shape",
                node=path,
                got=type(value).__name__,
                remedy="run it once on an example, which gives its lazy layers their shapes",
            )


def check_tensors(model: nn.Module) -> None:
    """Refuse a model without values, or of tensors that compute in a way of their own.

    Raises:
        GraphError: Names the first such tensor.
    """
    for path, value in [*model.named_parameters(), *model.named_buffers()]:
        if value.is_meta:
            raise GraphError(
                "the model has tensors without values (on the meta device)",
                node=path,
                expected="weights on a device that computes",
                remedy="load the weights first",
            )
        refuse_own_arithmetic(value, path)


def refuse_own_arithmetic(value: torch.Tensor, where: str) -> None:
    """Refuse a tensor whose class says what operations on it give.

    Raises:
        GraphError: Names it and its class.
    """
    kind = type(value)
    plain = kind.__torch_function__ in (torch._C._disabled_torch_function_impl, torch.Tensor.__torch_function__)
    if plain and kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return
    raise GraphError(
        "a tensor decides itself what operations on it give",
        node=where,
        got=f"{kind.__module__}.{kind.__qualname__}, with __torch_function__ or __torch_dispatch__",
        expected="torch.Tensor or torch.nn.Parameter",
        remedy="give an ordinary tensor of its values",
    )
