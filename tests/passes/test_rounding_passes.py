"""The passes that round weights and correct biases: what they change, what they leave, and what a network gains."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.nn import Quantized
from mase_hw.passes import (
    calibrate_analysis_pass,
    correct_bias_transform_pass,
    fold_batch_norm_transform_pass,
    keep_float_analysis_pass,
    lower_slices_transform_pass,
    quantize_transform_pass,
    round_weights_transform_pass,
)
from mase_hw.passes.quantize.rounding.bias import relu_mean
from mase_hw.passes.quantize.rounding.layers import Layer
from tests.ir.nets import annotated
from tests.passes.digits import Digits, accuracy, digits, digits_cnn
from tests.unit.pipeline import WIDTHS, rule


class Mixed(nn.Module):
    """A grouped, strided, dilated convolution, one of one dimension, and two linear layers, one without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 6, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=2)
        self.norm, self.relu = nn.BatchNorm2d(6), nn.ReLU()
        self.fc = nn.Linear(8, 5, bias=False)
        self.line = nn.Conv1d(6, 3, 3, padding=1)
        self.last = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(self.relu(self.norm(self.conv(x))).flatten(2)[..., :8])
        return self.last(self.line(y).transpose(1, 2))


def graphs(bits: int = 4, **keys: Any) -> tuple[MaseGraph, MaseGraph, list[Tensor]]:
    """The float graph, the quantised one, and data."""
    torch.manual_seed(1)
    net = Mixed()
    data = list(torch.rand(48, 4, 6, 8).split(16))
    for x in data:
        net.train()(x)
    graph = annotated(net.eval(), {"x": data[0][:1]})
    fold_batch_norm_transform_pass(graph)
    lower_slices_transform_pass(graph)
    calibrate_analysis_pass(graph, {"data": data, "method": "mse", "weight_method": "mse"})
    exact = copy_graph(graph)
    config = {"default": rule(**{**WIDTHS, "weight_width": bits, "bias_width": 16, **keys})}
    return exact, quantize_transform_pass(graph, config)[0], data


def layers(graph: MaseGraph) -> dict[str, Quantized]:
    return {n.name: layer.module for n in graph.nodes if (layer := Layer.of(graph, n)) is not None}


def values(graph: MaseGraph, x: Tensor) -> dict[str, Any]:
    """What every node gives, by an interpreter of torch's own."""
    found: dict[str, Any] = {}

    class Kept(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            found[n.name] = super().run_node(n)
            return found[n.name]

    with torch.no_grad():
        Kept(graph.model).run(x)
    return found


def test_layers_as_products_give_what_the_modules_give() -> None:
    """Unfolding is right for groups, strides, dilation, padding and one dimension."""
    exact, graph, data = graphs()
    seen = values(exact, data[0])
    for node in exact.nodes:
        if node.name in layers(graph):
            layer = Layer(graph, graph.node(node.name), layers(graph)[node.name])
            product = layer.inputs(seen[node.args[0].name]) @ layer.weight().mT
            wanted = layer.outputs(seen[node.name]) - layer.bias().reshape(layer.groups, 1, -1)
            assert torch.allclose(product, wanted, atol=1e-5), node.name


@pytest.mark.parametrize("granularity", ["tensor", "channel"])
@pytest.mark.parametrize("method", ["gptq", "adaround"])
def test_values_of_the_grid_take_the_place_of_the_weights(method: str, granularity: str) -> None:
    exact, graph, data = graphs()
    if granularity == "channel":
        over = {name: {"config": {"weight_granularity": "channel"}} for name in layers(graph)}
        graph = copy_graph(exact)
        config = {"default": rule(**{**WIDTHS, "weight_width": 4, "bias_width": 16}), "overrides": over}
        graph, _ = quantize_transform_pass(graph, config)
    kept = {n: p.detach().clone() for n, p in exact.model.named_parameters()}
    formats = {name: dict(module.arithmetic.formats) for name, module in layers(graph).items()}
    before = {name: module.mantissa("weight").clone() for name, module in layers(graph).items()}
    args = {"data": data, "reference": exact, "method": method, "iterations": 100, "bias_correction": "empirical"}
    graph, info = round_weights_transform_pass(graph, args)
    assert info["modified"] and info["kept"] and info["frames"] == 48
    assert info["sqnr_db"]["after"] > info["sqnr_db"]["before"]
    assert info["layers"]["fc"]["bias"] == "it has none"
    for name, module in layers(graph).items():
        assert module.arithmetic.formats == formats[name]
        for parameter in set(module.parameter_names) & {"weight", "bias"}:
            value = getattr(module, parameter).detach().double()
            step = torch.tensor(module.arithmetic.formats[parameter].scale, dtype=torch.float64)
            if parameter == "weight" and "weight_shift" in module.parameter_names:
                shift = 2.0 ** module.weight_shift.double()
                step = (step * shift).reshape(-1, *[1] * (value.dim() - 1))
            codes = value / step
            assert torch.equal(codes, codes.round()), "a value between two of the grid"
            assert torch.equal(codes, module.mantissa(parameter).double()), "emission rounds it to something else"
        entry = info["layers"][name]
        assert entry["error"]["now"] <= entry["error"]["nearest"]
        share = float((module.mantissa("weight") != before[name]).double().mean())
        assert entry["changed"] == pytest.approx(share)
    assert any(entry["changed"] for entry in info["layers"].values())
    for name, value in exact.model.named_parameters():
        assert torch.equal(value, kept[name]), "the float model belongs to the caller"


def test_empirical_correction_by_direct_means() -> None:
    """Layer after layer: the mean of the float results less the mean of what the layer gives, both as torch runs it."""
    exact, graph, data = graphs(3)
    config_bits = {n: m.arithmetic.formats for n, m in layers(graph).items()}
    mine = copy_graph(graph)
    wanted = torch.cat(data)
    for name, module in layers(mine).items():
        if "bias" not in module.parameter_names:
            continue
        node = mine.node(name)
        x = values(mine, wanted)[node.args[0].name].double()
        fmt = config_bits[name]
        weight = module.mantissa("weight").double() * fmt["weight"].scale
        bias = module.bias.detach().double()
        attributes = exact.model.get_submodule(str(exact.node(name).target))
        if isinstance(attributes, nn.Linear):
            y, dims = F.linear(x, weight, bias), [0, 1]
        else:
            conv = F.conv2d if weight.dim() == 4 else F.conv1d
            y = conv(x, weight, bias, attributes.stride, attributes.padding, attributes.dilation, attributes.groups)
            dims = [d for d in range(y.dim()) if d != 1]
        target = values(exact, wanted)[name].double()
        made = bias + (target - y).mean(dims)
        codes = (made * 2.0 ** fmt["bias"].frac_width).round().clamp(fmt["bias"].min_mantissa, fmt["bias"].max_mantissa)
        module.bias = nn.Parameter((codes * fmt["bias"].scale).float())
    found, info = correct_bias_transform_pass(graph, {"data": data, "reference": exact, "keep": "always"})
    moved = 0
    for name, module in layers(found).items():
        if "bias" in module.parameter_names:
            assert torch.equal(module.mantissa("bias"), layers(mine)[name].mantissa("bias")), name
            moved += int((module.mantissa("bias") != graph.model.get_submodule(name).mantissa("bias")).any())
            assert info["layers"][name]["bias"] == "empirical"
            assert info["layers"][name]["changed"] == 0.0


def test_analytic_correction_by_the_formula() -> None:
    """``-e E[x]``: of the first layer from the data, of one behind norm and relu from the normalisation."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm, self.relu, self.b = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.relu(self.norm(self.a(x))))

    torch.manual_seed(3)
    net = Two()
    net.norm.weight.data, net.norm.bias.data = torch.tensor([1.5, 0.5, -0.7, 0.0]), torch.tensor([0.3, -0.2, 0.1, 0.4])
    data = [torch.rand(64, 5)]
    net.train()(data[0])
    graph = annotated(net.eval(), {"x": data[0][:1]})
    fold_batch_norm_transform_pass(graph)
    calibrate_analysis_pass(graph, {"data": data})
    keep_float_analysis_pass(graph)
    float_b = graph.model.get_submodule("b").weight.detach().double()
    float_a = graph.model.get_submodule("a").weight.detach().double()
    keys = {**WIDTHS, "weight_width": 3, "bias_width": 16}
    graph, _ = quantize_transform_pass(graph, {"default": rule(**keys)})
    old = {n: m.bias.detach().double() for n, m in layers(graph).items()}
    x = values(graph, data[0])["x_quantize"].double()
    graph, info = correct_bias_transform_pass(graph, {"data": data, "method": "analytic", "keep": "always"})
    a, b = layers(graph)["a"], layers(graph)["b"]
    assert info["layers"]["a"]["bias"] == "analytic, from data"
    assert info["layers"]["b"]["bias"] == "analytic, from batch normalisation"
    error = a.mantissa("weight").double() * a.arithmetic.formats["weight"].scale - float_a
    wanted = old["a"] - error @ x.mean(0)
    assert torch.allclose(a.bias.detach().double(), wanted, atol=a.arithmetic.formats["bias"].scale / 2 + 1e-6)
    # The mean of a cut-off normal distribution, by adding it up.
    means = []
    for m, s in zip([0.3, -0.2, 0.1, 0.4], [1.5, 0.5, 0.7, 0.0], strict=True):
        if s == 0.0:
            means.append(max(m, 0.0))
            continue
        grid = torch.linspace(m - 12 * s, m + 12 * s, 200001, dtype=torch.float64)
        density = torch.exp(-((grid - m) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi))
        means.append(float((grid.clamp_min(0) * density).sum() * (grid[1] - grid[0])))
    parts = torch.tensor([0.3, -0.2, 0.1, 0.4]).double(), torch.tensor([1.5, 0.5, 0.7, 0.0]).double()
    assert relu_mean(*parts).tolist() == pytest.approx(means, abs=1e-6)
    error = b.mantissa("weight").double() * b.arithmetic.formats["weight"].scale - float_b
    wanted = old["b"] - error @ torch.tensor(means, dtype=torch.float64)
    assert torch.allclose(b.bias.detach().double(), wanted, atol=b.arithmetic.formats["bias"].scale / 2 + 1e-6)


def test_what_does_not_help_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rounding that is off by a step everywhere: undone, unless it is to be kept whatever it does."""
    monkeypatch.setattr("mase_hw.passes.quantize.rounding.passes.gptq", lambda p, *_: p.clipped(p.nearest() + 1))
    for keep in ("better", "always"):
        exact, graph, data = graphs(8)
        before = {n: (m.mantissa("weight").clone(), m.weight) for n, m in layers(graph).items()}
        args = {"data": data, "reference": exact, "method": "gptq", "keep": keep}
        graph, info = round_weights_transform_pass(graph, args)
        assert info["sqnr_db"]["after"] < info["sqnr_db"]["before"]
        assert info["kept"] == info["modified"] == (keep == "always")
        for name, module in layers(graph).items():
            same = torch.equal(module.mantissa("weight"), before[name][0])
            assert same == (module.weight is before[name][1]) == (keep == "better")


def test_without_a_float_graph_or_data() -> None:
    _, graph, data = graphs()
    with pytest.raises(PassOrderError, match="keep_float_analysis_pass"):
        round_weights_transform_pass(graph, {"data": data, "method": "gptq"})
    with pytest.raises(ConfigError, match="there is no calibration data"):
        exact, graph, _ = graphs()
        round_weights_transform_pass(graph, {"data": [], "method": "gptq", "reference": exact})
    with pytest.raises(ConfigError, match="there is none"):
        net = nn.Linear(3, 2)
        mase_hw.compile(net, torch.rand(1, 3), {"rounding": {"method": "gptq"}}, out="never_written")
    assert not Path("never_written").exists()


def test_compile_has_the_mantissas(tmp_path: Path) -> None:
    """From the configuration: the graph of the design has other mantissas than nearest ones, all of its grid."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    data = list(torch.rand(64, 6).split(16))
    config: dict[str, Any] = {"quantize": {"default": rule(weight_width=3, bias_width=16, data_out_width=12)}}
    plain = mase_hw.compile(net, data[0][:1], config, out=tmp_path / "plain", calibration=data)
    config["rounding"] = {"method": "gptq", "bias_correction": "empirical"}
    made = mase_hw.compile(net, data[0][:1], config, out=tmp_path / "made", calibration=iter(data))
    pairs = [(layers(plain.graph)[name], module) for name, module in layers(made.graph).items()]
    assert any(not torch.equal(a.mantissa("weight"), b.mantissa("weight")) for a, b in pairs)
    x = torch.cat(data)
    with torch.no_grad():
        wanted = net(x)
        assert float((made.model(x) - wanted).square().mean()) < 0.7 * float((plain.model(x) - wanted).square().mean())


def scores(make: Any, last: str, bits: int, **args: Any) -> float:
    """Mean accuracy of three seeds: everything at so many bits, but for biases and the last result at 16."""
    found = []
    for seed in range(3):
        d: Digits = make(seed)
        graph = d.graph()
        calibrate_analysis_pass(graph, {"data": d.train[0].split(512), "method": "mse", "weight_method": "mse"})
        exact = copy_graph(graph)
        config = {
            "default": rule(data_in_width=bits, weight_width=bits, bias_width=16, data_out_width=bits),
            "overrides": {last: {"config": {"data_out_width": 16}}},
        }
        graph, _ = quantize_transform_pass(graph, config)
        if args:
            round_weights_transform_pass(graph, {"data": d.train[0].split(512), "reference": exact, **args})
        found.append(accuracy(graph.model, *d.test))
    return sum(found) / 3


GPTQ = {"method": "gptq", "bias_correction": "empirical"}


def cnn(seed: int) -> Digits:
    """The network of the example, trained as long."""
    return digits_cnn(seed, 15)


@pytest.mark.parametrize(
    ("make", "last", "bits", "least"),
    [(cnn, "fc", 4, 0.974), (cnn, "fc", 3, 0.96), (digits, "fc3", 3, 0.942)],
    ids=["cnn4", "cnn3", "mlp3"],
)
def test_what_the_digits_networks_gain(make: Any, last: str, bits: int, least: float) -> None:
    """Means of three networks; the whole table is in ``benchmarks/quantisation_accuracy.py``."""
    before, after = scores(make, last, bits), scores(make, last, bits, **GPTQ)
    print(f"{bits} bits: nearest {before:.4f}, gptq with bias correction {after:.4f}")
    assert after >= least and after > before


def test_eight_bits_lose_nothing() -> None:
    assert scores(cnn, "fc", 8, **GPTQ) >= scores(cnn, "fc", 8) - 0.0019  # two images of 1080
