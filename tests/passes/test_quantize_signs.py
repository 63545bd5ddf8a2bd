"""Binary and ternary weights: the published rules, which nodes take them, training, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.errors import ConfigError, FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, SignFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import explain, quantize_transform_pass, verify_analysis_pass
from mase_hw.passes.quantize.sign_weights import means, weight_format
from mase_hw.training import prepare
from mase_hw.training.learned_step import LearnedStep
from tests.passes.digits import Digits, accuracy, digits, digits_cnn
from tests.unit.pipeline import EIGHT, MLP, WIDTHS, calibrated, inputs, quantised, rule, seeded


def signs(kind: str, *ops: str, **keys: Any) -> dict[str, Any]:
    """8 bits, but signs for the weights of these ops."""
    return {"by": "type", **EIGHT, **{op: {"config": {"name": kind, **keys}} for op in ops or ("linear",)}}


def by_hand(weight: Tensor, kind: str) -> tuple[int, Fraction]:
    """Fraction width and threshold, in fractions throughout; Li et al. 2016 and Rastegari et al. 2016."""
    sizes = [abs(Fraction(w)) for w in weight.flatten().tolist()]
    mean = sum(sizes) / len(sizes)
    threshold = Fraction(7, 10) * mean
    beyond = [size for size in sizes if size > threshold]
    scale = mean if kind == "binary" else sum(beyond) / len(beyond)
    # Nearest in the logarithm: 2**k is, if the scale's square lies between 2**(2k - 1) and 2**(2k + 1).
    frac = next(f for f in range(-40, 60) if Fraction(2) ** (-2 * f - 1) < scale**2 <= Fraction(2) ** (-2 * f + 1))
    return frac, threshold


@pytest.mark.parametrize("kind", ["binary", "ternary"])
def test_the_published_rules(kind: str) -> None:
    torch.manual_seed(1)
    tried = [torch.randn(7, 5) * 2.0**k for k in (-9, -1, 0, 4)]
    tried += [torch.rand(30) ** 8, torch.full((2, 3), -0.37), torch.tensor([1.49, -1.49])]
    for weight in tried:
        fmt, reason = weight_format("fc", weight, kind, None)
        frac, threshold = by_hand(weight, kind)
        assert (fmt.kind, fmt.frac_width) == (kind, frac) and reason.startswith("mean magnitude")
        if kind == "ternary":
            assert fmt.threshold == pytest.approx(float(threshold * Fraction(2) ** frac), rel=1e-15)
            assert fmt.threshold < 0.7 * math.sqrt(2)


def test_the_mean_does_not_depend_on_the_order() -> None:
    torch.manual_seed(0)
    weight = torch.randn(1000) * torch.exp(torch.randn(1000) * 8)
    for kind in ("binary", "ternary"):
        assert len({means(weight[torch.randperm(1000)], kind) for _ in range(5)}) == 1


@pytest.mark.parametrize("kind", ["binary", "ternary"])
def test_a_network(kind: str, tmp_path: Path) -> None:
    net, x = seeded(MLP), inputs(32, 6)
    graph, info = quantised(net, x, config=signs(kind))
    verify_analysis_pass(graph)
    for name in ("fc1", "fc2"):
        module = graph.meta_of(graph.node(name)).module
        assert isinstance(module, Quantized)
        fmt, weight = module.arithmetic.formats["weight"], module.get_parameter("weight")
        frac, threshold = by_hand(weight, kind)
        assert isinstance(fmt, SignFormat) and (fmt.kind, fmt.frac_width) == (kind, frac)
        wanted = [
            (w > 0) - (w < 0) if kind == "binary" or abs(Fraction(w)) > threshold else 0
            for w in weight.flatten().tolist()
        ]
        assert module.mantissa("weight").flatten().tolist() == wanted
        tensor = graph.tensor(graph.node(name), "weight")
        assert (tensor.type, tensor.precision) == (kind, [1 if kind == "binary" else 2, frac])
        assert "mean magnitude" in info["nodes"][name]["reasons"]["weight"]
        said = str(explain(graph, name))
        assert str(fmt) in said and "mean magnitude" in said
        # The other tensors are those of fixed point; the bias is no finer than the products.
        others = {key: f for key, f in module.arithmetic.formats.items() if key != "weight"}
        assert {type(f) for f in others.values()} == {FixedFormat}
        assert others["bias"].frac_width <= others["data_in_0"].frac_width + frac
    graph.export(tmp_path / "kept")
    again = MaseGraph.from_checkpoint(tmp_path / "kept")
    assert torch.equal(again.model(x), graph.model(x))
    module = again.meta_of(again.node("fc1")).module
    assert isinstance(module, Quantized) and isinstance(module.arithmetic.formats["weight"], SignFormat)


def test_keys_of_weaker_rules_speak_of_other_weights() -> None:
    """8 bits and a fraction width of the default do not matter; those that stand with the name or above it do."""
    net, x = seeded(MLP), inputs(32, 6)
    config = signs("ternary")
    config["default"] = rule(**WIDTHS, weight_frac_width=3, weight_granularity="channel")
    config["overrides"] = {"fc2": {"config": {"weight_frac_width": 1}}}
    _, info = quantised(net, x, config=config)
    assert info["nodes"]["fc1"]["formats"]["weight"] == f"ternary 2^{-by_hand(net.fc1.weight, 'ternary')[0]}"
    assert info["nodes"]["fc2"]["formats"]["weight"] == "ternary 2^-1"
    assert info["nodes"]["fc2"]["reasons"]["weight"] == "configured"
    # A stronger rule takes the name back.
    config["overrides"] = {"fc2": {"config": {"name": "fixed", "weight_granularity": "tensor"}}}
    _, info = quantised(net, x, config=config)
    assert info["nodes"]["fc2"]["formats"]["weight"] == "s8.3"


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"weight_width": 4}, "weight_width"),
        ({"weight_granularity": "channel"}, "weight_granularity"),
        ({"weight_signed": False}, "weight_signed"),
        ({"weight_frac_width": 12}, "weight_frac_width"),
    ],
)
def test_what_signs_cannot_be(keys: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quantised(seeded(MLP), inputs(8, 6), config=signs("ternary", **keys))
    assert caught.value.field == f"quantize.*.config.{field}" and caught.value.node == "fc1" and caught.value.remedy


def test_weights_without_a_scale() -> None:
    net, x = seeded(MLP), inputs(8, 6)
    with torch.no_grad():
        net.fc2.weight.zero_()
    with pytest.raises(ConfigError, match="all 0") as caught:
        quantised(net, x, config=signs("binary"))
    assert caught.value.node == "fc2"
    graph, _ = quantised(net, x, config=signs("ternary"))
    module = graph.meta_of(graph.node("fc2")).module
    assert isinstance(module, Quantized) and not module.mantissa("weight").any()
    with pytest.raises(FormatError, match="not finite"):
        weight_format("fc", torch.tensor([1.0, float("inf")]), "binary", None)


@pytest.mark.parametrize(
    "config", [{"default": rule(**{**WIDTHS, "name": "binary"})}, signs("binary", "relu", "linear")]
)
def test_ops_without_such_weights_are_named(config: dict[str, Any]) -> None:
    graph = calibrated(seeded(MLP), inputs(8, 6))
    with pytest.raises(UnsupportedError, match="'relu' cannot have binary weights") as caught:
        quantize_transform_pass(graph, config)
    assert caught.value.node == "relu: relu" and "overrides.relu" in str(caught.value.remedy)


def test_the_gradient_of_a_learned_scale() -> None:
    """``ds`` is the sum of the signs (formula 7 of trained ternary quantisation), ``dx`` is 1 everywhere."""
    x = torch.tensor([-1.5, -0.2, 0.1, 0.9, 3.0], requires_grad=True)
    grid = LearnedStep(SignFormat.ternary(0, 0.5), per_frame=False)
    g = torch.tensor([1.0, 10.0, 100.0, 1000.0, 10000.0])
    (grid(x) * g).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, g)
    assert grid.step.grad is not None
    assert grid.step.grad.item() == pytest.approx((-1 + 1000 + 10000) / math.sqrt(5))


def learn(d: Digits, kind: str, ops: tuple[str, ...]) -> tuple[Any, Any]:
    """The network with learned scales, trained, and its quantised graph."""
    calibration = list(d.train[0].split(512))
    model = prepare(d.net, d.test[0][:1], {"quantize": signs(kind, *ops)}, calibration=calibration)
    for epochs, rate in ((10, 2e-3), (6, 1e-3)):
        torch.manual_seed(0)
        steps = [{"params": [s for s in model.steps() if s.requires_grad], "lr": rate / 100}]
        optimiser = torch.optim.Adam([{"params": model.weights(), "lr": rate}, *(steps if steps[0]["params"] else [])])
        model.train()
        for _ in range(epochs):
            for batch in torch.randperm(len(d.train[0])).split(64):
                optimiser.zero_grad()
                F.cross_entropy(model(d.train[0][batch]), d.train[1][batch]).backward()
                optimiser.step()
        model.round_steps()
    return model.eval(), model.freeze()


@pytest.mark.parametrize(
    ("make", "kind", "before", "after"),
    [
        (digits, "ternary", 0.85, 0.94),
        pytest.param(digits, "binary", 0.70, 0.90, marks=pytest.mark.slow),
        # Nine trainings with other seeds and rates ended between 0.88 and 0.95.
        pytest.param(digits_cnn, "binary", 0.50, 0.87, marks=pytest.mark.slow),
        pytest.param(digits_cnn, "ternary", 0.75, 0.92, marks=pytest.mark.slow),
    ],
    ids=["mlp-ternary", "mlp-binary", "cnn-binary", "cnn-ternary"],
)
def test_training_wins_back_what_signs_cost(make: Any, kind: str, before: float, after: float) -> None:
    """On real digits: after training for scales that are then powers of two, and what hardware computes is that."""
    d = make()
    ops = ("linear",) if make is digits else ("linear", "conv2d")
    plain, _ = quantize_transform_pass(d.graph(), signs(kind, *ops))
    lost = accuracy(plain.model, *d.test)
    model, graph = learn(d, kind, ops)
    found = accuracy(graph.model, *d.test)
    print(f"{kind}: float {accuracy(d.net, *d.test):.4f}, rounded {lost:.4f}, trained {found:.4f}")
    assert lost < before and found > after
    with torch.no_grad():
        assert torch.equal(graph.model(d.test[0]), model(d.test[0]))
    for node in graph.nodes:
        module = graph.meta_of(node).module
        if isinstance(module, Quantized) and module.mase_op in ops:
            assert isinstance(module.arithmetic.formats["weight"], SignFormat)


def test_the_quantised_model_trains_as_it_is() -> None:
    """Straight-through gradients, an ordinary loop: weights with the wrong sign find their way back."""
    net, x = seeded(MLP), inputs(64, 6)
    graph, _ = quantised(net, x, config=signs("binary"))
    layer = graph.meta_of(graph.node("fc1")).module
    assert isinstance(layer, Quantized)
    right, target = layer.mantissa("weight"), graph.model(x).detach()
    with torch.no_grad():
        layer.get_parameter("weight")[::2].mul_(-0.1)
    optimiser = torch.optim.Adam([layer.get_parameter("weight")], lr=5e-3)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = F.mse_loss(graph.model(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert min(losses) < 0.3 * losses[0], losses[::10]
    assert (layer.mantissa("weight") == right).sum() > (right[1::2] == right[1::2]).sum()
