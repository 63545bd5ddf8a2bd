"""Nearest-neighbour enlargement by whole factors: every pixel becomes a block of equal ones, then one cast.

Output position ``o`` shows input position ``o // factor``, for ``nearest`` and ``nearest-exact`` alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Image, Pair, Params
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import SELECTION
from mase_hw.ops._tensors import image, image_port, lanes_within, positions_of
from mase_hw.steps import Steps


class UpsampleParams(Params, frozen=True):
    """Parameters of ``fixed_upsample_nearest``; factor 0 is along a row of the image, 1 down a column."""

    data_in_0: Image
    factor: Pair
    data_out_0: Image
    cast: Cast

    def attributes(self) -> Attributes:
        """The factors, rows first."""
        return {"scale_factor": self.factor[::-1]}

    @property
    def passes(self) -> int:
        """Output beats that show the columns of an input beat, one after the other."""
        return self.data_in_0.lanes[1] * self.factor[0] // self.data_out_0.lanes[1]


def _refuse(node: str, field: str, got: Any, expected: str) -> UnsupportedError:
    return UnsupportedError(
        "this enlargement is not possible here",
        node=node,
        field=field,
        got=got,
        expected=expected,
        remedy="enlarge by whole factors with mode='nearest', or use a transposed or ordinary convolution after that",
    )


def _factors(node: str, size: tuple[int, int], attributes: Attributes, spatial: int) -> tuple[int, int]:
    """Factors of rows and columns; with one spatial dimension the row stays."""
    name = "scale_factor" if attributes.get("size") is None else "size"
    value: Any = attributes.get(name)
    given = list(value) if isinstance(value, Sequence) else [value] * 2
    found = []
    for length, wanted in zip(size, (given[0], given[-1]), strict=True):
        factor = wanted / length if name == "size" else float(wanted)
        found.append(int(factor))
        if factor != int(factor) or factor < 1:
            raise _refuse(node, name, value, f"whole multiples of the image's {list(size)}")
    return (1 if spatial == 1 else found[0]), found[1]


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` or ``(N, C, L)`` -> ``data_out_0`` enlarged."""
    x = t["data_in_0"]
    rows, columns = _geometry("upsample", x.shape, a.attributes)[1]
    large = x.repeat_interleave(columns, -1)
    if rows > 1:
        large = large.repeat_interleave(rows, -2)
    frac = a.formats["data_in_0"].frac_width
    return {"data_out_0": cast(large, frac, a.formats["data_out_0"], a.rounding, a.overflow)}


def _geometry(
    node: str, shape: Sequence[int], attributes: Attributes
) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    spatial = 1 if len(shape) == 3 else 2
    size = image(node, shape, spatial)
    if spatial == 1:
        return size, _factors(node, (size[3], size[3]), attributes, 1)
    return size, _factors(node, size[2:], attributes, 2)


def _build(r: Request) -> UpsampleParams:
    formats = r.arithmetic.formats
    size, (rows, columns) = _geometry(r.node, r.shapes["data_in_0"], r.arithmetic.attributes)
    n, c, h, w = size
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (n, h, w, c))
    come, leave = positions_of(r)
    return UpsampleParams(
        data_in_0=image_port(size, formats["data_in_0"], lanes, come),
        factor=(columns, rows),
        data_out_0=image_port((n, c, h * rows, w * columns), formats["data_out_0"], lanes, leave),
        cast=r.arithmetic.modes,
    )


def _positions(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, wished: int
) -> tuple[int, int]:
    """As many as arrive, and as many as are wished for, as far as those that arrive make them."""
    columns = shapes["data_out_0"][-1] // shapes["data_in_0"][-1]
    return arriving, math.gcd(wished if wished > 1 else arriving, arriving * columns)


@functools.cache
def _latency(p: UpsampleParams) -> Latency:
    tiles, w, h, n = p.data_in_0.tiles
    beats = np.arange(n * h * w * tiles, dtype=np.int64).reshape(n * h, 1, w, 1, tiles)
    order = np.broadcast_to(beats, (n * h, p.factor[1], w, p.passes, tiles))
    # Which of the readings of a beat this is: the last one frees it.
    last = np.zeros(order.shape, dtype=np.int64)
    last[:, -1, :, -1, :] = 1
    flat = order.reshape(-1)
    steps = Steps(
        (np.maximum.accumulate(flat) + 1,),
        (np.cumsum(last.reshape(-1)),),
        np.arange(1, flat.size + 1, dtype=np.int64),
        delay=(1,),
        pipe=1,
        room=(2 * tiles * (w if p.factor[1] > 1 else 1),),
        queue=1,
        queue_lag=0,
    )
    return Latency.from_steps(steps)


def _cases() -> list[Case]:
    return [
        case(_build, "doubled", (1, 5, 3, 4), 2, "s8.4 s8.4", scale_factor=2),
        case(_build, "uneven", (2, 1, 2, 3), 1, "s8.4 u4.1 floor wrap", scale_factor=(3, 2)),
        case(_build, "along_rows", (1, 4, 1, 5), 2, "s16.9 s12.5", scale_factor=(1, 3)),
        case(_build, "four_times", (1, 3, 2, 2), 2, "s8.4 s8.4", scale_factor=(1, 4)),
        _case("two_columns", (1, 3, 3, 4), (2, 2), scale_factor=2),
        _case("two_to_four", (2, 3, 2, 4), (2, 4), scale_factor=(2, 2)),
        _case("six_to_four", (1, 2, 2, 12), (6, 4), scale_factor=(1, 2)),
        _case("one_to_three", (1, 2, 2, 4), (1, 3), scale_factor=(2, 3)),
        _case("four_columns_by_three", (1, 1, 2, 8), (4, 4), scale_factor=3),
    ]


def _case(name: str, shape: tuple[int, ...], beside: tuple[int, int], scale_factor: int | tuple[int, int]) -> Case:
    """Of beats of several columns."""
    a = Arithmetic.read("s8.4 s6.3", ("data_in_0", "data_out_0"), {"scale_factor": scale_factor})
    rows, columns = _geometry(name, shape, a.attributes)[1]
    out = (*shape[:2], shape[2] * rows, shape[3] * columns)
    ends = {"data_in_0": Layout.tiled(shape, beside[0]), "data_out_0": Layout.tiled(out, beside[1])}
    return Case(name, _build(Request(name, a, {"data_in_0": shape}, {"data_in_0": (min(2, shape[1]),)}, ends)))


def _check(node: str, attributes: Attributes) -> None:
    mode = attributes.get("mode", "nearest")
    if mode not in ("nearest", "nearest-exact"):
        raise _refuse(node, "mode", mode, "nearest")
    for name in ("antialias", "align_corners"):
        if attributes.get(name):
            raise _refuse(node, name, True, "False")


OPS = (
    OpDef(
        name="interpolate",
        mase_type="module_related_func",
        modules=(nn.Upsample,),
        functions=(functional.interpolate,),
        attributes=("size", "scale_factor", "mode", "align_corners"),
        golden=golden,
        scaled=SELECTION,
        default_out=lambda formats: formats["data_in_0"],
        check=_check,
        hardware=Hardware(
            module="fixed_upsample_nearest",
            params=UpsampleParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            follows_input=True,
            layout="channels_last",
            positions=_positions,
        ),
    ),
)
