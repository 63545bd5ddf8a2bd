"""Windows of pooling along one dimension: which positions they have, and when each is complete.

An image is pooled along its columns, then along its rows; for a maximum and for a sum that is the same as pooling
both at once. This is the model of ``lib/window_reduce.sv``, and of ``lib/window_max.sv`` for windows that lie apart,
from which the ops take shapes, counts and timing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Pair
from mase_hw.steps import Counts, Steps
from mase_hw.streams import ceil_div


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension.

    Args:
        size: Positions of the sequence.
        out: Windows.
        kernel: Positions of a window.
        stride: Positions from one window to the next.
        padding: Positions before the sequence at which the first window starts.
        dilation: Distance of the positions of a window.
        adaptive: Window ``o`` is ``floor(o * size / out)`` to ``ceil((o + 1) * size / out)``; the rest is 1.
    """

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    adaptive: bool = False

    @property
    def span(self) -> int:
        """Positions from the first to the last one of a window, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def wires(self) -> bool:
        """Whether every window is the one position it stands at."""
        return self.out == self.size if self.adaptive else self.span == 1 and self.stride == 1

    @property
    def apart(self) -> bool:
        """Whether no position is in two windows, and those of a window follow each other."""
        if self.adaptive:
            return self.size % self.out == 0
        return (self.out == 1 or self.stride >= self.kernel) and (self.dilation == 1 or self.kernel == 1)

    @property
    def indices(self) -> int:
        """Windows that lie apart, one included that the sequence cuts off behind the last one."""
        beyond = not self.adaptive and self.out > 1 and self.size + self.padding > self.out * self.stride
        return self.out + int(beyond)

    @property
    def even(self) -> bool:
        """Whether windows of two positions or more, all of them whole, follow each other from end to end."""
        if self.adaptive:
            return self.out < self.size
        return (
            1 < self.kernel <= self.size and not self.padding and (self.out == 1 or self.out * self.stride == self.size)
        )

    def positions(self, o: int) -> range:
        """Positions of a window inside the sequence."""
        if self.adaptive:
            return range(o * self.size // self.out, ceil_div((o + 1) * self.size, self.out))
        start = o * self.stride - self.padding
        first = start if start >= 0 else start + ceil_div(-start, self.dilation) * self.dilation
        return range(first, min(start + self.span, self.size), self.dilation)

    def counts(self, include_pad: bool) -> list[int]:
        """Divisor of every window of an average, padding included or not (``count_include_pad``)."""
        if not include_pad or self.adaptive:
            return [len(self.positions(o)) for o in range(self.out)]
        starts = [o * self.stride - self.padding for o in range(self.out)]
        # What a window of ceil_mode has beyond the padding does not count.
        return [min(s + self.kernel, self.size + self.padding) - s for s in starts]

    def joins(self, come: int, leave: int) -> bool:
        """Whether windows follow each other from end to end, and beats of several positions have all theirs in them.

        Args:
            come: Positions of a beat of the input.
            leave: Windows of a beat of the output.
        """
        kernel, together = self.size // self.out if self.adaptive else self.kernel, max(1, come // leave)
        close = self.adaptive or (self.stride == kernel and not self.padding and self.dilation == 1)
        within = come == together * leave and kernel % together == 0 and (leave == 1 or kernel == together)
        return close and self.out * kernel == self.size and within

    def of_beats(self, come: int, leave: int) -> Windows:
        """The windows in beats of several positions; see :meth:`joins`.

        Args:
            come: Positions of a beat of the input.
            leave: Windows of a beat of the output, which begin whole beats after those of the one before.
        """
        if come == leave == 1:
            return self
        beats, out = self.size // come, self.out // leave
        if self.joins(come, leave):
            return Windows(beats, out, beats // out, beats // out, adaptive=self.adaptive)
        before = ceil_div(self.padding, come)
        reach = before * come - self.padding + (leave - 1) * self.stride + self.span - 1
        return Windows(beats, out, reach // come + 1, leave * self.stride // come, before)

    def taps(self, come: int, leave: int) -> int:
        """Beats of a window of which it has other positions each; 1 if it has the same of all of them."""
        return 1 if come == leave == 1 or self.joins(come, leave) else self.of_beats(come, leave).kernel

    @property
    def most(self) -> int:
        """Most positions of a window, which bounds a sum."""
        return max(len(self.positions(o)) for o in range(self.out)) if self.adaptive else self.kernel

    def matrix(self) -> Tensor:
        """``(out, size)`` of 0 and 1: which positions a window has."""
        rows = torch.zeros(self.out, self.size, dtype=torch.int64)
        for o in range(self.out):
            rows[o, list(self.positions(o))] = 1
        return rows

    @functools.cached_property
    def ends(self) -> list[int]:
        """Position with which each window is complete."""
        if self.adaptive:
            return [self.positions(o)[-1] for o in range(self.out)]
        return [min(o * self.stride - self.padding + self.span, self.size) - 1 for o in range(self.out)]

    def schedule(self, inner: int, repeat: int) -> list[Steps]:
        """The stages of ``window_reduce``.

        Args:
            inner: Beats per position.
            repeat: Sequences per frame.
        """
        if self.wires:
            return []
        done = np.zeros(self.size, dtype=np.int64)
        np.add.at(done, self.ends, 1)
        tail = max(0, int(done[-1]) - 1)
        first = np.tile(np.repeat(np.minimum(done, 1), inner), repeat)
        beat = np.arange(1, len(first) + 1, dtype=np.int64)
        if not tail:
            return [Steps((beat,), (beat,), np.cumsum(first), delay=(0,), pipe=1, room=(0,), queue=1, queue_lag=0)]
        return _with_tail(first, beat, tail, inner, repeat)


def _with_tail(first: Counts, beat: Counts, tail: int, inner: int, repeat: int) -> list[Steps]:
    """Two stages: one takes the beats, the other one puts what waits in memories behind the first window's results."""
    last = np.zeros(len(beat), dtype=np.int64)
    last.reshape(repeat, -1)[:, -inner:] = 1
    waits = np.cumsum(last)
    take = Steps(
        (beat,),
        (beat,),
        (np.cumsum(first), *(waits,) * tail),
        delay=(0,),
        pipe=(0, *(1,) * tail),
        room=(0,),
        queue=(0, *(inner,) * tail),
    )
    flow = int(first.sum()) // repeat
    which = np.tile(np.concatenate([np.zeros(flow, np.int64), np.repeat(np.arange(1, tail + 1), inner)]), repeat)
    needs = tuple(np.cumsum(which == window) for window in range(tail + 1))
    out = np.arange(1, len(which) + 1, dtype=np.int64)
    none = (0,) * (tail + 1)
    return [take, Steps(needs, needs, out, delay=none, pipe=1, room=none, queue=1, queue_lag=0)]


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Windows that PyTorch makes of a dimension (``pooling_output_shape`` of ATen)."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (ceil_div(room, stride) if ceil_mode else room // stride) + 1
    # The last window must start inside the sequence or its left padding.
    return out - 1 if ceil_mode and (out - 1) * stride >= size + padding else out


def _pair(value: Any) -> tuple[int, int]:
    """An attribute of one number or one a dimension, as (rows, columns)."""
    numbers = [int(v) for v in value] if isinstance(value, Sequence) else [int(value)]
    return numbers[0], numbers[-1]


def windows_for(node: str, size: tuple[int, int], attributes: Attributes, spatial: int) -> tuple[Windows, Windows]:
    """Windows along rows and columns from the attributes of a pooling op.

    Args:
        node: For errors.
        size: Rows and columns of the image.
        attributes: ``output_size`` of adaptive pooling, else ``kernel_size``, ``stride`` and so on.
        spatial: Dimensions that are pooled; with 1 the rows stay.

    Raises:
        UnsupportedError: If there are no such windows.
    """
    if "output_size" in attributes:
        return _adaptive(node, size, attributes["output_size"], spatial)
    return _sliding(node, size, attributes, spatial)


def _sliding(node: str, size: tuple[int, int], attributes: Attributes, spatial: int) -> tuple[Windows, Windows]:
    """A window that lies entirely in the padding is refused: it has no maximum and no average."""
    stride = attributes.get("stride")
    given = {
        "kernel": attributes["kernel_size"],
        "stride": attributes["kernel_size"] if stride is None or stride == [] or stride == () else stride,
        "padding": attributes.get("padding", 0),
        "dilation": attributes.get("dilation", 1),
    }
    values = {name: _pair(value) for name, value in given.items()}
    found = []
    for dim, length in enumerate(size):
        if spatial == 1 and dim == 0:
            found.append(Windows(length, length))
            continue
        kernel, stride, padding, dilation = (v[dim] for v in values.values())
        out = out_size(length, kernel, stride, padding, dilation, bool(attributes.get("ceil_mode", False)))
        windows = Windows(length, out, kernel, stride, padding, dilation)
        if out < 1 or padding >= windows.span or any(not windows.positions(o) for o in range(out)):
            raise UnsupportedError(
                "a pooling window lies outside the image",
                node=node,
                field="padding",
                got=f"size {length}, kernel {kernel}, padding {padding}, dilation {dilation}",
                expected="windows that each have at least one position of the image",
                remedy="use less padding or dilation, or a smaller kernel",
            )
        found.append(windows)
    return found[0], found[1]


def _adaptive(node: str, size: tuple[int, int], output_size: Any, spatial: int) -> tuple[Windows, Windows]:
    """None keeps a dimension; an output larger than the image is refused."""
    wanted = list(output_size) if isinstance(output_size, Sequence) else [output_size]
    rows, columns = None if spatial == 1 else wanted[0], wanted[-1]
    out = [length if w is None else int(w) for length, w in zip(size, (rows, columns), strict=True)]
    for length, w in zip(size, out, strict=True):
        if not 1 <= w <= length:
            raise UnsupportedError(
                "adaptive pooling cannot enlarge an image here",
                node=node,
                field="output_size",
                got=output_size,
                expected=f"1 to {length}",
                remedy="choose an output size within the image, or use interpolate with mode='nearest'",
            )
    return Windows(size[0], out[0], adaptive=True), Windows(size[1], out[1], adaptive=True)


def schedule(windows: tuple[Windows, Windows], images: int, tiles: int) -> list[Steps]:
    """The stages that pool rows, then columns, of a frame.

    Args:
        windows: Along rows and columns of the image.
        images: Images per frame.
        tiles: Beats per pixel.
    """
    rows, columns = windows
    return [*columns.schedule(tiles, images * rows.size), *rows.schedule(tiles * columns.out, images)]


MOST_KEPT = 64
"""Windows of one beat for each pixel that ``window_max`` keeps at most: a LUT RAM has no more without multiplexers."""


def at_once(windows: tuple[Windows, Windows], tiles: int, taps: int = 1) -> bool:
    """Whether the maximum over both directions is taken in one step, by ``window_max``.

    Args:
        windows: Along rows and columns of the image.
        tiles: Beats per pixel.
        taps: See :meth:`Windows.taps`.
    """
    rows, columns = windows
    places = 1 << (columns.indices - 1).bit_length() << (tiles - 1).bit_length()
    return taps == 1 and rows.apart and columns.apart and (places <= MOST_KEPT or tiles > 1)


def schedule_at_once(windows: tuple[Windows, Windows], images: int, tiles: int) -> Steps:
    """The stage of ``window_max``: a beat that ends a window waits until the register before the output is free.

    Args:
        windows: Along rows and columns of the image.
        images: Images per frame.
        tiles: Beats per pixel.
    """
    rows, columns = windows
    down, across = (np.isin(np.arange(along.size), along.ends) for along in windows)
    pixels = np.tile(np.outer(down, across).reshape(-1), images)
    emitted = np.flatnonzero(np.repeat(pixels, tiles))
    each = np.arange(images * rows.size * columns.size * tiles, dtype=np.int64)
    # Where no two beats in a row end a window, ready comes from the register alone.
    rare = tiles == 1 and columns.even
    return Steps.at(
        len(each),
        needed=(each,),
        freed=(each,),
        emitted=emitted,
        delay=(0,),
        room=(0,),
        pipe=1,
        queue=1,
        queue_lag=int(rare),
    )


class PoolWindow(msgspec.Struct, frozen=True):
    """The windows of a pool, as it has them among its parameters."""

    kernel_size: Pair
    stride: Pair
    padding: Pair


def window_params(windows: tuple[Windows, Windows]) -> PoolWindow:
    """Windows along rows and columns, columns first."""
    rows, columns = windows
    return PoolWindow((columns.kernel, rows.kernel), (columns.stride, rows.stride), (columns.padding, rows.padding))


def positions(columns: Windows, arriving: int) -> tuple[int, int]:
    """Columns of a beat of the input and of the output: as many as arrive, and the fewest that keep up with them.

    Args:
        columns: Windows along a row.
        arriving: Columns of a beat in which the input comes.
    """
    kernel = columns.size // columns.out if columns.adaptive else columns.kernel
    for leave in (arriving // kernel, 1):  # whole windows, or a part of one
        if leave and columns.joins(arriving, leave):
            return arriving, leave
    if columns.adaptive:
        both = math.gcd(arriving, kernel)
        return (both, 1) if columns.joins(both, 1) else (1, 1)
    leave = math.gcd(arriving // math.gcd(arriving, columns.stride), columns.out)
    return math.gcd(arriving, leave * columns.stride), leave


def beat_windows_of(p: Any) -> tuple[Windows, Windows]:
    """Windows along rows and columns, from the parameters, where columns are beats that may hold several."""
    rows, columns = windows_of(p)
    return rows, columns.of_beats(p.data_in_0.lanes[1], p.data_out_0.lanes[1])


def taps_of(p: Any) -> int:
    """Beats of a window along a row of which it has other columns each, from the parameters."""
    return windows_of(p)[1].taps(p.data_in_0.lanes[1], p.data_out_0.lanes[1])


def windows_of(p: Any) -> tuple[Windows, Windows]:
    """Windows along rows and columns, from the parameters."""

    def along(dim: int) -> Windows:
        return Windows(
            p.data_in_0.size[dim + 1],
            p.data_out_0.size[dim + 1],
            p.window.kernel_size[dim],
            p.window.stride[dim],
            p.window.padding[dim],
            getattr(p, "dilation", (1, 1))[dim],
            p.adaptive,
        )

    return along(1), along(0)


def attributes_of(p: Any) -> Attributes:
    """The windows as PyTorch's attributes, from the parameters."""
    rows, columns = windows_of(p)
    if p.adaptive:
        return {"output_size": (rows.out, columns.out)}
    return {
        "kernel_size": (rows.kernel, columns.kernel),
        "stride": (rows.stride, columns.stride),
        "padding": (rows.padding, columns.padding),
        "ceil_mode": p.ceil_mode,
    }


def check_pool(node: str, attributes: Attributes) -> None:
    """Refuse indices: they are positions, not values.

    Raises:
        UnsupportedError: If ``return_indices`` is set.
    """
    if attributes.get("return_indices", False):
        raise UnsupportedError(
            "the indices of a maximum are not computed in hardware",
            node=node,
            field="return_indices",
            got=True,
            expected=False,
            remedy="leave return_indices out; unpooling needs another op (interpolate with mode='nearest')",
        )
