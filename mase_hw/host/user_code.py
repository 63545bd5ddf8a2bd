"""A user's own code, run on the user's behalf: whatever it raises becomes an error that names the user's line.

That includes ``sys.exit``: a program that ends in the middle of its caller's work has not done that work.
"""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from mase_hw.errors import GraphError, MaseHwError

_PACKAGE = f"{Path(__file__).resolve().parents[1]}/"
_LIBRARIES = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Folders of Python and of installed packages, whose lines are the user's only if there is no other."""
_NEVER = ("torch", "numpy")
"""Installed packages in which an error comes up that was made elsewhere."""
_TRACER = str(Path("transformers", "utils", "fx.py"))


@contextmanager
def user_code(problem: str, kind: type[MaseHwError] = GraphError, **more: str | None) -> Iterator[None]:
    """Run a user's code: a model's ``forward``, a file, a generator of batches.

    Args:
        problem: What is wrong if it raises: a sentence without its end that says what was being done.
        kind: Class of the error.
        more: Further parts of the error; ``node`` is only used if no line of the user's is known.

    Raises:
        MaseHwError: For anything that the code raises, ``SystemExit`` included, but for an interrupt and for errors of
            this package, which pass.
    """
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit, MaseHwError):
        raise
    except BaseException as error:
        node = more.pop("node", None)
        raise kind(problem, node=place(error) or node, got=reason(error), **more) from error


def reason(error: BaseException) -> str:
    """What a user's code raised, in a few words: the class, and the first line of the text."""
    if isinstance(error, SystemExit):
        return (
            f"SystemExit: it asks Python to end, with sys.exit({'' if error.code is None else f'{error.code!r:.80}'})"
        )
    text = first_line(error)
    return f"{type(error).__name__}: {text:.400}" if text else type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of what an exception says; nothing if it says nothing, or fails to."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an exception of the user's own
        return ""
    return lines[0] if lines else ""


def place(error: BaseException) -> str | None:
    """The user's line behind an exception, as ``file:line: source``; None if no line is the user's.

    The innermost line that belongs neither to this package, nor to PyTorch, nor to Python or an installed package; if
    there is none, the innermost one of an installed package.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return _shown(error.filename, error.lineno)
    own: str | None = None
    installed: str | None = None
    strangers = (_PACKAGE, *_folders(_NEVER))
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
        if file.startswith("<") or file.endswith(_TRACER):
            continue
        path = str(Path(file).absolute())
        if path.startswith(strangers):
            continue
        if path.startswith(_LIBRARIES):
            installed = _shown(file, line) if "-packages" in path else installed
        else:
            own = _shown(file, line)
    return own or installed


def place_of_call(frame: FrameType | None) -> str | None:
    """The user's line of a running call, as :func:`place` gives it; the innermost one that is the user's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and is_users(file):
            return _shown(file, frame.f_lineno)
        frame = frame.f_back
    return None


def is_users(file: str | None) -> bool:
    """Whether a file of source is the user's: none of Python, of an installed package or of this one."""
    if file is None:
        return True  # typed in
    return not file.startswith("<frozen") and _is_outside(str(Path(file).absolute()) if file[:1] != "/" else file)


@functools.cache
def _is_outside(path: str) -> bool:
    """Whether an absolute path leads neither to an installed package nor to this one."""
    return not str(Path(path)).startswith((_PACKAGE, *_LIBRARIES))


def _folders(packages: tuple[str, ...]) -> list[str]:
    """Where packages lie, of those that are imported."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in packages]
    return [f"{Path(file).parent}/" for file in files if file]


def _shown(file: str, line: int) -> str:
    source = linecache.getline(file, line).strip()
    return f"{file}:{line}: {source:.160}" if source else f"{file}:{line}"
