"""Levels of adder trees in the C++ that Verilator wrote, computed by the vector instructions of the processor.

A level adds neighbours, each sum a statement of its own with two extensions of sign and a mask: six instructions a sum.
Where the sums of a level lie behind each other in the model, and so do what they add, a level is a few instructions for
four sums. A statement is replaced only if it is, word for word, the sum of two neighbours that is meant.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from mase_hw.simulate.engines.batch.products import AS_IT_IS
from mase_hw.simulate.engines.batch.statements import Change, Function, Statement

LEAST = 2
"""Sums from which vector instructions are worth it."""

_MEMBER = re.compile(r"^ *(?P<type>CData|SData|IData|QData|VlWide<\d+>)/\*(?P<most>\d+):0\*/ (?P<name>\w+);$")
_SUM = re.compile(
    r"(?P<to>vlSelfRef\.\w+)=\((?P<mask>0x[0-9a-f]+)U&\(VL_EXTENDS_II\((?P<n>\d+),(?P<m>\d+),(?P<left>.+)\)"
    r"\+VL_EXTENDS_II\((?P=n),(?P=m),(?P<right>.+)\)\)\);"
)
_WORD = re.compile(r"(?P<name>vlSelfRef\.\w+)\[(?P<word>\w+)U\]")


class Layout:
    """Which variables of a class follow each other without a gap: members of one type, one behind the other."""

    def __init__(self, model: Path) -> None:
        self._next: dict[str, str | None] = {}
        self.types: dict[str, str] = {}
        for header in sorted(model.glob("*.h")):
            members = [_MEMBER.match(line) for line in header.read_text(**AS_IT_IS).splitlines()]
            for member, below in zip(members, [*members[1:], None], strict=True):
                if member is None:
                    continue
                name, kind = member["name"], member["type"]
                follows = below["name"] if below is not None and below["type"] == kind else None
                # A name of several classes: only what all of them say is known.
                if self.types.setdefault(name, kind) != kind:
                    self.types[name] = ""
                if self._next.setdefault(name, follows) != follows:
                    self._next[name] = None

    def follow(self, names: Sequence[str]) -> bool:
        """Whether these variables lie behind each other."""
        plain = [name.partition(".")[2] for name in names]
        return all(self._next.get(a) == b for a, b in itertools.pairwise(plain))


def levels(function: Function, text: str, layout: Layout) -> list[Change]:
    """Changes of the text by which levels of adder trees become calls of ``batch::sums`` and ``batch::sums_of_16``.

    Args:
        function: The function.
        text: The file that it is in.
        layout: Of the variables of the model.
    """
    changes: list[Change] = []
    run: list[tuple[Statement, re.Match[str]]] = []
    for statement in (*function.statements, None):
        found = _sum(statement) if statement is not None else None
        if run and (found is None or not _continues(run, found, layout)):
            changes += _called(run, layout)
            run = []
        if found is not None and statement is not None:
            run.append((statement, found))
    return changes


def _sum(statement: Statement) -> re.Match[str] | None:
    """The parts of a sum of two numbers that is a bit wider than they are."""
    if statement.equals != 1 or not statement.tokens[0].text.startswith("vlSelfRef."):
        return None
    found = _SUM.fullmatch("".join(token.text for token in statement.tokens) + ";")
    if found is None or int(found["n"]) != int(found["m"]) + 1 or int(found["mask"], 16) != (1 << int(found["n"])) - 1:
        return None
    return found


def _continues(run: Sequence[tuple[Statement, re.Match[str]]], found: re.Match[str], layout: Layout) -> bool:
    last = run[-1][1]
    return last["n"] == found["n"] and layout.follow([last["to"], found["to"]])


def _called(run: Sequence[tuple[Statement, re.Match[str]]], layout: Layout) -> list[Change]:
    """The call for a run of sums whose results lie behind each other."""
    if len(run) < LEAST:
        return []
    first, bits = run[0][1], int(run[0][1]["m"])
    to = first["to"]
    if layout.types.get(to.partition(".")[2]) != "IData":
        return []
    sides = [side for _, found in run for side in (found["left"], found["right"])]
    name = _sixteens(sides) if bits == 16 else None
    if name is not None:
        call = f"batch::sums_of_16<{len(run)}>(&{to}, &{name});"
    elif all(layout.types.get(side.partition(".")[2]) == "IData" for side in sides) and layout.follow(sides):
        call = f"batch::sums<{len(run)}, {bits}>(&{to}, &{sides[0]});"
    else:
        return []
    statements = [statement for statement, _ in run]
    return [(statements[0].start, statements[0].end, call), *((s.start, s.end, "") for s in statements[1:])]


def _sixteens(sides: Sequence[str]) -> str | None:
    """The variable whose numbers of 16 bits these expressions are, from the lowest."""
    names = set(re.findall(r"vlSelfRef\.\w+", " ".join(sides)))
    if len(names) != 1:
        return None
    (name,) = names
    return name if all(side in _places(name, lane) for lane, side in enumerate(sides)) else None


def _places(name: str, lane: int) -> tuple[str, ...]:
    """How Verilator writes a number of 16 bits of a packed variable: of words, of 64 bits, of 32."""
    word, high = divmod(lane, 2)
    wide = f"{name}[{word}U]"
    forms = [f"({wide}>>0x00000010U)" if high else f"(0x0000ffffU&{wide})"]
    shift = 16 * lane
    number = f"0x{shift:08x}U" if shift > 9 else f"{shift}U"
    of_64 = f"(IData)({name})" if not lane else f"(IData)(({name}>>{number}))"
    forms.append(f"(0x0000ffffU&{of_64})")
    return tuple(forms)
