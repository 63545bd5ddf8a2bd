"""Streams against a loop that follows the written rule and knows no numpy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.errors import ConfigError, GraphError
from mase_hw.formats import FixedFormat
from mase_hw.streams import Stream, ceil_div, from_bits, to_bits

S8 = FixedFormat(8, 4)
Slow = list[list[tuple[int, ...] | None]]


def slow(shape: tuple[int, ...], parallelism: tuple[int, ...]) -> Slow:
    """The index in every lane of every beat (None: pad), written as loops over tiles and lanes, innermost fastest."""
    sizes = list(reversed(shape)) or [1]
    lanes = [*parallelism, *[1] * (len(sizes) - len(parallelism))]
    tiles = [-(-size // lane) for size, lane in zip(sizes, lanes, strict=True)]
    beats: Slow = []
    for tile in itertools.product(*[range(n) for n in reversed(tiles)]):
        beat: list[tuple[int, ...] | None] = []
        for lane in itertools.product(*[range(n) for n in reversed(lanes)]):
            index = tuple(t * per + within for t, per, within in zip(tile, reversed(lanes), lane, strict=True))
            inside = all(i < size for i, size in zip(index, reversed(sizes), strict=True))
            beat.append(index[len(sizes) - len(shape) :] if inside else None)
        beats.append(beat)
    return beats


@st.composite
def streams(draw: st.DrawFn, repeat: bool = False) -> Stream:
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    parallelism = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=max(1, len(shape)))))
    return Stream("x", "in", shape, S8, parallelism, repeat=draw(st.integers(1, 3)) if repeat else 1)


def numbered(stream: Stream, frames: int) -> Any:
    """Tensors in which no two elements are equal and none is 0, so that a pad is not taken for one."""
    size = frames * math.prod(stream.shape)
    return np.arange(1, size + 1, dtype=np.int64).reshape((frames, *stream.shape))


@settings(max_examples=150)
@given(stream=streams(), frames=st.integers(1, 3))
def test_pack(stream: Stream, frames: int) -> None:
    tensor = numbered(stream, frames)
    rule = slow(stream.shape, stream.parallelism)
    expected = [
        [0 if index is None else int(tensor[(frame, *index)]) for index in beat]
        for frame in range(frames)
        for beat in rule
    ]
    assert (stream.beats, stream.lanes) == (len(rule), len(rule[0]))
    assert stream.pack(tensor).tolist() == expected
    assert stream.bits == 8 * stream.lanes and stream.frame_beats == stream.beats


@settings(max_examples=100)
@given(stream=streams(), frames=st.integers(0, 3))
def test_unpack_is_the_inverse(stream: Stream, frames: int) -> None:
    tensor = numbered(stream, frames)
    back = stream.unpack(stream.pack(tensor))
    assert back.shape == tensor.shape and (back == tensor).all()


@settings(max_examples=100)
@given(stream=streams())
def test_index_of(stream: Stream) -> None:
    rule = slow(stream.shape, stream.parallelism)
    found = [[stream.index_of(b, lane) for lane in range(stream.lanes)] for b in range(stream.beats)]
    assert found == rule


@settings(max_examples=60)
@given(stream=streams(repeat=True), frames=st.integers(1, 2))
def test_repeat_streams_the_tensor_again_within_each_frame(stream: Stream, frames: int) -> None:
    tensor = numbered(stream, frames)
    once = Stream("x", "in", stream.shape, S8, stream.parallelism)
    expected = [once.pack(tensor[f : f + 1]) for f in range(frames) for _ in range(stream.repeat)]
    assert (stream.pack(tensor) == np.concatenate(expected)).all()
    assert stream.frame_beats == stream.repeat * stream.beats


def test_a_weight_by_hand() -> None:
    """2 x 3 weights in tiles of 2 inputs by 2 outputs: lane = output * 2 + input, input tiles first."""
    weight = np.array([[[11, 12, 13], [21, 22, 23]]])
    assert Stream("weight", "in", (2, 3), S8, (2, 2)).pack(weight).tolist() == [[11, 12, 21, 22], [13, 0, 23, 0]]


def test_python_integers_beyond_63_bits() -> None:
    stream = Stream("x", "in", (3,), FixedFormat(100, 0), (2,))
    tensor = np.array([[2**98, -(2**99), 5]], dtype=object)
    assert stream.pack(tensor).tolist() == [[2**98, -(2**99)], [5, 0]]
    assert stream.unpack(stream.pack(tensor)).tolist() == tensor.tolist()


@settings(max_examples=150)
@given(a=streams(), data=st.data())
def test_same_beats_means_same_beats(a: Stream, data: st.DataObject) -> None:
    """Never true for streams that cut equal elements differently; always true for a stream and itself."""
    assert a.same_beats(Stream("y", "out", a.shape, S8, a.parallelism))
    total = math.prod(a.shape)
    inner = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    b = Stream("y", "out", (total // inner, inner), S8, (data.draw(st.integers(1, inner)),))
    flat = np.arange(1, total + 1)
    if a.same_beats(b):
        assert b.same_beats(a)
        assert (a.pack(flat.reshape((1, *a.shape))) == b.pack(flat.reshape((1, *b.shape)))).all()


def test_names_of_the_handshake() -> None:
    plain = Stream("data_in_0", "in", (4,), S8)
    assert (plain.valid, plain.ready, plain.lanes) == ("data_in_0_valid", "data_in_0_ready", 1)
    own = Stream("in_data", "in", (4,), S8, (1,), "in_valid", "in_ready")
    assert (own.valid, own.ready) == ("in_valid", "in_ready")


@pytest.mark.parametrize("parallelism", [(), (0,), (-1,), (2, 0)])
def test_no_lanes(parallelism: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="parallelism must be at least 1\n  where: x"):
        Stream("x", "in", (4, 4), S8, parallelism)


def test_more_parallelisms_than_dimensions() -> None:
    with pytest.raises(ConfigError, match=r"(?s)more parallelisms than dimensions.*got: \[2, 2\].*at most 1"):
        Stream("x", "in", (4,), S8, (2, 2))


def test_empty_tensor() -> None:
    with pytest.raises(GraphError, match=r"(?s)empty dimension.*x.*\[2, 0\]"):
        Stream("x", "in", (2, 0), S8)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4, 3), (4,), (1, 3, 4, 1)])
def test_tensor_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match=r"(?s)does not fit its stream.*x.*\['frames', 3, 4\]"):
        Stream("x", "in", (3, 4), S8).pack(np.zeros(shape, dtype=np.int64))


@pytest.mark.parametrize("shape", [(5, 2), (6, 3), (12,), (1, 6, 2)])
def test_beats_that_are_no_frames(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match=r"(?s)do not make whole frames.*x.*multiple of 6"):
        Stream("x", "in", (3, 4), S8, (2,)).unpack(np.zeros(shape, dtype=np.int64))


@given(data=st.data(), width=st.integers(1, 80), lanes=st.integers(1, 6), signed=st.booleans())
def test_bits(data: st.DataObject, width: int, lanes: int, signed: bool) -> None:
    fmt = FixedFormat(width, 0, signed)
    mantissa = st.integers(fmt.min_mantissa, fmt.max_mantissa)
    values = data.draw(st.lists(mantissa, min_size=lanes, max_size=lanes))
    word = to_bits(values, width)
    text = "".join(f"{v % 2**width:0{width}b}" for v in reversed(values))
    assert word == int(text, 2)
    assert from_bits(word, width, lanes, signed) == values


def test_bits_by_hand() -> None:
    assert to_bits([1, -1, -8], 4) == 0x8F1 and from_bits(0x8F1, 4, 3, True) == [1, -1, -8]
    assert from_bits(0x8F1, 4, 3, False) == [1, 15, 8]
    assert to_bits(np.array([-1, 2], dtype=np.int64).tolist(), 8) == 0x02FF


@given(a=st.integers(-(10**6), 10**6), b=st.integers(1, 1000))
def test_ceil_div(a: int, b: int) -> None:
    assert ceil_div(a, b) == math.ceil(a / b) and type(ceil_div(a, b)) is int
