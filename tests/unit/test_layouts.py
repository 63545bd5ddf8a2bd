"""Layouts against NumPy: whatever renamings a tensor goes through, its elements stay where they travel."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from mase_hw.errors import GraphError
from mase_hw.formats import FixedFormat
from mase_hw.layouts import Layout
from mase_hw.ops.movement._words import steps_between
from mase_hw.ops.reorder import reorder_lanes, reorder_params
from mase_hw.ops.turn import tiles_within
from mase_hw.streams import Stream


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """One frame whose elements are their own row-major positions."""
    return np.arange(math.prod(shape)).reshape(1, *shape)


def random_shape(rng: random.Random, elements: int) -> tuple[int, ...]:
    shape = []
    while elements > 1:
        size = rng.choice([d for d in range(1, elements + 1) if elements % d == 0])
        shape.append(size)
        elements //= size
    return tuple(shape) or (1,)


@pytest.mark.parametrize("seed", range(40))
def test_renaming_moves_nothing(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 4)))
    tensor, layout = numbered(shape), Layout.row_major(shape)
    if len(shape) > 2 and rng.random() < 0.5:
        layout = Layout.channels_last(shape)
        stream = np.moveaxis(tensor[0], 1, -1).reshape(-1)
    else:
        stream = tensor.reshape(-1)
    for _ in range(6):
        if rng.random() < 0.5:
            dims = rng.sample(range(tensor.ndim - 1), tensor.ndim - 1)
            tensor, layout = tensor.transpose(0, *(d + 1 for d in dims)), layout.permuted(dims)
        else:
            shape = random_shape(rng, tensor.size)
            renamed = layout.reshaped(shape)
            if renamed is None:
                continue
            tensor, layout = tensor.reshape(1, *shape), renamed
        assert layout.shape == tensor.shape[1:]
        assert np.array_equal(layout.to_stream(tensor)[0], stream)
        assert np.array_equal(layout.from_stream(stream[None]), tensor)
        assert math.prod(layout.stream_shape) == tensor.size
        assert Layout.from_dict(layout.to_dict()) == layout
        for position in range(tensor.size):
            assert tensor[0][layout.index_of(position)] == stream[position]
        assert layout.is_row_major == np.array_equal(
            layout.to_stream(numbered(layout.shape))[0], np.arange(tensor.size)
        )


@pytest.mark.parametrize("seed", range(60))
def test_equal_layouts_are_equal(seed: int) -> None:
    """Two layouts of a shape are equal exactly when they put every element in the same place."""
    rng = random.Random(seed)
    shape = tuple(rng.choice([1, 2, 2, 4]) for _ in range(3))

    def some() -> Layout:
        layout = Layout.row_major(random_shape(rng, math.prod(shape)))
        layout = layout.permuted(rng.sample(range(len(layout.shape)), len(layout.shape)))
        return layout.reshaped(shape) or Layout.row_major(shape)

    a, b = some(), some()
    same = np.array_equal(a.to_stream(numbered(shape)), b.to_stream(numbered(shape)))
    assert (a == b) == same and (not same or hash(a) == hash(b))


def test_a_flatten_behind_an_image_keeps_rows() -> None:
    flat = Layout.channels_last((2, 3, 4, 5)).reshaped((2, 60))
    assert flat is not None and flat.rows_in_order() and flat.stream_shape == (2, 20, 3)
    columns = flat.last_dimension().to_stream(np.arange(60)[None])[0]
    assert np.array_equal(columns, np.arange(60).reshape(3, 20).T.reshape(-1))
    assert not Layout.row_major((2, 3)).permuted((1, 0)).rows_in_order()


def test_what_no_renaming_can_do() -> None:
    swapped = Layout.row_major((2, 3)).permuted((1, 0))
    assert swapped.reshaped((6,)) is not None  # one dimension of two parts
    assert swapped.reshaped((2, 3)) is None  # rows of 3 would straddle columns of 2


def test_bad_layouts_are_refused() -> None:
    with pytest.raises(GraphError, match="no permutation"):
        Layout((2, 3), (2, 3), (0, 0))
    with pytest.raises(GraphError, match="no permutation"):
        Layout((2, 3), (2, 2), (0, 1))
    with pytest.raises(GraphError, match="do not make its dimensions"):
        Layout((4, 3), (3, 4), (1, 0))
    with pytest.raises(GraphError, match="number of elements"):
        Layout.row_major((2, 3)).reshaped((5,))
    with pytest.raises(GraphError, match="different numbers of elements"):
        Stream("x", "in", (4,), FixedFormat(8, 0), layout=Layout.row_major((5,)))


@pytest.mark.parametrize("lanes", [1, 2, 3, 5])
def test_streams_pack_tensors_in_their_layout(lanes: int) -> None:
    shape = (2, 5, 3, 4)
    layout = Layout.channels_last(shape)
    stream = Stream("x", "in", (2, 3, 4, 5), FixedFormat(16, 0), (lanes,), layout=layout)
    frames = np.stack([numbered(shape)[0], 500 + numbered(shape)[0]])
    beats = stream.pack(frames)
    assert beats.shape == (2 * stream.beats, lanes) and stream.tensor_shape == shape
    assert np.array_equal(beats, Stream("x", "in", (2, 3, 4, 5), stream.fmt, (lanes,)).pack(np.moveaxis(frames, 2, -1)))
    assert np.array_equal(stream.unpack(beats), frames)
    for beat in range(stream.beats):
        for lane in range(lanes):
            index = stream.index_of(beat, lane)
            assert beats[beat, lane] == (0 if index is None else frames[0][index])


@pytest.mark.parametrize("seed", range(20))
def test_reorder_counters(seed: int) -> None:
    """The counters of the buffer read exactly the elements the wanted layout asks for."""
    rng = random.Random(seed)
    shape = (rng.choice([1, 2]), rng.choice([2, 3]), rng.choice([2, 4]), 3)
    orders = [Layout.row_major(shape), Layout.channels_last(shape)]
    orders += [Layout(shape, shape, tuple(rng.sample(range(4), 4))) for _ in range(2)]
    have, want = rng.sample(orders, 2)
    arriving = have.to_stream(numbered(shape))[0]
    wanted = want.to_stream(numbered(shape))[0]
    for lanes in {1, reorder_lanes(have, want, 4, have.stream_shape[-1])}:
        params = reorder_params("n", 8, have, want, lanes)
        # Words of so many elements, in blocks that are all read alike.
        blocks = arriving.reshape(-1, params.elements, lanes)
        assert 8 * lanes == params.WIDTH
        assert np.array_equal(blocks[:, params.sequence()].reshape(-1), wanted)


def test_reorder_in_small_blocks() -> None:
    """Rows of an image whose columns and phases change places: a row is a block, a pixel's channels are words."""
    shape = (1, 5, 2, 3, 8)
    have, want = Layout(shape, (5, 2, 3, 8), (0, 2, 1, 3)), Layout.row_major(shape)
    assert [reorder_lanes(have, want, most, 8) for most in (1, 3, 4, 99)] == [1, 2, 4, 8]
    assert reorder_lanes(have, want, 4, 6) == 2, "a beat of the source may have pad lanes behind six elements"
    assert reorder_params("n", 8, have, want, 4).elements == 2 * 3 * 8 // 4


@pytest.mark.parametrize(
    ("shape", "positions"), [((1, 3, 4, 8), 2), ((2, 1, 3, 8), 4), ((1, 5, 12), 3), ((1, 2, 2, 4), 4)]
)
def test_tiles_of_positions(shape: tuple[int, ...], positions: int) -> None:
    """Of neighbouring positions one channel after the other; a row has all channels of a tile."""
    layout = Layout.tiled(shape, positions)
    tensor = numbered(shape)
    last = np.moveaxis(tensor[0], 1, -1)  # images, rows, columns, channels
    tiles = last.reshape(*last.shape[:-2], -1, positions, shape[1]).swapaxes(-1, -2)
    assert layout.to_stream(tensor)[0].tolist() == tiles.reshape(-1).tolist()
    assert layout.positions == positions and layout.stream_shape[-1] == positions * shape[1]
    assert Layout.from_dict(layout.to_dict()) == layout
    flat = layout.reshaped((1, math.prod(shape)))
    assert flat is not None and flat.stream_shape[-1] == positions * shape[1] and flat.positions == 1
    assert Layout.tiled(shape, 1) == Layout.channels_last(shape)


@pytest.mark.parametrize("shape", [(1, 8, 2, 4), (2, 4, 2, 3), (3, 2, 1, 5), (4, 3, 1), (1, 6, 3, 1)])
def test_tokens_of_a_beat(shape: tuple[int, ...]) -> None:
    """Of every element of a token its neighbours, and the same when heads are merged or come first."""
    *outer, tokens, heads, size = shape
    layout = Layout.tokens(shape, 2)
    frames = np.arange(math.prod(shape)).reshape(1, *shape)
    wanted = frames.reshape(*outer, tokens // 2, 2, heads * size).swapaxes(-1, -2)
    assert layout.to_stream(frames).tolist() == [wanted.reshape(-1).tolist()]
    assert (layout.beside, layout.row, layout.one_by_one.is_row_major) == (2, 2 * heads * size, True)
    merged = layout.reshaped((*outer, tokens, heads * size))
    assert merged == Layout.abreast((*outer, tokens, heads * size), 2) and merged.beside == 2
    assert len(shape) == 3 or layout.permuted((0, 2, 1, 3)).beside == 2


@pytest.mark.parametrize(("shape", "beside"), [((1, 8, 2, 4), 1), ((1, 6, 2, 4), 4), ((1, 8, 1, 1), 2)])
def test_tokens_one_by_one(shape: tuple[int, ...], beside: int) -> None:
    """Also where a tile would not divide them, or has nothing but its tokens."""
    assert Layout.tokens(shape, beside) == Layout.row_major(shape)


@pytest.mark.parametrize(("shape", "beside"), [((1, 8, 2, 4), 4), ((2, 4, 1, 3), 4), ((1, 6, 3, 2), 2)])
def test_more_tokens_of_a_beat(shape: tuple[int, ...], beside: int) -> None:
    """Another number of whole tiles is the order of that many tokens, a part of one is none."""
    outer, tokens, *last = shape
    layout = Layout.tokens(shape, beside)
    for size in (beside, 2 * beside, 5 * beside):
        assert layout.resized(1, size) == Layout.tokens((outer, size, *last), beside)
        assert layout.permuted((0, 2, 1, 3)).resized(2, size) == Layout.tokens((outer, size, *last), beside).permuted(
            (0, 2, 1, 3)
        )
    assert layout.resized(1, tokens + 1) is None
    assert Layout.tiled((1, 3, 2, 8), 4).resized(3, 12) == Layout.tiled((1, 3, 2, 12), 4)


def test_tiles_of_other_sizes_turn_within_a_beat() -> None:
    shape = (1, 3, 2, 8)
    for few, many in ((1, 2), (2, 4), (1, 8)):
        for have, want in ((few, many), (many, few)):
            turn = tiles_within(Layout.tiled(shape, have), Layout.tiled(shape, want))
            assert turn is not None and turn.lanes == 3 * many
            come = Layout.tiled(shape, have).to_stream(numbered(shape))[0]
            matrix = come.reshape(-1, turn.rows, turn.columns, turn.inner)
            left = Layout.tiled(shape, want).to_stream(numbered(shape))[0]
            assert matrix.swapaxes(1, 2).reshape(-1).tolist() == left.tolist()
            assert Layout.tiled(shape, many).fewer(few) == Layout.tiled(shape, few)
    tokens = Layout.tokens((1, 8, 2, 3), 4).permuted((0, 2, 1, 3))
    assert tokens.fewer(2) == Layout.tokens((1, 8, 2, 3), 2).permuted((0, 2, 1, 3))
    halves = tiles_within(tokens, tokens.fewer(2))
    assert halves is not None and (halves.rows, halves.columns, halves.inner) == (6, 2, 2)
    assert Layout.tiled((1, 1, 2, 8), 4).fewer(2) == Layout.tiled((1, 1, 2, 8), 2)
    assert tiles_within(Layout.tiled(shape, 2), Layout.row_major(shape)) is None
    assert tiles_within(Layout.row_major(shape), Layout.channels_last(shape)) is None


def parts_exchanged(have: Layout, want: Layout, lanes: int) -> list[int]:
    """Elements of each turn between two orders, and of a word of the buffer, after what leaves was compared."""
    steps, numbers, found = steps_between(have, want, lanes), numbered(have.shape), []
    come = have.to_stream(numbers)[0]
    for step in steps:
        assert step.have.to_stream(numbers)[0].tolist() == come.tolist()
        if step.turn is not None:
            matrix = come.reshape(-1, step.turn.rows, step.turn.columns, step.turn.inner)
            come = matrix.swapaxes(1, 2).reshape(-1)
            found.append(step.turn.lanes)
        else:
            found.append(reorder_lanes(step.have, step.want, lanes, come.size))
            come = step.want.to_stream(numbers)[0]
        assert step.want.to_stream(numbers)[0].tolist() == come.tolist()
    assert not steps or come.tolist() == want.to_stream(numbers)[0].tolist()
    return found


def test_wires_around_a_buffer_make_its_words_longer() -> None:
    """Of tiles of two positions and four channels a beat, which leave in as many: the buffer moves eight at a time."""
    tile = Layout.tiled((1, 16, 8, 8), 2)
    shuffled = tile.reshaped((1, 4, 2, 2, 8, 8))
    unshuffled = tile.reshaped((1, 16, 4, 2, 4, 2))
    assert shuffled is not None and unshuffled is not None
    wide = shuffled.permuted((0, 1, 4, 2, 5, 3)).reshaped((1, 4, 16, 16))
    narrow = unshuffled.permuted((0, 1, 3, 5, 2, 4)).reshaped((1, 64, 4, 4))
    turned = tile.permuted((0, 1, 3, 2))
    assert wide is not None and narrow is not None
    for have in (wide, turned, narrow):
        want = Layout.tiled(have.shape, 2)
        assert reorder_lanes(have, want, 8, 8) == 1
        found = parts_exchanged(have, want, 8)
        assert 8 in found and max(found) <= 32
    assert parts_exchanged(tile, Layout.row_major(tile.shape), 8) == []  # two neighbours and no more are in a beat


def test_random_changes_of_order_through_wires() -> None:
    rng = np.random.default_rng(3)
    moved = 0
    for _ in range(40):
        factors = tuple(int(n) for n in rng.integers(2, 4, rng.integers(3, 6)))
        shape = (1, math.prod(factors))
        have, want = (Layout(shape, (1, *factors), (0, *(rng.permutation(len(factors)) + 1))) for _ in range(2))
        moved += bool(parts_exchanged(have, want, int(rng.integers(2, 9))))
    assert moved > 10
