"""Lock files: what several processes share, one of them uses at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mase_hw.errors import EmitError, MaseHwError
from mase_hw.host.disk import not_written


@contextmanager
def locked(file: Path, what: str, kind: type[MaseHwError] = EmitError, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file, which is made with its folder and stays there; the system frees that of a process that dies.

    Args:
        file: The lock file. Who holds it may remove it with its folder; those that wait make it again.
        what: What is locked, such as ``"the build folder"``, for the error.
        kind: Class of the error.
        wait: Wait until it is free.

    Raises:
        MaseHwError: If the file cannot be written, of the class ``kind``.
        filelock.Timeout: If it is not free and ``wait`` is false.
    """
    # A marker instead of a lock, where a file system knows none, would outlive a process that is killed.
    lock = FileLock(file, blocking=wait, fallback_to_soft=False)
    try:
        while not lock.is_locked:
            file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # the folder was removed meanwhile
                lock.acquire()
    except Timeout:
        raise
    except OSError as problem:
        raise not_written(what, file.parent, problem, kind) from problem
    try:
        yield
    finally:
        lock.release()
