"""Every large memory of the library becomes block RAM in every family; what cannot is named before mapping."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from mase_hw.emit.yosys import MAPPERS
from mase_hw.hardware.library import write_module
from mase_hw.host.resources import rtl_root
from mase_hw.synth.checks import check_elaborated
from mase_hw.synth.replay import model_files, without_model
from mase_hw.synth.report import MappedMemory, Report, read_memories
from mase_hw.synth.targets import TARGETS, Elaborated, read_elaborated
from mase_hw.synth.tools import run_yosys

from .conftest import manifest

TOP = "memories"
INSIDE = {"u_window": ("loop_counter", "ring_add", "window_steps", "window_control", "window_rise")}
LIBRARY = (
    "unread",
    "invariant",
    "stream_fifo",
    "stream_reorder",
    "sliding_window",
    "replay_buffer",
    "fixed_lookup",
    "set_repeat",
    "rom_source",
)
LARGE = {"u_fifo", "u_reorder", "u_window", "u_replay", "u_lookup", "u_rom", "u_wide"}
BLOCKS = {
    "xc7": {"RAMB18E1", "RAMB36E1"},
    "xcup": {"RAMB18E2", "RAMB36E2"},
    "ecp5": {"DP16KD"},
    "nexus": {"DP16K", "PDP16K"},
    "ice40": {"SB_RAM40_4K"},
    "gowin": {"DPB", "SP", "SPX9", "SDPB", "SDPX9B", "DPX9B", "pROM", "pROMX9"},
    "gatemate": {"CC_BRAM_20K", "CC_BRAM_40K"},
}


def prepare(folder: Path, unclocked: int) -> list[str]:
    """Copy the sources, make the tables; the command that reads them."""
    (folder / "mem").mkdir(parents=True)
    files = [f"{name}.sv" for name in (*INSIDE["u_window"], *LIBRARY)]
    for file in files:
        write_module(rtl_root() / "lib" / file, folder / file)
    shutil.copy(Path(__file__).with_name("memories.sv.txt"), folder / "memories.sv")
    rng = random.Random(1)
    for name, width, depth in (("lookup", 4, 4096), ("rom", 36, 512), ("wide", 72, 512)):
        (folder / f"mem/{name}.mem").write_text("".join(f"{rng.getrandbits(width):x}\n" for _ in range(depth)))
    sources = " ".join([*files, "memories.sv"])
    return [
        f"read_slang -j 1 --keep-hierarchy --ignore-assertions --top {TOP} -GUNCLOCKED={unclocked} {sources}",
        f"hierarchy -check -top {TOP}",
    ]


def elaborate(folder: Path, read: list[str]) -> Elaborated:
    """Its word-level netlist, flat."""
    keep = ["setattr -mod -set keep_hierarchy 1 *$memories.u_*", "proc", "flatten", "opt", "wreduce", "opt_clean"]
    run_yosys([*read, *keep, "memory -nomap", "opt_clean", "write_json e.json"], folder, "e.log", lambda _: None)
    return read_elaborated(folder / "e.json", TOP)


def test_what_cannot_be_block_ram_is_named_before_mapping(tmp_path: Path) -> None:
    found = elaborate(tmp_path, prepare(tmp_path, 1))
    assert {memory.instance for memory in found.memories if memory.clocked} == LARGE
    warnings = check_elaborated(found, manifest(TOP), TARGETS["xc7"])
    assert len(warnings) == 1
    assert re.match(r"\S*u_unclocked\S* \(1024 x 18 bits\) cannot be block RAM: it is read without", warnings[0])


def mapped(family: str, folder: Path) -> None:
    """Map the design of good memories as far as the memories, to ``m.stat`` and ``m.log``."""
    last = MAPPERS[family].commands[-1].format(top=TOP).partition(" -run")[0]
    command = f"{last} {MAPPERS[family].without_pads} -run begin:map_ffram"
    read = prepare(folder, 0)
    run_yosys([*read, command, "opt_clean", "tee -q -o m.stat stat"], folder, "m.log", lambda _: None)


@pytest.mark.parametrize(
    "family",
    [
        *("gowin", "ecp5"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("xc7", "xcup", "nexus", "ice40", "gatemate")),
    ],
)
def test_large_memories_become_block_ram(family: str, tmp_path: Path) -> None:
    assert set(BLOCKS) | {"asic"} == set(MAPPERS)
    mapped(family, tmp_path)
    log = (tmp_path / "m.log").read_text()
    where = dict(re.findall(r"^mapping memory memories\.(\w+)\.\S+ via (\S+)", log, re.MULTILINE))
    assert set(where) == LARGE and "using FF mapping" not in log
    assert not [cell for cell in where.values() if "LUTRAM" in cell or "DPR16" in cell]
    assert cell_types(tmp_path) & BLOCKS[family]
    assert read_memories(log, TOP, Elaborated()) == []


def cell_types(folder: Path) -> set[str]:
    """The vendor's cells of the mapped design."""
    return set(re.findall(r"^ +\d+ +([A-Z]\w+)$", (folder / "m.stat").read_text(), re.MULTILINE))


def test_filled_blocks() -> None:
    memories = [MappedMemory("u", "a", 512, 36, "block RAM"), MappedMemory("u", "b", 64, 32, "logic")]
    total = dict.fromkeys(("lut", "ff", "carry", "dsp", "lutram"), 0) | {"bram": 2}
    report = Report("top", "ecp5", "", [], total, {}, memories)
    assert report.filled == report.to_json()["filled"] == 0.5
    assert "memories fill 50.0% of 2 block RAMs" in report.text()
    assert Report("top", "generic", "", [], {**total, "bram": 0}, {}, memories).filled is None


def test_our_models_are_complete() -> None:
    own = {family: BLOCKS[family] for family in ("xc7", "ice40", "gatemate")}
    for family, cells in {**own, "ecp5": {"DP16KD", "MULT18X18D"}}.items():
        assert without_model(model_files(TARGETS[family]), cells) == []
