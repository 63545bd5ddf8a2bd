"""Reorder: elements in another order, through a buffer of two blocks, or of one.

No model contains it: the netlist puts one where an op wants the elements of a tensor in another order than they
travel. A block is the smallest part of a frame that both orders have in the same place, and elements that stay
together travel together, as one word of the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Params
from mase_hw.layouts import Layout
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef
from mase_hw.ops.structural import not_requested
from mase_hw.steps import Steps
from mase_hw.streams import SIDES, Stream, plain_stream

Sequence = np.ndarray[Any, np.dtype[np.int64]]
RANK = 10
"""Nested counters of the module."""
Ten = tuple[int, int, int, int, int, int, int, int, int, int]


class ReorderParams(Params, frozen=True):
    """Parameters of ``stream_reorder``: bits of a word, blocks held, sizes and steps of the counters that read."""

    width: int
    banks: int
    size: Ten
    step: Ten

    @property
    def elements(self) -> int:
        """Words of a block."""
        return math.prod(self.size)

    def sequence(self) -> Sequence:
        """Which word of the incoming block leaves at each place."""
        places = np.zeros(1, dtype=np.int64)
        for size, step in zip(self.size, self.step, strict=True):
            digits = np.arange(size, dtype=np.int64) * step
            places = (digits[:, None] + places[None]).reshape(-1)
        return places

    def streams(self) -> tuple[Stream, ...]:
        """Both sides of a block, one word per beat."""
        fmt = FixedFormat(self.width, 0, signed=False)
        return tuple(plain_stream(side, (self.elements, 1), fmt) for side in SIDES)

    def attributes(self) -> Attributes:
        """What the golden needs."""
        return {"sequence": self.sequence()}


def reorder_params(node: str, width: int, have: Layout, want: Layout, lanes: int = 1, banks: int = 2) -> ReorderParams:
    """The counters that turn one order of a tensor's elements into another.

    Args:
        node: Who wants it, for errors.
        width: Bits of an element.
        have: Layout in which the elements come.
        want: Layout in which they leave; of the same tensor.
        lanes: Elements of a word; they must stay together, see :func:`reorder_lanes`.
        banks: Blocks held; of two one is read while the next is written.

    Raises:
        UnsupportedError: If more counters are needed than the module has.
    """
    address = _one_block(_address(have, want)[::lanes] // lanes)
    sizes, steps = _counters(address)
    if len(sizes) > RANK:
        raise UnsupportedError(
            "this change of order needs more counters than the reorder buffer has",
            node=node,
            got=f"{have.to_dict()} to {want.to_dict()}",
            expected=f"at most {RANK} counters",
            remedy="split the reshape or permutation before this node",
        )
    sizes, steps = sizes + [1] * (RANK - len(sizes)), steps + [0] * (RANK - len(steps))
    params = msgspec.convert({"width": lanes * width, "banks": banks, "size": sizes, "step": steps}, ReorderParams)
    if not np.array_equal(params.sequence(), address):
        raise UnsupportedError("this change of order is none of nested counters", node=node)
    return params


def reorder_lanes(have: Layout, want: Layout, most: int, row: int) -> int:
    """The most elements, of those that divide a row, that stay together in a change of order.

    Args:
        have: Layout in which the elements come.
        want: Layout in which they leave.
        most: More are of no use.
        row: Elements after which a beat of the incoming stream may have pad lanes.
    """
    address = _address(have, want)
    for lanes in range(min(most, row), 1, -1):
        if row % lanes == 0 and address.size % lanes == 0:
            words = address.reshape(-1, lanes)
            if not (words[:, 0] % lanes).any() and (np.diff(words, axis=1) == 1).all():
                return lanes
    return 1


def _address(have: Layout, want: Layout) -> Sequence:
    """Which element of the incoming frame leaves at each place."""
    elements = math.prod(want.shape)
    places = have.to_stream(np.arange(elements, dtype=np.int64).reshape(1, *have.shape))[0]
    written = np.empty(elements, dtype=np.int64)
    written[places] = np.arange(elements, dtype=np.int64)
    found: Sequence = want.to_stream(written.reshape(1, *want.shape))[0]
    return found


def _one_block(address: Sequence) -> Sequence:
    """The sequence of one of the most blocks that all do the same to their own words."""
    small = [n for n in range(1, math.isqrt(address.size) + 1) if address.size % n == 0]
    for size in (*small, *(address.size // n for n in reversed(small))):
        within = address.reshape(-1, size) - np.arange(0, address.size, size, dtype=np.int64)[:, None]
        if (within == within[0]).all() and within.min() >= 0 and within.max() < size:
            break
    found: Sequence = within[0]
    return found


def _counters(address: Sequence) -> tuple[list[int], list[int]]:
    """Nested counters, fastest first, whose sum of steps is the sequence (which a permutation of factors always is)."""
    sizes: list[int] = []
    steps: list[int] = []
    while address.size > 1:
        step = int(address[1] - address[0])
        breaks = np.flatnonzero(np.diff(address) != step)
        size = int(breaks[0]) + 1 if breaks.size else address.size
        while address.size % size:
            size -= 1
        sizes.append(size)
        steps.append(step)
        address = address[::size]
    return sizes, steps


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``in_data (elements, 1)`` -> ``out_data`` of the same shape, permuted."""
    return {"out_data": t["in_data"].reshape(-1, 1)[a.attributes["sequence"]]}


def _latency(p: ReorderParams) -> Latency:
    """A step reads a word; the first waits until the whole block is written, the last frees its bank."""
    n = p.elements
    steps = Steps.at(
        n,
        needed=[np.zeros(n, dtype=np.int64)],
        freed=[np.full(n, n - 1, dtype=np.int64)],
        emitted=np.arange(n, dtype=np.int64),
        delay=[1],
        pipe=1,
        room=[p.banks * n],
        queue=1,
        queue_lag=0,
    )
    return Latency.from_steps(steps)


def _cases() -> list[Case]:
    image, square = (2, 3, 4, 5), (1, 4, 4)
    pairs = {
        "to_channels_last": (Layout.row_major(image), Layout.channels_last(image)),
        "to_row_major": (Layout.channels_last(image), Layout.row_major(image)),
        "transpose": (Layout.row_major(square), Layout(square, (4, 4), (1, 0))),
        "reversed": (Layout.row_major(image), Layout(image, image, (3, 2, 1, 0))),
        "deep": (
            Layout.row_major((2, 2, 3, 2, 2, 3)),
            Layout((2, 2, 3, 2, 2, 3), (2, 2, 3, 2, 2, 3), (5, 3, 1, 4, 2, 0)),
        ),
        "same": (Layout.row_major((7,)), Layout.row_major((7,))),
        "single": (Layout.row_major((1,)), Layout.row_major((1,))),
    }
    plain = [Case(name, reorder_params(name, 9, have, want), 4) for name, (have, want) in pairs.items()]
    phases = (Layout((6, 4, 5, 2), (6, 4, 5, 2), (0, 2, 1, 3)), Layout.row_major((6, 4, 5, 2)))
    many = Layout((2,) * 8 + (3,), (2,) * 8 + (3,), (8, 0, 2, 4, 6, 7, 5, 3, 1))
    return [
        *plain,
        Case("blocks_of_pairs", reorder_params("blocks", 4, *phases, lanes=2), 4),
        Case("one_bank", reorder_params("one", 9, *pairs["transpose"], banks=1), 4),
        Case("one_word", reorder_params("one", 9, *pairs["single"], banks=1), 4),
        Case("nine_factors", reorder_params("nine", 3, Layout.row_major(many.shape), many), 3),
    ]


OPS = (
    OpDef(
        name="reorder",
        golden=golden,
        formats=(),
        hardware=Hardware(
            module="stream_reorder",
            file="lib/stream_reorder.sv",
            params=ReorderParams,
            build=not_requested,
            latency=_latency,
            cases=_cases,
        ),
    ),
)
