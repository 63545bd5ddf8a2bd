"""When modules work and wait: their steps explain every beat of random networks, and states follow from steps."""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.beat_times import HELD, STARVED, WORKING, BeatNetwork, Waits
from mase_hw.beat_times.patterns import waits
from mase_hw.steps import Steps
from tests.unit.test_beat_networks import FRAMES, Recipe

STOP = frozenset({3, 5, 8, 10, 11, 12, 15, 16, 20, 21, 22, 23, 25, 31, 38, 46, 49, 51, 54, 55, 57, 58})
"""Seeds of networks that deadlock: there is nothing to explain, and seeing it takes longer than all others do."""


@pytest.mark.parametrize("seed", sorted({*range(60)} - STOP))
def test_steps_explain_every_beat(seed: int) -> None:
    """What the network says of beats, which other tests hold, is what the steps of its modules make of it."""
    network = BeatNetwork()
    Recipe(seed, given=False).build(network)
    for _ in range(FRAMES):
        network.advance()
    for number, stage in enumerate(network._stages):
        found, steps = network.waits(number), stage.steps
        frames = stage.repeat * network.frames
        assert (np.diff(found.at) >= 1).all()
        assert (found.at >= found.inputs).all() and (found.at >= found.outputs).all()
        for emit, pipe, queue, edge in zip(steps.emit_steps, steps.pipe, steps.queue, stage.outputs, strict=True):
            done = found.at[(np.arange(frames)[:, None] * steps.steps + emit).reshape(-1)] + pipe
            offered, taken = network.edges[edge].offered, network.edges[edge].taken
            turn = np.concatenate([[-1], taken[:-1]]) + 1
            if len(stage.outputs) > 1:  # a step ends when the last output without a FIFO is taken
                assert ((offered <= np.maximum(done, turn)) if queue else (taken <= done)).all()
            elif queue:
                assert np.array_equal(offered, np.maximum(done, turn))
            else:
                assert np.array_equal(taken, done)
        for index, (free, room) in enumerate(zip(steps.free_steps, steps.room, strict=True)):
            if not room and len(stage.outputs) == 1:
                freed = found.at[(np.arange(frames)[:, None] * steps.steps + free).reshape(-1)]
                assert np.array_equal(stage.entered[index].array(), freed)


def test_states() -> None:
    """By hand: steps at 2, 3 and 9; the last one had its input at 6, and room for its output at 9."""
    found = Waits(np.array([2, 3, 9]), np.array([2, 0, 6]), np.array([0, 0, 9]))
    s, w, h = STARVED, WORKING, HELD
    assert found.states(0, 12).tolist() == [s, s, w, w, s, s, h, h, h, w, s, s]
    assert found.states(7, 10).tolist() == [h, h, w]


def test_back_pressure_is_told_from_hunger() -> None:
    """A module that works every cycle before one that takes every fourth, and behind one that gives every fourth."""
    every = np.arange(8)
    steps = Steps.at(8, needed=(every,), freed=(every,), emitted=every, delay=(0,), pipe=1, room=(1,), queue=1)
    slow = waits(steps, 1, [every * 4], [every * 4 + 1])
    assert STARVED in slow.states(0, 28) and HELD not in slow.states(0, 28)
    held = waits(steps, 1, [every], [every * 4 + 1])
    assert HELD in held.states(0, 28) and STARVED not in held.states(int(held.at[0]), int(held.at[-1]))
