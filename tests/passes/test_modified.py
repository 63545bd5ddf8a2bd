"""A pass that changed nothing says so, and nothing that was known before is thrown away."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw.emit
import mase_hw.fit
import mase_hw.passes
import mase_hw.vectors
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    absorb_bias_transform_pass,
    calibrate_analysis_pass,
    close_graph_transform_pass,
    cross_layer_equalization_transform_pass,
    equalization_transform_pass,
    fold_batch_norm_transform_pass,
    fold_constants_transform_pass,
    lower_arithmetic_transform_pass,
    lower_attention_transform_pass,
    lower_layers_transform_pass,
    lower_movement_transform_pass,
    lower_patterns_transform_pass,
    lower_products_transform_pass,
    lower_rows_transform_pass,
    lower_slices_transform_pass,
    lower_streaming_transform_pass,
    quantize_transform_pass,
    simplify_graph_transform_pass,
    smooth_quant_transform_pass,
    tabulate_transform_pass,
)
from mase_hw.passes.base import GraphPass
from mase_hw.passes.names import PASS_NAMES
from mase_hw.passes.pipeline import Pipeline, Step
from tests.unit.pipeline import EIGHT, annotated, inputs, seeded

X = inputs(4, 6)
OWN = {"lower_streaming": X.unsqueeze(0), "tabulate": torch.arange(6)[None]}
"""Inputs of transforms that take no frames of vectors."""


class Lone(nn.Module):
    """A layer that no transform has anything to do with."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(self.fc(x))


class Rich(nn.Module):
    """Something to do for every transform: a normalisation, a constant, a part, an identity, two layers in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.relu, self.fc2 = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6)
        self.same = nn.Identity()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.same(self.fc2(self.relu(self.norm(self.fc1(x)))))
        return torch.narrow(y * self.scale.neg(), 1, 0, 4)


class Turned(nn.Module):
    """Elements change places, and a column is added to all of them."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1) + x[:, :1]


class Delayed(nn.Module):
    """A convolution that sees the column before each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(nn.functional.pad(x, (1, 0)))  # type: ignore[no-any-return]


class Raised(nn.Module):
    """A square, which is a product of the stream with itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x**2


class Weighted(nn.Module):
    """Three elements weighted by how they go together, twice in a frame."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.reshape(-1, 2, 3)
        return (torch.softmax(torch.matmul(y, y.transpose(1, 2)) * 0.5, -1) @ y).flatten(1)


NORM = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))


def positive() -> nn.Module:
    """What comes out of the first layer is never near zero."""
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    nn.init.constant_(net[0].bias, 50.0)  # type: ignore[arg-type]
    return net


class Gated(nn.Module):
    """An activation of torch, written out."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


class Gram(nn.Module):
    """A product of data with itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x.t() @ x


class Lettered(nn.Module):
    """A norm of embedded letters, and what meets the others."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.norm = nn.Embedding(7, 4), nn.RMSNorm(4)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.cumsum(self.norm(self.letters(ids)), 1)


TRANSFORMS: dict[str, tuple[GraphPass[Any], dict[str, Any], Callable[[], nn.Module]]] = {
    "fold_batch_norm": (fold_batch_norm_transform_pass, {}, Rich),
    "fold_constants": (fold_constants_transform_pass, {}, Rich),
    "close_graph": (close_graph_transform_pass, {}, nn.Flatten),
    "lower_arithmetic": (lower_arithmetic_transform_pass, {}, Raised),
    "lower_attention": (lower_attention_transform_pass, {}, Weighted),
    "lower_layers": (
        lower_layers_transform_pass,
        {},
        lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ConvTranspose1d(2, 1, 2, 2), nn.Flatten()),
    ),
    "lower_movement": (lower_movement_transform_pass, {}, Turned),
    "lower_patterns": (lower_patterns_transform_pass, {}, Gated),
    "lower_products": (lower_products_transform_pass, {}, Gram),
    "lower_rows": (lower_rows_transform_pass, {}, lambda: nn.Softmax(1)),
    "lower_slices": (lower_slices_transform_pass, {}, Rich),
    "lower_streaming": (lower_streaming_transform_pass, {}, Delayed),
    "simplify_graph": (simplify_graph_transform_pass, {}, Rich),
    "equalize": (cross_layer_equalization_transform_pass, {}, lambda: NORM),
    "absorb_bias": (absorb_bias_transform_pass, {"data": [X]}, positive),
    "equalization": (equalization_transform_pass, {"data": [X], "cross_layer": True, "keep": "always"}, lambda: NORM),
    "tabulate": (tabulate_transform_pass, {"most": 1 << 10}, Lettered),
    "smooth_quant": (smooth_quant_transform_pass, {"data": [X]}, lambda: NORM),
}


def state(graph: MaseGraph) -> list[Any]:
    nodes = [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs)) for n in graph.nodes]
    return [nodes, {name: value.tolist() for name, value in graph.model.state_dict().items()}]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_nothing_done_leaves_the_record_of_the_calibration(name: str) -> None:
    transform, args, _ = TRANSFORMS[name]
    x = X if name == "tabulate" else OWN.get(name, X)
    graph, _ = calibrate_analysis_pass(annotated(seeded(Lone).eval(), x), {"data": [x]})
    before, done = state(graph), graph.completed
    graph, info = transform(graph, args)
    assert info["modified"] is False and state(graph) == before
    # One that consists of others is recorded after them.
    assert graph.completed[: len(done)] == done and graph.completed[-1] == transform.name
    quantize_transform_pass(graph, EIGHT)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_something_done_is_said_and_outdates_what_it_must(name: str) -> None:
    transform, args, model = TRANSFORMS[name]
    x = OWN.get(name, X)
    graph, _ = calibrate_analysis_pass(annotated(seeded(model).eval(), x), {"data": [x]})
    before = state(graph)
    graph, info = transform(graph, args)
    assert info["modified"] is True and state(graph) != before
    assert not set(transform.invalidates) & set(graph.completed)


def test_a_pipeline_says_which_steps_changed_the_network() -> None:
    steps = [
        Step("norms", fold_batch_norm_transform_pass),
        Step("constants", fold_constants_transform_pass),
        Step("plain", lambda graph, args: (graph, {}), {}),
    ]
    run = Pipeline(steps).run(annotated(seeded(lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))).eval(), X))
    assert run.modified == ["norms", "plain"]  # a function that does not say counts as one that did


def all_passes() -> dict[str, GraphPass[Any]]:
    found = {}
    for package in (mase_hw.passes, mase_hw.emit, mase_hw.fit, mase_hw.vectors):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            found |= {v.name: v for v in vars(importlib.import_module(info.name)).values() if isinstance(v, GraphPass)}
    return found


def test_the_table_of_names_is_that_of_the_passes() -> None:
    assert {name for each in all_passes().values() for name in each.gives} == PASS_NAMES


def test_every_transform_that_outdates_something_is_tried_here() -> None:
    """A new one says ``modified``, or is one that always changes the network."""
    tried = {transform.name for transform, _, _ in TRANSFORMS.values()} | {"quantize_transform_pass"}
    always = {"init_metadata_analysis_pass", "calibration_quantization_transform_pass"}
    # Those of quantised graphs are tried in test_rounding_passes.py.
    always |= {"round_weights_transform_pass", "correct_bias_transform_pass"}
    assert {name for name, each in all_passes().items() if each.invalidates} == tried | always
