"""JSON and TOML written by others: whatever is wrong with them is a ``ValueError``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
"""A JSON object or a TOML table, as it is read from a file or written to one: at the border of the package only."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document.

    Raises:
        ValueError: If it is none, is nested beyond reason, or has a number of thousands of digits.
    """
    return _parsed(json.loads, text)


def parse_toml(text: str) -> Json:
    """The table of a TOML document.

    Raises:
        ValueError: If it is none, is nested beyond reason, or has a number of thousands of digits.
    """
    made: Json = _parsed(tomllib.loads, text)
    return made


def _parsed(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
