"""Common metadata holds no second copy of the weights; symbolically it needs no memory for tensors at all."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from mase_hw.ir import MaseGraph
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass


class Allocations(TorchDispatchMode):
    """Sizes of the storages that operations make, other than the known ones."""

    def __init__(self, known: set[int]) -> None:
        super().__init__()
        self.known = known
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, Tensor) and not isinstance(tensor, FakeTensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.known:
                    self.largest = max(self.largest, storage.nbytes())
        return result


class Wide(nn.Module):
    """Weights of all kinds, each far larger than any activation."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3000, 100)
        self.layer = nn.Linear(100, 3000)
        self.free = nn.Parameter(torch.randn(3000, 100))

    def forward(self, ids: Tensor) -> Tensor:
        return self.layer(self.table(ids)) @ self.free.t().transpose(0, 1)


def weights(model: nn.Module) -> set[int]:
    return {p.untyped_storage().data_ptr() for p in model.parameters()}


@pytest.mark.parametrize("symbolic", [False, True])
def test_no_weight_is_copied(symbolic: bool) -> None:
    model = Wide()
    least = min(p.untyped_storage().nbytes() for p in model.parameters() if p.dim() > 1)
    with Allocations(weights(model)) as made:
        graph = MaseGraph(model, share_weights=True)
        init_metadata_analysis_pass(graph)
        args = {"dummy_in": {"ids": torch.arange(4)}, "force_device_meta": symbolic}
        add_common_metadata_analysis_pass(graph, args)
    assert made.largest < least / 10
    values = [
        tensor.value
        for node in graph.nodes
        for common in [graph.meta_of(node).common]
        for tensor in (*common.args.tensors.values(), *common.results.tensors.values())
    ]
    kept = {value.untyped_storage().data_ptr() for value in values if isinstance(value, Tensor) and not value.is_meta}
    assert not kept if symbolic else weights(model) <= kept


def test_the_measurement_sees_a_copy() -> None:
    model = Wide()
    with Allocations(weights(model)) as made:
        MaseGraph(model)
    assert made.largest >= model.layer.weight.untyped_storage().nbytes()


def test_a_billion_parameters_on_meta_in_seconds() -> None:
    with torch.device("meta"):
        layers = [[nn.LayerNorm(4096), nn.Linear(4096, 16384), nn.GELU(), nn.Linear(16384, 4096)] for _ in range(8)]
        model = nn.Sequential(*[layer for block in layers for layer in block]).eval()
    assert sum(p.numel() for p in model.parameters()) > 1e9
    start = time.monotonic()
    graph = MaseGraph(model)
    init_metadata_analysis_pass(graph)
    add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": torch.ones(1, 4096)}, "force_device_meta": True})
    assert time.monotonic() - start < 10
    assert {p.device.type for p in graph.model.parameters()} == {"meta"}
    assert graph.tensor(graph.node("output"), "data_out_0").shape == [1, 4096]


def test_the_default_device_does_not_matter() -> None:
    class Offset(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.arange(x.size(0))

    graph = MaseGraph(Offset())
    init_metadata_analysis_pass(graph)
    args = {"dummy_in": {"x": torch.ones(3)}, "force_device_meta": True}
    with torch.device("meta"):
        add_common_metadata_analysis_pass(graph, args)
    assert graph.tensor(graph.node("add"), "data_out_0").shape == [3]
