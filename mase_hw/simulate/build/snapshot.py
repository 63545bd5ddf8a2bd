"""The files that go into a build, read once: their hash names the simulator, and these very bytes are compiled.

A source may change while its builder waits for a lock, or while Verilator starts. A hash of one content and a program
of another would put a simulator into the cache that passes, or fails, for a design that it was not made of. So the
files are read into memory, and what is compiled is a private copy of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import EmitError

_COPIES = "given"


@dataclass(frozen=True)
class Snapshot:
    """The content of every file of a build.

    Args:
        sources: The sources of the design, in their order.
        main: The C++ files that are compiled with the model, in their order.
        driver: The C++ files of the bench that are the same for every design, in their order.
        headers: The headers in each of the folders that the bench includes from.
    """

    sources: tuple[tuple[Path, bytes], ...]
    main: tuple[tuple[Path, bytes], ...]
    driver: tuple[tuple[Path, bytes], ...]
    headers: tuple[tuple[tuple[Path, bytes], ...], ...]

    def feed(self, digest: hashlib._Hash) -> None:
        """Add names and contents to a hash; not the folders, so that the same design is the same anywhere."""
        headers = (file for folder in self.headers for file in folder)
        for path, content in (*self.sources, *self.main, *self.driver, *headers):
            digest.update(f"{path.name}\0{len(content)}\0".encode() + content)

    def write(self, folder: Path) -> Copies:
        """Write the copies that are compiled, below ``folder``.

        Raises:
            OSError: If they cannot be written.
        """
        home = folder / _COPIES
        names: dict[str, str] = {}

        def put(place: Path, path: Path, content: bytes) -> Path:
            place.mkdir(parents=True, exist_ok=True)
            (place / path.name).write_bytes(content)
            names[str(place / path.name)] = str(path)
            return place / path.name

        # A folder for each: two files may have the same name.
        sources = [put(home / f"rtl{i}", *file) for i, file in enumerate(self.sources)]
        main = [put(home / f"main{i}", *file) for i, file in enumerate(self.main)]
        driver = [put(home / f"driver{i}", *file) for i, file in enumerate(self.driver)]
        for i, files in enumerate(self.headers):
            for file in files:
                put(home / f"include{i}", *file)
        folders = (home / f"include{i}" for i in range(len(self.headers)))
        return Copies(tuple(sources), tuple(main), tuple(driver), tuple(folders), names)


@dataclass(frozen=True)
class Copies:
    """Where the private copies lie.

    Args:
        sources: Copies of the design's sources.
        main: Copies of the C++ files that are compiled with the model.
        driver: Copies of those that are the same for every design.
        folders: Folders with the headers.
        names: What each file is a copy of.
    """

    sources: tuple[Path, ...]
    main: tuple[Path, ...]
    driver: tuple[Path, ...]
    folders: tuple[Path, ...]
    names: Mapping[str, str]

    def named(self, text: str) -> str:
        """A tool's output, about the files that the caller knows."""
        for copy, original in self.names.items():
            text = text.replace(copy, original).replace(copy[copy.rindex(f"{_COPIES}/") :], original)
        return text


def take(
    sources: Iterable[Path],
    main: Iterable[Path],
    driver: Iterable[Path],
    folders: Iterable[Path],
    digests: Mapping[Path, str],
) -> Snapshot:
    """Read every file of a build.

    Args:
        sources: The sources of the design.
        main: The C++ files that are compiled with the model.
        driver: Those that are the same for every design.
        folders: Where the bench includes headers from.
        digests: SHA-256 that some of the sources must have.

    Raises:
        EmitError: If one cannot be read, or is not what it must be.
    """

    def read(paths: Iterable[Path]) -> tuple[tuple[Path, bytes], ...]:
        return tuple((path, checked(path, read_source(path), digests)) for path in paths)

    headers = tuple(read(sorted(folder.glob("*.h"))) for folder in folders)
    return Snapshot(read(sources), read(main), read(driver), headers)


def checked(path: Path, content: bytes, digests: Mapping[Path, str]) -> bytes:
    """The content of a file, if it is what it must be or nothing is known of it.

    Raises:
        EmitError: If it is something else.
    """
    expected = digests.get(path)
    if expected is not None and (got := hashlib.sha256(content).hexdigest()) != expected:
        raise EmitError(
            "a file of the design was changed while it was being used",
            node=str(path),
            got=f"sha256 {got[:16]}...",
            expected=f"sha256 {expected[:16]}...",
            remedy="try again, once nothing writes into the folder of the design any more",
        )
    return content


def read_source(path: Path) -> bytes:
    """Content of a file that is given.

    Raises:
        EmitError: If it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as problem:
        raise EmitError("a source file cannot be read", node=str(path), got=str(problem)) from problem
