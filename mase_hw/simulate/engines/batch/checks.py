"""Checks that cost what they look at, and not what they wait for.

Every check of the library (``invariant``, ``stream_check``) waits for the first reset: ``if (armed & ~rst & broken)``
and ``armed = armed | rst``, in every cycle. What is broken is nearly always 0, so it is looked at first, and what has
to do with reset is done together where reset is high. All of it is what was written, in another order: a condition has
no effects, and the flag is set where nothing reads it afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mase_hw.simulate.engines.batch.statements import Change, Function, Statement, Token, last_part

_SET = re.compile(
    r"(?P<flag>[\w.>-]+)\s*=\s*\(\(IData\)\((?P<same>[\w.>-]+)\)\s*\|\s*\(IData\)\((?P<reset>[\w.>-]+)\)\);"
)
_GUARD = "((IData)({})&(~(IData)({})))"
_NAMES = (5, 14)  # which tokens of it are the flag and the reset


def rare_first(function: Function, text: str) -> list[Change]:
    """Changes of the text by which checks look at what is broken first, and wait for reset together.

    Args:
        function: The function.
        text: The file that it is in.
    """
    changes: list[Change] = []
    written = {last_part(inner.target) for inner in function.all() if inner.target}
    after: dict[str, int] = {}  # where each name is used last
    for position, statement in enumerate(function.statements):
        for inner in statement.inner():
            after.update({last_part(name): position for name in inner.own()})
    late: dict[str, list[Statement]] = {}
    for position, statement in enumerate(function.statements):
        if statement.is_if:
            changes += _reordered(statement, text)
        elif found := _SET.fullmatch(text, statement.start, statement.end):
            flag, reset = last_part(found["flag"]), last_part(found["reset"])
            if found["flag"] == found["same"] and after[flag] == position and reset not in written:
                late.setdefault(found["reset"], []).append(statement)
    for reset, group in late.items():
        changes += [(statement.start, statement.end, "") for statement in group]
        sets = "".join(f"        {text[statement.start : statement.end]}\n" for statement in group)
        changes.append((function.end, function.end, f"    if ({reset}) {{\n{sets}    }}\n"))
    return changes


def _reordered(statement: Statement, text: str) -> list[Change]:
    """The condition of a check, what is broken first."""
    tokens = statement.tokens
    unlikely = tokens[0].text == "VL_UNLIKELY"
    inside = _without_parentheses(tokens[1:] if unlikely else tokens)
    size = len(_GUARD.replace("{}", "x").replace("IData", "x"))
    guard, rest = inside[:size], inside[size + 1 :]
    if len(rest) < 1 or inside[size].text != "&":
        return []
    flag, reset = (guard[place].text for place in _NAMES)
    if "".join(token.text for token in guard) != _GUARD.format(flag, reset):
        return []
    depth = 0
    for token in rest:
        depth += (token.text in "([") - (token.text in ")]")
        # Another operator on this level would bind the guard in another way; "=" and the like would be an effect.
        if token.text.endswith("=") and token.text not in ("==", "!=", "<=", ">="):
            return []
        if not depth and not token.is_name and token.text not in ")]":
            return []
    broken = f"(1U & {text[rest[0].start : rest[-1].end]})"
    first = f"VL_UNLIKELY(({broken}))" if unlikely else broken
    wait = f"{text[guard[0].start : guard[-1].end]}"
    return [(tokens[0].start, tokens[-1].end, f"{first} && {wait}")]


def _without_parentheses(tokens: Sequence[Token]) -> Sequence[Token]:
    """An expression without the parentheses around all of it."""
    while len(tokens) > 1 and tokens[0].text == "(":
        depth, last = 0, 0
        for place, token in enumerate(tokens):
            depth += (token.text == "(") - (token.text == ")")
            if not depth:
                last = place
                break
        if last < len(tokens) - 1:
            break
        tokens = tokens[1:-1]
    return tokens
