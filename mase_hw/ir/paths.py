"""What a model has at a path, asked for tens of thousands of times in a compilation, and what its calls give."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import fx, nn


def module_at(model: nn.Module, path: str) -> nn.Module:
    """As ``model.get_submodule(path)``, which asks every module on the way twice for an attribute.

    Raises:
        AttributeError: If there is no such module.
    """
    found = model
    for name in path.split("."):
        inner = found._modules.get(name)
        if inner is None:  # an attribute of another kind, or an error
            return model.get_submodule(path)
        found = inner
    return found


def attribute_at(model: nn.Module, path: str) -> Any:
    """The attribute of a model at a path, or of the module that has it.

    Raises:
        AttributeError: If there is none.
    """
    found: Any = model
    return functools.reduce(getattr, path.split("."), found)


def called(model: nn.Module, node: fx.Node, known: Callable[[fx.Node], Any]) -> Any:
    """What a node gives that calls a function, a method or a module.

    Args:
        model: The traced model.
        node: Of it.
        known: The value of every node that it reads.
    """
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), known)
    if node.op == "call_module":
        return module_at(model, str(node.target))(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    assert callable(node.target)  # a function
    return node.target(*args, **kwargs)
