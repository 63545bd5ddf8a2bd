"""The module at a path, which is asked for tens of thousands of times in a compilation."""

from __future__ import annotations

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
