"""Former names: they keep working, and say what to use instead.

Whatever is public (``docs/api.md`` says what is) keeps its former name for at least two minor versions. Every former
name goes through :func:`deprecated`, so that all of them warn in the same words and can be found and tested together.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
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


def former_modules(package: str, moved: Mapping[str, str]) -> None:
    """Answer imports of a package's former modules with the present ones, and a :class:`DeprecationWarning`.

    Args:
        package: ``__name__`` of the package.
        moved: Former name in the package -> present name in ``mase_hw``.
    """
    if not any(isinstance(finder, _FormerModules) and finder.package == package for finder in sys.meta_path):
        sys.meta_path.append(_FormerModules(package, moved))


class _FormerModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, package: str, moved: Mapping[str, str]) -> None:
        self.package = package
        self.moved = moved

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A specification for the former names only."""
        package, _, name = fullname.rpartition(".")
        if package != self.package or name not in self.moved:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An alias: the names of the present module."""
        new = f"mase_hw.{self.moved[spec.name.rpartition('.')[2]]}"
        deprecated(spec.name, new, stacklevel=2)
        found = importlib.import_module(new)
        alias = ModuleType(spec.name)
        alias.__dict__.update({k: v for k, v in vars(found).items() if not k.startswith("__")})
        # Names that changed after the move have their own way of being asked for.
        alias.__dict__["__getattr__"] = lambda name: getattr(found, name)
        return alias

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run."""
