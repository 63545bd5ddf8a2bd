"""How a tensor becomes a sequence of beats, and back.

A stream carries one tensor a frame. Dimensions are counted from the innermost one (``DIM_0``), as MASE's
parameters count them. Each dimension has a *parallelism*: the tensor is cut into tiles of that size, a tile is
one beat, and tiles run row-major with the innermost dimension fastest. Inside a beat the lanes run likewise.
Where a dimension does not divide by its parallelism, the last tile is filled with zeros (*pad lanes*).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mase_hw.errors import ConfigError, GraphError
from mase_hw.formats import FixedFormat
from mase_hw.layouts import Layout

Direction = Literal["in", "out"]
IntArray = npt.NDArray[Any]
"""Integers: ``int64`` where the format fits, Python integers (``object``) beyond 63 bits."""
Beats = Mapping[str, IntArray]
"""Mantissas of shape ``(beats, lanes)`` by the name of a stream, as :meth:`Stream.pack` makes them."""


SIDES: tuple[Direction, Direction] = ("in", "out")
"""Directions of the two streams of a module that has one each."""


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below ``a / b`` for ``b > 0``."""
    return -(-a // b)


@dataclass(frozen=True)
class Stream:
    """One valid/ready port of a module: what it carries and in which order.

    Args:
        name: Port name; the packed data port itself (``data_in_0``).
        direction: Seen from the module.
        shape: Sizes of one frame in the order of the stream, the slowest dimension first; without a layout this is
            the tensor's shape as PyTorch writes it.
        fmt: Format of every element.
        parallelism: Elements per beat along each dimension, innermost first; missing outer ones are 1.
        valid: Name of the valid signal, ``<name>_valid`` if empty.
        ready: Name of the ready signal, ``<name>_ready`` if empty.
        repeat: How often the tensor is streamed for each frame (1); a weight is needed once a row.
        parts: Equal parts of the beats of the tensor, each of which is streamed so often before the next.
        layout: Where the tensor's elements stand in the stream, if not row-major.
        outer_first: Tiles run with the outermost dimension fastest; the lanes of a beat are the same.
    """

    name: str
    direction: Direction
    shape: tuple[int, ...]
    fmt: FixedFormat
    parallelism: tuple[int, ...] = (1,)
    valid: str = ""
    ready: str = ""
    repeat: int = 1
    parts: int = 1
    layout: Layout | None = None
    outer_first: bool = False

    def __post_init__(self) -> None:
        if any(d < 1 for d in self.shape):
            raise GraphError(
                "a streamed tensor has an empty dimension",
                node=self.name,
                got=list(self.shape),
                expected="sizes of 1 or more",
            )
        if any(p < 1 for p in self.parallelism) or not self.parallelism:
            raise ConfigError(
                "parallelism must be at least 1", node=self.name, field="parallelism", got=list(self.parallelism)
            )
        if len(self.parallelism) > max(len(self.shape), 1):
            raise ConfigError(
                "more parallelisms than dimensions",
                node=self.name,
                field="parallelism",
                got=list(self.parallelism),
                expected=f"at most {len(self.shape)}",
            )
        if self.layout is not None and math.prod(self.layout.shape) != math.prod(self.shape):
            raise GraphError(
                "a stream and its layout have different numbers of elements",
                node=self.name,
                got=list(self.layout.shape),
                expected=list(self.shape),
            )
        object.__setattr__(self, "valid", self.valid or f"{self.name}_valid")
        object.__setattr__(self, "ready", self.ready or f"{self.name}_ready")

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Shape of the tensor of one frame, as PyTorch writes it."""
        return self.shape if self.layout is None else self.layout.shape

    @property
    def sizes(self) -> tuple[int, ...]:
        """Dimension sizes, innermost first."""
        return tuple(reversed(self.shape)) or (1,)

    @property
    def lane_dims(self) -> tuple[int, ...]:
        """Parallelism of every dimension, innermost first."""
        return self.parallelism + (1,) * (len(self.sizes) - len(self.parallelism))

    @property
    def tiles(self) -> tuple[int, ...]:
        """Tiles along every dimension, innermost first."""
        return tuple(ceil_div(s, p) for s, p in zip(self.sizes, self.lane_dims, strict=True))

    @property
    def lanes(self) -> int:
        """Elements in a beat."""
        return math.prod(self.lane_dims)

    @property
    def positions(self) -> int:
        """Neighbouring positions in a beat, each with its lanes; 1 where the layout says nothing."""
        return 1 if self.layout is None else self.layout.beside

    @property
    def beats(self) -> int:
        """Beats of one pass over the tensor."""
        return math.prod(self.tiles)

    @property
    def frame_beats(self) -> int:
        """Beats per frame, repeats included."""
        return self.beats * self.repeat

    @property
    def bits(self) -> int:
        """Width of the data port."""
        return self.lanes * self.fmt.width

    def same_beats(self, other: Stream) -> bool:
        """Whether both streams put the same elements into the same beats (names and directions aside)."""
        if self.lanes != other.lanes or self.beats != other.beats or self.outer_first != other.outer_first:
            return False
        if self.lane_dims[1:] != (1,) * len(self.lane_dims[1:]) or other.lane_dims[1:] != (1,) * len(
            other.lane_dims[1:]
        ):
            return self.sizes == other.sizes and self.lane_dims == other.lane_dims
        a, b, lanes = self.sizes[0], other.sizes[0], self.lanes
        return a == b or (a % lanes == 0 and b % lanes == 0)

    def pack(self, tensor: IntArray) -> IntArray:
        """Cut tensors of mantissas into beats.

        Args:
            tensor: Integers of shape ``(frames, *tensor_shape)``.

        Returns:
            Integers of shape ``(frames * frame_beats, lanes)``; pad lanes are 0.

        Raises:
            GraphError: If the shape is not ``(frames, *tensor_shape)``.
        """
        wanted = self.tensor_shape
        if tensor.ndim != len(wanted) + 1 or tuple(tensor.shape[1:]) != wanted:
            raise GraphError(
                "tensor does not fit its stream",
                node=self.name,
                got=list(tensor.shape),
                expected=["frames", *wanted],
            )
        if self.layout is not None:
            tensor = self.layout.to_stream(tensor)
        rank = len(self.sizes)
        frames = tensor.shape[0]
        tensor = tensor.reshape((frames, *reversed(self.sizes)))
        outer_first = list(zip(self.sizes, self.lane_dims, self.tiles, strict=True))[::-1]
        tensor = np.pad(tensor, [(0, 0), *[(0, t * p - s) for s, p, t in outer_first]])
        split = [n for _, p, t in outer_first for n in (t, p)]
        tensor = tensor.reshape((frames, *split))
        tile_axes = [1 + 2 * i for i in range(rank)][:: -1 if self.outer_first else 1]
        lane_axes = [2 + 2 * i for i in range(rank)]
        beats = tensor.transpose([0, *tile_axes, *lane_axes]).reshape(frames, self.beats, self.lanes)
        return np.tile(beats, (1, self.repeat, 1)).reshape(frames * self.frame_beats, self.lanes)

    def unpack(self, beats: IntArray) -> IntArray:
        """Rebuild tensors from beats; the inverse of :meth:`pack` for ``repeat == 1``.

        Args:
            beats: Integers of shape ``(frames * beats, lanes)``.

        Returns:
            Integers of shape ``(frames, *tensor_shape)``.

        Raises:
            GraphError: If the number of beats is not a whole number of frames.
        """
        if beats.ndim != 2 or beats.shape[1] != self.lanes or beats.shape[0] % self.beats:
            raise GraphError(
                "beats do not make whole frames",
                node=self.name,
                got=list(beats.shape),
                expected=[f"multiple of {self.beats}", self.lanes],
            )
        rank = len(self.sizes)
        frames = beats.shape[0] // self.beats
        outer_tiles, outer_lanes = self.tiles[::-1], self.lane_dims[::-1]
        turn = -1 if self.outer_first else 1
        tensor = beats.reshape((frames, *outer_tiles[::turn], *outer_lanes))
        places = list(range(rank))[::turn]
        order = [0] + [axis for i in range(rank) for axis in (1 + places[i], 1 + rank + i)]
        tensor = tensor.transpose(order).reshape(
            (frames, *[t * p for t, p in zip(outer_tiles, outer_lanes, strict=True)])
        )
        tensor = tensor[(slice(None), *[slice(0, s) for s in reversed(self.sizes)])]
        tensor = tensor.reshape((frames, *self.shape))
        return tensor if self.layout is None else self.layout.from_stream(tensor)

    def index_of(self, beat: int, lane: int) -> tuple[int, ...] | None:
        """Tensor index (outermost first) of a lane of a beat within a frame; None for a pad lane."""
        index, turns = [], []
        for tiles in self.tiles[:: -1 if self.outer_first else 1]:
            turns.append(beat % tiles)
            beat //= tiles
        turns = turns[:: -1 if self.outer_first else 1]
        for size, lanes, turn in zip(self.sizes, self.lane_dims, turns, strict=True):
            position = turn * lanes + lane % lanes
            lane //= lanes
            if position >= size:
                return None
            index.append(position)
        if self.layout is not None:
            position = 0
            for size, digit in zip(reversed(self.sizes), reversed(index), strict=True):
                position = position * size + digit
            return self.layout.index_of(position)
        return tuple(reversed(index))[len(index) - len(self.shape) :] if self.shape else ()


def to_bits(values: Sequence[int], width: int) -> int:
    """Concatenate mantissas (two's complement, first one in the low bits) into one word."""
    mask = (1 << width) - 1
    word = 0
    for lane, value in enumerate(values):
        word |= (int(value) & mask) << (lane * width)
    return word


def from_bits(word: int, width: int, lanes: int, signed: bool) -> list[int]:
    """Cut a word into ``lanes`` mantissas of ``width`` bits; the inverse of :func:`to_bits`."""
    mask, sign = (1 << width) - 1, 1 << (width - 1)
    values = [(word >> (lane * width)) & mask for lane in range(lanes)]
    return [(v ^ sign) - sign for v in values] if signed else values


def plain_stream(side: Direction, shape: tuple[int, ...], fmt: FixedFormat, lanes: int = 1) -> Stream:
    """The stream of a module that does not look into its beats: ``in_data`` or ``out_data``."""
    return Stream(f"{side}_data", side, shape, fmt, (lanes,), f"{side}_valid", f"{side}_ready")


def turned(stream: Stream) -> Stream:
    """The stream of a matrix, transposed: its columns come as rows, with the lanes as they are."""
    rows, columns = stream.shape
    factors = [size for size in (rows, columns) if size > 1]
    layout = Layout(stream.shape, tuple(factors), tuple(range(len(factors)))[::-1])
    return dataclasses.replace(stream, shape=(columns, rows), layout=layout)
