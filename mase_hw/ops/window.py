"""The sliding window by itself: a primitive that no model contains, proven here before ops use it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._window import Window, out_size, window_stage
from mase_hw.streams import Stream


@dataclass(frozen=True)
class WindowParams:
    """Parameters of ``sliding_window``: bits of a beat, geometry, order of the beats, beats held."""

    WIDTH: int
    IN_H: int
    IN_W: int
    OUT_H: int
    OUT_W: int
    KERNEL_H: int
    KERNEL_W: int
    STRIDE_H: int
    STRIDE_W: int
    PAD_H: int
    PAD_W: int
    PAD_WIDTH: int
    PAD_VALUE: int
    DILATION_H: int
    DILATION_W: int
    GROUPS: int
    TILES: int
    REPEATS: int
    DEPTH: int

    @property
    def window(self) -> Window:
        """The geometry."""
        return Window(
            (self.IN_H, self.IN_W),
            (self.OUT_H, self.OUT_W),
            (self.KERNEL_H, self.KERNEL_W),
            (self.STRIDE_H, self.STRIDE_W),
            (self.PAD_H, self.PAD_W),
            (self.DILATION_H, self.DILATION_W),
            self.GROUPS * self.TILES,
        )

    @property
    def steps(self) -> int:
        """Beats per window."""
        return self.KERNEL_H * self.KERNEL_W * self.GROUPS * self.TILES * self.REPEATS


def _ports(p: WindowParams) -> tuple[Stream, ...]:
    fmt = FixedFormat(p.WIDTH, 0)
    image, windows = (p.IN_H, p.IN_W, p.GROUPS * p.TILES), (p.OUT_H, p.OUT_W, p.steps)
    return (
        Stream("in_data", "in", image, fmt, (1,), "in_valid", "in_ready"),
        Stream("out_data", "out", windows, fmt, (1,), "out_valid", "out_ready"),
    )


def _arithmetic(p: WindowParams) -> Arithmetic:
    return Arithmetic({s.name: s.fmt for s in _ports(p)}, attributes=dataclasses.asdict(p))


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``in_data (H, W, groups * tiles)`` -> ``out_data (OH, OW, beats of a window)``, element by element."""
    p = WindowParams(**a.attributes)
    image, order = t["in_data"], []
    for group in range(p.GROUPS):
        for _ in range(p.REPEATS):
            for row in range(p.KERNEL_H):
                for col in range(p.KERNEL_W):
                    order += [(row, col, group * p.TILES + tile) for tile in range(p.TILES)]
    border, fields = p.PAD_VALUE % (1 << p.PAD_WIDTH), p.WIDTH // p.PAD_WIDTH
    whole = sum(border << (p.PAD_WIDTH * field) for field in range(fields))
    whole -= (whole >> (p.WIDTH - 1)) << p.WIDTH  # beats are signed
    out = torch.full((p.OUT_H, p.OUT_W, p.steps), whole, dtype=image.dtype)
    for oh in range(p.OUT_H):
        for ow in range(p.OUT_W):
            for at, (row, col, beat) in enumerate(order):
                y = oh * p.STRIDE_H - p.PAD_H + row * p.DILATION_H
                x = ow * p.STRIDE_W - p.PAD_W + col * p.DILATION_W
                if 0 <= y < p.IN_H and 0 <= x < p.IN_W:
                    out[oh, ow, at] = image[y, x, beat]
    return {"out_data": out}


def _latency(p: WindowParams) -> Latency:
    return Latency.from_steps(window_stage(p.window, p.steps, p.DEPTH))


def _case(
    name: str,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    order: tuple[int, int, int] = (1, 1, 1),
    frames: int = 4,
    border: tuple[int, int] = (1, 0),
) -> Case:
    top, left, bottom, right = padding
    out = (
        out_size(size[0], kernel[0], stride[0], top + bottom, dilation[0]),
        out_size(size[1], kernel[1], stride[1], left + right, dilation[1]),
    )
    p = WindowParams(6, *size, *out, *kernel, *stride, top, left, *border, *dilation, *order, 1)
    return Case(name, dataclasses.replace(p, DEPTH=p.window.depth(p.steps)), frames)


def _cases() -> list[Case]:
    return [
        _case("groups_tiles_repeats", (3, 4), (2, 2), order=(2, 2, 2)),
        _case("one_pixel", (1, 1), (1, 1), frames=12),
        _case("stride_beyond_kernel", (7, 8), (2, 1), (3, 3)),
        _case("wide_padding", (3, 3), (2, 2), (1, 1), (3, 4, 4, 3)),
        _case("uneven_end", (6, 7), (3, 3), (2, 3), (1, 0, 0, 0)),
        _case("border", (3, 2), (3, 2), padding=(1, 1, 1, 0), border=(3, -3)),
    ]


def _not_requested(r: Request) -> WindowParams:
    raise UnsupportedError("stream primitives are placed by the netlist, not by a model", node=r.node)


OPS = (
    OpDef(
        name="sliding_window",
        golden=golden,
        formats=(),
        hardware=Hardware(
            module="sliding_window",
            file="lib/sliding_window.sv",
            dependence_files=(
                "lib/loop_counter.sv",
                "lib/ring_add.sv",
                "lib/window_rise.sv",
                "lib/window_control.sv",
                "lib/window_steps.sv",
            ),
            params=WindowParams,
            build=_not_requested,
            ports=_ports,
            arithmetic=_arithmetic,
            latency=_latency,
            cases=_cases,
            tied=lambda _: {"out_pad": "", "out_last": ""},
        ),
    ),
)
