"""What the network loses by a node alone: against a float network in which that layer is put on a grid by hand."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mase_hw.errors import ConfigError, GraphError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import fold_batch_norm_transform_pass, noise_analysis_pass, quantize_transform_pass
from mase_hw.passes.quantize.calibrate import calibrate_analysis_pass
from mase_hw.passes.quantize.noise.network import network_noise
from tests.unit.pipeline import WIDTHS, annotated, inputs, rule


def mlp() -> nn.Module:
    """Seven layers whose weights are on scales of their own, so that they do not lose the same."""
    torch.manual_seed(2)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, width in enumerate((24, 24, 24, 24, 24, 24, 5)):
        layers[f"fc{i}"] = nn.Linear(24, width)
        if i < 6:
            layers[f"act{i}"] = nn.ReLU()
    net = nn.Sequential(layers)
    with torch.no_grad():
        for i in range(7):
            layers[f"fc{i}"].weight[0] *= 2.0 ** ((i * 3) % 5)  # type: ignore[operator,union-attr]
    return net.eval()


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.a, self.norm_a = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.b, self.norm_b = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.way = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm_b(self.b(torch.relu(self.norm_a(self.a(x)))))
        return torch.relu(y + self.way(x))


def resnet8() -> nn.Module:
    torch.manual_seed(4)
    first = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    blocks = [Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2)]
    net = nn.Sequential(*first, *blocks, nn.AvgPool2d(3), nn.Flatten(), nn.Linear(32, 10))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.2)
    net(inputs(64, 3, 12, 12))  # statistics that fit
    return net.eval()


def folded(kind: str) -> tuple[nn.Module, Tensor, list[str]]:
    """A float network without batch norms, data, and the paths of its layers."""
    if kind == "mlp":
        net, x = mlp(), inputs(300, 24)
    else:
        x = inputs(96, 3, 12, 12)
        net = fold_batch_norm_transform_pass(annotated(resnet8(), x[:1]))[0].model
    layers = [name for name, m in net.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    return net, x, layers


def graphs(net: nn.Module, x: Tensor, width: int) -> tuple[MaseGraph, MaseGraph]:
    exact = annotated(net, x[:1])
    made, _ = calibrate_analysis_pass(annotated(net, x[:1]), {"data": [x]})
    made, _ = quantize_transform_pass(made, {"default": rule(**dict.fromkeys(WIDTHS, width))})
    return exact, made


def on_grid(value: Tensor, fmt: FixedFormat) -> Tensor:
    step = 2.0**-fmt.frac_width
    low = -(2 ** (fmt.width - 1)) if fmt.signed else 0
    high = 2 ** (fmt.width - fmt.signed) - 1
    return torch.round(value.double() / step).clamp(low, high) * step


def by_hand(net: nn.Module, x: Tensor, layer: str, quantised: Quantized) -> float:
    """Power of the error at the output of the float network with one layer on the grid of its formats."""
    formats = quantised.arithmetic.formats

    def hook(module: Any, given: tuple[Tensor], result: Tensor) -> Tensor:
        args = [on_grid(given[0], formats["data_in_0"])]
        args += [on_grid(getattr(module, name), formats[name]) for name in ("weight", "bias")]
        if isinstance(module, nn.Conv2d):
            found = F.conv2d(*args, stride=module.stride, padding=module.padding)
        else:
            found = F.linear(*args)
        return on_grid(found, formats["data_out_0"]).to(result.dtype)

    with torch.no_grad():
        want = net(x).double()
        handle = net.get_submodule(layer).register_forward_hook(hook)
        got = net(x).double()
        handle.remove()
    return float((want - got).square().sum())


def ranks(values: list[float]) -> list[int]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [order.index(i) for i in range(len(values))]


def spearman(a: list[float], b: list[float]) -> float:
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b), strict=True)) / (n * (n * n - 1))


@pytest.mark.parametrize(("kind", "width"), [("mlp", 5), ("mlp", 8), ("resnet8", 5), ("resnet8", 8)])
def test_against_brute_force(kind: str, width: int) -> None:
    """Measured: the same power, to the rounding of floats. Estimated: the same order, from one pass of each kind."""
    net, x, layers = folded(kind)
    exact, made = graphs(net, x, width)
    nodes = {str(n.target): n.name for n in exact.nodes if n.op == "call_module"}
    groups = {path: [nodes[path]] for path in layers}
    assert len(groups) == {"mlp": 7, "resnet8": 10}[kind]
    modules = {path: made.model.get_submodule(str(made.node(nodes[path]).target)) for path in layers}
    brute = [by_hand(net, x, path, modules[path]) for path in layers]  # type: ignore[arg-type]
    batches = list(x.split(50))
    measured = network_noise(exact, made, batches, groups=groups)
    assert list(measured.noise.values()) == pytest.approx(brute, rel=1e-3)
    assert measured.signal == pytest.approx(float(net(x).detach().double().square().sum()), rel=1e-6)
    worst = max(range(len(layers)), key=lambda i: brute[i])
    assert measured.ranking()[0] == layers[worst]
    for seed in range(3):
        estimated = network_noise(exact, made, batches, groups=groups, method="estimated", seed=seed)
        correlation = spearman(list(estimated.noise.values()), brute)
        print(f"{kind} {width} bits, seed {seed}: rank correlation {correlation:.3f}")
        assert correlation >= 0.9


def test_a_group_is_quantised_together() -> None:
    """A layer with its relu, in sequence: not the sum of both alone, which would count the layer's steps twice."""
    net, x, _ = folded("mlp")
    exact, made = graphs(net, x, 5)
    found = network_noise(exact, made, [x], groups={"pair": ["fc1", "act1"], "layer": ["fc1"], "act": ["act1"]})
    with torch.no_grad():
        before = net[:2](x)
        hidden = made.modules["act1"](made.modules["fc1"](before))
        got = net[4:](hidden.float()).double()
        noise = float((net(x).double() - got).square().sum())
    assert found.noise["pair"] == pytest.approx(noise, rel=1e-6)
    assert found.noise["pair"] < found.noise["layer"] + found.noise["act"]
    two = network_noise(exact, made, [x], groups={"two": ["fc1", "fc4"]}).noise["two"]
    with torch.no_grad():
        hidden = made.modules["fc1"](net[:2](x)).float()
        got = net[9:](made.modules["fc4"](net[3:8](hidden)).float()).double()
    assert two == pytest.approx(float((net(x) - got).detach().double().square().sum()), rel=1e-3)
    estimated = network_noise(exact, made, [x], groups={"pair": ["fc1", "act1"]}, method="estimated")
    assert estimated.noise["pair"] == pytest.approx(noise, rel=0.5)


def test_it_is_a_part_of_the_pass_on_request() -> None:
    net, x, _ = folded("mlp")
    exact, made = graphs(net, x, 6)
    _, info = noise_analysis_pass(made, {"float_graph": net, "data": [x], "network": "measured"})
    want = network_noise(exact, made, [x])
    assert info["network"] == want.to_dict() and info["network"]["method"] == "measured"
    assert set(info["network"]["sqnr_db"]) == {n for n, m in made.modules.items() if n and "quantize" not in n}
    _, info = noise_analysis_pass(made, {"float_graph": net, "data": [x]})
    assert "network" not in info


def test_what_does_not_fit() -> None:
    net, x, _ = folded("mlp")
    exact, made = graphs(net, x, 6)
    with pytest.raises(ConfigError, match="not quantised"):
        network_noise(exact, made, [x], groups={"a": ["fc9"]})
    with pytest.raises(ConfigError, match="no such method"):
        network_noise(exact, made, [x], method="guessed")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="not quantised"):
        network_noise(exact, exact, [x])
    with pytest.raises(ConfigError, match="there is no data"):
        network_noise(exact, made, [])
