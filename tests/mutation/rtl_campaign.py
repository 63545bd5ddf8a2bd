"""All mutants of the RTL on the cases of the catalogue: the cheapest case first, one model a case for all that live.

Those that all of them leave alive, or none reaches, are judged by the other trials.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from mase_hw.host.resources import PACKAGE
from mase_hw.simulate.build.tools import BuildTools, find_build_tools
from tests.rtl import LIBRARY

from .ledger import Ledger, Outcome, digest
from .mutant import Mutant, named
from .rtl_edits import Source, edits
from .rtl_guards import judge_guard
from .rtl_other_trials import judge_otherwise, order, other_trials
from .rtl_run import source_of, try_all
from .rtl_trials import Trial, trials

MOST_TRIALS = 60
"""Trials of a mutant that nothing kills: a part of every op would be tried on every case of all of them."""
GUARDS = "guards"
"""The trial of a parameter check, which is elaboration alone."""


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of a module."""
    text = path.read_text(encoding="utf-8")
    return named(path.relative_to(LIBRARY.parent).as_posix(), text, edits(path.name, text))


def key_of_everything() -> str:
    """A hash of what decides about RTL: sources, cases, goldens, benches and this runner."""
    root = PACKAGE.parent
    globs = (
        "rtl_templates/*/*.sv*",
        "mase_hw/**/*.py",
        "sim/batch/*",
        "tests/catalogue/**/*.*",
        "tests/mutation/rtl_*.py",
        "tests/formal/**/*.*",
        "tests/parameters/*.*",
    )
    files = [path for glob in (*globs, "tests/mutation/clones.py") for path in sorted(root.glob(glob))]
    return digest(p for p in files if p.suffix in (".py", ".sv", ".j2", ".cpp", ".h"))


class Reach:
    """Which trials contain the place of a mutant: its module and every generate block around it."""

    def __init__(self, designs: Sequence[Trial]) -> None:
        self._designs = designs
        self._blocks: dict[Path, list[tuple[int, int]]] = {}

    def trials(self, mutant: Mutant) -> list[str]:
        """Ids of at most :data:`MOST_TRIALS`: designs of few files are nearest to the module.

        Those with other generate blocks of the module come first, the nearest with each set of them.
        """
        path = source_of(mutant)
        if path not in self._blocks:
            self._blocks[path] = Source(path.name, path.read_text(encoding="utf-8")).blocks()
        around = {(str(path), a) for a, b in self._blocks[path] if a <= mutant.edit.start < b}
        reaching = [t for t in self._designs if path in t.dut.sources and around <= t.elaborated.reached]
        nearest = sorted(reaching, key=lambda t: len(t.dut.sources))
        seen: set[frozenset[int]] = set()
        first, others = [], []
        for trial in nearest:
            blocks = frozenset(at for file, at in trial.elaborated.reached if file == str(path))
            (others if blocks in seen else first).append(trial.id)
            seen.add(blocks)
        return [*first, *others][:MOST_TRIALS]


def run(mutants: Sequence[Mutant], folder: Path, jobs: int, say: Callable[[str], None]) -> dict[str, Outcome]:
    """Decide about mutants.

    Args:
        mutants: Of any modules.
        folder: Where decisions are kept, and models while they are needed.
        jobs: Processes.
        say: Told what is done.

    Returns:
        By id: ``killed``, ``survived`` or ``refused``. One that no trial reaches survives.
    """
    designs = trials()
    ledger = Ledger(folder / "rtl.jsonl", key_of_everything())
    checks = [m for m in mutants if m.edit.guard and not ledger.tried(m.id, GUARDS)]
    for mutant in checks:
        ledger.add(GUARDS, {mutant.id: judge_guard(mutant, designs)})
    say(f"{sum(m.edit.guard for m in mutants)} mutants of parameter checks are judged")
    reach = Reach(designs)
    hardware = {m.id: m for m in mutants if not m.edit.guard}
    wanted = {id: reach.trials(m) for id, m in hardware.items()}
    _play_all(designs, hardware, wanted, ledger, folder / "models", jobs, say)
    _judge_others(list(hardware.values()), ledger, folder / "others", jobs, say)
    final = ledger.final(names_of_trials(designs))
    return {m.id: final.get(m.id, Outcome("survived", "")) for m in mutants}


def names_of_trials(designs: Sequence[Trial]) -> list[str]:
    """Every trial, in the order in which they are named."""
    return [GUARDS, *(trial.id for trial in designs), *order()]


def _judge_others(
    mutants: Sequence[Mutant], ledger: Ledger, folder: Path, jobs: int, say: Callable[[str], None]
) -> None:
    """The other trials of those that are alive."""
    dead = {mutant for mutant, _, outcome in ledger.decisions() if outcome.verdict != "survived"}
    alive = [m for m in mutants if m.id not in dead and not all(ledger.tried(m.id, name) for name in other_trials(m))]
    shutil.rmtree(folder, ignore_errors=True)
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for mutant, outcomes in zip(
            alive, pool.map(judge_otherwise, alive, [folder / m.id for m in alive]), strict=True
        ):
            for trial, outcome in outcomes.items():
                ledger.add(trial, {mutant.id: outcome})
            say(f"{mutant.file} {mutant.id}: {', '.join(f'{name} {o.verdict}' for name, o in outcomes.items())}")
    shutil.rmtree(folder, ignore_errors=True)


def _play_all(
    designs: Sequence[Trial],
    mutants: dict[str, Mutant],
    wanted: dict[str, list[str]],
    ledger: Ledger,
    folder: Path,
    jobs: int,
    say: Callable[[str], None],
) -> None:
    """Trial by trial, each with the mutants that are alive when it begins."""
    tools = find_build_tools()
    dead = {mutant for mutant, _, outcome in ledger.decisions() if outcome.verdict != "survived"}
    running: dict[Future[dict[str, Outcome]], str] = {}

    def collect(some: set[Future[dict[str, Outcome]]]) -> None:
        for future in some:
            trial, outcomes = running.pop(future), future.result()
            ledger.add(trial, outcomes)
            dead.update(id for id, outcome in outcomes.items() if outcome.verdict != "survived")
            alive = sum(outcome.verdict == "survived" for outcome in outcomes.values())
            left = len(set(mutants) - dead)
            say(f"{trial}: {len(outcomes)} tried, {alive} live on; {left} of {len(mutants)} are alive")

    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for number, trial in enumerate(designs):
            if len(running) == jobs:
                collect(wait(running, return_when=FIRST_COMPLETED).done)
            now = [
                mutants[id]
                for id, ids in wanted.items()
                if trial.id in ids and id not in dead and not ledger.tried(id, trial.id)
            ]
            if now:
                running[pool.submit(_one, number, now, folder / trial.id, tools)] = trial.id
        while running:
            collect(wait(running, return_when=FIRST_COMPLETED).done)


def _one(number: int, mutants: Sequence[Mutant], folder: Path, tools: BuildTools) -> dict[str, Outcome]:
    """One trial, in a process of the pool: trials hold functions, so only their number travels."""
    try:
        return try_all(trials()[number], mutants, folder, tools)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
