"""The score that is kept in the repository: every mutant with what became of it, and a reason for each that lives."""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.catalogue.headers import without_comments

from .ledger import Outcome
from .mutant import Mutant

KEPT = Path("regress/mutation.json")
"""The score, below the root of the repository."""
REASONS = Path("regress/mutation_survivors.toml")
"""Why survivors live, written by hand: by file and mutant."""
EQUIVALENT = "equivalent: "
"""How the reason of a mutant begins that computes the same as the original in every cycle."""
BAR, LEAST = 98.0, 500
"""Percent of the mutants that are not equivalent, and how many there must be."""


@dataclass(frozen=True)
class Entry:
    """One mutant in the score.

    Args:
        id: Its name.
        line: Where it is.
        operator: What kind of fault.
        change: What stood there and what stands there now.
        verdict: ``killed``, ``refused``, ``equivalent`` or ``survived``.
        by: What killed or refused it, or why it lives.
    """

    id: str
    line: int
    operator: str
    change: str
    verdict: str
    by: str


Score = dict[str, tuple[str, list[Entry]]]
"""By file: the digest of its code, and its mutants."""


def digest_of(path: Path) -> str:
    """A hash of the code of a file, whatever its comments and spaces; of RTL by line, as mutants are named by it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tree = ast.parse(text)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                value = body[0].value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    value.value = ""
        code = ast.dump(tree)
    else:
        lines = (" ".join(line.split()) for line in without_comments(text).splitlines())
        code = "\n".join(line for line in lines if line)
    return hashlib.sha256(code.encode()).hexdigest()


def read_reasons(path: Path) -> dict[str, dict[str, str]]:
    """The reasons by file and mutant."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def entries(mutants: Iterable[Mutant], outcomes: Mapping[str, Outcome], text: str) -> list[Entry]:
    """What the score says of the mutants of one file.

    Args:
        mutants: Those that were judged.
        outcomes: What became of them.
        text: Of the file.
    """
    found = []
    for m in mutants:
        outcome = outcomes[m.id]
        found.append(Entry(m.id, m.line, m.edit.operator, m.change(text)[:100], outcome.verdict, outcome.by))
    return found


def with_reasons(score: Score, reasons: Mapping[str, Mapping[str, str]]) -> Score:
    """The score with the reasons of the mutants that live, as they are now."""

    def explained(file: str, entry: Entry) -> Entry:
        if entry.verdict in ("killed", "refused"):
            return entry
        by = reasons.get(file, {}).get(entry.id, "")
        return replace(entry, verdict="equivalent" if by.startswith(EQUIVALENT) else "survived", by=by)

    return {file: (digest, [explained(file, e) for e in entries]) for file, (digest, entries) in score.items()}


def totals(score: Score) -> dict[str, dict[str, int | float]]:
    """Counts of verdicts, and the percentage killed, of the RTL, of the goldens and of all."""
    parts: dict[str, Counter[str]] = {"rtl": Counter(), "golden": Counter(), "all": Counter()}
    for file, (_, mutants) in score.items():
        for entry in mutants:
            for part in ("golden" if file.endswith(".py") else "rtl", "all"):
                parts[part][entry.verdict] += 1
    result: dict[str, dict[str, int | float]] = {}
    for part, counts in parts.items():
        judged = counts["killed"] + counts["survived"]
        percent = round(100 * counts["killed"] / judged, 2) if judged else 0.0
        names = ("killed", "survived", "equivalent", "refused")
        result[part] = {**{name: counts[name] for name in names}, "percent": percent}
    return result


def lines(score: Score) -> list[str]:
    """The totals for people, a line for each part."""
    rows = totals(score).items()
    return [
        f"{part:7}" + "".join(f"{name} {value}".rjust(16) for name, value in counts.items()) for part, counts in rows
    ]


def write(score: Score, path: Path, seed: int) -> None:
    """Write the score, one mutant a line."""
    head = ["{", '"version": 1,', f'"seed": {seed},', f'"totals": {json.dumps(totals(score))},', '"files": {']
    files = []
    for file, (digest, mutants) in sorted(score.items()):
        rows = ",\n".join(json.dumps([e.id, e.line, e.operator, e.change, e.verdict, e.by]) for e in mutants)
        files.append(f'{json.dumps(file)}: {{"digest": "{digest}", "mutants": [\n{rows}\n]}}')
    text = "\n".join([*head, ",\n".join(files), "}", "}"]) + "\n"
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> Score:
    """Read a score."""
    files = json.loads(path.read_text(encoding="utf-8"))["files"]
    return {file: (part["digest"], [Entry(*row) for row in part["mutants"]]) for file, part in files.items()}


def changed_since(score: Score, place: Callable[[str], Path], files: Iterable[str]) -> list[str]:
    """Files whose code is not the one that was judged, or that never were; and those that are gone."""
    now = set(files)
    stale = [file for file, (digest, _) in score.items() if file not in now or digest_of(place(file)) != digest]
    return sorted({*stale, *(now - set(score))})


def problems(score: Score, reasons: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is wrong with a score itself."""
    found = []
    for file, (_, mutants) in sorted(score.items()):
        by_id = {entry.id: entry for entry in mutants}
        found += [f"{file}:{e.line}: {e.id} lives without a reason: {e.change}" for e in mutants if not e.by]
        for id in reasons.get(file, {}):
            # A reason for one that is not in the sample may wait for it.
            if id in by_id and by_id[id].verdict in ("killed", "refused"):
                found.append(f"{file}: {id} has a reason to live, but {by_id[id].by} {by_id[id].verdict} it")
    if with_reasons(score, reasons) != score:
        found.append("reasons have changed since the score was written: `python -m tests.mutation reasons`")
    all = totals(score)["all"]
    if all["killed"] + all["survived"] < LEAST:
        found.append(f"only {all['killed'] + all['survived']} mutants were judged; {LEAST} are the least")
    if all["percent"] < BAR:
        found.append(f"{all['percent']} % of the mutants are killed; {BAR} % are the least")
    return found
