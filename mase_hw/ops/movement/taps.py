"""Taps: the columns that causal windows read, those of hops before from a memory; cast once.

What a causal convolution needs of a stream that never ends; ``lower_streaming_transform_pass`` puts it before a layer
with this kernel, of the same stride and without dilation and padding. See :class:`mase_hw.nn.streaming.Taps`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import ScaledUse
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import Cast, Image, Params
from mase_hw.nn.streaming import AFTER, BEFORE, Taps, taps
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import one_scale
from mase_hw.ops._tensors import image, image_port, lanes_within
from mase_hw.steps import Steps

WINDOW = ("kernel", "dilation", "stride", "phase")
"""Attributes, in this order everywhere."""


class TapsParams(Params, frozen=True):
    """Parameters of ``fixed_taps``; see the module for their meaning."""

    data_in_0: Image
    kernel: int
    dilation: int
    stride: int
    phase: int
    data_out_0: Image
    cast: Cast

    def attributes(self) -> Attributes:
        """The window."""
        return attributes_of(dict(zip(WINDOW, (self.kernel, self.dilation, self.stride, self.phase), strict=True)))


def _window(attributes: Mapping[str, Any]) -> Iterator[int]:
    return (int(attributes[name]) for name in WINDOW)


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, L)``, hops one after the other, and what was before -> ``data_out_0 (N, C, L / s * k)``."""
    x = t["data_in_0"]
    found, after = taps(x, t.get(BEFORE), *_window(a.attributes))
    frac = a.formats["data_in_0"].frac_width
    return {"data_out_0": cast(found, frac, a.formats["data_out_0"], a.rounding, a.overflow), AFTER: after}


def _build(r: Request) -> TapsParams:
    formats, shape = r.arithmetic.formats, r.shapes["data_in_0"]
    kernel, dilation, stride, phase = _window(r.arithmetic.attributes)
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[2] != 1) or shape[-1] % stride:
        raise UnsupportedError(
            "windows of a stream need whole hops",
            node=r.node,
            field="data_in_0.shape",
            got=list(shape),
            expected=f"(N, C, L), L a multiple of the stride {stride}",
            remedy="make the hop a multiple of the stride",
        )
    size = image(r.node, shape, 1)
    n, c, h, w = size
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (n, h, w, c))
    return TapsParams(
        data_in_0=image_port(size, formats["data_in_0"], lanes),
        kernel=kernel,
        dilation=dilation,
        stride=stride,
        phase=phase,
        data_out_0=image_port((n, c, h, w // stride * kernel), formats["data_out_0"], lanes),
        cast=r.arithmetic.modes,
    )


@functools.cache
def _latency(p: TapsParams) -> Latency:
    """A step reads a beat; the last one of a window frees the columns up to the next window."""
    n, h, w, _ = p.data_in_0.shape
    tiles = p.data_in_0.tiles[0]
    windows, each = n * h * w // p.stride, p.kernel * tiles
    # Of the beats that a window brings: column by column, tile by tile.
    needed = np.zeros((p.stride, tiles), dtype=np.int64)
    needed[p.phase] = (p.kernel - 1) * tiles + np.arange(tiles)
    needed[p.phase, 0] = 0
    needed[p.phase + 1 :] = each - 1
    first = each * np.arange(windows, dtype=np.int64)[:, None]
    steps = Steps.at(
        windows * each,
        needed=((first + needed.reshape(1, -1)).reshape(-1),),
        freed=((first + np.full((1, p.stride * tiles), each - 1)).reshape(-1),),
        emitted=np.arange(windows * each, dtype=np.int64),
        delay=(1,),
        pipe=1,
        room=(2 * p.stride * tiles,),
        queue=1,
        queue_lag=0,
    )
    return Latency.from_steps(steps)


def _case(
    name: str, size: tuple[int, int, int], window: tuple[int, ...], lanes: int, formats: str, frames: int = 5
) -> Case:
    attributes: Any = dict(zip(WINDOW, window, strict=True))
    return case(_build, name, size, lanes, formats, frames=frames, **attributes)


def _cases() -> list[Case]:
    return [
        _case("hop_of_one", (1, 5, 1), (3, 1, 1, 0), 2, "s8.4 s8.4", frames=9),
        _case("dilated", (1, 3, 4), (2, 5, 1, 0), 2, "s8.4 s8.4"),
        _case("dilated_far", (1, 1, 1), (3, 8, 1, 0), 1, "s2.0 s2.0", frames=24),
        _case("within_hop", (1, 2, 7), (3, 2, 1, 0), 1, "s16.9 s12.5"),
        _case("strided", (1, 4, 6), (3, 1, 2, 0), 2, "s8.4 u4.1 floor wrap"),
        _case("ahead", (1, 3, 6), (4, 2, 3, 1), 1, "s8.4 s8.4"),
        _case("end_of_stride", (1, 3, 4), (3, 1, 2, 1), 3, "s8.4 s8.4"),
        _case("one_column", (1, 5, 4), (1, 1, 2, 0), 2, "s8.4 s8.4"),
        _case("two_hops", (2, 2, 2), (2, 3, 1, 0), 2, "s8.4 s8.4"),
        _case("not_a_power", (1, 5, 3), (4, 3, 1, 0), 2, "s8.4 s8.4", frames=8),
        _case("whole_in_stride", (1, 2, 8), (2, 1, 4, 3), 2, "s8.4 s8.4"),
    ]


OPS = (
    OpDef(
        name="taps",
        mase_type="module_related_func",
        modules=(Taps,),
        attributes=WINDOW,
        golden=golden,
        default_out=lambda formats: formats["data_in_0"],
        scaled=ScaledUse("selection", one_scale, at_zero=lambda _: True),
        stateful=lambda _: True,
        hardware=Hardware(
            module="fixed_taps",
            params=TapsParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            follows_input=True,
            layout="channels_last",
        ),
    ),
)
