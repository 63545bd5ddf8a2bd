"""Counted changes against a count by hand, and energy that goes where the design works."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cli import main
from mase_hw.design.vectors import Played, Sides
from mase_hw.errors import ConfigError, MismatchError, ToolError
from mase_hw.formats import FixedFormat
from mase_hw.simulate.build.simulator import SHORT_RUN
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import Limits, Plan, SimulationOptions
from mase_hw.streams import Stream
from mase_hw.synth.activity import PRODUCT, Change, access, energies, read_saif, windowed
from mase_hw.synth.power import Power, measure
from mase_hw.synth.replay import FOREIGN, model_files, netlist_dut
from mase_hw.synth.report import Report
from mase_hw.synth.synthesise import cell_types
from mase_hw.synth.targets import TARGETS

from .conftest import compiled, work_of

WIDTH, FRAMES = 8, 60
CELLS = "module REG(input C, input D, output reg Q);\n  always @(posedge C) Q <= D;\nendmodule\n"


def two_registers(folder: Path) -> tuple[Dut, Path]:
    """Data and ``valid`` through two registers, as Verilog and as Yosys writes it in JSON."""
    ports = {"clk": 1, "rst": 1, "data_in_0": WIDTH, "data_in_0_valid": 1, "data_in_0_ready": 1}
    ports |= {"data_out_0": WIDTH, "data_out_0_valid": 1, "data_out_0_ready": 1}
    made = ("data_in_0_ready", "data_out_0", "data_out_0_valid")
    chains = [("data_in_0", "n1", "data_out_0", WIDTH), ("data_in_0_valid", "n0", "data_out_0_valid", 1)]
    bits, names, cells, text = 2, dict[str, Any](), dict[str, Any](), list[str]()
    for name, width in {**ports, "n0": 1, "n1": WIDTH}.items():
        names[name] = {"bits": list(range(bits, bits + width))}
        bits += width
        wide = f"[{width - 1}:0] " if width > 1 else ""
        kind = "wire" if name not in ports else "output" if name in made else "input"
        text.append(f"{kind} {wide}{name};")
    names["data_in_0_ready"]["bits"] = ["1"]
    for chain in chains:
        for source, drain in itertools.pairwise(chain[:3]):
            for bit in range(chain[3]):
                at = f"[{bit}]" if chain[3] > 1 else ""
                text.append(f"REG r_{drain}_{bit} (.C(clk), .D({source}{at}), .Q({drain}{at}));")
                pins = {"C": names["clk"]["bits"], "D": [names[source]["bits"][bit]], "Q": [names[drain]["bits"][bit]]}
                ways = {"C": "input", "D": "input", "Q": "output"}
                cell = {"type": "REG", "parameters": {}, "port_directions": ways, "connections": pins}
                cells[f"r_{drain}_{bit}"] = cell
    module = {"ports": {name: names[name] for name in ports}, "netnames": names, "cells": cells, "attributes": {}}
    folder.mkdir()
    (folder / "cells.v").write_text(CELLS)
    body = "\n".join([*text, "assign data_in_0_ready = 1'b1;"])
    (folder / "netlist.v").write_text(f"module top({', '.join(ports)});\n{body}\nendmodule\n")
    (folder / "netlist.json").write_text(json.dumps({"modules": {"top": module}}))
    fmt = FixedFormat(WIDTH, 0, signed=False)
    streams = tuple(Stream(f"data_{way}_0", way, (1, 1), fmt) for way in ("in", "out"))
    sources = (folder / "cells.v", folder / "netlist.v")
    return Dut("top", sources, streams=streams, foreign=tuple(FOREIGN)), folder / "netlist.json"


def test_changes_are_those_of_a_count_by_hand(tmp_path: Path) -> None:
    """What enters and what leaves has a pin inside, the wire between two registers has two."""
    dut, netlist = two_registers(tmp_path / "made")
    built = batch.build(dut, tmp_path / "build", models=dut.sources[0], cycles=SHORT_RUN)
    data = np.random.default_rng(3).integers(0, 1 << WIDTH, (FRAMES, 1, 1))
    beats = dut.streams[0].pack(data)
    begin, end = 15, 45
    options = SimulationOptions("batch", waves=True, window=(begin, end))
    limits = Limits(watchdog=100, max_cycles=1000)
    result = batch.simulate(built, tmp_path / "run", {"data_in_0": beats}, {"data_out_0": beats}, limits, options)
    assert result.passed
    after, before = ((tmp_path / "run" / name).read_text() for name in (batch.ACTIVITY, batch.INITIAL))
    saif = windowed(after, before)
    changes = read_saif(saif)
    cycles = end - begin
    assert "(DURATION 300)" in saif and changes["top", "clk"] == Change(2 * cycles, 0.5)

    def counted(port: str, bit: int) -> int:
        """Of a beat that is there in a cycle, and of the one before."""
        late = {"in": 0, "out": 2}[port]
        first = int(result.ports["data_in_0"].cycles.presented[0]) + late
        word = [int(data[cycle - first, 0, 0]) >> bit & 1 for cycle in range(begin, end + 1)]
        return sum(a != b for a, b in itertools.pairwise(word))

    ins = [counted("in", bit) for bit in range(WIDTH)]
    outs = [counted("out", bit) for bit in range(WIDTH)]
    assert [changes["top", f"data_in_0[{bit}]"].times for bit in range(WIDTH)] == ins
    assert [changes["top", f"data_out_0[{bit}]"].times for bit in range(WIDTH)] == outs
    middle = sum(changes["top", f"n1[{bit}]"].times for bit in range(WIDTH))
    assert abs(middle - sum(ins)) <= WIDTH, "the same words, a cycle later"
    assert changes["top", "n0"] == Change(0, 1.0), "valid was 1 when the window began, and stayed so"
    (spent,) = energies(netlist, "top", "clk", changes, cycles, 0).values()
    assert spent.nets == sum(ins) + 2 * middle + sum(outs) and spent.clock == 2 * cycles * 2 * (WIDTH + 1)
    assert spent.changes == middle + sum(outs) and spent.products == spent.memory == 0
    still = read_saif(after)
    assert still["top", "n0"].times == 1, "what Verilator writes by itself would be wrong"


def test_blocks(tmp_path: Path) -> None:
    """A product whose one operand changes, and a memory that is read in a quarter of the cycles."""
    pins = {"CLK": [2], "A": [3, 4, 4, "0"], "B": [5, 6, 7], "P": [8, 9]}
    ram = {"CLKARDCLK": [2], "ENARDEN": [10], "DOADO": [11, 12, 13], "DOBDO": [14], "WEBWE": ["0"], "ENBWREN": ["1"]}
    cells = {
        "dsp": {"type": "DSP48E1", "parameters": {}, "connections": pins, "port_directions": {"P": "output"}},
        "ram": {"type": "RAMB18E1", "parameters": {"RAM_MODE": "SDP"}, "connections": {**ram, "DIADI": [3, 4]}},
        "use": {"type": "LUT4", "parameters": {}, "connections": {"I": [11, 12, 14], "J": [8]}},
    }
    names = {f"n{bit}": {"bits": [bit]} for bit in range(2, 15)}
    module = {"ports": {"clk": {"bits": [2]}}, "netnames": names, "cells": cells, "attributes": {}}
    (tmp_path / "netlist.json").write_text(json.dumps({"modules": {"top": module}}))
    changes = {("top", f"n{bit}"): Change(0, 0.0) for bit in range(2, 15)}
    changes["top", "n3"], changes["top", "n10"] = Change(10, 0.5), Change(20, 0.25)
    (spent,) = energies(tmp_path / "netlist.json", "top", "clk", changes, 100, 18432).values()
    assert spent.products == pytest.approx(PRODUCT * 10 * 3), "the operand that is still has three bits"
    # 13 is read by nothing, and nothing is written.
    assert spent.memory == pytest.approx(access(18432) * 25 * 3)
    assert spent.nets == 10 * 2, "the pin of the product and that of the memory; the enable has no driver here"
    del changes["top", "n9"]
    with pytest.raises(ToolError, match="was not simulated"):
        energies(tmp_path / "netlist.json", "top", "clk", changes, 100, 18432)


def test_ratios_are_those_of_the_sources() -> None:
    """A product of 32 bits, which no constant is made from, is 31 times an addition of 32 bits in standard cells."""
    assert pytest.approx(3.1 / 0.1, rel=0.2) == PRODUCT * 32 * 32 / (24 * 4 / 14)
    assert access(4 * 18432) == pytest.approx(2 * access(18432)), "20 pJ at 32 KB, 10 pJ at 8 KB"


@pytest.fixture(scope="module")
def measured(tiny: mase_hw.Design, mapped: Report) -> Power:
    return measure(tiny, "xc7")


def test_a_design(tiny: mase_hw.Design, measured: Power) -> None:
    """Whole frames at the predicted rate; every clock pin of the netlist, twice a cycle."""
    interval = int(tiny.timing["interval"])
    assert (measured.frames, measured.cycles) == (16, 16 * interval)
    netlist = (work_of(tiny, "xc7") / "activity.v").read_text()
    cells = re.findall(r"^  (?:[A-Z][A-Z0-9]+) (?:#\(.*?\) )?\S+ \(.*?\);", netlist, re.MULTILINE | re.DOTALL)
    pins = sum(cell.count("(clk)") for cell in cells)
    assert pins > 100 and sum(row.clock for row in measured.rows) == 2 * pins * interval
    assert measured.idle_cycle == 2 * pins
    assert {row.instance for row in measured.rows} == {entry["name"] for entry in tiny.manifest["instances"]}
    kept = work_of(tiny, "xc7")
    assert json.loads((kept / "power.json").read_text()) == json.loads(json.dumps(measured.to_json()))
    assert "relative units" in (kept / "power.txt").read_text()
    assert measured.total == pytest.approx(sum(row.total for row in measured.rows))
    saif = (kept / "activity.saif").read_text()
    assert f"(DURATION {10 * measured.cycles})" in saif


def test_zeros_change_less(tiny: mase_hw.Design, measured: Power, tmp_path: Path) -> None:
    """The same hardware fed with zeros: same clock, fewer changes, and no product of what never changes."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    zeros = compiled(net, (4,), tmp_path / "zeros", vectors=torch.zeros(4, 4), max_parallelism=2)
    same = [entry for entry in zeros.manifest["files"].items() if entry[0].startswith(("rtl/", "mem/"))]
    assert same == [entry for entry in tiny.manifest["files"].items() if entry[0].startswith(("rtl/", "mem/"))]
    found = measure(zeros, "xc7", frames=16)
    assert found.cycles == measured.cycles
    assert sum(row.clock for row in found.rows) == sum(row.clock for row in measured.rows)
    for kind in ("nets", "products", "changes"):
        assert sum(getattr(row, kind) for row in found.rows) < 0.8 * sum(getattr(row, kind) for row in measured.rows)


def test_nothing_but_the_clock_changes_without_frames(
    tiny: mase_hw.Design, measured: Power, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the last frame; where the source does not hold its data, in the first stage alone."""
    work = work_of(tiny, "xc7")
    dut = netlist_dut(
        tiny, work / "activity.v", model_files(TARGETS["xc7"]), cell_types(work / "statistics.json"), work
    )
    built = batch.build(dut, tmp_path / "build", models=dut.sources[0], cycles=SHORT_RUN)
    played = Played.of(*tiny.vectors(), tiny.streams)
    limits = Limits.of(tiny.timing, played.frames)

    def changed(name: str) -> set[tuple[str, str]]:
        end = 10 + int(tiny.timing["last"]) + played.frames * int(tiny.timing["interval"])
        options = SimulationOptions("batch", waves=True, window=(end + 10, end + 60))
        batch.simulate(built, tmp_path / name, played.beats_in, played.beats_out, limits, options).raise_on_failure()
        after, before = ((tmp_path / name / file).read_text() for file in (batch.ACTIVITY, batch.INITIAL))
        changes = read_saif(windowed(after, before))
        assert changes["top", "clk"].times == 100
        return {(scope, net) for (scope, net), change in changes.items() if change.times and net != "clk"}

    found = changed("garbage")
    assert found and {scope for scope, _ in found} <= {"$rootio", "top", "top/u__0"}
    assert {net.partition("[")[0] for scope, net in found if scope != "top/u__0"} == {"data_in_0"}
    monkeypatch.setattr(Plan, "garbage", lambda plan, port: [0])
    assert changed("held") == set()


def test_a_netlist_that_computes_something_else_has_no_energy(
    tiny: mase_hw.Design, mapped: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(design: mase_hw.Design) -> Sides:
        stimulus, expected = design.vectors()
        return stimulus, {name: values ^ 1 for name, values in expected.items()}

    monkeypatch.setattr("mase_hw.synth.power.vectors_of", wrong)
    with pytest.raises(MismatchError):
        measure(tiny, "xc7", work_dir=work_of(tiny, "xc7"))


def test_what_is_refused(tiny: mase_hw.Design) -> None:
    with pytest.raises(ConfigError, match="whole frames"):
        measure(tiny, "xc7", frames=0)
    with pytest.raises(ConfigError, match="unknown synthesis target"):
        measure(tiny, "xc9")
    with pytest.raises(ToolError, match="not a SAIF file"):
        read_saif("(SAIFILE)")
    with pytest.raises(ToolError, match="two lists of nets"):
        windowed("(DURATION 3)\n", "(DURATION 3)\n(a (T0 1) (T1 0) (TZ 0) (TX 0) (TB 0) (TC 0))\n")


def test_the_command(tiny: mase_hw.Design, measured: Power, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", str(tiny.path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["total"] == measured.total and printed["basis"].startswith("relative units")
