"""Weights that a layer computes from others (``torch.nn.utils.parametrize``), put in their place once and for all."""

from __future__ import annotations

import torch
from torch import fx, nn
from torch.nn.utils import parametrize

from mase_hw.ir.faithful.same_function import in_evaluation
from mase_hw.user_code import user_code


def settle_weights(model: fx.GraphModule) -> None:
    """Replace every parametrized tensor of a layer by its value in evaluation, and the layer by a plain one.

    Not with ``remove_parametrizations``: that changes the class, which copies share with the model they were made of.

    Args:
        model: A traced model; its layers are changed.

    Raises:
        GraphError: If a weight cannot be computed; names the layer, and the user's line.
    """
    for path in dict.fromkeys(str(node.target) for node in model.graph.nodes if node.op == "call_module"):
        module = model.get_submodule(path)
        if parametrize.is_parametrized(module) and type(module).__name__.startswith("Parametrized"):
            _settle(module, path)


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
