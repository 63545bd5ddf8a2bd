"""Tables of facets, of arguments of functions and of public names, from signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import mase_hw
import mase_hw.training
from mase_hw.ir.hardware_branch import INPUTS, RESULTS, HardwareMetadata
from mase_hw.plugins import GROUPS
from scripts import architecture
from scripts.reference_options import markdown, table

_ENTRY = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*(?:\n {8}.*)*)", re.MULTILINE)


def arguments_of(documented: Any) -> dict[str, str]:
    """What a docstring of the Google style says of every argument, each on one line."""
    text = inspect.getdoc(documented) or ""
    section = re.search(r"^Args:\n(?P<body>(?: {4}.*\n?|\n)*)", text, re.MULTILINE)
    found = {}
    for entry in _ENTRY.finditer(section["body"]) if section else ():
        for name in entry["names"].split(", "):
            found[name] = " ".join(entry["text"].split())
    return found


def _all_described(documented: Any, names: Iterable[str]) -> dict[str, str]:
    """As :func:`arguments_of`.

    Raises:
        ValueError: If the docstring says nothing of one of the names.
    """
    says = arguments_of(documented)
    if silent := [name for name in names if name not in says]:
        raise ValueError(f"the docstring of {documented.__qualname__} does not describe {', '.join(silent)}")
    return says


def facets(name: str) -> str:
    """The fields of a dataclass of the catalogue: facet, what it says, and whether it may be left out.

    Args:
        name: Class in :mod:`mase_hw.catalogue`.
    """
    definition = getattr(importlib.import_module("mase_hw.catalogue"), name)
    says = _all_described(definition, [field.name for field in dataclasses.fields(definition)])
    rows = []
    for field in dataclasses.fields(definition):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        rows.append(
            [
                f"`{field.name}`",
                markdown(says[field.name]).rstrip("."),
                "required" if required else shown(field.default),
            ]
        )
    return table(("facet", "says", "default"), rows)


def arguments(dotted: str) -> str:
    """The arguments of a function, method or class: what its documentation says, and the default.

    Args:
        dotted: Where it is, from ``mase_hw`` on.
    """
    target: Any = mase_hw
    for part in dotted.split(".")[1:]:
        target = getattr(target, part)
    parameters = {n: p for n, p in inspect.signature(target).parameters.items() if n != "self"}
    says = _all_described(target, parameters)
    rows = []
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:  # whose names a TypedDict has
            more = target.__globals__[str(parameter.annotation).removeprefix("Unpack[").rstrip("]")]
            rows += [[f"`{key}`", markdown(text).rstrip("."), "none"] for key, text in arguments_of(more).items()]
            continue
        default = "required" if parameter.default is inspect.Parameter.empty else shown(parameter.default)
        rows.append([f"`{name}`", markdown(says[name]).rstrip("."), default])
    return table(("argument", "meaning", "default"), rows)


def hardware_branch() -> str:
    """The fields of the hardware branch of a node's metadata: what each says, and what becomes of an assignment."""
    says = _all_described(HardwareMetadata, HardwareMetadata.fields())
    rows = []
    for name in HardwareMetadata.fields():
        inner = [key for key in (*INPUTS, *RESULTS) if key.partition(".")[0] == name]
        for key in inner:
            about = f"input: {INPUTS[key][1]}" if key in INPUTS else f"result: follows from {RESULTS[key]}"
            rows.append(
                [f"`{key}`", markdown(says[name]).rstrip(".") if key == inner[0] else "", about.replace(" | ", ", ")]
            )
    return table(("field", "meaning", "an assignment"), rows)


def shown(default: Any) -> str:
    """A default as a cell; what a function gives is not shown."""
    if default is None or default in ((), ""):
        return "none"
    if callable(default) or default is dataclasses.MISSING:
        if getattr(default, "__name__", "<lambda>") != "<lambda>":
            return "what the record says"
        return "none" if not callable(default) or default(None) == {} else f"`{default(None)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def exports(module: str) -> str:
    """The public names of a module, with the first sentence about each."""
    home = importlib.import_module(module)
    rows = []
    for name in sorted(home.__all__, key=str.lower):
        value = getattr(home, name)
        says = _first_sentence(value) if callable(value) else markdown(_says_of_constant(home, name))
        rows.append([f"`{name}`", says])
    return table((f"name in `{module}`", "what it is"), rows)


def _first_sentence(value: Any) -> str:
    return markdown((inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " "))


def _says_of_constant(home: ModuleType, name: str) -> str:
    """The string below the assignment of a name, in the module that it comes from.

    Raises:
        ValueError: If there is none. (``inspect`` would give the documentation of ``int`` or ``str``.)
    """
    body = ast.parse(inspect.getsource(home)).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            return _says_of_constant(importlib.import_module(str(node.module)), name)
    for node, below in itertools.pairwise(body):
        named = isinstance(node, ast.Assign) and name in {ast.unparse(target) for target in node.targets}
        if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            return str(below.value.value).split("\n\n")[0].replace("\n", " ")
    raise ValueError(f"{home.__name__} does not say what {name} is: a string below the assignment")


def plugins() -> str:
    """The groups of entry points."""
    return table(("group", "an entry point is"), [[f"`{name}`", says] for name, says in GROUPS.items()])


def rooms() -> str:
    """The rooms of the package with what they do and what they import, the highest first."""
    found = architecture.imports()
    height = architecture.ranks(found)
    rows = []
    for room in sorted(found, key=lambda r: (-height[r], r)):
        single = "" if (architecture.ROOT / "mase_hw" / room).is_dir() else ".py"
        name = "modules beside the rooms" if room == architecture.BASE else f"`mase_hw/{room}{single}`"
        rows.append([name, architecture.purpose(room), ", ".join(sorted(found[room] - {architecture.BASE}))])
    return table(("room", "what it does", "imports"), rows)
