"""Beat networks against the plain equations (``beat_reference.py``), beat by beat, on random networks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mase_hw.beat_times import UNLIMITED, BeatNetwork, Cycles, Evenly, Overdue, Solved, Unpaused, blocks, solver
from mase_hw.beat_times.nodes import Latest, Run
from mase_hw.beat_times.patterns import Times, most_between
from mase_hw.beat_times.solver import Solver
from mase_hw.errors import CatalogueError
from mase_hw.steps import Steps
from tests.unit import beat_reference

FRAMES = 8
STOP_LATE = frozenset({10, 12, 15, 26, 28, 29, 34, 1006, 1007, 1017, 1023})
"""Of these seeds networks stop after so many rounds that each takes longer than all that do not stop: in long runs."""


AnyNetwork = BeatNetwork | beat_reference.BeatNetwork


def _source(beats: int, given: Cycles | None, network: AnyNetwork) -> None:
    network.source(beats, given)


def _paced(beats: int, interval: int, network: AnyNetwork) -> None:
    """Beats that come evenly; the plain equations get them one by one, of more frames than are solved."""
    if isinstance(network, BeatNetwork):
        network.source(beats, Evenly(beats, interval))
    else:
        network.source(beats, np.array([n * interval // beats for n in range(beats * FRAMES)]))


def _sink(edge: int, given: Cycles | None, network: AnyNetwork) -> None:
    network.sink(edge, given)


class Recipe:
    """A random network: calls that build it, played to either implementation.

    Args:
        seed: Of everything about it.
        given: Whether times of inputs and outputs may be given.
        paced: Whether frames come evenly.
        more: Room that FIFOs have beyond that of the same network without it; their beats can leave at once then.
    """

    def __init__(self, seed: int, given: bool = True, paced: bool = False, more: int = 0) -> None:
        self.given, self.paced, self.more = given, paced, more
        self.random = np.random.default_rng(seed)
        self.calls: list[Callable[[BeatNetwork | beat_reference.BeatNetwork], object]] = []
        self.beats: list[int] = []
        self.readers: list[int] = []
        self._grow()

    def build(self, network: BeatNetwork | beat_reference.BeatNetwork) -> None:
        for call in self.calls:
            call(network)

    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def between(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def times(self, beats: int, pace: float) -> Cycles:
        """Cycles of all frames, in bursts or not."""
        gaps = self.random.integers(1, 4, FRAMES * beats)
        if self.chance(0.5):
            gaps = np.where(self.random.random(FRAMES * beats) < 0.1, self.between(5, 60), 1)
        return np.cumsum((gaps * pace).astype(np.int64)) - 1

    def _edge(self, beats: int) -> int:
        self.beats.append(beats)
        self.readers.append(0)
        return len(self.beats) - 1

    def _grow(self) -> None:
        unit = self.between(1, 4)
        interval = self.between(8 * unit, 50 * unit) if self.paced else 0
        for _ in range(self.between(1, 2)):
            beats = unit * self.between(1, 8)
            given = self.times(beats, 1.5) if self.given and self.chance(0.25) else None
            self.calls.append(partial(_paced, beats, interval) if self.paced else partial(_source, beats, given))
            self._edge(beats)
        for _ in range(self.between(1, 6)):
            self._stage()
        for edge, readers in enumerate(self.readers):
            if not readers or self.chance(0.1):
                given = self.times(self.beats[edge], 2) if self.given and self.chance(0.25) else None
                self.calls.append(partial(_sink, edge, given))

    def _stage(self) -> None:
        edge = self.between(max(0, len(self.beats) - 3), len(self.beats) - 1)
        beats = self.beats[edge]
        inputs = [edge]
        equal = [e for e, b in enumerate(self.beats) if b == beats and e != edge]
        if equal and self.chance(0.5):
            inputs.append(equal[self.between(0, len(equal) - 1)])
            if self.chance(0.7):
                depth = self.between(1, 2 * beats) if self.chance(0.8) else UNLIMITED
                self._add(self._fifo(depth), [inputs[1]])
                inputs[1] = len(self.beats) - 1
        divisors = [d for d in range(1, beats + 1) if beats % d == 0]
        repeat = divisors[self.between(0, len(divisors) - 1)] if self.chance(0.4) else 1
        self._add(self._steps(beats // repeat, len(inputs)), inputs)

    def _add(self, steps: Steps, inputs: list[int]) -> None:
        self.calls.append(lambda n: n.stage(steps, inputs))
        repeat = self.beats[inputs[0]] // steps.beats_in[0]
        for edge in inputs:
            self.readers[edge] += 1
        for beats in steps.beats_out:
            self._edge(beats * repeat)

    def _fifo(self, depth: int) -> Steps:
        return Steps.queued(1, depth if depth == UNLIMITED else depth + self.more, delay=0 if self.more else 1)

    def _steps(self, beats: int, inputs: int) -> Steps:
        kind = self.between(0, 5)
        if kind == 0:
            return Steps.registered(beats, inputs, self.between(1, 4), skid=self.chance(0.5))
        if kind == 1 and inputs == 1:
            return self._fifo(self.between(1, beats + 2))
        if kind == 2 and inputs == 1:
            return self._rows(beats)
        return self._anything(beats, inputs)

    def _rates(self, needs: list[Cycles], frees: list[Cycles], emits: list[Cycles], steps: int) -> Steps:
        rooms = []
        for need, free in zip(needs, frees, strict=True):
            if self.chance(0.2) and (free[: len(need)] >= need).all():
                rooms.append(0)
                continue
            room = 1
            while (free[: max(len(need) - room, 0)] >= need[room:]).any():
                room += 1
            rooms.append(UNLIMITED if self.chance(0.1) else room + self.between(0, 3) * self.between(0, len(free)))
        queues = [self.between(0, 3) * self.between(1, 3) for _ in emits]
        pipes = [self.between(0, 6) if queue else 0 for queue in queues]
        return Steps.at(
            steps,
            needed=needs,
            freed=frees,
            emitted=tuple(emits),
            delay=[self.between(0, 3) for _ in needs],
            room=rooms,
            pipe=pipes,
            queue=queues,
            room_lag=self.between(0, 2),
            queue_lag=self.between(0, 1),
        )

    def _anything(self, beats: int, inputs: int) -> Steps:
        steps = self.between(1, (3 if beats < 20 else 1) * beats + 3)
        needs, frees = [], []
        for _ in range(inputs):
            need = np.sort(self.random.integers(0, steps, beats))
            need[0] = 0
            late = np.sort(self.random.integers(0, steps, beats))
            frees.append(np.maximum(need, late) if self.chance(0.7) else late)
            needs.append(need[: self.between(1, beats)] if self.chance(0.2) else need)
        emits = [
            np.sort(self.random.choice(steps, self.between(1, steps), replace=False)).astype(np.int64)
            for _ in range(1 + self.chance(0.2))
        ]
        return self._rates(needs, frees, emits, steps)

    def _rows(self, beats: int) -> Steps:
        """A window that slides over a picture, one beat per pixel."""
        widths = [w for w in range(1, beats + 1) if beats % w == 0]
        width = widths[self.between(0, len(widths) - 1)]
        height = beats // width
        y, x = np.divmod(np.arange(beats), width)
        run = self.between(1, 3)
        needs = np.minimum(y + 1, height - 1) * width + np.minimum(x + 1, width - 1) + 1
        frees = np.maximum(y - 1, 0) * width
        frees[-1] = beats
        needs = np.maximum.accumulate(needs)
        need = np.searchsorted(needs, np.arange(1, beats + 1)) * run
        free = np.searchsorted(frees, np.arange(1, beats + 1)) * run + run - 1
        return self._rates([need], [free], [np.arange(beats) * run + run - 1], beats * run)


def outcome(network: BeatNetwork | beat_reference.BeatNetwork, recipe: Recipe) -> list[list[int]] | str:
    recipe.build(network)
    try:
        for _ in range(FRAMES):
            network.advance()
    except CatalogueError as error:
        return str(error)
    return [
        np.maximum(times, beat_reference.MINUS_INFINITY // 4).tolist()
        for edge in network.edges
        for times in (edge.offered, edge.taken)
    ]


def counted(monkeypatch: pytest.MonkeyPatch, way: str) -> list[bool]:
    """What a way of solving a frame from the one before says from now on: whether it did."""
    answers: list[bool] = []
    original = getattr(Solver, way)

    def called(self: Solver, *args: int) -> bool:
        answers.append(original(self, *args))
        return answers[-1]

    monkeypatch.setattr(Solver, way, called)
    return answers


@pytest.mark.parametrize(
    ("tokens", "most", "sizes"),
    [
        (196, 3_631_104, {7}),  # 28 equal blocks
        (197, 3_631_104, {8, 5}),  # 24 of eight tokens, and one of five
        (197, 37_824, {197}),  # shorter ones would take as long
        (394, 3_631_104, {15, 4}),  # two equal ones are too few
        (788, 3_631_104, {197}),
    ],
)
def test_cuts_of_tokens(tokens: int, most: int, sizes: set[int]) -> None:
    cuts = np.array(blocks.even_cuts(tokens * 192, 192, most))
    assert cuts[0] == 0 and cuts[-1] == tokens * 192 and not (cuts % 192).any()
    apart = np.diff(cuts) // 192
    assert set(apart.tolist()) == sizes and (apart[:-1] == apart[0]).all()


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, 8))])
def test_random_networks(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a beat and of some, results kept from network to network or not; deadlocks are the same."""
    monkeypatch.setattr(blocks, "LEAST_BEATS", (1, 4)[part % 2])
    monkeypatch.setattr(blocks, "FINE_BEATS", (1, 4)[part % 2])
    copies = counted(monkeypatch, "_repeat")
    solved = Solved()
    stopped = 0
    for seed in sorted({*range(part * 25, part * 25 + 25)} - STOP_LATE):
        expected = outcome(beat_reference.BeatNetwork(), Recipe(seed))
        assert outcome(BeatNetwork(solved if seed % 2 else None), Recipe(seed)) == expected, f"seed {seed}"
        stopped += isinstance(expected, str)
    assert 0 < stopped < 13, "of deadlocks there should be some"
    assert sum(copies) > 5, "of frames like the one before as well"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 10))])
def test_random_networks_of_paced_frames(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that are solved from the one before, as often as it can be done or seldom, are those of the equations."""
    monkeypatch.setattr(blocks, "LEAST_BEATS", (1, 4)[part % 2])
    resumed = counted(monkeypatch, "_resume")
    for seed in range(2000 + part * 12, 2012 + part * 12):
        build = partial(Recipe, seed, given=seed % 4 == 0, paced=True)
        expected = outcome(beat_reference.BeatNetwork(), build())
        for few in (100.0, 0.25):
            monkeypatch.setattr(solver, "FEW", few)
            assert outcome(BeatNetwork(), build()) == expected, f"seed {seed}, {few} evaluations a block"
    assert 10 < sum(resumed) < len(resumed), "some frames should be solved so, some anew"


@pytest.mark.parametrize("paced", [False, True])
@pytest.mark.parametrize("seeds", [range(4033, 4039), pytest.param(range(4000, 4033), marks=pytest.mark.slow)], ids=len)
def test_networks_that_begin_with_another_one(paced: bool, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one with more room, and with no delay, in FIFOs, which may have stopped later or solved fewer frames."""
    monkeypatch.setattr(blocks, "LEAST_BEATS", 2)
    begun = counted(monkeypatch, "_follow_up")
    for seed in seeds:
        expected = outcome(beat_reference.BeatNetwork(), Recipe(seed, paced=paced))
        before = BeatNetwork(solved := Solved())
        Recipe(seed, paced=paced, more=1 + seed % 3).build(before)
        with suppress(CatalogueError):
            for _ in range(FRAMES - seed % 2):
                before.advance()
        network = BeatNetwork(solved)
        network.begin_with(before)
        assert outcome(network, Recipe(seed, paced=paced)) == expected, f"seed {seed}"
    assert sum(begun) > len(seeds)


def test_room_for_frames_that_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO beside a longer way: the first frame that waits for its places, where all else comes evenly later."""
    monkeypatch.setattr(solver, "FEW", 100.0)
    resumed = counted(monkeypatch, "_resume")

    def build(network: AnyNetwork) -> AnyNetwork:
        _paced(4, 100, network)
        (short,) = network.stage(Steps.queued(1, 8), [0])
        (long,) = network.stage(Steps.queued(1, UNLIMITED, delay=1000), [0])
        (joined,) = network.stage(Steps.registered(4, 2, 1), [short, long])
        network.sink(joined)
        for _ in range(FRAMES - 2):
            network.advance()
        return network

    found, expected = build(BeatNetwork()), build(beat_reference.BeatNetwork())
    assert [edge.offered.tolist() for edge in found.edges] == [edge.offered.tolist() for edge in expected.edges]
    assert int(expected.edges[0].offered[9]) > 1000 and resumed[2]


def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The block of every evaluation from now on."""
    evaluated: list[int] = []
    for node in (Latest, Run):
        original = node.evaluate

        def called(self: Latest | Run, *args: Any, original: Any = original) -> Any:
            evaluated.append(args[1])
            return original(self, *args)

        monkeypatch.setattr(node, "evaluate", called)
    return evaluated


def slow_chain(network: BeatNetwork, edge: int, beats: int, stages: int) -> int:
    """Registers, and behind them a module with a beat every four cycles."""
    at = 4 * np.arange(beats)
    slow = Steps.at(4 * beats, needed=(at,), freed=(at,), emitted=at, delay=(1,), room=(2,), pipe=1, queue=2)
    for _ in range(stages):
        (edge,) = network.stage(Steps.registered(beats, 1, 2, skid=True), [edge])
    (edge,) = network.stage(slow, [edge])
    return edge


@pytest.mark.parametrize("stages", [8, 32])
def test_back_pressure_along_a_chain_takes_few_evaluations(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a chain stands a module with a beat every four cycles: a sweep and one back find nearly all."""
    evaluated = evaluations(monkeypatch)
    network = BeatNetwork()
    edge = slow_chain(network, network.source(1024), 1024, stages)
    network.sink(edge)
    for frame in range(3):
        evaluated.clear()
        network.advance()
        assert len(evaluated) < 4 * len(network._solver.places), f"frame {frame}"
    # A beat passes two registers a stage, and enters and leaves the slow module a cycle later each.
    assert network.edges[edge].offered[:3].tolist() == [2 * stages + 2 + 4 * beat for beat in range(3)]


@pytest.mark.parametrize("chains", [2, 12])
def test_what_is_ahead_of_unlimited_room_is_solved_first(chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains with unlimited room in between take no more evaluations a block than one of them."""
    evaluated = evaluations(monkeypatch)
    network = BeatNetwork()
    edge = network.source(1024)
    for number in range(chains):
        edge = slow_chain(network, edge, 1024, 4 + number % 3)
        (edge,) = network.stage(Steps.queued(1, UNLIMITED), [edge])
    network.sink(edge)
    network.advance()
    assert len(evaluated) < 3 * len(network._solver.places)


def test_a_network_like_another_one_takes_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more module in a branch, whose beats wait anyway: what comes after the join is as it was."""

    def built(more: bool) -> BeatNetwork:
        network = BeatNetwork(solved)
        short = edge = network.source(1024, name="in")
        for number in range(8):
            (edge,) = network.stage(Steps.registered(1024, 1, 2, skid=True), [edge], ("long", number))
        if more:
            (short,) = network.stage(Steps.registered(1024, 1, 2, skid=True), [short], "more")
        (short,) = network.stage(Steps.queued(1, UNLIMITED), [short], "queue")
        (edge,) = network.stage(Steps.registered(1024, 2, 1), [edge, short], "join")
        for number in range(8):
            (edge,) = network.stage(Steps.registered(1024, 1, 2, skid=True), [edge], ("behind", number))
        network.sink(edge)
        return network

    solved = Solved()
    before, network, alone = built(more=False), built(more=True), built(more=True)
    before.advance()
    network.begin_with(before)
    evaluated = evaluations(monkeypatch)
    network.advance()
    few = len(evaluated)
    alone.advance()
    assert [edge.offered.tolist() for edge in network.edges] == [edge.offered.tolist() for edge in alone.edges]
    assert 5 * few < len(evaluated) - few


@pytest.mark.parametrize("others", [{"more": 2}, {"more": -1}, {"seed": 1}, {"paced": True}], ids=str)
@pytest.mark.parametrize("seeds", [range(5019, 5023), pytest.param(range(4000, 4060), marks=pytest.mark.slow)], ids=len)
def test_from_any_other_network(others: dict[str, int], seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more room or less, with other streams, or with nothing in common but names: the solution is the same."""
    monkeypatch.setattr(blocks, "LEAST_BEATS", 2)
    for seed in seeds:
        more = max(0, -others.get("more", 0))
        expected = outcome(beat_reference.BeatNetwork(), Recipe(seed, more=more))
        before = BeatNetwork(solved := Solved())
        room = max(0, others.get("more", 0))
        Recipe(seed + others.get("seed", 0), paced=bool(others.get("paced")), more=room).build(before)
        with suppress(CatalogueError):
            for _ in range(FRAMES - 1):
                before.advance()
        network = BeatNetwork(solved)
        network.begin_with(before)
        assert outcome(network, Recipe(seed, more=more)) == expected, f"seed {seed}"


def test_modules_that_never_pause() -> None:
    """Whether what follows from one lets it, in the first frame, and of later ones nothing that is not so."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(80):
        steps = int(random.integers(4, 30))
        at = np.sort(random.choice(steps, int(random.integers(1, steps)), replace=False)).astype(np.int64)
        queue = int(random.integers(0, 4))
        never = Unpaused(at, steps, 0 if queue == 0 else 2, queue, 1)
        slower = steps + int(random.integers(-2, 1))
        need = np.sort(random.integers(0, max(slower, len(at)), len(at)))
        need[0] = 0
        behind = Steps.at(
            max(slower, len(at)),
            needed=(need,),
            freed=(need,),
            emitted=np.array([0]),
            delay=(1,),
            room=(int(need.searchsorted(need, "right").max()),),
            pipe=1,
            queue=2,
        )
        depth = int(random.integers(1, 5))
        late = []
        for frames in range(1, 4):
            plain = beat_reference.BeatNetwork()
            edge = plain.source(len(at), never[0 : 4 * len(at)])
            for stage in (Steps.queued(1, depth), behind):
                (edge,) = plain.stage(stage, [edge])
            plain.sink(edge)
            for _ in range(frames):
                plain.advance()
            done = np.concatenate([at + frame * steps for frame in range(frames + 4)])
            allowed = [int(done[beat + queue]) - bool(queue) for beat in range(frames * len(at))]
            late.append(bool((plain.edges[0].taken > np.array(allowed)).any()))
        said = []
        for frames in range(1, 4):
            network = BeatNetwork()
            edge = network.source(len(at), never)
            for stage in (Steps.queued(1, depth), behind):
                (edge,) = network.stage(stage, [edge])
            network.sink(edge)
            try:
                for _ in range(frames):
                    network.advance()
                said.append(False)
            except Overdue:
                said.append(True)
        assert said[0] == late[0]
        assert all(there for here, there in zip(said, late, strict=True) if here)
        found.append(said[0])
    assert 10 < sum(found) < 70


def test_whether_beats_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block as from all times, on one edge and on two with as many beats."""
    monkeypatch.setattr(blocks, "LEAST_BEATS", 2)
    found, most = [], []
    for seed in range(3000, 3012):
        network = BeatNetwork()
        Recipe(seed).build(network)
        try:
            for _ in range(3):
                network.advance()
        except CatalogueError:
            continue
        for a, before in enumerate(network.edges):
            for b, behind in enumerate(network.edges[a:], a):
                if before.beats == behind.beats:
                    for cycles in (0, 1, 5):
                        found.append(bool((behind.taken > before.offered + cycles).any()))
                        assert network.held(a, b, cycles) == found[-1], f"seed {seed}, {a} to {b}, {cycles}"
                if before.beats == behind.beats and (behind.taken >= before.offered).all():
                    waiting = [int((behind.taken[:n] >= t).sum()) + 1 for n, t in enumerate(before.offered)]
                    if (np.diff(behind.taken) > 0).all():
                        assert network.most_held(a, b) == max(waiting), f"seed {seed}, {a} to {b}"
                        most.append(max(waiting))
    assert 20 < sum(found) < len(found) - 20
    assert len(most) > 20 and max(most) > 5


def test_the_most_beats_between() -> None:
    """Of beats that come and go in blocks, some of which are alike, as counted one by one."""
    random = np.random.default_rng(2)
    seen = set()
    for _ in range(60):
        cuts = np.cumsum([0, *random.integers(1, 5, 4)]).tolist()
        frame = np.cumsum(random.integers(1, 4, cuts[-1]))
        came = np.concatenate([frame + 40 * number for number in range(3)])
        gone = np.maximum.accumulate(came + np.tile(random.integers(0, 9, cuts[-1]), 3) - np.arange(len(came)))
        gone = np.maximum(gone + np.arange(len(came)), came)
        solved, times = Solved(), []
        for cycles in (came, gone):
            times.append(Times(cuts))
            for low in range(0, len(came), cuts[-1]):
                times[-1].chunks += [solved.chunk(cycles[low + a : low + b]) for a, b in pairwise(cuts)]
        most = max(int((gone[:beat] >= time).sum()) + 1 for beat, time in enumerate(came))
        assert most_between(*times) == most
        seen.add(most)
    assert len(seen) > 3


@pytest.mark.parametrize(("beats", "interval", "latency"), [(1, 1, 25), (1, 3, 100), (3, 5, 61), (4, 4, 40)])
def test_beats_pile_up_for_longer_than_it_takes_to_settle(beats: int, interval: int, latency: int) -> None:
    """A short way waits for a long one: as many beats as in frames that were followed until the first one had left."""

    def network() -> tuple[BeatNetwork, int, int]:
        made = BeatNetwork()
        short = long = made.source(beats, Evenly(beats, interval))
        for _ in range(latency):
            (long,) = made.stage(Steps.registered(beats), [long])
        (there,) = made.stage(Steps.queued(beats, UNLIMITED), [short])
        (joined,) = made.stage(Steps.registered(beats, 2), [long, there])
        made.sink(joined)
        return made, short, there

    settled, *edges = network()
    assert settled.settle() == interval
    followed, _, _ = network()
    for _ in range(latency // interval + 8):
        followed.advance()
    assert settled.frames < followed.frames
    assert settled.most_held(*edges) == followed.most_held(*edges) > latency * beats // interval - 2
