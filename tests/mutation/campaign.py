"""Chooses mutants of every file, has them judged, and brings the score up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mase_hw.host.resources import PACKAGE
from tests.rtl import LIBRARY

from . import golden_campaign, rtl_campaign, score
from .golden_reach import GOLDEN
from .ledger import Ledger, Outcome
from .mutant import Mutant, sample
from .rtl_other_trials import other_trials

ROOT = PACKAGE.parent
SEED = 1
CHOICE = {".py": (0.12, 6, 20), ".sv": (0.06, 5, 20)}
"""Of the mutants of a file, by language: which part is chosen, and at least and at most how many."""
GUARDS = 3
"""Mutants of parameter checks that are chosen of a module; there are more of them than of anything else."""


def sources() -> list[Path]:
    """Every file that is mutated; what stands around a design (``system``) is reached by no case of the catalogue."""
    rtl = [path for folder in ("lib", "ops") for path in sorted(LIBRARY.glob(f"{folder}/*.sv"))]
    return [*rtl, *GOLDEN]


def place(file: str) -> Path:
    """Where a file that the score names lies: RTL is mutated as it is rendered."""
    return (LIBRARY.parent if file.endswith(".sv") else ROOT) / file


def name(path: Path) -> str:
    """What the score calls a file; the inverse of :func:`place`."""
    return path.relative_to(LIBRARY.parent if path.suffix == ".sv" else ROOT).as_posix()


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of a file."""
    return golden_campaign.mutants_of(path) if path.suffix == ".py" else rtl_campaign.mutants_of(path)


def chosen(path: Path, seed: int = SEED) -> list[Mutant]:
    """The mutants of a file that count."""
    every = mutants_of(path)
    guards = [m for m in every if m.edit.guard]
    others = [m for m in every if not m.edit.guard]
    share, fewest, most = CHOICE[path.suffix]
    count = max(fewest, min(most, round(share * len(others))))
    return sorted([*sample(others, count, seed), *sample(guards, GUARDS, seed)], key=lambda m: (m.edit.start, m.id))


def judge(mutants: Sequence[Mutant], work: Path, jobs: int, say: Callable[[str], None]) -> dict[str, Outcome]:
    """Decide about mutants of both kinds."""
    python = [m for m in mutants if m.file.endswith(".py")]
    verilog = [m for m in mutants if not m.file.endswith(".py")]
    found: dict[str, Outcome] = {}
    if python:
        found |= golden_campaign.run(python, work, jobs, say)
    if verilog:
        found |= rtl_campaign.run(verilog, work, jobs, say)
    return found


def decided(mutants: Sequence[Mutant], work: Path) -> dict[str, Outcome]:
    """What an interrupted campaign has decided: mutants that died, and those that outlived all their trials."""
    found: dict[str, Outcome] = {}
    python = Ledger(work / "golden.jsonl", golden_campaign.key_of_everything(), read=True).final(["tests"])
    designs = rtl_campaign.trials()
    reach = rtl_campaign.Reach(designs)
    ledger = Ledger(work / "rtl.jsonl", rtl_campaign.key_of_everything(), read=True)
    final = ledger.final(rtl_campaign.names_of_trials(designs))
    for m in mutants:
        outcome = python.get(m.id) if m.file.endswith(".py") else final.get(m.id)
        if outcome is None:
            continue
        last = m.file.endswith(".py") or m.edit.guard or outcome.verdict != "survived"
        if last or all(ledger.tried(m.id, trial) for trial in (*reach.trials(m), *other_trials(m))):
            found[m.id] = outcome
    return found


def keep(files: Sequence[Path], kept: Path, work: Path, say: Callable[[str], None], seed: int = SEED) -> score.Score:
    """Write what an interrupted campaign has decided into the score: files of which every chosen mutant is decided.

    Args:
        files: Which it was to judge.
        kept: The score, which has other files as they were.
        work: Its scratch.
        say: Told what is done.
        seed: Of the choice.
    """
    result = score.read(kept)
    mutants = {path: chosen(path, seed) for path in files}
    outcomes = decided([m for some in mutants.values() for m in some], work)
    whole = {path: some for path, some in mutants.items() if all(m.id in outcomes for m in some)}
    say(f"{len(whole)} of {len(files)} files are decided: {len(outcomes)} of {sum(map(len, mutants.values()))} mutants")
    return _written(result, whole, outcomes, kept, seed)


def _written(
    result: score.Score, mutants: Mapping[Path, Sequence[Mutant]], outcomes: dict[str, Outcome], kept: Path, seed: int
) -> score.Score:
    """The score with these files, in its file."""
    names = {name(path) for path in sources()}
    result = {file: part for file, part in result.items() if file in names}
    for path, some in mutants.items():
        entries = score.entries(some, outcomes, path.read_text(encoding="utf-8"))
        result[name(path)] = (score.digest_of(path), entries)
    result = score.with_reasons(result, score.read_reasons(ROOT / score.REASONS))
    score.write(result, kept, seed)
    return result


def update(
    files: Sequence[Path],
    kept: Path,
    work: Path,
    jobs: int,
    say: Callable[[str], None],
    seed: int = SEED,
    alive: bool = False,
) -> score.Score:
    """Judge the chosen mutants of some files and write the score with what was known of the others.

    Args:
        files: Which to judge.
        kept: The score; made if there is none.
        work: Scratch. What it holds of an interrupted campaign is used.
        jobs: Processes.
        say: Told what is done.
        seed: Of the choice.
        alive: Whether to judge only mutants that survived when they were last judged: what was killed is believed.
    """
    result = score.read(kept) if kept.is_file() else {}
    known = {file: {e.id: Outcome(e.verdict, e.by) for e in entries} for file, (_, entries) in result.items()}
    mutants = {path: chosen(path, seed) for path in files}
    asked = [m for some in mutants.values() for m in some]
    believed: dict[str, Outcome] = {}
    if alive:
        for m in asked:
            if (outcome := known.get(m.file, {}).get(m.id)) and outcome.verdict != "survived":
                believed[m.id] = outcome
    outcomes = believed | judge([m for m in asked if m.id not in believed], work, jobs, say)
    return _written(result, mutants, outcomes, kept, seed)


def explain(kept: Path, seed: int = SEED) -> None:
    """Write the reasons of survivors into the score, as they are now."""
    score.write(score.with_reasons(score.read(kept), score.read_reasons(ROOT / score.REASONS)), kept, seed)
