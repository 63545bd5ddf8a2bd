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


Files = tuple[tuple[Path, bytes], ...]


@dataclass(frozen=True)
class Snapshot:
    """Every file of a build with its content, in the order of the build.

    Args:
        sources: The sources of the design.
        main: The C++ files that are compiled with the model.
        bench: The C++ files that are the same for every design.
    """

    sources: Files
    main: Files
    bench: Files

    def feed(self, digest: hashlib._Hash) -> None:
        """Add names and contents to a hash; not the folders, so that the same design is the same anywhere."""
        for path, content in (*self.sources, *self.main, *self.bench):
            digest.update(f"{path.name}\0{len(content)}\0".encode() + content)

    def write(self, folder: Path) -> Copies:
        """Write the copies that are compiled, below ``folder``.

        Raises:
            OSError: If they cannot be written.
        """
        names: dict[str, str] = {}

        def put(place: str, path: Path, content: bytes) -> Path:
            copy = folder / _COPIES / place / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            names[str(copy)] = str(path)
            return copy

        # A folder for each: two files may have the same name. Those of the bench include each other.
        sources = tuple(put(f"rtl{i}", *file) for i, file in enumerate(self.sources))
        main = tuple(put(f"main{i}", *file) for i, file in enumerate(self.main))
        return Copies(sources, main, tuple(put("bench", *file) for file in self.bench), names)


@dataclass(frozen=True)
class Copies:
    """Where the private copies lie.

    Args:
        sources: Copies of the design's sources.
        main: Copies of the C++ files that are compiled with the model.
        bench: Copies of those that are the same for every design.
        names: What each file is a copy of.
    """

    sources: tuple[Path, ...]
    main: tuple[Path, ...]
    bench: tuple[Path, ...]
    names: Mapping[str, str]

    def named(self, text: str) -> str:
        """A tool's output, about the files that the caller knows."""
        for copy, original in self.names.items():
            text = text.replace(copy, original).replace(copy[copy.rindex(f"{_COPIES}/") :], original)
        return text


def take(sources: Iterable[Path], main: Iterable[Path], bench: Iterable[Path], digests: Mapping[Path, str]) -> Snapshot:
    """Read every file of a build.

    Args:
        sources: The sources of the design.
        main: The C++ files that are compiled with the model.
        bench: Those that are the same for every design.
        digests: SHA-256 that some of the sources must have.

    Raises:
        EmitError: If one cannot be read, or is not what it must be.
    """

    def read(paths: Iterable[Path]) -> Files:
        return tuple((path, checked(path, read_source(path), digests)) for path in paths)

    return Snapshot(read(sources), read(main), read(bench))


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
