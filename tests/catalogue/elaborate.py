"""Modules elaborated in this process by slang: which generate blocks a set of parameters reaches, what it refuses.

Verilator stops at the first error, slang goes on, so a guard is seen even where something else is wrong as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyslang import Bag, SourceManager, ast, parsing, syntax

Place = tuple[str, int]
"""The absolute path of a file, and the offset in it (in bytes) at which something begins."""


@dataclass(frozen=True)
class Elaborated:
    """What an elaboration showed.

    Args:
        reached: Where the modules and generate blocks begin that are part of the hierarchy; empty if not asked for.
        fatal: Where a ``$fatal`` stopped it, and its message.
        errors: Everything else that is an error.
    """

    reached: frozenset[Place]
    fatal: Mapping[Place, str]
    errors: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether there is a design."""
        return not self.fatal and not self.errors


def elaborate(
    files: Sequence[Path | tuple[str, str]], top: str, parameters: Mapping[str, int | str], *, reached: bool = True
) -> Elaborated:
    """Elaborate a module, as for synthesis.

    Args:
        files: Paths, or names and texts.
        top: The module.
        parameters: Values of its parameters; the others keep their defaults.
        reached: Whether to look for what is part of the hierarchy, which takes as long as the rest.
    """
    options, preprocessor = ast.CompilationOptions(), parsing.PreprocessorOptions()
    options.topModules = {top}
    options.paramOverrides = [f"{name}={_literal(value)}" for name, value in parameters.items()]
    preprocessor.predefines = ["SYNTHESIS=1"]
    bag, sources = Bag([options, preprocessor]), SourceManager()
    compilation = ast.Compilation(bag)
    for file in files:
        if isinstance(file, tuple):
            tree = syntax.SyntaxTree.fromText(file[1], sources, file[0], file[0], bag)
        else:
            tree = syntax.SyntaxTree.fromFile(str(file), sources, bag)
        compilation.addSyntaxTree(tree)

    @functools.cache
    def absolute(name: str) -> str:
        # Below the current folder the names of files are relative.
        return str(Path(name).resolve())

    def place_of(location: object) -> Place:
        return absolute(sources.getFileName(location)), location.offset  # type: ignore[attr-defined]

    fatal: dict[Place, str] = {}
    errors: list[str] = []
    for found in compilation.getAllDiagnostics():
        if not found.isError():
            continue
        place = place_of(found.location)
        if "FatalTask" in str(found.code):
            fatal[place] = str(found.args[0]).removeprefix(": ")
        else:
            errors.append(f"{place[0]}:{sources.getLineNumber(found.location)}: {found.code} {list(found.args)}")
    begins: set[Place] = set()

    def visit(symbol: object) -> None:
        node = None
        if isinstance(symbol, ast.InstanceSymbol):
            node = symbol.definition.syntax
        elif isinstance(symbol, ast.GenerateBlockSymbol) and not symbol.isUninstantiated:
            node = symbol.syntax
        if node is not None:
            begins.add(place_of(node.sourceRange.start))

    if reached:
        compilation.getRoot().visit(visit)
    return Elaborated(frozenset(begins), fatal, tuple(errors))


def _literal(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
