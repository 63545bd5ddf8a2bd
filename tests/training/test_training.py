"""Networks trained in low precision: from prepare to a bundle that simulates bit for bit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import verify_analysis_pass
from mase_hw.passes.explanation import explain
from mase_hw.training import TrainingModel, prepare
from tests.passes.digits import accuracy, digits
from tests.unit.pipeline import rule


class Branches(nn.Module):
    """A residual sum, a constant, stored weights of a function, one layer used twice, pooling, concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm, self.relu, self.pool = nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
        self.twice = nn.Conv2d(4, 4, 1)
        self.weight = nn.Parameter(torch.randn(5, 16) * 0.2)
        self.last = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.relu(self.norm(self.conv(x))))
        y = self.relu(y + self.twice(self.relu(self.twice(y))))
        z = F.linear(y.flatten(1), self.weight) * 0.75
        return self.last(torch.cat([z, self.relu(z)], 1))


def small() -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), list(torch.rand(48, 6).split(16))


CONFIG = {"quantize": {"default": rule(data_in_width=4, weight_width=3, bias_width=12, data_out_width=4)}}


def train(model: nn.Module, data: list[Tensor], steps: int, rate: float = 1e-2) -> None:
    """An ordinary loop against fixed random targets."""
    torch.manual_seed(1)
    with torch.no_grad():
        targets = [torch.randn(model(x).shape) for x in data]
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    model.train()
    for _ in range(steps):
        for x, y in zip(data, targets, strict=True):
            optimiser.zero_grad()
            (model(x) - y).square().mean().backward()
            optimiser.step()
    model.eval()


def layers(graph: MaseGraph) -> dict[str, Quantized]:
    return {n.name: m for n in graph.nodes if isinstance(m := graph.meta_of(n).module, Quantized)}


@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_what_is_trained_is_what_hardware_computes(granularity: str) -> None:
    """Once the steps are powers of two: the frozen graph gives the bits of the trained model."""
    torch.manual_seed(0)
    net, data = Branches(), list(torch.rand(32, 2, 4, 4).split(16))
    config: dict[str, Any] = copy.deepcopy(CONFIG)
    if granularity == "channel":
        config["quantize"]["overrides"] = {"conv": {"config": {"weight_granularity": "channel"}}}
    for x in data:
        net.train()(x)
    before = {name: value.clone() for name, value in net.eval().state_dict().items()}
    model = prepare(net, data[0][:1], config, calibration=data)
    train(model, data, 5)
    model.round_steps()
    train(model, data, 3)
    graph = model.freeze()
    verify_analysis_pass(graph)
    x = torch.rand(64, 2, 4, 4) * 1.2 - 0.1
    with torch.no_grad():
        wanted, found = model(x), graph.model(x)
    assert torch.equal(wanted, found) and len(found.unique()) > 4
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), "the float model belongs to the caller"


def test_parameters_and_formats_are_those_that_were_learned() -> None:
    net, data = small()
    model = prepare(net, data[0][:1], CONFIG, calibration=data)
    first = model.freeze()
    train(model, data, 30)
    with torch.no_grad():
        for step in model.steps()[:2]:
            step.mul_(2)
    steps = {id(step): step.item() for step in model.steps()}
    graph = model.freeze()
    assert {id(step): step.item() for step in model.steps()} == steps, "freezing a copy changes nothing"
    changed = 0
    for name, module in layers(graph).items():
        formats = module.arithmetic.formats
        changed += formats != layers(first)[name].arithmetic.formats
        for tensor in module.parameter_names:
            assert not torch.equal(getattr(module, tensor), getattr(layers(first)[name], tensor))
        for tensor, fmt in formats.items():
            assert fmt.width == layers(first)[name].arithmetic.formats[tensor].width
            assert graph.tensor(graph.node(name), tensor).fmt == fmt
    assert changed, "formats follow"
    assert len({id(p) for p in model.weights()}) == 4 and len(model.weights()) == 4
    assert "learned in training" in str(explain(graph, next(iter(layers(graph)))))


def test_a_trained_network_goes_straight_into_hardware(tmp_path: Path) -> None:
    """Graph and model compile without emission by hand: the trained mantissas, and every bit in simulation."""
    net, data = small()
    model = prepare(net, data[0][:1], CONFIG, calibration=data)
    train(model, data, 20)
    model.round_steps()
    train(model, data, 10)
    graph = model.freeze()
    from_graph = mase_hw.compile(graph, data[0][:1], CONFIG, out=tmp_path / "graph")
    from_model = mase_hw.compile(graph.model, data[0][:1], CONFIG, out=tmp_path / "model", calibration=data)
    for design in (from_graph, from_model):
        for name, module in layers(graph).items():
            made = layers(design.graph)[name]
            assert made.arithmetic == module.arithmetic
            for tensor in module.parameter_names:
                value = model.nodes[name].trained[tensor].detach().double()  # type: ignore[union-attr, operator]
                fmt = made.arithmetic.formats[tensor]
                codes = (value * 2.0**fmt.frac_width).round().clamp(fmt.min_mantissa, fmt.max_mantissa)
                assert torch.equal(made.mantissa(tensor).double(), codes)
    files = {p.name: p.read_bytes() for p in (tmp_path / "graph" / "mem").iterdir()}
    assert files and files == {p.name: p.read_bytes() for p in (tmp_path / "model" / "mem").iterdir()}
    inputs = torch.cat(data)[:8]
    simulation = from_graph.simulate(inputs, engine="batch")
    assert simulation.passed and simulation.frames == 8
    with torch.no_grad():
        assert torch.equal(simulation.output.float(), model(inputs))


def test_a_float_graph_compiles_as_its_model(tmp_path: Path) -> None:
    net, data = small()
    made = [
        mase_hw.compile(each, data[0][:1], CONFIG, out=tmp_path / name, calibration=data)
        for name, each in (("model", net), ("graph", MaseGraph(net)))
    ]
    with torch.no_grad():
        assert torch.equal(made[0].model(data[0]), made[1].model(data[0]))


def test_a_part_in_float_is_refused(tmp_path: Path) -> None:
    net, data = small()
    model = prepare(net, data[0][:1], CONFIG, calibration=data)
    mixed = nn.Sequential(model.freeze().model, nn.Tanh())
    with pytest.raises(GraphError, match="in float"):
        mase_hw.compile(mixed, data[0][:1], out=tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_what_cannot_be_trained() -> None:
    net, data = small()
    frozen = prepare(net, data[0][:1], CONFIG, calibration=data).freeze()
    with pytest.raises(GraphError, match="quantised already"):
        prepare(frozen, data[0][:1], CONFIG, calibration=data)
    wrap = {"quantize": {"default": rule(overflow="wrap")}}
    with pytest.raises(UnsupportedError, match="cannot be trained"):
        prepare(net, data[0][:1], wrap, calibration=data)


def test_two_bits_on_digits() -> None:
    """A few epochs bring a network of 2 bits, which as it was quantised is useless or nearly so, above 90 %."""
    d = digits()
    config = {
        "calibrate": {"method": "mse", "weight_method": "mse"},
        "quantize": {
            "default": rule(data_in_width=2, weight_width=2, bias_width=16, data_out_width=2),
            "overrides": {"fc3": {"config": {"data_out_width": 16}}},
        },
    }
    model: TrainingModel = prepare(d.net, d.test[0][:1], config, calibration=list(d.train[0].split(512)))
    before = accuracy(model.eval(), *d.test)
    torch.manual_seed(0)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for epoch in range(10):
        model.train()
        if epoch == 5:
            model.round_steps()
        for batch in torch.randperm(len(d.train[0])).split(64):
            optimiser.zero_grad()
            F.cross_entropy(model(d.train[0][batch]), d.train[1][batch]).backward()
            optimiser.step()
    graph = model.eval().freeze()
    after = accuracy(graph.model, *d.test)
    print(f"2 bits: {before:.4f} before, {after:.4f} after 10 epochs")
    assert before < 0.87 and after > 0.9
    with torch.no_grad():
        assert torch.equal(graph.model(d.test[0]), model(d.test[0]))
