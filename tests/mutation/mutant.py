"""A mutant: one small change of one source file, with a name that survives changes elsewhere in the file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """A replacement of a stretch of a source.

    Args:
        start: Offset of its first byte.
        end: Offset behind its last byte.
        text: What stands there instead.
        operator: What kind of fault this is.
        guard: Whether the change is in a check of parameters, which has no hardware of its own.
    """

    start: int
    end: int
    text: str
    operator: str
    guard: bool = False


@dataclass(frozen=True)
class Mutant:
    """An edit of a file.

    Args:
        id: Of this change at this place; it stays the same while the line does.
        file: The source, below the root of the repository.
        line: Its number, from 1.
        before: The line, or the part of it that changes if more than one line does.
        edit: What changes.
    """

    id: str
    file: str
    line: int
    before: str
    edit: Edit

    def apply(self, source: str) -> str:
        """The source with the fault in it."""
        raw = source.encode()
        return (raw[: self.edit.start] + self.edit.text.encode() + raw[self.edit.end :]).decode()

    def change(self, source: str) -> str:
        """The change in words: what stood there, and what stands there now."""
        old = source.encode()[self.edit.start : self.edit.end].decode()
        return " ".join(f"{old} -> {self.edit.text or 'nothing'}".split())


def named(file: str, source: str, edits: Iterable[Edit]) -> list[Mutant]:
    """Give every edit its name.

    The name is a hash of the file, the kind, the line's text, the place in it, and the replacement; equal ones are
    numbered. So it does not depend on what stands in other lines.
    """
    raw = source.encode()
    seen: Counter[str] = Counter()
    mutants = []
    for edit in sorted(set(edits), key=lambda e: (e.start, e.end, e.operator, e.text)):
        begin = raw.rfind(b"\n", 0, edit.start) + 1
        end = raw.find(b"\n", edit.start)
        line = raw[begin : end if end >= 0 else len(raw)].decode()
        column = edit.start - begin - (len(line) - len(line.lstrip()))
        old = raw[edit.start : edit.end].decode()
        key = "\0".join([file, edit.operator, line.strip(), str(column), old, edit.text])
        seen[key] += 1
        digest = hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()[:10]
        mutants.append(Mutant(digest, file, raw.count(b"\n", 0, edit.start) + 1, line.strip(), edit))
    return mutants


def sample(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Choose mutants at random, each by its own name: what changes elsewhere does not change the choice."""
    ranked = sorted(mutants, key=lambda m: hashlib.sha256(f"{seed}:{m.id}".encode()).digest())
    return sorted(ranked[:count], key=lambda m: (m.file, m.edit.start, m.id))
