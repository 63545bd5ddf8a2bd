"""Where the registers of a network are: every value has a place between its operands and its readers.

A stage has room for so many additions one after the other. At first every value is computed as early as can be; then
each moves to where fewer bits have to be kept, over the whole network and not layer by layer, until nothing is saved
any more. It is retiming (Leiserson and Saxe, 1991) by descent, one value after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import Network, Program
from mase_hw.ops.unrolled.unrolled import Stages
from mase_hw.streams import ceil_div

_ROUNDS = 8
"""Times that all values are gone through, at most."""


@dataclass(frozen=True)
class NetworkStages(Stages):
    """A network cut into stages of a pipeline.

    Args:
        network: What ``graph`` is part of.
        live: The values that a result depends on, in order.
        stage_of: The stage of every value, by number.
    """

    network: Network
    live: Sequence[int]
    stage_of: Sequence[int]

    @property
    def numbers(self) -> Sequence[int]:
        """The values that are computed, in order."""
        return self.live

    @property
    def count(self) -> int:
        """Registers from the input to the output."""
        return max(ceil_div(self.graph.levels, self.levels), 1) if self.levels else 1

    def of(self, number: int) -> int:
        """The stage in which a value is computed."""
        return self.stage_of[number]

    def operands(self, number: int) -> tuple[int, ...]:
        """What a value is computed from."""
        return self.network.operands(number)


@functools.lru_cache(maxsize=8)
def stages_of(program: Program) -> NetworkStages:
    """The stages of the network of a program."""
    network, levels = network_of(program), program.levels
    places = _Places(network, levels).found() if levels else [0] * len(network.graph.values)
    stages = [(place - 1) // levels if levels and place else 0 for place in places]
    return NetworkStages(network.graph, levels, network, tuple(network.live()), tuple(stages))


class _Places:
    """The additions after which every value is there, counted from the input.

    Args:
        network: The network.
        levels: Additions between two registers.
    """

    def __init__(self, network: Network, levels: int) -> None:
        self.network, self.levels, self.values = network, levels, network.graph.values
        self.numbers = network.live()
        self.place = [value.level for value in self.values]
        self.last = max(ceil_div(network.graph.levels, levels), 1) * levels
        self.operands = {n: tuple(o for o in network.operands(n) if self._moves(o)) for n in self.numbers}
        self.delay = {n: network.delay(n) for n in self.numbers}
        self.readers: dict[int, list[int]] = {n: [] for n in self.numbers}
        for number, operands in self.operands.items():
            for operand in operands:
                self.readers[operand].append(number)
        self.leaves = {output[0] for output in network.graph.outputs if output is not None}
        self.fixed = set(network.inputs)

    def _moves(self, number: int) -> bool:
        return bool(self.values[number].coefficients)

    def _stage(self, place: int) -> int:
        return (place - 1) // self.levels if place else 0

    def found(self) -> list[int]:
        """The places at which no value can move by itself and save bits."""
        for _ in range(_ROUNDS):
            moved = [self._move(number) for number in reversed(self.numbers) if number not in self.fixed]
            if not any(moved):
                break
        return self.place

    def _move(self, number: int) -> bool:
        """Put a value where the fewest bits are kept; whether it was elsewhere."""
        operands = self.operands[number]
        if not operands:
            return False
        first = max(self.place[operand] for operand in operands) + self.delay[number]
        until = self.last if number in self.leaves else self.last + self.levels
        latest = min([until, *(self.place[r] - self.delay[r] for r in self.readers[number])])
        here = self._stage(self.place[number])
        # Within a stage the earliest place leaves most room to the readers, the latest to nothing that is kept.
        begin, end = self._stage(first), self._stage(latest)
        choices = {stage: max(first, stage * self.levels + 1) for stage in range(begin, end + 1)}
        kept = {stage: self._bits(number, stage) for stage in choices}
        best = min(choices, key=lambda stage: (kept[stage], stage != here, stage))
        if best != here:
            self.place[number] = choices[best]
        return best != here

    def _bits(self, number: int, stage: int) -> int:
        """Bits kept of a value and of its operands if it is computed in a stage."""
        last = self._stage(self.last) if number in self.leaves else 0
        last = max([last, *(self._stage(self.place[reader]) for reader in self.readers[number])])
        bits = self.values[number].width * (last - stage)
        for operand in self.operands[number]:
            others = [self._stage(self.place[reader]) for reader in self.readers[operand] if reader != number]
            others += [self._stage(self.last)] if operand in self.leaves else []
            bits += self.values[operand].width * (max([stage, *others]) - self._stage(self.place[operand]))
        return bits
