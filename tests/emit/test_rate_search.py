"""The FIFOs that the search finds, against all others, on random chains that the plain equations follow.

The equations (``tests/unit/beat_reference.py``) share nothing with the search but the schedules of the stages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from mase_hw.beat_times import Cycles
from mase_hw.emit.fifos import insert_fifos
from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin
from mase_hw.emit.rate import RateSearch
from mase_hw.emit.schedule import Timeline
from mase_hw.formats import FixedFormat
from mase_hw.hardware.latency import Latency
from mase_hw.steps import Steps
from mase_hw.streams import Direction, Stream
from tests.unit import beat_reference

STAGES = 4


class Chain:
    """Stages one behind the other that take and give their beats in bursts, and are about as slow as each other.

    Args:
        seed: Of everything about it.
        joined: Whether the last stage's beats wait for those of another input of the design.
    """

    def __init__(self, seed: int, joined: bool = False) -> None:
        self.joined = joined
        self.random = np.random.default_rng(seed)
        self.beats = [int(beats) for beats in self.random.integers(3, 13, STAGES + 1)]
        self.bits = [int(bits) for bits in self.random.integers(1, 4, STAGES + 1)]
        steps = int(self.random.integers(14, 20))
        self.stages = [
            self._stage(steps - int(self.random.integers(0, 2)), a, b)
            for a, b in zip(self.beats[:-1], self.beats[1:], strict=True)
        ]
        self.slowest = max(Latency.from_steps(stage).interval for stage in self.stages)

    def _burst(self, beats: int, steps: int) -> Cycles:
        """Different steps, most of them one behind the other."""
        ahead = int(self.random.integers(1, beats + 1))
        late = int(self.random.integers(0, steps - beats + 1))
        at = np.arange(beats) + np.where(np.arange(beats) < ahead, 0, late)
        return np.asarray(at + self.random.integers(0, steps - int(at[-1])), np.int64)

    def _stage(self, steps: int, taken: int, given: int) -> Steps:
        need, emit = self._burst(taken, steps), self._burst(given, steps)
        return Steps.at(
            steps,
            needed=(need - need[0],),
            freed=(need - need[0],),
            emitted=emit,
            delay=(1,),
            room=(int(self.random.integers(1, 3)),),
            pipe=1,
            queue=2,
        )

    def interval(self, depths: tuple[int, ...]) -> int | None:
        """Cycles per frame with FIFOs of these depths before the stages, by the plain equations; None if it stops."""
        network = beat_reference.BeatNetwork()
        edge = network.source(self.beats[0])
        for stage, depth in zip(self.stages, depths, strict=True):
            if depth:
                edge = network.stage(Steps.queued(1, depth), [edge])[0]
            edge = network.stage(stage, [edge])[0]
        if self.joined:
            edge = network.stage(self.join(), [edge, network.source(self.beats[-1])])[0]
        network.sink(edge)
        return network.settle(60)

    def join(self) -> Steps:
        """What takes a beat of the last stage and one of the other input at a time."""
        return Steps.registered(self.beats[-1], inputs=2, skid=True)

    def cost(self, depths: tuple[int, ...]) -> int:
        """Bits of such FIFOs."""
        return sum(depth * bits for depth, bits in zip(depths, self.bits, strict=False))

    def netlist(self) -> Netlist:
        """The stages, one behind the other."""
        netlist = Netlist("chain", [self._port(0, "in")], [self._port(STAGES, "out")])
        for number in range(STAGES):
            ports = self._port(number, "in"), self._port(number + 1, "out")
            netlist.instances.append(Instance(f"u{number}", f"m{number}", {}, ports, f"n{number}", f"o{number}"))
        ends = [Pin(TOP, "data_in"), *(Pin(f"u{n}", "data_out") for n in range(STAGES))]
        starts = [*(Pin(f"u{n}", "data_in") for n in range(STAGES)), Pin(TOP, "data_out")]
        netlist.nets = [
            Net(f"net{n}", a, b, self._port(n, "out")) for n, (a, b) in enumerate(zip(ends, starts, strict=True))
        ]
        if self.joined:
            side = dataclasses.replace(self._port(STAGES, "in"), name="side", valid="side_valid", ready="side_ready")
            joined = self._port(STAGES, "in"), side, self._port(STAGES, "out")
            netlist.inputs.append(side)
            netlist.instances.append(Instance("join", "mj", {}, joined, "nj", "join"))
            last = netlist.nets.pop()
            netlist.nets += [
                dataclasses.replace(last, sink=Pin("join", "data_in")),
                Net("other", Pin(TOP, "side"), Pin("join", "side"), side),
                Net("joined", Pin("join", "data_out"), Pin(TOP, "data_out"), self._port(STAGES, "out")),
            ]
        return netlist

    def found(self) -> tuple[int, ...]:
        """The depths that the search finds."""
        netlist = self.netlist()
        insert_fifos(netlist, cast(Any, SimpleNamespace(nodes=(), note=lambda *_: None, catalogue=self.catalogue())))
        assert all(fifo.rate for fifo in netlist.fifos)
        depths = {fifo.before: fifo.depth for fifo in netlist.fifos}
        return tuple(depths.get(f"n{number}.data_in", 0) for number in range(STAGES))

    def _port(self, number: int, direction: Direction) -> Stream:
        bits = self.bits[number]
        return Stream(f"data_{direction}", direction, (self.beats[number], bits), FixedFormat(1, 0, False), (bits,))

    def catalogue(self) -> dict[str, Any]:
        def facets(stage: Steps) -> SimpleNamespace:
            latency = Latency.from_steps(stage)
            return SimpleNamespace(hardware=SimpleNamespace(record=dict, latency=lambda _: latency))

        parts = {f"o{number}": facets(stage) for number, stage in enumerate(self.stages)}
        return parts | {"join": facets(self.join())}


@pytest.mark.parametrize("seeds", [range(100, 170), pytest.param(range(170, 420), marks=pytest.mark.slow)], ids=len)
def test_depths_are_refuted_if_they_do_not_do_alone(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a part that never pauses says of FIFOs, and what follows from it, is what the plain equations say."""
    refuted: list[bool] = []
    original = RateSearch._refuted

    def counted(self: RateSearch, *args: Any) -> bool:
        refuted.append(original(self, *args))
        return refuted[-1]

    monkeypatch.setattr(RateSearch, "_refuted", counted)
    for seed in seeds:
        chain = Chain(seed, joined=seed % 2 == 0)
        search = RateSearch(Timeline(chain.netlist(), cast(Any, chain.catalogue())), {})
        shorter = Pin(f"u{STAGES - 1}", "data_in")
        if search._ahead(shorter) is None:
            continue
        for _ in range(4):
            depths = tuple(int(depth) for depth in chain.random.integers(0, 5, STAGES))
            given = {Pin(f"u{n}", "data_in"): depth for n, depth in enumerate(depths) if depth}
            holds = search.holds(given, shorter)
            assert holds == (chain.interval(depths) == chain.slowest), f"seed {seed}: {depths}"
    assert len(seeds) / 25 < sum(refuted) < len(refuted) - len(seeds) / 25


def below(chain: Chain, cost: int, depths: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All FIFOs of fewer bits than these to which no beat can be added: if none of them does, no others do."""
    left = cost - 1 - chain.cost(depths)
    bits = chain.bits[len(depths)]
    if len(depths) == STAGES - 1:
        last = (*depths, left // bits)
        if left % bits < min(chain.bits[:STAGES]):
            yield last
        return
    for depth in range(left // bits + 1):
        yield from below(chain, cost, (*depths, depth))


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 12))])
def test_no_other_fifos_of_fewer_bits_do(part: int) -> None:
    """Nor do these with a beat less; and where the search finds none, none is needed."""
    needed = 0
    for seed in range(20 * part, 20 * part + 20):
        chain = Chain(seed)
        depths = chain.found()
        assert chain.interval(depths) == chain.slowest, f"seed {seed}: {depths}"
        for place in range(STAGES):
            shorter = tuple(depth - (index == place) for index, depth in enumerate(depths))
            if depths[place]:
                assert chain.interval(shorter) != chain.slowest, f"seed {seed}: {shorter} do as well as {depths}"
        for others in below(chain, chain.cost(depths)):
            assert chain.interval(others) != chain.slowest, f"seed {seed}: {others} are cheaper than {depths}"
        needed += any(depths)
    assert needed > 5, "many chains should need some"


@pytest.mark.parametrize("needed", [(), (0,), (17, 18), (3, 40, 63), tuple(range(64))], ids=len)
def test_fifos_that_are_not_needed_are_left_out_many_at_a_time(needed: tuple[int, ...]) -> None:
    """What is left is what leaving out one after the other leaves, in about as many trials as the few that are needed
    take to be found."""
    search = RateSearch.__new__(RateSearch)
    search.pins = [Pin(f"u{number}", "data_in") for number in range(64)]
    wanted = {search.pins[number] for number in needed}
    trials: list[bool] = []

    def holds(depths: dict[Pin, int], shorter: Pin) -> bool:
        trials.append(wanted <= depths.keys())
        assert shorter not in depths
        return trials[-1]

    search.holds = holds  # type: ignore[method-assign, assignment]
    found = search._needed(dict.fromkeys(search.pins, 1), search.pins)
    assert found.keys() == wanted
    assert sum(trials) <= max(1, 6 * len(needed)) and len(trials) <= max(1, 14 * len(needed))
