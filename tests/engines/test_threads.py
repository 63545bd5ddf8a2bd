"""Models of several threads: the same beats in the same cycles, the same verdicts, and the same waves."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.host.process import cores
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.engines import batch
from mase_hw.simulate.exercise import watched
from mase_hw.simulate.plan import Reset, SimulationOptions, Stalls
from mase_hw.simulate.result import SimResult
from tests.engines.conftest import Builder, play
from tests.engines.test_equal import assert_equal
from tests.sim.conftest import TOLD, asked, slice_dut, told
from tests.sim.test_verdict import FAULTS

THREADS = 2
DATE = 202
"""Where an FST has the 26 characters of the time at which it was written: behind the first block's ten fields."""
RUNS: dict[str, dict[str, Any]] = {
    "full rate": {},
    "stalls": {"stalls": Stalls.random(0.3, 0.5), "seed": 7},
    "reset": {"reset_at": (Reset(60), Reset(5, "out", length=2))},
    "processes": {"jobs": 2},
}


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    """Two branches that work side by side, so that there is something to do for a second thread."""
    torch.manual_seed(0)

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.left(x) + torch.relu(self.right(x)))

    # Threads that wait for each other on a busy machine need a thousand times as long for a cycle: few frames.
    x = torch.rand(2, 2, 4, 4)
    return mase_hw.compile(Branches().eval(), x[:1], out=work / "branches", vectors=x)


def build(builder: Builder, design: mase_hw.Design, threads: int) -> Built:
    return builder("batch", watched(design.dut(), design.path), f"branches{threads}", threads=threads)


def run(design: mase_hw.Design, built: Built, folder: Path, **options: Any) -> SimResult:
    stimulus, expected = ({n: design.streams[n].pack(v) for n, v in side.items()} for side in design.vectors())
    return batch.simulate(built, folder, stimulus, expected, *asked(watchdog=4000, max_cycles=100_000, **options))


def threaded(built: Built) -> bool:
    """Whether the model gives work to another thread at all."""
    sources = (built.folder / "model").glob("Vtop*.cpp")
    return any("->addTask(" in source.read_text(encoding="utf-8") for source in sources)


def test_the_same_run(builder: Builder, design: mase_hw.Design, tmp_path: Path) -> None:
    one, two = build(builder, design, 1), build(builder, design, THREADS)
    assert threaded(two) and not threaded(one) and one.identity != two.identity
    for name, options in RUNS.items():
        results = [run(design, each, tmp_path / f"{name}-{each.identity[:8]}", **options) for each in (one, two)]
        assert_equal(*(result.raise_on_failure() for result in results))
        assert results[0].exercise == results[1].exercise and results[0].edges == results[1].edges


def test_a_flipped_weight_is_found(builder: Builder, design: mase_hw.Design, tmp_path: Path) -> None:
    """By every lane and value the same difference, no matter which module reads it."""
    memory = tmp_path / "mem"
    memory.mkdir()
    for file in (design.path / "mem").iterdir():
        (memory / file.name).write_bytes(file.read_bytes())
    weights = next(file for file in sorted(memory.iterdir()) if "weight" in file.name)
    words = weights.read_text().split()
    words[0] = f"{int(words[0], 16) ^ 64:0{len(words[0])}x}"
    weights.write_text("\n".join(words) + "\n")
    found = []
    for threads in (1, THREADS):
        built = build(builder, design, threads)
        changed = dataclasses.replace(built, dut=dataclasses.replace(built.dut, memory=memory, digests={}))
        found.append(run(design, changed, tmp_path / str(threads)))
    assert not found[0].passed and found[0].mismatches > 0
    assert_equal(*found)
    assert str(found[0].failure) == str(found[1].failure)


@pytest.mark.parametrize(("fault", "kind", "message"), FAULTS)
def test_the_same_verdict(builder: Builder, tmp_path: Path, fault: int, kind: type, message: str) -> None:
    """Messages of a thread reach the log, and those that end the run do, in the same cycle."""
    found = []
    for threads in (1, THREADS):
        built = builder("batch", slice_dut(**TOLD), "told" if threads == 1 else "told-threads", threads=threads)
        changed = told(built, tmp_path / f"memory{threads}", fault)
        found.append(play("batch", changed, tmp_path / str(threads), stalls=Stalls.random(0.3, 0.6), seed=4))
        failure = found[-1].failure
        assert type(failure) is kind and re.search(f"(?s){message}", str(failure)), found[-1].report()
    if fault not in (8, 9, 11):  # two that record nothing, and one of initial values, of which each build has its own
        assert_equal(*found)
        assert str(found[0].failure) == str(found[1].failure)


def test_of_a_design(
    builder: Builder, work: Path, design: mase_hw.Design, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The argument reaches the simulator, which is another one; threads and processes together need cores."""
    for threads in (1, THREADS):
        build(builder, design, threads)  # the same simulators, so that they are in the cache
    (tmp_path / "runtime-cache").symlink_to(work / "runtime-cache", target_is_directory=True)
    monkeypatch.setattr("mase_hw.simulate.arguments.cores", lambda: 4)
    options: dict[str, Any] = {"engine": "batch", "stalls": 0.3, "seed": 2, "work_dir": tmp_path / "work"}
    one, two = (design.simulate(threads=threads, **options).result for threads in (1, THREADS))
    assert threaded_in(tmp_path / "work") and two.passed
    assert_equal(one, two)
    assert one.to_json() | {"seconds": 0.0} == two.to_json() | {"seconds": 0.0}
    assert design.simulate(threads=2, jobs=2, **options).passed
    with pytest.raises(ConfigError, match=r"(?s)more threads than .* 2 processes of 3 threads.* at most 4 in all"):
        design.simulate(threads=3, jobs=2, **options)
    with pytest.raises(ConfigError, match="at least one thread"):
        batch.build(design.dut(), tmp_path / "none", SimulationOptions(threads=0))


def threaded_in(work: Path) -> bool:
    return "--threads 2" in (work / "build-batch" / "build.log").read_text(encoding="utf-8")


def test_cores_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() >= 1
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3, 5, 8})
    assert cores() == 3


@pytest.mark.slow
def test_the_same_waves(builder: Builder, design: mase_hw.Design, tmp_path: Path) -> None:
    """Byte for byte, but for the time at which the file was written."""
    found = []
    for threads in (1, THREADS):
        built = builder("batch", watched(design.dut(), tmp_path), f"waves{threads}", waves=True, threads=threads)
        waves = run(design, built, tmp_path / str(threads), waves=True).raise_on_failure().waves
        assert waves is not None and threaded(built) == (threads > 1)
        content = waves.read_bytes()
        found.append(content[:DATE] + content[DATE + 26 :])
    assert len(found[0]) > 10_000 and found[0] == found[1]
