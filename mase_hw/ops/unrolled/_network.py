"""A network of constants: its ops as steps, and what they compute as one graph of sums, casts, maxima and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, OpDef
from mase_hw.ops.unrolled._graph import Graph

Elements = npt.NDArray[np.int64]
"""Numbers of values of a graph, in the shape of a tensor."""


@dataclass(frozen=True)
class Step:
    """One op of a network.

    Args:
        node: Name of its node.
        op: The op; None of one that only names elements anew.
        arithmetic: Its formats, cast modes and attributes.
        parameters: Mantissas by name.
        inputs: Numbers of the tensors that it takes: 0 is the input, ``k`` the result of step ``k - 1``.
        shape: Of its result.
        order: Of one without an op: for every element of the result the number of that of the input.
    """

    node: str
    op: OpDef | None
    arithmetic: Arithmetic
    parameters: Mapping[str, Tensor]
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    order: Tensor | None = None

    def run(self, given: Sequence[Tensor]) -> Tensor:
        """Mantissas of the result, from those of the inputs; frames may be stacked along the first dimension."""
        if self.op is None or self.op.golden is None:
            assert self.order is not None
            frames = given[0].numel() // self.order.numel()
            moved = given[0].reshape(frames, -1)[:, self.order.reshape(-1)]
            return moved.reshape(frames * self.shape[0], *self.shape[1:])
        named = {f"data_in_{k}": tensor for k, tensor in enumerate(given)}
        return self.op.golden(self.arithmetic, {**self.parameters, **named})["data_out_0"]


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of a network of one input and one result.

    Args:
        shape: Of the input.
        fmt: Its format.
        steps: In order; the last one gives the result.
        levels: Additions between two registers; 0 for a register at the output only.
    """

    shape: tuple[int, ...]
    fmt: FixedFormat
    steps: tuple[Step, ...]
    levels: int

    def run(self, x: Tensor) -> Tensor:
        """Mantissas of the result, step by step."""
        found = [x]
        for step in self.steps:
            found.append(step.run([found[i] for i in step.inputs]))
        return found[-1]


@dataclass(frozen=True)
class Rounded:
    """A cast of ``value << shift``.

    Args:
        value: A sum with its constant.
        shift: Places.
        frac: Fraction width of the sum.
        fmt: Of the result.
        rounding: How bits are dropped.
        overflow: What happens beyond the range.
        half: Half an output LSB is in the sum already, so that rounding drops bits.
        element: The value is an element, without the constant that flips its sign bit.
    """

    value: int
    shift: int
    frac: int
    fmt: FixedFormat
    rounding: Rounding
    overflow: Overflow
    half: bool
    element: bool


@dataclass(frozen=True)
class Positive:
    """The value, or 0 where it is negative."""

    value: int


@dataclass(frozen=True)
class Larger:
    """The larger one of two values."""

    one: int
    other: int


@dataclass(frozen=True)
class Looked:
    """A table of results, one for each number from the smallest to the largest value."""

    value: int
    table: tuple[int, ...]


Made = Rounded | Positive | Larger | Looked


@dataclass
class Network:
    """A graph whose inputs, besides those of the frame, are made of values before them.

    Args:
        graph: Its values; the outputs are the elements of the result.
        made: What makes each value that is neither an input nor a sum.
        inputs: Numbers of the elements of the input.
        known: What was made, and its number.
        shifts: Of elements that stand for ``value << shift``: the shift, and the format that this has.
    """

    graph: Graph = field(default_factory=lambda: Graph([]))
    made: dict[int, Made] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    known: dict[Made, int] = field(default_factory=dict)
    shifts: dict[int, tuple[int, FixedFormat]] = field(default_factory=dict)

    def operands(self, number: int) -> tuple[int, ...]:
        """The values that a value is computed from."""
        found, value = self.made.get(number), self.graph.values[number]
        if isinstance(found, Larger):
            return found.one, found.other
        if found is not None:
            return (found.value,)
        return (value.a, value.b) if value.a >= 0 else ()

    def live(self) -> list[int]:
        """The values that a result depends on, in order."""
        wanted = [False] * len(self.graph.values)
        for output in self.graph.outputs:
            assert output is not None
            wanted[output[0]] = True
        for number in reversed(range(len(wanted))):
            if wanted[number]:
                for operand in self.operands(number):
                    wanted[operand] = True
        return [number for number, there in enumerate(wanted) if there]

    def ends(self, number: int) -> tuple[int, int]:
        """The smallest and the largest number that an element is."""
        value = self.graph.values[number]
        return self.graph.ranges.get(number, (value.low, value.high))

    def constant(self, number: int) -> int | None:
        """The number that an element always is; None if it may be another."""
        value = self.graph.values[number]
        return None if value.coefficients else value.low

    def delay(self, number: int) -> int:
        """Additions that computing a value takes as long as, from its operands on."""
        value = self.graph.values[number]
        return value.level - max((self.graph.values[operand].level for operand in self.operands(number)), default=0)

    def enter(self, made: Made, ends: tuple[int, int], delay: int) -> int:
        """An element that is made of values before it, or a constant if it is always one number."""
        if ends[0] == ends[1]:
            return self.graph.constant(ends[0])
        if made in self.known:
            return self.known[made]
        operands = (made.one, made.other) if isinstance(made, Larger) else (made.value,)
        level = max(self.graph.values[operand].level for operand in operands)
        number = self.graph.enter(*ends, level + delay)
        self.made[number] = made
        self.known[made] = number
        return number

    def plain(self, elements: Elements) -> Elements:
        """Elements of which none stands for a shifted value; those that did have zeros for their lowest bits."""

        def one(number: int) -> int:
            if number not in self.shifts:
                return number
            (shift, fmt), (low, high) = self.shifts[number], self.ends(number)
            made = Rounded(
                number, 0, fmt.frac_width - shift, fmt, Rounding.FLOOR, Overflow.SATURATE, half=False, element=True
            )
            return self.enter(made, (low << shift, high << shift), 0)

        return np.array([one(int(number)) for number in elements.reshape(-1)], np.int64).reshape(elements.shape)

    def evaluate(self, inputs: Sequence[int]) -> list[int]:
        """Every output, value by value, in Python integers."""
        given, found = dict(zip(self.inputs, inputs, strict=True)), dict[int, int]()

        def element(number: int) -> int:
            value = self.graph.values[number]
            return found[number] - (value.constant if number in self.graph.ranges else 0)

        for number in self.live():
            value, made = self.graph.values[number], self.made.get(number)
            if made is not None or number in given:
                exact = given[number] if made is None else self._made(made, element, found)
                found[number] = exact + value.constant
            elif value.a < 0:
                found[number] = value.low
            else:
                second = found[value.b] << value.b_shift
                if value.minus:
                    offsets = self.graph.offsets(number)
                    second = (0 if offsets else 1 << (self.graph.values[value.b].width + value.b_shift)) - second
                found[number] = (found[value.a] << value.a_shift) + second
        return [element(output[0]) for output in self.graph.outputs if output is not None]

    def _made(self, made: Made, element: Callable[[int], int], found: Mapping[int, int]) -> int:
        if isinstance(made, Rounded):
            half = 1 << (made.frac - made.fmt.frac_width - 1) if made.half else 0
            value = element(made.value) if made.element else found[made.value]
            exact = (value << made.shift) - half
            return cast_int(exact, made.frac, made.fmt, made.rounding, made.overflow)
        if isinstance(made, Positive):
            return max(element(made.value), 0)
        if isinstance(made, Larger):
            return max(element(made.one), element(made.other))
        return made.table[element(made.value) - self.ends(made.value)[0]]


def cast_int(value: int, frac: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow) -> int:
    return int(cast(torch.tensor([value], dtype=torch.int64), frac, fmt, rounding, overflow)[0])
