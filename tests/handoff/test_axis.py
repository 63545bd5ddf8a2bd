"""The AXI4-Stream wrapper in cocotb, driven by third-party AXI4-Stream models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cocotb_tools.runner import get_runner

from mase_hw.simulate.build.tools import find_build_tools
from tests.handoff.designs import beats, emit

pytest.importorskip("cocotbext.axi", reason="the models are in the extra 'dev'")
BENCH = Path(__file__).with_name("axis_bench.py")


def simulate(bundle: Path, frames: dict[str, Any], work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the wrapper of a bundle and run the bench; raises if a test of it fails."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    work.mkdir()
    (work / "frames.json").write_text(json.dumps(frames))
    runner = get_runner("verilator")
    top = manifest["handoff"]["tops"][-1]
    runner.build(
        sources=[bundle / file for file in (bundle / top["list"]).read_text().split()],
        hdl_toplevel=top["name"],
        parameters={"MEM_DIR": f'"{bundle / "mem"}"'},
        build_dir=work / "build",
        build_args=["--assert"],
        log_file=work / "build.log",
    )
    monkeypatch.syspath_prepend(str(BENCH.parent))
    results = runner.test(
        hdl_toplevel=top["name"],
        test_module=BENCH.stem,
        test_dir=work,
        build_dir=work / "build",
        results_xml=str(work / "results.xml"),
        extra_env={
            "AXIS_FRAMES": str(work / "frames.json"),
            "AXIS_REGISTERED": str(int(manifest["handoff"]["options"]["registered"])),
            "PYTHONPATH": str(BENCH.parent),
        },
        log_file=work / "run.log",
    )
    from cocotb_tools.check_results import get_results

    total, failed = get_results(results)
    assert (total, failed) == (4, 0), (work / "run.log").read_text()[-6000:]


def tdata(design: Any) -> dict[str, list[list[list[int]]]]:
    """Beats as the bytes of TDATA: lane 0 in the low bits, zeros above, least significant byte first."""
    found = {}
    for port, frames in beats(design).items():
        bus = ("s_axis_" if port.startswith("data_in") else "m_axis_") + port
        bits = next(p["bits"] for p in design.manifest["ports"] if p["name"] == port)
        found[bus] = [[list(beat.to_bytes((bits + 7) // 8, "little")) for beat in frame] for frame in frames]
    return found


@pytest.mark.parametrize("registered", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["registered", "plain"])
def test_wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: bool, tiny: str) -> None:
    design = emit(tmp_path / "bundle", registered=registered)
    tools = find_build_tools().env
    for key, value in {**tools, "MAKEFLAGS": tools["MAKEFLAGS"] + tiny}.items():
        monkeypatch.setenv(key, value)
    simulate(design.path, tdata(design), tmp_path / "work", monkeypatch)
