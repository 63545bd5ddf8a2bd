"""Which multipliers compute the products of a layer: a tree of sums beside them, chains, lanes that share one.

A multiplier of an FPGA is wider than two small numbers. Where several output lanes multiply the same activation ``x``,
their weights make one operand, and one product holds all of theirs, a field each::

    (w1 * 2**S + w0) * x == w1 * x * 2**S + w0 * x

The fields of several products are added before they are taken apart, which is exact as long as each field holds its
sum. It may have one bit more than its field: the next field has it added, but the lowest bit of what the next field
should hold is known from the lowest bits of its products, and so is what was added. The operand is too wide by one only
where the most negative weight lies above a negative one: then the weights of all fields but the last are lifted, so
that they are never negative, and the sums start with what that adds too much.
`rtl_templates/lib/fixed_chain_product.sv` computes it; here it is decided what fits.

Binary and ternary weights need no multiplier: their products are sums in a tree. Any others may have multipliers that
are made of look-up tables (`rtl_templates/lib/fixed_logic_product.sv`), where blocks are what is scarce.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import BlockFormat, FixedFormat, GroupFormat, SignFormat
from mase_hw.hardware.params import Multiplication, Params
from mase_hw.opdef import Request
from mase_hw.streams import Stream, ceil_div

LONGEST = 8
"""Products of a chain: each further one costs registers that delay its operands."""
SINGLE = 4
"""Products of a chain up to which each takes a cycle of its own; in longer ones all but the first are added in twos."""
MOST = 4
"""Lanes that share a multiplier."""
DSP_COST = 200
"""LUTs that a multiplier block counts for: devices of Xilinx 7 have 200 to 300 LUTs a block."""


@dataclass(frozen=True)
class Block:
    """A multiplier with an adder behind it, whose operand may be the sum of two words.

    Args:
        wide: Bits of the wider operand, signed.
        narrow: Bits of the other.
        total: Bits of the sum.
    """

    wide: int
    narrow: int
    total: int


FAMILIES: Mapping[str, Block | None] = {
    "": Block(25, 18, 48),
    "xc7": Block(25, 18, 48),
    "xcup": Block(27, 18, 48),
    "ecp5": None,
    "nexus": None,
    "ice40": None,
    "gowin": None,
    "gatemate": None,
    "asic": None,
}
"""The blocks of the families by the names of ``mase-hw synth``, xc7 where none is named; None where products are not
shared or chained: operands of 18 bits and less hold no two products of 8 bits, and the open tools leave the adders of
these blocks unused, so that fields could not be added before they are taken apart."""
CHOOSES = ("xc7", "xcup")
"""Families for which chains and shared multipliers are chosen where nothing is configured."""
IMPLEMENTATIONS = ("tree", "chain", "packed", "logic")
GROUPED = ("", "xc7", "xcup")
"""Families in which the rows of two products make one sum where multipliers are look-up tables: a tenth smaller, and as
fast as a chain of blocks. With look-up tables of four inputs a row is two levels deep and a carry, four of them are too
slow: 96 MHz in place of 156 MHz on ECP5, placed and routed."""


def stored(weight: FixedFormat, filled: bool) -> FixedFormat:
    """The format in which weights come to the module.

    Args:
        weight: Their format.
        filled: Whether some lanes only fill a beat up: their weights are 0, which one bit cannot say.
    """
    return FixedFormat(2, weight.frac_width) if weight.bipolar and filled else weight


class ProductParams(Params, frozen=True):
    """Parameters of a layer that multiplies by ``weight``, with a bias and shifts by channel if it has them."""

    if TYPE_CHECKING:  # a field of those that inherit
        inputs_first: bool

    def fmt(self, name: str) -> FixedFormat:
        """The format of a port; one bit of weights without its most negative code is binary."""
        return weight_format(self) if name == "weight" else super().fmt(name)

    def stream(self, name: str) -> Stream:
        """The stream of a port; weights come output channel by output channel where every input is used at once."""
        stream = super().stream(name)
        outer_first = name == "weight" and self.inputs_first
        return dataclasses.replace(stream, outer_first=outer_first)


def weight_format(p: Any) -> FixedFormat:
    """The format of the weights, from the parameters; one bit without its most negative code is binary."""
    fmt: FixedFormat = p.weight.fmt
    return SignFormat.binary(fmt.frac_width) if p.multiplication.narrow and fmt.signed and fmt.width == 1 else fmt


def multiplies(p: Any) -> bool:
    """Whether there are multipliers: weights of -1, 0 and 1 add and subtract in place of it."""
    signs = (
        p.multiplication.narrow
        and p.weight.fmt.signed
        and p.weight.fmt.width <= 2
        and not p.multiplication.chain
        and not p.multiplication.logic
    )
    return not signs


def narrow(p: Any) -> bool:
    """Whether one code of the weights does not occur."""
    return bool(p.multiplication.narrow) and not weight_format(p).bipolar


def dot_latency(products: int, p: Any) -> int:
    """Cycles from the operands to their dot product, of that many products and the parameters of a layer."""
    if p.multiplication.logic:
        rows = logic_rows((p.data_in_0.fmt.width, p.data_in_0.fmt.signed), (p.weight.fmt.width, p.weight.fmt.signed))
        return 1 + ceil_div(rows, 2) + (ceil_div(products, p.multiplication.logic) - 1).bit_length()
    if not p.multiplication.chain:
        return 2 + (products - 1).bit_length()
    chains = ceil_div(products, p.multiplication.chain)
    return stages(ceil_div(products, chains)) + 1 + (chains - 1).bit_length()


def logic_rows(a: tuple[int, bool], b: tuple[int, bool]) -> int:
    """Rows of a product of look-up tables, of operands of those widths, signed or not.

    A signed operand is recoded two bits at a time, an unsigned one with a zero above it. The one is taken that makes
    less of rows by their width.
    """
    (rows_a, wide_a), (rows_b, wide_b) = (
        ((width + 1) // 2 if signed else width // 2 + 1, width + 3 - signed) for width, signed in (a, b)
    )
    return rows_a if rows_a * wide_b < rows_b * wide_a else rows_b


def stages(length: int) -> int:
    """Cycles of a chain of so many products."""
    return length if length <= SINGLE else 1 + length // 2


@dataclass(frozen=True)
class _Layer:
    """What decides: formats, lanes that share an activation, products of a lane."""

    act: FixedFormat
    weight: FixedFormat
    narrow: bool
    lanes: int
    products: int
    shifts: bool

    @property
    def weights(self) -> tuple[int, int]:
        low, high = self.weight.min_mantissa, self.weight.max_mantissa
        return (-high if self.narrow and self.weight.signed else low), high

    def fits(self, m: Multiplication, block: Block) -> bool:
        """Whether operands and fields hold what they have to."""
        width = self.weight.width + (0 if self.weight.signed else 1), self.act.width + (0 if self.act.signed else 1)
        if max(width) > block.wide or min(width) > block.narrow:
            return False
        if m.packed == 1:
            return True
        (low, high), lifted = self.weights, self.lifted if m.lift else 0
        places = [1 << (lane * m.spacing) for lane in range(m.packed)]
        least = low * places[-1] + (low + lifted) * sum(places[:-1])
        most = high * places[-1] + (high + lifted) * sum(places[:-1])
        limit = 1 << (block.wide - 1)
        return least >= -limit and most < limit and width[1] <= block.narrow and self.holds(m)

    @property
    def lifted(self) -> int:
        """What makes every weight positive."""
        return -self.weight.min_mantissa

    def holds(self, m: Multiplication) -> bool:
        """Whether the sum of a chain fits into its field with some start besides the half of the field."""
        length, ends = self.length(m), self.ends
        over = self.over(m)
        if over and (self.shifts or (m.lift and m.packed > 2)):
            return False
        half = 1 << (m.spacing - 1 + over)
        # A field between others has to hold the sign of the one below as well.
        first, last = -half + (over and m.packed > 2) - length * min(ends), half - 1 - length * max(ends)
        if m.lift:
            # Lifted sums begin at the bottom of their field, exactly.
            return last >= first and m.spacing <= self.weight.width + self.act.width + (length - 1).bit_length()
        # Shifts afterwards would change what is taken off again.
        return first <= 0 <= last or (first <= last < 0 and not self.shifts)

    @property
    def ends(self) -> list[int]:
        """Products among which are the least and the greatest."""
        return [w * x for w in self.weights for x in (self.act.min_mantissa, self.act.max_mantissa)]

    def length(self, m: Multiplication) -> int:
        """Products of a chain."""
        return ceil_div(self.products, ceil_div(self.products, m.chain))

    def over(self, m: Multiplication) -> bool:
        """Whether the sums of a chain do not fit their fields, wherever they start, so that they have a bit more."""
        return m.packed > 1 and self.length(m) * (max(self.ends) - min(self.ends)) >= 1 << m.spacing

    def preference(self, m: Multiplication) -> tuple[int, ...]:
        """Cost first, then the simpler and the narrower."""
        return self.cost(m), m.packed, m.lift, m.spacing

    def cost(self, m: Multiplication) -> int:
        """LUTs of the adders, and of the blocks at :data:`DSP_COST`."""
        blocks = self.products * ceil_div(self.lanes, m.packed)
        chains = ceil_div(self.products, m.chain)
        bits = m.spacing if m.packed > 1 else self.weight.width + self.act.width + 2
        lacking = (self.products - chains) * (self.act.width + 1) if m.lift else 0
        shared = (m.packed - 1) * ceil_div(self.lanes, m.packed)
        # The lowest bits of three products are a look-up table; then there are the sign, its delay and two carries.
        signs = shared * chains * (ceil_div(self.length(m), 3) + 4) if self.over(m) else 0
        return blocks * DSP_COST + self.lanes * (chains - 1) * bits + lacking + signs


@functools.lru_cache(maxsize=4096)
def _shared(layer: _Layer, block: Block) -> tuple[Multiplication, ...]:
    """The same, kept: layers with other lanes and products ask it again."""
    return tuple(_ways(layer, block))


def _ways(layer: _Layer, block: Block) -> Iterator[Multiplication]:
    """What lanes can share."""
    lifts = (False, True) if layer.weight.signed and not (layer.narrow or layer.shifts) else (False,)
    for packed in range(2, min(MOST, layer.lanes) + 1):
        for spacing in range(block.wide // (packed - 1), 1, -1):
            for chain, lift in itertools.product(range(min(LONGEST, layer.products), 0, -1), lifts):
                way = Multiplication(packed, chain, spacing, layer.narrow, lift)
                if layer.fits(way, block):
                    yield way


@functools.lru_cache(maxsize=4096)
def _best(layer: _Layer, block: Block) -> Multiplication | None:
    """The way to share that costs least; None if nothing can be shared."""
    # No more than MOST lanes share a multiplier, and of this many products chains of every length have that length.
    alike = dataclasses.replace(
        layer, lanes=min(layer.lanes, MOST), products=min(layer.products, LONGEST * (LONGEST - 1) + 1)
    )
    return min(_shared(alike, block), key=layer.preference, default=None)


def choose(r: Request, lanes: int, products: int) -> Multiplication:
    """How a layer multiplies.

    Args:
        r: What is asked: the implementation, the family, whether the most negative weight occurs.
        lanes: Output lanes that share their activations; 1 if each has its own.
        products: Products of an output lane and cycle.

    Raises:
        ConfigError: If there is no such implementation.
        UnsupportedError: If the one that was asked for is impossible, with the nearest one that is.
    """
    asked = r.implementation
    if asked and asked not in IMPLEMENTATIONS:
        raise ConfigError(
            "there is no such implementation of a layer's products",
            node=r.node,
            field=f"hardware.implementation.{r.node}",
            got=asked,
            expected=", ".join(IMPLEMENTATIONS),
        )
    formats = r.arithmetic.formats
    if isinstance(formats["weight"], SignFormat):
        if asked in ("", "tree"):
            return Multiplication(narrow=True)
        raise UnsupportedError(
            f"{formats['weight'].kind} weights need no multiplier, so there is none to add in or to share",
            node=r.node,
            field=f"hardware.implementation.{r.node}",
            got=asked,
            expected="tree",
            remedy="ask for 'tree' or 'unrolled', or leave the choice to the cost",
        )
    if isinstance(formats["weight"], BlockFormat) and not isinstance(formats["weight"], GroupFormat):
        r = dataclasses.replace(r, narrow=True)  # its mantissas are symmetric
    if formats["weight"].width == 1:
        r = dataclasses.replace(r, narrow=False)  # one bit has no code to leave out
    layer = _Layer(formats["data_in_0"], formats["weight"], r.narrow, lanes, products, "weight_shift" in r.shapes)
    tree, block = Multiplication(narrow=r.narrow), FAMILIES[r.family]
    chain = msgspec.structs.replace(tree, chain=min(LONGEST, products))
    chains = block is not None and layer.fits(chain, block)
    if asked == "logic":
        return msgspec.structs.replace(tree, logic=2 if r.family in GROUPED else 1)
    if asked == "tree" or (not asked and (r.family not in CHOOSES or not chains)):
        return tree
    nearest = "chain" if chains else "tree"
    if asked == "chain" and chains:
        return chain
    best = _best(layer, block) if block else None
    if best is not None and asked != "chain" and (asked or layer.cost(best) < layer.cost(chain)):
        return best
    if not asked:
        return chain
    raise UnsupportedError(
        _why(asked, layer, block, r.family),
        node=r.node,
        field=f"hardware.implementation.{r.node}",
        got=asked,
        expected=nearest,
        remedy=f"ask for {nearest!r}, or leave the choice to the cost",
    )


def _why(asked: str, layer: _Layer, block: Block | None, family: str) -> str:
    """Why something is not possible."""
    act, weight = layer.act.width, layer.weight.width
    if block is None:
        return f"the blocks of {family} neither add products in a chain nor hold several of {weight} x {act} bits"
    if asked == "chain":
        return f"products of {weight} x {act} bits do not fit a block of {block.wide} x {block.narrow}"
    if layer.lanes == 1:
        return "no two output lanes share an activation, so no two products share an operand"
    return f"two products of {weight} x {act} bits do not fit a block of {block.wide} x {block.narrow}"
