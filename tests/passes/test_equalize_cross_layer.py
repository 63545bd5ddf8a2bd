"""Cross-layer equalization: the float function stays, channels become even, and quantisation gains."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, GraphError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import calibrate_analysis_pass, quantize_transform_pass
from mase_hw.passes.evaluation import against, evaluate_statistic
from mase_hw.passes.quantize.equalize_cross_layer import cross_layer_equalization_transform_pass
from tests.ir.nets import assert_json
from tests.unit.pipeline import EIGHT, annotated, inputs, quantised, seeded, sequence


class Reshaped(nn.Module):
    """The size of a tensor is no reader of its values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4 * 5 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv(x))
        return self.fc(x.view(x.size(0), -1))


NETS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module], list[tuple[str, str]]]] = {
    "linear": ((5, 6), sequence(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 3)), [("_0", "_2")]),
    "directly": ((5, 6), sequence(nn.Linear(6, 7, bias=False), nn.Linear(7, 3)), [("_0", "_1")]),
    "rows": ((2, 5, 6), sequence(nn.Linear(6, 7), nn.LeakyReLU(0.3), nn.Linear(7, 3)), [("_0", "_2")]),
    "chain": (
        (5, 6),
        sequence(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3)),
        [("_0", "_2"), ("_2", "_5")],
    ),
    "conv": (
        (2, 3, 7, 6),
        sequence(nn.Conv2d(3, 4, 3, padding=1), nn.PReLU(4), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2)),
        [("_0", "_3")],
    ),
    "depthwise": (
        (2, 3, 7, 6),
        sequence(nn.Conv2d(3, 6, 1), nn.ReLU(), nn.Conv2d(6, 12, 3, groups=6), nn.ReLU(), nn.Conv2d(12, 4, 1)),
        [("_0", "_2"), ("_2", "_4")],
    ),
    "groups": (
        (2, 4, 7, 6),
        sequence(nn.Conv2d(4, 6, 1, groups=2), nn.ReLU(), nn.Conv2d(6, 9, 3, groups=3, padding=1)),
        [("_0", "_2")],
    ),
    "flatten": (
        (2, 3, 7, 6),
        sequence(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(36, 3)),
        [("_0", "_4")],
    ),
    "global": (
        (2, 3, 7, 6),
        sequence(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
        [("_0", "_4")],
    ),
    "reshaped": ((2, 3, 7, 6), Reshaped, [("conv", "fc")]),
    "one_dimension": ((2, 3, 9), sequence(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Conv1d(8, 4, 3, groups=2)), [("_0", "_2")]),
}


def uneven(model: nn.Module) -> nn.Module:
    """Spread the channels of every layer over many orders of magnitude; one channel is not used at all."""
    generator = torch.Generator().manual_seed(5)
    for layer in [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]:
        weight = layer.weight.data
        for dim in (0, 1):
            factor = 10 ** (torch.rand(weight.shape[dim], generator=generator, dtype=weight.dtype) * 4 - 2)
            shape = [1] * weight.dim()
            shape[dim] = -1
            weight.mul_(factor.reshape(shape))
    first = next(m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d))
    first.weight.data[0] = 0.0
    return model.eval()


def equalised(model: nn.Module, x: Tensor, **args: Any) -> tuple[MaseGraph, dict[str, Any]]:
    graph, info = cross_layer_equalization_transform_pass(annotated(model, x), args)
    assert_json(info)
    return graph, info


def computes_the_same(model: nn.Module, x: Tensor, double: MaseGraph, single: MaseGraph) -> None:
    """To 1e-11 of the largest result in float64, in which a weight is rounded twice (2**-53 each) and sums are short.

    In float32 a weight is rounded twice by 2**-24 and a sum of fewer than 100 products gets as many steps of that,
    of terms below 100 times the largest result: 1e-4 of it is beyond what rounding does, and far below any wrong scale.
    """
    with torch.no_grad():
        want = model(x)
        scale = float(want.abs().max())
        assert float((double.model(x) - want).abs().max()) <= 1e-11 * scale
        assert float((single.model(x.float()).double() - want).abs().max()) <= 1e-4 * scale


def changes_no_bit(model: nn.Module, x: Tensor, graph: MaseGraph) -> None:
    with torch.no_grad():
        assert torch.equal(graph.model(x), model(x))


@pytest.mark.parametrize("name", NETS)
def test_the_float_function_stays(name: str) -> None:
    shape, kind, pairs = NETS[name]
    torch.manual_seed(0)
    model, x = uneven(kind().double()), inputs(*shape).double()
    graph, info = equalised(model, x)
    assert [(p["first"], p["second"]) for p in info["pairs"]] == pairs
    assert max(p["scale"][1] / p["scale"][0] for p in info["pairs"]) > 1.5, "nothing was to be done"
    single, _ = equalised(copy.deepcopy(model).float(), x.float())
    computes_the_same(model, x, graph, single)


@pytest.mark.parametrize("name", NETS)
def test_powers_of_two_change_no_bit(name: str) -> None:
    shape, kind, _ = NETS[name]
    torch.manual_seed(0)
    model, x = uneven(kind()), inputs(*shape)
    graph, info = equalised(model, x, power_of_two=True)
    changes_no_bit(model, x, graph)
    assert any(p["scale"] != [1.0, 1.0] for p in info["pairs"])


def test_ranges_are_equal_afterwards() -> None:
    """The largest weight of a channel is the same on both sides, the geometric mean of what they were."""
    torch.manual_seed(0)
    model, x = uneven(NETS["linear"][1]().double()), inputs(5, 6).double()
    graph, _ = equalised(model, x)
    before = model[0].weight.detach().abs().amax(1), model[2].weight.detach().abs().amax(0)
    after = graph.modules["0"].weight.detach().abs().amax(1), graph.modules["2"].weight.detach().abs().amax(0)
    assert torch.allclose(after[0][1:], after[1][1:], rtol=1e-12)
    assert torch.allclose(after[0][1:], (before[0] * before[1]).sqrt()[1:], rtol=1e-12)
    assert torch.equal(after[1][0], before[1][0]), "a channel that is not used is not scaled"


def test_a_chain_is_even_along_its_length() -> None:
    torch.manual_seed(0)
    model, x = uneven(NETS["chain"][1]().double()), inputs(5, 6).double()
    graph, info = equalised(model, x, tolerance=1e-9)
    assert 1 < info["iterations"] < 100
    for first, second in (("0", "2"), ("2", "5")):
        one = graph.modules[first].weight.detach().abs().amax(1)[1:]
        two = graph.modules[second].weight.detach().abs().amax(0)[1:]
        assert torch.allclose(one, two, rtol=1e-6)


class Skipped(nn.Module):
    """Every reason not to scale."""

    def __init__(self) -> None:
        super().__init__()
        self.sigmoid, self.normed, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.branch, self.shared, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.normed(torch.sigmoid(self.sigmoid(x)))
        x = self.branch(torch.relu(self.norm(x)))
        x = self.shared(torch.relu(x) + x)
        return self.last(torch.relu(self.shared(torch.relu(x))))


def test_what_cannot_be_scaled_says_why() -> None:
    torch.manual_seed(0)
    model, x = uneven(Skipped()), inputs(4, 6)
    graph, info = equalised(model, x)
    assert info["pairs"] == [] and info["iterations"] == 0
    for name, reason in {
        "sigmoid": "sigmoid_1 (sigmoid) is no layer and does not keep a scale",
        "normed": "norm (batch_norm1d) is no layer",
        "branch": "branch is read by 2 nodes",
        "shared": "shares its parameters with shared_1",
        "last": "output (output) is no layer",
    }.items():
        assert reason in info["skipped"][name], name
    with torch.no_grad():
        assert torch.equal(graph.model(x), model(x))


def planted(kind: Callable[[], nn.Module]) -> nn.Module:
    """A net in which one channel in eight is 100 times larger in one layer and 100 times smaller in the next."""
    torch.manual_seed(0)
    model = kind()
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    for first, second in pairwise(layers):
        first.weight.data[::8] *= 100
        first.bias.data[::8] *= 100
        if second.weight.shape[1] == 1:
            second.weight.data[::8] /= 100  # depthwise: its channels are those of the first
        else:
            second.weight.data[:, ::8] /= 100
    return model.eval()


def sqnr(graph: MaseGraph, model: nn.Module, x: Tensor) -> float:
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    graph, _ = quantize_transform_pass(graph, EIGHT)
    return evaluate_statistic(graph, against(model, [x]), "sqnr", fast_mode=True)


MLP = sequence(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
CNN = sequence(
    nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 1)
)


@pytest.mark.parametrize(("kind", "shape"), [(MLP, (200, 32)), (CNN, (20, 3, 10, 10))])
def test_it_helps_with_planted_outliers(kind: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """At 8 bits the small channels are lost in the format of the large ones; evened out they are not."""
    model, x = planted(kind), inputs(*shape)
    plain = sqnr(annotated(model, x), model, x)
    even = sqnr(equalised(model, x)[0], model, x)
    assert plain < 5 and even > 25, (plain, even)


def test_arguments_and_order_are_checked() -> None:
    model, x = seeded(NETS["linear"][1]), inputs(5, 6)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="iterations"):
        equalised(model, x, iterations=0)
    graph, _ = quantised(model, x)
    with pytest.raises(GraphError, match="before quantize_transform_pass"):
        cross_layer_equalization_transform_pass(graph, {})
    graph, _ = calibrate_analysis_pass(annotated(model, x), {"data": [x]})
    graph, _ = cross_layer_equalization_transform_pass(graph, {})
    # What was seen between the layers is not so any more; what enters and leaves the net is.
    for node, known in (("input_1", True), ("_0", False), ("_1", False), ("_2", True)):
        meta = graph.meta_of(graph.node(node))
        assert ("data_out_0" in meta.software.results) == known, node
        assert (meta.common.results["data_out_0"].value is not None) == known, node
    with pytest.raises(PassOrderError, match="calibrate_analysis_pass"):
        quantize_transform_pass(graph, EIGHT)
