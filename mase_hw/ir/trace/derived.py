"""Classes derived from layers: whether they compute what the layer does, or something of their own."""

from __future__ import annotations

import types

from torch import nn


def computes_as(kind: type[nn.Module], base: type[nn.Module]) -> bool:
    """Whether a class computes what one of its bases does.

    It has the forward of the base, and overrides no method that this calls (``_conv_forward``), unless it only checks
    its input.

    Args:
        kind: A class of modules.
        base: Any class of modules; what is not derived from it does not compute as it.
    """
    if kind is base:
        return True
    if not issubclass(kind, base) or kind.forward is not base.forward:
        return False
    return all(getattr(kind, name) is getattr(base, name) for name in _called(base))


def _called(base: type[nn.Module]) -> set[str]:
    """Methods of a class that its forward calls, and those that these call."""
    found: set[str] = set()
    waiting = ["forward"]
    while waiting:
        function = getattr(base, waiting.pop(), None)
        for name in function.__code__.co_names if isinstance(function, types.FunctionType) else ():
            own = any(name in vars(cls) for cls in base.__mro__ if cls is not nn.Module and issubclass(cls, nn.Module))
            if own and name not in found and not name.lstrip("_").startswith("check"):
                found.add(name)
                waiting.append(name)
    return found
