"""Rearrange: every element of the result is one of the input, by a stored place, or zero; cast once.

What ``expand``, ``repeat``, ``tile``, ``repeat_interleave``, ``flip``, ``roll``, ``index_select``, ``gather`` with a
stored index and others come to, and a broadcast of data to the shape of other data. The stream is cut into the smallest
blocks that are rearranged alike; two banks of one block take turns. ``lower_movement_transform_pass`` makes them.

Which element of a tensor stands at each place of another one, as nested loops around a short table.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.errors import GraphError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Tensor3, fold_shape, port
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import ONE_INPUT, Arithmetic, Case, Hardware, Latency, Memory, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import SELECTION
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps
from mase_hw.streams import Direction, Stream

NOTHING = -1
"""Place of no element: a zero stands there."""
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Blocks of ``block`` elements, one after the other; each gives, ``passes`` times over, the same places of it.

    A pass goes through ``starts``; each stands for ``run`` elements from there on (zeros, for :data:`NOTHING`), each of
    them ``hold`` times.

    Args:
        block: Elements of a block of the input.
        passes: How often a block is gone through.
        starts: Where runs begin.
        run: Elements of a run.
        hold: Repetitions of an element.
    """

    block: int
    passes: int
    starts: tuple[int, ...]
    run: int
    hold: int

    @property
    def per_block(self) -> int:
        """Elements that a block gives."""
        return self.passes * len(self.starts) * self.run * self.hold

    def sequence(self, elements: int) -> IntArray:
        """The place in the input of every element of the result.

        Args:
            elements: Elements of the input, a whole number of blocks.

        Raises:
            GraphError: If the input is no whole number of blocks, or a run leaves its block.
        """
        starts = np.asarray(self.starts, dtype=np.int64)
        within = starts.size and starts.min() >= NOTHING and starts.max() + self.run <= self.block
        if elements % self.block or not within:
            raise GraphError("these places are not in the tensor", got=self.to_dict(), expected=f"{elements} elements")
        runs = np.where(starts[:, None] == NOTHING, NOTHING, starts[:, None] + np.arange(self.run, dtype=np.int64))
        once = np.tile(np.repeat(runs.reshape(-1), self.hold), self.passes)
        blocks = np.arange(elements // self.block, dtype=np.int64)[:, None] * self.block
        return np.where(once == NOTHING, NOTHING, blocks + once).reshape(-1)

    @classmethod
    def of(cls, sequence: IntArray, elements: int) -> Places:
        """The description of a sequence with the smallest block, and the shortest table for that.

        Args:
            sequence: The place in the input of every element of the result, or :data:`NOTHING`.
            elements: Elements of the input.
        """
        once, block = _one_block(sequence, elements)
        hold = next(n for n in _divisors(once.size) if (once.reshape(-1, n) == once.reshape(-1, n)[:, :1]).all())
        once = once[::hold]
        passes = next(n for n in _divisors(once.size) if (once.reshape(n, -1) == once.reshape(n, -1)[:1]).all())
        once = once[: once.size // passes]
        run = next(n for n in _divisors(once.size) if _are_runs(once.reshape(-1, n)))
        return cls(block, passes, tuple(int(start) for start in once[::run]), run, hold)

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Places:
        """As :meth:`to_dict` gives it, among other attributes."""
        a = attributes
        return cls(a["block"], a["passes"], tuple(int(start) for start in a["starts"]), a["run"], a["hold"])

    def to_dict(self) -> Attributes:
        """As attributes of an op."""
        return {
            "block": self.block,
            "passes": self.passes,
            "starts": self.starts,
            "run": self.run,
            "hold": self.hold,
        }


def _one_block(sequence: IntArray, elements: int) -> tuple[IntArray, int]:
    """What one of the most blocks gives, and its size: all do the same to their own elements."""
    for blocks in _divisors(math.gcd(sequence.size, elements)):
        block = elements // blocks
        each = sequence.reshape(blocks, -1)
        place = np.where(each == NOTHING, NOTHING, each - np.arange(blocks, dtype=np.int64)[:, None] * block)
        if (place == place[:1]).all() and place.max() < block and place.min() >= NOTHING:
            return place[0], block
    return sequence, elements


def _divisors(n: int) -> Iterator[int]:
    """Divisors of a number, the largest first."""
    return (k for k in range(n, 0, -1) if n % k == 0)


def _are_runs(groups: IntArray) -> bool:
    firsts = groups[:, :1]
    wanted = np.where(firsts == NOTHING, NOTHING, firsts + np.arange(groups.shape[1], dtype=np.int64))
    return bool((groups == wanted).all())


FILE = "STARTS_FILE"
"""Parameter that takes the path of the table."""
_LANES = 4
"""Lanes at which orders of the result are compared."""


class RearrangeParams(Params, frozen=True):
    """Parameters of ``fixed_rearrange``; ``block``, ``run`` and ``hold`` count beats, ``starts`` 0 is no table.

    Lanes of the output along dimension 1 are neighbouring positions, to all of which a lane of the input goes.
    """

    data_in_0: Tensor3
    data_out_0: Tensor3
    block: int
    passes: int
    starts: int
    run: int
    hold: int
    cast: Cast

    def stream(self, name: str) -> Stream:
        """The stream of a port: of several positions, those of a sequence ``(1, channels, positions)``."""
        own, source, (lanes, beside, _) = getattr(self, name), self.data_in_0.lanes[0], self.data_out_0.lanes
        # Positions that go to several channels.
        positions = source if source > 1 and source != lanes and beside == 1 else beside
        if positions == 1 or (name == "data_in_0" and beside > 1):
            return super().stream(name)
        size = own.size[0]
        channels = 1 if name == "data_in_0" else size // positions
        layout = Layout.tiled((1, channels, math.prod(own.size) // channels), positions)
        side: Direction = "in" if name == "data_in_0" else "out"
        return Stream(name, side, own.shape, self.fmt(name), (math.prod(own.lanes),), layout=layout)

    def attributes(self) -> Attributes:
        """Shapes and lanes, from which the places follow."""
        shapes = {s.name: s.tensor_shape for s in self.streams()}
        lanes = {s.name: s.parallelism for s in self.streams()}
        layouts = {s.name: s.layout for s in self.streams() if s.layout is not None}
        return {"shapes": shapes, "parallelism": lanes, "layouts": layouts, "shape": shapes["data_out_0"]}


def rearrange(
    input: Tensor, shape: Sequence[int], block: int, passes: int, starts: Sequence[int], run: int, hold: int
) -> Tensor:
    """Elements of a tensor at stored places; see :class:`Places` for the loops.

    Args:
        input: Frames one after the other, of so many elements each as make the shape.
        shape: Of the result for one frame; a first size of 1 is that of the batch.
        block: Elements of a block.
        passes: How often a block is gone through.
        starts: Where runs begin, -1 for a run of zeros.
        run: Elements of a run.
        hold: Repetitions of an element.
    """
    places = Places(block, passes, tuple(starts), run, hold)
    elements = int(np.prod(shape, dtype=np.int64)) // places.per_block * block
    flat = input.reshape(-1, elements)
    index = torch.as_tensor(places.sequence(elements), device=input.device)
    if NOTHING in places.starts:
        flat = torch.cat((flat, torch.zeros_like(flat[:, :1])), 1)  # place -1
    return flat[:, index].reshape(flat.shape[0] * shape[0], *shape[1:])


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0 (*shape)``."""
    x = rearrange(t["data_in_0"], a.attributes["shape"], **dataclasses.asdict(Places.from_attributes(a.attributes)))
    return {"data_out_0": cast(x, a.formats["data_in_0"].frac_width, a.formats["data_out_0"], a.rounding, a.overflow)}


@dataclass(frozen=True)
class _Plan:
    """How beats are rearranged, for one choice of orders and lanes."""

    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    lanes: tuple[int, int]
    positions: int
    places: Places
    beats: tuple[int, int]

    @property
    def cost(self) -> tuple[int, int, int]:
        """Cycles per frame, then beats to keep, then entries of the table."""
        return max(self.beats), self.places.block, len(self.places.starts)


def _stream(shape: Sequence[int], lanes: int) -> Stream:
    folded = tuple(reversed(fold_shape(tuple(shape))))
    return Stream("data", "in", folded, FixedFormat(32, 0), (lanes,))


@functools.lru_cache(maxsize=256)
def _planned(places: Places, shape: tuple[int, ...], have: Layout, want: Layout, most: tuple[int, int]) -> _Plan:
    """The fewest cycles that these orders allow with at most so many lanes on either side."""
    elements = int(np.prod(have.shape, dtype=np.int64))
    numbers = np.arange(1, elements + 1, dtype=np.int64)
    sequence = places.sequence(elements) + 1  # 0: no element, as in a pad lane
    source = have.to_stream(numbers.reshape(1, *have.shape))[0]
    wanted = want.to_stream(sequence.reshape(1, *shape))[0]
    best: _Plan | None = None
    for *lanes, beside in _choices(most, have.beside, want.beside):
        streams = _stream(have.stream_shape, lanes[0]), _stream(want.stream_shape, lanes[1])
        taken = streams[0].pack(source.reshape(1, *streams[0].shape))
        given = streams[1].pack(wanted.reshape(1, *streams[1].shape))
        beats = _beats(taken, given, elements, beside)
        if beats is None:
            continue
        made = Places.of(beats, len(taken))
        sizes, number = (streams[0].shape, streams[1].shape), (len(taken), len(given))
        plan = _Plan(sizes, (lanes[0], lanes[1]), beside, made, number)
        if best is None or plan.cost < best.cost:
            best = plan
    assert best is not None  # one lane on both sides always does
    return best


def _choices(most: tuple[int, int], come: int, leave: int) -> list[tuple[int, int, int]]:
    """Lanes of input and output to try, and positions that share a lane of the input.

    As many lanes on both sides, or one value for all lanes of the output; and where the output has tiles, a channel for
    all its positions, or positions for several channels.

    Args:
        most: Lanes at most.
        come: Positions of a beat of the input.
        leave: Of the output.
    """
    found = [(n, n, 1) for n in range(min(most), 0, -1)] + [(1, n, 1) for n in range(most[1], 1, -1)]
    if leave > 1:
        found += [(n, n * leave, leave) for n in range(min(most[0], most[1] // leave), 0, -1)]
    come = come if come > 1 else leave  # of single elements neighbours follow each other anyway
    if 1 < come <= most[0]:
        found += [(come, n * come, 1) for n in range(most[1] // come, 1, -1)]
    return found


def _beats(taken: IntArray, given: IntArray, elements: int, beside: int) -> IntArray | None:
    """Which input beat every output beat is, :data:`NOTHING` for zeros; None if some is neither."""
    of_element = np.full(elements + 1, NOTHING, dtype=np.int64)
    for lane in reversed(range(taken.shape[1])):
        of_element[taken[:, lane]] = np.arange(len(taken))
    of_element[0] = NOTHING
    beats = of_element[given[:, 0]]
    filled = np.where((beats == NOTHING)[:, None], 0, taken[beats])
    filled = filled[:, np.arange(given.shape[1]) // beside % filled.shape[1]]
    return beats if bool((filled == given).all()) else None


def arranged(
    layout: Layout, shape: Sequence[int], attributes: Attributes, wanted: Sequence[Layout]
) -> tuple[Layout, Layout]:
    """The order in which the input is taken, as it comes or one position a beat, and that in which the result leaves.

    That which its readers want, else the one that costs least.
    """
    places = Places.from_attributes(attributes)
    tile = layout.beside if len(shape) > 2 and shape[-1] % layout.beside == 0 else 1
    tiles = [Layout.tiled(shape, tile)] if tile > 1 else []
    plain = [Layout.row_major(shape), Layout.channels_last(shape)]
    choices = list(dict.fromkeys((*tiles, *wanted))) if wanted else [*tiles, *plain]
    ends = [(have, want) for have in dict.fromkeys((layout, layout.one_by_one)) for want in choices]

    def cost(ends: tuple[Layout, Layout]) -> tuple[int, int, int]:
        beside = max(end.beside for end in ends)
        most = [min(_LANES * beside, (end.stream_shape or (1,))[-1]) for end in ends]
        return _planned(places, tuple(shape), *ends, (most[0], most[1])).cost

    return min(ends, key=cost)


def _build(r: Request) -> RearrangeParams:
    a, shapes = r.arithmetic, r.stream_shapes
    lanes = {name: r.parallelism[name] for name in ("data_in_0", "data_out_0")}
    for name, offered in lanes.items():
        lanes_within(r.node, name, offered, shapes[name])
    plan = _plan(r.shapes, r.layouts, a.attributes, (lanes["data_in_0"], lanes["data_out_0"]))
    table = plan.places.starts != (0,)
    return RearrangeParams(
        data_in_0=port(plan.shapes[0], a.formats["data_in_0"], plan.lanes[0]),
        data_out_0=port(plan.shapes[1], a.formats["data_out_0"], plan.lanes[1] // plan.positions, plan.positions),
        block=plan.places.block,
        passes=plan.places.passes,
        starts=len(plan.places.starts) if table else 0,
        run=plan.places.run,
        hold=plan.places.hold,
        cast=a.modes,
    )


def _plan(
    shapes: Mapping[str, tuple[int, ...]],
    layouts: Mapping[str, Layout],
    attributes: Attributes,
    lanes: tuple[tuple[int, ...], tuple[int, ...]],
) -> _Plan:
    have, want = (layouts.get(name) or Layout.row_major(shapes[name]) for name in ("data_in_0", "data_out_0"))
    most = tuple(
        max(1, min(n[0], (layout.stream_shape or (1,))[-1])) for n, layout in zip(lanes, (have, want), strict=True)
    )
    return _planned(Places.from_attributes(attributes), shapes["data_out_0"], have, want, (most[0], most[1]))


def _memories(a: Arithmetic) -> dict[str, Memory]:
    """The table of starts, as beats of a block; the top bit is set for zeros."""
    lanes = (a.attributes["parallelism"]["data_in_0"], a.attributes["parallelism"]["data_out_0"])
    plan = _plan(a.attributes["shapes"], a.attributes.get("layouts", {}), a.attributes, lanes)
    if plan.places.starts == (0,):
        return {}
    bits = max(1, (plan.places.block - 1).bit_length())
    words = tuple(1 << bits if start == NOTHING else start for start in plan.places.starts)
    return {FILE: Memory(words, bits + 1, "first beats of runs")}


def _latency(p: RearrangeParams) -> Latency:
    """A step reads a beat; the first of a block waits until that is written, the last one frees its bank."""
    source, sink = p.streams()
    blocks = source.beats // p.block
    each = sink.beats // blocks
    block = np.repeat(np.arange(blocks, dtype=np.int64), p.block)
    return Latency.from_steps(
        Steps.at(
            sink.beats,
            needed=[block * each],
            freed=[block * each + each - 1],
            emitted=np.arange(sink.beats, dtype=np.int64),
            delay=[1],
            pipe=1,
            room=[2 * p.block],
            queue=1,
            queue_lag=0,
        )
    )


def _case(
    name: str,
    shape: tuple[int, ...],
    made: tuple[int, ...],
    places: Places,
    lanes: tuple[int, int],
    formats: str,
    beside: tuple[int, int] = (1, 1),
) -> Case:
    shapes = dict(zip(ONE_INPUT, (shape, made), strict=True))
    offered = dict(zip(ONE_INPUT, lanes, strict=True))

    def build(r: Request) -> RearrangeParams:
        layouts = {end: Layout.tiled(shapes[end], n) for end, n in zip(ONE_INPUT, beside, strict=True) if n > 1}
        return _build(dataclasses.replace(r, layouts=layouts))

    found = case(build, name, shapes, offered, formats, shape=made, **dataclasses.asdict(places))
    return dataclasses.replace(found, attributes=places.to_dict())


def _cases() -> list[Case]:
    return [
        _case("vector_again", (1, 1, 6), (2, 3, 6), Places(6, 6, (0,), 6, 1), (4, 4), "s8.4 s8.4"),
        _case("element_to_all_lanes", (1, 2, 3), (2, 3, 6), Places(1, 1, (0,), 1, 6), (3, 4), "s8.4 s8.4"),
        _case("to_positions", (1, 1, 6), (1, 6, 4), Places(1, 1, (0,), 1, 4), (3, 6), "s8.4 s8.4", (1, 2)),
        _case("to_channels", (1, 1, 4), (1, 6, 4), Places(4, 6, (0,), 4, 1), (2, 6), "s8.4 s8.4", (2, 2)),
        _case("rows_again", (2, 3, 1), (2, 3, 2), Places(3, 2, (0,), 3, 1), (1, 2), "u6.3 u6.3"),
        _case("flipped_rows", (2, 4, 5), (2, 4, 5), Places(20, 1, (15, 10, 5, 0), 5, 1), (3, 3), "s16.9 s12.4 trunc"),
        _case("zeros_between", (1, 2, 4), (1, 5, 4), Places(8, 1, (-1, 4, -1, -1, 0), 4, 1), (2, 2), "s8.4 s8.4"),
        _case("one_chosen", (3, 1, 5), (3, 1, 4), Places(5, 1, (2,), 1, 4), (1, 1), "s2.0 s2.0"),
        _case("shuffled", (1, 2, 7), (1, 1, 8), Places(14, 1, (13, 0, 5, 5, -1, 9, 2, 12), 1, 1), (4, 4), "s2.0 s8.4"),
    ]


OPS = (
    OpDef(
        name="rearrange",
        mase_type="implicit_func",
        functions=(rearrange,),
        attributes=("shape", "block", "passes", "starts", "run", "hold"),
        arranged=arranged,
        golden=golden,
        scaled=SELECTION,
        default_out=lambda formats: formats["data_in_0"],
        hardware=Hardware(
            module="fixed_rearrange",
            params=RearrangeParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            memories=_memories,
        ),
    ),
)
