"""Which files of the RTL library a module needs: those of the modules that it instantiates, read from the text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mase_hw.host.resources import rtl_root

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INSTANCE = re.compile(r"^\s*(\w+)\s+(?:#\s*\(|\w+\s*(?:\[[^\]]*\]\s*)?\()", re.MULTILINE)
"""Also what only looks like an instance: the names that count are those of modules."""


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
        for part in _instances(path, path.stat().st_mtime_ns) if path.is_file() else ():
            if part != name and part not in order:
                add(part)
        order[name] = None

    for name in files:
        add(name)
    return tuple(order)


@functools.lru_cache(maxsize=1024)
def _instances(path: Path, _: int) -> tuple[str, ...]:
    text = _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
    modules = library_modules()
    return tuple(dict.fromkeys(modules[name] for name in _INSTANCE.findall(text) if name in modules))


@functools.cache
def library_modules() -> dict[str, str]:
    """Files below ``rtl_templates`` by the module that they hold."""
    root = rtl_root()
    return {
        path.stem: path.relative_to(root).as_posix()
        for folder in ("lib", "ops", "system")
        for path in (root / folder).glob("*.sv")
    }
