"""Where elements of a rearrangement come from: nested loops around a table say exactly what the sequence said."""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.errors import GraphError
from mase_hw.layouts import Layout
from mase_hw.ops.movement.rearrange import Places, _planned
from mase_hw.passes.lower.movement._calls import dimensions_exchanged

NUMBERS = np.arange(24).reshape(2, 3, 4)

FORMS = {
    "again": (np.tile(NUMBERS, (1, 1, 3)), Places(4, 3, (0,), 4, 1)),
    "each element": (np.repeat(NUMBERS, 3, axis=2), Places(1, 1, (0,), 1, 3)),
    "each row": (np.repeat(NUMBERS, 3, axis=1), Places(4, 3, (0,), 4, 1)),
    "reversed": (NUMBERS[:, ::-1], Places(12, 1, (8, 4, 0), 4, 1)),
    "rolled": (np.roll(NUMBERS, 1, axis=1), Places(12, 1, (8, 0, 4), 4, 1)),
    "spread": (np.broadcast_to(np.arange(3)[:, None, None], (3, 2, 2)), Places(1, 1, (0,), 1, 4)),
    "zeros": (np.where(np.tri(4, dtype=bool), np.arange(16).reshape(4, 4), -1)[1:3], None),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    wanted, places = FORMS[name]
    elements = {"spread": 3, "zeros": 16}.get(name, 24)
    found = Places.of(wanted.reshape(-1), elements)
    assert places is None or found == places
    assert found.sequence(elements).tolist() == wanted.reshape(-1).tolist()


def test_dimensions_that_change_places() -> None:
    """Cut into these sizes and transposed so, the numbers are the sequence; of anything else there are none."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        sizes = rng.integers(1, 5, int(rng.integers(1, 6)))
        numbers = np.arange(sizes.prod())
        sequence = numbers.reshape(sizes).transpose(rng.permutation(len(sizes))).reshape(-1)
        found = dimensions_exchanged(sequence)
        assert found is not None
        assert numbers.reshape(found[0]).transpose(found[1]).reshape(-1).tolist() == sequence.tolist()
    others = ([1, 2, 0], [0, 0, 1, 1], [-1, 0, 1], [0, 2, 1, 3, 4, 5], [0, 1, 2, 5, 4, 3], [2, 1, 0], [0, 2, 4])
    assert not any(dimensions_exchanged(np.array(other)) for other in others)


def test_any_sequence_comes_back() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        elements = int(rng.integers(1, 13))
        wanted = rng.integers(-1, elements, int(rng.integers(1, 25)))
        assert Places.of(wanted, elements).sequence(elements).tolist() == wanted.tolist()


@pytest.mark.parametrize("places", [Places(5, 1, (0,), 5, 1), Places(6, 1, (4,), 3, 1), Places(6, 1, (-2,), 1, 1)])
def test_places_outside_the_tensor_are_refused(places: Places) -> None:
    with pytest.raises(GraphError, match="not in the tensor"):
        places.sequence(12)


@pytest.mark.parametrize(("again", "lanes"), [(1, (4, 4)), (3, (1, 3)), (4, (1, 4)), (5, (1, 1))])
def test_lanes_are_those_of_the_fewest_cycles(again: int, lanes: tuple[int, int]) -> None:
    """Every element several times: as many lanes as there are if it comes once, a lane for each of its copies."""
    have, want = Layout.row_major((1, 32)), Layout.row_major((1, 32 * again))
    plan = _planned(Places.of(np.repeat(np.arange(32), again), 32), (1, 32 * again), have, want, (4, 4))
    assert plan.lanes == lanes and plan.beats == (32 // lanes[0], 32 * again // lanes[1])


TILES = {
    "a channel for all positions": (
        np.broadcast_to(np.arange(8)[:, None, None], (8, 4, 4)),
        Layout.channels_last((1, 8, 1, 1)),
        (2, 8),
    ),
    "positions for several channels": (
        np.repeat(np.arange(16).reshape(2, 2, 4), 4, axis=0),
        Layout.tiled((1, 2, 2, 4), 4),
        (4, 16),
    ),
}


@pytest.mark.parametrize("name", TILES)
def test_tiles_fill_all_lanes(name: str) -> None:
    """Where an element goes to every position of a tile, or a tile to several channels, all lanes carry something."""
    wanted, have, most = TILES[name]
    want = Layout.tiled((1, *wanted.shape), 4)
    elements = int(wanted.max()) + 1
    plan = _planned(Places.of(wanted.reshape(-1), elements), (1, *wanted.shape), have, want, most)
    assert plan.lanes == most and plan.beats == (elements // most[0], wanted.size // most[1])
