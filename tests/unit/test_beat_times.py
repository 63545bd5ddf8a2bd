"""Steps and the network simulation on examples worked out by hand; the RTL of every op and whole designs prove the rest
(``tests/catalogue/test_simulation.py``, ``tests/e2e/test_joins.py``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mase_hw.beat_times import UNLIMITED, BeatNetwork, Evenly
from mase_hw.beat_times.nodes import Run
from mase_hw.beat_times.patterns import Solved
from mase_hw.catalogue import Latency, default_catalogue
from mase_hw.errors import CatalogueError
from mase_hw.ops.structural import EntryParams, ExitParams
from mase_hw.steps import Steps


def counts(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


LOOP = (("loop_entry", EntryParams), ("loop_exit", ExitParams))


def steps_of(name: str, params: object) -> Steps:
    hardware = default_catalogue()[name].hardware
    assert hardware is not None
    return hardware.latency(params).steps[0]


def solved(network: BeatNetwork, frames: int = 1) -> BeatNetwork:
    while network.frames < frames:
        network.advance()
    return network


def test_a_queue_of_one_takes_every_other_cycle() -> None:
    network = BeatNetwork()
    source = network.source(4)
    out = network.stage(Steps.queued(4, 1), [source])[0]
    network.sink(out)
    solved(network)
    assert network.edges[source].taken.tolist() == [0, 2, 4, 6]
    assert network.edges[out].offered.tolist() == [1, 3, 5, 7]


def test_a_full_queue_holds_the_source_back() -> None:
    """Three places; the reader takes a beat in cycles 10, 20, 30, ...: a place is free in the cycle after."""
    network = BeatNetwork()
    source = network.source(6)
    out = network.stage(Steps.queued(6, 3), [source])[0]
    network.sink(out, np.arange(10, 70, 10))
    solved(network)
    assert network.edges[source].taken.tolist() == [0, 1, 2, 11, 21, 31]
    assert network.edges[out].offered.tolist() == [1, 11, 21, 31, 41, 51]


def test_a_chain_of_registers_closes_gaps() -> None:
    """Two slices: ready is combinational, so a beat enters in the cycle in which the beat two before it leaves."""
    network = BeatNetwork()
    source = network.source(4)
    out = network.stage(Steps.registered(4, pipe=2), [source])[0]
    network.sink(out, np.array([5, 6, 20, 21]))
    solved(network)
    assert network.edges[source].taken.tolist() == [0, 1, 5, 6]
    assert network.edges[out].offered.tolist() == [2, 6, 7, 21]


def test_steps_wait_for_what_they_need() -> None:
    """Four steps; the first needs two beats, the third all; results complete with the second and the fourth."""
    steps = Steps(
        (counts(2, 2, 3, 3),), (counts(0, 0, 0, 3),), counts(0, 1, 1, 2), delay=(1,), pipe=5, room=(3,), queue=4
    )
    network = BeatNetwork()
    source = network.source(3, np.array([0, 10, 30, 31, 32, 33]))
    out = network.stage(steps, [source])[0]
    network.sink(out)
    solved(network, 2)
    # Steps in 11, 12, 31, 32. Places are free from 33 on, so the second frame comes in 33, 34, 35.
    assert network.edges[out].offered.tolist() == [17, 37, 41, 43]
    assert network.edges[source].taken.tolist() == [0, 10, 30, 33, 34, 35]


def test_a_fork_goes_with_its_slowest_reader() -> None:
    network = BeatNetwork()
    source = network.source(3)
    fast = network.stage(Steps.registered(3), [source])[0]
    network.sink(source, np.array([4, 5, 9]))
    network.sink(fast)
    solved(network)
    assert network.edges[fast].offered.tolist() == [1, 6, 7]
    assert network.edges[source].taken.tolist() == [4, 5, 9]


def around(depth: int) -> BeatNetwork:
    """A sum of a stream with itself seven cycles later; the short way has a FIFO."""
    network = BeatNetwork()
    source = network.source(20)
    late = network.stage(Steps.registered(20, pipe=7), [source])[0]
    short = network.stage(Steps.queued(1, depth), [source])[0]
    network.sink(network.stage(Steps.registered(20, 2), [late, short])[0])
    return network


def test_the_queue_beside_a_long_way() -> None:
    """What passes the fork in seven cycles, and the one that is just coming, must find room."""
    assert around(8).settle() == 20
    enough, short = (solved(around(depth), 10).edges[-1].offered for depth in (8, 7))
    assert enough[-1] == 7 + 200 and short[-1] > enough[-1] + 20
    network = solved(around(UNLIMITED))
    came, went = network.edges[0].offered, network.edges[2].taken
    assert (went - came).tolist() == [7] * 20


def test_a_network_that_stops() -> None:
    """The long way gives nothing before it has four beats, and the fork gives no second one."""
    network = BeatNetwork()
    source = network.source(4)
    all_first = Steps.at(
        4, needed=(np.full(4, 0),), freed=(np.arange(4),), emitted=np.arange(4), delay=(1,), room=(8,), pipe=1, queue=4
    )
    late = network.stage(all_first, [source])[0]
    network.sink(network.stage(Steps.registered(4, 2), [late, source])[0])
    with pytest.raises(CatalogueError, match="deadlocks"):
        network.advance()


def test_a_network_that_stops_says_so_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long way needs 600 beats of a frame for its first result. It may take one that the short way has no room for:
    with 599 places there all is well, and with 598 the last of those 600 waits for itself."""
    evaluated = []
    evaluate = Run.evaluate

    def counted(*args: Any) -> Any:
        evaluated.append(args)
        return evaluate(*args)

    monkeypatch.setattr(Run, "evaluate", counted)

    def network(depth: int, beats: int) -> BeatNetwork:
        network = BeatNetwork()
        source = network.source(beats)
        needed = np.maximum(np.arange(beats) - 599, 0)
        rows = Steps.at(
            beats,
            needed=(needed,),
            freed=(np.arange(beats),),
            emitted=np.arange(beats),
            delay=(1,),
            room=(700,),
            pipe=1,
            queue=2,
        )
        late = network.stage(rows, [source])[0]
        short = network.stage(Steps.queued(1, depth), [source])[0]
        network.sink(network.stage(Steps.registered(beats, 2), [late, short])[0])
        return network

    with pytest.raises(CatalogueError, match="deadlocks"):
        network(598, 10_000).advance()
    assert len(evaluated) < 2000, "not one for every beat of a frame"
    assert network(599, 700).advance()


def test_latency_of_stages() -> None:
    """A frame is collected, then leaves beat by beat through a register; two frames of room keep the input going."""
    steps = Steps.at(
        3,
        needed=(np.zeros(3, int),),
        freed=(np.full(3, 2),),
        emitted=np.arange(3),
        delay=(1,),
        room=(6,),
        pipe=1,
        queue=1,
        queue_lag=0,
    )
    latency = Latency.from_steps(steps, Steps.registered(3))
    assert (latency.beats, latency.interval, latency.fill) == (3, 3, 5)
    assert latency.departures(np.array([0, 4, 9])).tolist() == [12, 13, 14]
    one = steps.with_room(3)
    # The next frame comes once the last beat was read: 3 cycles to come, 1 to be seen, 3 to leave, the first of them
    # the one in which the last beat is usable.
    assert Latency.from_steps(one).interval == 6


def test_parts_that_have_nothing_to_do_with_each_other() -> None:
    """Each has its own interval; the slower one counts."""
    network = BeatNetwork()
    for beats in (3, 8):
        network.sink(network.stage(Steps.registered(beats), [network.source(beats)])[0])
    assert network.settle() == 8


GOOD: dict[str, Any] = {
    "needs": (counts(1, 2),),
    "frees": (counts(1, 2),),
    "emits": counts(1, 2),
    "delay": (1,),
    "pipe": 1,
    "room": (1,),
    "queue": 1,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"needs": (counts(1, 2, 2),)}, "one entry a step"),
        ({"needs": (counts(2, 1),)}, "must not fall"),
        ({"emits": counts(0, 2)}, "one output beat at most"),
        ({"emits": counts(0, 0)}, "a frame has beats"),
        ({"delay": (1, 1)}, "one entry an input"),
        ({"queue": 0}, "no pipeline"),
        ({"needs": (counts(2, 3),)}, "more beats are needed"),
        ({"needs": (counts(2, 2),)}, "finds no room"),
        ({"needs": (counts(1, 2),), "frees": (counts(0, 2),)}, "finds no room"),
        ({"needs": (counts(0, 2),), "frees": (counts(1, 2),), "room": (0,)}, "finds no room"),
    ],
)
def test_steps_that_cannot_be(change: dict[str, Any], message: str) -> None:
    Steps(**GOOD)
    with pytest.raises(CatalogueError, match=message):
        Steps(**{**GOOD, **change})


@pytest.mark.parametrize("begin", [-(1 << 40), (1 << 31) - 3, 1 << 40])
def test_cycles_of_more_than_32_bits(begin: int) -> None:
    """What is between them is kept in 32 bits."""
    pattern, at = Solved().chunk(counts(begin, begin + 6))
    assert (pattern.times.tolist(), at) == ([0, 6], begin)


def test_beats_come_evenly_forever() -> None:
    """In plain integers, of frames farther away than any network is followed."""
    for beats, interval in ((1, 1), (7, 100), (802_816, 169_096_440), (3, 2)):
        for frame in (0, 1, 39, 40, 41, 80, 1000, 12_345):
            start = frame * beats
            found = Evenly(beats, interval)[start : start + 5]
            assert found.tolist() == [beat * interval // beats for beat in range(start, start + 5)]


def test_a_loop_of_three_passes() -> None:
    """Two beats per pass, three registers and a FIFO on the way back: a pass begins four cycles after the one before.

    The second frame enters when the last pass of the first one has.
    """
    entry, leave = (steps_of(name, params(8, 2, 3)) for name, params in LOOP)
    network = BeatNetwork()
    source, back = network.source(2), network.ahead(4)
    into = network.stage(entry, [source, back])[0]
    through = network.stage(Steps.registered(1, pipe=3), [into])[0]
    out, again = network.stage(leave, [through])
    network.stage(Steps.queued(1, 2), [again], closes=back)
    network.sink(out)
    solved(network, 2)
    assert network.edges[into].taken.tolist() == [0, 1, 4, 5, 8, 9, 10, 11, 14, 15, 18, 19]
    assert network.edges[back].offered.tolist() == [4, 5, 8, 9, 14, 15, 18, 19]
    assert network.edges[out].offered.tolist() == [11, 12, 21, 22]
    assert network.settle() == 10
