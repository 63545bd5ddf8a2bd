"""Memory files of the modules under test, where both simulators and the sandbox of Yosys can read them."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mase_hw.catalogue import Memory
from tests.rtl import LIBRARY


def file_of(parameter: str) -> str:
    """Name of the file that a parameter takes."""
    return f"{parameter.lower()}.mem"


@functools.cache
def _root() -> Path:
    """A folder of this process; below the repository, because Yosys runs there and has its own ``/tmp``."""
    build = LIBRARY.parent
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="catalogue-", dir=build))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def folder_of(name: str) -> Path:
    """Where the files of an item, or of several, lie."""
    return _root() / name


def write_memories(name: str, memories: Mapping[str, Memory]) -> Path:
    """Write the files of one item; return their folder."""
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    for parameter, memory in memories.items():
        digits = (memory.bits + 3) // 4
        (folder / file_of(parameter)).write_text("".join(f"{word:0{digits}x}\n" for word in memory.words))
    return folder
