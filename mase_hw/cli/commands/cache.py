"""``mase-hw cache``: what the caches hold, and removing some of it."""

from __future__ import annotations

import argparse
import math
import re
import shutil
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

HELP = "show, bound or remove the caches: of this environment, of this folder, or one that is named"
_AGE = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_HERE = ("runtime-cache", "*/runtime-cache")
"""Where bundles of the current folder have theirs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=path,
        metavar="FOLDER",
        help="one cache, such as build/runtime-cache (all that are found)",
    )
    parser.add_argument("--older-than", metavar="AGE", help="remove what was not used for so long: 12h, 30d")
    parser.add_argument(
        "--larger-than", metavar="SIZE", help="remove the least recently used of a cache down to: 500M, 2G"
    )
    parser.add_argument("--all", action="store_true", help="remove everything")


def run(arguments: argparse.Namespace) -> int:
    """Show the caches, or what was removed from them.

    Raises:
        ConfigError: If the folder is missing or something else, or an age or size is not one.
        EmitError: If something cannot be removed.
    """
    from mase_hw.simulate.build.cache import Cache  # the other commands do not wait for it

    older = None if arguments.older_than is None else _number("--older-than", arguments.older_than, _AGE)
    larger = None if arguments.larger_than is None else _number("--larger-than", arguments.larger_than, _SIZE)
    folders = _found() if arguments.folder is None else [_named(arguments.folder)]
    pruning = arguments.all or older is not None or larger is not None
    most = None if larger is None else int(larger)
    removed: dict[Path, Sequence[Entry]] = {}
    for folder in folders if pruning else ():
        removed[folder] = Cache(folder).prune(older_than=older, larger_than=most, everything=arguments.all)
    left: dict[Path, Sequence[Entry]] = {folder: Cache(folder).entries() for folder in folders}
    tools = {} if arguments.folder is not None else _tools(arguments.all)

    def show() -> None:
        for folder in folders:
            entries, gone = left[folder], removed.get(folder, ())
            if shown := gone if pruning else entries:
                Console().print(_table(shown, folder.resolve().parent))
            if pruning:
                print(f"removed {len(gone)} entries, {_total(gone)}")
            print(f"{folder}: {len(entries)} entries, {_total(entries)}")
        for folder, (size, gone_size) in tools.items():
            said = f"removed {_readable(gone_size)}" if gone_size else _readable(size)
            print(f"{folder}: Yosys and nextpnr as they were compiled for this machine, {said}")
        if not folders and not tools:
            print("there are no caches here")

    found = {
        "entries": [each for folder in folders for each in _plain(folder, left[folder])],
        "removed": [each for folder, gone in removed.items() for each in _plain(folder, gone)],
        "tools": [{"folder": folder, "size": size, "removed": gone} for folder, (size, gone) in tools.items()],
    }
    return answer(arguments, OK, found, show)


def _found() -> list[Path]:
    """The caches of this environment and of the current folder."""
    from mase_hw.simulate.build.cache import Cache
    from mase_hw.simulate.build.runtime_cache import prepared_place

    places = [prepared_place(), *(place for pattern in _HERE for place in sorted(Path().glob(pattern)))]
    return [place for place in places if Cache(place).exists()]


def _named(folder: Path) -> Path:
    from mase_hw.simulate.build.cache import Cache

    if not folder.is_dir():
        raise ConfigError("there is no such cache folder", field="FOLDER", got=str(folder))
    if any(folder.iterdir()) and not Cache(folder).exists():
        raise ConfigError(
            "this folder is not a build cache",
            field="FOLDER",
            got=str(folder),
            expected="a folder with simulators, a runtime or counts, such as build/runtime-cache",
        )
    return folder


def _tools(remove: bool) -> dict[Path, tuple[int, int]]:
    """Where tools of WebAssembly keep what they were compiled to: bytes that are left, and that were removed."""
    from mase_hw.simulate.build.cache import size_of
    from mase_hw.synth.tools import compiled_tools

    folder = compiled_tools()
    before = size_of(folder)
    if remove:
        shutil.rmtree(folder, ignore_errors=True)
    after = size_of(folder)
    return {folder: (after, before - after)} if before else {}


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


def _plain(folder: Path, entries: Sequence[Entry]) -> list[dict[str, object]]:
    return [
        {"cache": folder, "kind": e.kind, "name": e.name, "size": e.size, "used": e.used, "about": dict(e.about)}
        for e in entries
    ]


def _total(entries: Sequence[Entry]) -> str:
    return _readable(sum(entry.size for entry in entries))


def _table(entries: Sequence[Entry], near: Path) -> Table:
    table = Table(box=None)
    for title in ("entry", "size", "last used"):
        table.add_column(title, no_wrap=True)
    table.add_column("for", overflow="fold")  # a path is what tells designs apart, so it is never cut short
    for entry in entries:
        kept, dash, _ = entry.name.rpartition("-")
        name = entry.name[: len(kept + dash) + 12]
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
