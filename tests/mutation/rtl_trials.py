"""What a mutated module is tried on: the cases and benches of the catalogue, in the runs that `make test` plays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mase_hw.catalogue import Memory
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits, Plan, SimulationOptions, write_plan
from mase_hw.simulate.result import SimResult
from tests.catalogue.benches import MAX_CYCLES, SEED, WATCHDOG, Bench, placed
from tests.catalogue.checks import CHECKS, Check, all_compared
from tests.catalogue.elaborate import Elaborated, elaborate
from tests.catalogue.harness import ITEMS, Item, plan_of
from tests.catalogue.memories import write_memories
from tests.catalogue.primitives import BENCHES
from tests.rtl import LIBRARY


@dataclass(frozen=True)
class Play:
    """One run of a trial.

    Args:
        name: For people.
        seed: Of data, stalls and initial values.
        plan: Writes what is played into a folder.
        holds: What must be true of the result; raises if it is not.
    """

    name: str
    seed: int
    plan: Callable[[Dut, Path], Plan]
    holds: Callable[[SimResult], None]


@dataclass(frozen=True)
class Trial:
    """A design that a mutated module is part of.

    Args:
        id: As the test is called.
        dut: The design, from the sources as they are.
        plays: Its runs, the cheapest first.
    """

    id: str
    dut: Dut
    plays: tuple[Play, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The sources that may be mutated, below ``rtl_templates``."""
        root = LIBRARY
        return tuple(p.relative_to(root).as_posix() for p in self.dut.sources if p.is_relative_to(root))

    @functools.cached_property
    def elaborated(self) -> Elaborated:
        """What of the sources is part of the design."""
        return elaborate(self.dut.sources, self.dut.top, self.dut.parameters)


@functools.cache
def trials() -> tuple[Trial, ...]:
    """Every trial: first the benches and the smallest case of each module, then the second smallest, and so on."""
    modules: dict[str, list[Item]] = {}
    for it in ITEMS:
        modules.setdefault(it.hardware.module, []).append(it)
    ranked = [
        (rank, it)
        for group in modules.values()
        for rank, it in enumerate(sorted(group, key=lambda it: (_cycles(it), it.id)))
    ]
    benches = [_of_bench(name) for name in BENCHES]
    cases = [_of_item(it) for _, it in sorted(ranked, key=lambda r: (r[0], r[1].id))]
    return (*benches, *cases)


def trials_of(op: str) -> tuple[Trial, ...]:
    """Those of the cases of one op, without looking at any other."""
    return tuple(_of_item(it) for it in ITEMS if it.op.name == op)


def _cycles(it: Item) -> int:
    return it.hardware.latency(it.case.params).interval * (it.case.frames + 4)


def _of_item(it: Item) -> Trial:
    plays = [_play(it, name, check, i) for name, check in CHECKS.items() for i in range(len(check.runs(it)))]
    return Trial(it.id, it.dut(), tuple(plays))


def _play(it: Item, name: str, check: Check, index: int) -> Play:
    seed, stalls = check.runs(it)[index]

    def plan(dut: Dut, folder: Path) -> Plan:
        return plan_of(dut, it, folder, stalls, seed, check.stall_static, check.resets(it))

    return Play(f"{name}_{seed}", seed, plan, lambda result: check.holds(it, all_compared(it, result)))


def _of_bench(name: str) -> Trial:
    bench = BENCHES[name]()
    if bench.words:
        bench = placed(bench, write_memories(f"bench_{name}", {"ROM": Memory(bench.words, 8)}))
    return Trial(name, bench.dut, tuple(_bench_play(bench, run) for run in bench.plays))


def _bench_play(bench: Bench, name: str) -> Play:
    run = bench.plays[name]

    def plan(dut: Dut, folder: Path) -> Plan:
        sides = [{s.name: run.beats[s.name] for s in side} for side in (dut.inputs, dut.outputs)]
        limits = Limits(WATCHDOG, MAX_CYCLES, idle_cycles=run.idle_cycles)
        options = SimulationOptions(seed=SEED, stalls=run.stalls, reset_at=tuple(run.reset_at))
        return write_plan(dut, folder, *sides, limits, options)

    return Play(name.replace(" ", "_"), SEED, plan, lambda result: bench.holds(name, result.raise_on_failure()))
