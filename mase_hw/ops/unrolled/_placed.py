"""Where the registers of a network are: every value has a place between its operands and its readers.

A stage has room for so many additions one after the other, or for so many picoseconds of a clock. At first every value
is computed as early as can be; then values move to where fewer bits have to be kept, over the whole network and not
layer by layer, until no set of them saves any more. It is retiming (Leiserson and Saxe, 1991); that no placement in as
many stages keeps fewer bits is so where a beat is a frame. In several beats values move one after the other.

Where a frame comes in several beats, a value of the beat before is what the register behind a stage still holds when
the next beat is in that stage. A value of the beat behind is seen one stage further on, past the register of its own
beat, which waits there until the next one is in the stage before; the registers that wait are the fewest that do.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mase_hw.errors import UnsupportedError
from mase_hw.ops.unrolled._delays import DELAYS, delay_of
from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import (
    Accumulated,
    Network,
    Positive,
    Product,
    Program,
    Reached,
    Rest,
    Saved,
)
from mase_hw.ops.unrolled._retimed import END, Kept, Limits, fewest_bits, too_long
from mase_hw.ops.unrolled.data._products import Products, kinds_of
from mase_hw.ops.unrolled.unrolled import Stages

_ROUNDS = 8
"""Times that all values are gone through, at most."""
_BEGIN = 0.5
"""How much further than the end of the stage before a place is that is the beginning of a stage."""


@dataclass(frozen=True)
class NetworkStages(Stages):
    """A network cut into stages of a pipeline.

    Args:
        network: What ``graph`` is part of.
        live: The values that a result depends on, in order.
        stage_of: The stage of every value, by number.
        registers: Those from the input to the output.
        waits: The stages behind which the register waits for the beat behind its own, in order.
    """

    network: Network
    live: Sequence[int]
    stage_of: Mapping[int, int]
    registers: int
    waits: tuple[int, ...] = ()

    @property
    def numbers(self) -> Sequence[int]:
        """The values that are computed, in order."""
        return self.live

    @property
    def count(self) -> int:
        """Registers from the input to the output."""
        return self.registers

    def of(self, number: int) -> int:
        """The stage in which a value is computed."""
        return self.stage_of[number]

    def operands(self, number: int) -> tuple[int, ...]:
        """What a value is computed from."""
        return self.network.operands(number)

    def needed(self, number: int, operand: int) -> int:
        """The last stage in which an operand is, for a value: behind its register where it is of the beat before."""
        if self.network.before(number):
            return self.of(number) + 1
        return self.of(number) - int(self.network.behind(number))

    @property
    def figures(self) -> dict[str, int]:
        """Those of any graph, and the bits that are no sums or products: of casts, maxima, choices and tables."""
        made, values = self.network.made, self.graph.values
        wires = (n for n in self.live if n in made and self.network.delay(n) == 0 and not isinstance(made[n], Positive))
        saved = {n for n in self.live if isinstance(made.get(n), Saved)}
        steps = {(m.value, m.divisor, m.shift) for n in self.live if isinstance(m := made.get(n), Rest | Reached)}
        chosen = {n for n in self.live if n in made and not isinstance(made[n], Product | Reached)} - {*wires} - saved
        # A bit of a parity or of carries is a look-up table, as one of an addition is; a step of a division is one that
        # chooses as well.
        bits = sum(values[n].width for n in saved)
        bits += sum(max(values[value].width + shift, values[divisor].width) for value, divisor, shift in steps)
        found = super().figures
        more = {name: found[name] + bits for name in ("adder_bits", "carry_bits")}
        return {**found, **more, "chosen_bits": sum(values[n].width for n in chosen)}

    @property
    def products(self) -> Products:
        """The products of data, by the bits of their operands."""
        return kinds_of(self.network, self.live)

    @property
    def register_bits(self) -> int:
        """Flip-flops of the registers but those of the result, of sums over beats as well."""
        sums = (n for n in self.live if isinstance(self.network.made.get(n), Accumulated))
        return super().register_bits + sum(self.graph.values[number].width for number in sums)


@functools.lru_cache(maxsize=32)
def stages_of(program: Program) -> NetworkStages:
    """The stages of the network of a program.

    Raises:
        UnsupportedError: If a beat has to wait for the one behind it, and there is no register in which it could.
    """
    network, levels = network_of(program), program.levels
    numbers = network.live()
    if not levels:
        if any(network.behind(number) for number in numbers):
            raise UnsupportedError(
                "a window reaches into the next beat, so its beat waits for that one in a register",
                field="hardware.unroll_levels",
                got=0,
                expected="1 or more",
                remedy="ask for registers between additions, or for a frame per beat",
            )
        return NetworkStages(network.graph, 0, network, tuple(numbers), dict.fromkeys(numbers, 0), 1)
    places = _Places(network, levels, network.delay) if program.mhz is None else _for_clock(program, network)
    found = places.stages()
    if program.mhz is not None:
        levels = _longest(network, numbers, found)
    return NetworkStages(network.graph, levels, network, tuple(numbers), found, places.count, places.waits)


def _for_clock(program: Program, network: Network) -> _Places:
    """Places in picoseconds.

    Raises:
        UnsupportedError: If delays of the family are not known, or one step takes longer than a cycle.
    """
    delays, mhz = DELAYS.get(program.family), program.mhz
    assert mhz is not None
    if delays is None:
        raise UnsupportedError(
            "how long additions take is not known of this family",
            field="hardware.unroll_mhz",
            got=f"family {program.family!r}",
            expected=f"hardware.family of: {', '.join(DELAYS)}",
            remedy="set hardware.family, or say in hardware.unroll_levels how many additions are between two registers",
        )
    each = {number: delay_of(network, delays, number) for number in network.live()}
    room, most = int(1e6 / mhz) - delays.register, max(each.values(), default=0)
    if most > room:
        raise UnsupportedError(
            "one addition, cast or table by itself takes longer than a cycle of this clock",
            field="hardware.unroll_mhz",
            got=f"{mhz:g} MHz",
            expected=f"at most {1e6 / (most + delays.register):.0f} MHz",
            remedy="ask for a slower clock, or give weights and data fewer bits",
        )
    return _Places(network, max(room, 1), each.__getitem__)


def _longest(network: Network, numbers: Sequence[int], stage_of: Mapping[int, int]) -> int:
    """The most additions one after the other that are in one stage, at least 1."""
    depth: dict[int, int] = {}
    for number in numbers:
        inside = (depth[o] for o in network.operands(number) if o in depth and stage_of[o] == stage_of[number])
        depth[number] = max(inside, default=0) + network.delay(number)
    return max(*depth.values(), 1)


class _Places:
    """The additions, or picoseconds, after which every value is there, counted from the input.

    Args:
        network: The network.
        levels: Additions, or picoseconds, between two registers.
        delay: Those from the operands of a value to it.
    """

    def __init__(self, network: Network, levels: int, delay: Callable[[int], int]) -> None:
        self.network, self.levels, self.values = network, levels, network.graph.values
        self.numbers = network.live()
        self.operands = {n: tuple(o for o in network.operands(n) if self._moves(o)) for n in self.numbers}
        # What takes longer than a stage has one by itself.
        self.delay = {n: min(delay(n), levels) for n in self.numbers}
        self.readers: dict[int, list[int]] = {n: [] for n in self.numbers}
        for number, operands in self.operands.items():
            for operand in operands:
                self.readers[operand].append(number)
        self.leaves = {output[0] for output in network.graph.outputs if output is not None}
        self.waits: tuple[int, ...] = ()
        self.place: dict[int, float] = {}
        self._begin()
        self.count = max(self.stage(number) for number in self.leaves) + 1
        self.last = self.count * levels

    def _moves(self, number: int) -> bool:
        return bool(self.values[number].coefficients)

    def _stage(self, place: float) -> int:
        return math.ceil(place / self.levels) - 1 if place else 0

    def stage(self, number: int) -> int:
        """The stage in which a value is."""
        return self._stage(self.place[number])

    def _begin(self) -> None:
        """Put every value as early as can be, and the registers that wait."""
        order: dict[int, int] = {}
        for number in self.numbers:
            order[number] = max((order[o] for o in self.operands[number]), default=0) + self.network.behind(number)
        for wanted in range(max(order.values(), default=0) + 1):
            if wanted:
                behind = [n for n in self.numbers if order[n] == wanted and self.network.behind(n)]
                free = [self._free(self.place[operand]) for number in behind for operand in self.operands[number]]
                self.waits += (max(*free, self.waits[-1] + 2 if self.waits else 1),)
            for number in self.numbers:
                if order[number] == wanted:
                    self.place[number] = self._first(number, self.waits[wanted - 1] if wanted else 0)

    def _free(self, place: float) -> int:
        """The first stage whose register may wait, so that an addition follows in the stage behind it."""
        return self._stage(place) + int(place == (self._stage(place) + 1) * self.levels)

    def _first(self, number: int, wait: int) -> float:
        """The earliest place of a value behind its operands; of one of the beat behind, if a register waits there."""
        places = [self.place[operand] for operand in self.operands[number]]
        if not places:
            return 0
        if self.network.before(number):
            return self._stage(places[0]) * self.levels + _BEGIN
        if self.network.behind(number):
            inside = places[0] - wait * self.levels
            return (wait + 1) * self.levels + max(inside, _BEGIN)
        delay = self.delay[number]
        place = max(math.floor(place) + delay if delay else place for place in places)
        # What does not fit behind its operands any more begins with the next stage.
        return max(place, self._stage(place) * self.levels + delay)

    def stages(self) -> dict[int, int]:
        """The stage of every value, with few bits to keep; the fewest if a beat is a frame."""
        if self.network.beats > 1:
            self._improve()
            return {number: self.stage(number) for number in self.numbers}
        limits = Limits(self.operands, too_long(self.operands, self.delay, self.levels), self.count - 1)
        return fewest_bits(self._kept(), limits, {number: self.stage(number) for number in self.numbers})

    def _kept(self) -> list[Kept]:
        """What a register may hold: bits that the same values read."""
        readers = {n: {*self.readers[n]} | ({END} if n in self.leaves else set()) for n in self.numbers}
        places: dict[tuple[int, int], set[int]] = {}
        for number in filter(self._moves, self.numbers):
            for bit in range(self.values[number].width):
                places.setdefault(self.network.graph.source(number, bit), set()).update(readers[number])
        counts = collections.Counter((source, tuple(sorted(read))) for (source, _), read in places.items())
        return [Kept(bits, source, read) for (source, read), bits in counts.items()]

    def _improve(self) -> None:
        """Move values until none can move by itself and save bits."""
        fixed = {*self.network.inputs, *self.network.bits.values()}
        for _ in range(_ROUNDS):
            if not any([self._move(number) for number in reversed(self.numbers) if number not in fixed]):
                break

    def _latest(self, number: int, reader: int) -> float:
        """The latest place of a value for one that reads it."""
        place, stage = self.place[reader], self.stage(reader)
        if self.network.before(reader):
            return (stage + 1) * self.levels
        if self.network.behind(reader):
            # In the stage itself it must not be later than it is: the values behind it follow within the next one.
            return max(self.place[number], (stage - 1) * self.levels)
        return place - self.delay[reader]

    def _choices(self, number: int) -> dict[int, float]:
        """The stages in which a value may be, and its place in each."""
        until = self.last if number in self.leaves else self.last + self.levels
        readers = self.readers[number]
        if self.network.behind(number):
            ends = [self._latest(number, reader) for reader in readers] + [until]
            found = {wait + 1: self._first(number, wait) for wait in self.waits}
            earliest = self.stage(self.operands[number][0]) + 1
            return {s: p for s, p in found.items() if s >= earliest and all(math.floor(p) <= end for end in ends)} | {
                self.stage(number): self.place[number]
            }
        first = self._first(number, 0)
        latest = min([until, *(self._latest(number, reader) for reader in readers)])
        begin = self._stage(first)
        if self.network.before(number):
            end = max(math.floor(latest) // self.levels, begin)
            alike = [self.stage(r) for r in readers if not self.delay[r] or self.network.before(r)]
            end = max(min([end, *alike]), begin)
            return {stage: stage * self.levels + _BEGIN for stage in range(begin, min(end, self.count - 1) + 1)}
        # Within a stage the earliest place leaves most room to the readers, the latest to nothing that is kept.
        end = max(self._stage(latest), begin)
        shortest = max(self.delay[number], 1)
        later = {stage: stage * self.levels + shortest for stage in range(begin + 1, end + 1)}
        return {stage: place for stage, place in later.items() if place <= latest} | {begin: first}

    def _move(self, number: int) -> bool:
        """Put a value where the fewest bits are kept; whether it was elsewhere."""
        if not self.operands[number]:
            return False
        here, choices = self.stage(number), self._choices(number)
        kept = {stage: self._bits(number, stage) for stage in choices}
        best = min(choices, key=lambda stage: (kept[stage], stage != here, stage))
        if best != here:
            self.place[number] = choices[best]
        return best != here

    def _needed(self, reader: int, stage: int) -> int:
        """The last stage in which an operand has to be, for a reader in a stage."""
        return stage + int(self.network.before(reader)) - int(self.network.behind(reader))

    def _bits(self, number: int, stage: int) -> int:
        """Bits kept of a value and of its operands if it is computed in a stage."""
        ends = [self._needed(reader, self.stage(reader)) for reader in self.readers[number]]
        ends += [self.count - 1] if number in self.leaves else []
        bits = self.values[number].width * (max(ends, default=stage) - stage)
        for operand in self.operands[number]:
            others = [self._needed(r, self.stage(r)) for r in self.readers[operand] if r != number]
            others += [self.count - 1] if operand in self.leaves else []
            bits += self.values[operand].width * (max([self._needed(number, stage), *others]) - self.stage(operand))
        return bits
