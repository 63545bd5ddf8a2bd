"""Statements of the functions that Verilator wrote: where they are, what they assign and which variables they name.

Only as much of C++ is read as those functions have: assignments, ``if`` with ``else``, declarations and calls. Whatever
else a function has makes it unknown, and it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

_TOKEN = re.compile(
    r"""[ \n]+|/\*.*?\*/|//[^\n]*
    |(?P<name>(?:(?:vlSelfRef|vlSelf|vlSymsp)(?:\.|->)(?:\w+(?:\.|->))*)?[A-Za-z_]\w*)
    |(?P<text>"(?:[^"\\]|\\.)*"s?|'(?:[^'\\]|\\.)')
    |(?P<number>\d\w*)
    |(?P<sign>->|::|<<=?|>>=?|&&|\|\||[=!<>+\-*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    |(?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)
_FUNCTION = re.compile(r"^void (\w+___nba_\w+)\(\w+\* vlSelf\) \{\n", re.MULTILINE)
_BODY = "    // Body\n"

Change: TypeAlias = "tuple[int, int, str]"
"""A part of a text, from where to where, and what stands there instead."""


class UnknownError(Exception):
    """The text has something that this reader does not know."""


@dataclass(frozen=True)
class Token:
    """A piece of text, where it is, and whether it is the name of a variable, a type or a function."""

    text: str
    start: int
    end: int
    is_name: bool


@dataclass(frozen=True)
class Statement:
    """One statement.

    Args:
        start: Where its text begins, after blanks.
        end: Where it ends.
        tokens: Those of an assignment or another plain statement; of an ``if``, its condition.
        then: What an ``if`` does.
        other: What its ``else`` does.
        is_if: Whether it is an ``if``.
        target: The variable that an assignment writes, whole or a part of it.
        equals: Which token of an assignment is the ``=``.
    """

    start: int
    end: int
    tokens: tuple[Token, ...]
    then: tuple[Statement, ...] = ()
    other: tuple[Statement, ...] = ()
    is_if: bool = False
    target: str | None = None
    equals: int = 0

    def own(self) -> Iterator[str]:
        """Names in it, without those of the statements below it."""
        return (token.text for token in self.tokens if token.is_name)

    def inner(self) -> Iterator[Statement]:
        """It and all statements below it."""
        yield self
        for statement in (*self.then, *self.other):
            yield from statement.inner()

    def copied(self) -> str | None:
        """Of an assignment of one whole variable to another, the latter."""
        return self.tokens[2].text if self.equals == 1 and len(self.tokens) == 3 and self.tokens[2].is_name else None


@dataclass(frozen=True)
class Function:
    """A function that computes what registers take, or what follows from it.

    Args:
        name: Its name.
        start: Where its declarations begin.
        end: Where its last statement ends.
        statements: Those of its body.
    """

    name: str
    start: int
    end: int
    statements: tuple[Statement, ...]

    def all(self) -> Iterator[Statement]:
        """Its statements and all below them, in the order of the text."""
        for statement in self.statements:
            yield from statement.inner()


def functions(text: str) -> Iterator[Function]:
    """The functions of a file that are evaluated at every edge of the clock and can be read."""
    for match in _FUNCTION.finditer(text):
        end = text.index("\n}\n", match.end()) + 1
        body = text.find(_BODY, match.end(), end)
        if body < 0:
            continue
        body += len(_BODY)
        try:
            reader = _Reader(text, body, end)
            statements = reader.block()
        except UnknownError:
            continue
        yield Function(match[1], match.end(), end, statements)


class _Reader:
    def __init__(self, text: str, start: int, end: int) -> None:
        self._tokens = []
        for match in _TOKEN.finditer(text, start, end):
            kind = match.lastgroup
            if kind == "unknown":
                raise UnknownError(match[0])
            if kind:
                self._tokens.append(Token(match[0], match.start(), match.end(), kind == "name"))
        self._at = 0

    def block(self) -> tuple[Statement, ...]:
        """Statements up to the end, or to the brace that closes them."""
        found = []
        while self._at < len(self._tokens) and self._peek() != "}":
            found.append(self._statement())
        return tuple(found)

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _take(self, wanted: str | None = None) -> Token:
        if self._at == len(self._tokens) or wanted not in (None, self._tokens[self._at].text):
            raise UnknownError(wanted)
        self._at += 1
        return self._tokens[self._at - 1]

    def _statement(self) -> Statement:
        first = self._tokens[self._at]
        if first.text == "if":
            return self._if()
        if first.text in ("for", "while", "do", "switch", "return", "goto", "{", "#", "else"):
            raise UnknownError(first.text)
        begin, depth, equals = self._at, 0, 0
        while True:
            token = self._take()
            if token.text in "([{":
                depth += 1
            elif token.text in ")]}":
                depth -= 1
            elif token.text == "=" and not depth and not equals:
                equals = self._at - 1 - begin
            if depth < 0:
                raise UnknownError(token.text)
            if token.text == ";" and not depth:
                break
        tokens = tuple(self._tokens[begin : self._at - 1])
        target = None
        if equals:
            if not first.is_name or (equals > 1 and tokens[1].text != "["):
                raise UnknownError(first.text)
            target = first.text
        return Statement(first.start, token.end, tokens, target=target, equals=equals)

    def _if(self) -> Statement:
        first = self._take("if")
        self._take("(")
        begin, depth = self._at, 1
        while depth:
            token = self._take()
            depth += (token.text == "(") - (token.text == ")")
        condition = tuple(self._tokens[begin : self._at - 1])
        self._take("{")
        then = self.block()
        last = self._take("}")
        other: tuple[Statement, ...] = ()
        if self._peek() == "else":
            self._take()
            if self._peek() == "if":
                other = (self._if(),)
                return Statement(first.start, other[0].end, condition, then, other, is_if=True)
            self._take("{")
            other = self.block()
            last = self._take("}")
        return Statement(first.start, last.end, condition, then, other, is_if=True)


def written(statement: Statement) -> set[str]:
    """Names without their objects that a statement, not those below it, may write: of a call, all."""
    if statement.is_if:
        return set()
    if statement.target:
        return {last_part(statement.target)}
    return {last_part(name) for name in statement.own()}


def last_part(name: str) -> str:
    """A name without the object that it belongs to."""
    return name.replace("->", ".").rpartition(".")[2]


def edited(text: str, changes: list[Change]) -> str:
    """The text with parts of it replaced."""
    parts, done = [], 0
    for start, end, new in sorted(changes):
        if start < done:
            raise ValueError("two changes of one part")
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])
