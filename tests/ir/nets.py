"""Small networks and what the tests of the graph and its passes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.catalogue import Catalogue, default_catalogue
from mase_hw.ir import MaseGraph
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass, verify_analysis_pass


def catalogue() -> Catalogue:
    return default_catalogue()


class Of(nn.Module):
    """A function of one tensor as a model."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class With(nn.Module):
    """A function of a layer and a tensor as a model; the layer is called ``fc``."""

    def __init__(self, layer: nn.Module, function: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.fc, self.function = layer, function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.fc, x)


class MLP(nn.Module):
    """MASE's own example: flatten, linear and relu on 28x28 images."""

    def __init__(self, width: int = 784) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, width)
        self.fc2 = nn.Linear(width, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(x, start_dim=1, end_dim=-1)
        x = F.relu(self.fc1(x), inplace=False)
        return self.fc2(x)


class ConvNet(nn.Module):
    """Convolutions, statistics, a residual connection, in-place activations and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = F.relu(self.norm(self.body(x)) + x)
        x = self.average(self.pool(x))
        x = x.view(x.size(0), -1)
        x = F.dropout(self.drop(x), 0.5, self.training)
        return self.head(x)


def annotated(model: nn.Module, dummy_in: dict[str, Any], **args: Any) -> MaseGraph:
    """A graph with common metadata, verified."""
    graph = MaseGraph(model, catalogue=catalogue())
    graph, info = init_metadata_analysis_pass(graph)
    assert_json(info)
    graph, info = add_common_metadata_analysis_pass(graph, {"dummy_in": dummy_in, **args})
    assert_json(info)
    _, info = verify_analysis_pass(graph)
    assert_json(info)
    return graph


def assert_json(info: Any) -> None:
    """What a pass reports survives a round trip through JSON."""
    assert json.loads(json.dumps(info)) == info


def refusal(graph: MaseGraph, error: type[Exception], run: Callable[[], object]) -> str:
    """The message of a refusal that leaves no trace in the metadata."""
    before = snapshot(graph)
    with pytest.raises(error) as caught:
        run()
    assert type(caught.value) is error and snapshot(graph) == before
    return str(caught.value)


def snapshot(graph: MaseGraph) -> dict[str, Any]:
    """All metadata as plain dicts, to compare before and after."""
    trees = {n.name: n.meta["mase"].to_dict() for n in graph.nodes if "mase" in n.meta}
    return {"nodes": trees, "graph": graph.meta["mase"].to_dict(), "passes": list(graph.completed)}


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Fails if parameters, buffers, modules, training flags or the random state change inside."""

    def state() -> tuple[dict[str, Tensor], list[tuple[str, int, bool]], Tensor]:
        tensors = {k: v.clone() for k, v in model.state_dict().items()}
        modules = [(n, id(m), m.training) for n, m in model.named_modules()]
        return tensors, modules, torch.random.get_rng_state()

    before = state()
    yield
    after = state()
    assert before[0].keys() == after[0].keys()
    assert all(torch.equal(before[0][k], after[0][k]) for k in before[0])
    assert before[1] == after[1]
    assert torch.equal(before[2], after[2])
