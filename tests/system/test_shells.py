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
from tests.rtl import LIBRARY, bench

pytest.importorskip("cocotbext.axi", reason="the models are in the extra 'dev'")
HERE = Path(__file__).parent
TOP = bench(HERE / "rtl" / "system_bench.sv")
MODULES = ("shell_bench", "stream_bench")
TESTS = 15


# What is broken: the module, a text that occurs once, and what stands there instead.
MUTANTS = {
    "a burst is one beat short": ("system_bursts", "= len_q;", "= len_q - 8'd1;"),
    "a write is one beat short": ("system_dma_write", "begins ? length :", "begins ? length - 9'd1 :"),
    "data waits for its address": ("system_dma_write", "left_q <= begins ?", "left_q <= taken ?"),
    "an acknowledge is lost": ("system_dma_write", ".in_data  (job_end)", ".in_data  (1'b0)"),
    "an error is not reported": ("system_dma_read", "rready && rresp[1]", "rready && rresp[1] && rlast"),
    "bursts cross 4 KiB": ("system_bursts", "~address_q[11:Shift]", "'1"),
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
    "the window has no end": ("system_window", "!past[ADDR_WIDTH] ||", "1'b1 ||"),
    "the window has no beginning": ("system_window", "!low_q && ", ""),
    "the window forgets a carry": ("system_window", "lost_q || (over_q", "(over_q"),
    "the flag is lost": ("system_frames", ".in_data  (in_flag[i])", ".in_data  (1'b0)"),
    "a disabled input begins no part": ("system_records", "enable || behind_q[i] != '0", "enable"),
    "a disabled input begins all": ("system_records", "enable || behind_q[i] != '0", "1'b1"),
}
OF_CLOCKS = {
    "a word outlives a reset": ("system_async_fifo", "read_gray_q <= '0;", "read_gray_q <= read_gray_q;"),
    "the reset does not wait for the core": ("system_reset", "held    <= rst || was_reset;", "held <= rst || flush;"),
    "the job ends before its counters": ("system_sample", "ends && ripe_q && !flush", "event_in"),
    "clearing is forgotten": ("system_sample", "asked && !was_asked_q && asked_clear_q", "1'b0"),
    "the core is not said to be empty": ("system_domain", ".in_data (holds)", ".in_data (1'b0)"),
}
"""Those that only a core with a clock of its own can show."""


def simulate(
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny: str,
    *,
    step: int,
    frames: int = 10,
    core: int = 0,
    long: int = 0,
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
        parameters={"CORE_CLOCK": core, "LONG": long},
        build_args=["--assert", "-Wall", "--x-initial", "unique"],
        log_file=work / "build.log",
    )
    monkeypatch.syspath_prepend(str(HERE))
    results = work / "results.xml"
    # The first is raised when a test fails, the other when an invariant of the RTL has stopped the simulation.
    with contextlib.suppress(SystemExit, RuntimeError):
        runner.test(
            hdl_toplevel=TOP.stem,
            test_module=["bus_bench"] if long else list(MODULES),
            test_dir=work,
            build_dir=work / "build",
            results_xml=str(results),
            extra_env={
                "PYTHONPATH": str(HERE),
                "COCOTB_LOG_LEVEL": "WARNING",
                "SHELL_STEP": str(step),
                "SHELL_FRAMES": str(frames),
                "SHELL_CORE": str(core),
                "SHELL_LONG": str(long),
            },
            log_file=work / "run.log",
        )
    # Those that are missing were not run.
    total, failed = get_results(results) if results.is_file() else (0, 0)
    return failed + (1 if long else TESTS) - total


@pytest.mark.parametrize("core", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str, core: int) -> None:
    """With one clock, and with one for the core whose period changes and drifts."""
    assert simulate(tmp_path, monkeypatch, tiny, step=61, core=core) == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
def test_shells_reset_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    assert simulate(tmp_path, monkeypatch, tiny, step=1) == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
@pytest.mark.parametrize("core", [0, 1])
def test_a_thousand_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str, core: int) -> None:
    """At each of the shells, with random stalls and random resets."""
    bad = simulate(tmp_path, monkeypatch, tiny, step=37, frames=1000, core=core)
    assert bad == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
def test_long_frames_use_the_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    """Both directions at once, 64 bits, frames of 1,024 beats: all cycles, where 95 % were asked for."""
    assert simulate(tmp_path, monkeypatch, tiny, step=37, long=8192) == 0, (tmp_path / "run.log").read_text()[-6000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MUTANTS, *OF_CLOCKS])
def test_what_is_broken_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str, name: str) -> None:
    edit = {**MUTANTS, **OF_CLOCKS}[name]
    assert simulate(tmp_path, monkeypatch, tiny, step=37, core=int(name in OF_CLOCKS), edit=edit) > 0
