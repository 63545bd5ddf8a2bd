"""The checks of parameters in the RTL, each with what it must refuse, as declared beside it.

In a block that does nothing but ``$fatal`` the first comment is such as ``// Refuses WIDTH=0; *_SIGNED=2; SUM=1, N=2;
takes WIDTH=1``: sets of parameters, divided by semicolons, each of which must stop elaboration here while the other
parameters keep their defaults, and those behind ``takes`` must not. A pattern stands for every parameter of the module
that it matches, one at a time. A block around a module of checks says the same behind its label, of all that is
refused within.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .headers import read_header

GUARD = re.compile(r"begin : (g_\w+)((?:\s*//[^\n]*)*)\s*\$fatal\b")
"""A guard, from its label: its comments are the second group."""
AROUND = re.compile(r"begin : (g_\w+)(\s*// Refuses [^\n]*)\s*(\w+_check) #\(")
"""A block around a module of checks, which is the third group."""

Parameters = dict[str, int]


@dataclass(frozen=True)
class Guard:
    """One check of parameters.

    Args:
        module: The module that it is in.
        label: Of its block.
        begin: Offset of the label in the file.
        end: Offset at which ``$fatal`` ends.
        refused: Parameters that must stop elaboration here.
        taken: Parameters that are just legal here.
        part: The module of checks that it is around, if it is not a ``$fatal`` of its own.
    """

    module: str
    label: str
    begin: int
    end: int
    refused: tuple[Parameters, ...]
    taken: tuple[Parameters, ...]
    part: str = ""

    @property
    def id(self) -> str:
        """What its test is called."""
        return f"{self.module}.{self.label}"

    def messages(self, path: Path, fatal: Mapping[tuple[str, int], str]) -> list[str]:
        """What this check says, of all that stops an elaboration: messages by file and offset; ``path`` is its file."""
        if self.part:
            return [m for (file, _), m in fatal.items() if Path(file).stem == self.part]
        return [m for (file, at), m in fatal.items() if Path(file) == path and self.begin < at < self.end]


def guards_of(path: Path, text: str | None = None) -> list[Guard]:
    """Every guard of a file, in order; ``text`` is what stands in it, if it is not what lies on the disk.

    Raises:
        ValueError: If a guard does not say what it refuses, or says it in another way.
    """
    names = [p.name for p in read_header(path).parameters if p.kind == "parameter"]
    text = path.read_text(encoding="utf-8") if text is None else text
    found = sorted((*GUARD.finditer(text), *AROUND.finditer(text)), key=re.Match.start)
    return [
        Guard(
            *(path.stem, match[1], match.start(1), match.end()),
            *_sets(f"{path.stem}.{match[1]}", match[2], names),
            part=match[3] if match.re is AROUND else "",
        )
        for match in found
    ]


def _sets(where: str, comments: str, names: list[str]) -> tuple[tuple[Parameters, ...], tuple[Parameters, ...]]:
    words = " ".join(line.strip().removeprefix("//").strip() for line in comments.strip().splitlines())
    if not words.startswith("Refuses "):
        raise ValueError(f"{where} does not say what it refuses: write `// Refuses NAME=VALUE` above its $fatal")
    refused: list[Parameters] = []
    taken: list[Parameters] = []
    for entry in words.removeprefix("Refuses ").split(";"):
        choices = []
        for item in entry.strip().removeprefix("takes ").split(","):
            pattern, _, value = item.strip().partition("=")
            matching = fnmatch.filter(names, pattern)
            if not matching or not re.fullmatch(r"-?\d+", value):
                raise ValueError(f"{where} refuses {item.strip()!r}: no parameter is called so, or it has no number")
            choices.append([(name, int(value)) for name in matching])
        (taken if entry.strip().startswith("takes ") else refused).extend(map(dict, itertools.product(*choices)))
    return tuple(refused), tuple(taken)
