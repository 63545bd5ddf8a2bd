"""What a regression showed: the record from which its verdict and its reports are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mase_hw.regress.baseline import Difference
from mase_hw.regress.job import Result


@dataclass(frozen=True)
class Report:
    """What a regression showed.

    Args:
        matrix: Name of the matrix.
        results: One of every job, in the order of the matrix.
        differences: From the baseline.
        baseline: Whether there was one.
        kept: Jobs whose result is an earlier regression's.
        outdated: Those of them that ran other sources than these.
        seconds: Wall time.
    """

    matrix: str
    results: list[Result]
    differences: list[Difference]
    baseline: bool
    kept: list[str]
    outdated: list[str]
    seconds: float

    @property
    def failures(self) -> list[Result]:
        """Every job that did not pass."""
        return [r for r in self.results if r["status"] != "passed"]

    @property
    def regressions(self) -> list[Difference]:
        """What became slower or larger, or is not measured any more."""
        return [d for d in self.differences if d.regression]

    @property
    def gains(self) -> list[Difference]:
        """What became faster or smaller without being recorded."""
        return [d for d in self.differences if d.gain]

    @property
    def passed(self) -> bool:
        """Whether every job passed with these sources, and every figure is that of the baseline."""
        return bool(self.results) and not (self.failures or self.regressions or self.gains or self.outdated)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON types."""
        return {
            "matrix": self.matrix,
            "passed": self.passed,
            "jobs": len(self.results),
            "failures": len(self.failures),
            "regressions": len(self.regressions),
            "gains": len(self.gains),
            "baseline": self.baseline,
            "kept": self.kept,
            "outdated": self.outdated,
            "seconds": round(self.seconds, 3),
            "differences": [d.to_json() | {"regression": d.regression} for d in self.differences],
            "results": self.results,
        }
