"""The catalogue: how ops are found, by torch target and by name.

Nothing else names ops: torch target -> op, op -> RTL module, parameters, golden and latency are all read from here.
What an op consists of is in :mod:`mase_hw.opdef`, whose names are names of this module as well.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from mase_hw.errors import CatalogueError
from mase_hw.hardware.params import Params, verilog_params
from mase_hw.nn import MODULES
from mase_hw.opdef import (
    EXTERNAL,
    LAYOUTS,
    MASE_TYPES,
    Arithmetic,
    Case,
    Cycles,
    Golden,
    Hardware,
    Latency,
    Memory,
    OpDef,
    Request,
)
from mase_hw.ops._elementwise import ElementwiseParams

__all__ = [
    "EXTERNAL",
    "LAYOUTS",
    "MASE_TYPES",
    "Arithmetic",
    "Case",
    "Catalogue",
    "Cycles",
    "ElementwiseParams",
    "Golden",
    "Hardware",
    "Latency",
    "Memory",
    "OpDef",
    "Params",
    "Request",
    "default_catalogue",
    "verilog_params",
]


class Catalogue:
    """An immutable set of ops, searched by torch target.

    Args:
        ops: The op definitions.
        modules: Module classes that stand for any op (quantised ones) and write and rebuild themselves
            (:class:`mase_hw.ir.checkpoint.modules.Rebuildable`).

    Raises:
        CatalogueError: If two ops share a name or claim the same torch target.
    """

    def __init__(self, ops: Iterable[OpDef], modules: Iterable[type[nn.Module]] = ()) -> None:
        self.modules = tuple(modules)
        self._by_name: dict[str, OpDef] = {}
        self._targets: dict[Any, OpDef] = {}
        for op in ops:
            if op.name in self._by_name:
                raise CatalogueError(f"two ops are called {op.name!r}", node=op.name)
            self._by_name[op.name] = op
            for target in (*op.modules, *op.functions, *op.methods):
                if target in self._targets:
                    other = self._targets[target].name
                    raise CatalogueError(f"ops {other!r} and {op.name!r} both claim {target!r}", node=op.name)
                self._targets[target] = op

    def __iter__(self) -> Any:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> OpDef:
        return self._by_name[name]

    def names(self) -> list[str]:
        """Names of all ops, in order of definition."""
        return list(self._by_name)

    def get(self, name: str) -> OpDef | None:
        """The op of that name, or None."""
        return self._by_name.get(name)

    def of_module(self, module: nn.Module) -> OpDef | None:
        """The op of a module: what it declares as ``mase_op``, else its class, else its nearest listed base."""
        declared = getattr(module, "mase_op", None)
        if isinstance(declared, str):
            return self._by_name.get(declared)
        for cls in type(module).__mro__:
            if cls in self._targets:
                return self._targets[cls]
        return None

    def of_target(self, target: Any) -> OpDef | None:
        """The op that a module class, a function or the name of a method stands for; bases of a class do not count."""
        return self._targets.get(target)

    def extended(self, ops: Iterable[OpDef]) -> Catalogue:
        """A new catalogue with more ops."""
        return Catalogue([*self, *ops], self.modules)


@functools.cache
def default_catalogue() -> Catalogue:
    """The ops of ``mase_hw.ops``: every file's ``OPS``, in order of path; the quantised modules of ``mase_hw.nn``.

    Families of ops have a folder of their own in it. Files and folders whose name starts with an underscore hold what
    ops share.

    An op that is known by its name alone, without arithmetic, gives way to one of that name in a file of its own.

    Raises:
        CatalogueError: If a file has no ``OPS`` or an op is incomplete.
    """
    ops: list[OpDef] = []
    for path in _op_files("mase_hw.ops"):
        found = getattr(importlib.import_module(path), "OPS", None)
        if not isinstance(found, tuple) or not all(isinstance(op, OpDef) for op in found):
            file = f"{path.replace('.', '/')}.py"
            raise CatalogueError(f"{file} has no OPS, a tuple of OpDef", node=path.rpartition(".")[2])
        ops.extend(found)
    known = {op.name for op in ops if _computes(op)}
    return Catalogue([op for op in ops if _computes(op) or op.name not in known], MODULES)


def _op_files(package: str) -> Iterator[str]:
    """Modules below a package that expose ops."""
    folders = importlib.import_module(package).__path__
    for info in sorted(pkgutil.iter_modules(folders), key=lambda m: m.name):
        if info.name.startswith("_"):
            continue
        if info.ispkg:
            yield from _op_files(f"{package}.{info.name}")
        else:
            yield f"{package}.{info.name}"


def _computes(op: OpDef) -> bool:
    """Whether an op is more than a name: it has an arithmetic, or needs none."""
    return op.golden is not None or op.implicit
