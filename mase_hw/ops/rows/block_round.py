"""Numbers in blocks that share an exponent, and minifloats, on the grid of their fixed point.

A block is a part of the last dimension, or of the channels. With ``p`` its largest magnitude and ``g`` the LSB, a block
has the exponent ``e = floor(log2(p / g))`` and the shift ``s = max(e - top, 0)``, where ``top`` is what an element's
largest exponent lies above its last bit. Elements are ``round(x / (g * 2**s))``, half to even, saturated to their
largest magnitude: section 6.3 of the OCP Microscaling Formats specification, version 1.0, for blocks whose largest
magnitude is ``2**top * g`` or more. Below that the grid ends, and nothing is rounded. A minifloat keeps ``digits`` bits
from its leading one as far as there are so many. Without a block the shift is 0, which is the minifloat by itself.

The most negative number counts as the one above it, so the result always has the format of the data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import MINIFLOATS, integers
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Params, Pixels, Tensor3, port
from mase_hw.numerics import as_carrier, straight_through
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._tensors import lanes_within
from mase_hw.ops.products._blocks import whole_blocks
from mase_hw.ops.rows._rows import row_steps
from mase_hw.steps import Steps

ROWS, CHANNELS = "block_round", "block_round_channels"
KEYS = ("block", "top", "digits", "most")
"""Attributes: numbers of a block; of an element, what :class:`~mase_hw.formats.blocks.Minifloat` says, and the
significand of the largest one."""
WIDEST = 52
"""Bits of numbers that can be rounded so: float64 holds them."""
NOTE = 2
"""Cycles from the last beat of a block to the first one that leaves: the magnitudes, and the shift in the FIFO."""


class BlockRoundParams(Params, frozen=True):
    """Parameters of ``fixed_block_round``; see the module for their meaning."""

    data_in_0: Tensor3
    data_out_0: Tensor3
    block: int
    top: int
    digits: int
    most: int

    def attributes(self) -> Attributes:
        """Those of the node."""
        return {"block": self.block, "top": self.top, "digits": self.digits, "most": self.most}


class ImageParams(BlockRoundParams, frozen=True):
    """The same of images, whose blocks lie along the channels."""

    data_in_0: Pixels
    data_out_0: Pixels


def attributes(block: int, width: int, element: str) -> Attributes:
    """Those of a node.

    Args:
        block: Numbers of a block; 0 for minifloats without a shared exponent.
        width: Bits of an integer.
        element: A key of :data:`~mase_hw.formats.MINIFLOATS`; empty for integers.
    """
    one = MINIFLOATS[element] if element else integers(width)
    most = one.largest >> (one.top + 1 - (one.digits or one.top + 1))
    return {"block": block, "top": one.top, "digits": one.digits, "most": most}


def golden(dim: int, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0`` of the same shape and format."""
    x, fmt = t["data_in_0"], a.formats["data_in_0"]
    given = a.attributes
    block, top, digits, most = given["block"], given["top"], given["digits"], given["most"]
    rows = x.detach().movedim(dim, -1) if x.dim() > 1 else x.detach()
    size = rows.abs().double().clamp(max=fmt.max_mantissa)
    exponent = _leading(size)
    if block:
        count = math.ceil(size.shape[-1] / block)
        filled = torch.nn.functional.pad(size, (0, count * block - size.shape[-1]))
        peak = filled.reshape(*size.shape[:-1], count, block).amax(-1)
        shift = (_leading(peak) - top).clamp(min=0).repeat_interleave(block, -1)[..., : size.shape[-1]]
    else:
        shift = torch.zeros_like(exponent)
    last = torch.maximum(shift, exponent - (digits - 1)) if digits else shift
    step = torch.ldexp(torch.ones_like(size), last)
    largest = torch.ldexp(torch.full_like(size, most), shift + (top + 1 - most.bit_length()))
    rounded = torch.minimum(torch.round(size / step) * step, largest) * torch.sign(rows.double()) + 0.0
    found = as_carrier(rounded.movedim(-1, dim) if x.dim() > 1 else rounded, x.dtype)
    return {"data_out_0": straight_through(found, x) if x.requires_grad else found}


def _leading(size: Tensor) -> Tensor:
    """The place of the leading one; -1 of 0."""
    return torch.frexp(size).exponent - 1


def _build(channels: bool) -> Callable[[Request], BlockRoundParams]:
    kind = ImageParams if channels else BlockRoundParams

    def build(r: Request) -> BlockRoundParams:
        fmt, shape = r.arithmetic.formats["data_in_0"], r.shapes["data_in_0"]
        if channels and len(shape) > 1:
            shape = (shape[0], *shape[2:], shape[1])
        lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
        given = r.arithmetic.attributes
        block, top, digits, most = given["block"], given["top"], given["digits"], given["most"]
        lanes = whole_blocks(r, lanes, block, shape[-1])
        if 0 < block < shape[-1] and block % lanes:
            raise UnsupportedError(
                "a beat has elements of two blocks",
                node=r.node,
                field=f"hardware.parallelism.{r.node}",
                got=f"{lanes} lanes",
                expected=f"a divisor of the block of {block}",
                remedy="give the producer other lanes, or set data_in_block_size to a multiple of them",
            )
        return kind(
            data_in_0=port(shape, fmt, lanes),
            data_out_0=port(shape, r.arithmetic.formats["data_out_0"], lanes),
            block=block,
            top=top,
            digits=digits,
            most=most,
        )

    return build


def _latency(p: BlockRoundParams) -> Latency:
    beats, lanes, size = p.data_in_0.beats, p.data_in_0.lanes[0], p.data_in_0.size[0]
    registers = Steps.registered(beats)
    if not p.block:
        return Latency.from_steps(registers)
    row = p.data_in_0.tiles[0]
    length = row if p.block >= size else p.block // lanes
    return Latency.from_steps(row_steps(beats, length, note=NOTE, row=row), registers)


def _cases(channels: bool) -> Callable[[], list[Case]]:
    def one(name: str, shape: tuple[int, ...], lanes: int, fmt: str, block: int, element: str, width: int = 0) -> Case:
        made: dict[str, Any] = {**attributes(block, width, element)}
        return case(_build(channels), name, shape, lanes, f"{fmt} {fmt}", frames=6, **made)

    def rows() -> list[Case]:
        return [
            one("integers", (2, 16), 4, "s12.6", 8, "", 6),
            one("one_beat", (3, 8), 4, "s10.3", 4, "", 4),
            one("serial", (1, 9), 1, "s9.0", 4, "", 3),
            one("whole_row", (2, 3, 7), 3, "s16.9", 32, "", 8),
            one("uneven_rows", (2, 10), 2, "s11.5", 4, "", 5),
            one("unsigned", (2, 12), 4, "u9.9", 4, "", 5),
            one("wide", (1, 6), 2, "s32.20", 2, "", 8),
            one("two_bits", (2, 8), 2, "s7.2", 4, "", 2),
            one("e4m3", (1, 16), 4, "s20.9", 16, "e4m3"),
            one("e2m1", (2, 12), 2, "s9.4", 6, "e2m1"),
            one("minifloat", (4, 64), 4, "s10.4", 0, "e3m2"),
            one("minifloat_e4m3", (4, 16), 3, "s19.9", 0, "e4m3"),
        ]

    def images() -> list[Case]:
        return [
            one("pixels", (2, 8, 2, 3), 4, "s12.6", 8, "", 6),
            one("sequence", (1, 6, 5), 2, "s9.4", 4, "e2m1"),
        ]

    return images if channels else rows


def _op(name: str) -> OpDef:
    channels = name == CHANNELS
    return OpDef(
        name=name,
        mase_type="builtin_func",
        attributes=KEYS,
        golden=functools.partial(golden, 1 if channels else -1),
        default_out=lambda formats: formats["data_in_0"],
        hardware=Hardware(
            module="fixed_block_round",
            params=ImageParams if channels else BlockRoundParams,
            build=_build(channels),
            latency=_latency,
            cases=_cases(channels),
            follows_input=True,
            layout="channels_last" if channels else "row_major",
        ),
    )


OPS = (_op(ROWS), _op(CHANNELS))
