"""Every edge inside a design carries whole frames; what spoils only the next frame is found as well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.netlist import TOP, Netlist
from mase_hw.errors import SimulationError

FRAMES = 3
X = torch.rand(FRAMES, 4, generator=torch.Generator().manual_seed(4)) - 0.5


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    config = {"hardware": {"parallelism": {"_0": {"data_out_0": 3}, "_2": {"data_in_0": 2}}}}
    return mase_hw.compile(model, X[:1], config, out=work / "edges", vectors=X)


@pytest.mark.parametrize("engine", ["batch", "cocotb"])
def test_whole_frames(design: mase_hw.Design, engine: str) -> None:
    assert design.graph is not None
    netlist: Netlist = design.graph.meta["netlist"]
    watched = {f"{n.source} to {n.sink}" for n in netlist.nets if n.source.instance not in netlist.memories}
    assert any(n.source.instance == TOP for n in netlist.nets) and any("repack" in name for name in watched)
    simulation = design.simulate(engine=engine, stalls=0.3)
    assert simulation.result.edges == dict.fromkeys(watched, (FRAMES, 0))
    assert f"{len(watched)} edges inside, every one carried {FRAMES} whole frames" in simulation.report()


def test_shares_are_added(design: mase_hw.Design) -> None:
    x = torch.cat([X, X])
    edges = design.simulate(x, engine="batch", jobs=3).result.edges
    assert edges and set(edges.values()) == {(2 * FRAMES, 0)}


def test_a_beat_too_many_inside(design: mase_hw.Design, tmp_path: Path) -> None:
    """It comes after the last frame and stays in the next layer, so the ports show nothing."""
    shutil.copytree(design.path, tmp_path / "bundle")
    path = tmp_path / "bundle" / f"rtl/{design.manifest['top']}.sv"
    net = next(line.split("(")[1].split(")")[0] for line in _relu(path) if ".data_out_0_valid(" in line)
    beats = FRAMES * 2  # six elements, three a beat
    extra = f"""
  logic own_valid;
  int sent;
  assign {net} = own_valid || sent == {beats};
  always_ff @(posedge clk) begin
    if (rst) sent <= 0;
    else if ({net} && {net.removesuffix("valid")}ready) sent <= sent + 1;
  end

  // 1: """
    head, tail = path.read_text().split("\n  // _1: ", 1)
    path.write_text(head + extra + tail.replace(f".data_out_0_valid({net})", ".data_out_0_valid(own_valid)", 1))
    broken = mase_hw.Design(tmp_path / "bundle", verify=False)
    result = broken.simulate(
        engine="batch", waves=False, check=False, work_dir=design.path.with_name("edges-broken.work")
    ).result
    assert type(result.failure) is SimulationError and result.mismatches == 0
    assert all(port.beats == port.expected for port in result.ports.values())
    with pytest.raises(
        SimulationError, match=rf"(?s)did not carry a whole number.*{FRAMES} frames and 1 beats"
    ) as caught:
        result.raise_on_failure()
    assert "u__1.data_out_0" in str(caught.value.node)


def _relu(path: Path) -> list[str]:
    """The lines of the instance of the relu."""
    return path.read_text().split("\n  // _1: ", 1)[1].split("\n  );", 1)[0].split("\n")
