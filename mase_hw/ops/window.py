"""The sliding window by itself: a primitive that no model contains, proven here before ops use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import Params
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef
from mase_hw.ops._window import Window, out_size, window_stage
from mase_hw.ops.structural import not_requested
from mase_hw.streams import Stream, plain_stream


class WindowParams(Params, frozen=True):
    """Parameters of ``sliding_window``: bits of a beat, geometry, order of the beats, beats held."""

    width: int
    in_h: int
    in_w: int
    out_h: int
    out_w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    pad_width: int
    pad_value: int
    dilation_h: int
    dilation_w: int
    groups: int
    tiles: int
    repeats: int
    depth: int

    def streams(self) -> tuple[Stream, ...]:
        """The image, and its windows."""
        image, windows = (self.in_h, self.in_w, self.groups * self.tiles), (self.out_h, self.out_w, self.steps)
        fmt = FixedFormat(self.width, 0)
        return plain_stream("in", image, fmt), plain_stream("out", windows, fmt)

    def attributes(self) -> Attributes:
        """All parameters."""
        return attributes_of(msgspec.structs.asdict(self))

    @property
    def window(self) -> Window:
        """The geometry."""
        return Window(
            (self.in_h, self.in_w),
            (self.out_h, self.out_w),
            (self.kernel_h, self.kernel_w),
            (self.stride_h, self.stride_w),
            (self.pad_h, self.pad_w),
            (self.dilation_h, self.dilation_w),
            self.groups * self.tiles,
        )

    @property
    def steps(self) -> int:
        """Beats per window."""
        return self.kernel_h * self.kernel_w * self.groups * self.tiles * self.repeats


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``in_data (H, W, groups * tiles)`` -> ``out_data (OH, OW, beats of a window)``, element by element."""
    p = WindowParams(**dict[str, Any](a.attributes))
    image, order = t["in_data"], []
    for group in range(p.groups):
        for _ in range(p.repeats):
            for row in range(p.kernel_h):
                for col in range(p.kernel_w):
                    order += [(row, col, group * p.tiles + tile) for tile in range(p.tiles)]
    border, fields = p.pad_value % (1 << p.pad_width), p.width // p.pad_width
    whole = sum(border << (p.pad_width * field) for field in range(fields))
    whole -= (whole >> (p.width - 1)) << p.width  # beats are signed
    out = torch.full((p.out_h, p.out_w, p.steps), whole, dtype=image.dtype)
    for oh in range(p.out_h):
        for ow in range(p.out_w):
            for at, (row, col, beat) in enumerate(order):
                y = oh * p.stride_h - p.pad_h + row * p.dilation_h
                x = ow * p.stride_w - p.pad_w + col * p.dilation_w
                if 0 <= y < p.in_h and 0 <= x < p.in_w:
                    out[oh, ow, at] = image[y, x, beat]
    return {"out_data": out}


def _case(
    name: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    frames: int = 4,
    **others: int,
) -> Case:
    top, left, bottom, right = padding
    out = (
        out_size(size[0], kernel[0], stride[0], top + bottom, 1),
        out_size(size[1], kernel[1], stride[1], left + right, 1),
    )
    p = WindowParams(6, *size, *out, *kernel, *stride, top, left, 1, 0, 1, 1, 1, 1, 1, 1)
    p = msgspec.structs.replace(p, **others)
    return Case(name, msgspec.structs.replace(p, depth=p.window.depth(p.steps)), frames)


OPS = (
    OpDef(
        name="sliding_window",
        golden=golden,
        formats=(),
        hardware=Hardware(
            module="sliding_window",
            file="lib/sliding_window.sv",
            params=WindowParams,
            build=not_requested,
            latency=lambda p: Latency.from_steps(window_stage(p.window, p.steps, p.depth)),
            cases=lambda: [
                _case("groups_tiles_repeats", (3, 4), (2, 2), groups=2, tiles=2, repeats=2),
                _case("one_pixel", (1, 1), (1, 1), frames=12),
                _case("stride_beyond_kernel", (7, 8), (2, 1), (3, 3)),
                _case("wide_padding", (3, 3), (2, 2), (1, 1), (3, 4, 4, 3)),
                _case("uneven_end", (6, 7), (3, 3), (2, 3), (1, 0, 0, 0)),
                _case("border", (3, 2), (3, 2), padding=(1, 1, 1, 0), pad_width=3, pad_value=-3),
            ],
            tied=lambda _: {"out_pad": "", "out_last": ""},
        ),
    ),
)
