"""Imports only go downward, so that every layer can be understood and tested without those above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "mase_hw"

# Lowest first. "__init__" is the public interface in mase_hw/__init__.py.
LAYERS = (
    "_version",
    "deprecation",
    "errors",
    "options",
    "resources",
    "formats",
    "numerics",
    "layouts",
    "streams",
    "beats",
    "steps",
    "beat_times",
    "latency",
    "catalogue",
    "ir",
    "nn",
    "ops",
    "passes",
    "emit",
    "model_spec",
    "host",
    "simulate",
    "design",
    "compiler",
    "regress",
    "synth",
    "__init__",
    "cli",
    "flow",
)


def layer_of(dotted: str) -> str:
    """The layer a module name inside the package belongs to."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(source: str, module: str, is_package: bool, submodules: set[str]) -> Iterator[tuple[int, str]]:
    """Every module of the package that a source imports, anywhere in it: (line, dotted name)."""
    for node in ast.walk(ast.parse(source)):
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
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == PACKAGE)


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package by dotted name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def violations(source: str, module: str, is_package: bool, submodules: set[str]) -> list[str]:
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


def test_imports_go_downward(root: Path) -> None:
    known = modules(root)
    found = []
    for name, path in known.items():
        found += violations(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", set(known))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "import mase_hw.host.toolchain",
        "from mase_hw.host import toolchain",
        "from mase_hw import host",
        "from mase_hw import compile",
        "import mase_hw",
        "from ..host import toolchain",
        "def late():\n    from mase_hw.cli import main",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert violations(source, "mase_hw.ops.linear", False, {"mase_hw.host", "mase_hw.host.toolchain"})


@pytest.mark.parametrize(
    "source", ["from mase_hw import errors", "from . import relu", "from ..formats import FixedFormat"]
)
def test_a_downward_import_is_fine(source: str) -> None:
    assert not violations(
        source, "mase_hw.ops.linear", False, {"mase_hw.errors", "mase_hw.ops.relu", "mase_hw.formats"}
    )
