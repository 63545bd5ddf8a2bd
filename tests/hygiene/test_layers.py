"""Imports only go downward, so that every layer can be understood and tested without those above it.

Between layers by a list, inside them by the absence of circles: no two modules, and no two folders side by side, need
each other. An import counts wherever it stands, in a function or for the type checker as well.
"""

import ast
import functools
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from scripts.architecture import statements

PACKAGE = "mase_hw"

# Lowest first. "__init__" is the public interface in mase_hw/__init__.py.
LAYERS = (
    "_version",
    "errors",
    "plugins",
    "options",
    "host",
    "formats",
    "numerics",
    "layouts",
    "streams",
    "steps",
    "beat_times",
    "hardware",
    "cost",
    "opdef",
    "nn",
    "ops",
    "catalogue",
    "ir",
    "passes",
    "emit",
    "fit",
    "vectors",
    "simulate",
    "report",
    "design",
    "compiler",
    "importers",
    "model_spec",
    "training",
    "regress",
    "synth",
    "system",
    "preflight",
    "search",
    "partition",
    "devices",
    "compat",
    "testing",
    "__init__",
    "cli",
    "flow",
    "__main__",
)


FULL = 24
"""Modules in a room, beyond which it is a list and is divided; the ops are one idea, a file each."""


def layer_of(dotted: str) -> str:
    """The layer a module name inside the package belongs to."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@functools.cache
def imported(source: str, module: str, is_package: bool, submodules: frozenset[str]) -> list[tuple[int, str]]:
    """Every module of the package that a source imports, anywhere in it: (line, dotted name)."""
    found: list[tuple[int, str]] = []
    tree = ast.parse(source)
    for node in ast.walk(tree) if "import_module" in source else statements(tree.body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                parents = parents[: len(parents) - node.level + is_package]
                base = ".".join([*parents, base]).rstrip(".")
            # `from mase_hw import errors` imports a module, `from mase_hw import compile` a name of __init__.
            children = [f"{base}.{alias.name}" for alias in node.names]
            names = [child if child in submodules else base for child in children]
        elif isinstance(node, ast.Call) and is_import(node.func):
            names = called(node.args[0], tree, submodules)
        else:
            continue
        found += ((node.lineno, name) for name in names if name.split(".")[0] == PACKAGE)
    return found


def is_import(function: ast.expr) -> bool:
    """Whether it is ``importlib.import_module``; most calls are told by their last word, which costs nothing."""
    return getattr(function, "attr", "") == "import_module" and ast.unparse(function) == "importlib.import_module"


def called(name: ast.expr, tree: ast.Module, submodules: frozenset[str]) -> list[str]:
    """What ``importlib.import_module`` may import: a name, whatever begins like an f-string, or what a table names."""
    if isinstance(name, ast.Constant):
        return [str(name.value)]
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        names = [module for module in submodules if module.startswith(str(name.values[0].value))]
        return [module for module in names if not module.endswith(".__main__")]  # run, not imported
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return sorted(texts & submodules)


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package by dotted name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def violations(source: str, module: str, is_package: bool, submodules: frozenset[str]) -> list[str]:
    """What a module imports from above its own layer."""
    height = LAYERS.index(layer_of(module))
    return [
        f"line {line}: {module} imports {name}"
        for line, name in imported(source, module, is_package, submodules)
        if LAYERS.index(layer_of(name)) > height
    ]


def test_every_module_belongs_to_a_layer(root: Path) -> None:
    strays = {layer_of(name) for name in modules(root)} - set(LAYERS)
    assert not strays, f"not in LAYERS: {sorted(strays)}"


def crowded(root: Path) -> dict[str, int]:
    """Folders of the package with too many modules."""
    folders = {path.parent for path in (root / PACKAGE).rglob("*.py")}
    counts = {f.relative_to(root).as_posix(): len([*f.glob("*.py")]) for f in folders}
    return {name: n for name, n in sorted(counts.items()) if n > (FULL if name != f"{PACKAGE}/ops" else 2 * FULL)}


def test_no_room_is_a_list(root: Path, tmp_path: Path) -> None:
    assert not crowded(root)
    (tmp_path / PACKAGE / "ir").mkdir(parents=True)
    for i in range(FULL + 1):
        (tmp_path / PACKAGE / "ir" / f"m{i}.py").touch()
    assert crowded(tmp_path) == {f"{PACKAGE}/ir": FULL + 1}


def test_imports_go_downward(root: Path) -> None:
    known = modules(root)
    found = []
    for name, path in known.items():
        found += violations(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", frozenset(known))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import mase_hw.simulate.toolchain",
        "from mase_hw.simulate import toolchain",
        "from mase_hw import simulate",
        "from mase_hw import compile",
        "import mase_hw",
        "from ..simulate import toolchain",
        "def late():\n    from mase_hw.cli import main",
        "import importlib\nimportlib.import_module('mase_hw.simulate')",
        "import importlib\nimportlib.import_module(f'mase_hw.simulate.{name}')",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert violations(
        source, "mase_hw.ops.linear", False, frozenset({"mase_hw.simulate", "mase_hw.simulate.toolchain"})
    )


@pytest.mark.parametrize(
    "source", ["from mase_hw import errors", "from . import relu", "from ..formats import FixedFormat"]
)
def test_a_downward_import_is_fine(source: str) -> None:
    known = frozenset({"mase_hw.errors", "mase_hw.ops.relu", "mase_hw.formats"})
    assert not violations(source, "mase_hw.ops.linear", False, known)


def dependences(known: Mapping[str, Path]) -> dict[str, set[str]]:
    """What every module imports, anywhere in it, for the type checker only or within a function as well."""
    found = {}
    for name, path in known.items():
        source = path.read_text(encoding="utf-8")
        found[name] = {n for _, n in imported(source, name, path.name == "__init__.py", frozenset(known))} & set(known)
    return found


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle of a graph, its first node again at the end; empty if there is none."""
    try:
        TopologicalSorter({node: {n for n in after if n != node} for node, after in graph.items()}).prepare()
    except CycleError as error:
        return [str(name) for name in reversed(error.args[1])]
    return []


def rooms(graph: Mapping[str, Iterable[str]], known: Mapping[str, Path]) -> dict[str, set[str]]:
    """Which folder needs which other one. A folder and those inside it are no two rooms: they share what is common."""
    room = {n: n if p.name == "__init__.py" else n.rpartition(".")[0] for n, p in known.items()}
    found: dict[str, set[str]] = {name: set() for name in room.values()}
    for name, needed in graph.items():
        for other in needed:
            one, two = room[name], room[other]
            if not f"{one}.".startswith(f"{two}.") and not f"{two}.".startswith(f"{one}."):
                found[one].add(two)
    return found


def test_no_modules_import_each_other(root: Path) -> None:
    found = cycle(dependences(modules(root)))
    assert not found, "modules import each other: " + " -> ".join(found)


def test_no_rooms_import_each_other(root: Path) -> None:
    known = modules(root)
    found = cycle(rooms(dependences(known), known))
    assert not found, "rooms import each other: " + " -> ".join(found)


@pytest.mark.parametrize(
    "back",
    [
        "from mase_hw.ir.c import C",
        "def late():\n    from mase_hw.ir import c",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .c import C",
        "import importlib\nimportlib.import_module('mase_hw.ir.c')",
        "import importlib\nimportlib.import_module(f'mase_hw.ir.{name}')",
        "import importlib\nTABLE = {'c': 'mase_hw.ir.c'}\nimportlib.import_module(TABLE['c'])",
        "from mase_hw.ir import C",
    ],
)
def test_a_circle_inside_a_room_is_seen(tmp_path: Path, back: str) -> None:
    files = {
        "__init__": "",
        "ir/__init__": "from mase_hw.ir.c import C",
        "ir/a": back,
        "ir/b": "from mase_hw.ir import a",
        "ir/c": "from mase_hw.ir.b import B",
    }
    write(tmp_path, files)
    found = cycle(dependences(modules(tmp_path)))
    assert "mase_hw.ir.a" in found and len(found) > 2
    (tmp_path / PACKAGE / "ir" / "a.py").write_text("import math")
    assert not cycle(dependences(modules(tmp_path)))


def write(folder: Path, files: Mapping[str, str]) -> None:
    """A package of these modules."""
    for name, source in files.items():
        path = folder / PACKAGE / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def test_a_circle_of_rooms_is_seen(tmp_path: Path) -> None:
    files = {
        "passes/__init__": "from mase_hw.passes import analysis, transforms",
        "passes/base": "",
        "passes/analysis/__init__": "",
        "passes/analysis/low": "from mase_hw.passes import base",
        "passes/analysis/high": "from mase_hw.passes.transforms import quantize",
        "passes/transforms/__init__": "",
        "passes/transforms/quantize": "from mase_hw.passes.analysis import low",
    }
    write(tmp_path, files)
    known = modules(tmp_path)
    assert not cycle(dependences(known))
    assert {"mase_hw.passes.analysis", "mase_hw.passes.transforms"} <= set(cycle(rooms(dependences(known), known)))
    (tmp_path / PACKAGE / "passes" / "analysis" / "high.py").write_text("from mase_hw.passes import base")
    assert not cycle(rooms(dependences(known), known))
