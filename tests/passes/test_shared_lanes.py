"""How few lanes keep up with the beats before them."""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.latency import Latency
from mase_hw.passes.analysis.hardware_lanes import fewer_lanes
from mase_hw.steps import Steps


@pytest.mark.parametrize("lanes", [1, 2, 6, 8])
@pytest.mark.parametrize("gap", [1, 2, 3, 7, 8, 9])
def test_the_fewest_that_keep_up(lanes: int, gap: int) -> None:
    """By trying all: a beat of ``lanes`` takes a cycle for every ``few`` of them."""
    wanted = min(few for few in range(1, lanes + 1) if lanes % few == 0 and lanes // few <= gap)
    assert fewer_lanes(lanes, 5 * lanes, gap) == wanted
    assert fewer_lanes(lanes, 5 * lanes + 1, gap) == (wanted if lanes == 1 else lanes)


def emitting(steps: int, at: list[int]) -> Latency:
    """A module of one stage that needs a beat at once and completes some."""
    none = np.zeros(1, dtype=np.int64)
    emitted = np.array(at, dtype=np.int64)
    return Latency.from_steps(
        Steps.at(steps, needed=(none,), freed=(none,), emitted=emitted, delay=(1,), room=(2,), pipe=2, queue=4)
    )


def each(beats: int, inputs: int = 1) -> Latency:
    """A module that gives a beat for each beat of its inputs, one a cycle."""
    at = np.arange(beats, dtype=np.int64)
    return Latency.from_steps(
        Steps.at(
            beats, needed=(at,) * inputs, freed=(at,) * inputs, emitted=at, delay=(1,) * inputs, room=(2,) * inputs,
            pipe=2, queue=4,
        )
    )  # fmt: skip


def test_beats_that_come_slowly_go_slowly() -> None:
    """Where one beat follows from one; of two inputs one may wait for the other, and then comes in a burst."""
    assert each(12).gap_after([5]) == 5 and each(12).gap_after([]) == 1
    assert each(12, 2).gap_after([5, 3]) == 3
    given = each(12).departures(5 * np.arange(12, dtype=np.int64))
    assert np.diff(given).min() == 5
    late = each(12, 2).departures(5 * np.arange(12, dtype=np.int64), 40 + 3 * np.arange(12, dtype=np.int64))
    assert np.diff(late).min() == 3
    assert emitting(30, [9, 19, 29]).gap_after([15]) == 10  # what is kept comes in a burst


def test_the_gap_between_beats() -> None:
    """Of one frame, and of the last beat of one and the first of the next."""
    assert emitting(30, [9, 19, 29]).gap == 10
    assert emitting(30, [2, 19, 29]).gap == 3
    assert emitting(30, [9, 19, 23]).gap == 4
    assert emitting(30, [29]).gap == 30
