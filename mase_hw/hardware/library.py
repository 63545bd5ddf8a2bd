"""The RTL library: the text of a module, rendered where it is a template, and the files that it needs besides.

A module is a file ``NAME.sv``, or a template ``NAME.sv.j2`` in which the header and what modules have in common is
written for it.
Everything else speaks of ``NAME.sv`` and reads it with :func:`source`; a bundle holds what that gives.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jinja2

from mase_hw.errors import ConfigError, suggest
from mase_hw.hardware.headers import Header, instance, limits, refuse, streams
from mase_hw.hardware.params import Params
from mase_hw.host.disk import write_whole
from mase_hw.host.resources import rtl_root

MACROS = "macros.sv.j2"
"""What modules of ops have in common, below ``rtl_templates``; a template calls it ``rtl``."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INSTANCE = re.compile(r"^\s*(\w+)\s+(?:#\s*\(|\w+\s*(?:\[[^\]]*\]\s*)?\()", re.MULTILINE)
"""Also what only looks like an instance: the names that count are those of modules."""
_EXTENDS = re.compile(r'\{% extends "([^"]+)" %\}')
"""A template whose blocks another one fills in, and whose instances are that one's as well."""
_OWN_LINE = re.compile(r"^( +)\{\{ (.+?) \}\}", re.MULTILINE | re.DOTALL)
"""An expression that begins a line of a template: all its lines are indented like the first."""

_OF_A_MODULE = re.compile(r"= record\(|\b(?:limits|streams|instance|refuse|rtl\.\w+)\(")


def environment() -> jinja2.Environment:
    """The Jinja environment of all templates: undefined names are errors.

    It is kept, so that templates are compiled once a process and not once a bundle; a file that has changed is read
    again.
    """
    return _environment(rtl_root())


def rendered(template: str, **context: Any) -> str:
    """The text of a template below ``rtl_templates``."""
    return environment().get_template(template).render(context)


@functools.lru_cache(maxsize=4)
def _environment(root: Path) -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["below"] = _below
    return made


def template_of(path: Path) -> Path:
    """Where the template of a module lies, if it has one."""
    return path.with_name(f"{path.name}.j2")


def exists(path: Path) -> bool:
    """Whether a module is there, as a file or as a template."""
    return path.is_file() or template_of(path).is_file()


def source(path: Path) -> str:
    """The SystemVerilog of a module.

    Args:
        path: ``NAME.sv``, whether that is a file or ``NAME.sv.j2`` beside it is a template of it.

    Raises:
        OSError: If there is neither.
        ConfigError: If the template is wrong, or both are there.
    """
    return content(path).decode(errors="replace")


def content(path: Path) -> bytes:
    """The same as bytes, those of a file unchanged."""
    template = template_of(path)
    if not template.is_file():
        return path.read_bytes()
    if path.is_file():
        raise ConfigError(
            "a module is there twice",
            node=str(path),
            got="a file and a template of it",
            remedy=f"delete {path.name} or {template.name}",
        )
    return _rendered(path, template.stat().st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _rendered(path: Path, _: int) -> bytes:
    template, module = template_of(path), path.stem
    jinja = environment()
    try:
        known: dict[str, object] = {"module": module, "limits": functools.partial(limits, module)}
        known |= {"streams": streams, "refuse": refuse}
        known["instance"] = _instance
        known["rtl"] = jinja.get_template(MACROS).make_module(known)
        known["record"] = functools.partial(_header, template=str(template))
        written = _OWN_LINE.sub(_indented, template.read_text(encoding="utf-8"))
        return jinja.from_string(written).render(known).encode()
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise ConfigError(
            "a template of a module cannot be rendered",
            node=f"{template}{line}",
            got=str(error) or type(error).__name__,
            expected="SystemVerilog with `record` and the macros of `rtl`",
            remedy="docs/adding_an_op.md has a complete one",
        ) from error


def _indented(expression: re.Match[str]) -> str:
    return f"{expression[1]}{{{{ ({expression[2]}) | below({len(expression[1])}) }}}}"


def _below(text: str, width: int) -> str:
    """All lines but the first, indented: what the preprocessor reads stays at the left."""
    first, *others = text.split("\n")
    return "\n".join([first, *(" " * width + line if line and line[0] != "`" else line for line in others)])


def _instance(module: str, name: str, **connections: object) -> str:
    if module not in library_modules():
        raise ValueError(f"there is no module {module!r}: {suggest(module, library_modules())}")
    return instance(source(rtl_root() / library_modules()[module]), module, name, connections)


def _header(name: str, template: str) -> Header:
    place, _, kind = name.partition(":")
    problem = "it is none"
    record: Any = None
    try:
        record = getattr(importlib.import_module(place), kind)
    except (ImportError, AttributeError, ValueError) as error:
        problem = str(error)
    if not (isinstance(record, type) and issubclass(record, Params)):
        raise ConfigError(
            "a template names no record of parameters",
            node=template,
            field=name,
            got=problem,
            expected="package.module:Class, a subclass of mase_hw.catalogue.Params",
            remedy="name the record of the op's hardware",
        )
    return Header(record, template)


def render(folder: Path) -> Path:
    """Write the whole library into a folder, for tools that read files: what is there already is left as it is.

    Args:
        folder: Made if need be. Other SystemVerilog files in it are removed.

    Returns:
        The folder.
    """
    for file in library_modules().values():
        write_module(rtl_root() / file, folder / file)
    for stale in set(modules_below(folder)) - set(library_modules().values()):
        (folder / stale).unlink(missing_ok=True)
    return folder


def write_module(path: Path, target: Path) -> Path:
    """Write a module into a file, unless that is there and right; return the file."""
    text = content(path)
    if not target.is_file() or target.read_bytes() != text:
        write_whole(target, text)  # another process may read it, or write the same
    return target


def with_dependences(files: Iterable[str], external: Callable[[str], Path | None] = lambda _: None) -> tuple[str, ...]:
    """Files below ``rtl_templates`` in the order of compilation, each once.

    A module of the library that one of the files instantiates comes before it, however deep, also where it stands in a
    branch of a generate block.

    Args:
        files: What is needed in any case.
        external: Where a file lies, if not below ``rtl_templates``.
    """
    order: dict[str, None] = {}

    def add(name: str) -> None:
        path = external(name) or rtl_root() / name
        # A file that is gone is missed where it is copied.
        for part in _instances(source(path)) if exists(path) else ():
            if part != name and part not in order:
                add(part)
        order[name] = None

    for name in files:
        add(name)
    return tuple(order)


@functools.lru_cache(maxsize=1024)
def _instances(text: str) -> tuple[str, ...]:
    modules = library_modules()
    found = _INSTANCE.findall(_COMMENT.sub("", text))
    for extended in _EXTENDS.findall(text):
        found += _INSTANCE.findall(_COMMENT.sub("", source(rtl_root() / extended)))
    return tuple(dict.fromkeys(modules[name] for name in found if name in modules))


@functools.cache
def library_modules() -> dict[str, str]:
    """Files below ``rtl_templates`` by the module that they hold."""
    return {Path(name).stem: name for name in modules_below(rtl_root())}


def modules_below(folder: Path) -> list[str]:
    """The modules in a folder and in those below it, as files and as templates: ``NAME.sv``, seen from there."""
    # A template that calls none of these is made for a design.
    made = (path for path in folder.rglob("*.sv.j2") if path.name != MACROS)
    templates = [path for path in made if _OF_A_MODULE.search(path.read_text(encoding="utf-8"))]
    found = (path.relative_to(folder).as_posix() for path in (*folder.rglob("*.sv"), *templates))
    return sorted({name.removesuffix(".j2") for name in found})
