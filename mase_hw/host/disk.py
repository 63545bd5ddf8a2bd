"""Folders that cannot be written, and full disks, of which the tools that fill them do not always tell."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from mase_hw.errors import EmitError, MaseHwError

_FULL = 64 << 10
PATIENCE = 5.0
"""Seconds for a tool that nobody waits for any more to end."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def is_full(folder: Path) -> bool:
    """Whether nothing more can be written to the disk of a folder."""
    try:
        return shutil.disk_usage(folder).free < _FULL
    except OSError:
        return False


def full_disk(folder: Path, output: str) -> str | None:
    """What to do if a tool failed because a disk is full; None if none is.

    Args:
        folder: Where the tool was to write; beside it, compilers write to the folder for temporary files.
        output: What it printed.
    """
    for place in (folder, Path(tempfile.gettempdir())):
        if is_full(place):
            return f"the disk of {place} is full: free space, or choose another folder"
    if any(os.strerror(number) in output for number in _NO_SPACE):
        return f"the disk is full: free space on that of {folder} and of {tempfile.gettempdir()}"
    return None


def not_written(what: str, folder: Path, problem: OSError, kind: type[MaseHwError] = EmitError) -> MaseHwError:
    """The error for a folder that cannot be written, with what to do about it.

    Args:
        what: What cannot be written, such as ``"the build folder"``.
        folder: Where it is.
        problem: What the system said.
        kind: Class of the error.
    """
    full = problem.errno in _NO_SPACE
    remedy = "free space on its disk" if full else "check the path and its permissions"
    return kind(
        f"{what} cannot be written", node=str(folder), got=str(problem), remedy=f"{remedy}, or choose another folder"
    )


@contextlib.contextmanager
def writing(what: str, folder: Path, kind: type[MaseHwError] = EmitError) -> Iterator[None]:
    """Give an error of the system the words of :func:`not_written`, which has the arguments."""
    try:
        yield
    except OSError as problem:
        raise not_written(what, folder, problem, kind) from problem


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file, and its folder, so that a reader finds all of it or what was there before.

    Raises:
        OSError: If it cannot be written; then nothing is left beside it.
    """
    partial = file.with_name(f".{file.name:.80}.{uuid.uuid4().hex[:8]}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def refuse_foreign(folder: Path, file: str, what: str) -> None:
    """Refuse a folder that is to be replaced and holds something else.

    Args:
        folder: New or empty, or with the file.
        file: What an older one has.
        what: What it holds then.

    Raises:
        EmitError: If it is neither.
    """
    if folder.exists() and not (folder / file).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        message = f"the folder holds something else than {what}"
        raise EmitError(message, node=str(folder), remedy="choose another folder")


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A folder to fill, which replaces ``folder`` if nothing fails, and is removed if something does.

    Raises:
        OSError: If it cannot be made or renamed; then what was there stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name:.40}.", dir=folder.parent))
    try:
        new.chmod(0o755)
        yield new
        _swap(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, folder: Path) -> None:
    """Put ``new`` where ``folder`` is; the old one is gone only once the new one stands."""
    if not folder.exists():
        os.rename(new, folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name:.40}.old.", dir=folder.parent))
    try:
        os.rename(folder, aside / "old")
        os.rename(new, folder)
    except BaseException:  # an interrupt, too, must not cost what was there
        if (aside / "old").exists() and not folder.exists():
            os.rename(aside / "old", folder)
        raise
    finally:
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)


def emptied(folder: Path) -> None:
    """Make an empty folder in place of the one that is there.

    A tool whose host was killed may write to it for a moment longer: that is waited for.

    Raises:
        OSError: If it cannot be made.
    """
    until = time.monotonic() + PATIENCE
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
        except FileExistsError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
