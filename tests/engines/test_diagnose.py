"""Faults put into an emitted design are found where they are."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.simulate.diagnose.diagnose import WINDOW, Diagnosis, diagnose
from mase_hw.simulate.diagnose.report import EdgeState, culprits, losses, waiting
from mase_hw.simulate.plan import Stalls
from tests.e2e_cnn import nets
from tests.sim.conftest import asked

INPUTS = torch.rand(6, 3, 8, generator=torch.Generator().manual_seed(2)) - 0.5


class Branches(nn.Module):
    """A fork, re-packers, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 6)
        self.left = nn.Linear(6, 4)
        self.right = nn.Linear(6, 2, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.first(x).relu()
        return self.left(h), self.right(h).relu()


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    torch.manual_seed(0)
    config = {"hardware": {"parallelism": {"first": {"data_in_0": 4, "data_out_0": 3}, "left": {"data_in_0": 2}}}}
    return mase_hw.compile(Branches().eval(), INPUTS[:1], config, out=work / "diagnose")


def _broken(design: mase_hw.Design, folder: Path, file: str, old: str, new: str) -> mase_hw.Design:
    shutil.copytree(design.path, folder / "bundle")
    path = folder / "bundle" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return mase_hw.Design(folder / "bundle", design.graph, verify=False)


def _run(design: mase_hw.Design, folder: Path, work: Path, **options: Any) -> Diagnosis:
    # One cache for all: what only differs in a memory is built once.
    more = {"cache_dir": work / "runtime-cache"} | {
        name: options.pop(name) for name in ("frames", "first") if name in options
    }
    found = diagnose(design, INPUTS, *asked(watchdog=300, max_cycles=20_000, work=folder / "work", **options), **more)
    json.dumps(found.to_json())
    return found


@pytest.mark.parametrize("stalls", [Stalls.none(), Stalls.random(0.4, 0.4)])
def test_every_edge_equals_the_model(design: mase_hw.Design, tmp_path: Path, work: Path, stalls: Stalls) -> None:
    found = _run(design, tmp_path, work, stalls=stalls, seed=5)
    assert found.result.passed and found.divergence is None and not found.hangs
    tensors = {edge.tensor for edge in found.edges}
    assert {"first", "left", "right", "first.weight", "first.bias"} <= tensors
    assert all(edge.beats == edge.expected for edge in found.edges if edge.expected is not None)
    assert "passed when it ran again" in found.report()


def test_flipped_bit_of_a_memory(design: mase_hw.Design, tmp_path: Path, work: Path) -> None:
    words = (design.path / "mem" / "left_weight.mem").read_text().split("\n")
    flipped = f"{int(words[2], 16) ^ 1:0{len(words[2])}x}"
    old = "\n".join(words[:3])
    broken = _broken(design, tmp_path, "mem/left_weight.mem", old, "\n".join([*words[:2], flipped]))
    found = _run(broken, tmp_path, work)
    assert found.divergence is not None and not found.result.passed
    assert (found.divergence.node, found.divergence.parameter) == ("left", "weight")
    first = found.divergence.mismatch
    assert (first.beat, first.lane) == (2, 0) and abs(first.expected - first.found) == 1
    assert len(found.divergence.neighbours) == 5
    driver = found.divergence.driver
    assert (driver.module, driver.file) == ("rom_source", "rtl/lib/rom_source.sv")
    assert (driver.memory, driver.line) == ("mem/left_weight.mem", 3) and found.divergence.inputs == ()
    assert "parameter weight of node left" in found.report()
    assert "module rom_source in rtl/lib/rom_source.sv, which reads line 3 of mem/left_weight.mem" in found.report()


def test_wrong_module(design: mase_hw.Design, tmp_path: Path, work: Path) -> None:
    """The first node of a chain that computes wrongly is named, not the last that shows it."""
    top = next(path for path in (design.path / "rtl").glob("*.sv"))
    row = next(r for r in top.read_text().splitlines() if r.strip() == ".data_in_0(net_first),")
    broken = _broken(design, tmp_path, f"rtl/{top.name}", row, row.replace("(net_first)", "(net_first ^ 1)"))
    found = _run(broken, tmp_path, work, frames=2)
    assert found.divergence is not None
    assert found.divergence.node == "relu" and found.divergence.source == "u_relu"
    first = found.divergence.mismatch
    assert first.index is not None and found.divergence.driver.file == "rtl/ops/fixed_relu.sv"
    # What went into the layer in PyTorch; in the hardware the last bit of lane 0 of every beat was flipped on its way.
    assert design.graph is not None
    went_in: list[torch.Tensor] = []
    layer = design.graph.meta_of(design.graph.node("relu")).module
    hook = layer.register_forward_pre_hook(lambda _, args: went_in.append(args[0]))
    with torch.no_grad():
        design.model(INPUTS[first.frame : first.frame + 1])
    hook.remove()
    (values,) = found.divergence.inputs
    assert (values.port, values.tensor, values.elements) == ("data_in_0", "first", (first.index,))
    (mantissa,) = values.mantissas
    assert mantissa * values.scale == float(went_in[0][first.index])
    assert (first.expected, first.found) == (max(mantissa, 0), max(mantissa ^ 1, 0))
    assert [(lane.lane, lane.index) for lane in first.lanes] == [(0, first.index)]
    assert f"it was computed from data_in_0 (first): {list(first.index)} = {mantissa} (" in found.report()
    assert "u_relu is module fixed_relu in rtl/ops/fixed_relu.sv" in found.report()


def test_hang(design: mase_hw.Design, tmp_path: Path, work: Path) -> None:
    rows = "  assign data_out_0_valid = net_left_valid;\n  assign net_left_ready = data_out_0_ready;\n"
    broken = _broken(design, tmp_path, "rtl/top.sv", rows, re.sub("= (.*);", r"= 1'b0 & \1;", rows))
    found = _run(broken, tmp_path, work)
    assert found.hangs and found.divergence is None
    report = found.report()
    assert "u_left waits for space from data_out_0 (net_left)" in report
    assert "nothing moved after cycle" in report and "everything waits for data_out_0" in report
    assert found.to_json()["culprits"] == ["data_out_0"]


def test_lost_beat(design: mase_hw.Design, tmp_path: Path, work: Path) -> None:
    """No value is wrong: the last beat is missing, and only counting shows whose fault that is."""
    last = next(e for e in _run(design, tmp_path, work).edges if e.source == "u_relu").expected
    broken = _broken(
        design,
        tmp_path,
        "rtl/ops/fixed_relu.sv",
        ".in_valid (data_in_0_valid),",
        f".in_valid (data_in_0_valid && taken_q != {last} - 1),",
    )
    file = broken.path / "rtl/ops/fixed_relu.sv"
    count = """
  int taken_q;
  always_ff @(posedge clk) begin
    taken_q <= rst ? 0 : taken_q + 32'(data_in_0_valid && data_in_0_ready);
  end
  fixed_cast_slice #("""
    assert file.read_text().count("  fixed_cast_slice #(") == 1
    file.write_text(file.read_text().replace("  fixed_cast_slice #(", count))
    found = _run(broken, tmp_path, work)
    assert found.divergence is None and not found.result.passed and found.hangs
    assert [(loss.who, loss.gave, loss.frame) for loss in found.losses] == [("u_relu", last - 1, len(INPUTS) - 1)]
    report = found.report()
    assert f"u_relu took every beat of its inputs and gave {last - 1} of {last} on" in report
    assert f"frame {len(INPUTS) - 1}, beat {last // len(INPUTS) - 1} is missing" in report
    assert found.to_json()["culprits"] == ["u_relu"], "not an input that has given all it had"


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ("= net_left;", "= net_left ^ 1;", "what moved on net_left equals the model and what moved at port data_out_0"),
        ("= net_left_valid;", "= 1'b0 & net_left_valid;", "0 beats moved at port data_out_0 and"),
    ],
)
def test_fault_at_a_port(design: mase_hw.Design, tmp_path: Path, work: Path, old: str, new: str, seen: str) -> None:
    top = next(path for path in (design.path / "rtl").glob("*.sv"))
    found = _run(_broken(design, tmp_path, f"rtl/{top.name}", old, new), tmp_path, work)
    assert found.divergence is None and not found.result.passed
    assert [gap.port for gap in found.gaps] == ["data_out_0"] and found.losses == ()
    assert seen in found.report() and "in the top level" in found.report()


def _edge(source: str, sink: str, valid: int, ready: int, beats: int, expected: int | None = 8) -> EdgeState:
    return EdgeState(f"{source}_{sink}", source, sink, source, valid, ready, beats, expected, None)


def test_who_waits() -> None:
    """A join that lacks one input waits for it; who has given everything, and a memory at rest, wait for nobody."""
    states = [
        _edge("in", "fork", 0, 1, 8),
        _edge("fork", "long", 0, 1, 8),
        _edge("fork", "join", 1, 0, 7),
        _edge("rom", "long", 1, 0, 99, None),
        _edge("long", "join", 0, 0, 7),
        _edge("join", "out", 0, 1, 7),
    ]
    waits = waiting(states)
    assert {str(wait) for wait in waits} == {
        "fork waits for space from join (fork_join)",
        "join waits for data from long (long_join)",
        "out waits for data from join (join_out)",
    }
    assert culprits(waits) == ["long"]
    assert [loss.who for loss in losses(states, {state.net: 4 for state in states})] == ["long"]
    assert str(losses(states, {"long_join": 4})[0]).startswith("long took every beat of its inputs and gave 7 of 8")
    states[3] = _edge("rom", "long", 0, 1, 50, None)
    assert culprits(waiting(states)) == ["rom"] and losses(states, {}) == [], "it lacks a word of a memory"
    states[1] = _edge("fork", "long", 1, 0, 7)
    states[3] = _edge("rom", "long", 1, 0, 99, None)
    assert culprits(waiting(states)) == ["long"] and losses(states, {}) == [], "it does not take: nothing is lost"


def _fst_times(path: Path) -> tuple[int, int]:
    """Start and end of an FST, from its header block: type, length, start, end."""
    head = path.read_bytes()[:25]
    assert head[0] == 0
    return int.from_bytes(head[9:17], "big"), int.from_bytes(head[17:25], "big")


def test_waves_of_a_window(design: mase_hw.Design, tmp_path: Path, work: Path) -> None:
    """From the cause to where it shows, with some cycles around; not of the whole run."""
    words = (design.path / "mem" / "left_weight.mem").read_text().split("\n")
    flipped = f"{int(words[0], 16) ^ 0x80:0{len(words[0])}x}"
    broken = _broken(design, tmp_path, "mem/left_weight.mem", words[0], flipped)
    found = diagnose(
        broken,
        INPUTS.repeat(40, 1, 1),
        *asked(watchdog=300, max_cycles=20_000, waves=True, work=tmp_path),
        cache_dir=work / "runtime-cache",
    )
    assert found.divergence is not None and found.result.waves is not None
    begin, end = _fst_times(found.result.waves)
    # Ten units a cycle, four cycles of reset before cycle 0.
    cause = (found.divergence.cycle + 4) * 10
    assert begin <= cause <= end and end - begin < 10 * (2 * WINDOW + 60) < found.result.cycles * 10
    assert f"in cycle {found.divergence.cycle}" in found.report() and "waves around it: " in found.report()


def test_fifos_of_a_hang(tmp_path: Path, work: Path) -> None:
    """The long way around is cut before the join: the FIFO on the short way says how far it came."""
    torch.manual_seed(1)
    x = torch.rand(4, 2, 4, 4) * 2 - 1
    whole = mase_hw.compile(nets.ready(nets.BasicBlock(2, 2)), x[:1], out=tmp_path / "whole", calibration=[x])
    (fifo,) = whole.manifest["fifos"]
    join, port = fifo["before"].split(".")
    other = {"data_in_0": "data_in_1", "data_in_1": "data_in_0"}[port]
    text = (whole.path / "rtl" / "top.sv").read_text()
    row = next(
        r for r in text.split(f") u_{join} (", 1)[1].splitlines() if r.strip().startswith(f".{other}_valid(")
    )  # fmt: skip
    net = row.split("(")[1].split(")")[0]
    broken = _broken(whole, tmp_path, "rtl/top.sv", row, row.replace(f"({net})", f"({net} && 1'b0)"))
    found = diagnose(
        broken,
        x,
        *asked(watchdog=300, max_cycles=20_000, work=tmp_path / "work"),
        cache_dir=work / "runtime-cache",
    )
    json.dumps(found.to_json())
    assert found.hangs
    (state,) = found.fifos
    held = {edge.sink: edge.beats for edge in found.edges}[fifo["instance"]]
    left = {edge.source: edge.beats for edge in found.edges}[fifo["instance"]]
    assert (state.level, state.most, state.depth) == (held - left, held - left, fifo["depth"])
    assert (
        state.level > 1 and f"FIFOs:\n  {fifo['instance']} before {fifo['before']}: {state.level} of" in found.report()
    )


def test_needs_the_model(design: mase_hw.Design) -> None:
    with pytest.raises(ConfigError, match="loaded from disk"):
        diagnose(mase_hw.Design(design.path), INPUTS, *asked(watchdog=10, max_cycles=10))
