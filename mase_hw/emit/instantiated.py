"""Modules that the files of an op declare and instantiate, so that a file nobody named is missed before it is built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pyslang import Bag, SourceManager, parsing, syntax

from mase_hw.catalogue import Catalogue, Hardware
from mase_hw.emit.netlist import Netlist
from mase_hw.errors import ConfigError, EmitError
from mase_hw.resources import rtl_root


def check_files(netlist: Netlist, catalogue: Catalogue) -> None:
    """Refuse ops whose files do not make a whole: of a module that is missing, or that is there twice.

    Modules that are made for their constants are not read: the package writes them.

    Args:
        netlist: The design.
        catalogue: Where its ops are.

    Raises:
        ConfigError: If the module of an op, or one that is instantiated in its files, is in none of its files, or if
            two of its files declare the same module.
        EmitError: If a file cannot be read.
    """
    for name in dict.fromkeys(instance.op for instance in netlist.instances):
        op = catalogue.get(name)
        if op is not None and op.hardware is not None:
            _check(name, op.hardware)


def _check(op: str, facets: Hardware) -> None:
    sources = {file: read(_path(facets, file)) for file in facets.files}
    places: dict[str, str] = {}
    for file, (declared, _) in sources.items():
        for module in declared:
            if module in places:
                raise ConfigError(
                    f"two files of an op declare the module {module!r}",
                    node=op,
                    field="dependence_files",
                    got=f"{places[module]} and {file}",
                    expected="a module in one file",
                    remedy="leave one of them out, or rename one of the modules",
                )
            places[module] = file
    if facets.module not in places and facets.generated is None:
        raise _missing(op, facets, facets.module, "the op is this module")
    for file, (_, used) in sources.items():
        for module in sorted(used - places.keys()):
            raise _missing(op, facets, module, f"{file} instantiates it")


def _missing(op: str, facets: Hardware, module: str, why: str) -> ConfigError:
    there = next(_files_with(module, facets.root), None)
    return ConfigError(
        f"no file of an op declares the module {module!r}",
        node=op,
        field="dependence_files",
        got=f"{why}; files: {', '.join(facets.files)}",
        expected="every module that the files instantiate, in one of them",
        remedy=f"add {there!r} to dependence_files"
        if there
        else "write the module, and name its file in dependence_files",
    )


def _files_with(module: str, root: Path | None) -> Iterator[str]:
    """Files that declare a module, as ``dependence_files`` names them: of the user, and of the package."""
    for folder in (root, rtl_root()):
        for path in sorted(folder.rglob("*.sv")) if folder is not None else ():
            if module in read(path)[0]:
                yield str(path.relative_to(folder or path))


def _path(facets: Hardware, file: str) -> Path:
    return facets.external(file) or rtl_root() / file


def read(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The modules that a file declares, and those that it instantiates, as Verilator compiles it.

    Raises:
        EmitError: If it cannot be read.
    """
    try:
        return scanned(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise EmitError("an RTL file cannot be read", node=str(path), got=error.strerror) from error


@lru_cache(maxsize=512)
def scanned(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The same of a text."""
    macros, declared, used = parsing.PreprocessorOptions(), set(), set()
    macros.predefines = ["VERILATOR=1"]

    def visit(node: object) -> None:
        if isinstance(node, syntax.ModuleDeclarationSyntax):
            declared.add(node.header.name.valueText)
        elif isinstance(node, syntax.HierarchyInstantiationSyntax):
            used.add(node.type.valueText)

    syntax.SyntaxTree.fromText(text, SourceManager(), "file", "file", Bag([macros])).root.visit(visit)
    return frozenset(declared), frozenset(used)
