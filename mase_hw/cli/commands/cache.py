"""``mase-hw cache``: what a build cache holds, and removing some of it."""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mase_hw.cli._common import OK, path
from mase_hw.cli.answers import answer
from mase_hw.errors import ConfigError

if TYPE_CHECKING:
    from mase_hw.simulate.build.cache import Entry

HELP = "show or prune a build cache"
_AGE = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", type=path, metavar="FOLDER", help="the cache, such as build/runtime-cache")
    parser.add_argument("--older-than", metavar="AGE", help="remove what was not used for so long: 12h, 30d")
    parser.add_argument("--larger-than", metavar="SIZE", help="remove the least recently used down to: 500M, 2G")
    parser.add_argument("--all", action="store_true", help="remove everything")


def run(arguments: argparse.Namespace) -> int:
    """Show the cache, or what was removed from it.

    Raises:
        ConfigError: If the folder is missing or something else, or an age or size is not one.
        EmitError: If something cannot be removed.
    """
    from mase_hw.simulate.build.cache import Cache  # the other commands do not wait for it

    older = None if arguments.older_than is None else _number("--older-than", arguments.older_than, _AGE)
    larger = None if arguments.larger_than is None else _number("--larger-than", arguments.larger_than, _SIZE)
    if not arguments.folder.is_dir():
        raise ConfigError("there is no such cache folder", field="FOLDER", got=str(arguments.folder))
    cache = Cache(arguments.folder)
    if any(arguments.folder.iterdir()) and not cache.exists():
        raise ConfigError(
            "this folder is not a build cache",
            field="FOLDER",
            got=str(arguments.folder),
            expected="a folder with simulators or a runtime, such as build/runtime-cache",
        )
    pruning = arguments.all or older is not None or larger is not None
    removed = (
        cache.prune(older_than=older, larger_than=int(larger) if larger is not None else None, everything=arguments.all)
        if pruning
        else []
    )
    left = cache.entries()

    def show() -> None:
        shown = removed if pruning else left
        if shown:
            Console().print(_table(shown, arguments.folder.resolve().parent))
        if pruning:
            print(f"removed {len(removed)} entries, {_readable(sum(e.size for e in removed))}")
        print(f"{arguments.folder}: {len(left)} entries, {_readable(sum(e.size for e in left))}")

    return answer(arguments, OK, {"entries": _plain(left), "removed": _plain(removed)}, show)


def _number(option: str, text: str, units: dict[str, int]) -> float:
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)([{''.join(units)}])", text)
    if match is None:
        raise ConfigError(
            "not an amount",
            field=option,
            got=f"{text:.80}",
            expected=f"a number and one of {' '.join(units)}, such as 10{list(units)[2]}",
        )
    amount = float(match[1]) * units[match[2]]
    if not math.isfinite(amount):
        raise ConfigError("an amount beyond all numbers", field=option, got=f"{len(text)} characters")
    return amount


def _plain(entries: Sequence[Entry]) -> list[dict[str, object]]:
    return [{"kind": e.kind, "name": e.name, "size": e.size, "used": e.used, "about": dict(e.about)} for e in entries]


def _table(entries: Sequence[Entry], near: Path) -> Table:
    table = Table(box=None)
    for title in ("entry", "size", "last used"):
        table.add_column(title, no_wrap=True)
    table.add_column("for", overflow="fold")  # a path is what tells designs apart, so it is never cut short
    for entry in entries:
        name = entry.name[: len("runtime-") + 12 if entry.kind == "runtime" else 12]
        home = entry.home(near)
        purpose = f"{entry.purpose} in {home}" if home else entry.purpose
        table.add_row(name, _readable(entry.size), f"{_ago(entry.used)} ago", escape(purpose))
    return table


def _ago(used: float) -> str:
    seconds = max(0, int(time.time() - used))
    unit = next((u for u in ("w", "d", "h", "m") if seconds >= _AGE[u]), "s")
    return f"{seconds // _AGE[unit]} {unit}"


def _readable(size: float) -> str:
    unit = next((u for u in ("T", "G", "M", "K") if size >= _SIZE[u]), "B")
    return f"{size / _SIZE[unit]:.{0 if unit == 'B' else 1}f} {unit}"
