"""Mutants of RTL on one trial: Verilator must accept them, then each is played until a check fails."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mase_hw.errors import MaseHwError, SimulationError, ToolError
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines.batch import build, write_batch_plan
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import Plan
from mase_hw.simulate.run import HOST, Run
from tests.catalogue.test_lint import verilate
from tests.rtl import LIBRARY

from .clones import TOP, foreign, write
from .ledger import Outcome
from .mutant import Mutant
from .rtl_trials import Play, Trial

ORIGINAL = 0
CPU_SECONDS = 5
"""Of processor time for one run; the longest takes half of one. A mutant that needs more has hung."""
MOST = 24
"""Copies in one model: more would cost more memory in the compiler than they save."""


def source_of(mutant: Mutant) -> Path:
    """The file that a mutant changes."""
    return LIBRARY.parent / mutant.file


def mutated(mutant: Mutant) -> dict[Path, str]:
    """The changed source by its path."""
    path = source_of(mutant)
    return {path: mutant.apply(path.read_text(encoding="utf-8"))}


def try_all(trial: Trial, mutants: Sequence[Mutant], folder: Path, tools: BuildTools) -> dict[str, Outcome]:
    """Decide about every mutant on one trial.

    Args:
        trial: The design; every mutant is in one of its files.
        mutants: At least one.
        folder: Scratch, made here.
        tools: For the builds, which share the runtime beside the folder.

    Raises:
        RuntimeError: If the unmodified design fails.
    """
    outcomes: dict[str, Outcome] = {}
    for mutant in mutants:
        if complaint := refused(trial, mutated(mutant), folder / "lint", tools):
            outcomes[mutant.id] = Outcome("refused", complaint)
    rest = [m for m in mutants if m.id not in outcomes]
    for start in range(0, len(rest), MOST):
        outcomes |= _together(trial, rest[start : start + MOST], folder / str(start), tools)
    return outcomes


def refused(trial: Trial, changed: Mapping[Path, str], folder: Path, tools: BuildTools) -> str:
    """What Verilator says against a design with all its warnings; nothing if it takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for source in trial.dut.sources:
        files.append(str(source))
        if source in changed:
            files[-1] = str(folder / source.name)
            Path(files[-1]).write_text(changed[source], encoding="utf-8")
    code, output = verilate(tools, LIBRARY, trial.dut.top, files, trial.dut.parameters)
    return complaint_of(code, output, folder)


def complaint_of(code: int, output: str, folder: Path) -> str:
    """The first line that Verilator says, without the places of files; nothing if it has nothing to say."""
    first = next((line for line in output.splitlines() if line.startswith("%")), f"exit code {code}")
    return first.replace(f"{folder}/", "").replace(f"{LIBRARY}/", "")[:160] if code or output else ""


def _together(trial: Trial, mutants: Sequence[Mutant], folder: Path, tools: BuildTools) -> dict[str, Outcome]:
    """Build the mutants into one model; where that fails, or one disturbs the others, without that one."""
    copies = {number: mutated(m) for number, m in enumerate(mutants, 1)}
    guilty: set[int] = set()
    try:
        built = _build(trial, {ORIGINAL: {}} | copies, folder, tools)
        plans = list(_plans(trial, built, folder))
        if (found := _play(built, plans, ORIGINAL)).verdict == "survived":
            return {m.id: _play(built, plans, number) for number, m in enumerate(mutants, 1)}
        complaint = found.by
        # A copy that ends the simulation before it begins, such as for a memory of the wrong size, says who it is.
        log = (plans[0][1].folder / "sim.log").read_text(encoding="utf-8", errors="replace")
        guilty = {int(number) for number in re.findall(rf"{TOP}\.u_(\d+)\b", log)} & set(copies)
    except (SimulationError, ToolError) as problem:
        complaint = str(problem).splitlines()[0]
    if len(mutants) == 1:
        return {mutants[0].id: _by_itself(trial, copies[1], folder / "alone", tools, complaint)}
    # One that hangs says nothing: halve until it is alone.
    first = guilty if 0 < len(guilty) < len(mutants) else set(range(1, len(mutants) // 2 + 1))
    parts = [[m for n, m in enumerate(mutants, 1) if (n in first) == side] for side in (True, False)]
    shutil.rmtree(folder / "build", ignore_errors=True)
    return _together(trial, parts[0], folder / "a", tools) | _together(trial, parts[1], folder / "b", tools)


def _by_itself(trial: Trial, changed: Mapping[Path, str], folder: Path, tools: BuildTools, complaint: str) -> Outcome:
    """Decide about one that cannot be built beside the original, or disturbs it even without a clock."""
    original = _build(trial, {ORIGINAL: {}}, folder / "original", tools)
    found = _play(original, list(_plans(trial, original, folder / "original")), ORIGINAL)
    if found.verdict != "survived":
        raise RuntimeError(f"{trial.id}: the unmodified design fails: {found.by}")
    try:
        built = _build(trial, {1: changed}, folder / "mutant", tools)
    except (SimulationError, ToolError):
        return Outcome("refused", complaint.replace(f"{LIBRARY}/", "")[:160])
    return _play(built, list(_plans(trial, built, folder / "mutant")), 1)


def _build(trial: Trial, copies: Mapping[int, Mapping[Path, str]], folder: Path, tools: BuildTools) -> Built:
    folder.mkdir(parents=True, exist_ok=True)
    dut = write(trial.dut, copies, folder / "rtl")
    return build(dut, folder / "build", cache_dir=folder / "cache", tools=replace(tools, jobs=1), cycles=1)


def _plans(trial: Trial, built: Built, folder: Path) -> Iterator[tuple[Play, Plan]]:
    for play in trial.plays:
        plan = play.plan(built.dut, folder / play.name)
        write_batch_plan(plan)
        yield play, plan


def _play(built: Built, plans: Sequence[tuple[Play, Plan]], number: int) -> Outcome:
    """Play one copy until a check fails."""
    for play, plan in plans:
        try:
            run = _run(built, plan, play.seed, number)
            if run.timed_out:
                return Outcome("killed", f"{play.name}: no end")
            # The records are read by the name of the copy's ports, which are those of the design.
            play.holds(judge(replace(built.dut, parameters={}), plan, run, results_xml=False))
        except (MaseHwError, AssertionError) as problem:
            words = problem.message if isinstance(problem, MaseHwError) else str(problem)
            return Outcome("killed", f"{play.name}: {words.splitlines()[0] if words else 'assertion'}"[:160])
    return Outcome("survived", "")


def _run(built: Built, plan: Plan, seed: int, number: int) -> Run:
    """As the batch engine runs a simulator, with the number of the copy."""
    (plan.folder / "outcome.json").unlink(missing_ok=True)
    arguments = ("+verilator+rand+reset+2", f"+verilator+seed+{seed + 1}", f"+mutant={number}")
    begin = time.perf_counter()
    with (plan.folder / "sim.log").open("wb") as log:
        done = subprocess.run(
            [str(built.executable), *arguments],
            cwd=plan.folder,
            env=os.environ | {HOST: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Processor time, so that a machine at work does not kill.
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)),
            check=False,
        )
    seconds, path = time.perf_counter() - begin, plan.folder / "sim.log"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not foreign(line, number)), encoding="utf-8")
    return Run(done.returncode, done.returncode in (-24, -9), path, seconds, 10)
