"""Networks trained with scaled integers: what was learned is what is frozen, and what hardware computes."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler import ample_bits
from mase_hw.errors import FormatError, GraphError, UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import verify_analysis_pass
from mase_hw.training import LearnedScale, TrainingModel, prepare
from mase_hw.training.integers import LearnedIntegers
from tests.passes.digits import accuracy, digits
from tests.training.test_training import layers, small, train


class Many(nn.Module):
    """Convolutions, clamps, poolings, a border, sums, products, a table, a concatenation, a layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm, self.pool, self.mean = nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.AvgPool2d(2, padding=1)
        self.norm.weight.data.mul_(4.0)  # so that clamps clamp
        self.twice = nn.Conv2d(4, 4, 1, bias=False)
        self.weight = nn.Parameter(torch.randn(5, 36) * 0.1)
        self.last = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(F.relu6(self.norm(self.conv(F.pad(x, (1, 1, 1, 1))))))
        y = F.relu(y + self.twice(F.hardtanh(self.twice(y))))
        y = self.mean(F.pad(y, (0, 1, 0, 1)) - 0.4)  # zeros besides, of what has a zero point
        z = F.linear(y.flatten(1), self.weight) * 0.75
        result: Tensor = self.last(torch.cat([z, torch.sigmoid(z) - F.leaky_relu(z, 0.3)], 1))
        return result


def config(bits: int = 4, **keys: Any) -> dict[str, Any]:
    widths = {"data_in_width": bits, "weight_width": bits, "data_out_width": bits}
    given = {"name": "integer", **widths, "weight_granularity": "channel", **keys}
    return {"quantize": {"default": {"config": given}}}


def made(keys: dict[str, Any], **options: Any) -> tuple[TrainingModel, MaseGraph]:
    """Trained for some steps, and what became of it."""
    torch.manual_seed(0)
    net, data = Many(), list((torch.rand(32, 2, 4, 4) * 2 - 0.5).split(16))
    for x in data:
        net.train()(x)
    model = prepare(net.eval(), data[0][:1], keys, calibration=data, **options)
    train(model, data, 6, rate=2e-3)
    with torch.no_grad():
        for node in model.nodes.values():
            if isinstance(node, LearnedIntegers) and node.function is not None and node.out is not None:
                node.out.step.mul_(1.5)
    return model, model.freeze()


def integers_of(value: Tensor, scales: list[Fraction], low: int, high: int) -> list[int]:
    """Rounded half to even by exact fractions."""
    rows = value.detach().reshape(len(scales), -1).tolist()
    return [max(low, min(high, round(Fraction(v) / s))) for row, s in zip(rows, scales, strict=True) for v in row]


FAMILIES = {
    "symmetric": config(),
    "affine": config(data_affine=True),
    "affine, for the tensor, narrow multipliers": config(
        data_affine=True, weight_affine=True, weight_granularity="tensor", multiplier_width=24
    ),
    "both families": {
        "quantize": {
            **config()["quantize"],
            "overrides": {"last": {"config": {"name": "fixed", "data_in_width": 8, "bias_width": 12}}},
        }
    },
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("affine", "both families") else pytest.mark.slow) for name in FAMILIES],
)
def test_what_is_trained_is_what_is_frozen(name: str) -> None:
    """Integers of weights by exact fractions; every result the same number, the training computed in float64."""
    model, graph = made(FAMILIES[name])
    if name == "both families":
        model.round_steps()
        graph = model.freeze()
    verify_analysis_pass(graph)
    for node, module in layers(graph).items():
        trained = model.nodes[node]
        if getattr(trained, "weight_grid", None) is None:
            continue
        fmt, count = module.arithmetic.formats["weight"], len(trained.trained["weight"])  # type: ignore[index, union-attr, arg-type]
        assert isinstance(fmt, ScaledFormat)
        scales = [Fraction(float(s)) for s in trained.weight_grid.step.detach().tolist()]  # type: ignore[union-attr, operator]
        assert fmt.scales == tuple(float(s) for s in scales)
        if fmt.per_channel and len(fmt.limits) == 1 and fmt.channels == count:
            wanted = integers_of(trained.trained["weight"], scales, fmt.min_mantissa, fmt.max_mantissa)  # type: ignore[index, union-attr, arg-type]
            assert module.mantissa("weight").flatten().tolist() == wanted
    sums = [n for n, m in layers(graph).items() if "multipliers" in m.arithmetic.attributes]
    for node in sums:  # at the scale of the result, but for a shift
        behind = layers(graph).get(f"{node}_requantize")
        if behind is not None:
            have, want = (behind.arithmetic.formats[k].scale for k in ("data_in_0", "data_out_0"))
            assert math.log2(want / have) % 1 == 0
    assert sums
    x = torch.rand(64, 2, 4, 4, generator=torch.Generator().manual_seed(3)) * 2.4 - 0.7
    with torch.no_grad():
        found = graph.model(x)
        wide = model.double()(x.double())
    fmt = next(m for n, m in layers(graph).items() if n.startswith("last")).arithmetic.formats["data_out_0"]
    assert len(found.unique()) > 4
    step = layers(graph)["last_requantize"].arithmetic.formats["data_out_0"].scale if fmt.width > 8 else fmt.scale
    assert torch.equal((wide / step).round(), (found.double() / step).round())


def test_scales_are_learned_and_stay_real() -> None:
    model, graph = made(config(data_affine=True), learn_zero_points=True)
    fresh = {n: m for n, m in prepare(Many().eval(), torch.rand(1, 2, 4, 4), config(data_affine=True),
             calibration=[torch.rand(8, 2, 4, 4) - 0.2]).named_modules() if isinstance(m, LearnedScale)}  # fmt: skip
    grids = {n: m for n, m in model.named_modules() if isinstance(m, LearnedScale)}
    assert set(grids) == set(fresh)
    moved = [g for g in grids.values() if g.learned and g.format().scales != g.fmt.scales]
    assert len(moved) == sum(g.learned for g in grids.values()) > 8
    assert any(math.log2(s) % 1 for g in moved for s in g.format().scales)
    zeros = [g for g in grids.values() if g.zero.requires_grad]
    assert zeros and any(float(g.zero.detach()) != g.fmt.zero_point for g in zeros)
    parts = [id(p) for p in (*model.steps(), *model.weights())]
    assert len(parts) == len(set(parts)) and set(parts) == {id(p) for p in model.parameters() if p.requires_grad}
    # One scale for all that a concatenation puts beside each other.
    cat = next(m for n, m in layers(graph).items() if m.op.name == "cat")
    assert len({str(f) for f in cat.arithmetic.formats.values()}) == 1
    with torch.no_grad():
        grids[next(n for n, g in grids.items() if g.learned)].step.neg_()
    with pytest.raises(FormatError, match="not positive"):
        model.freeze()


@pytest.mark.parametrize("bits", [4, 10])
def test_shares_have_the_scale_that_they_have(bits: int) -> None:
    """A softmax divides to a power of two, which is not learned, nor follows what is seen."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(6, 4), nn.Softmax(1)).eval(), torch.randn(24, 6)
    model = prepare(net, x[:1], config(bits), calibration=[x])
    train(model, [x], 5, rate=1e-3)
    graph = model.freeze()
    (softmax,) = (m for m in layers(graph).values() if m.op.name == "softmax")
    made = softmax.arithmetic.formats["data_out_0"]
    assert isinstance(made, ScaledFormat) and made.scales == (2.0 ** -(made.width - made.signed),)


def test_what_cannot_be_trained() -> None:
    net, x = nn.Sequential(nn.Linear(6, 4), nn.PReLU()), torch.randn(8, 6)
    with pytest.raises(UnsupportedError, match='name = "fixed"'):
        prepare(net, x[:1], config(), calibration=[x])


@pytest.mark.slow
def test_a_trained_network_in_hardware(tmp_path: Path) -> None:
    """Every bit of a simulation, and the memories of weights hold the integers that were trained."""
    net, data = small()
    keys = config(4, data_affine=True)
    model = prepare(net, data[0][:1], keys, calibration=data)
    train(model, data, 30, rate=1e-4)
    graph = model.freeze()
    design = mase_hw.compile(graph, data[0][:1], keys, out=tmp_path / "bundle")
    for name, module in layers(graph).items():
        assert layers(design.graph)[name].arithmetic == module.arithmetic
        for tensor in module.parameter_names:
            assert torch.equal(layers(design.graph)[name].mantissa(tensor), module.mantissa(tensor))
    inputs = torch.cat(data)[:16]
    simulation = design.simulate(inputs, engine="batch")
    assert simulation.passed and simulation.frames == 16
    with torch.no_grad():
        assert torch.equal(simulation.output.float(), graph.model(inputs))


def test_two_bits_on_digits() -> None:
    """Some epochs raise an MLP of 2 bits, the first and the last layer included, far above what calibration gives."""
    d = digits()
    keys = config(2)
    keys["quantize"]["overrides"] = {"fc3": {"config": {"data_out_width": 16}}}
    model = prepare(d.net, d.test[0][:1], keys, calibration=list(d.train[0].split(512)))
    before = accuracy(model.freeze().model, *d.test)
    torch.manual_seed(0)
    optimiser = torch.optim.Adam([{"params": model.weights(), "lr": 5e-3}, {"params": model.steps(), "lr": 5e-4}])
    model.train()
    for _ in range(3):
        for batch in torch.randperm(len(d.train[0])).split(64):
            optimiser.zero_grad()
            F.cross_entropy(model(d.train[0][batch]), d.train[1][batch]).backward()
            optimiser.step()
    after = accuracy(model.eval().freeze().model, *d.test)
    print(f"2 bits: {before:.4f} before, {after:.4f} after 3 epochs")
    assert after > before + 0.05 and after > 0.85


def test_two_bits_are_no_tampering() -> None:
    """A layer of 2 bits computes what its float layer computes, with ample bits; and not what another one does."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(40, 6)).eval(), torch.randn(64, 40)
    graph = prepare(net, x[:1], config(2, data_affine=True), calibration=[x]).freeze()
    module = layers(graph)["0" if "0" in layers(graph) else next(iter(layers(graph)))]
    assert isinstance(module, Quantized) and module.op.name == "linear"
    entered = graph.model.get_submodule(
        "input_quantize" if hasattr(graph.model, "input_quantize") else "input_1_quantize"
    )
    inputs = entered(x)
    with torch.no_grad():
        wanted = net(inputs)
        assert (module(inputs) - wanted).square().mean() > 0.1 * wanted.square().mean(), "2 bits are rough"
        ample_bits.compare("fc", module, wanted, [inputs])
        for other in (wanted * 1.01, wanted.flip(1), wanted + 0.05):
            with pytest.raises(GraphError, match="something else"):
                ample_bits.compare("fc", module, other, [inputs])
    assert type(FixedFormat(2, 0)) is not type(module.arithmetic.formats["weight"])
