"""Library modules that are no ops: behaviour behind small benches, and which paths their registers cut."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mase_hw.errors import SimulationError
from mase_hw.hardware.library import with_dependences
from mase_hw.opdef import SUPPORT
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.engines.batch import simulate
from mase_hw.simulate.plan import Limits, SimulationOptions
from mase_hw.simulate.result import SimResult
from tests.rtl import LIBRARY

from .benches import MAX_CYCLES, SEED, WATCHDOG, Bench, placed
from .conftest import Builder, Yosys
from .primitives import BENCHES, rom
from .slot_rows import FAULTS


def play(built: Built, bench: Bench, name: str, folder: Path) -> SimResult:
    """One run of a bench."""
    run = bench.plays[name]
    # The number of frames is that of the run, not of the build.
    stimulus = {s.name: run.beats[s.name] for s in built.dut.inputs}
    expected = {s.name: run.beats[s.name] for s in built.dut.outputs}
    limits = Limits(WATCHDOG, MAX_CYCLES, idle_cycles=run.idle_cycles)
    options = SimulationOptions(seed=SEED, stalls=run.stalls, reset_at=tuple(run.reset_at))
    return simulate(built, folder, stimulus, expected, limits, options)


@pytest.mark.parametrize("name", BENCHES)
def test_bench(builder: Builder, tmp_path: Path, name: str) -> None:
    """Every beat in every surrounding, and what the table says of the cycles."""
    bench = placed(BENCHES[name](), tmp_path)
    (tmp_path / "rom.mem").write_text("".join(f"{word:02x}\n" for word in bench.words))
    built = builder(bench.dut, name)
    for run in bench.plays:
        bench.holds(run, play(built, bench, run, tmp_path / run).raise_on_failure())


def test_every_fault_is_one_of_the_module_as_it_is() -> None:
    text = (LIBRARY / "lib/slot_buffer.sv").read_text(encoding="utf-8")
    assert [text.count(before) for before, _ in FAULTS.values()] == [1] * len(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_slot_buffer_is_seen(builder: Builder, tmp_path: Path, fault: str) -> None:
    """By its own bench, in one of its surroundings at least."""
    bench, (before, after) = BENCHES["slot_rows"](), FAULTS[fault]
    text = (LIBRARY / "lib/slot_buffer.sv").read_text(encoding="utf-8")
    assert text.count(before) == 1
    broken = tmp_path / "slot_buffer.sv"
    broken.write_text(text.replace(before, after), encoding="utf-8")
    sources = tuple(broken if source.name == broken.name else source for source in bench.dut.sources)
    built = builder(replace(bench.dut, sources=sources), broken.stem)
    found = [play(built, bench, run, tmp_path / run) for run in bench.plays]
    assert not all(result.passed for result in found)


def test_rom_without_its_file(builder: Builder, tmp_path: Path) -> None:
    """A file that is missing, or too short, ends the run, and is named."""
    (tmp_path / "empty").mkdir()
    bench = placed(rom(5), tmp_path / "empty")
    built = builder(bench.dut, "rom_5")
    result = play(built, bench, "full rate", tmp_path / "run")
    with pytest.raises(SimulationError, match=r"cannot open the memory file 'mem/rom\.mem'"):
        result.raise_on_failure()
    (tmp_path / "empty" / "rom.mem").write_text("00\n00\n")
    result = play(built, bench, "full rate", tmp_path / "run")
    with pytest.raises(SimulationError, match=r"(?s)memory file was not read as a whole.*rom\.mem"):
        result.raise_on_failure()


# Outputs that an input reaches without a register; clk and rst reach none.
PATHS: dict[str, dict[str, set[str]]] = {
    "skid_buffer": {},
    "stream_fifo": {},
    "replay_buffer -GLEN=3 -GREPEATS=2": {},
    "rom_source": {},
    "register_slice": {"out_ready": {"in_ready"}},
    "stream_repack -GOUT_LANES=2 -GIN_SIZE=5 -GOUT_SIZE=5": {},
    "stream_join": {"in_valid": {"in_ready", "out_valid"}, "out_ready": {"in_ready"}},
    "stream_fork": {"in_data": {"out_data"}, "in_valid": {"out_valid"}, "out_ready": {"in_ready"}},
}


@pytest.mark.parametrize("top", PATHS)
def test_registers_cut_paths(top: str, yosys: Yosys) -> None:
    asked, module = top, top.split()[0]
    if module == "rom_source":
        # Unlike simulators, synthesis reads the memory; below the folder that Yosys runs in.
        (LIBRARY.parent / "one_word.mem").write_text("00\n")
        top += ' -GMEM_FILE="one_word.mem"'
    parts = dict.fromkeys((*SUPPORT, *with_dependences([f"lib/{module}.sv"])))
    files = " ".join(f"{LIBRARY.name}/{file}" for file in parts)
    read = f"read_slang -j 1 --ignore-assertions --top {top} {files}"
    cut = "proc; flatten; opt_clean; delete t:$*ff* t:$mem*"
    inputs = ["clk", "rst", "in_data", "in_valid", "out_ready"]
    queries = "; ".join(f"log <{name}>; select -list i:{name} %co* o:* %i; log </{name}>" for name in inputs)
    code, log = yosys(f"{read}; {cut}; {queries}")
    assert code == 0, log[-3000:]
    listed = dict(re.findall(r"^<(\w+)>\n(.*?)^</\1>$", log, re.DOTALL | re.MULTILINE))
    assert list(listed) == inputs
    found = {name: {line.removeprefix(f"{module}/") for line in text.split()} for name, text in listed.items()}
    assert {name: outputs for name, outputs in found.items() if outputs} == PATHS[asked]
