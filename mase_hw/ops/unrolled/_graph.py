"""A graph of shifts and additions: sums of inputs with constant coefficients, each with its exact range.

Every node is ``(a << i) + (b << j)`` or ``(a << i) - (b << j)``, one shift being 0, of inputs, constants and nodes
before it. A node keeps the coefficients of its sum, so that its range, and with it its width, is exact: a bit that
cannot differ is not computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
        minus: Whether ``b`` is subtracted.
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

    @property
    def signed(self) -> bool:
        """Whether it may be negative."""
        return self.low < 0

    @property
    def width(self) -> int:
        """Bits that hold every value, at least 1."""
        if self.signed:
            return max((-self.low - 1).bit_length(), self.high.bit_length()) + 1
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
        self.values = [Sum(low, high, 0, {i: 1}) for i, (low, high) in enumerate(self.inputs)]

    def constant(self, value: int) -> int:
        """A constant as a value."""
        self.values.append(Sum(value, value, 0, {}, value))
        return len(self.values) - 1

    def add(self, a: int, a_shift: int, b: int, b_shift: int, minus: bool) -> int:
        """The number of ``(a << a_shift) +- (b << b_shift)``, which may be there already.

        One of the shifts must be 0.
        """
        if not minus and (a_shift, a) > (b_shift, b):
            # A sum is written with the operand that is not shifted first: its low bits pass unchanged.
            a, a_shift, b, b_shift = b, b_shift, a, a_shift
        first, second, sign = self.values[a], self.values[b], -1 if minus else 1
        coefficients = {i: c << a_shift for i, c in first.coefficients.items()}
        for i, c in second.coefficients.items():
            found = coefficients.pop(i, 0) + sign * (c << b_shift)
            if found:
                coefficients[i] = found
        constant = (first.constant << a_shift) + sign * (second.constant << b_shift)
        low, high = self._range(coefficients, constant)
        level = max(first.level, second.level) + 1
        made = Sum(low, high, level, coefficients, constant, a, b, a_shift, b_shift, minus)
        self.values.append(made)
        return len(self.values) - 1

    def _range(self, coefficients: Mapping[int, int], constant: int) -> tuple[int, int]:
        low = high = constant
        for i, c in coefficients.items():
            ends = self.inputs[i][0] * c, self.inputs[i][1] * c
            low, high = low + min(ends), high + max(ends)
        return low, high

    def bits(self, number: int) -> int:
        """Bits of the adder of a value: those below a shifted operand pass, those of no overlap are wires."""
        made = self.values[number]
        if made.a < 0:
            return 0
        a, b = self.values[made.a], self.values[made.b]
        if not made.minus and not a.signed and a.width + made.a_shift <= made.b_shift:
            return 0
        # What is subtracted unshifted borrows from the first bit.
        passed = made.b_shift if made.a_shift == 0 else (0 if made.minus else made.a_shift)
        return max(max(made.width, b.width + made.b_shift) - passed, 0)

    @property
    def adder_bits(self) -> int:
        """Bits of all adders."""
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
                second = found[made.b] << made.b_shift
                found.append((found[made.a] << made.a_shift) + (-second if made.minus else second))
            else:
                found.append(inputs[number] if made.coefficients else made.constant)
        return [0 if o is None else found[o[0]] << o[1] for o in self.outputs]
