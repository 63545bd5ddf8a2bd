"""When random networks repeat themselves, and that those which stop late stop: as the plain equations say."""

from __future__ import annotations

import pytest

from mase_hw.beat_times import BeatNetwork
from mase_hw.errors import CatalogueError
from tests.unit import beat_reference
from tests.unit.test_beat_networks import STOP_LATE, Recipe, outcome


def settled(seed: int) -> int | None:
    """The interval, -1 if there is none, which both say after as many frames."""
    intervals = []
    for network in (beat_reference.BeatNetwork(), BeatNetwork()):
        Recipe(seed, given=False).build(network)
        try:
            intervals.append((network.settle(12), network.frames))
        except CatalogueError:
            intervals.append((-1, 0))
    assert intervals[0] == intervals[1], f"seed {seed}"
    return intervals[0][0]


def test_settling_agrees() -> None:
    """The interval, and whether there is one, are those of the plain equations."""
    found = {settled(seed) for seed in sorted({*range(1000, 1040)} - STOP_LATE)}
    assert len(found) > 10 and -1 in found


@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted(STOP_LATE))
def test_networks_that_stop_late(seed: int) -> None:
    if seed < 1000:
        expected = outcome(beat_reference.BeatNetwork(), Recipe(seed))
        assert isinstance(expected, str) and outcome(BeatNetwork(), Recipe(seed)) == expected
    else:
        assert settled(seed) == -1
