"""What ``test_environment.py`` shows of the per-cycle engine holds for the other two: no part is taken for a whole."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.errors import ResultsError
from mase_hw.simulate.build.simulator import SHORT_RUN, Built
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines import batch, fast
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import DEFAULTS, Limits, Plan, Stalls, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Run
from tests.faults.conftest import BEATS, SLICE, dut, refused
from tests.faults.test_environment import IO, program
from tests.sim.conftest import asked

ENGINES: dict[str, Any] = {"fast": fast, "batch": batch}
MANY = np.random.default_rng(2).integers(-128, 127, (6000, 2))


@pytest.fixture(scope="session")
def simulators(tools: BuildTools, work: Path) -> dict[str, Built]:
    return {
        name: engine.build(dut(SLICE), work / f"good-{name}", cache_dir=work / "cache", tools=tools, cycles=SHORT_RUN)
        for name, engine in ENGINES.items()
    }


@pytest.fixture(params=ENGINES)
def good(request: pytest.FixtureRequest, simulators: dict[str, Built]) -> tuple[str, Built]:
    return request.param, simulators[request.param]


def wrapped(built: Built, path: Path, text: str) -> Built:
    """The simulator, started by a script."""
    script = f"#!{sys.executable}\n{textwrap.dedent(text).replace('SIMULATOR', repr(str(built.executable)))}"
    return dataclasses.replace(built, executable=program(path, script))


def play(name: str, built: Built, run_dir: Path, beats: Any = BEATS, **more: Any) -> SimResult:
    options = {"watchdog": 100, "max_cycles": 10**7, **more}
    result: SimResult = ENGINES[name].simulate(
        built, run_dir, {"data_in_0": beats}, {"data_out_0": beats}, *asked(**options)
    )
    return result


def not_judged(name: str, built: Built, folder: Path) -> tuple[Plan, Run]:
    """A run that passes, before it is judged."""
    plan = write_plan(built.dut, folder, *IO, Limits(100, 10_000), DEFAULTS)
    return plan, fast.run(built, plan) if name == "fast" else batch.run(built, [plan])[0]


def test_truncated_results(good: tuple[str, Built], tmp_path: Path) -> None:
    name, built = good
    plan, run = not_judged(name, built, tmp_path)
    xml = name == "fast"
    assert judge(built.dut, plan, run, results_xml=xml).passed
    files = [tmp_path / "outcome.json", tmp_path / "found" / "data_out_0.bin", *(tmp_path / "cycles").glob("*.bin")]
    files += [tmp_path / "results.xml"] if xml else []
    assert len(files) == (7 if xml else 6)
    for path in files:
        whole = path.read_bytes()
        for length in range(0, len(whole.rstrip() if path.suffix != ".bin" else whole), 3):
            path.write_bytes(whole[:length])
            failure = judge(built.dut, plan, run, results_xml=xml).failure
            assert type(failure) is ResultsError, f"{path.name} cut after {length} of {len(whole)} bytes"
        path.write_bytes(whole)
    assert judge(built.dut, plan, run, results_xml=xml).passed


def test_files_that_cannot_grow(good: tuple[str, Built], tmp_path: Path) -> None:
    """No file longer than so many bytes: the simulator's own writes end short, and do not fail aloud."""
    name, built = good
    limited = wrapped(
        built,
        tmp_path / "limited",
        """\
        import os, resource, signal, sys
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = int(os.environ["LIMIT"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        os.execv(SIMULATOR, [SIMULATOR, *sys.argv[1:]])
        """,
    )
    for limit, passes in ((0, False), (500, False), (11_000, False), (40_000, False), (10**6, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LIMIT", str(limit))
            result = play(name, limited, tmp_path / "run", MANY)
        if passes:
            assert result.raise_on_failure().beats_compared == len(MANY)
        else:
            assert type(result.failure) is ResultsError, f"{limit} bytes: {result.report()}"
            refused(result)


def test_killed_simulator(good: tuple[str, Built], tmp_path: Path) -> None:
    """In the folder of a run that passed: what that left is not found again."""
    name, built = good
    assert play(name, built, tmp_path / "run").passed
    killed = wrapped(
        built,
        tmp_path / "killed",
        """\
        import os, signal, subprocess, sys
        # Stopped by the kernel when it has computed for a while, far from the end.
        command = f"ulimit -t 1; exec {SIMULATOR} " + " ".join(sys.argv[1:])
        child = subprocess.run(["sh", "-c", command])
        os.kill(os.getpid(), signal.SIGKILL if child.returncode < 0 else signal.SIGTERM)
        """,
    )
    # The design never ends: it is only given up after so many cycles.
    stuck = {"watchdog": 10**12, "max_cycles": 10**13, "stalls": Stalls(ready_burst=(1, 10**12))}
    result = play(name, killed, tmp_path / "run", **stuck)
    assert "killed by SIGKILL" in refused(result) and result.beats_compared == 0


def test_one_of_several_is_killed(simulators: dict[str, Built], tmp_path: Path) -> None:
    """The others are whole and right; the run is not."""
    built = simulators["batch"]
    assert play("batch", built, tmp_path / "run", jobs=2).raise_on_failure().beats_compared == len(BEATS)
    killed = wrapped(
        built,
        tmp_path / "killed",
        """\
        import os, signal, sys
        if os.getcwd().endswith("parts/1"):
            os.kill(os.getpid(), signal.SIGKILL)
        os.execv(SIMULATOR, [SIMULATOR, *sys.argv[1:]])
        """,
    )
    result = play("batch", killed, tmp_path / "run", jobs=2)
    assert "killed by SIGKILL" in refused(result) and "frames 2 to 4 of the run" in refused(result)
    part = json.loads((tmp_path / "run" / "parts" / "0" / "outcome.json").read_text())
    assert part["verdict"] == "pass" and not (tmp_path / "run" / "outcome.json").exists()


def test_too_few_resets(good: tuple[str, Built], tmp_path: Path) -> None:
    """An outcome that tells of fewer resets than the plan has is not one of this plan."""
    name, built = good
    plan, run = not_judged(name, built, tmp_path)
    reset = {"unit": "cycles", "at": 1, "length": 1}
    more = dataclasses.replace(plan, content={**plan.content, "reset_at": [reset]})
    assert "ended before a reset" in refused(judge(built.dut, more, run, results_xml=name == "fast"))
