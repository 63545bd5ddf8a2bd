"""Parameter checks as judges, by elaboration alone, as ``tests/catalogue/test_guards.py`` judges the checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mase_hw.hardware.library import with_dependences
from tests.catalogue.elaborate import elaborate
from tests.catalogue.guards import Guard, guards_of
from tests.rtl import LIBRARY

from .ledger import Outcome
from .mutant import Mutant
from .rtl_run import source_of
from .rtl_trials import Trial


def judge_guard(mutant: Mutant, trials: Sequence[Trial]) -> Outcome:
    """Decide about a mutant of a check: it must refuse what it declares, and nothing that is legal.

    Args:
        mutant: In the condition of a guard.
        trials: Every design of the catalogue.
    """
    path = source_of(mutant)
    text, changed = _changed(mutant, path)
    if not (found := elaborate(changed, path.stem, {}, reached=False)).accepted:
        return Outcome("killed", f"refuses the default parameters: {[*found.fatal.values(), *found.errors][0]}"[:160])
    # The label of a block follows its condition.
    guard = next(guard for guard in guards_of(path, text) if guard.begin > mutant.edit.start)
    if complaint := _undeclared(guard, path, changed):
        return Outcome("killed", complaint)
    for trial in trials:
        if path in trial.dut.sources:
            sources = [(str(p), text if p == path else p.read_text(encoding="utf-8")) for p in trial.dut.sources]
            if not elaborate(sources, trial.dut.top, trial.dut.parameters).accepted:
                return Outcome("killed", f"refuses {trial.id}")
    return Outcome("survived", "")


def judge_checks(mutant: Mutant) -> Outcome:
    """Decide about a mutant that is in no check: every check of its module must do what it declares all the same."""
    path = source_of(mutant)
    text, changed = _changed(mutant, path)
    for guard in guards_of(path, text):
        if complaint := _undeclared(guard, path, changed):
            return Outcome("killed", f"{guard.label} {complaint}"[:160])
    return Outcome("survived", "")


def _changed(mutant: Mutant, path: Path) -> tuple[str, list[tuple[str, str]]]:
    """The mutated text of its file, and the sources of the module by path."""
    text = mutant.apply(path.read_text(encoding="utf-8"))
    files = [LIBRARY / file for file in with_dependences([path.relative_to(LIBRARY).as_posix()])]
    return text, [(str(file), text if file == path else file.read_text(encoding="utf-8")) for file in files]


def _undeclared(guard: Guard, path: Path, sources: Sequence[tuple[str, str]]) -> str:
    """What a check does other than it declares; nothing if it refuses and takes what it says."""
    for refused in guard.refused:
        if not guard.messages(path, elaborate(sources, path.stem, refused, reached=False).fatal):
            return f"takes {refused}"
    for taken in guard.taken:
        if guard.messages(path, elaborate(sources, path.stem, taken, reached=False).fatal):
            return f"refuses {taken}"
    return ""
