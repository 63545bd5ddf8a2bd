"""Both shells, with a core that returns what it gets, between other people's bus models."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from mase_hw.hardware.library import with_dependences
from mase_hw.simulate.build.tools import find_build_tools
from tests.handoff.conftest import tiny as tiny
from tests.rtl import LIBRARY

pytest.importorskip("cocotbext.axi", reason="the models are in the extra 'dev'")
BENCH = Path(__file__).with_name("shell_bench.py")
TOP = Path(__file__).with_name("rtl") / "system_bench.sv"
TESTS = 12


# What is broken: the module, a text that occurs once, and what stands there instead.
MUTANTS = {
    "a read is one beat short": ("system_dma_read", "8'(length - 9'd1)", "8'(length - 9'd2)"),
    "a write is one beat short": ("system_dma_write", "begins ? length :", "begins ? length - 9'd1 :"),
    "data waits for its address": ("system_dma_write", "left_q <= begins ?", "left_q <= taken ?"),
    "an acknowledge is lost": ("system_dma_write", "frames_q <= frames_q - 32'd1;", "frames_q <= frames_q;"),
    "an error is not reported": ("system_dma_read", "rready && rresp[1]", "rready && rresp[1] && rlast"),
    "bursts cross 4 KiB": ("system_bursts", "Page - {1'b0, address_q[11:Shift]}", "Page"),
    "the reset does not wait": ("system_control", "if (idle && left_q == '0)", "if (left_q == '0)"),
    "the reset withdraws an address": (
        "system_bursts",
        "if (ready) begin",
        "if (halt) state_q <= Idle;\n if (ready) begin",
    ),
    "a long frame's excess is a frame": (
        "system_guard",
        "state_q <= Drop;\n      end else if (over",
        "state_q <= Pass;\n      end else if (over",
    ),
    "a short frame stays short": ("system_guard", "state_q <= Fill;", "state_q <= Pass;"),
    "a reset forgets the rest of a frame": ("system_guard", "state_q == Pass && begun_q", "1'b0"),
    "a reset leaves half a result": ("system_finish", "halt ? begun_q : in_valid", "!halt && in_valid"),
    "the window has no end": ("system_window", "!beyond[ADDR_WIDTH] ||", "1'b1 ||"),
    "the window has no beginning": ("system_window", "!low_q && ", ""),
    "the window forgets a carry": ("system_window", "lost_q || (over_q", "(over_q"),
    "the flag is lost": ("system_frames", ".in_data  (in_flag[p])", ".in_data  (1'b0)"),
}


def simulate(
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny: str,
    *,
    step: int,
    frames: int = 10,
    edit: tuple[str, str, str] = ("", "", ""),
) -> int:
    """How many tests of the bench do not pass, with a text of one module of the library replaced."""
    tools = find_build_tools().env
    for key, value in {**tools, "MAKEFLAGS": tools["MAKEFLAGS"] + tiny}.items():
        monkeypatch.setenv(key, value)
    shutil.copytree(LIBRARY, work / "rtl")
    module, old, new = edit
    if module:
        path = work / f"rtl/system/{module}.sv"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
    files = with_dependences(["system/system_memory.sv", "system/system_stream.sv"])
    runner = get_runner("verilator")
    runner.build(
        sources=[*(work / "rtl" / file for file in files), TOP],
        hdl_toplevel=TOP.stem,
        build_dir=work / "build",
        build_args=["--assert", "-Wall", "--x-initial", "unique"],
        log_file=work / "build.log",
    )
    monkeypatch.syspath_prepend(str(BENCH.parent))
    results = work / "results.xml"
    with contextlib.suppress(SystemExit):  # which it raises when a test fails
        runner.test(
            hdl_toplevel=TOP.stem,
            test_module=BENCH.stem,
            test_dir=work,
            build_dir=work / "build",
            results_xml=str(results),
            extra_env={
                "PYTHONPATH": str(BENCH.parent),
                "COCOTB_LOG_LEVEL": "WARNING",
                "SHELL_STEP": str(step),
                "SHELL_FRAMES": str(frames),
            },
            log_file=work / "run.log",
        )
    # Those that are missing were not run: an invariant of the RTL has stopped the simulation.
    total, failed = get_results(results) if results.is_file() else (0, 0)
    return failed + TESTS - total


def test_shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    assert simulate(tmp_path, monkeypatch, tiny, step=37) == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
def test_shells_reset_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    assert simulate(tmp_path, monkeypatch, tiny, step=1) == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
def test_a_thousand_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    """At each of the shells, with random stalls and random resets."""
    assert simulate(tmp_path, monkeypatch, tiny, step=37, frames=1000) == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_broken_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str, name: str) -> None:
    assert simulate(tmp_path, monkeypatch, tiny, step=37, edit=MUTANTS[name]) > 0
