"""The interval and the first result of a module by itself, against the plain equations (``beat_reference.py``)."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from mase_hw.beat_times import heads, sustained
from mase_hw.beat_times.network import BeatNetwork
from mase_hw.catalogue import default_catalogue
from mase_hw.errors import CatalogueError
from mase_hw.hardware.latency import Latency
from mase_hw.ops._window import Window
from mase_hw.steps import Steps
from tests.unit import beat_reference
from tests.unit.test_beat_networks import AnyNetwork, Recipe


def module(seed: int) -> Steps:
    """Registers, a window over a picture, or anything."""
    recipe = Recipe(seed, given=False)
    inputs = 1 + recipe.chance(0.3)
    beats = recipe.between(1, 24)
    return recipe._steps(beats, inputs)


def placed(network: AnyNetwork, stages: list[Steps]) -> AnyNetwork:
    """A chain between sources that always offer and sinks that always take."""
    edges = [network.source(beats) for beats in stages[0].beats_in]
    for stage in stages:
        edges = network.stage(stage, edges)
    for edge in edges:
        network.sink(edge)
    return network


@pytest.mark.parametrize(
    "seeds", [range(3000, 3150), pytest.param(range(3150, 3400), marks=pytest.mark.slow)], ids=["some", "others"]
)
def test_interval_of_random_modules(seeds: range) -> None:
    """Wherever an interval is said to be sustained, the plain equations come to it; it mostly is where they do."""
    said = least = 0
    for seed in seeds:
        steps = module(seed)
        network = placed(beat_reference.BeatNetwork(), [steps])
        try:
            expected = network.settle(12)
        except CatalogueError:
            expected = -1
        found = sustained(steps)
        if found is not None:
            if expected is None:
                # The source runs ahead for as long as there is room; results come at their pace all the same.
                assert max(steps.room) > max(steps.beats_in), f"seed {seed}"
                ends = network.edges[-1].offered[steps.beats_out[-1] - 1 :: steps.beats_out[-1]]
                expected = int(ends[-1] - ends[-2])
            assert expected == found, f"seed {seed}"
        bound = max(steps.steps, *steps.beats_in, *steps.beats_out)
        said, least = said + (found is not None), least + (expected == bound)
    assert said > 0.7 * least > 50, (said, least)


@pytest.mark.parametrize("room, interval", [(3, 10), (2, None), (1, None)])
def test_room_decides(room: int, interval: int | None) -> None:
    """One beat in every cycle needs as many places as there are cycles from taking a place to having it again."""
    each = np.arange(10)
    steps = Steps.at(10, needed=(each,), freed=(each,), emitted=each, delay=(1,), room=(room,), pipe=1, queue=9)
    steps.room_lag = 2
    assert sustained(steps) == interval


@pytest.mark.parametrize("emitted", [[0, 1, 2], [0, 2]])
@pytest.mark.parametrize("queue", [2, 20])
def test_frames_follow_each_other(emitted: list[int], queue: int) -> None:
    """The input is the slowest, and its room is so small that a frame must be seen to wait for the one before."""
    at = np.array([1, 1, 2, 2])
    steps = Steps.at(
        3, needed=(at,), freed=(at,), emitted=np.array(emitted), delay=(1,), room=(3,), pipe=1, queue=queue
    )
    assert placed(beat_reference.BeatNetwork(), [steps]).settle(40) == 4
    assert sustained(steps) == 4


@pytest.mark.parametrize("seed", [0, 23, 26])
def test_next_frame_comes_in_time(seed: int) -> None:
    """Of these the last beats may come so late that those of the next frame would not; the interval is seen anyway."""
    steps = module(seed)
    assert sustained(steps) == placed(beat_reference.BeatNetwork(), [steps]).settle(40) == steps.steps


def test_first_result_of_random_chains() -> None:
    """The first result of the modules up to it is that of the whole frame."""
    compared = shorter = 0
    for seed in range(4000, 4300):
        recipe = Recipe(seed, given=False)
        stages = [recipe._steps(recipe.between(1, 24), 1)]
        while recipe.chance(0.5) and len(stages[-1].emit_steps) == 1:
            stages.append(recipe._steps(stages[-1].beats_out[0], 1))
        whole = placed(beat_reference.BeatNetwork(), stages)
        try:
            whole.advance()
        except CatalogueError:
            continue
        parts = heads(stages)
        for steps in parts:
            happens = (*steps.need_steps, *steps.free_steps, *steps.emit_steps)
            # Whole schedules: every output and every place has a beat, and nothing happens behind the last step.
            assert all(len(at) for at in (*steps.free_steps, *steps.emit_steps)), f"seed {seed}"
            assert max(int(at.max(initial=0)) for at in happens) < steps.steps, f"seed {seed}"
        part = placed(BeatNetwork(), parts)
        part.advance()
        first = len(stages[0].beats_in)
        for stage in stages[:-1]:
            first += len(stage.beats_out)
        assert part.edges[first].offered[0] == whole.edges[first].offered[0], f"seed {seed}"
        compared += 1
        shorter += sum(p.steps for p in parts) < sum(s.steps for s in stages)
    assert compared > 150 and shorter > 100, (compared, shorter)


def test_every_module_of_the_catalogue() -> None:
    """Intervals and first results are those of whole frames."""
    timings: set[Latency] = set()
    for op in default_catalogue():
        if op.hardware is not None:
            timings |= {op.hardware.latency(case.params) for case in op.hardware.cases()}
    known = [timing for timing in timings if timing.steps]
    assert len(known) > 100
    for timing in known:
        assert placed(BeatNetwork(), list(timing.steps)).settle() == timing.interval
        frames = [np.arange(beats, dtype=np.int64) for beats in timing.steps[0].beats_in]
        assert timing.departures(*frames)[0] == timing.fill


def test_equal_modules_are_described_once() -> None:
    """What follows from the parameters alone is the same object for a record that is equal, so it is not made again."""
    seen = 0
    for op in default_catalogue():
        for case in op.hardware.cases()[:1] if op.hardware is not None else ():
            assert op.hardware is not None
            equal = msgspec.structs.replace(case.params)
            assert equal is not case.params and equal == case.params
            assert op.hardware.latency(equal) is op.hardware.latency(case.params), op.name
            assert op.hardware.ports(equal) is op.hardware.ports(case.params), op.name
            seen += 1
    assert seen > 50


def depth_by_beats(window: Window, steps: int) -> int:
    """The same as :meth:`Window.depth`, asking of every beat of some images when it comes and what is free by then."""
    images, size, delay, free_after = 12, window.image_beats, 1, 2
    needs = np.concatenate([window.needs + image * size for image in range(images)])
    needs = np.maximum.accumulate(needs)
    frees = np.concatenate([window.frees + image * size for image in range(images)])
    if window.positions * steps >= size:
        begin = np.arange(len(needs)) * steps
        accept = np.zeros(images * size, np.int64)
        latest = begin[-1] + 2 * images * size
        for beat in range(images * size - 1, -1, -1):
            wanted = np.flatnonzero(needs > beat)
            due = begin[wanted[0]] - delay if len(wanted) else latest
            accept[beat] = latest = min(due, latest - 1)
    else:
        accept = np.arange(images * size)
        begin = np.zeros(len(needs), np.int64)
        for number, need in enumerate(needs):
            begin[number] = max(need - 1 + delay, begin[number - 1] + steps if number else 0)
    held = 1
    for beat in range(images // 2 * size, (images // 2 + 1) * size):
        done = np.flatnonzero(begin + steps - 1 + free_after <= accept[beat])
        held = max(held, beat + 1 - (int(frees[done[-1]]) if len(done) else 0))
    return max(held, window.least_depth)


def test_line_buffers_of_random_windows() -> None:
    """The depth that is found window by window is the one that is found beat by beat."""
    random = np.random.default_rng(5)
    depths = set()
    while len(depths) < 25:
        size, kernel, stride, dilation, before, after = (
            tuple(int(v) for v in random.integers(low, high, 2))
            for low, high in ((1, 7), (1, 4), (1, 4), (1, 3), (0, 3), (0, 3))
        )
        spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        room = [n + b + a - s for n, b, a, s in zip(size, before, after, spans, strict=True)]
        if min(room) < 0:
            continue
        out = tuple(r // s + 1 for r, s in zip(room, stride, strict=True))
        window = Window(size, (out[0], out[1]), kernel, stride, before, dilation, int(random.integers(1, 4)))
        steps = int(random.integers(1, 12))
        depth = window.depth(steps)
        assert depth == depth_by_beats(window, steps), (window, steps)
        depths.add(depth)


@pytest.mark.parametrize(
    "window, steps",
    [
        (Window((4, 2), (7, 2), (2, 2), (1, 2), (3, 1), (1, 2), 4), 3),
        (Window((4, 3), (1, 2), (3, 2), (3, 3), (0, 1), (2, 1), 1), 6),
        (Window((8, 3), (5, 3), (1, 3), (3, 2), (2, 2), (2, 1), 4), 10),
    ],
)
def test_line_buffers_where_beats_hurry(window: Window, steps: int) -> None:
    """A window wants its beats so early that those of the window before it have to come earlier than it needs them."""
    assert window.depth(steps) == depth_by_beats(window, steps)
