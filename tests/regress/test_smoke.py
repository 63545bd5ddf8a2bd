"""The matrix of every change: its jobs pass, and every figure is the recorded one."""

from __future__ import annotations

from pathlib import Path

from mase_hw.regress.pool import LocalPool
from mase_hw.regress.regress import regress
from mase_hw.regress.report import table
from tests.regress.conftest import out_folder


def test_the_smoke_matrix_is_as_recorded(root: Path, tmp_path: Path, runtime: Path) -> None:
    report = regress(root / "regress" / "smoke.toml", out_folder(tmp_path, runtime), pool=LocalPool(1))
    assert report.baseline and not report.failures, [(r["job"], r["message"]) for r in report.failures]
    assert report.passed and not report.differences, f"--update-baseline records it\n{table(report)}"
