"""Batch norm folding leaves the function of the net, and the metadata of the graph stays true."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mase_hw.errors import GraphError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import calibrate_analysis_pass, quantize_transform_pass
from mase_hw.passes.lower.fold_batch_norm import fold_batch_norm_transform_pass
from tests.ir.nets import ConvNet, assert_json
from tests.unit.pipeline import EIGHT, annotated, inputs, quantised, seeded, sequence


def spread(model: nn.Module) -> nn.Module:
    """Statistics and affine parameters far from those of a fresh normalisation, of either sign."""
    generator = torch.Generator().manual_seed(3)

    def random(like: Tensor, low: float, high: float) -> Tensor:
        return torch.rand(like.shape, generator=generator, dtype=like.dtype) * (high - low) + low

    for norm in [m for m in model.modules() if isinstance(m, _BatchNorm)]:
        if norm.running_mean is not None and norm.running_var is not None:
            norm.running_mean.copy_(random(norm.running_mean, -1, 1))
            norm.running_var.copy_(random(norm.running_var, 0.05, 9))
        if norm.affine:
            norm.weight.data.copy_(random(norm.weight, -2, 2))
            norm.bias.data.copy_(random(norm.bias, -1, 1))
    return model.eval()


def fold(model: nn.Module, *tensors: Tensor) -> tuple[MaseGraph, dict[str, Any]]:
    graph, info = fold_batch_norm_transform_pass(annotated(model, *tensors), {})
    assert_json(info)
    return graph, info


BEFORE = {
    "conv": ((2, 3, 7, 6), sequence(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())),
    "conv_without_bias": ((2, 3, 7, 6), sequence(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4))),
    "not_affine": ((2, 3, 7, 6), sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False))),
    "depthwise": ((2, 6, 7, 6), sequence(nn.Conv2d(6, 12, 3, groups=6, stride=2), nn.BatchNorm2d(12))),
    "conv1d": ((2, 3, 9), sequence(nn.Conv1d(3, 4, 3, dilation=2), nn.BatchNorm1d(4))),
    "transposed": ((2, 6, 5), sequence(nn.ConvTranspose1d(6, 4, 3, 2, groups=2), nn.BatchNorm1d(4))),
    "linear": ((5, 6), sequence(nn.Linear(6, 4), nn.BatchNorm1d(4, eps=1e-2), nn.ReLU(), nn.Linear(4, 3))),
    "linear_without_bias": ((5, 6), sequence(nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4))),
    "twice": ((2, 3, 5, 5), sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4))),
    "relu_in_place": ((2, 3, 5, 5), sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))),
}
AFTER = {
    "linear": ((5, 6), sequence(nn.BatchNorm1d(6), nn.Linear(6, 4))),
    "linear_without_bias": ((5, 6), sequence(nn.BatchNorm1d(6), nn.Linear(6, 4, bias=False))),
    "conv": ((2, 3, 7, 6), sequence(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3))),
    "conv_valid": ((2, 3, 7, 6), sequence(nn.BatchNorm2d(3), nn.Conv2d(3, 4, (3, 2), padding="valid", bias=False))),
    "same_of_one": ((2, 3, 7, 6), sequence(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1, padding="same"))),
    "reflected": ((2, 3, 7, 6), sequence(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"))),
    "groups": ((2, 6, 7, 6), sequence(nn.BatchNorm2d(6), nn.Conv2d(6, 9, 3, groups=3))),
    "depthwise": ((2, 6, 7, 6), sequence(nn.BatchNorm2d(6), nn.Conv2d(6, 12, 3, groups=6))),
    "input_in_place": ((2, 4), sequence(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 4))),
}


def check_function(kind: Callable[[], nn.Module], shape: tuple[int, ...], left: int = 0) -> dict[str, Any]:
    """The folded net in float64 and float32 against the unfolded one in float64.

    In float64, where rounding is 2**-53 of the largest intermediate value, agreement to 1e-11 of it leaves no room for
    a wrong formula. In float32 the folded net may err by what its own rounding allows: every weight is rounded once
    (2**-24), a sum of n products adds at most n more such steps; n is below 100 here, sums are below 100 times the
    largest result, so 1e-4 times the largest result holds with a margin.
    """
    torch.manual_seed(0)
    model = spread(kind().double())
    x = inputs(*shape).double()
    with torch.no_grad():
        want = model(x)
    scale = float(want.abs().max())
    graph, info = fold(model, x)
    norms = [m for m in graph.model.modules() if isinstance(m, _BatchNorm)]
    assert len(norms) == left, info
    assert float((graph.model(x).detach() - want).abs().max()) <= 1e-11 * scale
    single = copy.deepcopy(model).float()
    graph, _ = fold(single, x.float())
    assert float((graph.model(x.float()).detach().double() - want).abs().max()) <= 1e-4 * scale
    return info


@pytest.mark.parametrize("name", BEFORE)
def test_folded_into_the_layer_before(name: str) -> None:
    shape, kind = BEFORE[name]
    info = check_function(kind, shape)
    assert not info["kept"] and {entry["where"] for entry in info["folded"].values()} == {"before"}


@pytest.mark.parametrize("name", AFTER)
def test_folded_into_the_layer_after(name: str) -> None:
    shape, kind = AFTER[name]
    info = check_function(kind, shape)
    assert not info["kept"] and {entry["where"] for entry in info["folded"].values()} == {"after"}


def test_padding_with_zeros_is_no_matter_without_a_shift() -> None:
    class Unshifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.conv = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(self.norm(x))

    model, x = seeded(Unshifted).double(), inputs(2, 3, 5, 5).double()
    model.norm.running_var.fill_(4.0)
    graph, info = fold(model, x)
    assert list(info["folded"]) == ["norm"]
    assert torch.allclose(graph.model(x), model(x), rtol=0, atol=1e-12)
    model.norm.running_mean.fill_(1.0)
    graph, info = fold(model, x)
    assert "pads with zeros" in info["kept"]["norm"]
    assert torch.equal(graph.model(x), model(x))


def test_a_real_net_with_a_residual_connection() -> None:
    torch.manual_seed(0)
    model, x = spread(ConvNet().double()), inputs(2, 3, 8, 8).double()
    graph, info = fold(model, x)
    assert info["folded"] == {
        "stem_1": {"layer": "stem_0", "where": "before"},
        "norm": {"layer": "body", "where": "before"},
    }
    assert torch.allclose(graph.model(x), model(x), rtol=0, atol=1e-12)
    assert not any(isinstance(m, _BatchNorm) for m in graph.model.modules())
    common = graph.meta_of(graph.node("body")).common
    assert common.args["bias"].shape == [8] and common.args["weight"].shape == [8, 8, 3, 3]
    # Values that are kept are the true ones.
    assert torch.equal(common.args["weight"].value, graph.modules["body"].weight)
    body = F.conv2d(model.stem(x), graph.modules["body"].weight, graph.modules["body"].bias, padding=1)
    assert torch.allclose(common.results["data_out_0"].value, body, atol=1e-11)


class Kept(nn.Module):
    """Every reason not to fold."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.read_twice = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.after_relu = nn.BatchNorm2d(3)
        self.shared, self.norm_a, self.norm_b = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.unknown, self.batch = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3, track_running_stats=False)
        self.rows, self.of_rows = nn.Linear(4, 4), nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = self.read_twice(y) + y
        y = self.after_relu(torch.relu(y))
        y = torch.relu(self.norm_a(self.shared(y)))
        y = torch.relu(self.norm_b(self.shared(y)))
        y = self.batch(self.unknown(y))
        return self.of_rows(self.rows(y.mean(2)))


def test_what_cannot_be_folded_stays_and_says_why() -> None:
    torch.manual_seed(0)
    model, x = spread(Kept().double()), inputs(2, 3, 4, 4).double()
    graph, info = fold(model, x)
    assert info["folded"] == {}
    for name, reason in {
        "read_twice": "conv is also read by add",
        "after_relu": "relu (relu) is neither convolution nor linear layer",
        "norm_a": "shared shares its parameters with shared_1",
        "norm_b": "shared_1 shares its parameters with shared",
        "batch": "takes those of the batch",
        "of_rows": "the channels of rows are not those of the normalisation",
    }.items():
        assert reason in info["kept"][name], name
    assert torch.equal(graph.model(x), model(x))


def test_tied_weights_of_two_layers_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.b(torch.relu(self.norm(self.a(x))))

    torch.manual_seed(0)
    graph, info = fold(spread(Tied()), inputs(3, 4))
    assert "shares its parameters with b" in info["kept"]["norm"]
    assert graph.modules["a"].weight is graph.modules["b"].weight


def test_the_callers_model_is_untouched() -> None:
    torch.manual_seed(0)
    model, x = spread(ConvNet()), inputs(2, 3, 8, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fold(model, x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_weights_go_on_training() -> None:
    graph, _ = fold(spread(BEFORE["conv_without_bias"][1]()), inputs(2, 3, 7, 6))
    parameters = dict(graph.model.named_parameters())
    assert sorted(parameters) == ["0.bias", "0.weight"] and all(p.requires_grad for p in parameters.values())


def test_calibrated_before_must_be_calibrated_again() -> None:
    """What was observed of the old weights must not choose the format of the new ones."""
    model, x = spread(BEFORE["linear"][1]()), inputs(5, 6)
    graph = annotated(model, x)
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    graph, _ = fold_batch_norm_transform_pass(graph, {})
    assert "calibrate_analysis_pass" not in graph.completed
    with pytest.raises(PassOrderError, match="calibrate_analysis_pass"):
        quantize_transform_pass(graph, EIGHT)
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    graph, _ = quantize_transform_pass(graph, EIGHT)
    assert [n.name for n in graph.nodes] == ["input_1", "input_1_quantize", "_0", "_2", "_3", "output"]


def test_a_quantised_graph_is_refused() -> None:
    graph, _ = quantised(seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU())), inputs(2, 4))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="before quantize_transform_pass"):
        fold_batch_norm_transform_pass(graph, {})
