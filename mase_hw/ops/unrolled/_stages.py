"""Where the registers of an unrolled layer are: after every so many additions, and at the output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mase_hw.ops.unrolled._graph import Graph
from mase_hw.streams import ceil_div


@dataclass(frozen=True)
class Stages:
    """A graph cut into stages of a pipeline; the casts of the outputs count as one more addition.

    Args:
        graph: The graph.
        levels: Additions between two registers; 0 for registers at the output only.
    """

    graph: Graph
    levels: int

    @property
    def count(self) -> int:
        """Registers from the input to the output."""
        return max(ceil_div(self.graph.levels + 1, self.levels), 1) if self.levels else 1

    def of(self, number: int) -> int:
        """The stage in which a value is computed."""
        level = self.graph.values[number].level
        return (level - 1) // self.levels if self.levels and level else 0

    def kept(self) -> Iterator[tuple[int, int]]:
        """The values that a register holds, and the stage behind which each of these registers is."""
        last: dict[int, int] = {}
        for number, made in enumerate(self.graph.values):
            for operand in (made.a, made.b):
                if operand >= 0:
                    last[operand] = max(last.get(operand, 0), self.of(number))
        for output in self.graph.outputs:
            if output is not None:
                last[output[0]] = self.count - 1
        for number, stage in sorted(last.items()):
            if self.graph.moves(number):
                yield from ((number, before) for before in range(self.of(number), stage))

    @property
    def register_bits(self) -> int:
        """Flip-flops of these registers, those of the result not counted: a bit that passes an addition has one."""
        values, source = self.graph.values, self.graph.source
        return len({(at, *source(n, bit)) for n, at in self.kept() for bit in range(values[n].width)})
