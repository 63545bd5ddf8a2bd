"""Faults of everything around the hardware: none passes, and no part of a result is taken for a whole one."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import stat
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.errors import EmitError, MaseHwError, MismatchError, ResultsError, ToolError
from mase_hw.host import tool_checks, toolchain
from mase_hw.simulate.build.simulator import Built, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines import cocotb
from mase_hw.simulate.engines.cocotb import simulate
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import DEFAULTS, Limits, Plan, write_plan
from mase_hw.simulate.run import Run
from tests.faults.conftest import BEATS, SLICE, dut, refused
from tests.sim.conftest import asked

SMALL: dict[str, Any] = {"watchdog": 100, "max_cycles": 10_000}
IO = ({"data_in_0": BEATS}, {"data_out_0": BEATS})


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def finished(good: Built, tmp_path: Path) -> tuple[Built, Plan, Run]:
    """A run that passes, before it is judged."""
    plan = write_plan(good.dut, tmp_path / "run", *IO, Limits(100, 10_000), DEFAULTS)
    run = cocotb.run(good, plan)
    assert judge(good.dut, plan, run).passed
    return good, plan, run


def test_truncated_results(finished: tuple[Built, Plan, Run]) -> None:
    """Every file of a result, cut after every byte."""
    built, plan, run = finished
    files = ["results.xml", "outcome.json", "found/data_out_0.bin"]
    files += [str(p.relative_to(plan.folder)) for p in sorted((plan.folder / "cycles").iterdir())]
    assert len(files) == 7
    for name in files:
        path = plan.folder / name
        whole = path.read_bytes()
        assert whole
        for length in range(len(whole.rstrip() if path.suffix != ".bin" else whole)):
            path.write_bytes(whole[:length])
            failure = judge(built.dut, plan, run).failure
            assert type(failure) is ResultsError, f"{name} cut after {length} of {len(whole)} bytes"
        path.write_bytes(whole)
    assert judge(built.dut, plan, run).passed


def test_flipped_bits_in_the_records(finished: tuple[Built, Plan, Run]) -> None:
    built, plan, run = finished
    path = plan.folder / "found" / "data_out_0.bin"
    whole = path.read_bytes()
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1 << index % 8]) + whole[index + 1 :])
        failure = judge(built.dut, plan, run).failure
        assert type(failure) is ResultsError and "contradict the outcome" in str(failure)


def test_results_of_a_shorter_run(finished: tuple[Built, Plan, Run], tmp_path: Path) -> None:
    """A whole and good result of four frames is not one of five."""
    built, plan, run = finished
    part = {"data_in_0": BEATS[:24]}, {"data_out_0": BEATS[:24]}
    short = write_plan(built.dut, tmp_path / "short", *part, Limits(100, 10_000), DEFAULTS)
    assert judge(built.dut, short, cocotb.run(built, short)).passed
    for name in ("results.xml", "outcome.json", "found", "cycles"):
        (shutil.copytree if (short.folder / name).is_dir() else shutil.copy)(
            short.folder / name, plan.folder / name, **({"dirs_exist_ok": True} if name in ("found", "cycles") else {})
        )
    assert "belongs to another run" in refused(judge(built.dut, plan, run))


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM", "SIGSEGV"])
def test_killed_simulator(good: Built, tmp_path: Path, signal_name: str) -> None:
    """In the middle of a run, in the folder of an earlier one that passed."""
    beats = np.random.default_rng(2).integers(-128, 127, (300_000, 2))
    io = {"data_in_0": beats}, {"data_out_0": beats}
    assert simulate(good, tmp_path / "run", *IO, *asked(**SMALL)).passed
    script = f"""\
        #!{sys.executable}
        import os, pathlib, signal, subprocess, sys, time
        child = subprocess.Popen([{str(good.executable)!r}, *sys.argv[1:]])
        while child.poll() is None and not (pathlib.Path("progress").exists() and os.stat("progress").st_size):
            time.sleep(0.005)
        assert child.poll() is None, "it ended before it could be killed"
        child.send_signal(signal.{signal_name})
        child.wait()
        if signal.{signal_name} != signal.SIGKILL:
            signal.signal(signal.{signal_name}, signal.SIG_DFL)
        os.kill(os.getpid(), signal.{signal_name})
        """
    killed = dataclasses.replace(good, executable=program(tmp_path / "killed", textwrap.dedent(script)))
    result = simulate(killed, tmp_path / "run", *io, *asked(watchdog=100, max_cycles=10**7))
    assert f"killed by {signal_name}" in refused(result) and result.beats_compared == 0


def test_full_disk_while_simulating(
    good: Built, full_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First for the records, while the log can still say why; then for everything, after every so many bytes."""
    run_dir = tmp_path / "run"
    monkeypatch.setenv("LD_PRELOAD", str(full_disk))
    assert simulate(good, run_dir, *IO, *asked(**SMALL)).passed, "the library alone does nothing"
    monkeypatch.setenv("FULL_DISK", str(run_dir / "found"))
    result = simulate(good, run_dir, *IO, *asked(**SMALL))
    assert type(result.failure) is ResultsError and os.strerror(errno.ENOSPC) in refused(result)
    monkeypatch.setenv("FULL_DISK", str(run_dir))
    for size in (0, 30, 100, 700):
        monkeypatch.setenv("FULL_DISK_BYTES", str(size))
        result = simulate(good, run_dir, *IO, *asked(**SMALL))
        assert type(result.failure) is ResultsError, f"full after {size} bytes"
        refused(result)


def test_full_disk_before_and_after(
    good: Built, tools: BuildTools, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the compiler writes, and while the plan is written."""
    limited = program(tmp_path / "c++", f'#!/bin/sh\nulimit -f 16\nexec {" ".join(tools.compiler)} "$@"\n')
    small = dataclasses.replace(tools, compiler=(str(limited),))
    with pytest.raises(ToolError, match=r"does not compile|does not link"):
        build(dut(SLICE), tmp_path / "build", cache_dir=tmp_path / "cache", tools=small)
    again = build(dut(SLICE), tmp_path / "build", cache_dir=work / "cache", tools=tools)
    assert not again.reused and simulate(again, tmp_path / "run", *IO, *asked(**SMALL)).passed

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EmitError, match=f"(?s)plan cannot be written.*{os.strerror(errno.ENOSPC)}"):
        simulate(good, tmp_path / "run", *IO, *asked(**SMALL))


def test_stale_cache_entry(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    """The program of a good design in the place of a faulty one's is not run."""

    def make(fault: int) -> Built:
        return build(dut(SLICE, fault), tmp_path / f"build{fault}", cache_dir=work / "cache", tools=tools)

    right, wrong = make(0), make(1)
    assert make(1).reused
    replacement = tmp_path / "program"
    shutil.copy2(right.executable, replacement)
    os.replace(replacement, wrong.executable)
    again = make(1)
    assert not again.reused
    assert isinstance(simulate(again, tmp_path / "run", *IO, *asked(**SMALL)).failure, MismatchError)

    # A whole foreign folder, stamp included.
    shutil.rmtree(again.folder)
    shutil.copytree(right.folder, again.folder)
    once_more = make(1)
    assert not once_more.reused
    assert isinstance(simulate(once_more, tmp_path / "run", *IO, *asked(**SMALL)).failure, MismatchError)


def test_stale_source(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    """A source that was changed under its name, and given its old times."""
    source = tmp_path / "faulty_slice.sv"
    shutil.copy2(SLICE, source)

    def make() -> Built:
        return build(dut(source), tmp_path / "build", cache_dir=work / "cache", tools=tools)

    before = os.stat(source)
    make()
    text = source.read_text()
    source.write_text(text.replace("data_out_0 = data;", "data_out_0 = ~data;"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    built = make()
    assert not built.reused
    assert isinstance(simulate(built, tmp_path / "run", *IO, *asked(**SMALL)).failure, MismatchError)


def test_wrong_tool_version(tools: BuildTools, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another version built is not used, and a version that is too old or too new is named."""
    first = build(dut(SLICE), tmp_path / "build", cache_dir=work / "cache", tools=tools)
    # Tools that can find nothing: what is current is taken, and nothing else can be made.
    blind = dataclasses.replace(tools, env={"PATH": str(tmp_path)})
    assert build(dut(SLICE), tmp_path / "build", cache_dir=work / "cache", tools=blind).identity == first.identity
    for name in tools.versions:
        other = dataclasses.replace(blind, versions={**tools.versions, name: "5.41"})
        assert other.fingerprint != tools.fingerprint
        with pytest.raises(MaseHwError):
            build(dut(SLICE), tmp_path / "build", cache_dir=work / "cache", tools=other)

    old = dataclasses.replace(toolchain.TOOLS["verilator"], find=lambda env: tool_checks.verilator(env, (99, 0)))
    new = dataclasses.replace(toolchain.TOOLS["cocotb"], find=lambda env: tool_checks.package("cocotb", below=(2, 0)))
    monkeypatch.setattr(toolchain, "TOOLS", {**toolchain.TOOLS, "verilator": old, "cocotb": new})
    with pytest.raises(ToolError, match=r"(?s)verilator: too old, 99\.0 is needed; cocotb: .*pip install"):
        toolchain.require("verilator", "cocotb")
