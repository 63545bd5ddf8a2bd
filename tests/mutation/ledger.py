"""What is decided so far: one line a decision, so that an interrupted campaign goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Args:
        verdict: ``killed``, ``survived``, or ``refused``: it is no design, so nothing was proven by it.
        by: What decided; empty for a survivor.
    """

    verdict: str
    by: str


def digest(files: Iterable[Path], *words: str) -> str:
    """A hash of the names and contents of files, in their order, and of words."""
    total = hashlib.sha256("\0".join(words).encode())
    for file in files:
        content = file.read_bytes()
        total.update(f"{file.name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


class Ledger:
    """Decisions of one campaign, kept in a file.

    Args:
        path: The file; made if there is none.
        key: Of everything that the decisions depend on. A file with another key is begun anew.
        read: Whether nothing is to be added: then a file with another key stays as it is, and decides nothing.
    """

    def __init__(self, path: Path, key: str, *, read: bool = False) -> None:
        self._path = path
        self._entries: dict[tuple[str, str], Outcome] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if lines and lines[0] == json.dumps({"key": key}):
            for line in lines[1:]:
                # The last line of a campaign that was killed may be half a line.
                if line.endswith("]"):
                    mutant, trial, verdict, by = json.loads(line)
                    self._entries[mutant, trial] = Outcome(verdict, by)
        elif not read:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"key": key}) + "\n", encoding="utf-8")

    def add(self, trial: str, outcomes: dict[str, Outcome]) -> None:
        """Keep what became of mutants on a trial."""
        with self._path.open("a", encoding="utf-8") as file:
            for mutant, outcome in outcomes.items():
                self._entries[mutant, trial] = outcome
                file.write(json.dumps([mutant, trial, outcome.verdict, outcome.by]) + "\n")

    def tried(self, mutant: str, trial: str) -> bool:
        """Whether a mutant is decided on a trial."""
        return (mutant, trial) in self._entries

    def decisions(self) -> Iterator[tuple[str, str, Outcome]]:
        """Every decision: mutant, trial, outcome."""
        for (mutant, trial), outcome in self._entries.items():
            yield mutant, trial, outcome

    def final(self, order: Iterable[str]) -> dict[str, Outcome]:
        """The outcome of every mutant: of the first trial in this order that it did not survive, if there is one."""
        rank = {trial: place for place, trial in enumerate(order)}
        found: dict[str, tuple[int, Outcome]] = {}
        for mutant, trial, outcome in self.decisions():
            place = len(rank) if outcome.verdict == "survived" else rank.get(trial, len(rank) - 1)
            by = f"{trial}: {outcome.by}" if outcome.by else ""
            if mutant not in found or place < found[mutant][0]:
                found[mutant] = place, Outcome(outcome.verdict, by)
        return {mutant: outcome for mutant, (_, outcome) in found.items()}
