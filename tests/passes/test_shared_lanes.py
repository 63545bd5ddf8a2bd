"""How few lanes keep up with the beats before them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mase_hw.hardware.latency import Latency
from mase_hw.passes.mapping.lanes import fewer_lanes
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


def bursts(draw: random.Random) -> tuple[Steps, int]:
    """A module that needs beats now and then and gives some in a burst, and the cycles between two of its beats."""
    steps = draw.randint(4, 30)
    needs = sorted(draw.randrange(steps) for _ in range(draw.randint(1, 6)))
    emits = sorted(draw.sample(range(steps), draw.randint(1, min(steps, 9))))
    queue, lag = draw.randint(1, 8), draw.randint(0, 1)
    needed = np.array([0, *needs[1:]], dtype=np.int64)
    freed = np.append(needed[:-1], steps - 1)
    stage = Steps.at(
        steps, needed=(needed,), freed=(freed,), emitted=np.array(emits, dtype=np.int64), delay=(0,), room=(60,),
        pipe=draw.randint(1, 4), queue=queue, queue_lag=lag,
    )  # fmt: skip
    return stage, draw.randint(1, 12)


def waits(stage: Steps, gap: int, pace: int, frames: int = 6) -> bool:
    """Step by step, as :class:`Steps` says it: whether one waits for a beat to be taken."""
    needs, emits = stage.need_steps[0].tolist(), stage.emit_steps[0].tolist()
    last, taken, waited = -1, [-pace], False
    for frame in range(frames):
        for step in range(stage.steps):
            come = [gap * (frame * len(needs) + n) for n, at in enumerate(needs) if at <= step]
            at = max(last + 1, *come)
            if step in emits:
                before = len(taken) - 1 - stage.queue[0]
                free = taken[before + 1] + stage.queue_lag if before >= 0 else at
                waited, at = waited or free > at, max(at, free)
                taken.append(max(at + stage.pipe[0], taken[-1] + pace))
            last = at
    return waited


def test_what_bursts_leave_time_for() -> None:
    """The FIFO holds them meanwhile: against every step, one after the other."""
    draw, more = random.Random(5), 0
    for _ in range(400):
        stage, gap = bursts(draw)
        timing = Latency(stage.steps, lambda *_: np.zeros(0, dtype=np.int64), stage.beats_in[0], (stage,))
        pace = timing.pace_after([gap], 8)
        assert pace == 1 or not waits(stage, gap, pace) or pace == timing.gap_after([gap])
        more += pace > timing.gap_after([gap])
        if pace < 8:
            period = max(stage.steps, gap * stage.beats_in[0])
            assert waits(stage, gap, pace + 1) or (pace + 1) * len(stage.emit_steps[0]) > period
    assert more > 50
    assert each(12, 2).pace_after([5, 3], 8) == 3
