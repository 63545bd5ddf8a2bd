"""Reconvergent paths: every beat in its predicted cycle, FIFOs deep enough and not too deep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mase_hw
from mase_hw.emit import build, fifos
from mase_hw.emit.netlist import TOP, Netlist, Pin
from mase_hw.emit.schedule import Timeline
from mase_hw.errors import ConfigError, HangError
from mase_hw.simulate.result import SimResult
from tests.e2e.conftest import Workshop
from tests.e2e.designs import DESIGNS

Designs = dict[str, mase_hw.Design]


def netlist_of(design: mase_hw.Design) -> Netlist:
    assert design.graph is not None
    netlist: Netlist = design.graph.meta["netlist"]
    return netlist


def check_every_beat(design: mase_hw.Design, result: SimResult, frames: int) -> None:
    """The run and the network simulation agree on every port, beat and frame."""
    netlist = netlist_of(design)
    timeline = Timeline(netlist, design.graph.catalogue)  # type: ignore[union-attr]
    assert timeline.exact
    network, edges = timeline.network()
    while network.frames < frames:
        network.advance()
    start = result.accepted[netlist.inputs[0].name][0]
    for stream in netlist.inputs:
        predicted = network.edges[edges[Pin(TOP, stream.name)]].taken
        np.testing.assert_array_equal(result.accepted[stream.name] - start, predicted, stream.name)
    for stream in netlist.outputs:
        predicted = network.edges[edges[timeline.into[Pin(TOP, stream.name)]]].offered
        np.testing.assert_array_equal(result.presented[stream.name][: len(predicted)] - start, predicted, stream.name)


@pytest.mark.parametrize("name", ["residual", "crossed", "forms", "pair"])
def test_every_beat_comes_when_predicted(designs: Designs, workshop: Workshop, tmp_path: Path, name: str) -> None:
    """Eight overlapping frames at full rate: forks, joins, FIFOs and back-pressure, to the cycle."""
    design = designs[name]
    simulation = design.simulate(DESIGNS[name].frames(8), work_dir=workshop.work(design, tmp_path, name))
    assert simulation.passed and design.timing["exact"]
    check_every_beat(design, simulation.result, 8)


def test_fifos_are_reported(designs: Designs) -> None:
    """Only inputs of joins on reconvergent paths, and only where a beat waits."""
    found = {fifo["before"]: fifo for fifo in designs["residual"].manifest["fifos"]}
    # The long way needs none, nor does a stream that meets itself at once.
    assert set(found) == {"add.data_in_1", "add_1.data_in_1"}
    assert all(fifo["depth"] >= 4 and not fifo["given"] for fifo in found.values())
    assert found["add_1.data_in_1"]["depth"] > found["add.data_in_1"]["depth"], "a way around a way around"
    assert {f["before"] for f in designs["crossed"].manifest["fifos"]} == {"add.data_in_1", "add_1.data_in_0"}
    for name in ("golden", "forms", "pair", "rows"):
        assert designs[name].manifest["fifos"] == []


def compiled(folder: Path, depths: dict[str, int]) -> mase_hw.Design:
    case = DESIGNS["residual"]
    config = {"hardware": {**case.config["hardware"], "fifo_depth": depths}}
    return mase_hw.compile(case.model, case.example, config, out=folder, calibration=[case.frames(8)])


def smallest(tmp_path: Path, place: str) -> int:
    """The least depth before a place, as the refusal of none at all gives it."""
    with pytest.raises(ConfigError, match="would deadlock") as caught:
        compiled(tmp_path / "none", {place: 0})
    assert caught.value.node == place and not (tmp_path / "none").exists()
    return int(str(caught.value.expected).split()[2].rstrip(";"))


def test_the_least_depth(tmp_path: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused does stop, and one place more does not: neither at full rate nor with stalls."""
    place, case = "add_1.data_in_1", DESIGNS["residual"]
    least = smallest(tmp_path, place)
    given = case.frames(6)
    with pytest.raises(ConfigError, match="would deadlock"):
        compiled(tmp_path / "refused", {place: least - 1})
    design = compiled(tmp_path / "least", {place: least})
    fifo = next(f for f in design.manifest["fifos"] if f["before"] == place)
    assert (fifo["depth"], fifo["given"]) == (least, True)
    work = workshop.work(design, tmp_path, "residual-least")
    simulation = design.simulate(given, work_dir=work)
    assert simulation.passed and simulation.interval == design.timing["interval"]
    check_every_beat(design, simulation.result, 6)
    assert design.simulate(given, work_dir=work, stalls=0.4, seed=7).passed
    monkeypatch.setattr(fifos, "_check", lambda *_: None)
    # There is no schedule of a design that stops.
    schedule = design.graph.meta["schedule"] if design.graph is not None else None
    monkeypatch.setattr("mase_hw.emit.passes.predict", lambda *_: schedule)
    monkeypatch.setattr("mase_hw.emit.passes.steady_frame", lambda *_: None)
    stuck = compiled(tmp_path / "stuck", {place: least - 1})
    work = workshop.work(stuck, tmp_path / "second", "residual-stuck")
    with pytest.raises(HangError) as caught:
        stuck.simulate(given, work_dir=work, waves=False)
    (fifo,) = [f for f in caught.value.diagnosis.fifos if f.before == place]
    assert fifo.level == fifo.most == fifo.depth == least - 1, "the diagnosis shows the FIFO that is full"


def test_a_design_that_waits(tmp_path: Path, workshop: Workshop) -> None:
    """Without its FIFO the inner way only just holds what passes the fork: slow, and exactly as slow as predicted."""
    design = compiled(tmp_path / "slow", {"add.data_in_1": 0})
    full = compiled(tmp_path / "full", {}).timing["interval"]
    assert design.timing["exact"] and design.timing["interval"] > full
    simulation = design.simulate(
        DESIGNS["residual"].frames(6), work_dir=workshop.work(design, tmp_path, "residual-slow")
    )
    assert simulation.passed and simulation.interval == design.timing["interval"]
    check_every_beat(design, simulation.result, 6)


@pytest.mark.parametrize(
    ("place", "message"), [("add.data_in_2", "did you mean"), ("stem", "known"), ("relu.data_out_0", "did you mean")]
)
def test_a_queue_where_there_is_no_input(tmp_path: Path, place: str, message: str) -> None:
    with pytest.raises(ConfigError, match="where there is no data input") as caught:
        compiled(tmp_path / "out", {place: 4})
    assert message in str(caught.value) and not (tmp_path / "out").exists()


def test_a_netlist_has_its_fifos(designs: Designs) -> None:
    """Every netlist that is built has them: no emitter can forget them."""
    graph = designs["residual"].graph
    assert graph is not None
    assert [f.before for f in build.build_netlist(graph).fifos] == ["add.data_in_1", "add_1.data_in_1"]
