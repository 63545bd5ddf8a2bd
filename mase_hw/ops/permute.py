"""Ops that put dimensions in another order: renamings of a stream that keeps its order, so they cost no hardware.

Where a later op wants the elements in another order than they travel, the netlist puts a reorder buffer in front of
it; a permutation between two images that ends where it began costs nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from mase_hw.formats.attributes import Attributes
from mase_hw.layouts import Layout
from mase_hw.opdef import OpDef

Dims = Callable[[Attributes, int], Sequence[int]]
"""Attributes and rank -> for every dimension of the result the one of the input."""


def _swap(first: str, second: str) -> Dims:
    def dims(attributes: Mapping[str, Any], rank: int) -> Sequence[int]:
        order = list(range(rank))
        a, b = operator.index(attributes[first]), operator.index(attributes[second])
        order[a], order[b] = order[b], order[a]
        return order

    return dims


def _listed(attributes: Attributes, rank: int) -> Sequence[int]:
    return [operator.index(d) % rank for d in attributes["dims"]]


def _moved(attributes: Attributes, rank: int) -> Sequence[int]:
    """As NumPy's ``moveaxis``: the named dimensions to their places, the others in order between them."""

    def listed(value: Any) -> list[int]:
        values = value if isinstance(value, list | tuple) else [value]
        return [operator.index(d) % rank for d in values]

    pairs = dict(zip(listed(attributes["destination"]), listed(attributes["source"]), strict=True))
    rest = iter(d for d in range(rank) if d not in pairs.values())
    return [pairs[place] if place in pairs else next(rest) for place in range(rank)]


def _shuffled(layout: Layout, attributes: Attributes, blocks: Sequence[Sequence[int]]) -> Layout | None:
    """Split every dimension into blocks, transpose them as ``attributes["order"]`` says, merge them."""
    split = layout.reshaped([size for block in blocks for size in block])
    return None if split is None else split.permuted(attributes["order"])


def _pixel_shuffle(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """``(*, C r r, H, W)`` -> ``(*, C, H r, W r)``."""
    *outer, channels, height, width = layout.shape
    r = operator.index(attributes["upscale_factor"])
    n = len(outer)
    blocks = [*([size] for size in outer), [channels // (r * r), r, r], [height], [width]]
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    moved = _shuffled(layout, {"order": order}, blocks)
    return None if moved is None else moved.reshaped(shape)


def _pixel_unshuffle(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """``(*, C, H r, W r)`` -> ``(*, C r r, H, W)``."""
    *outer, channels, height, width = layout.shape
    r = operator.index(attributes["downscale_factor"])
    n = len(outer)
    blocks = [*([size] for size in outer), [channels], [height // r, r], [width // r, r]]
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    moved = _shuffled(layout, {"order": order}, blocks)
    return None if moved is None else moved.reshaped(shape)


def _channel_shuffle(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """``(N, g C', *S)`` -> ``(N, C' g, *S)``."""
    batch, channels, *spatial = layout.shape
    g = operator.index(attributes["groups"])
    blocks = [[batch], [g, channels // g], *([size] for size in spatial)]
    moved = _shuffled(layout, {"order": [0, 2, 1, *range(3, 3 + len(spatial))]}, blocks)
    return None if moved is None else moved.reshaped(shape)


def _permutation(name: str, dims: Dims, **targets: Any) -> OpDef:
    def relayout(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout:
        return layout.permuted(dims(attributes, len(shape)))

    return OpDef(name=name, mase_type="implicit_func", implicit=True, relayout=relayout, **targets)


OPS = (
    _permutation("permute", _listed, functions=(torch.permute,), methods=("permute",)),
    _permutation(
        "transpose",
        _swap("dim0", "dim1"),
        functions=(torch.transpose, torch.swapdims),
        methods=("transpose", "transpose_", "swapdims", "swapdims_"),
    ),
    _permutation("swapaxes", _swap("axis0", "axis1"), functions=(torch.swapaxes,), methods=("swapaxes", "swapaxes_")),
    _permutation("movedim", _moved, functions=(torch.movedim, torch.moveaxis), methods=("movedim", "moveaxis")),
    _permutation("t", lambda _, rank: list(reversed(range(rank))), functions=(torch.t,), methods=("t", "t_")),
    OpDef(
        name="pixel_shuffle",
        mase_type="implicit_func",
        implicit=True,
        modules=(nn.PixelShuffle,),
        functions=(nn.functional.pixel_shuffle,),
        attributes=("upscale_factor",),
        relayout=_pixel_shuffle,
    ),
    OpDef(
        name="pixel_unshuffle",
        mase_type="implicit_func",
        implicit=True,
        modules=(nn.PixelUnshuffle,),
        functions=(nn.functional.pixel_unshuffle,),
        attributes=("downscale_factor",),
        relayout=_pixel_unshuffle,
    ),
    OpDef(
        name="channel_shuffle",
        mase_type="implicit_func",
        implicit=True,
        modules=(nn.ChannelShuffle,),
        functions=(nn.functional.channel_shuffle,),
        attributes=("groups",),
        relayout=_channel_shuffle,
    ),
)
