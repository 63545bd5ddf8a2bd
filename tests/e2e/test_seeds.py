"""Whatever registers and ports hold at power-up, a design that is right passes."""

from __future__ import annotations

from pathlib import Path

import mase_hw
from tests.e2e.conftest import Workshop


def test_many_seeds(designs: dict[str, mase_hw.Design], workshop: Workshop, tmp_path: Path) -> None:
    """Some seeds start with the clock high and reset low: a rising edge on registers that hold anything."""
    name = "forms"
    design = designs[name]
    work = workshop.work(design, tmp_path, name)
    for seed in (*range(8), -5, 102, 2147483641, 1930549411):
        simulation = design.simulate(seed=seed, work_dir=work, waves=False, check=False)
        assert simulation.passed, f"seed {seed}: {simulation.report()}"
