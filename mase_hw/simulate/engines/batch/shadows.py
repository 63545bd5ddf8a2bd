"""Registers that Verilator computes in a copy first, written in place where nothing reads them in between.

Of a register that is read and written in one function, Verilator makes a copy at the beginning, lets statements write
the copy, and puts that back after the last statement that reads the register. Where nothing that comes after a write
reads the register before the copy is put back, copy and register never differ where it could be seen, and the copy is
left out: four instructions of most counters.
"""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.simulate.engines.batch.statements import Change, Function, Statement, last_part

COPY = "__Vdly__"
_CLEAN, _WRITTEN, _BACK = 0, 1, 2


class _SeenError(Exception):
    """Somebody could tell the copy from the register."""


def in_place(function: Function) -> list[Change]:
    """Changes of the text that leave copies out: those that are variables of the function itself."""
    mentions: dict[str, list[Statement]] = {}
    writers: dict[str, list[Statement]] = {}
    for statement in function.all():
        for name in set(statement.own()):
            mentions.setdefault(name, []).append(statement)
        if statement.target:
            writers.setdefault(statement.target, []).append(statement)
    changes: list[Change] = []
    for position, first in enumerate(function.statements):
        copy, register = first.target, first.copied()
        if copy is None or register is None or not copy.startswith(COPY) or COPY in register:
            continue
        if any(writer.copied() != copy for writer in writers.get(register, [])):
            continue
        before = function.statements[:position]
        if any(copy in inner.own() for statement in before for inner in statement.inner()):
            continue
        try:
            if _walk(function.statements[position + 1 :], copy, register, _CLEAN) != _BACK:
                continue
        except _SeenError:
            continue
        for statement in mentions[copy]:
            if statement is first or statement.target == register:
                changes.append((statement.start, statement.end, ""))
            else:
                changes += [(t.start, t.end, register) for t in statement.tokens if t.text == copy]
    return changes


def _walk(statements: Sequence[Statement], copy: str, register: str, state: int) -> int:
    """What has become of the copy after these statements.

    Raises:
        _SeenError: If one of them reads the copy, reads the register while the copy is another, writes the copy once it
            was put back, or may do any of it.
    """
    for statement in statements:
        names = [token.text for token in statement.tokens if token.is_name]
        if statement.copied() == copy and statement.target == register:
            state = _BACK
            continue
        if not statement.is_if and statement.target is None and any(last_part(n) == last_part(register) for n in names):
            raise _SeenError  # a call may do anything with it
        writes = statement.target == copy
        if names.count(copy) > writes or (copy in names and state == _BACK):
            raise _SeenError
        if state == _WRITTEN and any(last_part(name) == last_part(register) for name in names):
            raise _SeenError
        if writes:
            state = _WRITTEN
        if statement.is_if:
            ways = {_walk(way, copy, register, state) for way in (statement.then, statement.other)}
            if ways == {_WRITTEN, _BACK}:
                raise _SeenError
            state = max(ways)
    return state
