"""Just enough of a SystemVerilog reader to see what a module declares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_PARAMETER = re.compile(
    r"(?:(parameter|localparam)\s+)?(?:(int|longint|logic\s*\[[^\]]*\])\s+)?(\w+)\s*(?:=\s*(.+))?", re.DOTALL
)
_PORT = re.compile(r"(input|output)\s+logic\s*(?:signed\s*)?((?:\[[^\]]*\]\s*)*)(\w+)")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a header: ``kind`` is parameter or localparam, ``type`` is empty if none is written."""

    kind: str
    type: str
    name: str
    default: str


@dataclass(frozen=True)
class Header:
    """What stands between ``module`` and the first statement of its body."""

    name: str
    parameters: tuple[Parameter, ...]
    ports: dict[str, str]
    """Direction by port name."""
    dimensions: dict[str, int]
    """Packed dimensions by port name."""


def without_comments(text: str) -> str:
    """The source without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def read_header(path: Path) -> Header:
    """Read the one module of a file.

    Raises:
        ValueError: If there is another number of modules, or something is written in another way than ours.
    """
    text = without_comments(path.read_text(encoding="utf-8"))
    names = re.findall(r"^\s*module\s+(\w+)", text, re.MULTILINE)
    if len(names) != 1:
        raise ValueError(f"{path.name} has {len(names)} modules")
    rest = text[re.search(r"\bmodule\s+\w+\s*", text).end() :]  # type: ignore[union-attr]
    parameters: list[Parameter] = []
    if rest.startswith("#"):
        inside, rest = _group(rest)
        kind = ""
        for item in _split(inside):
            match = _PARAMETER.fullmatch(item)
            if match is None:
                raise ValueError(f"{path.name}: cannot read the parameter {item!r}")
            # As in the language, a missing keyword means that of the item before.
            kind = match[1] or kind
            parameters.append(Parameter(kind, match[2] or "", match[3], (match[4] or "").strip()))
    ports, dimensions = {}, {}
    for item in filter(None, _split(_group(rest)[0])):  # a module that only checks has no ports
        match = _PORT.fullmatch(item)
        if match is None:
            raise ValueError(f"{path.name}: cannot read the port {item!r}")
        ports[match[3]] = match[1]
        dimensions[match[3]] = match[2].count("[")
    return Header(names[0], tuple(parameters), ports, dimensions)


def _group(text: str) -> tuple[str, str]:
    """The inside of the first parenthesis, and what follows it."""
    start, depth = text.index("("), 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return text[start + 1 : at], text[at + 1 :]
    raise ValueError("unbalanced parentheses")


def _split(text: str) -> list[str]:
    """Split at the commas outside any bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
