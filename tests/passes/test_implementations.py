"""Implementations and places of memories: chosen by family or configuration, refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cost import cost_of
from mase_hw.emit.estimate import estimate
from mase_hw.emit.passes import memory_files
from mase_hw.errors import ConfigError, EmitError, UnsupportedError


def compiled(out: Path, hardware: dict[str, Any], net: nn.Module | None = None) -> mase_hw.Design:
    """A small layer on 8 x 4 lanes, whose weights have no most negative code."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 4)) if net is None else net
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.9)
    data = torch.rand(4, 8) * 2 - 1
    lanes = {"parallelism": {"_0": {"data_in_0": 8, "data_out_0": 4}}}
    config = {"hardware": lanes | hardware}
    return mase_hw.compile(net.eval(), data[:1], config, out=out, calibration=[data], vectors=data)


def test_family_chooses(tmp_path: Path) -> None:
    design = compiled(tmp_path / "b", {"family": "xc7"})
    instances = {entry["module"]: entry for entry in design.manifest["instances"]}
    parameters = instances["fixed_linear"]["parameters"]
    assert (parameters["PACKED"], parameters["NARROW"], instances["fixed_linear"]["multipliers"]) == (2, 1, 16)
    # Few words in look-up tables, in front of registers of the layer's own.
    assert {(m["place"], m["registers"]) for m in design.manifest["memories"]} == {("lut", 0)}
    assert design.simulate(engine="batch").passed


def test_configured(tmp_path: Path) -> None:
    chosen = {"implementation": {"_0": "chain"}, "memory": {"_0.weight": "block"}}
    design = compiled(tmp_path / "b", {"family": "xc7", **chosen})
    instances = {entry["module"]: entry["parameters"] for entry in design.manifest["instances"]}
    assert (instances["fixed_linear"]["PACKED"], instances["fixed_linear"]["CHAIN"]) == (1, 8)
    places = {m["instance"]: (m["place"], m["registers"]) for m in design.manifest["memories"]}
    assert places == {"u__0_weight": ("block", 1), "u__0_bias": ("lut", 0)}


@pytest.mark.parametrize(("family", "together"), [("xc7", 2), ("ecp5", 1)])
def test_multipliers_of_look_up_tables(tmp_path: Path, family: str, together: int) -> None:
    """As many as products, none of which takes a block; cycles are those that were predicted."""
    design = compiled(tmp_path / "b", {"family": family, "implementation": {"_0": "logic"}})
    (layer,) = (entry for entry in design.manifest["instances"] if entry["module"] == "fixed_linear")
    found = {name: layer["parameters"][name] for name in ("PACKED", "CHAIN", "LOGIC")}
    assert found == {"PACKED": 1, "CHAIN": 0, "LOGIC": together} and layer["multipliers"] == 32
    assert cost_of("fixed_linear", layer["parameters"], family).dsp == 0
    played = design.simulate(engine="batch")
    assert played.passed and (played.fill, played.interval) == (design.timing["fill"], design.timing["interval"])


def test_blocks_cost_what_is_said(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, data = nn.Sequential(nn.Linear(16, 64)), torch.rand(2, 16)
    lanes = {"family": "xc7", "parallelism": {"_0": {"data_in_0": 1, "data_out_0": 1}}}
    places = []
    for cost in (None, 200):
        config = {"hardware": lanes | ({} if cost is None else {"block_cost": cost})}
        design = mase_hw.compile(net.eval(), data[:1], config, out=tmp_path / f"{cost}", calibration=[data])
        places += [m["place"] for m in design.manifest["memories"] if m["words"] == 1024]
    assert places == ["block", "lut"]


@pytest.mark.parametrize(
    ("hardware", "kind", "field"),
    [
        ({"memory": {"_0.weight": "ultra"}, "family": "xcup"}, UnsupportedError, "starts at zero"),
        ({"memory": {"_0.weight": "ultra"}, "family": "xc7"}, UnsupportedError, "not among what this family has"),
        ({"block_cost": 0}, ConfigError, "block_cost"),
        ({"implementation": {"fc": "packed"}}, ConfigError, "hardware.implementation.fc"),
        ({"order": {"_0": "rows_first"}}, ConfigError, "order"),
        ({"order": {"_1": "inputs_first"}}, ConfigError, "hardware.order._1"),
        ({"order": {"_0": "inputs_first"}, "implementation": {"_0": "unrolled"}}, ConfigError, "hardware.order._0"),
        ({"memory": {"_0.wieght": "lut"}}, ConfigError, "hardware.memory._0.wieght"),
        ({"implementation": {"_0": "packed"}, "family": "ecp5"}, UnsupportedError, "hardware.implementation._0"),
        ({"implementation": {"_0": "fast"}}, ConfigError, "implementation"),
        ({"fast_clock": ["_1"]}, ConfigError, "hardware.fast_clock._1"),
        ({"family": "xc8"}, ConfigError, "family"),
    ],
)
def test_refused(tmp_path: Path, hardware: dict[str, Any], kind: type[Exception], field: str) -> None:
    with pytest.raises(kind) as caught:
        compiled(tmp_path / "b", hardware)
    assert field in str(caught.value) and not (tmp_path / "b").exists()


@pytest.mark.parametrize(("family", "lift", "spacing"), [("xc7", 1, 17), ("xcup", 0, 18)])
def test_the_most_negative_weight(tmp_path: Path, family: str, lift: int, spacing: int) -> None:
    """It takes no block more: where operands have 25 bits weights are lifted, where they have 27 they need not be."""
    net = nn.Sequential(nn.Linear(8, 4))
    with torch.no_grad():
        net[0].weight[:2, :6] = -0.5 / 0.9
    design = compiled(tmp_path / "b", {"family": family}, net)
    (layer,) = (entry for entry in design.manifest["instances"] if entry["module"] == "fixed_linear")
    found = {name: layer["parameters"][name] for name in ("PACKED", "CHAIN", "SPACING", "NARROW", "LIFT")}
    assert found == {"PACKED": 2, "CHAIN": 8, "SPACING": spacing, "NARROW": 0, "LIFT": lift}
    assert layer["multipliers"] == 16 and design.simulate(engine="batch").passed


def test_filters_of_one_channel_share(tmp_path: Path) -> None:
    """Two filters for every channel: no depthwise convolution, and two lanes have one activation."""
    net = nn.Sequential(nn.Conv2d(2, 4, 2, groups=2))
    data = torch.rand(2, 2, 3, 3)
    lanes = {"parallelism": {"_0": {"data_in_0": 1, "data_out_0": 2}}}
    config = {"hardware": {**lanes, "implementation": {"_0": "packed"}, "family": "xc7"}}
    design = mase_hw.compile(net.eval(), data[:1], config, out=tmp_path / "b", calibration=[data], vectors=data)
    (layer,) = (entry for entry in design.manifest["instances"] if entry["module"] == "fixed_conv2d")
    assert layer["parameters"]["PACKED"] == 2 and layer["multipliers"] == 1 and design.simulate(engine="batch").passed


def test_depthwise_shares_nothing(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4))
    data = torch.rand(2, 4, 5, 5)
    config = {"hardware": {"implementation": {"_0": "packed"}}}
    with pytest.raises(UnsupportedError, match="no two output lanes share an activation"):
        mase_hw.compile(net.eval(), data[:1], config, out=tmp_path / "b", calibration=[data])


def test_only_single_pixels_are_used_as_they_come(tmp_path: Path) -> None:
    net, data = nn.Sequential(nn.Conv2d(8, 8, 3)), torch.rand(2, 8, 5, 5)
    config = {"hardware": {"order": {"_0": "inputs_first"}}}
    with pytest.raises(UnsupportedError, match="window is one pixel"):
        mase_hw.compile(net.eval(), data[:1], config, out=tmp_path / "b", calibration=[data])
    assert not (tmp_path / "b").exists()


def test_weights_that_changed(tmp_path: Path) -> None:
    """A module that was chosen for weights without the most negative code is not given one."""
    design = compiled(tmp_path / "b", {"family": "xc7"})
    graph = design._with_graph()
    module = graph.meta_of(graph.node("_0")).module
    with torch.no_grad():
        module.weight[0, 0] = -1000.0
    with pytest.raises(EmitError, match="most negative code"):
        memory_files(graph, graph.meta["netlist"])


def test_orders_that_alternate_overlap(tmp_path: Path) -> None:
    """Of two layers the second uses every tile of the first as it comes: same bits, multipliers and interval."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)).eval()
    data = torch.randn(6, 64)
    found = []
    for number, order in enumerate(({}, {"_2": "inputs_first"})):
        lanes = {"_0": {"data_in_0": 4}, "_2": {"data_in_0": 4}, "_4": {"data_in_0": 4, "data_out_0": 1}}
        config = {"hardware": {"parallelism": lanes, "order": order}}
        design = mase_hw.compile(net, data[:1], config, out=tmp_path / str(number), calibration=[data], vectors=data)
        played = design.simulate(data, engine="batch")
        assert played.passed
        multipliers = sum(entry.get("multipliers") or 0 for entry in design.manifest["instances"])
        found.append((played.output, multipliers, played.interval, played.fill, design.manifest["timing"]))
    plain, other = found
    assert (plain[0] == other[0]).all() and plain[1:3] == other[1:3]
    assert other[3] <= 0.6 * plain[3]
    for _, _, interval, fill, timing in found:
        assert (timing["fill"], timing["interval"]) == (fill, interval), timing


class Rows(nn.Module):
    """A norm of sums, and softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.shares = nn.RMSNorm(12), nn.Softmax(-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shares(self.norm(x + 0.5))


def test_stages_of_rows(tmp_path: Path) -> None:
    """Registers of single nodes, bits of a quotient by stage, and multipliers in turn, in the predicted cycles."""
    torch.manual_seed(4)
    data, found = torch.randn(3, 5, 12), {}
    wide = {"by": "type", "default": {"config": dict.fromkeys(("data_in_width", "data_out_width", "weight_width"), 16)}}
    for name, hardware in {
        "plain": {},
        "fast": {"fast_clock": ["add", "shares"]},
        "levels": {"adder_levels": {"shares": 4}},
        "in_turn": {"implementation": {"norm": "in_turn"}},
        "fast_in_turn": {"implementation": {"norm": "in_turn"}, "fast_clock": ["norm"]},
    }.items():
        config = {"quantize": wide, "hardware": {"family": "ecp5", "max_parallelism": 2, **hardware}}
        design = mase_hw.compile(Rows(), data[:1], config, out=tmp_path / name, calibration=[data], vectors=data)
        played = design.simulate(data, engine="batch")
        assert played.passed
        assert (played.fill, played.interval) == (design.timing["fill"], design.timing["interval"])
        found[name] = played, estimate(design.record, "ecp5")
    (shares,) = (e["parameters"] for e in design.manifest["instances"] if e["module"] == "fixed_softmax")
    bits = 2 + shares["DATA_OUT_0_PRECISION_1"]
    plain, area = found["plain"]
    assert all(bool((played.output == plain.output).all()) for played, _ in found.values())
    assert {name: played.fill - plain.fill for name, (played, _) in found.items()} == {
        "plain": 0,
        "fast": 1 + 2,
        "levels": -(-bits // 4) - bits,
        "in_turn": 0,
        "fast_in_turn": 1,
    }
    # Of 2 squares, 2 products and the root two multipliers are left; 2 * 6 beats of a row, 16 + 1 cycles between.
    assert area["dsp"] - found["in_turn"][1]["dsp"] == 3
    assert found["in_turn"][0].interval == 5 * (2 * 6 + 16 + 1) > plain.interval
    assert found["fast_in_turn"][0].interval == 5 * (2 * 6 + 17 + 1)
    with pytest.raises(ConfigError, match="a bit of the quotient"):
        config = {"hardware": {"adder_levels": {"shares": 0}}}
        mase_hw.compile(Rows(), data[:1], config, out=tmp_path / "none", calibration=[data])


def test_a_fast_clock_costs_a_cycle_a_layer(tmp_path: Path) -> None:
    """Registers where long paths begin: the same bits and interval, as many cycles more as there are linear layers."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    data = torch.randn(5, 16)
    lanes = {name: {"data_in_0": 4, "data_out_0": 2} for name in ("_0", "_2")}
    found = []
    for fast in (False, True):
        config = {"hardware": {"parallelism": lanes, "family": "ecp5", "fast_clock": fast}}
        design = mase_hw.compile(net, data[:1], config, out=tmp_path / str(fast), calibration=[data], vectors=data)
        played = design.simulate(data, engine="batch")
        assert played.passed
        assert (played.fill, played.interval) == (design.timing["fill"], design.timing["interval"])
        parameters = [e["parameters"] for e in design.manifest["instances"] if e["module"] == "fixed_linear"]
        assert [p["AHEAD"] for p in parameters] == [int(fast)] * 3
        found.append((played.output, played.interval, played.fill))
    plain, other = found
    assert (plain[0] == other[0]).all() and plain[1] == other[1]
    assert other[2] == plain[2] + 3
