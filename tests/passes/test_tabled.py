"""Layers whose neurons are truth tables: bits and cycles of whole models, what is refused, and what ``fit`` chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import default_catalogue, verilog_params
from mase_hw.cost.model import cost_of
from mase_hw.emit.build import build_netlist
from mase_hw.errors import ConfigError, EmitError, UnsupportedError
from mase_hw.opdef import Arithmetic, Request
from mase_hw.ops.unrolled import _neurons, conv
from mase_hw.ops.unrolled._network import Network

from .test_unrolled import compiled

TABLE = "table"
NARROW = {"quantize": {"default": {"config": {"data_in_width": 3, "weight_width": 4, "data_out_width": 3}}}}


def thinned(layer: nn.Linear | nn.Conv2d, fan_in: int) -> nn.Module:
    """A layer whose neurons read so many inputs, another number of them each: 0 up to the fan-in."""
    with torch.no_grad():
        rows = layer.weight.flatten(1)
        order = torch.rand(rows.shape).argsort(1).argsort(1)
        limits = fan_in - torch.arange(len(rows)) % (fan_in + 1)
        layer.weight.mul_((order < limits[:, None]).reshape(layer.weight.shape)).mul_(4)
    return layer


def mlp() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        thinned(nn.Linear(9, 7), 4), nn.ReLU(), thinned(nn.Linear(7, 6), 3), nn.ReLU(), nn.Linear(6, 3)
    )


def test_beside_folded_layers(tmp_path: Path) -> None:
    """A vector per cycle in front of multipliers; bits and cycles as predicted, at full rate and under stalls."""
    hardware = {"implementation": {"_0": TABLE, "_2": TABLE}, "family": "xc7"}
    design = compiled(tmp_path / "b", mlp(), (9,), hardware, **NARROW)
    made = [entry for entry in design.manifest["instances"] if "LUTS_6" in entry["parameters"]]
    assert [entry["module"] for entry in made] == ["fixed_tabled__0", "fixed_tabled__2"]
    assert not any(entry.get("multipliers", 0) for entry in made)
    for stalls in (0.0, 0.4):
        result = design.simulate(stalls=stalls, engine="batch")
        assert result.passed, result


def test_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding, groups, a stride: a window per cycle, as predicted; elements in another order are seen."""
    torch.manual_seed(4)
    net = nn.Sequential(
        thinned(nn.Conv2d(1, 4, 3, padding=1), 4),
        nn.ReLU(),
        thinned(nn.Conv2d(4, 4, 3, padding=1, groups=4), 3),
        thinned(nn.Conv2d(4, 3, 2, stride=2), 4),
    )
    hardware = {"implementation": {f"_{i}": TABLE for i in (0, 2, 3)}}
    design = compiled(tmp_path / "b", net, (1, 6, 6), hardware, **NARROW)
    assert sum(entry.get("multipliers", 0) for entry in design.manifest["instances"]) == 0
    assert design.timing["interval"] == 36 and design.timing["exact"]
    result = design.simulate(engine="batch")
    assert result.passed and (result.fill, result.interval) == (design.timing["fill"], 36)
    right = conv.order_of
    monkeypatch.setattr(conv, "order_of", lambda p: right(p)[::-1])
    wrong = compiled(tmp_path / "wrong", net, (1, 6, 6), hardware, **NARROW)
    assert not wrong.simulate(engine="batch", check=False, diagnose=False).passed


def test_a_wrong_word_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = _neurons.neurons

    def turned(network: Network, *given: Any) -> Any:
        found = right(network, *given)
        for number in {*map(int, found)} & network.made.keys():
            made: Any = network.made[number]
            network.made[number] = type(made)(made.values, made.table[::-1])
        return found

    monkeypatch.setattr("mase_hw.ops.unrolled.tabled.neurons", turned)
    design = compiled(tmp_path / "b", mlp(), (9,), {"implementation": {"_0": TABLE}}, **NARROW)
    assert not design.simulate(engine="batch", check=False, diagnose=False).passed


def test_weights_that_changed(tmp_path: Path) -> None:
    design = compiled(tmp_path / "b", mlp(), (9,), {"implementation": {"_0": TABLE}}, **NARROW)
    graph = design.graph
    assert graph is not None
    node = next(n for n in graph.nodes if n.name == "_0")
    module: Any = graph.meta_of(node).module
    with torch.no_grad():
        module.weight.zero_()
    with pytest.raises(EmitError, match="have changed since its hardware was chosen"):
        build_netlist(graph)


@pytest.mark.parametrize(
    ("hardware", "quantize", "error", "says"),
    [
        ({"implementation": {"_4": TABLE}}, NARROW, UnsupportedError, "18 bits read by one neuron; 3 of 3 neurons"),
        ({"implementation": {"_0": TABLE}}, {}, UnsupportedError, "32 bits read by one neuron; 5 of 7 neurons"),
        (
            {"implementation": {"_0": TABLE}, "parallelism": {"_0": {"data_in_0": 3}}},
            NARROW,
            UnsupportedError,
            "9 lanes",
        ),
        ({"implementation": {"_0": TABLE}, "adder_levels": {"_0": 2}}, NARROW, ConfigError, "adder_levels._0"),
        ({"implementation": {"_0": TABLE}, "order": {"_0": "inputs_first"}}, NARROW, ConfigError, "order._0"),
    ],
    ids=["dense", "wide", "lanes", "levels", "order"],
)
def test_refused(hardware: Any, quantize: Any, error: type[Exception], says: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=says):
        compiled(tmp_path / "b", mlp(), (9,), hardware, **quantize)
    assert not (tmp_path / "b").exists()


def test_fit_chooses_among_all_ways(tmp_path: Path) -> None:
    """A sparse layer is cheapest as tables, a dense one of few weights as additions; without both, as multipliers."""
    torch.manual_seed(0)
    net = nn.Sequential(thinned(nn.Linear(24, 16), 2), nn.ReLU(), nn.Linear(16, 8))
    data: Tensor = torch.rand(8, 24) * 2 - 1
    target = {"interval": 1, "device": "xc7a35t", "minimise": "area", "unrolled": 600, "whole_frames": 0}
    design = mase_hw.compile(net, data[:1], NARROW, out=tmp_path / "b", calibration=[data], vectors=data, target=target)
    modules = {entry["module"] for entry in design.manifest["instances"]}
    assert {"fixed_tabled__0", "fixed_unrolled__2"} <= modules
    found = design.simulate(engine="batch")
    assert found.passed and found.interval == 1


@pytest.mark.parametrize(("threshold", "luts_6", "luts_4"), [(3, 1, 4), (0, 0, 0)], ids=["majority", "always"])
def test_look_up_tables_of_a_neuron(threshold: int, luts_6: int, luts_4: int) -> None:
    """By hand: whether more than three of six bits are 1 is one look-up table of six inputs, or four of four."""
    weight, bias = torch.ones(1, 7, dtype=torch.int64), torch.tensor([-threshold if threshold else 1])
    weight[0, 4] = 0
    parameters = {"weight": weight, "bias": bias}
    a = Arithmetic.read("u1.0 s2.0 s4.0 u1.0", ("data_in_0", "weight", "bias", "data_out_0"))
    shapes = {"data_in_0": (1, 7), "data_out_0": (1, 1)}
    facets = default_catalogue()["tabled_linear"].hardware
    assert facets is not None
    found: Any = facets.build(Request("neuron", a, shapes, {}, parameters=parameters))
    assert (found.tables, found.luts_6, found.luts_4) == (int(threshold > 0), luts_6, luts_4)
    assert cost_of(facets.module, verilog_params(found), "xc7").lut == luts_6
    assert cost_of(facets.module, verilog_params(found), "ecp5").lut == luts_4
