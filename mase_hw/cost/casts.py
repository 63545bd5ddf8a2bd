"""Units that round and saturate: which bits they give, and the look-up tables that they take.

What a module is built of: known counts, and amounts whose cost per unit is fitted.

What is known of a ROM whose words are known: how many bits differ, and the look-up tables that they take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from mase_hw.cost.fabrics import FABRICS, Luts

Parameters = Mapping[str, int]


class Terms:
    """The structure of one module on one family.

    Args:
        family: A family with constants.
    """

    def __init__(self, family: str) -> None:
        self.family = family
        self.fabric = FABRICS[family]
        self.luts = self.fabric.luts
        self.xilinx, self.adders = self.fabric.xilinx, self.fabric.multiplier.adders
        self.known: dict[str, float] = {"lut": 0, "ff": 0, "dsp": 0, "bram": 0}
        self.lut: defaultdict[str, float] = defaultdict(float)
        self.ff: defaultdict[str, float] = defaultdict(float)
        self.dsp: defaultdict[str, float] = defaultdict(float)
        self.bram: defaultdict[str, float] = defaultdict(float)

    def count(self, *, lut: float = 0, ff: float = 0, dsp: int = 0, bram: int = 0) -> None:
        """Add what is known exactly.

        How many gates look-up tables, what is in front of flip-flops, and multiplier blocks are is not.
        """
        if self.fabric.resets:
            self.logic("held", ff)
        if self.fabric.gates:
            self.logic("counted", lut)
            self.logic("held", ff)
            self.logic("blocks", dsp)
            lut = dsp = 0
        for name, number in (("lut", lut), ("ff", ff), ("dsp", dsp), ("bram", bram)):
            self.known[name] += number

    def data(self, ff: float) -> None:
        """Add flip-flops that no reset clears."""
        if self.fabric.gates:
            self.logic("held", ff)
        self.known["ff"] += ff

    def logic(self, name: str, amount: float) -> None:
        """Add look-up tables of a kind, usually bits."""
        if amount:
            self.lut[name] += amount

    def takes(self, blocks: int) -> bool:
        """Whether the register of a product, whatever it has, is in its multiplier block."""
        return (self.adders and blocks > 0) or (self.fabric.multiplier.enabled and blocks == 1)

    def chains(self, number: float, bits: int) -> None:
        """Add what stands in front of so many chains of carries, if adders of these bits have any."""
        if bits > SOFT[self.xilinx]:
            self.count(lut=number * self.luts.feed_in)

    def registers(self, name: str, amount: float) -> None:
        """Add flip-flops of a kind, usually bits."""
        if amount:
            self.ff[name] += amount
            self.logic("held", amount if self.fabric.gates else 0)

    def both(self, name: str, amount: float) -> None:
        """Add logic and registers of a kind."""
        self.logic(name, amount)
        self.registers(name, amount)


Structure = Callable[[Terms, Parameters], None]
"""Adds what a module is built of, from its parameters."""


def bits_of(number: int) -> int:
    """Bits that a counter from 0 to ``number - 1`` has; as ``$clog2``."""
    return max(number - 1, 0).bit_length()


_EVEN, _FLOOR, _ZERO = 0, 2, 3
SOFT = {True: 2, False: 4}
"""Bits of an adder up to which it has no carry chain."""
_RIPPLE = (0, 1, 2, 4, 8)
"""Look-up tables of an incrementer without one on ECP5, by its bits."""
_TIE = {True: (0, 1, 1, 1, 1, 1, 2, 3, 2, 3, 3, 4, 4), False: (0, 1, 1, 1, 2, 4, 5, 9, 5, 8, 10, 10, 11)}
"""Those that find whether exactly half is dropped, by the bits that are dropped."""
_LIMIT = {True: (0, 1, 1, 1, 1, 2, 2, 2), False: (0, 1, 2, 3, 3, 4, 5, 8)}
"""Those that set all bits of a register whose number has no sign, by the bits above it."""


def adder(t: Terms, bits: int) -> int:
    """Look-up tables of an incrementer: a carry chain of two bits a cell on ECP5, of carries alone on Xilinx."""
    if t.xilinx:
        return 0
    return t.luts.chain(bits) + t.luts.feed_in if bits > SOFT[False] else _RIPPLE[max(bits, 0)]


def cast_bits(taken: tuple[int, int, int], given: tuple[int, int, int], rounding: int, overflow: int = 1) -> int:
    """Bits of a result that differ from each other: not those that are always zero, nor copies of the sign.

    Args:
        taken: Width, fraction width and sign of what is cast.
        given: The same of the result.
        rounding: Its code.
        overflow: Its code.
    """
    width, frac, signed = taken
    out, out_frac, out_signed = given
    drop = frac - out_frac
    if drop <= 0:
        room = out + drop - (1 if out_signed and not signed else 0)
        bits = max(min(room, width if out_signed else width - signed), 0)
        if out_signed and not signed and overflow == 0 and drop == 0 and width > out:
            return out
        # The lowest are zero, or ones together where the number is too large.
        return bits + int(overflow == 0 and drop < 0 and Cast(taken, given, (rounding, overflow)).above > 1)
    whole = max(width - drop, 0) + (0 if rounding == _FLOOR else 1) + (0 if signed else 1)
    if out_signed and not signed and overflow == 0 and whole > out + 1:
        return out  # the sign is zero, but comes out of the same function as the others
    return min(out, whole if out_signed else whole - 1) - (1 if out_signed and not signed and whole > out - 1 else 0)


@dataclass(frozen=True)
class Cast:
    """A cast: what is taken and given (width, fraction width, sign), codes of rounding and overflow."""

    taken: tuple[int, int, int]
    given: tuple[int, int, int]
    way: tuple[int, int]

    @property
    def drop(self) -> int:
        """Bits below the result."""
        return self.taken[1] - self.given[1]

    @property
    def rounds(self) -> bool:
        """Whether one may be added."""
        return self.drop > 0 and self.way[0] != _FLOOR

    @property
    def rounded(self) -> int:
        """Bits of what is rounded, with a sign."""
        extended = self.taken[0] + (0 if self.taken[2] else 1)
        return max(extended - self.drop, 1) + int(self.rounds)

    @property
    def kept(self) -> int:
        """Bits of the result that differ from each other."""
        return cast_bits(self.taken, self.given, *self.way)

    @property
    def above(self) -> int:
        """Its bits from the sign of the result upwards, which agree where it fits; a result without sign has one."""
        return self.rounded - self.given[0] + int(self.given[2])


def cast(
    t: Terms,
    name: str,
    lanes: int,
    of: Cast,
    *,
    held: bool = False,
    summed: bool = False,
    relaxed: bool = False,
) -> None:
    """Units that round and saturate.

    Args:
        t: Where they are added.
        name: Of a term for what is not known of them.
        lanes: How many.
        of: What they do.
        held: Whether the result may wait in a skid buffer, which is chosen from in the same look-up tables.
        summed: Whether what they take comes from an adder and not from a register.
        relaxed: Whether other paths of the module are longer, so that the fewest look-up tables count.
    """
    taken, given, way = of.taken, of.given, of.way
    luts = 0
    if of.rounds:
        bits = min(of.rounded - (0 if taken[2] else 1), given[0] if way[1] else of.rounded)
        luts += adder(t, bits)
        if t.xilinx and bits > SOFT[True] and (of.above != 2 or way[1]):
            luts += 1
        if way[0] in (_EVEN, _ZERO):
            tie = _TIE[t.xilinx]
            luts += tie[min(of.drop, taken[0], len(tie) - 1)]
    if way[1] == 0 and not taken[2]:
        luts += _unsigned(t, of, held)
    elif way[1] == 0 and (of.above > 1 or not given[2]):
        luts += _compact(t, of) if relaxed else _saturated(t, of, held, of.rounds or summed)
    elif held:
        luts += of.kept
    t.count(lut=lanes * luts)
    t.logic(f"{name}.lanes", lanes if luts else 0)


def _unsigned(t: Terms, of: Cast, held: bool) -> int:
    """A number without sign that is too large sets all bits of a register, or is chosen from like others."""
    above = max(of.above - 1, 0)
    table = _LIMIT[t.xilinx]
    if not held or not above:
        return table[min(above, len(table) - 1)] + (of.kept if held else 0)
    out = min(of.given[0] - int(of.given[2]), of.kept)
    inputs = above + 3
    return out * (t.luts.of(inputs if inputs <= t.luts.widest else 4) + t.luts.of(above + 1))


def _compact(t: Terms, of: Cast) -> int:
    """Whether the number fits in look-up tables of its own, and a bit of the result in one with that and the sign."""
    most = t.luts.inputs
    above = max(of.above, 0) + int(not of.given[2])
    found = 0 if above < most else 1 + ceil(max(above - most, 0) / (most - 2))
    return of.kept + found


def _saturated(t: Terms, of: Cast, held: bool, late: bool) -> int:
    """Every bit is a function of itself and of those above the result, as far as one cell has the inputs.

    Args:
        t: Whose family counts.
        of: The cast.
        held: Whether a skid buffer is behind it: two inputs more, and the function once more before it.
        late: Whether the bits come from a carry chain, so that the fewest levels count.
    """
    out, x = of.kept, t.xilinx
    if not of.given[2]:
        above = max(of.above, 0)
        per, top = above + 1, above + 1
    else:
        above = of.above
        per, top = above + 1, above

    def each(more: int) -> int:
        return (out - 1) * t.luts.of(per + more) + t.luts.of(top + more)

    if not x and not t.luts.muxes:
        # Whether it fits is found once, where a function of more inputs takes as many look-up tables as it has.
        return min(each(2 * held) + (each(0) if held else 0), _compact(t, of) + out * held)
    if not held:
        if x:
            return out + (0 if above <= 5 else 2 if above <= 7 else 5)
        if above == 7 and not late:
            return 2 * out
        return each(0) + max(3 * (above - 6), 0)
    if per + 2 <= t.luts.inputs or (per + 2 <= t.luts.widest and (late or not x)):
        return each(2) + (out if x else each(0))
    if x:
        if above == 7 and late:
            return 5 * out
        return 2 * out + (1 if above <= 6 else 2 if not late else 5)
    if above in (5, 7):
        return 3 * out + t.luts.of(above)
    if above in (6, 8):
        return (out - 1) * 8 + 4 + out + 3 * (above - 6)
    return 3 * out + ((23 if late else 10) if above == 9 else 38 if late else 13)


MOST = 1024
"""Words up to which look-up tables are counted: what has more is in blocks."""
_UNKNOWN = 2
Bits = NDArray[np.uint8]


def parameters_of(words: Sequence[int], bits: int, family: str) -> dict[str, int]:
    """What the cost model takes beside the parameters of a module with a table.

    Args:
        words: Contents.
        bits: Of a word.
        family: A family with a cost model.

    Returns:
        ``DISTINCT``, the bits that are neither always the same nor copies of others, and ``TABLE_LUTS``, the look-up
        tables of these: each is a function of as many bits of the address as it depends on. A function with more of
        them than one look-up table and the multiplexers beside it take is put together from several. ``TABLE_HELD`` is
        that of bits that go into a register, where it is another number: what is constant in one half of the words is
        the reset of the register.
    """
    different, luts = _different(words, bits), FABRICS[family].luts
    found = {"DISTINCT": len(different)}
    if len(words) <= MOST:
        if luts.trees:
            return found | {"TABLE_LUTS": min(_tree_luts(different, first) for first in (1, 2))}
        found["TABLE_LUTS"] = _luts_of(different, luts)
        held = sum(min(_luts_of([c], luts), _luts_of([_without_reset(c)], luts)) for c in different)
        found |= {"TABLE_HELD": held} if held != found["TABLE_LUTS"] else {}
    return found


def table_luts(words: Sequence[int], bits: int, xilinx: bool) -> int:
    """Look-up tables of a table in logic, however long it is, as :func:`parameters_of` counts them.

    Args:
        words: Contents.
        bits: Of a word.
        xilinx: Whether a look-up table has six inputs, and not four.
    """
    return _luts_of(_different(words, bits), FABRICS["xc7" if xilinx else "ecp5"].luts)


def _different(words: Sequence[int], bits: int) -> list[Bits]:
    return [c for c in {c.tobytes(): c for c in _columns(words, bits)}.values() if c.min() != c.max()]


def _luts_of(columns: Sequence[Bits], luts: Luts) -> int:
    return sum(_luts(column, len(column).bit_length() - 1, luts) for column in columns)


def _tree_luts(columns: Sequence[Bits], first: int) -> int:
    """Multiplexers of two or four, down to functions of at most three bits of the address; words' bits share parts.

    Args:
        columns: The bits of all words, each a row.
        first: Bits of the address, 1 or 2, that the first multiplexers take; the others take two.
    """
    found, parts, taken = 0, {column.tobytes(): column for column in columns}, first
    while parts and len(next(iter(parts.values()))) > 8:
        below: dict[bytes, Bits] = {}
        for part in parts.values():
            found += sum(bool((h[:, 0] != h[:, 1]).any()) for h in (part.reshape(1 << n, 2, -1) for n in range(taken)))
            pieces = part.reshape(1 << taken, -1)
            below |= {piece.tobytes(): piece for piece in pieces if piece.min() != piece.max()}
        parts, taken = below, 2
    return found + sum(_support(part, len(part).bit_length() - 1) > 1 for part in parts.values())


def _columns(words: Sequence[int], bits: int) -> Bits:
    """The bits of all words, each a row; above the last word anything is what needs no logic."""
    places = 1 << max(len(words) - 1, 0).bit_length()
    size = (bits + 7) // 8
    packed = b"".join(word.to_bytes(size, "little") for word in words)
    plain = np.unpackbits(np.frombuffer(packed, np.uint8).reshape(len(words), size), axis=1, bitorder="little")
    columns = np.full((bits, places), _UNKNOWN, np.uint8)
    columns[:, : len(words)] = plain[:, :bits].T
    step = 1
    while step < places:
        halves = columns.reshape(bits, -1, 2, step)
        np.copyto(halves[:, :, 1], halves[:, :, 0], where=halves[:, :, 1] == _UNKNOWN)
        step *= 2
    return columns


def _without_reset(column: Bits) -> Bits:
    """What is left of a bit whose register is reset, to one value, where it is constant in the upper or lower half."""
    value = _UNKNOWN
    while len(column) > 2:
        halves = column.reshape(2, -1)
        constant = [half.min() == half.max() and value in (_UNKNOWN, half[0]) for half in halves]
        if not any(constant):
            break
        place = constant.index(True)
        value, column = halves[place][0], halves[1 - place]
    return column


def _support(column: Bits, address: int) -> int:
    """Bits of the address that it depends on."""
    halves = (column.reshape(-1, 2, 1 << bit) for bit in range(address))
    return sum(bool((pair[:, 0] != pair[:, 1]).any()) for pair in halves)


def _luts(column: Bits, address: int, luts: Luts) -> int:
    """Look-up tables of one bit: none where it is a bit of the address."""
    support, most = _support(column, address), luts.widest
    if support <= 1:
        return int(column[0])  # a bit of the address, or that inverted
    if support <= most or address <= most:
        return luts.of(support)
    parts = [part for part in column.reshape(-1, 1 << most) if part.min() != part.max()]
    return sum(luts.of(_support(part, most)) for part in parts) + luts.chosen(1 << (address - most))
