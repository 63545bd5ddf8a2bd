"""The waves after a failure show the cycles that lead to it, not the whole run; in every engine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.errors import MismatchError
from mase_hw.simulate.diagnose.failure import WINDOW
from tests.engines.test_diagnose import _fst_times

FRAMES, WRONG = 300, 200
# Unit of time and cycle 0 in each: reset takes four cycles.
CYCLE = {"cocotb": 10_000, "fast": 10_000, "batch": 10}


@pytest.fixture(scope="module")
def damaged(work: Path) -> mase_hw.Design:
    """Wrong in one frame late in the run, the only one that is not zero."""
    torch.manual_seed(0)
    x = torch.zeros(FRAMES, 4)
    x[WRONG] = 1.0
    design = mase_hw.compile(torch.nn.Linear(4, 2), x[WRONG : WRONG + 1], out=work / "window", vectors=x)
    shutil.copytree(design.path, work / "damaged")
    path = next((work / "damaged" / "mem").glob("*weight.mem"))
    words = path.read_text().split("\n")
    words[0] = f"{int(words[0], 16) ^ 0x80:0{len(words[0])}x}"
    path.write_text("\n".join(words))
    return mase_hw.Design(work / "damaged", verify=False)


@pytest.mark.parametrize("engine", CYCLE)
def test_window(damaged: mase_hw.Design, engine: str) -> None:
    result = damaged.simulate(engine=engine, check=False).result
    assert type(result.failure) is MismatchError and result.first_mismatch.frame == WRONG
    begin, end = _fst_times(result.waves)
    shows = int(result.presented["data_out_0"][result.first_mismatch.beat_index])
    enters = int(result.presented["data_in_0"][WRONG * damaged.streams["data_in_0"].frame_beats])
    first, last = ((cycle + 4) * CYCLE[engine] for cycle in (enters, shows))
    assert begin <= first and last <= end, (begin, first, last, end)
    reach = int(damaged.timing["last"]) + int(damaged.timing["interval"])
    assert end - begin <= (reach + 2 * WINDOW + 2) * CYCLE[engine] < result.cycles * CYCLE[engine]
