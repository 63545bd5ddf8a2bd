"""The two files of a checkpoint on disk: replaced together, or not at all.

``NAME.mz`` is one line of header and a JSON document; the header has the hashes of the document and of ``NAME.pt``. A
new pair is written beside the old one, the tensors under a name made of their hash. Renaming the new ``.mz`` into place
is the one moment at which the checkpoint changes; only then the tensors take their final name. A reader that finds a
``.pt`` that the ``.mz`` does not want looks for the one that waits beside it, so whenever an export dies, one whole
pair can be read: the older before that moment, the newer after it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from mase_hw.errors import CheckpointError

VERSION = 1
"""Version of the document; another one is refused."""
_MAGIC = "mase_hw-checkpoint"
_CHUNK = 1 << 20


class Pair:
    """Where a checkpoint lies.

    Args:
        name: Path without ending; one that ends in ``.pt`` or ``.mz`` names the same pair.
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        path = Path(name)
        self.stem = path.name.removesuffix(".mz").removesuffix(".pt")
        if self.stem in ("", ".", ".."):
            raise CheckpointError("a checkpoint needs a file name", got=repr(str(name)), expected="folder/name")
        self.folder = path.parent
        self.tensors = self.folder / f"{self.stem}.pt"
        self.document = self.folder / f"{self.stem}.mz"

    def waiting(self, digest: str) -> Path:
        """Where the tensors with that hash lie until they take their final name."""
        return self.folder / f".{self.stem}.{digest}.pt"

    def write(self, save: Callable[[IO[bytes]], None], document: str) -> None:
        """Replace the pair.

        Args:
            save: Writes the tensors into a file, which it may also read.
            document: The document.

        Raises:
            CheckpointError: If the folder cannot be written; the older pair is as it was.
        """
        staged: list[Path] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in (self.tensors, self.document):
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
            with _locked(self.folder):
                self._clean()
                with self._stage("pt", staged) as file:
                    save(file)
                digest = hash_of(staged[0])
                text = document.encode()
                with self._stage("mz", staged) as file:
                    header = f"{_MAGIC} {VERSION} sha256={hashlib.sha256(text).hexdigest()} tensors={digest}\n"
                    file.write(header.encode() + text)
                os.replace(staged[0], self.waiting(digest))
                staged[0] = self.waiting(digest)
                _flush(self.folder)
                os.replace(staged[1], self.document)
                # From here on the new pair stands, whatever happens.
                staged.clear()
                _flush(self.folder)
                os.replace(self.waiting(digest), self.tensors)
        except OSError as error:
            raise CheckpointError(
                "the checkpoint cannot be written",
                node=str(self.document),
                got=f"{type(error).__name__}: {error.strerror or error}",
                remedy="check permissions and free space; the older checkpoint, if any, is untouched",
            ) from error
        finally:
            for path in staged:
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _stage(self, ending: str, staged: list[Path]) -> Iterator[IO[bytes]]:
        path = self.folder / f".{self.stem}.{ending}.new"
        with path.open("x+b") as file:
            staged.append(path)
            yield file
            file.flush()
            os.fsync(file.fileno())

    def _clean(self) -> None:
        """Finish an export that died after its pair stood, and remove what others have left."""
        with contextlib.suppress(OSError, CheckpointError):
            _, digest = self._parse(self.document.read_bytes())
            os.replace(self.waiting(digest), self.tensors)
        for path in self.folder.iterdir():
            name = path.name.removeprefix(f".{self.stem}.")
            if name != path.name and re.fullmatch(r"(pt|mz)\.new|[0-9a-f]{64}\.pt", name):
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def read(self) -> Iterator[tuple[str, IO[bytes]]]:
        """The document and the opened file of its tensors, the hashes of both checked.

        Raises:
            CheckpointError: If one is missing, of another version, cut off or changed, or they do not belong together.
        """
        try:
            with _locked(self.folder):
                document, digest = self._parse(self.document.read_bytes())
                file = self._find(digest)
        except OSError as error:
            raise CheckpointError(
                "the checkpoint cannot be read",
                node=str(self.document),
                got=f"{type(error).__name__}: {error.strerror or error}",
                remedy=f"a checkpoint is {self.document.name} and {self.tensors.name}, as export wrote them",
            ) from error
        with file:
            yield document, file

    def _parse(self, content: bytes) -> tuple[str, str]:
        header, _, body = content.partition(b"\n")
        line = header[:200].decode("ascii", "replace")
        found = re.fullmatch(rf"{_MAGIC} (\d+) sha256=([0-9a-f]{{64}}) tensors=([0-9a-f]{{64}})", line)
        version = re.match(rf"{_MAGIC} (\d+) ", line)
        if version is not None and int(version[1]) != VERSION:
            raise CheckpointError(
                "the checkpoint has another version",
                node=str(self.document),
                got=version[1],
                expected=VERSION,
                remedy="export the graph again with this version of mase_hw",
            )
        if found is None:
            raise CheckpointError(
                "this is no checkpoint, or it was cut off",
                node=str(self.document),
                got=repr(line[:60]),
                expected=f"a file that starts with {_MAGIC!r}",
                remedy="export the graph again; a checkpoint of MASE itself is a pickle, and reading it would run code",
            )
        digest = hashlib.sha256(body).hexdigest()
        if digest != found[2]:
            raise CheckpointError(
                "the checkpoint was cut off or changed after it was written",
                node=str(self.document),
                got=f"sha256 {digest[:16]}...",
                expected=f"sha256 {found[2][:16]}...",
                remedy="copy both files again, or export the graph again",
            )
        return body.decode("utf-8", "replace"), found[3]

    def _find(self, digest: str) -> IO[bytes]:
        """Open the tensors that have this hash."""
        got = "no such file"
        for path in (self.tensors, self.waiting(digest)):
            with contextlib.suppress(FileNotFoundError):
                file = path.open("rb")
                found = hash_of(file)
                if found == digest:
                    file.seek(0)
                    return file
                file.close()
                got = f"sha256 {found[:16]}..."
        raise CheckpointError(
            "the tensors are missing, were cut off or changed, or belong to another checkpoint",
            node=str(self.tensors),
            got=got,
            expected=f"sha256 {digest[:16]}..., as {self.document.name} says",
            remedy="copy both files again, or export the graph again",
        )


def hash_of(file: Path | IO[bytes]) -> str:
    """SHA-256 of a file, read piece by piece."""
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return hash_of(opened)
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Use a pair alone; leaves no file behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # A file system without locks (some network ones) works as well, one process at a time.
        with contextlib.suppress(OSError):
            lock_descriptor(descriptor)
        yield
    finally:
        os.close(descriptor)


def _flush(folder: Path) -> None:
    """Make renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
