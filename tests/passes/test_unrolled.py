"""Layers whose constants are shifts and additions: bits and cycles of whole models, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.build import build_netlist
from mase_hw.errors import ConfigError, EmitError, MaseHwError, ToolError, UnsupportedError
from mase_hw.ops.unrolled import conv
from mase_hw.ops.unrolled import unrolled as layers
from mase_hw.passes.mapping import args as hardware_args

UNROLLED = hardware_args.UNROLLED


def compiled(
    out: Path, net: nn.Module, shape: tuple[int, ...], hardware: dict[str, Any], **more: Any
) -> mase_hw.Design:
    """A model with random weights and eight frames of random data."""
    torch.manual_seed(0)
    data = torch.rand(8, *shape) * 2 - 1
    config = {"hardware": hardware, **more}
    return mase_hw.compile(net.eval(), data[:1], config, out=out, calibration=[data], vectors=data)


def mlp() -> nn.Module:
    """Three layers, activations between them."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def test_a_whole_network(tmp_path: Path) -> None:
    """A vector per cycle, no multiplier, no memory; bits and cycles as predicted, at full rate and under stalls."""
    hardware = {"implementation": {f"_{i}": UNROLLED for i in (0, 2, 4)}, "adder_levels": {"_0": 1, "_2": 0}}
    design = compiled(tmp_path / "b", mlp(), (6,), hardware)
    assert design.manifest["timing"]["interval"] == 1 and not design.manifest["memories"]
    made = [entry for entry in design.manifest["instances"] if "ADDER_BITS" in entry["parameters"]]
    assert [entry["module"] for entry in made] == [f"fixed_unrolled__{i}" for i in (0, 2, 4)]
    assert sum(entry.get("multipliers", 0) for entry in design.manifest["instances"]) == 0
    files = {path for path in design.manifest["files"] if "unrolled" in path}
    assert files == {f"rtl/ops/{entry['module']}.sv" for entry in made} <= set(design.manifest["rtl"])
    for result in (design.simulate(engine="batch"), design.simulate(stalls=0.4, engine="batch")):
        assert result.passed, result
    again = compiled(tmp_path / "again", mlp(), (6,), hardware)
    assert again.manifest["files"] == design.manifest["files"]


def test_beside_folded_layers_and_in_another_order(tmp_path: Path) -> None:
    """A convolution of one element, one that is folded, and a layer whose input comes channels last."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 2), nn.Flatten(), nn.Linear(18, 5))
    design = compiled(tmp_path / "b", net, (3, 4, 4), {"implementation": {"_0": UNROLLED, "_4": UNROLLED}})
    modules = [entry["module"] for entry in design.manifest["instances"]]
    assert {"fixed_unrolled__0", "fixed_conv2d", "fixed_unrolled__4"} <= set(modules)
    for result in (design.simulate(engine="batch"), design.simulate(stalls=0.3, engine="batch")):
        assert result.passed, result


def test_windows_without_a_multiplier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding, groups, a stride: a window per cycle, as predicted; elements in another order are seen."""
    torch.manual_seed(4)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 3, 2, stride=2)
    )
    hardware = {"implementation": {f"_{i}": UNROLLED for i in (0, 2, 3)}}
    design = compiled(tmp_path / "b", net, (1, 6, 6), hardware)
    assert sum(entry.get("multipliers", 0) for entry in design.manifest["instances"]) == 0
    assert design.timing["interval"] == 36 and design.timing["exact"]
    assert design.simulate(stalls=0.4, engine="batch").passed
    result = design.simulate(engine="batch")
    assert result.passed and (result.fill, result.interval) == (design.timing["fill"], 36)
    right = conv.context_of
    monkeypatch.setattr(conv, "context_of", lambda *given: right(*given[:3], given[3][::-1], given[4]))
    wrong = compiled(tmp_path / "wrong", net, (1, 6, 6), hardware)
    assert not wrong.simulate(engine="batch", check=False, diagnose=False).passed


class Gate(nn.Module):
    """Attention over places: a map of one channel weighs what it was made of."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.c(x))


@pytest.mark.parametrize(
    ("net", "layer", "shape"),
    [
        (lambda: nn.Sequential(nn.Conv2d(3, 1, 1)), "_0", (3, 3, 2)),
        (lambda: nn.Sequential(nn.Conv2d(1, 3, 1)), "_0", (1, 3, 2)),
        (lambda: nn.Sequential(nn.Conv2d(1, 1, 1)), "_0", (1, 3, 2)),
        (lambda: nn.Sequential(nn.Conv1d(3, 1, 1)), "_0", (3, 5)),
        (Gate, "c", (3, 3, 2)),
    ],
    ids=["to_one", "of_one", "one_to_one", "sequence", "beside_a_fork"],
)
def test_one_channel(net: Callable[[], nn.Module], layer: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """A pixel is a vector, of whatever length: as many beats as pixels, and the bits of the folded layer."""
    torch.manual_seed(5)
    model = net()
    unrolled, folded = (
        compiled(tmp_path / str(kind), model, shape, {"implementation": {layer: kind} if kind else {}})
        for kind in (UNROLLED, None)
    )
    made = next(entry for entry in unrolled.manifest["instances"] if "ADDER_BITS" in entry["parameters"])["parameters"]
    channels = {name: getattr(model.get_submodule(layer.strip("_")), f"{name}_channels") for name in ("in", "out")}
    for name, count in channels.items():
        port = f"DATA_{name.upper()}_0"
        assert made[f"{port}_TENSOR_SIZE_DIM_0"] == made[f"{port}_PARALLELISM_DIM_0"] == count
    data = torch.rand(3, *shape) * 2 - 1
    assert torch.equal(unrolled.model(data), folded.model(data))
    result = unrolled.simulate(data, engine="batch")
    assert result.passed and result.interval == unrolled.timing["interval"] == data[0, 0].numel()


def test_channels_with_formats_of_their_own(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(5, 4))
    with torch.no_grad():
        net[0].weight.mul_(torch.tensor([1.0, 0.2, 0.01, 4.0])[:, None])
    weights = {"weight_width": 6, "weight_granularity": "channel"}
    quantize = {"by": "type", "default": {"config": {"name": "fixed", **weights}}}
    design = compiled(tmp_path / "b", net, (2, 5), {"implementation": {"_0": UNROLLED}}, quantize=quantize)
    assert design.simulate(engine="batch").passed


def test_weights_that_changed(tmp_path: Path) -> None:
    """The module is made for the weights that there were; others need other hardware."""
    design = compiled(tmp_path / "b", nn.Sequential(nn.Linear(6, 5)), (6,), {"implementation": {"_0": UNROLLED}})
    graph = design._with_graph()
    with torch.no_grad():
        graph.meta_of(graph.node("_0")).module.weight.mul_(0.3)
    with pytest.raises(EmitError, match="constants of an unrolled layer have changed"):
        build_netlist(graph)


REFUSED: dict[str, tuple[nn.Module, tuple[int, ...], dict[str, Any], type[MaseHwError], str]] = {
    "lanes": (
        nn.Sequential(nn.Linear(6, 5)),
        (6,),
        {"implementation": {"_0": UNROLLED}, "parallelism": {"_0": {"data_in_0": 2}}},
        UnsupportedError,
        "a whole vector per cycle",
    ),
    "no layer": (
        nn.Sequential(nn.Linear(6, 5), nn.ReLU()),
        (6,),
        {"implementation": {"_1": UNROLLED}},
        ConfigError,
        "a node without several",
    ),
    "levels of a folded layer": (
        nn.Sequential(nn.Linear(6, 5)),
        (6,),
        {"adder_levels": {"_0": 2}},
        ConfigError,
        "hardware.adder_levels._0",
    ),
    "a solver that there is not": (
        nn.Sequential(nn.Linear(6, 5)),
        (6,),
        {"implementation": {"_0": UNROLLED}, "constant_solver": "best"},
        ConfigError,
        "constant_solver",
    ),
    "negative levels": (
        nn.Sequential(nn.Linear(6, 5)),
        (6,),
        {"implementation": {"_0": UNROLLED}, "adder_levels": {"_0": -1}},
        ConfigError,
        "adder_levels",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    net, shape, hardware, kind, says = REFUSED[name]
    with pytest.raises(kind, match=says):
        compiled(tmp_path / "b", net, shape, hardware)
    assert not (tmp_path / "b").exists()


def test_another_solver_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "da4ml", None)
    hardware = {"implementation": {"_0": UNROLLED}, "constant_solver": "da4ml"}
    with pytest.raises(ToolError, match="da4ml is not installed"):
        compiled(tmp_path / "b", nn.Sequential(nn.Linear(6, 5)), (6,), hardware)
    assert not (tmp_path / "b").exists()


def test_another_solver(tmp_path: Path) -> None:
    """Another graph, the same bits."""
    pytest.importorskip("da4ml", reason="needs the extra da4ml: pip install 'mase-hw[da4ml]'")
    net = nn.Sequential(nn.Linear(6, 5))
    found = {}
    for solver in ("own", "da4ml"):
        hardware = {"implementation": {"_0": UNROLLED}, "constant_solver": solver}
        design = compiled(tmp_path / solver, net, (6,), hardware)
        assert design.simulate(engine="batch").passed
        found[solver] = design.manifest["files"]
    module = "rtl/ops/fixed_unrolled__0.sv"
    assert found["own"].pop(module) != found["da4ml"].pop(module)
    assert found["own"]["vectors/data_out_0.mem"] == found["da4ml"]["vectors/data_out_0.mem"]


class Product(nn.Module):
    """Both matrices are streams."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, x.transpose(1, 2))


def test_weights_that_are_a_stream_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a node without several"):
        compiled(tmp_path / "b", Product(), (3, 4), {"implementation": {"matmul": UNROLLED}})
    assert not (tmp_path / "b").exists()


def test_too_many_constants_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_DIGITS", 20)
    with pytest.raises(UnsupportedError, match="too many constants") as caught:
        compiled(tmp_path / "b", nn.Sequential(nn.Linear(6, 5)), (6,), {"implementation": {"_0": UNROLLED}})
    assert "fold this layer" in str(caught.value) and not (tmp_path / "b").exists()
