"""SmoothQuant: the float function stays, factors are those of the paper, and quantisation gains."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import ConfigError, FormatError, GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.passes import calibrate_analysis_pass, quantize_transform_pass
from mase_hw.passes.evaluation import against, evaluate_statistic
from mase_hw.passes.quantize.smooth_quant import smooth_quant_transform_pass
from tests.ir.nets import assert_json
from tests.passes.test_equalize_cross_layer import changes_no_bit, computes_the_same
from tests.unit.pipeline import WIDTHS, annotated, inputs, quantised, rule, seeded, sequence


class Attention(nn.Module):
    """One head; three projections read one normalisation, and the residual connection does not."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q, self.k, self.v = nn.Linear(16, 8), nn.Linear(16, 8, bias=False), nn.Linear(16, 16)
        self.after, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))
        return x + self.down(torch.relu(self.up(self.after(x))))


NETS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module], dict[str, list[str]]]] = {
    "attention": ((2, 5, 16), Attention, {"norm": ["q", "k", "v"], "after": ["up"], "up": ["down"]}),
    "rms_norm": ((4, 8), sequence(nn.RMSNorm(8), nn.Linear(8, 4)), {"_0": ["_1"]}),
    "linear": ((4, 8), sequence(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), {"_0": ["_2"]}),
    "batch_norm": (
        (2, 4, 6, 6),
        sequence(nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1, groups=2)),
        {"_0": ["_2"]},
    ),
    "flatten": (
        (2, 3, 6, 6),
        sequence(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)),
        {"_0": ["_4"]},
    ),
}


def outliers(model: nn.Module, factor: float = 30.0) -> nn.Module:
    """Every eighth channel that a normalisation gives is much larger."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm2d):
            module.weight.data[::8] *= factor
    return model.eval()


def smoothed(model: nn.Module, x: Tensor, **args: Any) -> tuple[MaseGraph, dict[str, Any]]:
    graph, info = smooth_quant_transform_pass(annotated(model, x), {"data": x.split(2), **args})
    assert_json(info)
    return graph, info


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", NETS)
def test_the_float_function_stays(name: str, alpha: float) -> None:
    """In float64 to 1e-11 of the largest result, in float32 to 1e-4 of it: as for cross-layer equalization."""
    shape, kind, places = NETS[name]
    torch.manual_seed(0)
    model, x = outliers(kind().double()), inputs(*shape).double()
    graph, info = smoothed(model, x, alpha=alpha)
    assert {node: entry["layers"] for node, entry in info["smoothed"].items()} == places
    single, _ = smoothed(copy.deepcopy(model).float(), x.float(), alpha=alpha)
    computes_the_same(model, x, graph, single)


@pytest.mark.parametrize("name", NETS)
def test_powers_of_two_change_no_bit(name: str) -> None:
    shape, kind, _ = NETS[name]
    torch.manual_seed(0)
    model, x = outliers(kind()), inputs(*shape)
    graph, info = smoothed(model, x, power_of_two=True)
    changes_no_bit(model, x, graph)
    assert any(entry["scale"][1] != 1 for entry in info["smoothed"].values())


@pytest.mark.parametrize("alpha", [0.25, 0.75])
def test_factors_against_numpy(alpha: float) -> None:
    torch.manual_seed(0)
    model, x = outliers(Attention().double()), inputs(6, 5, 16).double()
    graph, _ = smoothed(model, x, alpha=alpha, nodes=["norm"])
    model.requires_grad_(False)
    norm = model.norm(x).numpy().reshape(-1, 16)
    readers = np.concatenate([layer.weight.numpy() for layer in (model.q, model.k, model.v)])
    scale = np.abs(norm).max(0) ** alpha / np.abs(readers).max(0) ** (1 - alpha)
    found = {name: value.detach().numpy() for name, value in graph.model.state_dict().items()}
    old = {name: value.numpy() for name, value in model.state_dict().items()}
    for name in ("norm.weight", "norm.bias"):
        assert np.allclose(found[name], old[name] / scale, rtol=1e-12)
    for name in ("q.weight", "k.weight", "v.weight"):
        assert np.allclose(found[name], old[name] * scale, rtol=1e-12)
    assert np.array_equal(found["after.weight"], old["after.weight"]), "only what was asked for"


def test_it_helps_with_planted_outliers() -> None:
    """Linear layers at 8 bits behind a normalisation in float, as language models have them."""
    torch.manual_seed(0)
    model = outliers(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16)), 100.0)
    model[1].weight.data[:, ::8] /= 100  # the outliers matter no more than the rest
    x = inputs(200, 64)
    config = {"default": rule(**WIDTHS), "layer_norm": {"config": {"name": None}}}

    def sqnr(graph: MaseGraph) -> float:
        graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
        graph, _ = quantize_transform_pass(graph, config)
        return evaluate_statistic(graph, against(model, [x]), "sqnr", fast_mode=True)

    plain, smooth = sqnr(annotated(model, x)), sqnr(smoothed(model, x)[0])
    assert plain < 10 and smooth > 25


class Skipped(nn.Module):
    """Every reason not to smooth."""

    def __init__(self) -> None:
        super().__init__()
        self.bare, self.a = nn.LayerNorm(8, elementwise_affine=False), nn.Linear(8, 8)
        self.both, self.b = nn.LayerNorm(8), nn.Linear(8, 8)
        self.wide = nn.LayerNorm((5, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(self.bare(x)))
        y = self.both(x)
        return self.wide(self.b(y) + y)


def test_what_cannot_be_smoothed_says_why() -> None:
    model, x = seeded(Skipped), inputs(4, 5, 8)
    graph, info = smoothed(model, x)
    assert info["smoothed"] == {}
    for name, reason in {
        "bare": "no weight",
        "a": "tanh (tanh) is no layer",
        "both": "add (add) is no layer",
        "b": "add (add) is no layer",
        "wide": "more than the channels",
    }.items():
        assert reason in info["skipped"][name], name
    changes_no_bit(model, x, graph)
    graph = annotated(model, x)
    with pytest.raises(UnsupportedError, match="add \\(add\\) is no layer"):
        smooth_quant_transform_pass(graph, {"data": [x], "nodes": ["both"]})
    with pytest.raises(UnsupportedError, match="neither norm nor layer"):
        smooth_quant_transform_pass(graph, {"data": [x], "nodes": ["tanh"]})
    with pytest.raises(GraphError, match="did you mean 'both'"):
        smooth_quant_transform_pass(graph, {"data": [x], "nodes": ["bot"]})


def test_data_and_arguments_are_checked_before_anything_changes() -> None:
    model, x = outliers(seeded(Attention)), inputs(2, 5, 16)
    graph = annotated(model, x)
    before = {name: value.clone() for name, value in graph.model.state_dict().items()}
    for error, args in (
        (ConfigError, {"data": []}),
        (ConfigError, {"data": [x], "alpha": 1.5}),
        (ConfigError, {}),
        (FormatError, {"data": [x, x * float("nan")]}),
    ):
        with pytest.raises(error):
            smooth_quant_transform_pass(graph, args)
    assert all(torch.equal(value, before[name]) for name, value in graph.model.state_dict().items())
    graph, _ = quantised(seeded(NETS["linear"][1]), inputs(4, 8))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="before quantize_transform_pass"):
        smooth_quant_transform_pass(graph, {"data": [inputs(4, 8)]})
