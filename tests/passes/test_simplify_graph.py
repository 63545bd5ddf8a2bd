"""Simplifications change no bit of any result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.passes import calibrate_analysis_pass, quantize_transform_pass
from mase_hw.passes.lower.close_graph import close_graph_transform_pass
from mase_hw.passes.lower.fold_constants import simplify_graph_transform_pass
from tests.ir.nets import ConvNet, Of, With, assert_json
from tests.unit.pipeline import EIGHT, MLP, annotated, inputs, quantised, seeded


def simplified(model: nn.Module, *tensors: Tensor) -> tuple[MaseGraph, dict[str, Any]]:
    graph, info = simplify_graph_transform_pass(annotated(model, *tensors), {})
    assert_json(info)
    with torch.no_grad():
        assert torch.equal(graph.model.eval()(*tensors), model(*tensors))
    return graph, info


def names(graph: MaseGraph) -> list[str]:
    return [n.name for n in graph.nodes if n.op not in ("placeholder", "output")]


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.same, self.drop, self.out = nn.Linear(6, 5), nn.Identity(), nn.Dropout(0.5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(self.drop(self.same(self.fc(x))), 0.5, self.training)
        return self.out(F.dropout(x, p=0.5, training=False))


def test_identity_and_dropout() -> None:
    graph, info = simplified(seeded(Dropped), inputs(4, 6))
    assert names(graph) == ["fc", "out"] and set(graph.modules) == {"", "fc", "out"}
    assert list(info["removed"]) == ["same", "drop", "dropout", "dropout_1"]


def test_a_dropout_that_always_drops_stays() -> None:
    class Drops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x, 0.5)

    graph, info = simplify_graph_transform_pass(annotated(seeded(Drops), inputs(4, 6)), {})
    assert names(graph) == ["dropout"] and not info["removed"]


def test_real_net() -> None:
    _, info = simplified(seeded(ConvNet), inputs(2, 3, 8, 8))
    assert list(info["removed"]) == ["drop", "dropout"] and not info["constants"]


def test_relu_of_what_is_never_negative() -> None:
    def relus(fc: nn.Module, x: Tensor) -> Tensor:
        x = F.relu(torch.relu(F.relu(fc(x))))
        return F.relu(fc(x)) + torch.relu(torch.sigmoid(x)) + F.relu(torch.tanh(x))

    graph, info = simplified(With(nn.Linear(6, 6), relus), inputs(4, 6))
    assert list(info["removed"]) == ["relu_1", "relu_2", "relu_4"]
    assert [n for n in names(graph) if n.startswith("relu")] == ["relu", "relu_3", "relu_5"]


class Writes(nn.Module):
    """``relu_1`` gives a new tensor; without it ``add_`` would write the one that is still read."""

    def forward(self, x: Tensor) -> Tensor:
        first = torch.relu(x)
        second = torch.relu(first)
        second.add_(1.0)
        return second * first


def test_an_operation_in_place_keeps_its_tensor_to_itself() -> None:
    graph, info = simplified(seeded(Writes), inputs(4, 6))
    assert not info["removed"] and "relu_1" in names(graph)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.randn(5, 6)), nn.Parameter(torch.tensor(2.0))
        self.register_buffer("mask", (torch.rand(5, 6) > 0.5).float())
        self.fixed = nn.Parameter(torch.randn(3, 5), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, (self.weight * self.mask) * self.gain)
        return F.linear(x.relu(), self.fixed.neg())


def test_arithmetic_on_parameters_is_done_once() -> None:
    model, x = seeded(Masked), inputs(4, 6)
    graph, info = simplified(model, x)
    assert info["constants"] == {"mul_1": "mul_1_folded", "neg": "neg_folded"}
    assert names(graph) == ["mul_1_folded", "linear", "relu", "neg_folded", "linear_1"]
    assert torch.equal(graph.model.mul_1_folded, model.weight * model.mask * 2)
    assert isinstance(graph.model.mul_1_folded, nn.Parameter) and graph.model.mul_1_folded.requires_grad
    assert not isinstance(graph.model.neg_folded, nn.Parameter) and torch.equal(graph.model.neg_folded, -model.fixed)
    # What quantisation refuses in the plain graph, it takes now.
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    graph, _ = quantize_transform_pass(graph, EIGHT)
    assert names(graph) == ["x_quantize", "linear", "relu", "linear_1"]


@pytest.mark.parametrize("drop", [lambda p: F.dropout(p, 0.5), lambda p: torch.dropout(p, 0.5, True)])
def test_what_depends_on_chance_is_left_alone(drop: Callable[[Tensor], Tensor]) -> None:
    class Random(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(torch.ones(6))

        def forward(self, x: Tensor) -> Tensor:
            return x * drop(self.p)

    graph, info = simplify_graph_transform_pass(annotated(seeded(Random), inputs(4, 6)), {})
    assert not info["constants"] and "dropout" in names(graph)


def test_a_written_parameter_is_no_constant() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = nn.Parameter(torch.ones(6), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.state.add_(1.0).neg()

    model, x = seeded(Counter), inputs(4, 6)
    graph, info = simplify_graph_transform_pass(annotated(model, x), {})
    assert not info["constants"] and names(graph) == ["state", "add_", "neg", "add"]


def test_nothing_to_do_and_a_quantised_graph() -> None:
    graph, info = simplified(seeded(MLP), inputs(4, 6))
    assert info == {"modified": False, "removed": {}, "constants": {}} and names(graph) == ["fc1", "relu", "fc2"]
    graph, _ = quantised(seeded(MLP), inputs(4, 6))
    with pytest.raises(GraphError, match="before quantize_transform_pass"):
        simplify_graph_transform_pass(graph, {})


@pytest.mark.parametrize(
    "line",
    [
        lambda x: x + x,
        lambda x: (x * 3 - 100).float(),
        lambda x: -x,
        lambda x: ((x > 2).to(torch.uint8) - 1).float(),
        lambda x: ((x > 2).to(torch.uint8) * x + x).float(),
    ],
)
def test_sums_of_narrow_integers_that_may_wrap_are_refused(line: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(UnsupportedError, match="wrap in PyTorch"):
        close_graph_transform_pass(annotated(Of(line), torch.tensor([[1, 2, 3]], dtype=torch.uint8)))


def test_sums_of_narrow_integers_that_fit_are_taken() -> None:
    for line in (
        lambda x: 1 - (x > 2).to(torch.uint8),
        lambda x: (x > 2).to(torch.uint8) * x,
        lambda x: x.int() * 300 + 7,
    ):
        close_graph_transform_pass(annotated(Of(line), torch.tensor([[1, 2, 3]], dtype=torch.uint8)))
