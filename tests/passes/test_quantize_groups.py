"""Integer weights with a factor by group: layers against fractions, exact ones of a file, and what is refused."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw import compile
from mase_hw.errors import ConfigError, FormatError, UnsupportedError
from mase_hw.formats import FACTOR_BITS, GroupFormat
from mase_hw.nn import Quantized
from mase_hw.passes import verify_analysis_pass
from mase_hw.passes.quantize.config import NodeConfig
from mase_hw.passes.quantize.group_weights import group_weights
from mase_hw.training import prepare
from tests.passes.test_quantize_blocks import is_kept_and_learns, layer
from tests.unit.pipeline import EIGHT, inputs, quantised


def groups(*ops: str, **keys: Any) -> dict[str, Any]:
    """8 bits, but weights in groups of these ops."""
    return {"by": "type", **EIGHT, **{op: {"config": {"name": "groups", **keys}} for op in ops or ("linear",)}}


def stored(module: Quantized) -> list[list[Fraction]]:
    """The values that hardware multiplies by, from mantissas and factors."""
    fmt, rows = module.arithmetic.formats["weight"], module.mantissa("weight").tolist()
    assert isinstance(fmt, GroupFormat)
    factors = module.get_buffer("weight_shift").tolist()
    return [
        [int(m) * factors[o][i // fmt.block] * Fraction(2) ** -fmt.frac_width for i, m in enumerate(row)]
        for o, row in enumerate(rows)
    ]


def integers(out: int, features: int, group: int, bits: int, seed: int) -> nn.Linear:
    """A layer whose weights are integers times half-precision scales, one for every output and group."""
    layer, numbers = nn.Linear(features, out), random.Random(seed)
    with torch.no_grad():
        for o in range(out):
            for at in range(0, features, group):
                scale = float(torch.tensor(numbers.uniform(0.001, 0.05), dtype=torch.float16))
                for i in range(at, min(at + group, features)):
                    layer.weight[o, i] = scale * numbers.randint(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        layer.weight[0, :group] = 0.0
    return layer


def results(module: Quantized, x: Tensor, weight: list[list[Fraction]]) -> list[list[int]]:
    """Mantissas of the results, by fractions."""
    formats = module.arithmetic.formats
    data, bias, out = formats["data_in_0"], formats["bias"], formats["data_out_0"]
    biases = [int(m) * Fraction(2) ** -bias.frac_width for m in module.mantissa("bias").tolist()]
    wanted = []
    for row in x.double().tolist():
        codes = [max(data.min_mantissa, min(data.max_mantissa, round(Fraction(v) * 2**data.frac_width))) for v in row]
        values = [Fraction(m, 2**data.frac_width) for m in codes]
        sums = [sum((w * v for w, v in zip(of, values, strict=True)), b) for of, b in zip(weight, biases, strict=True)]
        wanted.append([max(out.min_mantissa, min(out.max_mantissa, round(s * 2**out.frac_width))) for s in sums])
    return wanted


@pytest.mark.parametrize(("bits", "group"), [(4, 4), (5, 8), (2, 4), (8, 32), (12, 8), (4, 5)])
def test_integers_of_groups_stay_what_they_are(bits: int, group: int) -> None:
    net, x = nn.Sequential(integers(6, 22, group, bits, bits + group)), inputs(16, 22)
    graph, _ = quantised(net, x, config=groups(weight_width=bits, weight_block_size=group))
    verify_analysis_pass(graph)
    module = layer(graph, "_0")
    weight = stored(module)
    assert weight == [[Fraction(w) for w in row] for row in net[0].weight.double().tolist()]
    wanted = results(module, x, weight)
    with torch.no_grad():
        for given in (module(x), module.in_mantissas([x])):  # on values, and in mantissas
            assert (given.double() * 2.0 ** module.arithmetic.formats["data_out_0"].frac_width).tolist() == wanted


@pytest.mark.parametrize(("bits", "group"), [(4, 8), (8, 4), (3, 32)])
def test_other_weights_get_factors_of_16_bits(bits: int, group: int) -> None:
    torch.manual_seed(bits)
    net, x = nn.Sequential(nn.Linear(22, 6)), inputs(16, 22)
    graph, _ = quantised(net, x, config=groups(weight_width=bits, weight_block_size=group))
    verify_analysis_pass(graph)
    module, most = layer(graph, "_0"), (1 << (bits - 1)) - 1
    peaks = [[max(abs(Fraction(w)) for w in row[at : at + group]) for at in range(0, 22, group)]
             for row in net[0].weight.double().tolist()]  # fmt: skip
    fmt, factors = module.arithmetic.formats["weight"], module.get_buffer("weight_shift").tolist()
    unit = Fraction(2) ** -fmt.frac_width
    assert max(map(max, factors)).bit_length() in (16, 17)
    for each, of in zip(factors, peaks, strict=True):
        assert all(
            abs(f * unit - peak / most) <= unit / 2 + Fraction(1, 10**12) for f, peak in zip(each, of, strict=True)
        )
    values = net[0].weight.double().tolist()
    for o, row in enumerate(stored(module)):
        for i, value in enumerate(row):
            step = factors[o][i // group] * unit
            assert value == max(-most - 1, min(most, round(Fraction(values[o][i]) / step))) * step
    wanted = results(module, x, stored(module))
    with torch.no_grad():
        assert (module(x).double() * 2.0 ** module.arithmetic.formats["data_out_0"].frac_width).tolist() == wanted


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"weight_width": 13}, "2 to 12"),
        ({"weight_width": 4, "weight_frac_width": 4}, "weight_frac_width"),
        ({"weight_width": 4, "weight_granularity": "channel"}, "weight_granularity"),
    ],
)
def test_keys_that_groups_cannot_have(keys: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        quantised(nn.Sequential(nn.Linear(8, 4)), inputs(4, 8), config=groups(**keys))


def test_what_is_refused() -> None:
    net = nn.Sequential(nn.Linear(8, 4))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0] * 4 + [2.0**-FACTOR_BITS] * 4]).expand(4, 8))
    with pytest.raises(ConfigError, match="too far apart"):
        quantised(net, inputs(4, 8), config=groups(weight_width=4, weight_block_size=4))
    endless = torch.tensor([[1.0, float("inf")]])
    with pytest.raises(FormatError, match="not finite"):
        group_weights("fc", endless, NodeConfig(name="groups", weight_width=4), {})
    with pytest.raises(UnsupportedError, match="groups"):
        quantised(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), inputs(4, 8), config=groups("linear", "relu"))


def test_a_kernel_in_groups() -> None:
    """Groups run along channels, columns and rows; results against a convolution in float64, which is exact here."""
    rows = integers(6, 36, 4, 4, 9).weight.detach()
    net = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(rows.reshape(6, 3, 3, 4).movedim(-1, 1))
    x = inputs(2, 4, 5, 6)
    graph, info = quantised(net, x, config=groups("conv2d", weight_width=4, weight_block_size=4))
    assert info["nodes"]["_0"]["formats"]["weight"].startswith("int4 in groups of 4")
    module = layer(graph, "_0")
    fmt, mantissas = module.arithmetic.formats["weight"], module.mantissa("weight")
    factors = fmt.spread(module.get_buffer("weight_shift"), mantissas.shape)
    weight = mantissas.double() * factors.double() * fmt.scale
    assert torch.equal(weight, net[0].weight.double())
    data, out = (module.arithmetic.formats[name] for name in ("data_in_0", "data_out_0"))
    entered = (x.double() * 2**data.frac_width).round().clamp(data.min_mantissa, data.max_mantissa)
    sums = nn.functional.conv2d(entered, weight * 2.0 ** (out.frac_width - data.frac_width), padding=1)
    wanted = sums.round().clamp(out.min_mantissa, out.max_mantissa)
    with torch.no_grad():
        for given in (module(x), module.in_mantissas([x])):
            assert torch.equal(given.double() * 2.0**out.frac_width, wanted)


def test_a_network(tmp_path: Path) -> None:
    """Groups beside fixed point, in hardware with stalls; the weights in memory, or loaded."""
    net = nn.Sequential(integers(12, 32, 8, 4, 1), nn.ReLU(), nn.Linear(12, 6), nn.ReLU(), integers(5, 6, 2, 5, 2))
    x = inputs(16, 32)
    config: dict[str, Any] = {"quantize": groups(weight_width=5, weight_block_size=4)}
    config["quantize"]["overrides"] = {
        "_2": {"config": {"name": "fixed"}},
        "_4": {"config": {"weight_width": 5, "weight_block_size": 2}},
    }
    lanes = {"_0": {"data_in_0": 4, "data_out_0": 4}, "_4": {"data_in_0": 2, "data_out_0": 3}}
    config["hardware"] = {"parallelism": lanes, "parameters": "ram"}
    design = compile(net, x[:1], config, out=tmp_path / "net", calibration=[x], vectors=x)
    for stalls in (0.0, 0.4):
        assert design.simulate(engine="batch", stalls=stalls).passed
    found = {i["node"]: i["parameters"] for i in design.manifest["instances"] if "WEIGHT_BLOCK" in i["parameters"]}
    assert [(p["WEIGHT_BLOCK"], p["WEIGHT_FACTORS"]) for p in found.values()] == [(4, 1), (0, 0), (2, 1)]


def test_kept_and_trained(tmp_path: Path) -> None:
    x = inputs(32, 22)
    graph, info = quantised(nn.Sequential(integers(6, 22, 4, 4, 3)), x, config=groups(weight_block_size=4))
    assert info["nodes"]["_0"]["formats"]["weight"].startswith("int8 in groups of 4")
    tensor = graph.tensor(graph.node("_0"), "weight")
    assert (tensor.type, tensor.block_size, tensor.exponent_width) == ("groups", 4, None)
    is_kept_and_learns(graph, "_0", x, tmp_path)


def test_training_keeps_the_factors() -> None:
    torch.manual_seed(4)
    net, x = nn.Sequential(integers(6, 22, 4, 4, 3)), inputs(32, 22)
    config = {"quantize": groups(weight_width=4, weight_block_size=4)}
    model = prepare(net, x[:1], config, calibration=[x])
    before = stored(layer(model.eval().freeze(), "_0"))
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    model.train()
    for _ in range(8):
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()
    model.round_steps()
    graph = model.eval().freeze()
    assert torch.equal(graph.model(x), model(x)) and stored(layer(graph, "_0")) != before
    scales = net[0].weight.detach().double()
    fmt = layer(graph, "_0").arithmetic.formats["weight"]
    factors = layer(graph, "_0").get_buffer("weight_shift").double() * 2.0**-fmt.frac_width
    steps = factors.repeat_interleave(4, 1)[:, :22]
    assert bool((scales / steps == (scales / steps).round()).all())
