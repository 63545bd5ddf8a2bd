"""The ops that ``fixed_reduce`` does, and the cases on which it is proven.

Which part a dimension of the stream plays in a reduction.

Reductions over any dimensions but that of the frames: exact, one rounding.

``sum``, ``mean``, ``amax``, ``amin``, ``argmax``, ``argmin`` and ``cumsum``. The module takes the stream in any order:
a reduced dimension that is innermost needs one accumulator, one further out an accumulator for each element inside it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledUse
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Port, Tensor5, port
from mase_hw.layouts import Layout
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._division import divide_cast, surrogate
from mase_hw.ops._scaled import SELECTION, total
from mase_hw.ops._tensors import as_they_come, lanes_within
from mase_hw.steps import Steps
from mase_hw.streams import Stream


@dataclass(frozen=True)
class Roles:
    """The dimensions of a stream, joined by the part they play, innermost first.

    Args:
        inner: The innermost dimension is reduced; its beats become one lane.
        innermost: Size of the innermost dimension.
        reduced_1: Size of the reduced dimensions beside it, or of itself if it is reduced.
        kept_1: Size of the kept dimensions further out.
        reduced_2: Size of the reduced ones further out.
        rounds: Size of the kept ones that are outermost.
    """

    inner: bool
    innermost: int
    reduced_1: int
    kept_1: int
    reduced_2: int
    rounds: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Five sizes, the slowest first."""
        if self.inner:
            return (1, self.rounds, self.reduced_2, self.kept_1, self.reduced_1)
        return (self.rounds, self.reduced_2, self.kept_1, self.reduced_1, self.innermost)

    @property
    def left(self) -> tuple[int, ...]:
        """The same of the result."""
        if self.inner:
            return (1, self.rounds, 1, self.kept_1, 1)
        return (self.rounds, 1, self.kept_1, 1, self.innermost)

    @classmethod
    def of(cls, layout: Layout, dims: Sequence[int]) -> Roles | None:
        """The roles of a layout's factors; None if they change too often.

        Args:
            layout: Order in which the tensor travels.
            dims: Dimensions that are reduced, not negative.
        """
        reduced = {factor for dim in dims for factor in layout.factors_of(dim)}
        flags = [(factor in reduced, layout.factors[factor]) for factor in reversed(layout.order)] or [(False, 1)]
        if layout.beside > 1 and flags[0][0] == flags[1][0]:
            flags[:2] = [(flags[0][0], flags[0][1] * flags[1][1])]
        inner, innermost = flags[0]
        groups = [(flag, math.prod(size for _, size in run)) for flag, run in groupby(flags[1:], lambda f: f[0])]
        # The roles that follow the innermost dimension, in order; one without dimensions has size 1.
        sizes = []
        for role in (False, True, False) if inner else (True, False, True, False):
            sizes.append(groups.pop(0)[1] if groups and groups[0][0] == role else 1)
        if groups:
            return None
        if inner:
            return cls(True, innermost, innermost, *sizes)
        return cls(False, innermost, *sizes)


def kept_layout(layout: Layout, shape: Sequence[int], dims: Sequence[int]) -> Layout:
    """The order of what a reduction leaves: that of the kept factors.

    Args:
        layout: Order of the input.
        shape: Shape of the result; reduced dimensions are gone or have size 1.
        dims: Dimensions that are reduced, not negative.
    """
    reduced = {factor for dim in dims for factor in layout.factors_of(dim)}
    kept = [factor for factor in range(len(layout.factors)) if factor not in reduced]
    order = [kept.index(factor) for factor in layout.order if factor not in reduced]
    return Layout(tuple(shape), tuple(layout.factors[factor] for factor in kept), tuple(order))


SUM, MEAN, MAX, MIN, ARGMAX, ARGMIN, RUNNING = range(7)
"""Codes of the parameter ``OPERATION``."""
DIMS = 5
"""Dimensions of the module."""


class ReduceParams(Params, frozen=True):
    """Parameters of ``fixed_reduce``; what a dimension is depends on ``inner``.

    Lanes along dimension 1 are neighbouring positions of a beat, each of which is reduced by itself; with an ``inner``
    of 2 channels, of which a beat has all neighbouring positions that are reduced, one channel after the other; of
    running sums the result has as many.
    """

    data_in_0: Tensor5
    data_out_0: Tensor5
    inner: int
    operation: int
    cast: Cast

    def attributes(self) -> Attributes:
        """The dimensions that are reduced, of a tensor that has the module's, or of :meth:`stream`."""
        if self.inner == 2 or self.data_in_0.lanes[1] > 1:
            return {"dim": (self.inner,), "keepdim": True}
        reduced: tuple[int, ...] = (2, 4) if self.inner else (1, 3)
        if self.operation >= ARGMAX:
            reduced = (max(reduced, key=lambda d: self.data_in_0.shape[d]),)
        return {"dim": reduced, "keepdim": True}

    def stream(self, name: str) -> Stream:
        """The stream of a port: of several positions, those of a sequence ``(1, channels, positions)``."""
        made = super().stream(name)
        own: Port = getattr(self, name)
        (channels, kept, *outer), beside = own.size, own.lanes[1]
        if self.inner == 2:
            tiles, rounds = outer[:2]
            layout = Layout.tiled((rounds, kept, tiles * channels), channels)
            shape = (1, rounds, tiles, 1, kept * channels)
            return dataclasses.replace(made, shape=shape, parallelism=(own.lanes[0] * beside,), layout=layout)
        if beside == 1:
            return made
        layout, shape = Layout.tiled((1, channels, kept), beside), (1, 1, 1, kept // beside, channels * beside)
        return dataclasses.replace(made, shape=shape, parallelism=(own.lanes[0] * beside,), layout=layout)


def dims_of(attributes: Attributes, rank: int) -> tuple[int, ...]:
    """The reduced dimensions, not negative and in order; all of them if none is named."""
    given = attributes.get("dim")
    if given is None or given == () or given == []:
        return tuple(range(rank))
    listed = given if isinstance(given, Sequence) else [given]
    return tuple(sorted({int(d) % rank for d in listed}))


def golden(a: Arithmetic, t: Mapping[str, Tensor], *, operation: int) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0`` without the dimensions ``dim``, or with size 1 for them."""
    x, source, target = t["data_in_0"], a.formats["data_in_0"], a.formats["data_out_0"]
    dims, keep = dims_of(a.attributes, x.ndim), bool(a.attributes.get("keepdim", False))
    if operation in (ARGMAX, ARGMIN):
        key = x if operation == ARGMAX else -x
        best = key == key.amax(dims[0], keepdim=True)
        size = x.shape[dims[0]]
        place = torch.arange(size, device=x.device).reshape(-1, *[1] * (x.ndim - 1 - dims[0]))
        first = torch.where(best, place, size).amin(dims[0], keepdim=keep)
        return {"data_out_0": cast(first, 0, target, a.rounding, a.overflow)}
    if operation in (MAX, MIN):
        found = x.amax(dims, keep) if operation == MAX else x.amin(dims, keep)
        return {"data_out_0": cast(found, source.frac_width, target, a.rounding, a.overflow)}
    count = int(np.prod([x.shape[d] for d in dims], dtype=np.int64))
    bound = count * magnitude(source)
    wide = as_carrier(x, carrier(bound, wide=True))
    total = wide.cumsum(dims[0]) if operation == RUNNING else wide.sum(dims, keepdim=keep)
    if operation != MEAN:
        return {"data_out_0": cast(total, source.frac_width, target, a.rounding, a.overflow)}
    divisor = torch.tensor(count, dtype=torch.int64)
    out = divide_cast(total, divisor, (bound, count), source.frac_width, target, a.modes)
    if x.requires_grad and not out.requires_grad and out.is_floating_point():
        sums = x.double().sum(dims, keepdim=keep)
        out = straight_through(out, surrogate(sums, divisor.to(x.device), source.frac_width, target, a.overflow))
    return {"data_out_0": out}


def _layout_of(layout: Layout, shape: Sequence[int], attributes: Attributes, *, operation: int) -> Layout | None:
    """The order of the result; None if the module cannot work in that order."""
    dims = dims_of(attributes, len(layout.shape))
    reduced = reduced_of(layout, dims)
    if reduced == (True, False):
        if len(dims) != 1 or layout.factors_of(dims[0]) != [layout.order[-2]]:
            return None
        if operation == RUNNING:
            return Layout(tuple(shape), layout.factors, layout.order, layout.row)
        keep = bool(attributes.get("keepdim", False)) and layout.positions > 1
        return Layout.tiled(shape, layout.positions) if keep else kept_layout(layout, shape, dims)
    follow = operation == RUNNING and reduced == (False, True)
    if Roles.of(layout, dims) is None or (operation >= ARGMAX and len(layout.factors_of(dims[0])) > 1 + follow):
        return None
    if operation == RUNNING:
        return Layout(tuple(shape), layout.factors, layout.order, layout.row)
    made = kept_layout(layout, shape, dims)
    # Of tiles that stay a row has all channels, as before.
    return Layout(made.shape, made.factors, made.order, layout.row) if reduced == (False, False) else made


def reduced_of(layout: Layout, dims: Sequence[int]) -> tuple[bool, bool] | None:
    """Whether the channels of a tile are reduced, and whether its positions are; None if it is no tile of both.

    Args:
        layout: Order in which the tensor travels.
        dims: Dimensions that are reduced, not negative.
    """
    if layout.beside == 1 or layout.factors[layout.order[-2]] * layout.beside != layout.row:
        return None
    reduced = {factor for dim in dims for factor in layout.factors_of(dim)}
    return layout.order[-2] in reduced, layout.order[-1] in reduced


def _build(r: Request, *, operation: int) -> ReduceParams:
    a, shape = r.arithmetic, r.shapes["data_in_0"]
    layout, dims = r.layouts.get("data_in_0") or Layout.row_major(shape), dims_of(a.attributes, len(shape))
    reduced = reduced_of(layout, dims)
    beside = layout.beside if reduced == (True, False) else 1
    roles = Roles.of(layout.one_by_one if beside > 1 else layout, dims)
    if roles is None:
        raise UnsupportedError(
            "reduced and kept dimensions of this tensor alternate too often",
            node=r.node,
            got=f"dim {a.attributes.get('dim')} of {list(shape)}",
            expected="at most two groups of reduced dimensions",
            remedy="reduce in two steps, or permute the tensor first",
        )
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], layout.stream_shape)
    if reduced is not None and not beside > 1:
        return _of_tiles(r, operation, layout, roles, lanes)
    given = r.stream_shapes["data_out_0"] if "data_out_0" in r.shapes else roles.left
    lanes_within(r.node, "data_out_0", r.parallelism.get("data_out_0", (1,)), given)
    # Lanes of several positions are those of their channels.
    lanes = 1 if roles.inner and operation == RUNNING else min(lanes, roles.innermost) if beside > 1 else lanes
    left = roles.shape if operation == RUNNING else roles.left
    return ReduceParams(
        data_in_0=port(roles.shape, a.formats["data_in_0"], lanes, beside, dims=DIMS),
        data_out_0=port(left, a.formats["data_out_0"], 1 if roles.inner else lanes, beside, dims=DIMS),
        inner=int(roles.inner),
        operation=operation,
        cast=a.modes,
    )


def _of_tiles(r: Request, operation: int, layout: Layout, roles: Roles, lanes: int) -> ReduceParams:
    """Parameters where the positions of a tile are reduced, or neither its channels nor they, or both."""
    beside, formats = layout.beside, r.arithmetic.formats
    channels = layout.row // beside
    inner, columns = int(roles.inner), (min(lanes, channels) * beside, 1)
    if roles.innermost == beside:
        # A beat has all positions of some channels; rows of channels follow each other without a gap.
        fits = (n for n in range(min(lanes, channels), 0, -1) if roles.kept_1 == channels or channels % n == 0)
        inner, columns = 2, (beside, next(fits))
    elif roles.inner and operation == RUNNING:
        columns = (1, 1)
    left = roles.shape if operation == RUNNING else roles.left
    ends = (1 if roles.inner and operation != RUNNING else columns[0], columns[1])
    return ReduceParams(
        data_in_0=port(roles.shape, formats["data_in_0"], *columns, dims=DIMS),
        data_out_0=port(left, formats["data_out_0"], *ends, dims=DIMS),
        inner=inner,
        operation=operation,
        cast=r.arithmetic.modes,
    )


def _latency(p: ReduceParams) -> Latency:
    """A step takes an input beat; only those that complete a result wait for the output."""
    source, sink = p.streams()
    every = np.arange(source.beats, dtype=np.int64)
    tiles = every.reshape(*reversed(source.tiles))
    if p.operation != RUNNING:
        own = {0: np.s_[:, -1:, :, -1:], 1: np.s_[:, :, -1:, :, -1:], 2: np.s_[:, :, -1:]}
        tiles = tiles[own[p.inner]]
    done = tiles.reshape(-1)
    mean = p.operation == MEAN
    reduced = Steps.at(
        source.beats,
        needed=[every],
        freed=[every],
        emitted=done,
        delay=(0,),
        room=(0,),
        pipe=3 if mean else 1,
        queue=3 if mean else 2,
        queue_lag=0 if mean else 1,
    )
    stages = (Steps.registered(source.beats), reduced)
    return Latency.from_steps(*stages, Steps.queued(sink.beats, 2)) if mean else Latency.from_steps(*stages)


def check(node: str, attributes: Attributes, *, one: bool = False) -> None:
    """Refuse what the arithmetic does not cover: another type, and the dimension of the frames."""
    if attributes.get("dtype") is not None:
        raise UnsupportedError(
            "a reduction has the format of its configuration",
            node=node,
            field="dtype",
            got=attributes["dtype"],
            remedy=f"leave dtype out, and set data_out_width of {node} in the configuration",
        )
    given = attributes.get("dim")
    listed = list(given) if isinstance(given, Sequence) else [given]
    if not listed or any(d is None or int(d) == 0 for d in listed):
        raise UnsupportedError(
            "a reduction over dimension 0 would be one over frames",
            node=node,
            field="dim",
            got="all dimensions" if given is None or not listed else given,
            expected="dimensions from 1 on",
            remedy="name the dimensions inside a frame, for example x.flatten(1).sum(1)",
        )
    if one and len(listed) != 1:
        raise UnsupportedError("one dimension is needed here", node=node, field="dim", got=given)


def reduction(
    name: str, operation: int, cases: Callable[[], Any], *targets: Any, attributes: str = "dim keepdim", **facets: Any
) -> OpDef:
    """The op of one operation.

    Args:
        name: Name of the op.
        operation: Code of the operation.
        cases: Cases for the catalogue test.
        targets: Functions, and names of methods.
        attributes: Names of the attributes.
        facets: Other facets.
    """
    one = operation >= ARGMAX
    return OpDef(
        name=name,
        mase_type="implicit_func" if name == "sum" else "builtin_func",
        functions=tuple(t for t in targets if not isinstance(t, str)),
        methods=tuple(t for t in targets if isinstance(t, str)),
        attributes=tuple(attributes.split()),
        relayout=functools.partial(_layout_of, operation=operation),
        golden=functools.partial(golden, operation=operation),
        check=functools.partial(check, one=one),
        hardware=Hardware(
            module="fixed_reduce",
            params=ReduceParams,
            build=functools.partial(_build, operation=operation),
            latency=_latency,
            cases=cases,
            positions=as_they_come,
        ),
        **facets,
    )


def build(operation: int) -> Callable[[Request], ReduceParams]:
    """Makes the parameters of one operation, for a case."""
    return functools.partial(_build, operation=operation)


def place_format(formats: Mapping[str, FixedFormat], sizes: Sequence[int], attributes: Attributes) -> FixedFormat:
    """The narrowest format that holds every place of a dimension."""
    (dim,) = dims_of(attributes, len(sizes))
    return FixedFormat(max(1, (sizes[dim] - 1).bit_length()), 0, signed=False)


def mean_over(input: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    """The mean over any dimensions; what ``mean`` comes to where it is not that of an image.

    Args:
        input: Any tensor.
        dim: Dimensions, not that of the frames.
        keepdim: Whether they stay, with size 1.
    """
    return torch.mean(input, tuple(dim), keepdim)


def _case(
    operation: int,
    name: str,
    shape: tuple[int, ...],
    dim: int | tuple[int, ...],
    lanes: int,
    formats: str,
    positions: int = 0,
) -> Case:
    return case(build(operation), name, shape, lanes, formats, frames=5, dim=dim, keepdim=True, positions=positions)


def _sums() -> list[Case]:
    return [
        _case(SUM, "outermost", (1, 4, 2, 5), 1, 2, "u6.3 u8.3 floor wrap"),
        _case(SUM, "innermost", (3, 2, 7), 2, 3, "s8.4 s11.4"),
        _case(SUM, "both", (2, 3, 2, 4), (1, 3), 4, "s16.9 s14.4 half_up"),
        _case(SUM, "middle", (2, 3, 2, 2, 3), (1, 3), 2, "s8.4 s10.4"),
        _case(SUM, "one_element", (4, 1), 1, 1, "s2.0 s2.0"),
        _case(SUM, "columns_of_tiles", (2, 3, 2, 6), 3, 2, "s8.4 s11.4", positions=2),
        _case(SUM, "channels_and_columns", (2, 3, 2, 6), (1, 3), 2, "s8.4 s11.4", positions=3),
        _case(SUM, "two_positions", (2, 5, 3, 4), 1, 2, "u6.3 u9.3", positions=2),
    ]


def _means() -> list[Case]:
    return [
        _case(MEAN, "rows", (2, 3, 5), 1, 2, "s8.4 s8.6 half_away"),
        _case(MEAN, "four_positions", (1, 3, 2, 8), 1, 2, "s8.4 s8.6", positions=4),
        _case(MEAN, "images_of_tiles", (1, 4, 2, 8), (2, 3), 2, "s8.4 s8.6", positions=4),
        _case(MEAN, "whole", (1, 3, 7), (1, 2), 4, "u6.3 u9.6"),
    ]


def _maxima() -> list[Case]:
    return [
        _case(MAX, "outermost", (3, 2, 3), 0, 3, "u6.3 u6.3"),
        _case(MAX, "rows_of_tiles", (1, 3, 4, 6), 2, 2, "s8.4 s8.4", positions=2),
        _case(MAX, "whole_width", (1, 4, 3, 2), 3, 3, "s8.4 s8.4", positions=2),
        _case(MAX, "innermost", (2, 3, 5), 2, 2, "s8.4 s6.3 trunc"),
    ]


def _minima() -> list[Case]:
    return [
        _case(MIN, "two_bit", (2, 7), 0, 1, "s2.0 s2.0"),
        _case(MIN, "both", (2, 2, 3, 5), (1, 3), 4, "s8.4 s8.4"),
        _case(MIN, "three_positions", (1, 4, 6), 1, 4, "s8.4 s8.4", positions=3),
    ]


def _places_most() -> list[Case]:
    return [
        _case(ARGMAX, "further_out", (2, 5, 3), 1, 2, "s2.0 u3.0"),
        _case(ARGMAX, "innermost", (5, 7), 1, 4, "s3.1 u3.0"),
        _case(ARGMAX, "two_positions", (1, 7, 3, 4), 1, 3, "s3.1 u3.0", positions=2),
    ]


def _places_least() -> list[Case]:
    return [
        _case(ARGMIN, "outermost", (6, 2, 2), 0, 1, "u3.1 u3.0"),
        _case(ARGMIN, "innermost", (5, 6), 1, 3, "s2.0 u3.0"),
    ]


def _running() -> list[Case]:
    return [
        _case(RUNNING, "further_out", (2, 4, 2, 3), 1, 2, "u6.3 s6.2 half_up wrap"),
        _case(RUNNING, "rows_of_tiles", (1, 3, 4, 4), 2, 2, "u6.3 u8.3", positions=2),
        _case(RUNNING, "innermost", (2, 2, 5), 2, 3, "s8.4 s10.4"),
        _case(RUNNING, "two_positions", (1, 5, 3, 4), 1, 2, "s8.4 s9.4", positions=2),
        _case(RUNNING, "columns_of_tiles", (2, 3, 2, 6), 3, 2, "s8.4 s9.4", positions=3),
        _case(RUNNING, "whole_width", (1, 4, 3, 2), 3, 3, "u4.3 s6.2 half_up wrap", positions=2),
    ]


def _as_input(formats: Any) -> FixedFormat:
    return formats["data_in_0"]  # type: ignore[no-any-return]


def _count(shape: tuple[int, ...], attributes: Attributes) -> int:
    """Numbers in a sum."""
    return math.prod(shape[d] for d in dims_of(attributes, len(shape)))


_TOTAL = ScaledUse("total", total, count=_count)
OPS = (
    reduction("sum", SUM, _sums, torch.sum, "sum", attributes="dim keepdim dtype", scaled=_TOTAL),
    reduction("mean_over", MEAN, _means, mean_over, scaled=SELECTION),
    reduction("amax", MAX, _maxima, torch.amax, "amax", default_out=_as_input, scaled=SELECTION),
    reduction("amin", MIN, _minima, torch.amin, "amin", default_out=_as_input, scaled=SELECTION),
    reduction("argmax", ARGMAX, _places_most, torch.argmax, "argmax", exact_out=place_format),
    reduction("argmin", ARGMIN, _places_least, torch.argmin, "argmin", exact_out=place_format),
    reduction("cumsum", RUNNING, _running, torch.cumsum, "cumsum", "cumsum_", attributes="dim dtype"),
)
