"""How long the values of a network take, in picoseconds, so that stages are cut for a clock and not after additions.

A delay is that of look-up tables and carry chains together with the wires to them. The constants are means of the parts
of the longest path of a placed network (``benchmarks/clocks.py`` tells them apart), half of which is wires, and these
differ: what a network will reach is known only after place and route.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.formats import Rounding
from mase_hw.ops.unrolled._network import (
    Above,
    Accumulated,
    Larger,
    Looked,
    Masked,
    Neighbour,
    Network,
    Positive,
    Product,
    Reached,
    Rest,
    Rounded,
    Saved,
)

_INPUTS = 4
"""Those of a look-up table of every family here."""


@dataclass(frozen=True)
class Delays:
    """Of a family, in picoseconds, with the wires to what they are of.

    Args:
        register: From the clock through a register, and into the next one.
        chain: Into a carry chain and out of it.
        carry: Through a bit of it.
        table: Through a look-up table.
        block: Through a multiplier block.
    """

    register: int
    chain: int
    carry: int
    table: int
    block: int

    def added(self, bits: int) -> int:
        """An addition with a carry chain of so many bits."""
        return self.chain + self.carry * bits if bits else 0

    def looked(self, inputs: int) -> int:
        """A function of so many bits, whatever it is."""
        return self.table * (1 + max(inputs - _INPUTS, 0)) if inputs else 0

    def gathered(self, bits: int) -> int:
        """Whether all of some bits are alike."""
        levels = 0
        while bits > 1:
            bits, levels = -(-bits // _INPUTS), levels + 1
        return self.table * levels


DELAYS: Mapping[str, Delays] = {"ecp5": Delays(register=655, chain=2479, carry=30, table=1087, block=6400)}
"""By family: LFE5U, speed grade 6, as nextpnr places 16-16-16-5 at 6 bits with six additions between registers; a block
as it places two products of 9 bits between registers."""
_BLOCK = 18
"""Bits of the operands of a block; wider products are sums of several."""


def delay_of(network: Network, delays: Delays, number: int) -> int:
    """Picoseconds from the operands of a value to it."""
    graph, made = network.graph, network.made.get(number)
    if made is None:
        return delays.added(graph.carries(number))
    if isinstance(made, Neighbour):
        return 0
    if isinstance(made, Rounded):
        return _rounded(network, delays, made)
    if isinstance(made, Looked):
        return delays.looked(sum(graph.values[operand].width for operand in made.values))
    if isinstance(made, Above):
        return delays.added(graph.values[made.value].width)
    if isinstance(made, Larger):
        widths = (graph.values[operand].width for operand in (made.one, made.other))
        return delays.added(max(widths)) + delays.table
    if isinstance(made, Positive) and isinstance(before := network.made.get(made.value), Rounded):
        # The sign is one more input of the table that chooses each bit.
        return 0 if _rounded(network, delays, before) else delays.table
    if isinstance(made, Rest | Reached):
        bits = max(graph.values[made.value].width + made.shift, graph.values[made.divisor].width)
        return delays.added(bits) + (delays.table if isinstance(made, Rest) else 0)
    if isinstance(made, Product):
        wide = max(graph.values[operand].width for operand in (made.one, made.other)) > _BLOCK
        return delays.block + delays.added(graph.values[number].width if wide else 0)
    if isinstance(made, Masked | Saved):
        return delays.table
    return delays.table + (delays.added(graph.values[number].width) if isinstance(made, Accumulated) else 0)


def _rounded(network: Network, delays: Delays, made: Rounded) -> int:
    """A cast: bits that are dropped or beyond the range are gathered, and then each bit of the result is chosen."""
    width = network.graph.values[made.value].width + made.shift
    drop = made.frac - made.fmt.frac_width
    beyond = width - max(drop, 0) - made.fmt.width + 1
    choice = delays.table if drop > 0 or beyond > 1 else 0
    if made.half or drop <= 0 or made.rounding is Rounding.FLOOR:
        tie = drop if made.half and made.rounding is Rounding.HALF_EVEN else 0
        return max(delays.gathered(tie), delays.gathered(beyond)) + choice
    return delays.added(width - drop) + delays.gathered(beyond) + choice
