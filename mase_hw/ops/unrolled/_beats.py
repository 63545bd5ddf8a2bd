"""What repeats from beat to beat of a frame: positions of a convolution, and sums over all positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mase_hw.ops._conv import Geometry
from mase_hw.ops.unrolled._network import BEAT, Elements, Network, Program
from mase_hw.ops.unrolled._trees import Signed


@dataclass(frozen=True)
class Tile:
    """Rows of the result of a convolution, after which the same ones come again in later beats.

    Args:
        rows: Of the result.
        times: That they come in a frame.
        step: Beats from one time to the next.
        given: Rows of the input from one time to the next.
        repeats: Rows of the input after which the same values come again, and beats until then.
        reach: Rows of the input behind its own that a row of the result reads.
        stride: Down and along.
        height: Rows of the whole result.
        beats: Beats of a frame.
    """

    rows: int
    times: int
    step: int
    given: int
    repeats: tuple[int, int]
    reach: int
    stride: tuple[int, int]
    height: int
    beats: int

    @classmethod
    def found(cls, pixels: Elements, g: Geometry, height: int, kernel: int, beats: int) -> Tile:
        """What repeats in a convolution of an image of elements by channel, row and column."""
        reach = (kernel - 1) * g.dilation[0] - g.before[0]
        rows, step = repeats(np.moveaxis(pixels, 2, 0).reshape(pixels.shape[2], -1)) if beats > 1 else (0, 0)
        times = 1
        if step:
            often = g.stride[0] // math.gcd(rows, g.stride[0])
            given, made, every = rows * often, rows * often // g.stride[0], step * often
            times = -(-height // made)
        if times == 1 or (times - 1) * every >= beats:
            return cls(height, 1, 0, 0, (pixels.shape[2], 0), reach, g.stride, height, beats)
        return cls(made, times, every, given, (rows, step), reach, g.stride, height, beats)

    def element(self, network: Network, column: Elements, row: int) -> int | None:
        """The element of a row for the first time; what it is every time if the row is in the frame then."""
        size, (rows, step) = len(column), self.repeats
        if self.times == 1:
            return int(column[row]) if 0 <= row < size else None
        first = max(-((self.reach - row) // self.stride[0]), 0)  # row of the result that reads it
        there = tuple(
            0 <= row + time * self.given < size or first + time * self.rows >= self.height for time in range(self.times)
        )
        if not any(0 <= row + time * self.given < size for time in range(self.times)):
            return None
        lane = int(column[row % rows])
        beat = lane // BEAT + row // rows * step
        home = min(max(beat, 0), self.beats - 1 - (self.times - 1) * self.step)
        number = network.at(lane % BEAT + beat * BEAT, home)
        return network.masked(number + home * BEAT, _in_beats(there, home, self.step, self.beats))


def _in_beats(times: Sequence[bool], first: int, step: int, beats: int) -> tuple[bool, ...]:
    """What holds in each beat of a frame, of what holds each time, from a beat on and then after so many."""
    return tuple(times[min(max((beat - first) // step, 0), len(times) - 1)] for beat in range(beats))


def repeats(rows: Elements) -> tuple[int, int]:
    """After how many rows the same values come again, and how many beats later; 0 beats if they do not."""
    for count in range(1, len(rows)):
        differ = rows[count:] - rows[:-count]
        step = int(differ.max())
        fixed = (rows[count:] < BEAT) & (rows[:-count] < BEAT)
        if step > 0 and step % BEAT == 0 and ((differ == step) | (fixed & (differ == 0))).all():
            return count, step // BEAT
    return len(rows), 0


@dataclass(frozen=True)
class Over:
    """A linear op over all beats of a frame.

    Args:
        weights: By value and row, for each time that the value is read; 0 where it is not.
        first: The beat in which every value is read first.
        times: That each is read.
        step: Beats from one time to the next.
        rows: Of the matrix.
        frame: Beats of a frame.
    """

    weights: dict[tuple[int, int], list[int]]
    first: dict[int, int]
    times: int
    step: int
    rows: int
    frame: int

    @property
    def start(self) -> int:
        """The beat of the first time for all."""
        return min(max(self.first.values()), self.frame - 1 - (self.times - 1) * self.step)

    @classmethod
    def found(cls, matrix: npt.NDArray[np.int64], elements: Sequence[int], beats: int) -> Over | None:
        """The op of these rows and columns; None if it does not read the same values in all beats."""
        read: dict[int, dict[int, int]] = {}
        for column, element in enumerate(elements):
            read.setdefault(element % BEAT, {})[element // BEAT] = column
        first = {number: min(columns) for number, columns in read.items()}
        steps = [beat - first[number] for number, columns in read.items() for beat in columns]
        step = math.gcd(*steps)
        times = max(steps, default=0) // step + 1 if step else 1
        if times < 2 or step * times < beats:
            return None
        spread = [len({elements[column] // BEAT for column in np.flatnonzero(row).tolist()}) for row in matrix]
        if 2 * sum(spread) < times * len(matrix):
            return None  # windows that slide over the frame
        weights = {
            (number, row): [int(matrix[row, columns[b]]) if b in columns else 0 for b in beats_of]
            for number, columns in read.items()
            for beats_of in [range(first[number], first[number] + times * step, step)]
            for row in range(len(matrix))
        }
        return cls(weights, first, times, step, len(matrix), beats)

    def beats(self, times: Sequence[bool], first: int) -> tuple[bool, ...]:
        """What holds in each beat, of what holds each time from a beat on; it must not begin before."""
        return tuple(
            (beat - first) % self.step == 0
            and 0 <= (beat - first) // self.step < len(times)
            and times[(beat - first) // self.step]
            for beat in range(self.frame)
        )


def bits_of(weights: Sequence[int]) -> list[tuple[int, tuple[bool, ...]]]:
    """Weights of single bits that make a weight of every time, and when each is there."""
    if len(set(weights)) == 1:
        return [(weights[0], (True,) * len(weights))] if weights[0] else []
    width = max(weight.bit_length() for weight in weights) + 1
    found = [(1 << place, tuple(bool(weight >> place & 1) for weight in weights)) for place in range(width)]
    found[-1] = -found[-1][0], found[-1][1]
    return [(weight, there) for weight, there in found if any(there)]


def later(term: Signed | None, beats: int) -> Signed | None:
    """A term so many beats later."""
    if term is None:
        return None
    (value, shift, at), sign = term
    return (value, shift, at - beats), sign


def results(network: Network, program: Program, made: Elements) -> list[int]:
    """The values that a beat of the result is; in which beats they are complete is noted."""
    flat = program.layout(made.shape).to_stream(made[None]).reshape(-1)
    inner = made.shape[program.axis if program.axis < made.ndim else -1]
    rows, step = (1, 0) if made.ndim < 3 or program.beats == 1 else repeats(flat.reshape(inner, -1))
    times = inner // rows if step and inner % rows == 0 else 1
    lanes = flat.reshape(times, -1)[0]
    home = max(int(element) // BEAT for element in lanes)
    last = home + (times - 1) * step
    assert last < program.beats
    if program.beats > 1:
        network.gives = tuple(
            beat >= home and (beat - home) % max(step, 1) == 0 and beat <= last for beat in range(program.beats)
        )
    return [network.at(int(element), home) for element in lanes]
