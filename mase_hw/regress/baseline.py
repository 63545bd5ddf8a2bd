"""The committed figures of every job, and what became something else.

In both directions: a gain that is not recorded can be lost again without anybody noticing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mase_hw.errors import ConfigError
from mase_hw.host.disk import not_written
from mase_hw.host.documents import parse_json
from mase_hw.regress.job import Result, write_json

FIGURES = ("fill", "interval", "cycles", "multipliers", "memory_bits")
"""What is compared; less is better of all of them. Nothing here is an estimate, so there is no tolerance."""
_WORSE = frozenset({"worse", "gone"})
Figures = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Difference:
    """One figure that is not what the baseline says.

    Args:
        job: Name of the job.
        figure: One of :data:`FIGURES`, or empty for the job as a whole.
        before: The baseline's value.
        now: The measured value.
        verdict: ``worse``, ``better``, ``new`` (not in the baseline) or ``gone`` (only in the baseline).
    """

    job: str
    figure: str
    before: int | None
    now: int | None
    verdict: str

    @property
    def regression(self) -> bool:
        """Whether it fails the regression: a figure that nobody measures any more does, too."""
        return self.verdict in _WORSE

    @property
    def gain(self) -> bool:
        """Whether it is better than what was recorded."""
        return self.verdict == "better"

    @property
    def change(self) -> str:
        """In percent, or nothing."""
        if self.before is None or self.now is None or not self.before:
            return ""
        return f"{(self.now - self.before) / self.before:+.1%}"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON types."""
        return asdict(self)


def read_baseline(path: Path, matrix: str) -> dict[str, dict[str, int]] | None:
    """The figures of one matrix by job; None if the file or the matrix in it does not exist.

    Raises:
        ConfigError: If the file is not a baseline.
    """
    document = _read(path)
    return document.get(matrix) if document is not None else None


def write_baseline(path: Path, matrix: str, results: Iterable[Result]) -> None:
    """Put the figures of these results in place of the matrix's.

    Raises:
        EmitError: If the file cannot be written.
        ConfigError: If what is there is not a baseline.
    """
    document = _read(path) or {}
    document[matrix] = {r["job"]: {f: int(r["figures"][f]) for f in FIGURES if f in r["figures"]} for r in results}
    try:
        write_json(path, document)
    except OSError as problem:
        raise not_written("the baseline", path, problem) from problem


def compare(baseline: Figures, results: Iterable[Result]) -> list[Difference]:
    """Every difference of passed jobs, the worst kind first. Jobs that did not pass have failed already."""
    found: list[Difference] = []
    seen = set()
    for result in results:
        name, now = result["job"], result["figures"]
        seen.add(name)
        if result["status"] != "passed":
            continue
        if name not in baseline:
            found.append(Difference(name, "", None, None, "new"))
            continue
        before = baseline[name]
        for figure in FIGURES:
            a, b = before.get(figure), now.get(figure)
            if a != b:
                verdict = "new" if a is None else "gone" if b is None else "worse" if b > a else "better"
                found.append(Difference(name, figure, a, b, verdict))
    found += [Difference(name, "", None, None, "gone") for name in sorted(set(baseline) - seen)]
    return sorted(found, key=lambda d: (not d.regression, d.job))


def _read(path: Path) -> dict[str, dict[str, dict[str, int]]] | None:
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise ConfigError("the baseline cannot be read", node=str(path), got=str(problem)) from problem
    whole = isinstance(document, dict) and all(
        isinstance(jobs, dict)
        and all(isinstance(f, dict) and all(type(v) is int for v in f.values()) for f in jobs.values())
        for jobs in document.values()
    )
    if not whole:
        raise ConfigError("not a baseline", node=str(path), expected="figures by matrix and job", remedy="restore it")
    return dict(document)
