"""Parts of a network as one expression among the ways of ``fit``: the best, as predicted, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.cost.devices import RESOURCES
from mase_hw.errors import ConfigError
from mase_hw.fit.choose import SPREAD, Chooser
from mase_hw.fit.parts import Parts
from mase_hw.fit.sharing import choose
from mase_hw.fit.target import Goal, goal
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.preflight.fit import fit
from mase_hw.preflight.mapped import mapped_graph

QUANTIZE = {"default": {"config": {"data_in_width": 4, "weight_width": 3, "bias_width": 6, "data_out_width": 5}}}


class Particles(nn.Module):
    """A deep set: a layer for each of four particles, their mean, and a layer of it."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.all = nn.Linear(2, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.all(torch.relu(self.each(x)).mean(1))
        return result


NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), (4,)),
    "particles": (Particles, (4, 2)),
    "image": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)),
        (1, 4, 4),
    ),
    "softmax": (lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.LogSoftmax(-1)), (3,)),
}


def network(name: str) -> tuple[nn.Module, Tensor]:
    """A network with random weights, and frames."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    return make().eval(), torch.rand(6, *shape, generator=torch.Generator().manual_seed(1))


def quantised(name: str) -> MaseGraph:
    net, x = network(name)
    return mapped_graph(net, x[:1], load_config({"quantize": QUANTIZE}), [x], lambda _: None)


def least(chooser: Chooser, interval: int) -> int | None:
    """The least weighed area of all choices within the budgets, each of which is looked at; None if there is none."""
    candidates = chooser.space.candidates(interval, SPREAD)
    problem = chooser.space.problem(candidates, interval)
    found = []
    for numbers in itertools.product(*(range(len(of)) for of in candidates.values())):
        total = problem.total(dict(zip(candidates, numbers, strict=True)))
        budgets = chooser.goal.budgets.items()
        if total is not None and all(total[RESOURCES.index(name)] <= most for name, most in budgets):
            found.append(int(total @ chooser.weights))
    return min(found, default=None)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("mlp", {"interval": 1}),
        ("mlp", {"interval": 4, "lut": 300}),
        ("particles", {"interval": 1}),
        ("particles", {"interval": 4}),
        ("image", {"interval": 2}),
        ("image", {"interval": 16, "dsp": 1}),
        ("softmax", {"interval": 1}),
    ],
)
def test_the_best_of_all_ways_and_candidates(name: str, target: dict[str, Any]) -> None:
    """Every part, in every number of beats, with every choice for the rest: none has less area."""
    graph, wanted = quantised(name), goal({"unrolled": 16, "whole_frames": 1024, **target}, "xc7")
    chooser, choice = choose(graph, HardwareArgs(), wanted)
    parts = Parts(graph, HardwareArgs(), wanted)
    args = HardwareArgs(family="xc7")
    folded = Chooser(graph, args, wanted)
    found = [] if folded.fastest[0] > target["interval"] else [least(folded, target["interval"])]
    for framed in parts.all:
        try:
            copy, _, _ = parts.of(framed)
            each = Chooser(copy, args, wanted, small=folded.space.small)
        except mase_hw.MaseHwError as error:
            assert "softmax" in name and "softmax" in str(error)
            continue
        if each.fastest[0] <= target["interval"]:
            found.append(least(each, target["interval"]))
    assert len(parts.all) > 2 and choice.proven
    assert choice.solution.value == min(area for area in found if area is not None)
    assert choice.manifest.timing.interval <= target["interval"]
    assert (chooser.space.graph is graph) == (choice.part is None)


def test_larger_parts_are_tried_where_nearly_every_product_has_a_multiplier() -> None:
    """34 products in a cycle, with a limit of 8 of a part; not where eight multipliers would do."""
    tried = {}
    for interval in (1, 16):
        told: list[str] = []
        asked = goal({"interval": interval, "unrolled": 0, "whole_frames": 8}, "xc7")
        choice = choose(quantised("mlp"), HardwareArgs(), asked, told.append)[1]
        tried[interval] = any("the network as one expression" in line for line in told)
        assert choice.part is not None and (len(choice.part.nodes) == 5) == tried[interval]
    assert tried == {1: True, 16: False}


def test_the_lowest_latency_and_the_shortest_interval_of_all_ways() -> None:
    """As if every way were tried by itself, without bounds."""
    particles, softmax = quantised("particles"), quantised("softmax")
    for graph, asked in (
        (particles, {"minimise": "latency", "lut": 400}),
        (softmax, {"minimise": "latency", "lut": 10**5}),
        (particles, {"lut": 400}),
        (particles, {"lut": 260}),
    ):
        wanted = goal(asked, "xc7")
        choice = choose(graph, HardwareArgs(), wanted)[1]
        assert _key(wanted, choice) == min(_every_way(graph, wanted))


def _key(wanted: Goal, choice: Any) -> int:
    timing = choice.manifest.timing
    return int(timing.last if wanted.minimise == "latency" else timing.interval)


def _every_way(graph: MaseGraph, wanted: Goal) -> list[int]:
    args, parts, found = HardwareArgs(family=wanted.family), Parts(graph, HardwareArgs(), wanted), []
    for each in (graph, *(parts.of(framed)[0] for framed in parts.all)):
        try:
            found.append(_key(wanted, Chooser(each, args, wanted, nearest=False).choose()))
        except mase_hw.MaseHwError:
            continue
    return found


@pytest.mark.parametrize(
    ("name", "target", "part"),
    [
        ("softmax", {"interval": 1}, ("", "_1", 1)),
        ("particles", {"interval": 2}, ("", "", 2)),
    ],
)
def test_what_is_predicted_is_measured(name: str, target: dict[str, Any], part: Any, tmp_path: Path) -> None:
    """A part before folded layers, and a network in two beats: bits, fill and interval; the same said by hand."""
    net, x = network(name)
    settings = {"quantize": QUANTIZE, "target": {**target, "unrolled": 0}}
    design = mase_hw.compile(net, x[:1], settings, out=tmp_path / "b", calibration=[x], vectors=x)
    result = design.simulate(engine="batch")
    assert result.passed and result.interval == design.timing["interval"] <= target["interval"]
    assert result.fill == design.timing["fill"]
    found = fit(net, x[:1], settings, calibration=[x], front=False)
    args = found.choice.args
    assert (args.unroll_first, args.unroll_last, args.unroll_beats) == part and args.unroll == "frame"
    assert found.choice.manifest.timing.interval == design.timing["interval"]
    hardware = args.model_dump(exclude_unset=True)
    by_hand = {"quantize": QUANTIZE, "hardware": hardware}
    again = mase_hw.compile(net, x[:1], by_hand, out=tmp_path / "hand", calibration=[x], vectors=x)
    assert again.manifest["digest"] == design.manifest["digest"]


class Both(nn.Module):
    """Two vectors, and two results, one of which is made of the other; one vector lets the other through."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.last = nn.Linear(3, 4), nn.Linear(2, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.one(x) * torch.sigmoid(self.other(y))
        return self.last(hidden), hidden


def test_several_inputs_and_results(tmp_path: Path) -> None:
    """A network of two of each, with a product of data, is an expression where that takes less; as predicted."""
    torch.manual_seed(0)
    net, draw = Both().eval(), torch.Generator().manual_seed(1)
    data = (torch.rand(6, 3, generator=draw), torch.rand(6, 2, generator=draw))
    frame, settings = tuple(x[:1] for x in data), {"quantize": QUANTIZE, "target": {"interval": 1, "unrolled": 0}}
    found = fit(net, frame, settings, calibration=[data], front=False)
    part = found.choice.part
    assert part is not None and len(part.entries) == len(part.results) == 2 and not found.choice.args.unroll_last
    design = mase_hw.compile(net, frame, settings, out=tmp_path / "b", calibration=[data], vectors=data)
    assert [entry["parameters"].get("INPUTS", 0) for entry in design.manifest["instances"]].count(2) == 1
    result = design.simulate(engine="batch")
    assert result.passed and (result.fill, result.interval) == (found.choice.manifest.timing.fill, 1)
    graph = mapped_graph(net, frame, load_config({"quantize": QUANTIZE}), [data], lambda _: None)
    framed = Parts(graph, HardwareArgs(), goal({"interval": 4}, "xc7")).all
    assert {each.beats for each in framed} == {1} and framed[0].products == 12 + 8 + 8 + 4


def test_what_cannot_be_in_an_expression_is_said() -> None:
    net, x = network("softmax")
    found = fit(net, x[:1], {"quantize": QUANTIZE}, target={"interval": 1}, calibration=[x], front=False)
    assert list(found.choice.refused) == ["_3"] and "_3 cannot be in an expression: " in found.text()
    assert found.to_json()["refused"]["_3"].endswith("(op 'log_softmax')")
    shown = [way for way in found.to_json()["ways"] if way["chosen"]]
    assert len(shown) == 1 and shown[0]["interval"] == 1
    with pytest.raises(ConfigError, match="no design") as caught:
        fit(net, x[:1], {"quantize": QUANTIZE}, target={"interval": 1, "lut": 50}, calibration=[x], front=False)
    assert "not met by an expression either" in str(caught.value.remedy)


def test_no_expression_where_the_configuration_says_otherwise() -> None:
    graph, wanted = quantised("mlp"), goal({"interval": 1}, "xc7")
    named = HardwareArgs(parallelism={"2": {"data_in_0": 2, "data_out_0": 1}})
    assert {framed.nodes for framed in Parts(graph, named, wanted).all} == {("_0", "_1"), ("_4",)}
    for args, why in (
        (HardwareArgs(max_parallelism=8), "max_parallelism"),
        (HardwareArgs(parameters="ram"), "loaded"),
        (HardwareArgs(positions=2), "positions"),
    ):
        found = Parts(graph, args, wanted)
        assert not found.all and why in found.why
    assert not Parts(graph, HardwareArgs(), dataclasses.replace(wanted, whole_frames=0)).all
    assert not Parts(graph, HardwareArgs(), wanted, tokens=4).all
    with pytest.raises(ConfigError) as caught:
        goal({"interval": 1, "whole_frames": -1}, "xc7")
    assert caught.value.field == "whole_frames"


def test_larger_expressions_only_where_nothing_else_meets_the_target() -> None:
    """Four particles in a beat have 30 products, one has 12."""
    graph = quantised("particles")
    for interval, framed in ((1, True), (4, False)):
        wanted = goal({"interval": interval, "whole_frames": 1, "unrolled": 0}, "xc7")
        choice = choose(graph, HardwareArgs(), wanted)[1]
        assert (choice.part is not None) == framed
        assert choice.manifest.timing.interval <= interval
    products = {
        each.beats: each.products for each in Parts(graph, HardwareArgs(), wanted).all if not each.first + each.last
    }
    assert products[1] == 4 * 6 + 6 and products[4] == math.ceil(products[1] / 4)


def test_registers_are_placed_for_the_clock_of_the_target(tmp_path: Path) -> None:
    """On ECP5: more stages for a faster clock, what is predicted is measured; not where additions a stage are said."""
    net, x = network("particles")
    stages = {}
    for mhz in (40.0, 100.0):
        settings = {
            "quantize": QUANTIZE,
            "hardware": {"family": "ecp5"},
            "target": {"interval": 1, "mhz": mhz, "unrolled": 0},
        }
        found = fit(net, x[:1], settings, calibration=[x], front=False)
        assert (found.choice.args.unroll_mhz, found.choice.args.unroll_carry_save) == (mhz, False)
        assert [way["unroll_mhz"] for way in found.to_json()["ways"] if way["chosen"]] == [mhz]
        stages[mhz] = found.choice.manifest.timing.fill
    assert stages[40.0] < stages[100.0]
    design = mase_hw.compile(net, x[:1], settings, out=tmp_path / "b", calibration=[x], vectors=x)
    result = design.simulate(engine="batch")
    assert result.passed and (result.fill, result.interval) == (stages[100.0], 1)
    graph, wanted = quantised("particles"), goal({"interval": 1, "mhz": 100}, "ecp5")
    for said in ({"unroll_levels": 2}, {"unroll_mhz": 50.0}):
        assert {framed.mhz for framed in Parts(graph, HardwareArgs(**said), wanted).all} == {None}
    assert {framed.mhz for framed in Parts(graph, HardwareArgs(), goal({"interval": 1}, "xc7")).all} == {None}


def test_a_latency_in_nanoseconds_on_a_clock() -> None:
    """Every part also with carries saved: the choice is that of the fewest cycles; a clock that no stage reaches."""
    graph = quantised("particles")
    wanted = goal({"latency_ns": 200.0, "mhz": 100.0, "lut": 10**5}, "ecp5")
    parts = Parts(graph, HardwareArgs(), wanted)
    assert {framed.carry_save for framed in parts.all} == {False, True}
    chooser, choice = choose(graph, HardwareArgs(), wanted)
    last = choice.manifest.timing.last
    assert last == min(_every_way(graph, wanted)) and choice.args.unroll_mhz == 100.0
    assert chooser.goal.latency is not None and last + 1 <= chooser.goal.latency
    with pytest.raises(ConfigError, match="no design is as fast") as caught:
        choose(graph, HardwareArgs(), goal({"interval": 1, "mhz": 400.0}, "ecp5"))
    why = "the network as one expression, 1 beat per frame: one addition, cast or table by itself takes longer"
    assert why in str(caught.value.remedy)
