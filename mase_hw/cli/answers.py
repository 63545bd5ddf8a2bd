"""What a command answers: text for people, or one JSON object for programs.

Every object has ``command``, ``mase_hw`` (the version) and ``exit_code``, then what the command found, or ``error``.
Keys are in snake_case; what JSON does not have (infinite numbers) is null. Nothing else is written to the standard
output then.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mase_hw._version import __version__
from mase_hw.errors import MaseHwError
from mase_hw.host.documents import Json

HEAD = ("command", "mase_hw", "exit_code")
"""Keys of every object."""


def answer(arguments: argparse.Namespace, code: int, found: Json, text: str | Callable[[], object]) -> int:
    """Print what a command found.

    Args:
        arguments: Of the command line; ``json`` decides.
        code: The exit code.
        found: For programs.
        text: For people: a text, or what prints it.

    Returns:
        The exit code.
    """
    if arguments.json:
        print(document(arguments.command, code, found), flush=True)
    elif callable(text):
        text()
    elif text:
        print(text, flush=True)
    return code


def document(command: str, code: int, found: Json) -> str:
    """The JSON object of a command."""
    taken = [key for key in HEAD if key in found]
    assert not taken, taken
    head = dict(zip(HEAD, (command, __version__, code), strict=True))
    return json.dumps(plain({**head, **found}), indent=1, allow_nan=False)


def error_document(command: str, code: int, error: MaseHwError) -> str:
    """The JSON object of a command that could not do what it was asked for."""
    names = ("message", "node", "field", "got", "expected", "remedy")
    told = {name: None if (value := getattr(error, name)) is None else str(value) for name in names}
    return document(command, code, {"error": {"kind": type(error).__name__, **told}})


def plain(value: Any) -> Any:
    """JSON types; JSON has no infinite numbers, so they are null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
