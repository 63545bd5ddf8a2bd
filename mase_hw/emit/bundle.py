"""The bundle: one folder that simulation, synthesis and people share, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mase_hw.errors import EmitError
from mase_hw.hardware.manifest import Manifest, typed
from mase_hw.host.disk import staged
from mase_hw.host.documents import Json, parse_json

FORMAT_VERSION = 1
"""Version of the manifest's layout."""
MANIFEST = "manifest.json"
PICTURE = "report/network.svg"
"""The drawing of the network, for reports of a bundle without its model."""
MOST_NAME = 255
"""Bytes of a file's name on every file system that matters."""


class Bundle:
    """The files of a bundle in memory, until :meth:`write`.

    Paths are relative and use ``/``. Same files, same bytes: nothing here knows the time or the machine.
    """

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self.manifest: Json = {"format_version": FORMAT_VERSION}

    def add(self, path: str, content: str | bytes) -> None:
        """Add or replace a file."""
        self._files[path] = content.encode() if isinstance(content, str) else content

    def remove(self, path: str) -> None:
        """Take a file out again."""
        del self._files[path]

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def read(self, path: str) -> bytes:
        """Content of a file."""
        return self._files[path]

    def manifest_text(self) -> str:
        """The manifest as JSON, with the hash of every file and of the rest of itself."""
        manifest = self._whole()
        return json.dumps({**manifest, "digest": own_digest(manifest)}, indent=2, sort_keys=True) + "\n"

    @property
    def digest(self) -> str:
        """What the manifest will say of itself: it changes with every byte of the bundle."""
        return own_digest(self._whole())

    @property
    def record(self) -> Manifest:
        """The manifest as records."""
        return typed({**self._whole(), "digest": ""})

    def _whole(self) -> Json:
        return {**self.manifest, "files": {path: digest(self._files[path]) for path in self}}

    def write(self, folder: Path) -> None:
        """Write the bundle beside ``folder`` and rename it into place.

        Raises:
            EmitError: If the folder cannot be written, or holds something that is not a bundle. What was added to an
                older bundle there stays.
        """
        folder = Path(folder)
        check_target(folder)
        self._check_names()
        made = [parent for parent in folder.parents if not parent.exists()]
        try:
            self._write(folder)
        except BaseException:
            for parent in made:  # the innermost first; what others have put there stays
                with contextlib.suppress(OSError):
                    parent.rmdir()
            raise

    def _check_names(self) -> None:
        """Refuse files with longer names than file systems take."""
        for path in self:
            name = max(path.split("/"), key=lambda part: len(part.encode()))
            if len(name.encode()) > MOST_NAME:
                raise EmitError(
                    "a file of the bundle would have a longer name than file systems take",
                    node=f"{name:.80}...",
                    got=f"{len(name.encode())} bytes",
                    expected=f"at most {MOST_NAME}",
                    remedy="give the layers of the model shorter names",
                )

    def _write(self, folder: Path) -> None:
        try:
            with staged(folder) as temporary:
                for path in self:
                    target = temporary / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(self._files[path])
                (temporary / MANIFEST).write_text(self.manifest_text())
                _keep_others(folder, temporary)
        except OSError as error:
            raise _cannot_write(folder, error) from error


def _keep_others(folder: Path, new: Path) -> None:
    """Take over what a bundle's folder holds besides the bundle, as what a simulator built there.

    Raises:
        EmitError: If it stands where the new bundle has a file.
    """
    own = _own_files(folder)
    for name in [] if own is None else sorted(_files(folder) - own):
        target = new / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(folder / name, target, follow_symlinks=False)
        except (FileExistsError, NotADirectoryError) as error:
            raise EmitError(
                "a file that was added to the bundle stands where the new one has a file",
                node=str(folder / name),
                remedy="move it out of the bundle, or choose another output folder",
            ) from error
        except OSError:  # no links here
            shutil.copy2(folder / name, target, follow_symlinks=False)


def check_target(folder: Path) -> None:
    """Refuse a folder that a bundle must not replace, before any work is done.

    Raises:
        EmitError: If it is a file, a folder with other content, or cannot be written.
    """
    folder = Path(folder)
    try:
        _check_target(folder)
    except (OSError, ValueError) as error:  # a name that no file system takes
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise EmitError(
            "the output folder cannot be used", node=f"{folder!s:.200}", got=reason, remedy="choose another name"
        ) from error


def _check_target(folder: Path) -> None:
    if "\0" in str(folder):  # which pathlib takes for a folder that is not there
        raise ValueError("a NUL in the name")
    if folder.is_dir():
        own = _own_files(folder)
        if own is None and any(folder.iterdir()):
            raise EmitError(
                "the output folder holds something that is not a bundle",
                node=str(folder),
                expected=f"a new or empty folder, or an older bundle (with our {MANIFEST})",
                remedy="choose another output folder, or empty this one",
            )
    elif folder.exists():
        raise EmitError("the output folder is a file", node=str(folder), remedy="choose another output folder")
    inside = next((above for above in folder.resolve().parents if _own_files(above) is not None), None)
    if inside is not None:
        raise EmitError(
            "the output folder lies in a bundle, which is replaced as a whole when it is written again",
            node=str(folder),
            got=f"the bundle {inside}",
            remedy="choose another output folder, beside the bundle",
        )
    parent = folder.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise EmitError(
            "the output folder cannot be written",
            node=str(folder),
            got=f"{parent} is not a folder one may write to",
            remedy="choose another output folder, or change the permissions",
        )


def _own_files(folder: Path) -> set[str] | None:
    """The files that a bundle of any version wrote; None for a folder that is none, whatever manifest it has."""
    try:
        manifest = parse_json((folder / MANIFEST).read_text())
        own = {MANIFEST, *manifest["files"]}
        return own if "mase_hw" in manifest["generator"] and "format_version" in manifest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _files(folder: Path) -> set[str]:
    """Everything in a folder but folders; a link to one is no folder."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


def _cannot_write(folder: Path, error: OSError) -> EmitError:
    return EmitError(
        "the bundle cannot be written",
        node=str(folder),
        got=f"{type(error).__name__}: {error.strerror or error}",
        remedy="check permissions and free space; the older bundle, if any, is untouched",
    )


def digest(content: bytes) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def own_digest(manifest: Json) -> str:
    """Hash of what a manifest says, but for the hash itself; no secret is in it, so it shows mistakes, not forgery."""
    said = {key: value for key, value in manifest.items() if key != "digest"}
    # As it is read back: JSON knows neither tuples nor keys that are numbers.
    return digest(json.dumps(json.loads(json.dumps(said)), sort_keys=True).encode())
