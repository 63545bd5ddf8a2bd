"""Weights in block floating point, of layers that sum products: the shifts of blocks, and what goes with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mase_hw.errors import UnsupportedError
from mase_hw.formats import BlockFormat, FixedFormat, GroupFormat
from mase_hw.hardware.params import Vector
from mase_hw.opdef import Request
from mase_hw.ops.products._multipliers import ProductParams
from mase_hw.steps import Counts
from mase_hw.streams import Stream, ceil_div


class BlockParams(ProductParams, frozen=True):
    """Parameters of a layer whose weights may have a shift, or a factor, for every block of a sum."""

    if TYPE_CHECKING:  # fields of those that inherit
        weight_block: int
        weight_factors: bool
        weight_shift: Vector

    @property
    def run(self) -> int:
        """Steps a sum."""
        raise NotImplementedError

    @property
    def products(self) -> int:
        """Products of an output lane and step."""
        raise NotImplementedError

    @property
    def block_steps(self) -> int:
        """Steps that share a shift."""
        return self.weight_block // self.products if self.weight_block else self.run

    def fmt(self, name: str) -> FixedFormat:
        """The format of a port; that of weights in blocks says nothing of elements and the width of exponents."""
        fmt = super().fmt(name)
        blocks = name == "weight" and self.weight_block > 0
        kind = GroupFormat if self.weight_factors else BlockFormat
        return kind(fmt.width, fmt.frac_width, True, self.weight_block) if blocks else fmt

    def stream(self, name: str) -> Stream:
        """The stream of a port; shifts come block by block for every output tile."""
        stream = super().stream(name)
        if name != "weight_shift" or not self.weight_block:
            return stream
        shape = (*stream.shape, ceil_div(self.run, self.block_steps))
        return dataclasses.replace(stream, shape=shape, parallelism=(1, self.weight_shift.lanes[0]))

    def with_shifts(self, found: Mapping[str, Counts]) -> dict[str, Counts]:
        """The steps in which parameters are taken; a shift is held for those of its block."""
        if not self.weight_block:
            return dict(found)
        step = found["weight"] % self.run
        last = ((step + 1) % self.block_steps == 0) | (step == self.run - 1)
        return {**found, "weight_shift": found["weight"][last]}


def shared_by(r: Request) -> int:
    """Weights that share an exponent or a factor; 0 if none do."""
    fmt = r.arithmetic.formats["weight"]
    return fmt.block if isinstance(fmt, BlockFormat) and "weight_shift" in r.shapes else 0


def whole_blocks(r: Request, lanes: int, block: int, row: int) -> int:
    """Lanes of ``data_in_0`` of which no beat has numbers of two blocks: fewer, if nobody asked for them.

    Args:
        r: The request.
        lanes: Those that are offered.
        block: Numbers that a divisor of has to be taken; 0 if there are no blocks.
        row: Numbers in a row; where a block has all of them, any lanes will do.
    """
    if not 0 < block < row or "data_in_0" in r.chosen:
        return lanes
    return max(n for n in range(1, min(lanes, block) + 1) if block % n == 0)


def block_of(r: Request, row: int, products: int, steps: int, channels: int) -> int:
    """Weights that share a shift; 0 for all of an output channel.

    Args:
        r: The request.
        row: Products of a sum.
        products: Those of an output lane in one step.
        steps: Steps a sum.
        channels: So many products of a sum, in the order of the blocks, come in beats of their own, the last of which
            may have lanes that only fill it up; 0 if beats have products in another order.

    Raises:
        UnsupportedError: Lanes, an order of the inputs or of the work, that do not go with blocks.
    """
    block = shared_by(r)
    if not block:
        return 0
    whole = block >= row
    filled = channels < row and (not channels or channels % products)
    if not whole and (block % products or filled):
        wanted = f"a divisor of the block of {block}"
        raise UnsupportedError(
            "a beat of inputs has weights of two blocks",
            node=r.node,
            field=f"hardware.parallelism.{r.node}",
            got=f"{products} products of a sum in one cycle",
            expected=wanted
            if channels == row
            else f"{wanted} and of the channels, one element of the kernel at a time",
            remedy="give data_in_0 other lanes, or set weight_block_size to a multiple of them",
        )
    if r.order == "inputs_first":
        raise UnsupportedError(
            "weights with an exponent by block are used one output tile after the other",
            node=r.node,
            field=f"hardware.order.{r.node}",
            got=r.order,
            expected="outputs_first",
            remedy="leave the order out",
        )
    return steps * products if whole else block
