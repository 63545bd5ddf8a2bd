"""The build cache: finished simulators by the hash of everything that went into them.

::

    <cache>/simulators/<identity>/   simulator, build.log, entry.json (hash of the program, and what it is for)
    <cache>/runtime-<key>/           Verilator's compiled runtime library for one set of flags
    <cache>/counts-<key>/            what Yosys has mapped modules to (mase_hw.synth.kept_counts), about.json
    <cache>/.locks/                  lock files by the first digits of an identity; pruning holds all of them

An entry is made in a folder beside its place and renamed, so that there is no incomplete one, no matter which process
dies or how full the disk is. The program's hash is checked whenever it is taken out: a damaged entry is dropped and
built again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mase_hw.errors import EmitError
from mase_hw.host.disk import not_written, writing
from mase_hw.host.documents import parse_json
from mase_hw.host.locks import locked

PROGRAM, LOG, _ENTRY = "simulator", "build.log", "entry.json"
_IDENTITY = re.compile(r"[0-9a-f]{64}")
_RUNTIME = re.compile(r"runtime-[0-9a-f]{20}")
COUNTS, ABOUT = "counts-", "about.json"
_COUNTS = re.compile(rf"{COUNTS}[0-9a-f]{{20}}")


@dataclass(frozen=True)
class Entry:
    """One thing in the cache.

    Args:
        kind: ``simulator``, ``runtime`` or ``counts``.
        name: Identity of a simulator, name of the folder of a runtime or of counts.
        folder: Where it lies.
        size: Bytes; for a program that is also linked into build folders, deleting it here frees them only there.
        used: When it was last used, in seconds since the epoch.
        about: What it is for: design, parameters, engine, waves, the build folder it was made in.
    """

    kind: str
    name: str
    folder: Path
    size: int
    used: float
    about: Mapping[str, Any]

    @property
    def purpose(self) -> str:
        """What it is for, in one line."""
        if self.kind == "runtime":
            return "Verilator's compiled runtime"
        if self.kind == "counts":
            return f"measured counts for {self.about.get('family', '?')}, {self.about.get('tools', '?')}"
        parameters = ", ".join(f"{name}={value}" for name, value in dict(self.about.get("parameters", {})).items())
        waves = ", waves" if self.about.get("waves") else ""
        return f"{self.about.get('top', 'damaged')} ({self.about.get('flavour', '?')}{waves}) {parameters}".rstrip()

    def home(self, near: Path) -> str:
        """The build folder it was made in, which tells designs of the same name apart, as seen from a folder.

        Other build folders may have taken it from the cache since. Empty for a runtime, and for an entry that was
        made before this was recorded.
        """
        if not self.about.get("folder"):
            return ""
        folder = Path(str(self.about["folder"]))
        return str(folder.relative_to(near)) if folder.is_relative_to(near) else str(folder)


class Cache:
    """A cache folder; nothing is created before it is used.

    Args:
        folder: The caller's choice; there is no default place.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._simulators = folder / "simulators"

    def exists(self) -> bool:
        """Whether the folder has been used as a cache, even if nothing is left in it."""
        return (self.folder / ".locks").is_dir() or self._simulators.is_dir() or bool(self.entries())

    @contextmanager
    def using(self, identity: str) -> Iterator[None]:
        """Keep everybody else from building the same simulator, and from pruning.

        Raises:
            EmitError: If the cache cannot be written.
        """
        # Two identities that share a lock file merely wait for each other.
        with self._locked(identity[:2]):
            yield

    def has(self, identity: str) -> bool:
        """Whether there is an entry, whole or not; :meth:`take` looks closer."""
        return (self._simulators / identity / _ENTRY).is_file()

    def take(self, identity: str, folder: Path) -> bool:
        """Put the simulator and its log into a build folder.

        Returns:
            Whether the cache had it. A damaged entry is removed.

        Raises:
            EmitError: If the build folder cannot be written.
        """
        place = self._simulators / identity
        try:
            entry = parse_json((place / _ENTRY).read_text(encoding="utf-8"))
            whole = entry["identity"] == identity and entry["executable"] == file_hash(place / PROGRAM)
            whole = whole and (place / LOG).is_file()
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            shutil.rmtree(place, ignore_errors=True)
            return False
        with writing("the build folder", folder):
            for name in (PROGRAM, LOG):
                _link(place / name, folder / name)
            os.utime(place / _ENTRY)
        return True

    def put(self, identity: str, folder: Path, about: Mapping[str, Any]) -> None:
        """Keep the simulator that was built in ``folder``.

        Raises:
            EmitError: If the cache cannot be written; then it holds no part of the entry.
        """
        partial = None
        try:
            self._simulators.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=self._simulators))
            os.chmod(partial, 0o755)
            for name in (PROGRAM, LOG):
                _link(folder / name, partial / name)
            entry = {
                "identity": identity,
                "executable": file_hash(partial / PROGRAM),
                "about": {**about, "folder": str(folder.resolve())},
            }
            (partial / _ENTRY).write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
            shutil.rmtree(self._simulators / identity, ignore_errors=True)
            partial.rename(self._simulators / identity)
        except OSError as problem:
            raise not_written("the build cache", self.folder, problem) from problem
        finally:
            if partial is not None:
                shutil.rmtree(partial, ignore_errors=True)

    def entries(self) -> list[Entry]:
        """Everything in the cache, the least recently used first."""
        found = [self._simulator(place) for place in _folders(self._simulators, _IDENTITY)]
        found += [Entry("runtime", p.name, p, size_of(p), _time(p), {}) for p in _folders(self.folder, _RUNTIME)]
        counts = _folders(self.folder, _COUNTS)
        found += [Entry("counts", p.name, p, size_of(p), _time(p), _read(p / ABOUT)) for p in counts]
        return sorted(found, key=lambda entry: (entry.used, entry.name))

    def prune(
        self, *, older_than: float | None = None, larger_than: int | None = None, everything: bool = False
    ) -> list[Entry]:
        """Remove entries, waiting for builds that are running; simulators in build folders are not touched.

        Args:
            older_than: Remove what was not used for so many seconds.
            larger_than: Remove the least recently used until so many bytes are left.
            everything: Remove all.

        Returns:
            What was removed.

        Raises:
            EmitError: If the cache cannot be written.
        """
        if not self.folder.is_dir():
            return []
        with ExitStack() as nobody_else:
            for number in range(256):
                nobody_else.enter_context(self._locked(f"{number:02x}"))
            for left in _folders(self._simulators, re.compile(r"\.partial-.*")):
                shutil.rmtree(left, ignore_errors=True)  # nobody builds now: what is here was left by an interruption
            entries, removed = self.entries(), []
            total = sum(entry.size for entry in entries)
            for entry in entries:
                old = older_than is not None and time.time() - entry.used > older_than
                if everything or old or (larger_than is not None and total > larger_than):
                    self._remove(entry)
                    removed.append(entry)
                    total -= entry.size
        return removed

    def _remove(self, entry: Entry) -> None:
        try:
            shutil.rmtree(entry.folder)
        except OSError as problem:
            raise EmitError("a cache entry cannot be removed", node=str(entry.folder), got=str(problem)) from problem

    def _simulator(self, place: Path) -> Entry:
        about = _read(place / _ENTRY).get("about")
        about = about if isinstance(about, dict) else {}
        return Entry("simulator", place.name, place, size_of(place), _time(place / _ENTRY), about)

    def _locked(self, name: str) -> AbstractContextManager[None]:
        return locked(self.folder / ".locks" / name, "the build cache")


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link(source: Path, target: Path) -> None:
    """Link, or copy where the file system cannot; the target is replaced whole."""
    with tempfile.TemporaryDirectory(prefix=".link-", dir=target.parent) as folder:
        partial = Path(folder) / target.name
        try:
            os.link(source, partial)
        except OSError:
            shutil.copy2(source, partial)
        os.replace(partial, target)


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty if it cannot be read."""
    try:
        return dict(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _folders(parent: Path, pattern: re.Pattern[str]) -> list[Path]:
    if not parent.is_dir():
        return []
    return [path for path in parent.iterdir() if pattern.fullmatch(path.name) and path.is_dir()]


def size_of(folder: Path) -> int:
    """Bytes of all that a folder holds."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


def _time(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
