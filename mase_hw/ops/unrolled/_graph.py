"""A graph of shifts and additions: sums of inputs with constant coefficients, each with its exact range.

Inner values are never negative: an input that may be has its sign bit flipped, which adds half of its range, and what
is subtracted is taken from the next power of two. What all of that adds is a constant of every sum, known beforehand;
it is taken off once, together with the constant of the row. So no sign is extended: a bit of an adder that only one
operand has is its carry alone, and needs no look-up table before it. Behind the constant of a row, which is added last,
or to an operand that waits for others, numbers may be negative.

With w the width of b every node is ``(a << i) + (b << j)`` or ``(a << i) + ((2 ** w - b) << j)``, one shift being 0, of
inputs and nodes before it; an output may be the difference of such a node and a constant. A node keeps the coefficients
of its sum, so that its range, and with it its width, is exact: a bit that cannot differ is not computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Term = tuple[int, int, int]
"""A value of a graph, the places by which it is shifted, and the position that it is moved to."""
_POSITION = 1 << 32
"""Distance of the numbers of an input at neighbouring positions."""


@dataclass(frozen=True)
class Sum:
    """One value of a graph.

    Args:
        low: Smallest value.
        high: Largest value.
        level: Additions one after the other from the inputs.
        coefficients: Of the inputs, by their numbers.
        constant: What is added to them.
        a: First operand; -1 for inputs and constants.
        b: Second operand.
        a_shift: Places by which ``a`` is shifted to the left.
        b_shift: Places by which ``b`` is.
        minus: Whether ``b`` is subtracted, from the next power of two where no operand is a constant.
        a_at: Position of ``a``, where a graph is repeated over positions.
        b_at: Position of ``b``; one of the two is 0.
    """

    low: int
    high: int
    level: int
    coefficients: Mapping[int, int]
    constant: int = 0
    a: int = -1
    b: int = -1
    a_shift: int = 0
    b_shift: int = 0
    minus: bool = False
    a_at: int = 0
    b_at: int = 0

    @property
    def signed(self) -> bool:
        """Whether it may be negative."""
        return self.low < 0

    @property
    def width(self) -> int:
        """Bits that hold every value, at least 1."""
        if self.signed:
            return max((-self.low - 1).bit_length(), max(self.high, 0).bit_length()) + 1
        return max(self.high.bit_length(), 1)


@dataclass
class Graph:
    """Inputs, constants and sums, in an order in which each comes after its operands.

    Args:
        inputs: Range of every input, as ``(low, high)``.
    """

    inputs: Sequence[tuple[int, int]]
    values: list[Sum] = field(default_factory=list)
    outputs: list[tuple[int, int] | None] = field(default_factory=list)
    """The value of every output and the places by which it is shifted; None for one that is always 0."""

    def __post_init__(self) -> None:
        self.ranges: dict[int, tuple[int, int]] = {}
        for low, high in self.inputs:
            self.enter(low, high, 0)

    def enter(self, low: int, high: int, level: int) -> int:
        """The number of a value that is no sum of those before, so that sums are sums of it too."""
        number = len(self.values)
        plain = Sum(low, high, 0, {})
        flipped = 1 << (plain.width - 1) if plain.signed else 0
        self.ranges[number] = low, high
        self.values.append(Sum(low + flipped, high + flipped, level, {number: 1}, flipped))
        return number

    def constant(self, value: int) -> int:
        """A constant as a value."""
        self.values.append(Sum(value, value, 0, {}, value))
        return len(self.values) - 1

    def add(self, a: Term, b: Term, minus: bool) -> int:
        """The number of the sum of two terms, or of the same with the next power of two less ``b``.

        One of the shifts must be 0, and one of the positions.
        """
        if not minus and (a[1], a[0]) > (b[1], b[0]):
            # A sum is written with the operand that is not shifted first: its low bits pass unchanged.
            a, b = b, a
        more = 1 << (self.values[b[0]].width + b[1]) if minus else 0
        return self._append(a, b, minus, more)

    def offset(self, value: int, shift: int, negative: bool, constant: int) -> int:
        """The number of ``constant + (value << shift)`` or, if negative, of ``constant - (value << shift)``."""
        if negative:
            return self._append((self.constant(constant), 0, 0), (value, shift, 0), True, 0)
        # Less one digit than the sum with the constant: the lowest becomes the carry that a subtraction starts with.
        return self._append((value, shift, 0), (self.constant(-constant), 0, 0), True, 0)

    def _append(self, one: Term, other: Term, minus: bool, more: int) -> int:
        (a, a_shift, a_at), (b, b_shift, b_at) = one, other
        if min(a_shift, b_shift):
            raise ValueError(f"both operands of a sum are shifted, by {a_shift} and {b_shift} places; one must not be")
        first, second, sign = self.values[a], self.values[b], -1 if minus else 1
        coefficients = {i + a_at * _POSITION: c << a_shift for i, c in first.coefficients.items()}
        for i, c in second.coefficients.items():
            at = i + b_at * _POSITION
            found = coefficients.pop(at, 0) + sign * (c << b_shift)
            if found:
                coefficients[at] = found
        constant = (first.constant << a_shift) + sign * (second.constant << b_shift) + more
        low, high = self._range(coefficients, constant)
        level = max(first.level, second.level) + 1
        made = Sum(low, high, level, coefficients, constant, a, b, a_shift, b_shift, minus, a_at, b_at)
        self.values.append(made)
        return len(self.values) - 1

    def _range(self, coefficients: Mapping[int, int], constant: int) -> tuple[int, int]:
        low = high = constant
        for i, c in coefficients.items():
            lowest, highest = self.ranges[i % _POSITION]
            ends = lowest * c, highest * c
            low, high = low + min(ends), high + max(ends)
        return low, high

    def readers(self, numbers: Sequence[int]) -> dict[int, int]:
        """How often some values, and those that they are sums of, are read by each other or are among these."""
        found: dict[int, int] = {}
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            found[number] = found.get(number, 0) + 1
            made = self.values[number]
            if found[number] == 1 and made.a >= 0:
                waiting += [made.a, made.b]
        return found

    def moves(self, number: int) -> bool:
        """Whether a value depends on the inputs, so that it is another one in the next cycle."""
        return bool(self.values[number].coefficients)

    def offsets(self, number: int) -> bool:
        """Whether one operand of a value is a constant."""
        made = self.values[number]
        return made.a >= 0 and not (self.moves(made.a) and self.moves(made.b))

    def apart(self, number: int) -> bool:
        """Whether the operands of a value have no bit in common, so that no carry is needed."""
        made = self.values[number]
        return min(self._above(made, True), self._above(made, False)) <= max(made.a_shift, made.b_shift)

    def _above(self, made: Sum, first: bool) -> int:
        """The place above the highest bit of an operand; what may be negative has its sign up to the highest of all."""
        value, shift = (self.values[made.a], made.a_shift) if first else (self.values[made.b], made.b_shift)
        return max(made.width, value.width + shift) if value.signed else value.width + shift

    def bits(self, number: int) -> int:
        """Look-up tables before the carry chain of a value: one a bit that both operands have or that is inverted."""
        made = self.values[number]
        if made.a < 0:
            return 0
        a, b = self.values[made.a], self.values[made.b]
        if self.offsets(number):
            moving, shift = (a, made.a_shift) if a.coefficients else (b, made.b_shift)
            # Of what is subtracted the lowest one is the carry that the chain starts with.
            inverted = -b.constant & ~b.constant if moving is a else ~a.constant
            # The highest bit is the sign, and is inverted where that is looked at.
            high, low = min(moving.width + shift, made.width - 1), shift
            return ((inverted >> low) & ((1 << max(high - low, 0)) - 1)).bit_count()
        both = min(self._above(made, True), self._above(made, False)) - max(made.a_shift, made.b_shift)
        return b.width if made.minus else max(both, 0)

    def carries(self, number: int) -> int:
        """Bits of the carry chain of a value."""
        made = self.values[number]
        if made.a < 0 or (self.apart(number) and not self.offsets(number)):
            return 0
        return made.width - (0 if self.offsets(number) else made.b_shift)

    def source(self, number: int, bit: int) -> tuple[int, int]:
        """The value and the bit of it that a bit of a value is, where it is no carry chain's."""
        made = self.values[number]
        if made.a < 0 or self.offsets(number):
            return number, bit
        second = made.b_shift <= bit < made.b_shift + self.values[made.b].width and not made.minus
        first = made.a_shift <= bit < made.a_shift + self.values[made.a].width
        if first and (self.apart(number) or bit < made.b_shift):
            return self.source(made.a, bit - made.a_shift)
        if second and self.apart(number):
            return self.source(made.b, bit - made.b_shift)
        return number, bit

    @property
    def adder_bits(self) -> int:
        """Look-up tables before all carry chains."""
        return sum(self.bits(number) for number in range(len(self.values)))

    @property
    def levels(self) -> int:
        """Additions one after the other, at most."""
        return max((self.values[o[0]].level for o in self.outputs if o is not None), default=0)

    def evaluate(self, inputs: Sequence[int]) -> list[int]:
        """Every output, operation by operation, in Python integers."""
        found: list[int] = []
        for number, made in enumerate(self.values):
            if made.a >= 0:
                second = found[made.b]
                if made.minus:
                    second = (0 if self.offsets(number) else 1 << self.values[made.b].width) - second
                found.append((found[made.a] << made.a_shift) + (second << made.b_shift))
            else:
                found.append(made.constant + (inputs[number] if made.coefficients else 0))
        return [0 if o is None else found[o[0]] << o[1] for o in self.outputs]
