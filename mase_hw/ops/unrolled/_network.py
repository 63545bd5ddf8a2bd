"""A network of constants: its ops as steps, and what they compute as one graph of sums, casts, maxima and tables.

A frame may come in several beats, each some positions along one axis. Then the graph is that of a beat: a value is
another number in every beat of a frame. An element of a tensor is such a value in one beat, ``number + beat * BEAT``;
what it needs of other beats are values of the beat before or behind, and a border of the frame is a bit that says in
which beats an element is there. With one beat none of this occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, OpDef
from mase_hw.ops.unrolled._graph import Graph, Sum
from mase_hw.ops.unrolled._trees import Signed, sum_of

Elements = npt.NDArray[np.int64]
"""Elements of a tensor, in its shape: each a value of the graph in a beat."""
BEAT = 1 << 32
"""Distance of the elements that a value is in two beats, one after the other."""
WIDE = 60
"""Bits of a result that loses nothing."""


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
        taken: Elements of that input, if it has others too.
    """

    node: str
    op: OpDef | None
    arithmetic: Arithmetic
    parameters: Mapping[str, Tensor]
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    order: Tensor | None = None
    taken: int | None = None

    def run(self, given: Sequence[Tensor]) -> Tensor:
        """Mantissas of the result, from those of the inputs; frames may be stacked along the first dimension."""
        if self.op is None or self.op.golden is None:
            assert self.order is not None
            frames = given[0].numel() // (self.taken or self.order.numel())
            moved = given[0].reshape(frames, -1)[:, self.order.reshape(-1)]
            return moved.reshape(frames * self.shape[0], *self.shape[1:])
        named = {f"data_in_{k}": tensor for k, tensor in enumerate(given)}
        return self.op.golden(self.arithmetic, {**self.parameters, **named})["data_out_0"]


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of a network of one result.

    Args:
        shape: Of the input.
        fmt: Its format.
        steps: In order; the last one gives the result.
        levels: Additions between two registers; 0 for a register at the output only.
        beats: Those of a frame; a beat has some positions along ``axis``.
        axis: 1, and tensors are streamed as they lie in memory; or 2, and their dimension 1 comes last.
        streamed: The golden takes and gives elements in the order of the streams, as a case of the catalogue does.
        mhz: The clock for which registers are placed in place of ``levels``; None for none.
        family: Of FPGAs, whose delays these are.
        carry_save: Whether the latest sums of a layer save carries, where the clock decides.
        inputs: Number of elements and format of every input, where there are several. The input of the steps is then
            all their elements in a row, one input after the other, of which steps without an op take one.
    """

    shape: tuple[int, ...]
    fmt: FixedFormat
    steps: tuple[Step, ...]
    levels: int
    beats: int = 1
    axis: int = 1
    streamed: bool = False
    mhz: float | None = None
    family: str = ""
    carry_save: bool = False
    inputs: tuple[tuple[int, FixedFormat], ...] = ()

    @property
    def ports(self) -> tuple[tuple[int, FixedFormat], ...]:
        """Number of elements and format of every input."""
        return self.inputs or ((math.prod(self.shape), self.fmt),)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        """The order in which a tensor is streamed."""
        return Layout.row_major(shape) if self.axis == 1 else Layout.channels_last(shape)

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
        stands: Places by which what it stands for is larger; a cast that stands for something else is another one.
        first: Fraction width to which the value is rounded before, half of that LSB in the sum as well; None for none.
    """

    value: int
    shift: int
    frac: int
    fmt: FixedFormat
    rounding: Rounding
    overflow: Overflow
    half: bool
    element: bool
    stands: int = 0
    first: int | None = None


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
    """A table of results, one for every combination of the numbers that some values are, the last one fastest.

    Each goes from its smallest to its largest number.
    """

    values: tuple[int, ...]
    table: tuple[int, ...]


@dataclass(frozen=True)
class Above:
    """1 where a value is larger than a limit, else 0."""

    value: int
    limit: int


@dataclass(frozen=True)
class Masked:
    """The value, or 0 where a bit is 0: one of the beat, or an element of one bit."""

    value: int
    bit: int


@dataclass(frozen=True)
class Neighbour:
    """The value in the beat before or behind.

    Args:
        value: The value.
        behind: Whether it is the beat behind, which has to be there, and not the one before.
    """

    value: int
    behind: bool


@dataclass(frozen=True)
class Accumulated:
    """The sum of the value over the beats since one in which a bit was 1, that one included."""

    value: int
    bit: int


@dataclass(frozen=True)
class Saved:
    """Two or three values as bits that are added place by place: their parity, or their majority, which is the carry.

    Args:
        terms: Number and places of each, and whether its bits are inverted.
        carry: Whether it is the majority.
        width: Places that there are; carries out of the highest one are lost.
    """

    terms: tuple[tuple[int, int, bool], ...]
    carry: bool
    width: int


@dataclass(frozen=True)
class Product:
    """The product of two elements, or the square of one, which then is both."""

    one: int
    other: int


@dataclass(frozen=True)
class Rest:
    """An element shifted by some places, less another one where that is not larger: a step of a division."""

    value: int
    divisor: int
    shift: int


@dataclass(frozen=True)
class Reached:
    """1 where a shifted element is not smaller than another one, else 0: a bit of a quotient."""

    value: int
    divisor: int
    shift: int


Made = (
    Rounded | Positive | Larger | Looked | Above | Masked | Neighbour | Accumulated | Saved | Product | Rest | Reached
)


@dataclass
class Network:
    """A graph whose inputs, besides those of the frame, are made of values before them.

    Args:
        graph: Its values; the outputs are the elements of the result.
        made: What makes each value that is neither an input nor a sum.
        inputs: Numbers of the elements of the input.
        known: What was made, and its number.
        beats: Beats of a frame.
        bits: Of every bit that only depends on the beat: its number by what it is in each of them.
        gives: Whether a beat of the result is complete, in each beat of the frame.
        wrapped: Sums that are computed modulo the power of two that holds them.
        arrivals: Picoseconds from the inputs to a value, as far as they were asked for.
        shifts: Of elements that stand for ``value << shift``: the shift, and the format that this has.
    """

    graph: Graph = field(default_factory=lambda: Graph([]))
    made: dict[int, Made] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    known: dict[Made, int] = field(default_factory=dict)
    beats: int = 1
    bits: dict[tuple[bool, ...], int] = field(default_factory=dict)
    gives: tuple[bool, ...] = (True,)
    _sums: dict[tuple[Signed, Signed], Signed] = field(default_factory=dict)
    shifts: dict[int, tuple[int, FixedFormat]] = field(default_factory=dict)
    wrapped: set[int] = field(default_factory=set)
    arrivals: dict[int, int] = field(default_factory=dict)

    def operands(self, number: int) -> tuple[int, ...]:
        """The values that a value is computed from."""
        found, value = self.made.get(number), self.graph.values[number]
        if found is not None:
            return operands_of(found)
        return (value.a, value.b) if value.a >= 0 else ()

    def behind(self, number: int) -> bool:
        """Whether a value is one of the beat behind."""
        found = self.made.get(number)
        return isinstance(found, Neighbour) and found.behind

    def before(self, number: int) -> bool:
        """Whether a value is one of the beat before."""
        found = self.made.get(number)
        return isinstance(found, Neighbour) and not found.behind

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

    def ends(self, element: int) -> tuple[int, int]:
        """The smallest and the largest number that an element is."""
        number = element % BEAT
        value = self.graph.values[number]
        return self.graph.ranges.get(number, (value.low, value.high))

    def constant(self, element: int) -> int | None:
        """The number that an element always is; None if it may be another."""
        value = self.graph.values[element % BEAT]
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
        level = max(self.graph.values[operand].level for operand in operands_of(made))
        number = self.graph.enter(*ends, level + delay)
        self.made[number] = made
        self.known[made] = number
        return number

    def at(self, element: int, beat: int) -> int:
        """The value that is, in a beat, what an element is: that of the element in as many beats before or behind."""
        number, own = element % BEAT, element // BEAT
        while own != beat and self.graph.values[number].coefficients:
            number = self._next(Neighbour(number, own > beat))
            own += 1 if own < beat else -1
        return number

    def _next(self, made: Neighbour) -> int:
        if made not in self.known:
            value, places = self.graph.values[made.value], 1 if made.behind else -1
            # The inputs of another beat are others, so that the range of a sum with them stays exact.
            moved = {i + places * BEAT: c for i, c in value.coefficients.items()}
            number = len(self.graph.values)
            if made.value in self.graph.ranges:
                moved = {number: 1}
                self.graph.ranges[number] = self.graph.ranges[made.value]
            self.graph.values.append(Sum(value.low, value.high, 0, moved, value.constant))
            self.made[number], self.known[made] = made, number
        return self.known[made]

    def bit(self, there: tuple[bool, ...]) -> int:
        """The value that is 1 in some beats of a frame and 0 in the others."""
        if there not in self.bits:
            self.bits[there] = self.graph.enter(0, 1, 0)
        return self.bits[there]

    def masked(self, element: int, there: tuple[bool, ...]) -> int:
        """An element, or 0 in the beats of a frame in which it is not there."""
        number, beat = element % BEAT, element // BEAT
        if all(there) or not self.graph.values[number].coefficients:
            return element
        low, high = self.ends(number)
        return self.enter(Masked(number, self.bit(there)), (min(low, 0), max(high, 0)), 0) + beat * BEAT

    def accumulated(self, term: Signed, ends: tuple[int, int], first: tuple[bool, ...], times: int) -> Signed:
        """A term's sum over beats, of which so many are added.

        Args:
            term: Of the first of these beats.
            ends: The smallest and the largest sum, without the constants of the value.
            first: In which beat of the frame the sum begins.
            times: Beats that are added, one after the other.
        """
        (value, shift, at), sign = term
        given, made = self.graph.values[value], Accumulated(value, self.bit(first))
        if made not in self.known:
            low, high = sorted((sign * end) >> shift for end in ends)
            constant, number = given.constant * times, len(self.graph.values)
            self.graph.ranges[number] = low, high
            ends = low + constant, high + constant
            self.graph.values.append(Sum(*ends, given.level + 1, {number: 1}, constant))
            self.made[number], self.known[made] = made, number
        return (self.known[made], shift, at), sign

    def saved(self, made: Saved) -> tuple[int, int] | None:
        """The number of a parity or of carries, and the places that it is shifted by; None if it is always 0."""
        low, high = self.places(made)
        if high <= low:
            return None
        return self.enter(made, (0, (1 << (high - low)) - 1), 1), low + int(made.carry)

    def places(self, made: Saved) -> tuple[int, int]:
        """The lowest place of bits that are added, and the one above the highest; of carries where there are two."""
        begins = sorted(shift for _, shift, _ in made.terms)
        ends = sorted(shift + self.graph.values[number].width for number, shift, _ in made.terms)
        if made.carry:
            return begins[1], min(ends[-2], made.width - 1)
        return begins[0], min(ends[-1], made.width)

    def sum_of(self, one: Signed | None, other: Signed | None) -> Signed | None:
        """The sum of two terms, in the later one's beat; the position of a term is its beat, counted down.

        None as well if they cancel, as the same value does that a window reads in two places.
        """
        if one is None or other is None:
            return one or other
        beat = max(-one[0][2], -other[0][2])
        a, b = (((self.at(v - at * BEAT, beat), shift, 0), sign) for (v, shift, at), sign in (one, other))
        if (a, b) not in self._sums:
            made = sum_of(self.graph, a, b)
            assert made is not None
            self._sums[a, b] = made
        (value, shift, _), sign = self._sums[a, b]
        return ((value, shift, -beat), sign) if self.graph.moves(value) else None

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
        """Every result of a frame, value by value, in Python integers, in the order of the streams."""
        beats, size = self.beats, len(self.inputs)
        given = {number: list(inputs[lane::size]) for lane, number in enumerate(self.inputs)}
        given |= {number: [int(bit) for bit in there] for there, number in self.bits.items()}
        found: dict[int, list[int]] = {}
        for number in self.live():
            value, made = self.graph.values[number], self.made.get(number)
            if isinstance(made, Neighbour):
                # What is beyond the frame is anything, and must not matter.
                near, anything = found[made.value], [value.high]
                found[number] = near[1:] + anything if made.behind else anything + near[:-1]
            elif isinstance(made, Accumulated):
                total, sums = 0, []
                for each, first in zip(found[made.value], found[made.bit], strict=True):
                    total = each + (0 if first else total)
                    sums.append(total)
                found[number] = sums
            else:
                found[number] = [
                    self._number(number, {n: each[beat] for n, each in given.items()}, _Beat(found, beat))
                    for beat in range(beats)
                ]
        results = [output[0] for output in self.graph.outputs if output is not None]
        return [
            found[number][beat] - self._flipped(number)
            for beat in range(beats)
            if self.gives[beat]
            for number in results
        ]

    def _flipped(self, number: int) -> int:
        return self.graph.values[number].constant if number in self.graph.ranges else 0

    def _number(self, number: int, given: Mapping[int, int], found: Mapping[int, int]) -> int:
        """What a value is in one beat."""
        value, made = self.graph.values[number], self.made.get(number)
        if made is not None or number in given:
            exact = given[number] if made is None else self._made(made, lambda n: found[n] - self._flipped(n), found)
            return exact + value.constant
        if value.a < 0:
            return value.low
        second = found[value.b] << value.b_shift
        if value.minus:
            offsets = self.graph.offsets(number)
            second = (0 if offsets else 1 << (self.graph.values[value.b].width + value.b_shift)) - second
        total = (found[value.a] << value.a_shift) + second
        return (total - value.low) % (1 << value.width) + value.low if number in self.wrapped else total

    def _made(self, made: Made, element: Callable[[int], int], found: Mapping[int, int]) -> int:
        if isinstance(made, Rounded):
            value = element(made.value) if made.element else found[made.value]
            return _cast(value << made.shift, made)
        if isinstance(made, Positive):
            return max(element(made.value), 0)
        if isinstance(made, Masked):
            return element(made.value) if found[made.bit] else 0
        if isinstance(made, Larger):
            return max(element(made.one), element(made.other))
        if isinstance(made, Product):
            return element(made.one) * element(made.other)
        if isinstance(made, Rest | Reached):
            value, divisor = element(made.value) << made.shift, element(made.divisor)
            return int(value >= divisor) if isinstance(made, Reached) else value - divisor * (value >= divisor)
        if isinstance(made, Saved):
            return self._added(made, found)
        if isinstance(made, Above):
            return int(element(made.value) > made.limit)
        assert isinstance(made, Looked)
        place = 0
        for number in made.values:
            low, high = self.ends(number)
            place = place * (high - low + 1) + element(number) - low
        return made.table[place]

    def _added(self, made: Saved, found: Mapping[int, int]) -> int:
        """A parity or carries, from their places on."""
        given = []
        for number, shift, inverted in made.terms:
            ones = (1 << self.graph.values[number].width) - 1
            given.append(((found[number] ^ ones) if inverted else found[number]) << shift)
        a, b, c = (*given, 0)[:3]
        low, high = self.places(made)
        bits = a & b | a & c | b & c if made.carry else a ^ b ^ c
        return (bits >> low) & ((1 << (high - low)) - 1)


class _Beat(Mapping[int, int]):
    """The numbers of one beat."""

    def __init__(self, found: Mapping[int, Sequence[int]], beat: int) -> None:
        self._found, self._at = found, beat

    def __getitem__(self, number: int) -> int:
        return self._found[number][self._at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def operands_of(made: Made) -> tuple[int, ...]:
    """The values that one is made of."""
    if isinstance(made, Larger | Product):
        return made.one, made.other
    if isinstance(made, Rest | Reached):
        return made.value, made.divisor
    if isinstance(made, Masked | Accumulated):
        return made.value, made.bit
    if isinstance(made, Saved):
        return tuple(number for number, _, _ in made.terms)
    return made.values if isinstance(made, Looked) else (made.value,)


def _cast(value: int, made: Rounded) -> int:
    """What becomes of a shifted value."""
    frac = made.frac
    if made.half:
        value -= 1 << (frac - made.fmt.frac_width - 1)
    if made.first is not None:
        value -= 1 << (frac - made.first - 1)
        wide = FixedFormat(WIDE, made.first)
        value, frac = cast_int(value, frac, wide, made.rounding, Overflow.SATURATE), made.first
    return cast_int(value, frac, made.fmt, made.rounding, made.overflow)


def cast_int(value: int, frac: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow) -> int:
    return int(cast(torch.tensor([value], dtype=torch.int64), frac, fmt, rounding, overflow)[0])
