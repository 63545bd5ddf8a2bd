"""Models that are refined for long runs do and say what the others do, in the same cycles."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.emit.reference import Reference
from mase_hw.errors import SimulationError
from mase_hw.opdef import SUPPORT
from mase_hw.resources import rtl_root
from mase_hw.simulate.build import simulator
from mase_hw.simulate.build.simulator import SHORT_RUN
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines.batch import build
from mase_hw.simulate.engines.batch.edges import has_one_edge
from mase_hw.simulate.engines.batch.engine import BATCH
from mase_hw.simulate.engines.cocotb.engine import Built, Stalls
from tests.catalogue.harness import item
from tests.engines.conftest import Builder, play
from tests.engines.test_equal import assert_equal
from tests.engines.test_stopped import watched
from tests.sim.conftest import slice_dut


def test_a_network_does_the_same(tools: BuildTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums, copies, checks, counters and kept results of one network; all bits are those of the quantised model.

    Both are compiled without optimisation, which takes longer than all the rest; the long run of the catalogue's cases
    has models as they are.
    """
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 16, 1)]
    config = {"hardware": {"max_parallelism": 8}, "vectors": {"frames": 2}}
    design = mase_hw.compile(torch.nn.Sequential(*layers), torch.randn(1, 4, 6, 6), config, out=tmp_path / "bundle")
    sides = Reference(design.graph).run(torch.randn(5, 4, 6, 6))
    beats = [{name: design.streams[name].pack(values) for name, values in side.items()} for side in sides]
    results, texts = [], []
    for cycles in (SHORT_RUN, None):
        folder = tmp_path / f"{cycles}"
        built = BATCH.build(design.dut(), folder / "build", cache_dir=folder / "cache", tools=tools, cycles=cycles)
        for stalls in (Stalls.none(), Stalls.random(0.3, 0.4)):
            options = {"watchdog": 10_000, "max_cycles": 100_000, "stalls": stalls, "seed": 5}
            results.append(BATCH.simulate(built, folder / "run", *beats, **options))
        for module in (simulator, build):
            monkeypatch.setattr(module, "OPTIMISED", "-O0")
        texts.append("".join(path.read_text() for path in (folder / "build" / "model").glob("Vtop*.cpp")))
        assert has_one_edge(folder / "build" / "model")
    for plain, refined in zip(results[:2], results[2:], strict=True):
        assert plain.passed
        assert_equal(plain, refined)
    for part in ("static QData was_0", "&& ((IData)("):
        assert part not in texts[0] and part in texts[1], part
    copies = [len(re.findall(r" __Vdly__\w+ = ", re.sub(r"\s+", " ", text))) for text in texts]
    assert copies[1] < copies[0]


def told(built: Built, folder: Path) -> tuple[str, int, list[str]]:
    """The failure, the cycle, and what the design said of its own."""
    result = play("batch", built, folder, stalls=Stalls.random(0.3, 0.6), seed=4)
    assert type(result.failure) is SimulationError
    lines = (folder / "sim.log").read_text().splitlines()
    return result.failure.message, result.cycles, [line for line in lines if "Fatal" in line or "oracle" in line]


@pytest.mark.parametrize("fault", [5, 6])
def test_a_broken_stream_is_told_in_the_same_cycle(builder: Builder, tmp_path: Path, fault: int) -> None:
    """A design with a falling edge as well, which the driver must not pass over."""
    plain, refined = (
        builder("batch", watched(fault), f"watched{fault} {cycles}", cycles=cycles) for cycles in (SHORT_RUN, None)
    )
    assert not has_one_edge(refined.folder / "model")
    failure, cycle, lines = told(refined, tmp_path)
    assert (failure, cycle, lines) == told(plain, tmp_path)
    assert cycle > 8 and any("Fatal" in line for line in lines)


INVARIANT = """
module limited #(parameter int WIDTH = 8) (
    input logic clk, rst,
    input logic [1:0][WIDTH-1:0] data_in_0, input logic data_in_0_valid, output logic data_in_0_ready,
    output logic [1:0][WIDTH-1:0] data_out_0, output logic data_out_0_valid, input logic data_out_0_ready
);
  logic [4:0] count_q;
  assign data_out_0 = data_in_0;
  assign data_out_0_valid = data_in_0_valid;
  assign data_in_0_ready = data_out_0_ready;
  always_ff @(posedge clk) begin
    if (rst) count_q <= 0;
    else if (data_in_0_valid && data_in_0_ready) count_q <= count_q + 1;
  end
  invariant #(.MESSAGE("never")) u_never (.clk, .rst, .broken(count_q == 31));
  invariant #(.MESSAGE("more than 17 beats")) u_limit (.clk, .rst, .broken(count_q > 17));
  // Before the first reset anything may be broken, and while it lasts.
  invariant #(.MESSAGE("reset")) u_reset (.clk, .rst, .broken(rst));
endmodule
"""


def test_a_broken_invariant_is_told_in_the_same_cycle(builder: Builder, tmp_path: Path) -> None:
    source = tmp_path / "limited.sv"
    source.write_text(INVARIANT)
    sources = (*(rtl_root() / file for file in SUPPORT), source)
    dut = dataclasses.replace(slice_dut(), top="limited", sources=sources, parameters={"WIDTH": 8})
    plain, refined = (builder("batch", dut, f"limited {cycles}", cycles=cycles) for cycles in (SHORT_RUN, None))
    model = refined.folder / "model"
    assert (model / "Vtop___024root__0.cpp").read_text().count("&& ((IData)(") >= 2
    assert "BATCH_EDGES 1" in (model / "unit_0.cpp").read_text()
    failure, cycle, lines = told(refined, tmp_path)
    assert (failure, cycle, lines) == told(plain, tmp_path)
    assert cycle > 17 and any("more than 17 beats" in line for line in lines)


EDGES: dict[str, Callable[[str], str]] = {
    "another edge": lambda text: text.replace("(~ (IData)(vlSelfRef.__Vtrigprev", "((IData)(vlSelfRef.__Vtrigprev"),
    "another clock": lambda text: text.replace("vlSelfRef.clk", "vlSelfRef.clock"),
    "data that follow from the clock": lambda text: re.sub(
        r"(___eval_ico\(Vtop[^;{]*\{.*?)vlSelfRef\.\w+_valid\b", r"\1vlSelfRef.clk", text, flags=re.DOTALL
    ),
    "a phase more": lambda text: text.replace("__eval_phase__act(vlSelf);", "__eval_phase__more(vlSelf);"),
    "no evaluation": lambda text: text.replace("___eval(Vtop", "___eval_all(Vtop"),
}


@pytest.fixture(scope="module")
def model(tools: BuildTools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated model of a case; with a cache of its own, since of what is taken from one there is no C++."""
    folder = tmp_path_factory.mktemp("one edge")
    dut = item("linear-uneven_fold").dut()
    BATCH.build(dut, folder / "build", cache_dir=folder / "cache", tools=tools, cycles=SHORT_RUN)
    return folder / "build" / "model"


@pytest.mark.parametrize("case", EDGES)
def test_any_other_model_is_evaluated_as_verilator_does(tmp_path: Path, case: str, model: Path) -> None:
    assert has_one_edge(model)
    for source in model.glob("Vtop_*.cpp"):
        (tmp_path / source.name).write_text(EDGES[case](source.read_text()))
    assert not has_one_edge(tmp_path)
