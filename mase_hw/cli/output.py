"""Standard output that says so when it cannot be written: a closed pipe, a full device, a closed descriptor.

None of these is a verdict about hardware, so none may end with the exit code of one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from mase_hw.errors import OutputError


class Output:
    """A stream of text whose failures are :class:`OutputError`, no matter which code writes to it.

    Args:
        stream: What is written to; None if the process has no standard output.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write; what the encoding does not have is written as an escape."""
        try:
            return int(self._stream.write(text))
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            return self.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError, AttributeError) as error:  # closed, or there is none
            raise _failed(error) from error

    def writelines(self, lines: Any) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is still held back."""
        try:
            self._stream.flush()
        except (OSError, ValueError, AttributeError) as error:
            raise _failed(error) from error


def _failed(error: Exception) -> OutputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return OutputError(
        "the standard output cannot be written",
        node="stdout",
        got=reason or type(error).__name__,
        remedy="check what reads it, or the disk it goes to",
    )


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Run a block whose standard output is an :class:`Output`; everything is written at its end.

    Raises:
        OutputError: If something could not be written.
    """
    before = sys.stdout
    sys.stdout = Output(before)
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout = before


def abandon() -> None:
    """Make Python drop what it still holds for the standard output, instead of failing over it when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
