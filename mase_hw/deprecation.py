"""Former names: they keep working, and say what to use instead.

Whatever is public (``docs/api.md`` says what is) keeps its former name for at least two minor versions. Every former
name goes through :func:`deprecated`, so that all of them warn in the same words and can be found and tested together.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def deprecated(old: str, new: str, *, stacklevel: int = 2, shown: bool = False) -> None:
    """Warn that a name is a former one.

    Args:
        old: The former name, as the caller wrote it.
        new: What to use instead.
        stacklevel: Frames between this call and the code of the user, counted as :func:`warnings.warn` counts.
        shown: Whether the name was typed by a user of a program, who is to see the warning: a :class:`FutureWarning`,
            where a :class:`DeprecationWarning` is hidden unless a developer asks for it.
    """
    category = FutureWarning if shown else DeprecationWarning
    warnings.warn(f"{old} is deprecated, use {new}", category, stacklevel=stacklevel + 1)


def former_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` that answers its former names.

    Args:
        module: ``__name__`` of the module.
        names: Former name -> present name, dotted from ``mase_hw`` on.

    Returns:
        A function that returns the present object with a :class:`DeprecationWarning`, and raises
        :class:`AttributeError` for every other name.
    """

    def answer(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, attribute = names[name].rpartition(".")
        deprecated(f"{module}.{name}", names[name], stacklevel=2)
        return getattr(importlib.import_module(home), attribute)

    return answer
