"""What only the fast engine does in its own way: waves, progress, an end by timeout."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw.errors import ResultsError
from tests.engines.conftest import Builder, play
from tests.sim.conftest import slice_dut


def test_waves_and_progress(builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waves are whole, and Python hears of the run while it goes on."""
    monkeypatch.setattr("mase_hw.simulate.run._POLL_S", 0.002)  # on a fast machine as well
    seen: list[int] = []
    built = builder("fast", slice_dut(), "waves", waves=True)
    result = play(
        "fast", built, tmp_path, frames=12_000, waves=True, max_cycles=10**6, progress=lambda p: seen.append(p.cycles)
    )
    assert result.passed and result.cycles > 72_000, result.report()
    assert result.waves is not None and result.waves.stat().st_size > 1000
    assert seen and max(seen) >= 65_536


def test_killed_by_timeout(builder: Builder, tmp_path: Path) -> None:
    built = builder("fast", slice_dut(), "faulty_slice")
    result = play("fast", built, tmp_path, timeout=0.01)
    assert isinstance(result.failure, ResultsError) and "did not end within its time" in str(result.failure)
