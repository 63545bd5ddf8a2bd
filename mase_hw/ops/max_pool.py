"""Maximum pooling of images and sequences: the largest mantissa of every window, then one cast.

Sliding windows (any kernel, stride, padding, dilation, ``ceil_mode``) and adaptive ones. The cast keeps the order of
values, so it does not matter that it comes last.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.latency import kept
from mase_hw.hardware.params import Cast, Image, Pair, Params
from mase_hw.nn.values import OnValues, selection
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops import _pooling as pooling
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import SELECTION
from mase_hw.ops._tensors import image, image_port, lanes_within, positions_of
from mase_hw.steps import Steps


class MaxPoolParams(Params, frozen=True):
    """Parameters of ``fixed_max_pool2d``; window dimension 0 is along a row of the image, 1 down a column."""

    data_in_0: Image
    window: pooling.PoolWindow
    dilation: Pair
    ceil_mode: bool
    adaptive: bool
    data_out_0: Image
    cast: Cast

    def attributes(self) -> Attributes:
        """The windows."""
        found = pooling.attributes_of(self)
        return found if self.adaptive else {**found, "dilation": self.dilation[::-1]}


def golden(a: Arithmetic, t: Mapping[str, Tensor], *, spatial: int) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` or, for one dimension, ``(N, C, L)`` -> ``data_out_0``, windows as in PyTorch."""
    frac = a.formats["data_in_0"].frac_width
    pooled = _pooled(t["data_in_0"], a.attributes, spatial)
    return {"data_out_0": cast(pooled, frac, a.formats["data_out_0"], a.rounding, a.overflow)}


def _on_values(a: Arithmetic, t: Mapping[str, Tensor], *, spatial: int) -> OnValues | None:
    return selection(a, a.formats["data_in_0"].min_mantissa, lambda x: _pooled(x, a.attributes, spatial))


def _pooled(x: Tensor, attributes: Attributes, spatial: int) -> Tensor:
    n, c, h, w = image("max_pool", x.shape, spatial)
    windows = pooling.windows_for("max_pool", (h, w), attributes, spatial)
    # Selecting is exact in any carrier; PyTorch pools floats on every device.
    pixels = x.reshape(n, c, h, w)
    if windows[0].adaptive:
        pooled = functional.adaptive_max_pool2d(pixels, (windows[0].out, windows[1].out))
    else:
        kernel, stride, padding, dilation = (
            tuple(getattr(along, field) for along in windows) for field in ("kernel", "stride", "padding", "dilation")
        )
        pooled = functional.max_pool2d(pixels, kernel, stride, padding, dilation, attributes.get("ceil_mode", False))
    return pooled.reshape(*x.shape[: x.ndim - spatial], *pooled.shape[4 - spatial :])


def _build(r: Request, spatial: int) -> MaxPoolParams:
    formats, attributes = r.arithmetic.formats, r.arithmetic.attributes
    size = image(r.node, r.shapes["data_in_0"], spatial)
    n, c, h, w = size
    windows = pooling.windows_for(r.node, (h, w), attributes, spatial)
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (n, h, w, c))
    come, leave = pooling.positions(windows[1], positions_of(r)[0])
    return MaxPoolParams(
        data_in_0=image_port(size, formats["data_in_0"], lanes, come),
        window=pooling.window_params(windows),
        dilation=(windows[1].dilation, windows[0].dilation),
        ceil_mode=bool(attributes.get("ceil_mode", False)),
        adaptive=windows[0].adaptive,
        data_out_0=image_port((n, c, windows[0].out, windows[1].out), formats["data_out_0"], lanes, leave),
        cast=r.arithmetic.modes,
    )


def _positions(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, _: int, *, spatial: int
) -> tuple[int, int]:
    size = image("max_pool", shapes["data_in_0"], spatial)
    return pooling.positions(pooling.windows_for("max_pool", size[2:], attributes, spatial)[1], arriving)


@kept
def _latency(p: MaxPoolParams) -> Latency:
    windows, images, tiles = pooling.beat_windows_of(p), p.data_in_0.size[3], p.data_in_0.tiles[0]
    cast_after = Steps.queued(p.data_out_0.beats, 2)
    if not pooling.at_once(windows, tiles, pooling.taps_of(p)):
        return Latency.from_steps(*pooling.schedule(windows, images, tiles), cast_after)
    stage = pooling.schedule_at_once(windows, images, tiles)
    if p.fmt("data_in_0") == p.fmt("data_out_0"):
        return Latency.from_steps(stage)
    return Latency.from_steps(stage, cast_after)


_case_1d, _case_2d = (functools.partial(case, functools.partial(_build, spatial=spatial)) for spatial in (1, 2))


def _cases_2d() -> Sequence[Case]:
    return [
        _case_2d("resnet", (1, 3, 7, 9), 2, kernel_size=3, stride=2, padding=1),
        _case_2d("five", (1, 3, 6, 7), 3, kernel_size=5, stride=1, padding=2),
        _case_2d("larger_than_the_image", (1, 4, 3, 4), 2, kernel_size=(4, 2), stride=1, padding=(2, 1)),
        _case_2d("gaps", (1, 1, 8, 7), 1, formats="u4.2 u4.2", kernel_size=2, stride=3),
        _case_2d("dilated", (1, 2, 9, 8), 2, kernel_size=(3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 3)),
        _case_2d("halves", (1, 8, 6, 8), 8, kernel_size=2),
        _case_2d("halves_in_tiles", (2, 5, 4, 5), 2, kernel_size=2),
        _case_2d("cut_off", (1, 3, 7, 8), 2, kernel_size=3, padding=1, ceil_mode=True),
        _case_2d("deep", (1, 5, 2, 66), 2, frames=3, kernel_size=2),
        _case_2d(
            "deep_gaps", (1, 4, 4, 71), 2, frames=3, formats="u4.2 u4.2", kernel_size=(1, 2), stride=3, padding=(0, 1)
        ),
        _case_2d("wide", (1, 2, 2, 130), 2, frames=3, kernel_size=2),
        _case_2d("handed_over", (2, 3, 6, 5), 2, kernel_size=(3, 2), stride=(2, 1), ceil_mode=True),
        _case_2d("cast", (2, 3, 4, 6), 3, "s16.9 s7.3 floor wrap", kernel_size=(1, 2)),
        _case_2d("two_columns", (1, 3, 4, 8), 2, kernel_size=2, positions=2),
        _case_2d("four_columns", (1, 2, 4, 8), 2, "u4.2 u4.2", kernel_size=2, positions=4),
        _case_2d("columns_of_six", (1, 3, 5, 12), 2, "s8.4 s8.3", kernel_size=(3, 6), stride=(1, 6), positions=4),
        _case_2d("rows_of_columns", (1, 3, 4, 6), 3, kernel_size=(2, 1), positions=2),
        _case_2d("resnet_columns", (1, 3, 7, 8), 2, kernel_size=3, stride=2, padding=1, positions=2),
        _case_2d("resnet_four", (1, 2, 5, 8), 2, "u8.4 u8.3", kernel_size=3, stride=2, padding=1, positions=4),
        _case_2d("same_columns", (1, 3, 4, 6), 3, kernel_size=3, stride=1, padding=1, positions=2),
        _case_2d("same_four", (2, 2, 3, 8), 1, kernel_size=3, stride=1, padding=1, positions=4),
        _case_2d("dilated_columns", (1, 1, 5, 8), 1, kernel_size=(2, 3), stride=1, padding=1, dilation=2, positions=2),
        _case_2d("columns_apart", (1, 3, 4, 8), 2, kernel_size=2, stride=(1, 4), positions=4),
        _case_2d("columns_cut_off", (1, 2, 4, 10), 2, kernel_size=3, stride=3, ceil_mode=True, positions=2),
        _case_2d("columns_of_three", (1, 2, 3, 12), 2, kernel_size=(1, 3), positions=4),
        _case_2d("coarser", (1, 2, 4, 6), 2, "s8.4 s8.3", kernel_size=2),
        _case_2d("one_window", (1, 3, 4, 4), 2, kernel_size=3, stride=2),
        _case_2d("most_at_once", (1, 2, 1, 128), 2, frames=3, kernel_size=(1, 2)),
        _case_2d("columns_around", (1, 2, 3, 8), 2, kernel_size=(1, 4), padding=(0, 1), positions=2),
    ]


def _cases_1d() -> Sequence[Case]:
    return [
        _case_1d("pairs", (1, 4, 1, 9), 2, "s2.0 s2.0", kernel_size=2),
        _case_1d("overlapping", (1, 3, 1, 8), 1, "u4.2 u4.2", kernel_size=4, stride=2, padding=2, ceil_mode=True),
    ]


def _cases_adaptive() -> Sequence[Case]:
    return [
        _case_2d("does_not_divide", (1, 2, 5, 7), 2, output_size=(3, 5)),
        _case_2d("whole", (1, 2, 3, 2), 2, output_size=1),
        _case_2d("two_columns", (1, 2, 3, 8), 2, output_size=(1, 2), positions=2),
    ]


def _cases_adaptive_1d() -> Sequence[Case]:
    return [_case_1d("divides", (1, 3, 1, 8), 2, output_size=(1, 4))]


def _op(name: str, spatial: int, cases: Any, attributes: str, *targets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type="module_related_func",
        modules=targets[:1],
        functions=targets[1:],
        attributes=tuple(attributes.split()),
        golden=functools.partial(golden, spatial=spatial),
        on_values=functools.partial(_on_values, spatial=spatial),
        default_out=lambda formats: formats["data_in_0"],
        check=pooling.check_pool,
        scaled=SELECTION,
        hardware=Hardware(
            module="fixed_max_pool2d",
            params=MaxPoolParams,
            build=functools.partial(_build, spatial=spatial),
            latency=_latency,
            cases=cases,
            follows_input=True,
            layout="channels_last",
            positions=functools.partial(_positions, spatial=spatial),
        ),
    )


_SLIDING = "kernel_size stride padding dilation ceil_mode return_indices"
_TO_SIZE = "output_size return_indices"
OPS = (
    _op("max_pool1d", 1, _cases_1d, _SLIDING, nn.MaxPool1d, functional.max_pool1d, torch.max_pool1d),
    _op("max_pool2d", 2, _cases_2d, _SLIDING, nn.MaxPool2d, functional.max_pool2d, torch.max_pool2d),
    _op("adaptive_max_pool1d", 1, _cases_adaptive_1d, _TO_SIZE, nn.AdaptiveMaxPool1d, functional.adaptive_max_pool1d),
    _op("adaptive_max_pool2d", 2, _cases_adaptive, _TO_SIZE, nn.AdaptiveMaxPool2d, functional.adaptive_max_pool2d),
)
