"""Faults of the hardware: each fails the run, for its own reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mase_hw
from mase_hw.errors import EmitError, HangError, MismatchError, SimulationError
from mase_hw.formats import FixedFormat
from mase_hw.simulate.build.simulator import SHORT_RUN, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.cocotb import simulate
from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Stream
from tests.faults.conftest import BEATS, LINK, SLICE, dut, refused
from tests.sim.conftest import asked

STALLS = Stalls.random(0.3, 0.6)
FULL_RATE = Stalls.none()
FAULTS: dict[str, tuple[Path, int, Stalls, type[SimulationError], str]] = {
    "corrupted beat": (SLICE, 1, STALLS, MismatchError, r"differ in 1 of 30 beats.*frame 0, beat 5, lane 1"),
    "dropped beat": (SLICE, 2, STALLS, MismatchError, r"frame 0, beat 5, .*a beat was dropped"),
    "duplicated beat": (SLICE, 3, STALLS, MismatchError, r"frame 1, beat 0, .*a beat was duplicated"),
    "reordered beats": (LINK, 1, STALLS, MismatchError, r"differ in 2 of 30 beats.*frame 0, beat 5"),
    "valid stuck high": (LINK, 2, FULL_RATE, MismatchError, r"produced \d+ beats more than expected"),
    "valid stuck low": (LINK, 6, STALLS, HangError, r"hangs: no stream moved.*data_out_0 valid=0 ready=1 5/30"),
    "ready stuck high": (LINK, 3, STALLS, MismatchError, r"differ in \d+ of \d+ beats"),
    "ready stuck low": (LINK, 5, STALLS, HangError, r"hangs: no stream moved.*data_in_0 valid=1 ready=0 5/30"),
    "early reset": (LINK, 4, STALLS, SimulationError, r"valid of data_out_0 fell in cycle|differ in \d+ of \d+ beats"),
}


@pytest.mark.parametrize("source", [SLICE, LINK], ids=lambda p: p.stem)
def test_without_the_fault_it_passes(tools: BuildTools, work: Path, tmp_path: Path, source: Path) -> None:
    built = build(dut(source), work / source.stem, cache_dir=work / "cache", tools=tools, cycles=SHORT_RUN)
    for stalls in (FULL_RATE, STALLS):
        beats = {"data_in_0": BEATS}, {"data_out_0": BEATS}
        result = simulate(built, tmp_path, *beats, *asked(watchdog=100, max_cycles=10_000, stalls=stalls, seed=4))
        assert result.raise_on_failure().beats_compared == 30


@pytest.mark.parametrize("name", FAULTS)
def test_fault(tools: BuildTools, work: Path, tmp_path: Path, name: str) -> None:
    source, fault, stalls, kind, message = FAULTS[name]
    built = build(
        dut(source, fault), work / f"{source.stem}{fault}", cache_dir=work / "cache", tools=tools, cycles=SHORT_RUN
    )
    beats = {"data_in_0": BEATS}, {"data_out_0": BEATS}
    result = simulate(built, tmp_path, *beats, *asked(watchdog=100, max_cycles=10_000, stalls=stalls, seed=4))
    text = refused(result)
    assert isinstance(result.failure, kind), text
    with pytest.raises(kind, match=f"(?s){message}"):
        result.raise_on_failure()


def test_bit_flips_in_a_memory(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    """Every single bit of the word, and the word made unreadable."""
    fmt = FixedFormat(8, 0)
    streams = (Stream("data_in_0", "in", (4,), fmt), Stream("data_out_0", "out", (4,), fmt))
    memory = tmp_path / "mem"
    memory.mkdir()
    design = Dut(
        "memory_reader",
        (SLICE.with_name("memory_reader.sv"),),
        {"WIDTH": 8, "OFFSET": 0, "FILE": "mem/constant.mem"},
        streams,
        memory,
    )
    built = build(design, work / "memory", cache_dir=work / "cache", tools=tools, cycles=SHORT_RUN)
    data = np.arange(8).reshape(8, 1)

    def play(word: str) -> SimResult:
        (memory / "constant.mem").write_text(word)
        beats = {"data_in_0": data}, {"data_out_0": data + 0x2A}
        return simulate(built, tmp_path / "run", *beats, *asked(watchdog=50, max_cycles=1000))

    assert play("2a\n").passed
    for bit in range(8):
        result = play(f"{0x2A ^ 1 << bit:02x}\n")
        assert isinstance(result.failure, MismatchError) and result.mismatches == 8, f"bit {bit}"
        refused(result)
    assert "memory" in refused(play("0q\n"))
    refused(play(""))
    (memory / "constant.mem").unlink()
    memory.rmdir()
    beats = {"data_in_0": data}, {"data_out_0": data + 0x2A}
    assert "constant.mem" in refused(simulate(built, tmp_path / "run", *beats, *asked(watchdog=50, max_cycles=1000)))


def test_bit_flips_in_the_files_of_a_bundle(tmp_path: Path) -> None:
    """Each file of a bundle, with one bit flipped, is refused by its name before anything is built."""
    import torch

    torch.manual_seed(0)
    design = mase_hw.compile(torch.nn.Linear(4, 3), torch.randn(1, 4), out=tmp_path / "bundle")
    files = [p for p in design.path.rglob("*") if p.is_file() and p.name != "manifest.json"]
    assert any(p.parent.name == "mem" for p in files) and any(p.suffix == ".sv" for p in files)
    for path in files:
        before = path.read_bytes()
        if not before:
            continue
        path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
        with pytest.raises(EmitError, match=path.name):
            design.simulate(work_dir=tmp_path / "work")
        path.write_bytes(before)
    assert not (tmp_path / "work").exists()
