"""Results that are computed again only if what they follow from has changed.

Verilator evaluates in every cycle all that follows from registers: casts, rectifiers and maxima of data that waits in a
FIFO for hundreds of cycles. Statements that assign such results are gathered, as far as they follow from the same few
words, and guarded by a comparison of these words with those of the last evaluation.

Statements are gathered only where it makes no difference: each is an assignment of an expression without effects;
nothing between it and the place where it is moved to writes what it reads, or names what it assigns; and what it
assigns is assigned nowhere else but before the first cycle, so that it still holds what was computed last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mase_hw.simulate.engines.batch.shadows import COPY
from mase_hw.simulate.engines.batch.statements import Change, Function, Statement, last_part, written

MOST_WORDS = 6
MOST_NEW = 2
"""Words that a group follows from, and by which one statement may raise them."""
LEAST_WORK = 20
WORK_OF_A_WORD = 6
"""Operators from which a guard is worth it, and more for every word that it compares."""
AHEAD = 400
"""Statements after the first of a group in which others are looked for."""

_CASTS = frozenset({"CData", "SData", "IData", "QData"})
_PURE = re.compile(r"VL_(EXTENDS?|GTS|GTES|LTS|LTES|MULS|SHIFT[LR]S?|REDXOR|REDAND|REDOR)_[IQ]+")
_WORK = frozenset({"+", "-", "*", "&", "|", "^", "~", "<<", ">>", "==", "!=", "<", ">", "<=", ">=", "?"})
_NEUTRAL = frozenset({"(", ")", ",", ":", "!", "&&", "||"})


@dataclass
class _Value:
    """What an assignment reads: expressions of one word, and the variables in them; and how much it computes."""

    leaves: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    work: int = 0


@dataclass
class _Group:
    places: list[int]
    inputs: set[str]
    reads: set[str]
    outputs: set[str]
    work: int


def kept(function: Function, text: str, sizes: Mapping[str, int], elsewhere: Counter[str]) -> list[list[Change]]:
    """Changes of the text, a list for each group, that guard what follows from few words.

    Args:
        function: The function, of an object of which there is one.
        text: The file that it is in.
        sizes: Bits of the variables of the model.
        elsewhere: How many statements write each variable, by its name without its object, in all functions that are
            evaluated again and again.
    """
    statements = function.statements
    names = [frozenset(last_part(n) for inner in s.inner() for n in inner.own()) for s in statements]
    each = [[name for inner in s.inner() for name in written(inner)] for s in statements]
    here = Counter(name for group in each for name in group)
    writes = [frozenset(group) for group in each]
    # What one statement assigns, and no other.
    values = [
        _value(s) if s.equals == 1 and here[t := last_part(s.tokens[0].text)] == 1 and elsewhere[t] <= 1 else None
        for s in statements
    ]
    changes: list[list[Change]] = []
    taken: set[int] = set()
    for first, value in enumerate(values):
        if first in taken or value is None:
            continue
        group = _grown(first, values, names, writes, taken)
        if group.work >= LEAST_WORK + WORK_OF_A_WORD * len(group.inputs):
            taken.update(group.places)
            changes.append(_guarded(function, text, group, sizes, names))
    return changes


def _value(statement: Statement) -> _Value | None:
    """What the right side of a pure assignment of a whole variable reads."""
    if statement.equals != 1:
        return None
    tokens = statement.tokens[2:]
    value, place = _Value(), 0
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if not token.is_name:
            if token.text in _WORK:
                value.work += 1
            elif token.text not in _NEUTRAL and not token.text[0].isdigit():
                return None
            continue
        if token.text in _CASTS:
            continue
        if _PURE.fullmatch(token.text):
            value.work += 1
            continue
        if place < len(tokens) and tokens[place].text == "(":
            return None
        leaf = [token.text]
        value.reads.add(last_part(token.text))
        depth = 0
        while place < len(tokens) and (depth or tokens[place].text == "["):
            inner = tokens[place]
            depth += (inner.text == "[") - (inner.text == "]")
            leaf.append(inner.text)
            if inner.is_name and inner.text not in _CASTS:
                value.reads.add(last_part(inner.text))
            place += 1
        value.leaves.add("".join(leaf))
    assigned = statement.tokens[0].text
    if last_part(assigned) in value.reads or any(COPY in name for name in (assigned, *value.reads)):
        return None
    # An element that is read only if its number is one of the array.
    lazy = any(token.text in ("?", "&&", "||") for token in tokens)
    return None if lazy and any(re.search(r"\[(?!\w+\])", leaf) for leaf in value.leaves) else value


def _grown(
    first: int,
    values: Sequence[_Value | None],
    names: Sequence[frozenset[str]],
    writes: Sequence[frozenset[str]],
    taken: set[int],
) -> _Group:
    """The statement and those after it that follow from it, or from the same words."""
    start = values[first]
    assert start is not None
    group = _Group([first], set(start.leaves), set(start.reads), set(writes[first]), start.work)
    # Of the statements that are not in the group, since its first.
    changed: set[str] = set()
    named: set[str] = set()
    for place in range(first + 1, min(first + AHEAD, len(values))):
        value = values[place]
        if value is not None and place not in taken and not writes[place] & group.reads:
            new = {leaf for leaf in value.leaves if leaf not in group.inputs and last_part(leaf) not in group.outputs}
            if len(new) <= min(MOST_NEW, MOST_WORDS - len(group.inputs), len(value.leaves) - 1):
                group.places.append(place)
                group.inputs |= new
                group.reads |= value.reads - group.outputs
                group.outputs |= writes[place]
                group.work += value.work
                continue
        changed |= writes[place]
        named |= names[place]
        if group.reads & changed or group.outputs & named:
            break
    return group


def _guarded(
    function: Function, text: str, group: _Group, sizes: Mapping[str, int], names: Sequence[frozenset[str]]
) -> list[Change]:
    """The changes that put a group, behind its guard, where its last statement is."""
    statements = [function.statements[place] for place in group.places]
    inputs = sorted(group.inputs)
    before = [f"static QData was_{number} = 0ULL;" for number in range(len(inputs))]
    before += [f"const QData is_{number} = {leaf};" for number, leaf in enumerate(inputs)]
    after = [f"was_{number} = is_{number};" for number in range(len(inputs))]
    differs = [f"(is_{number} ^ was_{number})" for number in range(len(inputs))]
    narrow = next((i for i, leaf in enumerate(inputs) if sizes.get(last_part(leaf), 64) <= 32), None)
    if narrow is None:
        before.append("static bool known = false;")
        after.append("known = true;")
        differs.append("!known")
    else:
        before[narrow] = f"static QData was_{narrow} = ~0ULL;"  # no number of 32 bits
    last = []
    others = frozenset().union(*(n for place, n in enumerate(names) if place not in set(group.places)))
    for number, statement in enumerate(statements):
        local = statement.tokens[0].text
        if last_part(local) == local and local in others:
            before.append(f"static decltype({local}) result_{number};")
            after.append(f"result_{number} = {local};")
            last.append(f"{local} = result_{number};")
    body = [text[statement.start : statement.end] for statement in statements]
    lines = [*before, f"if ({' | '.join(differs)}) {{", *(f"    {line}" for line in (*body, *after)), "}", *last]
    new = "{\n" + "".join(f"        {line}\n" for line in lines) + "    }"
    return [*((s.start, s.end, "") for s in statements[:-1]), (statements[-1].start, statements[-1].end, new)]
