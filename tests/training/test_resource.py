"""Bits of every element: gradients and costs beside plain Python, and hardware that computes what was trained."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Rounding
from mase_hw.nn import Quantized
from mase_hw.training import TrainingModel, prepare
from mase_hw.training.learned_step import lsq
from tests.unit.pipeline import rule

CONFIG: dict[str, Any] = {
    "quantize": {"default": rule(data_in_width=5, weight_width=6, bias_width=12, data_out_width=5)},
    "hardware": {"unroll": "frame"},
}
SHAPE = (1, 4, 4)


def network() -> tuple[nn.Module, Tensor]:
    """A convolution and two layers, and frames."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3)]
    for layer in layers:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.normal_(layer.weight)
    return nn.Sequential(*layers), torch.rand(24, *SHAPE)


def prepared(which: Any, seed: int = 3) -> tuple[TrainingModel, Tensor]:
    """A model whose elements drop random bits, none and all of them included."""
    net, x = network()
    model = prepare(net, x[:1], CONFIG, calibration=[x], learn_widths=which)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for drop in model.drops():
            drop.copy_(torch.rand(drop.shape, generator=draw).pow(3) * 7 - 0.4)
    return model, x


@pytest.mark.parametrize("rounding", [Rounding.HALF_EVEN, Rounding.FLOOR])
@pytest.mark.parametrize(("width", "signed"), [(4, True), (4, False), (6, True)])
def test_value_and_gradients(width: int, signed: bool, rounding: Rounding) -> None:
    """Element by element: a multiple of ``2**k`` steps in the range, and ``dk = ln(2) (q - v) s``."""
    fmt, step = FixedFormat(width, 0, signed), 0.375
    low, high = fmt.min_mantissa, fmt.max_mantissa
    codes = torch.linspace(1.5 * low - 3, 1.5 * high, 97, dtype=torch.float64)
    codes = codes.round() if rounding is Rounding.FLOOR else codes
    cases = list(itertools.product(codes.tolist(), (0.0, 0.8, 1.6, width - 1.0, width + 0.2)))
    x = torch.tensor([v * step for v, _ in cases], dtype=torch.float64, requires_grad=True)
    drop = torch.tensor([k for _, k in cases], dtype=torch.float64, requires_grad=True)
    found = lsq(x, torch.tensor(step, dtype=torch.float64), fmt, 0.0, rounding, drop)
    weigh = torch.sin(torch.arange(float(len(cases)), dtype=torch.float64))
    (found * weigh).sum().backward()
    assert x.grad is not None and drop.grad is not None
    for i, (v, k) in enumerate(cases):
        unit = 2 ** round(k)
        q = round(v / unit) if rounding is Rounding.HALF_EVEN else math.floor(v / unit)
        q = min(max(q, -(-low // unit)), high // unit) * unit
        inside = low < v < high
        assert found[i].item() == q * step
        assert x.grad[i].item() == (weigh[i].item() if inside else 0)
        assert drop.grad[i].item() == pytest.approx(weigh[i].item() * math.log(2) * (q - v) * step * inside, abs=1e-12)


def bits_of(mantissa: int, drop: float) -> int:
    """The bits of a weight between the first and the last that may be set."""
    return abs(mantissa).bit_length() - round(drop) if mantissa else 0


@pytest.mark.parametrize("which", ["", "weights", "all"])
def test_the_cost_of_every_product(which: str) -> None:
    """Counted in plain Python from the frozen network: each weight times each number that it meets."""
    model, _ = prepared(which)
    model.round_steps()
    graph = model.freeze()
    layers = [m for n in graph.nodes if isinstance(m := graph.meta_of(n).module, Quantized) and m.parameter_names]
    names = [n.name for n in graph.nodes if graph.meta_of(n).module in layers]
    grids = [model.nodes[name].step_of("weight") for name in names]  # type: ignore[union-attr, operator]
    zeros = [torch.zeros(m.mantissa("weight").shape) for m in layers]
    drops = [zeros[i] if grid.drop is None else grid.drop.detach() for i, grid in enumerate(grids)]
    read = [model.nodes[name].drop for name in ("input_1_quantize", "_1", "_4")]
    assert all((drop is None) == (which != "all") for drop in read)
    data = [5 - (torch.zeros(shape) if d is None else d.detach().round()) for d, shape in zip(read, DATA, strict=True)]
    weights = [
        torch.tensor(
            [bits_of(int(m), float(k)) for m, k in zip(layer.mantissa("weight").flatten(), drop.flatten(), strict=True)]
        ).reshape(drop.shape)
        for layer, drop in zip(layers, drops, strict=True)
    ]
    wanted = 0
    for place in itertools.product(range(2), range(4), range(4), range(3), range(3)):
        out, row, column, down, along = place
        y, z = row + down - 1, column + along - 1
        if 0 <= y < 4 and 0 <= z < 4:
            wanted += int(weights[0][out, 0, down, along]) * int(data[0][0, y, z])
    for weight, given in ((weights[1], data[1].flatten()), (weights[2], data[2])):
        for out, each in itertools.product(range(len(weight)), range(len(given))):
            wanted += int(weight[out, each]) * int(given[each])
    cost = model.resource()
    assert cost.item() == wanted > 0
    if which:
        cost.backward()
        moved = grids[1].drop
        assert moved is not None and moved.grad is not None
        assert torch.equal(-moved.grad, torch.where(weights[1] > 0, data[1].flatten(), 0.0) * (weights[1] != 0))
    if which == "all":
        assert read[2].grad is not None and torch.equal(-read[2].grad, weights[2].sum(0).float())


DATA = ((1, 4, 4), (2, 4, 4), (8,))


@pytest.mark.parametrize("which", ["weights", "all"])
def test_hardware_computes_what_was_trained(which: str, tmp_path: Path) -> None:
    """Bits of the trained model, of the frozen graph, and of the design with a frame per beat; all mantissas fit."""
    model, x = prepared(which)
    model.train()(x)
    model.round_steps()
    graph = model.eval().freeze()
    wanted = model(x).detach()
    assert torch.equal(graph.model(x).float(), wanted) and len(wanted.unique()) > 4
    pruned = 0
    for node in graph.nodes:
        module, trained = graph.meta_of(node).module, dict(model.nodes.items()).get(node.name)
        if isinstance(module, Quantized) and module.parameter_names:
            drop = trained.step_of("weight").drop.detach().round().long()  # type: ignore[union-attr, operator]
            mantissas = module.mantissa("weight").long()
            assert not (mantissas % (1 << drop)).any() and not mantissas[drop == 6].any()
            pruned += int((drop == 6).sum())
    assert pruned
    design = mase_hw.compile(graph, x[:1], CONFIG, out=tmp_path / "frame", vectors=x)
    run = design.simulate(x, engine="batch")
    assert run.passed and torch.equal(run.output.float(), wanted)
    folded = {"hardware": {"unroll": ""}}
    if which == "weights":
        again = mase_hw.compile(graph, x[:1], folded, out=tmp_path / "folded", vectors=x[:2])
        assert again.simulate(engine="batch").passed
        return
    with pytest.raises(UnsupportedError, match="whole frame per beat") as caught:
        mase_hw.compile(graph, x[:1], folded, out=tmp_path / "folded", vectors=x[:2])
    assert caught.value.node == "input_1_quantize_drops" and not (tmp_path / "folded").exists()


def test_the_term_takes_bits_away() -> None:
    """Some steps on the term alone prune what it can; without it no width moves unless the loss gains."""
    net, x = network()
    model = prepare(net, x[:1], CONFIG, calibration=[x], learn_widths="all").train()
    begin = float(model.resource().detach())
    optimiser = torch.optim.Adam(model.drops(), lr=0.5)
    for _ in range(20):
        optimiser.zero_grad()
        model.resource().backward()
        optimiser.step()
        model(x)  # keeps drops within the widths
    assert float(model.resource().detach()) == 0 < begin
    assert all(float(drop.detach().min()) >= 0 and float(drop.detach().max()) <= 6 for drop in model.drops())
    graph = model.eval().freeze()
    assert len(graph.model(x).unique(dim=0)) == 1


def test_weights_of_other_formats_are_refused() -> None:
    net, x = nn.Linear(6, 3), torch.rand(8, 6)
    config = {"quantize": {"default": rule(name="mxint", data_in_width=5, weight_width=4, data_out_width=5)}}
    assert not prepare(net, x[:1], config, calibration=[x]).drops()
    with pytest.raises(UnsupportedError, match="cannot be trained") as caught:
        prepare(net, x[:1], config, calibration=[x], learn_widths="weights")
    assert caught.value.field == "learn_widths"


def test_a_step_for_every_channel() -> None:
    """Bits are dropped below the factor of the channel."""
    torch.manual_seed(0)
    net, x = nn.Linear(6, 3), torch.rand(8, 6)
    with torch.no_grad():
        net.weight.mul_(torch.tensor([[1.0], [0.25], [0.1]]))
    keys = {"data_in_width": 5, "weight_width": 5, "data_out_width": 8, "weight_granularity": "channel"}
    model = prepare(net, x[:1], {"quantize": {"default": rule(**keys)}}, calibration=[x], learn_widths="weights")
    with torch.no_grad():
        model.drops()[0].fill_(2)
    model.round_steps()
    graph = model.eval().freeze()
    (layer,) = (m for n in graph.nodes if isinstance(m := graph.meta_of(n).module, Quantized))
    mantissas = layer.mantissa("weight").long()
    assert "weight_shift" in layer.parameter_names and not (mantissas % 4).any() and mantissas.any(1).all()
    assert torch.equal(graph.model(x).float(), model(x).detach())
    bits = (mantissas.abs().double().log2().floor() + 1 - 2).clamp(min=0)
    assert float(model.resource()) == float(bits.sum()) * 5


def test_scaled_integers_are_refused() -> None:
    config = {"quantize": {"default": {"config": {"name": "integer", "data_in_width": 4, "weight_width": 3}}}}
    data = torch.randn(8, 4)
    with pytest.raises(UnsupportedError, match="learned in fixed point"):
        prepare(nn.Sequential(nn.Linear(4, 3)), data[:1], config, calibration=[data], learn_widths="all")
