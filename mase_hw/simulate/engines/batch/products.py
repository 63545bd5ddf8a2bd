"""Rows of 8-bit products in the C++ that Verilator wrote, computed by the vector instructions of the processor.

Verilator writes the products of a dot product one by one, each with its two operands cut out of a packed register,
extended, and put back into another: about twelve instructions a product, which are half of what a network of linear
layers takes. Eight of them are one instruction of every processor of today.

A statement is replaced only if it is shown to mean the same: its right side is evaluated on symbolic bits, and must be
nothing but the products of the bytes of two variables, lane by lane. Whatever else it is, it stays as it was. Nothing
is assumed of the design, so a design with a fault keeps it (``tests/engines/test_products.py``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

RECIPE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
"""Names what this file does to a model: a simulator that was made by another version of it is another simulator."""
LEAST = 3
"""Lanes from which vector instructions are worth it."""

AS_IT_IS: dict[str, str] = {"encoding": "utf-8", "errors": "surrogateescape"}
"""Names of cells of a netlist may have any bytes."""
_DECLARED = re.compile(r"^ *(?:CData|SData|IData|QData|VlWide<\d+>)/\*(\d+):0\*/ (\w+);", re.MULTILINE)
_STATEMENT = re.compile(
    r"\n *(?P<to>vlSelfRef\.\w+)(?:\[(?P<word>\w+)U\])?\s*=\s*(?P<value>[^;{}]*VL_MULS_III\([^;{}]*);"
)
_TOKEN = re.compile(r"\s*(0x[0-9a-fA-F]+|\d+|vlSelfRef\.\w+|\w+|<<|>>|[()\[\],&|])(?:U(?:LL)?\b)?")
_CASTS = {"CData": 8, "SData": 16, "IData": 32, "QData": 64}

Bit: TypeAlias = "int | tuple[object, ...]"
"""0, 1, a bit of a variable ``(name, number)``, or of a product ``(left, right, number)``."""


class _Unknown(Exception):
    """The expression has something that no row of products has."""


@dataclass(frozen=True)
class Row:
    """What a group of statements computes: ``to[i] = left[i] * right[i]``, bytes to 16 bits.

    Args:
        lanes: How many, rounded up to what the result's words hold.
        left: The variable of the left operands.
        left_signed: Whether they are signed.
        right: The variable of the right operands.
        right_signed: Whether they are signed.
    """

    lanes: int
    left: str
    left_signed: bool
    right: str
    right_signed: bool


def declared(model: Path) -> dict[str, int]:
    """Bits of the variables of a generated model, without those that several classes declare in several ways.

    Args:
        model: The folder.
    """
    widths: dict[str, int] = {}
    doubtful: set[str] = set()
    for header in sorted(model.glob("*.h")):
        for most, name in _DECLARED.findall(header.read_text(**AS_IT_IS)):
            if widths.setdefault(name, int(most) + 1) != int(most) + 1:
                doubtful.add(name)  # a name that several classes use for different things
    for name in doubtful:
        del widths[name]
    return widths


def vectorise(model: Path) -> int:
    """Replace rows of products in all C++ files of a generated model.

    Args:
        model: The folder.

    Returns:
        How many rows were replaced.
    """
    widths = declared(model)
    found = 0
    known: dict[object, Row | None] = {}
    for source in sorted(model.glob("*.cpp")):
        text = source.read_text(**AS_IT_IS)
        if "VL_MULS_III(" in text:
            text, rows = rewritten(text, widths, known)
            if rows:
                source.write_text(text, **AS_IT_IS)
            found += rows
    return found


def rewritten(text: str, widths: dict[str, int], known: dict[object, Row | None] | None = None) -> tuple[str, int]:
    """The same C++ with calls of ``batch::products`` for rows of products, and how many there are.

    Args:
        text: A file that Verilator wrote.
        widths: Bits of every variable.
        known: What was found for rows that differ in names only; filled.
    """
    known = {} if known is None else known
    parts, done, rows = [], 0, 0
    for group in _groups(text):
        row = _row([(match["word"], match["value"]) for match in group], group[0]["to"], widths, known)
        if row is None:
            continue
        signs = f"{str(row.left_signed).lower()}, {str(row.right_signed).lower()}"
        call = f"batch::products<{row.lanes}, {signs}>(&{group[0]['to']}, &{row.left}, &{row.right});"
        parts += [text[done : group[0].start()], f"\n    {call}"]
        done, rows = group[-1].end(), rows + 1
    return "".join([*parts, text[done:]]), rows


def _groups(text: str) -> Iterator[list[re.Match[str]]]:
    """Assignments of products that follow each other and write the words of one variable from the first."""
    group: list[re.Match[str]] = []
    for match in _STATEMENT.finditer(text):
        word = int(match["word"] or "0", 0)
        follows = group and group[-1].end() == match.start() and group[0]["to"] == match["to"]
        if follows and word == len(group):
            group.append(match)
            continue
        if group:
            yield group
        group = [match] if word == 0 else []
    if group:
        yield group


def _row(
    statements: list[tuple[str | None, str]], to: str, widths: dict[str, int], known: dict[object, Row | None]
) -> Row | None:
    """The row that these statements compute, if they do."""
    values = [value for _, value in statements]
    names = list(dict.fromkeys(re.findall(r"vlSelfRef\.\w+", " ".join(values))))
    sizes = [widths.get(name.partition(".")[2]) for name in (to, *names)]
    if len(names) != 2 or None in sizes or to in names:
        return None
    # Words of storage are whole: what they have beyond the lanes must be nothing, and a result of several is an array.
    if {sizes[1], sizes[2]} != {(sizes[0] or 0) // 2} or (statements[0][0] is None) != ((sizes[0] or 0) <= 64):
        return None
    left, right = names
    plain = tuple(value.replace(left + "[", "L[").replace(right + "[", "R[") for value in values)
    plain = tuple(re.sub(re.escape(right) + r"\b", "R", re.sub(re.escape(left) + r"\b", "L", v)) for v in plain)
    key = (plain, *sizes, statements[0][0] is None)
    if key not in known:
        try:
            bits: list[Bit] = []
            each = 32 if statements[0][0] is not None else max(8, 1 << (int(sizes[0] or 0) - 1).bit_length())
            for value in plain:
                bits += (_Reader(value, {"L": sizes[1] or 0, "R": sizes[2] or 0}).all() + [0] * 64)[:each]
            known[key] = _matched(bits, sizes[0] or 0)
        except _Unknown:
            known[key] = None
    row = known[key]
    if row is None:
        return None
    place = {"L": left, "R": right}
    return Row(row.lanes, place[row.left], row.left_signed, place[row.right], row.right_signed)


def _matched(bits: list[Bit], width: int) -> Row | None:
    """The row whose results these bits are: of lane ``i`` the product of bytes ``i`` of two variables."""
    lanes = width // 16
    if lanes < LEAST or width % 16 or len(bits) < width or any(bit != 0 for bit in bits[width:]):
        return None
    sides: set[tuple[str, bool, str, bool]] = set()
    for lane in range(lanes):
        first = bits[16 * lane]
        if not isinstance(first, tuple) or len(first) != 3:
            return None
        left, right, _ = first
        if bits[16 * lane : 16 * lane + 16] != [(left, right, number) for number in range(16)]:
            return None
        sides.add((*_byte(left, lane), *_byte(right, lane)))
    if len(sides) != 1:
        return None
    a, a_signed, b, b_signed = sides.pop()
    # Lanes beyond the last are there as zeros: storage is whole words, and what no bit needs is 0.
    return (
        None if a == b else Row(2 * (-(-lanes // 2)) if len(bits) > 64 else len(bits) // 16, a, a_signed, b, b_signed)
    )


def _byte(operand: object, lane: int) -> tuple[str, bool]:
    """The variable whose byte ``lane`` this operand of 16 bits is, and whether it is extended by its sign."""
    if not isinstance(operand, tuple) or not isinstance(operand[0], tuple):
        raise _Unknown
    name = operand[0][0]
    low = [(name, 8 * lane + number) for number in range(8)]
    if list(operand) == [*low, *[low[7]] * 8]:
        return str(name), True
    if list(operand) == [*low, *[0] * 8]:
        return str(name), False
    raise _Unknown


class _Reader:
    """Evaluates an expression of Verilator's on symbolic bits, the lowest first; as many as its C++ type has."""

    def __init__(self, text: str, widths: dict[str, int]) -> None:
        self._tokens = []
        end = 0
        for match in _TOKEN.finditer(text):
            if match.start() != end:
                raise _Unknown
            self._tokens.append(match[1])
            end = match.end()
        if text[end:].strip():
            raise _Unknown
        self._at = 0
        self._widths = widths

    def all(self) -> list[Bit]:
        """The value of the whole text."""
        value = self._expression()
        if self._at != len(self._tokens):
            raise _Unknown
        return value

    def _next(self, wanted: str | None = None) -> str:
        if self._at == len(self._tokens):
            raise _Unknown
        token = self._tokens[self._at]
        self._at += 1
        if wanted is not None and token != wanted:
            raise _Unknown
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _expression(self) -> list[Bit]:
        """One operand, or two with an operator: Verilator puts parentheses around everything else."""
        value = self._operand()
        if self._peek() not in ("&", "|", "<<", ">>"):
            return value
        operator = self._next()
        if operator in ("<<", ">>"):
            return _shifted(value, self._number() * (1 if operator == "<<" else -1))
        other = self._operand()
        size = max(len(value), len(other))
        pairs = zip(_sized(value, size), _sized(other, size), strict=True)
        return [_and(a, b) if operator == "&" else _or(a, b) for a, b in pairs]

    def _number(self) -> int:
        try:
            return int(self._next(), 0)
        except ValueError:
            raise _Unknown from None

    def _operand(self) -> list[Bit]:
        token = self._next()
        if token == "(":
            if self._peek() in _CASTS and self._tokens[self._at + 1 : self._at + 2] == [")"]:
                size = _CASTS[self._next()]
                self._next(")")
                return _sized(_sized(self._operand(), size), max(32, size))
            value = self._expression()
            self._next(")")
            return value
        if token in self._widths:
            return self._variable(token)
        if token == "VL_EXTENDS_II":
            to, signs = self._arguments(2)
            (value,) = self._values(1)
            if not 0 < signs <= to <= 32:
                raise _Unknown
            return [*value[:signs], *[value[signs - 1]] * (32 - signs)]
        if token == "VL_MULS_III":
            (bits,) = self._arguments(1)
            left, right = self._values(2)
            if bits != 16:
                raise _Unknown
            return [(tuple(left[:16]), tuple(right[:16]), number) for number in range(32)]
        if token[0].isdigit():
            number = int(token, 0)
            return [number >> bit & 1 for bit in range(32 if number < 1 << 32 else 64)]
        raise _Unknown

    def _variable(self, name: str) -> list[Bit]:
        width = self._widths[name]
        if self._peek() == "[":
            self._next()
            first = 32 * self._number()
            self._next("]")
            if width <= 64:
                raise _Unknown
            return [(name, first + bit) if first + bit < width else 0 for bit in range(32)]
        if width > 64:
            raise _Unknown
        return [(name, bit) if bit < width else 0 for bit in range(32 if width <= 32 else 64)]

    def _arguments(self, count: int) -> list[int]:
        """The numbers that a call begins with, and the comma after them."""
        self._next("(")
        numbers = []
        for _ in range(count):
            numbers.append(self._number())
            self._next(",")
        return numbers

    def _values(self, count: int) -> list[list[Bit]]:
        """The expressions that a call ends with."""
        values = []
        for index in range(count):
            values.append(self._expression())
            self._next("," if index + 1 < count else ")")
        if any(len(value) != 32 for value in values):
            raise _Unknown
        return values


def _sized(value: list[Bit], size: int) -> list[Bit]:
    return (value + [0] * size)[:size]


def _shifted(value: list[Bit], by: int) -> list[Bit]:
    if abs(by) >= len(value):
        raise _Unknown
    return ([0] * by + value)[: len(value)] if by >= 0 else value[-by:] + [0] * -by


def _and(a: Bit, b: Bit) -> Bit:
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    raise _Unknown


def _or(a: Bit, b: Bit) -> Bit:
    if a == 0:
        return b
    if b == 0:
        return a
    raise _Unknown
