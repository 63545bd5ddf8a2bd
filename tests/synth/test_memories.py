"""Every large memory of the library becomes block RAM in every family, and the models of block RAM hold the same bits."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mase_hw.emit.yosys import MAPPERS
from mase_hw.flow.synth_checks import check_elaborated
from mase_hw.flow.synth_elaborate import Elaborated, read_elaborated
from mase_hw.flow.synth_replay import FOREIGN, cell_models, model_files, without_model
from mase_hw.flow.synth_report import read_memories
from mase_hw.flow.synth_targets import TARGETS
from mase_hw.flow.synth_tools import run_yosys
from mase_hw.flow.tools import find_build_tools

TOP = "memories"
INSIDE = {"u_window": ("loop_counter", "ring_add", "window_control", "row_end")}
LIBRARY = ("stream_fifo", "stream_reorder", "sliding_window", "replay_buffer", "fixed_lookup", "rom_source")
LARGE = {"u_fifo", "u_reorder", "u_window", "u_replay", "u_lookup", "u_rom", "u_wide"}
BLOCKS = {
    "xc7": {"RAMB18E1", "RAMB36E1"},
    "xcup": {"RAMB18E2", "RAMB36E2"},
    "ecp5": {"DP16KD"},
    "ice40": {"SB_RAM40_4K"},
    "gowin": {"DPB", "SP", "SPX9", "SDPB", "SDPX9B", "DPX9B", "pROM", "pROMX9"},
}
BENCH = """
module bench;
  logic clk = 0, rst = 1, valid = 0, ready = 0;
  logic [17:0] data = 0;
  logic [192:0] rtl, netlist;
  int unsigned noise = 1;
  int beats = 0;
  memories u_rtl (.clk, .rst, .data, .valid, .ready, PORTS(rtl));
  mapped u_netlist (.clk, .rst, .data, .valid, .ready, PORTS(netlist));
  initial begin
    for (int cycle = 0; cycle < 30000; cycle++) begin
      #1 clk = 1;
      #1 clk = 0;
      #1;
      if (!rst && rtl !== netlist) begin
        $display("MISMATCH in cycle %0d: %h, RTL has %h", cycle, netlist, rtl);
        $finish;
      end
      beats += int'(rtl[0]) + int'(rtl[3]);
      noise = noise * 1664525 + 1013904223;
      rst   = cycle < 3;
      data  = noise[31:14];
      valid = cycle < 15000 ? noise[9] | noise[11] : noise[9];
      ready = cycle < 15000 ? noise[10] : noise[10] | noise[12];
    end
    $display("EQUAL: %0d beats", beats);
    $finish;
  end
endmodule
"""
FIELDS = {"moves": 8, "fifo": 18, "reorder": 18, "window": 18, "replay": 9, "lookup": 4, "rom": 36, "wide": 72}


def ports(name: str) -> str:
    """Connections of the outputs to fields of a vector."""
    text, low = [], 0
    for field, width in FIELDS.items():
        text.append(f".{field}({name}[{low + width - 1}:{low}])")
        low += width
    return ", ".join([*text, ".unclocked()"])


def prepare(folder: Path, root: Path, unclocked: int) -> list[str]:
    """Copy the sources, make the tables; the command that reads them."""
    (folder / "mem").mkdir(parents=True)
    files = [f"{name}.sv" for name in (*INSIDE["u_window"], *LIBRARY)]
    for file in files:
        shutil.copy(root / "rtl_templates/lib" / file, folder)
    shutil.copy(Path(__file__).with_name("memories.sv"), folder)
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


def test_what_cannot_be_block_ram_is_named_before_mapping(root: Path, tmp_path: Path) -> None:
    found = elaborate(tmp_path, prepare(tmp_path, root, 1))
    assert {memory.instance for memory in found.memories if memory.clocked} == LARGE
    warnings = check_elaborated(found, {"top": TOP, "instances": []}, TARGETS["xc7"])
    assert len(warnings) == 1
    assert re.match(r"\S*u_unclocked\S* \(1024 x 18 bits\) cannot be block RAM: it is read without", warnings[0])


def mapped(family: str, folder: Path, root: Path) -> None:
    """Map the design of good memories as far as the memories, to ``m.v``, ``m.json`` and ``m.log``."""
    last = MAPPERS[family].commands[-1].format(top=TOP).partition(" -run")[0]
    command = f"{last} {MAPPERS[family].without_pads} -run begin:map_ffram"
    read = prepare(folder, root, 0)
    clean = ["opt_clean", "tee -q -o m.stat stat", f"rename {TOP} mapped", "flatten", "write_verilog -noattr m.v"]
    run_yosys([*read, command, *clean], folder, "m.log", lambda _: None)


@pytest.mark.parametrize(
    "family", ["gowin", "ecp5", *(pytest.param(name, marks=pytest.mark.slow) for name in ("xc7", "xcup", "ice40"))]
)
def test_large_memories_become_block_ram(family: str, root: Path, tmp_path: Path) -> None:
    assert set(BLOCKS) == set(MAPPERS)
    mapped(family, tmp_path, root)
    log = (tmp_path / "m.log").read_text()
    where = dict(re.findall(r"^mapping memory memories\.(\w+)\.\S+ via (\S+)", log, re.MULTILINE))
    assert set(where) == LARGE and "using FF mapping" not in log
    assert not [cell for cell in where.values() if "LUTRAM" in cell or "DPR16" in cell]
    cells = set(re.findall(r"^ +\d+ +(\w+)$", (tmp_path / "m.stat").read_text(), re.MULTILINE))
    assert cells & BLOCKS[family]
    assert read_memories(log, TOP, Elaborated()) == []


def simulate(folder: Path, netlist: str, family: str) -> str:
    """Verilator's verdict on the netlist beside the RTL."""
    cells = set(re.findall(r"^  ([A-Z][\w$]+) #\(", netlist, re.MULTILINE))
    (folder / "n.v").write_text("`timescale 1ps / 1ps\n" + cell_models(model_files(TARGETS[family]), cells) + netlist)
    bench = re.sub(r"PORTS\((\w+)\)", lambda match: ports(match.group(1)), BENCH)
    (folder / "bench.sv").write_text("`timescale 1ps / 1ps\n" + bench)
    tools = find_build_tools()
    waived = [f"-Wno-{rule}" for rule in (*FOREIGN, "ASSIGNIN", "PINCONNECTEMPTY", "WIDTHEXPAND", "TIMESCALEMOD")]
    sources = [*(f"{name}.sv" for name in (*INSIDE["u_window"], *LIBRARY)), "memories.sv", "n.v", "bench.sv"]
    command = [str(tools.verilator), "--binary", "--timing", "-CFLAGS", "-std=gnu++20", "--top-module", "bench"]
    command += ["-GUNCLOCKED=0", *waived, *sources]
    env = {**tools.env, "MAKEFLAGS": tools.env["MAKEFLAGS"] + " OPT_FAST=-O1 OPT_SLOW=-O0"}
    shutil.rmtree(folder / "obj_dir", ignore_errors=True)
    for step in (command, ["obj_dir/Vbench"]):
        done = subprocess.run(step, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("family", "init"), [("xc7", "INIT"), ("ecp5", "INITVAL"), ("ice40", "INIT")])
def test_block_ram_netlists_give_the_same_bits(family: str, init: str, root: Path, tmp_path: Path) -> None:
    """30,000 cycles with stalls, every output in every cycle; and one wrong bit of a table is seen."""
    mapped(family, tmp_path, root)
    netlist = (tmp_path / "m.v").read_text()
    found = re.search(r"EQUAL: (\d+) beats", simulate(tmp_path, netlist, family))
    assert found and int(found.group(1)) > 10_000
    # The first word of a ROM is read at once.
    word = re.compile(rf"\.{init}_00?\((\d+)'h([0-9a-f]*)([0-9a-f])\)")
    table = next(match for match in word.finditer(netlist, netlist.index("u_rom")) if match.group(2).strip("0"))
    digit = f"{int(table.group(3), 16) ^ 1:x}"
    broken = netlist[: table.start(3)] + digit + netlist[table.end(3) :]
    assert "MISMATCH" in simulate(tmp_path, broken, family)


def test_our_models_are_complete() -> None:
    for family, cells in (("xc7", BLOCKS["xc7"]), ("ecp5", {"DP16KD", "MULT18X18D"}), ("ice40", BLOCKS["ice40"])):
        assert without_model(model_files(TARGETS[family]), cells) == []
