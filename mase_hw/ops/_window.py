"""Windows over images: which beats a window needs, when a place of the line buffer is free, how deep it must be.

This is the model of ``lib/window_control.sv`` and ``lib/sliding_window.sv``; convolution and pooling take their
timing and the depth of their line buffer from it. Pixels arrive row by row, ``tiles`` beats each; windows are visited
row by row. Places are counted in beats from the start of an image.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

Places = npt.NDArray[np.int64]

FREE_AFTER = 2
"""Cycles from the last step of a window to the first one in which a beat may take a place that it freed."""
DELAY = 1
"""Cycles from accepting a beat to the first step that may use it."""


@dataclass(frozen=True)
class Window:
    """The geometry of a sliding window; pairs are (vertical, horizontal).

    Args:
        size: Rows and columns of the image.
        out: Rows and columns of output positions.
        kernel: Rows and columns of the window.
        stride: Pixels from one window to the next.
        padding: Rows above and columns to the left of the image; below and right of it there is as much as ``out``
            needs.
        dilation: Pixels from one element of the window to the next.
        tiles: Beats per pixel.
    """

    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    tiles: int = 1

    @property
    def after(self) -> tuple[int, int]:
        """The fewest rows below and columns to the right of the image that the output positions need."""
        down, right = (
            max(0, (o - 1) * step + (k - 1) * d + 1 - s - b)
            for o, step, k, d, s, b in zip(
                self.out, self.stride, self.kernel, self.dilation, self.size, self.padding, strict=True
            )
        )
        return down, right

    @property
    def positions(self) -> int:
        """Windows per image."""
        return self.out[0] * self.out[1]

    @property
    def image_beats(self) -> int:
        """Beats per image."""
        return self.size[0] * self.size[1] * self.tiles

    @property
    def row_beats(self) -> int:
        """Beats per row of the image."""
        return self.size[1] * self.tiles

    @property
    def span(self) -> tuple[int, int]:
        """Rows and columns from the first to the last element of a window."""
        return (self.kernel[0] - 1) * self.dilation[0], (self.kernel[1] - 1) * self.dilation[1]

    @functools.cached_property
    def needs(self) -> Places:
        """For every window, beats of the image that must be there before its first step."""
        y, x = self._corners()
        row = np.clip((y + self.span[0]) * self.row_beats, 0, self.image_beats - self.row_beats)
        # No window starts before the image does, not even one that is all padding.
        col = np.clip((x + self.span[1] + 1) * self.tiles, 1, self.row_beats)
        return (row[:, None] + col[None, :]).reshape(-1)

    @functools.cached_property
    def kept(self) -> Places:
        """For every window, beats of the image whose places are free before its first step."""
        y, x = self._corners()
        row = np.clip(y * self.row_beats, 0, self.image_beats)
        # Beats of a row are freed from left to right by the last row of windows that begins in it. In the padding at
        # the top several rows of windows begin above or in row 0: all but the last of them free nothing.
        stays = (y + self.stride[0] <= 0) | (row == self.image_beats)
        col = np.clip(x * self.tiles, 0, self.row_beats)
        return (row[:, None] + np.where(stays[:, None], 0, col[None, :])).reshape(-1)

    @property
    def frees(self) -> Places:
        """For every window, beats of the image whose places are free once it is done."""
        return np.append(self.kept[1:], self.image_beats)

    def _corners(self) -> tuple[Places, Places]:
        """Row of every row of windows and column of every column of them, negative in the padding."""
        y, x = (
            np.arange(n, dtype=np.int64) * s - p for n, s, p in zip(self.out, self.stride, self.padding, strict=True)
        )
        return y, x

    @property
    def least_depth(self) -> int:
        """Beats that must be held at once, or a window never becomes complete."""
        return max(1, int((self.needs - self.kept).max()))

    def depth(self, steps: int) -> int:
        """Smallest line buffer with which nothing ever waits for room.

        With an input that is always valid, windows of ``steps`` cycles then follow each other without a pause if they
        need at least as many cycles as the image has beats; otherwise the input never pauses.

        Args:
            steps: Cycles a window takes.
        """
        return _depth(self, steps)


@functools.lru_cache(maxsize=4096)
def _depth(window: Window, steps: int) -> int:
    """See :meth:`Window.depth`; a search over foldings asks for the same again and again."""
    # Images in a row, enough of them that the one in the middle stands for all.
    cycles = max(window.image_beats, window.positions * steps)
    images = 5 + 2 * (4 * FREE_AFTER // cycles)
    first = np.repeat(np.arange(images, dtype=np.int64), window.positions) * window.image_beats
    needs = np.maximum.accumulate(first + np.tile(window.needs, images))
    frees = first + np.tile(window.frees, images)
    at = np.arange(len(needs), dtype=np.int64)
    if window.positions * steps >= window.image_beats:
        begin = at * steps
        # The latest a beat may come, one a cycle, so that no window waits: a window that follows may want its own
        # beats so early that those before them have to hurry.
        late = np.minimum.accumulate((begin - DELAY - (needs - 1))[::-1])[::-1]
    else:
        ready = needs - 1 + DELAY
        begin = np.maximum.accumulate(ready - at * steps) + at * steps
        late = np.zeros_like(begin)
    # Beat b is accepted in cycle b + late[w] if window w is the first to need it. Most are held just before a
    # window frees its places: all that were accepted by then, less what the window before it has freed.
    free_from = begin + steps - 1 + FREE_AFTER
    starts = np.concatenate([[0], needs[:-1]])
    some = needs > starts
    opens, ends, late = (starts + late)[some], needs[some], late[some]
    wanted = np.searchsorted(opens, free_from, side="left") - 1
    came = np.where(wanted < 0, 0, np.minimum(ends[np.maximum(wanted, 0)], free_from - late[np.maximum(wanted, 0)]))
    freed = np.concatenate([[0], frees[:-1]])
    low = images // 2 * window.image_beats
    high = low + window.image_beats
    before = np.concatenate([[0], came[:-1]])
    held = np.minimum(came, high) - freed
    inside = np.maximum(before, low) < np.minimum(came, high)
    return max(window.least_depth, int(held[inside].max()))


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Output positions along a dimension with ``padding`` pixels in all, both ends together."""
    return (size + padding - dilation * (kernel - 1) - 1) // stride + 1


def window_stage(window: Window, steps: int, depth: int, images: int = 1) -> Steps:
    """The timing of ``sliding_window``: a stage that gives one beat a step.

    Args:
        window: The geometry.
        steps: Steps (beats out) of a window.
        depth: Beats of the line buffer.
        images: Images per frame.
    """
    image = np.repeat(np.arange(images, dtype=np.int64), window.positions) * window.image_beats
    needs = np.repeat(image + np.tile(np.maximum.accumulate(window.needs), images), steps)
    # All that a window frees is free with its last step.
    frees = np.repeat(image + np.tile(window.kept, images), steps)
    done = slice(steps - 1, None, steps)
    frees[done] = image + np.tile(window.frees, images)
    emits = np.arange(1, len(needs) + 1, dtype=np.int64)
    return Steps(
        (needs,), (frees,), emits, delay=(DELAY,), pipe=1, room=(depth,), queue=1, room_lag=FREE_AFTER, queue_lag=0
    )


def issue_stages(
    window: Window, steps: int, depth: int, images: int, results: int, pipe: int, queue: int
) -> tuple[Steps, ...]:
    """The timing of ``sliding_window`` before an issue that takes one beat per step and reserves slots for its results.

    Where a window has several steps, the two are one stage. The line buffer reads the beat of the next step in the
    cycle in which the issue takes the beat of the present one. So a slot of the line buffer is free one step before the
    issue has taken what stood there, and a beat that was written can be taken one cycle later than without the issue.
    The arrays of the stage have an entry per beat, not one per step.

    Args:
        window: The geometry.
        steps: Steps of a window.
        depth: Beats of the line buffer.
        images: Images per frame.
        results: Results of a window, evenly spread over its steps.
        pipe: Cycles from the last step of a result to its being valid.
        queue: Places for results.
    """
    run, positions = steps // results, window.positions
    last = np.arange(1, images * positions * results + 1, dtype=np.int64) * run - 1
    if steps == 1:
        taken = np.arange(images * positions, dtype=np.int64)
        issue = Steps.at(
            images * positions,
            needed=(taken,),
            freed=(taken,),
            emitted=last,
            delay=(0,),
            room=(0,),
            pipe=pipe,
            queue=queue,
        )
        return window_stage(window, steps, depth, images), issue
    needed = _reached(np.maximum.accumulate(window.needs), window.image_beats) * steps
    freed = _reached(window.frees, window.image_beats) * steps + steps - 2
    at = np.arange(images, dtype=np.int64)[:, None] * (positions * steps)
    every = (needed + at).reshape(-1)
    # Beats that no window needs.
    every = every[every < images * positions * steps]
    return (
        Steps.at(
            images * positions * steps,
            needed=(every,),
            freed=((freed + at).reshape(-1),),
            emitted=last,
            delay=(DELAY + 1,),
            room=(depth,),
            pipe=pipe,
            queue=queue,
            room_lag=FREE_AFTER,
        ),
    )


def _reached(counts: Places, most: int) -> Places:
    """The first place at which non-decreasing counts have reached 1, 2, ... ``most``; their number if none has."""
    return np.repeat(np.arange(len(counts) + 1), np.diff(counts, prepend=0, append=most))


def geometry(params: Any, tiles: int) -> Window:
    """The geometry from a record of parameters, whose pairs have the horizontal direction first."""
    size, out = ((of.size[2], of.size[1]) for of in (params.data_in_0, params.data_out_0))
    kernel, stride, padding, dilation = (
        (pair[1], pair[0]) for pair in (params.kernel_size, params.stride, params.padding, params.dilation)
    )
    return _known(Window(size, out, kernel, stride, padding, dilation, tiles))


def of_columns(window: Window, columns: tuple[int, int]) -> Window:
    """Windows of several neighbouring columns at once, over an image that comes in several columns at once.

    Args:
        window: Of one column.
        columns: Of a beat of the input, and windows of one of the output. The windows of a beat begin whole beats of
            the input after those of the one before.
    """
    if columns == (1, 1):
        return window
    (come, leave), step = columns, window.stride[1]
    before = ceil_div(window.padding[1], come)
    reach = before * come - window.padding[1] + (leave - 1) * step + window.span[1]
    return _known(
        Window(
            (window.size[0], window.size[1] // come),
            (window.out[0], window.out[1] // leave),
            (window.kernel[0], reach // come + 1),
            (window.stride[0], step * leave // come),
            (window.padding[0], before),
            (window.dilation[0], 1),
            window.tiles,
        )
    )


@functools.lru_cache(maxsize=1024)
def _known(window: Window) -> Window:
    """The same object for the same geometry, which keeps what was computed of it."""
    return window
