"""The matrix of every change: its jobs pass, and every figure is the recorded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw.host.pools import LocalPool
from mase_hw.regress.matrix import expand, load_matrix
from mase_hw.regress.regress import regress
from mase_hw.regress.report import read_baseline, table
from tests.regress.conftest import out_folder


def test_the_smoke_matrix_is_as_recorded(root: Path, tmp_path: Path, runtime: Path) -> None:
    report = regress(root / "regress" / "smoke.toml", out_folder(tmp_path, runtime), pool=LocalPool(1))
    assert report.baseline and not report.failures, [(r["job"], r["message"]) for r in report.failures]
    assert report.passed and not report.differences, f"--update-baseline records it\n{table(report)}"


@pytest.mark.parametrize("name", ["smoke", "full"])
def test_every_job_of_a_matrix_has_figures(root: Path, name: str) -> None:
    """A matrix that grew without its baseline would fail only when the whole of it is run."""
    folder = root / "regress"
    jobs = {job.name for job in expand(load_matrix(folder / f"{name}.toml"), folder)}
    assert jobs and jobs == set(read_baseline(folder / "baseline.json", name) or ())
