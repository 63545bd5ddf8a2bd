"""Multipliers of look-up tables: rows that are added, as ``fixed_logic_product`` adds them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mase_hw.cost.casts import Parameters, Terms
from mase_hw.cost.primitives import tree

STEP = 2
"""Rows of a product between registers."""
SHORTEST_SHIFT = 3
"""Registers in a row that Yosys makes a shift register in look-up tables of, on Xilinx."""


@dataclass(frozen=True)
class Rows:
    """What is added.

    Args:
        of_data: Whether the activation is recoded, and the weight selected from.
        number: Rows of a product.
        recoded: Bits of what is recoded.
        plain: Whether the last row is one bit of an unsigned operand.
        width: Bits of the other operand.
        signed: Whether the other one is signed.
        product: Bits of a product.
    """

    of_data: bool
    number: int
    recoded: int
    plain: bool
    width: int
    signed: bool
    product: int

    @property
    def stages(self) -> int:
        """Cycles of them."""
        return ceil(self.number / STEP)

    def total(self, products: int, row: int) -> int:
        """Bits of the sum of one product or two, from the weight of a row on."""
        return min(self.product + products - 1 - 2 * row, self.width + 1 + products)

    def adders(self, products: int, row: int) -> list[int]:
        """Bits of the adders of a row of one product or two."""
        total = self.total(products, row)
        if products == 1:
            return [total]
        return [total - int(self.signed and total == self.width + 3), total]


def rows_of(p: Parameters) -> Rows:
    """The rows of a layer."""
    (a, a_signed), (b, b_signed) = ((p[f"{of}_PRECISION_0"], bool(p[f"{of}_SIGNED"])) for of in ("DATA_IN_0", "WEIGHT"))
    rows_a, rows_b = ((w + 1) // 2 if signed else w // 2 + 1 for w, signed in ((a, a_signed), (b, b_signed)))
    product = a + b + (0 if a_signed or b_signed else 1)
    if rows_a * (b + 3 - b_signed) < rows_b * (a + 3 - a_signed):
        return Rows(True, rows_a, a, not a_signed and a % 2 == 0, b, b_signed, product)
    return Rows(False, rows_b, b, not b_signed and b % 2 == 0, a, a_signed, product)


def logic_products(t: Terms, p: Parameters, lanes: int, products: int, activations: int, read: int) -> None:
    """What the products of all lanes take, with the adder trees behind them.

    Args:
        t: Where it is added.
        p: Parameters of the layer.
        lanes: Output lanes.
        products: Of each.
        activations: Different ones of an issue.
        read: Bits of the sum that are read.
    """
    rows, group = rows_of(p), p["LOGIC"]
    groups = ceil(products / group)
    for size, number in ((group, products // group), (products % group, 1)):
        if size and number:
            _group(t, rows, size, lanes * number, read)
    recoded, other = (activations, lanes * products) if rows.of_data else (lanes * products, activations)
    t.count(ff=other * rows.width * rows.stages)
    for bit in range(rows.recoded):
        _wait(t, recoded, *_reads(rows, bit))
    tree(t, "logic.add", lanes, groups, min(rows.total(min(group, products), 0) + 2 * rows.number, read), read)


def _group(t: Terms, rows: Rows, size: int, times: int, read: int) -> None:
    """The adders of a group, and the registers behind them."""
    for row in range(rows.number):
        # The sign of the first adder costs nothing: it is above all bits that are added.
        bits = sum(min(width, max(read - 2 * row, 0)) for width in rows.adders(size, row)) - 1
        if t.xilinx:
            t.logic("logic.row", times * bits)
        elif row == 0:
            t.logic("logic.first", times * bits)
        elif row == rows.number - 1 and rows.plain:
            t.logic("logic.plain", times * bits)
        else:
            t.logic("logic.row", times * bits)
    for stage in range(rows.stages):
        last = min(STEP * (stage + 1), rows.number) - 1
        bits = min(rows.total(size, last), max(read - 2 * last, 0))
        # Bits that are final, those of the rows before the last and two of the sum, wait for the others.
        final = 2 * (last - STEP * stage) + (2 if stage < rows.stages - 1 else 0)
        t.count(ff=times * max(bits - (2 if stage < rows.stages - 1 else 0), 0))
        _wait(t, times * final, rows.stages - stage, ())


def _reads(rows: Rows, bit: int) -> tuple[int, tuple[int, ...]]:
    """How many registers the bit of a recoded operand goes through, and behind which others it is read."""
    last = min((bit + 1) // 2, rows.number - 1) // STEP
    first = min(bit // 2 // STEP, last)
    return last + 1, (first + 1,) if first < last else ()


def _wait(t: Terms, bits: int, cycles: int, taps: tuple[int, ...]) -> None:
    """Bits that wait for so many cycles, read in between as well."""
    done = 0
    for end in (*taps, cycles):
        if t.xilinx and end - done >= SHORTEST_SHIFT:
            t.logic("logic.shift", bits)
        else:
            t.count(ff=bits * (end - done))
        done = end
