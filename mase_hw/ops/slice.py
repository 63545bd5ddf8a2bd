"""Slice: a range of one dimension, cast once; what split, chunk, narrow, select and indexing come to.

In a stream a slice passes some beats and drops the others; of several positions in a beat some pass.
``lower_slices_transform_pass`` makes slices of the ops that PyTorch has for it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import Overflow, Rounding
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Tensor4, port
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import SELECTION
from mase_hw.ops._tensors import as_they_come, by_token, lanes_within
from mase_hw.steps import Steps
from mase_hw.streams import IntArray, Stream

DIMS = 4
"""Dimensions of the module, innermost first: lanes, what a place of the range holds, the range, rounds."""


class SliceParams(Params, frozen=True):
    """Parameters of ``fixed_slice``; ``dim``, 0 or 2, is what is cut.

    Lanes along dimension 2 are neighbours of which a beat has all channels of dimension 0.
    """

    data_in_0: Tensor4
    data_out_0: Tensor4
    dim: int
    begin: int
    step: int
    cast: Cast

    @property
    def at_once(self) -> bool:
        """Whether an input beat is a whole row, and an output beat all that stays of it."""
        taken, given = self.data_in_0.lanes[0], self.data_out_0.lanes[0]
        return self.dim == 0 and taken == self.data_in_0.size[0] and given == self.data_out_0.size[0] < taken

    @property
    def wires(self) -> bool:
        """Whether there is no register: such a beat, of which a cast does no more than leave bits out."""
        equal = self.data_in_0.fmt == self.data_out_0.fmt
        return self.at_once and (equal or self.cast == Cast(Rounding.FLOOR, Overflow.WRAP))

    def stream(self, name: str) -> Stream:
        """The stream of a port: lane ``channel * neighbours + neighbour``."""
        made, lanes = super().stream(name), getattr(self, name).lanes
        if self.data_in_0.lanes[2] == 1:
            return made
        return by_token(dataclasses.replace(made, parallelism=lanes[:3]))

    def attributes(self) -> Attributes:
        """The slice of a tensor that has the module's dimensions."""
        length = self.data_out_0.size[2] if self.dim else self.data_out_0.size[0]
        return {"dim": DIMS - 1 - self.dim, "begin": self.begin, "length": length, "step": self.step}


@dataclass(frozen=True)
class Cut:
    """A range of one factor of a layout.

    Args:
        factor: Index of the factor.
        begin: First place that stays.
        length: Places that stay.
        step: From one to the next.
    """

    factor: int
    begin: int
    length: int
    step: int


def slice_dim(input: Tensor, dim: int, begin: int, length: int, step: int) -> Tensor:
    """Elements ``begin``, ``begin + step``, ... of a dimension, ``length`` of them.

    Args:
        input: Any tensor.
        dim: Dimension, not negative.
        begin: First element, not negative.
        length: Number of elements.
        step: From one element to the next, positive.
    """
    return input[(*[slice(None)] * dim, slice(begin, begin + (length - 1) * step + 1, step))]


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0``, smaller in dimension ``dim``."""
    x = slice_dim(t["data_in_0"], *_range(a.attributes))
    return {"data_out_0": cast(x, a.formats["data_in_0"].frac_width, a.formats["data_out_0"], a.rounding, a.overflow)}


def _range(attributes: Attributes) -> tuple[int, int, int, int]:
    a = attributes
    return int(a["dim"]), int(a["begin"]), int(a["length"]), int(a["step"])


def cut_of(layout: Layout, attributes: Attributes) -> Cut | None:
    """The factor of a layout that a slice cuts; None if its range straddles several.

    A dimension may be made of several factors that travel apart (the channels after a channel shuffle): a range of
    whole blocks of the outer one cuts that.
    """
    dim, begin, length, step = _range(attributes)
    factors = layout.factors_of(dim)
    if not factors:
        return None
    first, block = factors[0], math.prod(layout.factors[i] for i in factors[1:])
    if layout.beside > 1 and first == layout.order[-1]:
        return None  # a part of a beat's positions
    if block == 1:
        return Cut(first, begin, length, step)
    whole = step == 1 and begin % block == 0 and length % block == 0
    return Cut(first, begin // block, length // block, 1) if whole else None


def neighbours_left(layout: Layout, attributes: Attributes) -> int:
    """Neighbours of a beat of what is left of several in a beat, as many of each tile that passes; 0 if they differ.

    All of a range within a tile, those that are a step apart where every tile has as many, or one.
    """
    dim, begin, length, step = _range(attributes)
    beside, factors = layout.beside, layout.factors_of(dim)
    if beside == 1 or not factors or factors[-1] != layout.order[-1] or len(factors) > 2:
        return 0
    if len(factors) == 2 and _inside(layout, Cut(factors[0], 0, 1, 1)) != layout.row:
        return 0
    if begin // beside == (begin + (length - 1) * step) // beside:
        return length
    together = beside // step
    if step > 1 and beside % step == 0 and begin % beside < step and length % together == 0:
        return together
    return int(step % beside == 0)


def relayout(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """The order of what is left: elements keep theirs."""
    cut = cut_of(layout, attributes)
    if cut is None:
        return _of_neighbours(layout, shape, attributes)
    if layout.positions > 1:
        return Layout.tiled(shape, layout.positions)
    factors = [cut.length if i == cut.factor else size for i, size in enumerate(layout.factors)]
    row = 0
    if layout.beside > 1:
        within = _inside(layout, cut) < layout.row
        row = layout.row // layout.factors[cut.factor] * cut.length if within else layout.row
    return Layout(tuple(shape), tuple(factors), layout.order, row)


def _of_neighbours(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """The order of what is left of some of a beat's neighbours; None if their number is not that of all beats."""
    left = neighbours_left(layout, attributes)
    if not left:
        return None
    *tiles, neighbour = layout.factors_of(int(attributes["dim"]))
    factors = list(layout.factors)
    factors[neighbour] = left
    for tile in tiles:
        factors[tile] = int(attributes["length"]) // left
    row = layout.row // layout.beside * left if left > 1 else 0
    return Layout(tuple(shape), tuple(factors), layout.order, row)


def _inside(layout: Layout, cut: Cut) -> int:
    """Elements that travel together for each place of the factor that is cut."""
    return math.prod(layout.factors[i] for i in layout.order[layout.order.index(cut.factor) + 1 :])


def _stretch(layout: Layout, attributes: Attributes) -> int:
    """Elements that pass in one piece; a tile is one anyway."""
    cut = cut_of(layout, attributes)
    if cut is None or layout.beside > 1:
        return 1
    return _inside(layout, cut) * (cut.length if cut.step == 1 else 1)


def _build(r: Request) -> SliceParams:
    a, shape = r.arithmetic, r.shapes["data_in_0"]
    layout = r.layouts.get("data_in_0") or Layout.row_major(shape)
    cut = cut_of(layout, a.attributes)
    if cut is None:
        if some := neighbours_left(layout, a.attributes):
            return _of_tiles(r, layout, some)
        raise UnsupportedError(
            "this range is scattered over the stream",
            node=r.node,
            got=f"{dict(a.attributes)} of {layout.to_dict()}",
            expected="a range of one dimension, in the order in which it travels",
            remedy="slice before the dimensions are merged",
        )
    sizes = [layout.factors[i] for i in layout.order]
    place, each = layout.order.index(cut.factor), _inside(layout, cut)
    longest = max(layout.stream_shape[-1], _stretch(layout, a.attributes))
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (longest,))
    if layout.beside > 1:
        # A row is all channels of a tile, of each all positions.
        if cut.step == 1 and layout.row % (each * sizes[place]) == 0:
            sizes[place:] = [each * sizes[place]]
            cut = Cut(cut.factor, cut.begin * each, cut.length * each, 1)
        elif each % layout.row == 0:
            sizes[place + 1 :] = [each // layout.row, layout.row]
    elif lanes > sizes[-1]:
        sizes[place + 1 :] = [each]
        if cut.step == 1:
            sizes[place:] = [each * sizes[place]]
            cut = Cut(cut.factor, cut.begin * each, cut.length * each, 1)
    inside = place == len(sizes) - 1
    given = lanes
    if inside and lanes == sizes[-1] > cut.length:
        taken, given = (math.prod(sizes[:-1]), 1, 1, sizes[-1]), cut.length
        left = (*taken[:3], cut.length)
    elif inside:
        taken, lanes = (math.prod(sizes[:-1]), 1, 1, sizes[-1]), _whole_beats(cut, sizes[-1], lanes)
        left, given = (*taken[:3], cut.length), lanes
    else:
        taken = (math.prod(sizes[:place]), sizes[place], math.prod(sizes[place + 1 : -1]), sizes[-1])
        left = (taken[0], cut.length, *taken[2:])
    return SliceParams(
        data_in_0=port(taken, a.formats["data_in_0"], lanes, dims=DIMS),
        data_out_0=port(left, a.formats["data_out_0"], given, dims=DIMS),
        dim=0 if inside else 2,
        begin=cut.begin,
        step=cut.step,
        cast=a.modes,
    )


def _of_tiles(r: Request, layout: Layout, left: int) -> SliceParams:
    """Parameters where some neighbours of a beat pass, the channels of which are those of a token, or of its heads."""
    a, beside = r.arithmetic, layout.beside
    dim, begin, length, step = _range(a.attributes)
    size, each = layout.factors[layout.order[-2]], layout.row // beside
    lanes = min(size, max(1, r.parallelism["data_in_0"][0] // beside))
    while each != size and size % lanes:
        lanes -= 1
    taken = (math.prod(layout.shape) // (layout.shape[dim] * each), layout.shape[dim], each // size, size)
    return SliceParams(
        data_in_0=port(taken, a.formats["data_in_0"], lanes, 1, beside, dims=DIMS),
        data_out_0=port((taken[0], length, *taken[2:]), a.formats["data_out_0"], lanes, 1, left, dims=DIMS),
        dim=2,
        begin=begin,
        step=step,
        cast=a.modes,
    )


def _whole_beats(cut: Cut, size: int, lanes: int) -> int:
    """The most lanes, no more than offered, in whose beats the range begins and ends; one always is."""
    if cut.step != 1:
        return 1

    def fits(n: int) -> bool:
        return n <= cut.length and cut.begin % n == 0 and (cut.begin + cut.length == size or cut.length % n == 0)

    return next(n for n in range(lanes, 0, -1) if fits(n))


def passing(p: SliceParams) -> IntArray:
    """Input beats of a frame that pass."""
    source, sink = p.streams()
    tiles = np.arange(source.beats, dtype=np.int64).reshape(*reversed(source.tiles))
    at = p.attributes()
    if p.at_once:
        return tiles.reshape(-1)
    begin, length = p.begin, sink.tiles[p.dim]
    beside = p.data_in_0.lanes[2] if p.dim else source.lanes
    step = p.step if beside == 1 else max(1, p.step // beside)
    return np.take(tiles, begin // beside + np.arange(length) * step, axis=at["dim"]).reshape(-1)


def latency(p: SliceParams) -> Latency:
    """A step takes an input beat; only those that pass wait for the output."""
    beats = p.streams()[0].beats
    every = np.arange(beats, dtype=np.int64)
    pipe, queue = (0, 0) if p.wires else (1, 2)
    return Latency.from_steps(
        Steps.at(
            beats, needed=[every], freed=[every], emitted=passing(p), delay=(0,), room=(0,), pipe=pipe, queue=queue
        )
    )


def _case(
    name: str, shape: tuple[int, ...], cut: tuple[int, int, int, int], lanes: int, formats: str, beside: int = 1
) -> Case:
    """A case: outer sizes first; dimension 1 or 3, begin, length, step; neighbours of a beat along dimension 1."""
    attributes: Any = dict(zip(("dim", "begin", "length", "step"), cut, strict=True))
    layouts = {"data_in_0": Layout.tokens(shape, beside)} if beside > 1 else {}

    def build(r: Request) -> SliceParams:
        return _build(dataclasses.replace(r, layouts=layouts))

    return case(build, name, shape, lanes, formats, frames=5, **attributes)


def _cases() -> list[Case]:
    return [
        _case("first_channels", (6, 1, 1, 8), (3, 0, 4, 1), 4, "s8.4 s8.4"),
        _case("last_channels", (6, 1, 1, 12), (3, 8, 4, 1), 4, "s8.4 s8.4"),
        _case("middle_channels", (3, 1, 1, 10), (3, 2, 6, 1), 2, "s8.4 s8.4"),
        _case("uneven_rest", (3, 1, 1, 7), (3, 3, 4, 1), 3, "s8.4 s6.2 half_up wrap"),
        _case("fewer_lanes", (3, 1, 1, 10), (3, 5, 5, 1), 4, "u6.3 u6.3"),
        _case("every_other_channel", (3, 1, 1, 7), (3, 1, 3, 2), 4, "s8.4 s8.4"),
        _case("one_channel", (4, 1, 1, 5), (3, 2, 1, 1), 1, "s2.0 s2.0"),
        _case("whole_rows", (5, 1, 1, 7), (3, 2, 3, 1), 7, "s8.4 s6.2 half_up wrap"),
        _case("whole_rows_by_wires", (5, 1, 1, 7), (3, 1, 3, 2), 7, "s8.4 s6.3 floor wrap"),
        _case("columns", (4, 5, 1, 6), (1, 1, 3, 1), 4, "s8.4 s8.4"),
        _case("rows", (2, 4, 3, 5), (1, 2, 2, 1), 2, "s8.4 s9.5"),
        _case("every_third_row", (2, 8, 3, 4), (1, 1, 3, 3), 4, "s16.9 s12.4 trunc"),
        _case("one_row", (1, 3, 1, 4), (1, 2, 1, 1), 1, "s8.4 s8.4"),
        _case("one_of_tiles", (2, 6, 1, 5), (1, 3, 1, 1), 4, "s8.4 s8.4", 2),
        _case("every_fourth_of_tiles", (2, 8, 1, 3), (1, 1, 2, 4), 4, "s8.4 s6.2 half_up wrap", 4),
        _case("every_other_in_tiles", (2, 12, 1, 3), (1, 5, 4, 2), 8, "s8.4 s8.4", 4),
        _case("some_of_a_tile", (3, 6, 2, 3), (1, 3, 3, 1), 6, "s8.4 u7.3", 6),
        _case("another_point", (5, 1, 1, 7), (3, 2, 3, 1), 7, "s8.4 s8.2 half_up wrap"),
    ]


OPS = (
    OpDef(
        name="slice",
        mase_type="implicit_func",
        functions=(slice_dim,),
        attributes=("dim", "begin", "length", "step"),
        relayout=relayout,
        golden=golden,
        scaled=SELECTION,
        default_out=lambda formats: formats["data_in_0"],
        hardware=Hardware(
            module="fixed_slice",
            params=SliceParams,
            build=_build,
            latency=latency,
            cases=_cases,
            follows_input=True,
            positions=as_they_come,
            stretch=_stretch,
        ),
    ),
)
