"""A netlist with block RAM, simulated with our models of it: the same bits, and one wrong bit of a ROM is seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mase_hw.errors import MismatchError
from mase_hw.synth.replay import model_files, replay
from mase_hw.synth.synthesise import synthesise
from mase_hw.synth.targets import TARGETS

from .conftest import work_of
from .test_foldings import regression

CELLS = {"xc7": ("RAMB", "INIT_00"), "ecp5": ("DP16KD", "INITVAL_00"), "gowin": ("S", "INIT_RAM_00")}


@pytest.mark.slow
@pytest.mark.parametrize("target", CELLS)
def test_block_ram(target: str, root: Path, tmp_path: Path) -> None:
    script = regression(root)
    design = script.emit("linear_256x64_4x4", tmp_path)
    report = synthesise(design, target)
    assert report.total["bram"] > 0 and report.total["dsp"] == 16
    assert report.replay is not None and report.replay["mismatches"] == 0
    netlist = (work_of(design, target) / "netlist.v").read_text()
    kind, init = CELLS[target]
    # Bit 7 of the first word of a table that is read in every frame: the sign of a weight, so no rounding hides it.
    values = re.compile(rf"\.{init}\((\d+'h[0-9a-f]*)([0-9a-f])[0-9a-f]\)")
    start = netlist.index(f"  {kind}", netlist.index("module \\rom_source$top.u__0_weight"))
    found = values.search(netlist, start)
    assert found is not None
    broken = netlist[: found.start(2)] + f"{int(found.group(2), 16) ^ 8:x}" + netlist[found.end(2) :]
    (tmp_path / "netlist.v").write_text(broken)
    cells = set(re.findall(r"^  ([A-Z][\w$]+) (?:#\(|\\|_)", netlist, re.MULTILINE))
    files, cache = model_files(TARGETS[target]), tmp_path / "runtime-cache"
    with pytest.raises(MismatchError):
        replay(design, tmp_path / "netlist.v", files, cells, tmp_path / "replay", cache, lambda _: None)
