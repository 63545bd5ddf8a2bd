"""What a model has at a path: modules, which are asked for tens of thousands of times in a compilation, and tensors."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn


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
