"""JSON and TOML written by others: whatever is wrong with them is a ``ValueError``."""

from __future__ import annotations

import json
import tomllib
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document.

    Raises:
        ValueError: If it is none, is nested beyond reason, or has a number of thousands of digits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML document.

    Raises:
        ValueError: If it is none, is nested beyond reason, or has a number of thousands of digits.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
