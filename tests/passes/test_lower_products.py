"""Products of two tensors of data become one function; what it computes, and which orders it asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    lower_movement_transform_pass,
    lower_products_transform_pass,
    quantize_transform_pass,
)

CONFIG = {
    "name": "fixed",
    **{f"{part}_{key}": value for part in ("data_in", "data_out") for key, value in (("width", 8), ("frac_width", 4))},
    "weight_width": 8,
}
Function = Callable[[Tensor, Tensor], Tensor]


class Net(nn.Module):
    """A function of two inputs."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(x, y)


def heads(value: Tensor, count: int = 3) -> Tensor:
    """Heads, as attention has them: token by token in the stream."""
    return value.unflatten(-1, (count, -1)).transpose(1, 2)


def turned(value: Tensor) -> Tensor:
    """Matrices transposed."""
    return value.transpose(-1, -2)


# Function, shapes of both inputs; what the product takes of them, and whether rows are met.
FORMS: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...], tuple[list[int], list[int], bool]]] = {
    "plain": (lambda x, y: x @ y, (1, 4, 5), (1, 5, 6), ([1, 4, 1, 5], [1, 5, 1, 6], False)),
    "transposed": (lambda x, y: x @ turned(y), (1, 4, 5), (1, 6, 5), ([1, 4, 1, 5], [1, 6, 1, 5], True)),
    "batch": (lambda x, y: x @ turned(y), (1, 2, 4, 5), (1, 2, 6, 5), ([2, 4, 1, 5], [2, 6, 1, 5], True)),
    "scores": (
        lambda x, y: heads(x) @ turned(heads(y)),
        (1, 4, 6),
        (1, 5, 6),
        ([1, 4, 3, 2], [1, 5, 3, 2], True),
    ),
    "values": (lambda x, y: x @ heads(y), (1, 3, 4, 5), (1, 5, 6), ([3, 4, 1, 5], [3, 5, 1, 2], False)),
    "grouped": (
        lambda x, y: heads(x) @ turned(y.unflatten(-1, (1, 2)).transpose(1, 2).repeat_interleave(3, 1)),
        (1, 4, 6),
        (1, 5, 2),
        ([1, 4, 3, 2], [1, 5, 1, 2], True),
    ),
    "grouped in succession": (
        lambda x, y: heads(x, 4) @ heads(y, 2).repeat_interleave(2, 1),
        (1, 4, 20),
        (1, 5, 4),
        ([1, 4, 4, 5], [1, 5, 2, 2], False),
    ),
    "groups that alternate": (
        lambda x, y: heads(x, 4) @ heads(y, 2).repeat(1, 2, 1, 1),
        (1, 4, 20),
        (1, 5, 4),
        ([1, 4, 4, 5], [1, 5, 4, 2], False),
    ),
    "values of scores": (
        lambda x, y: ((heads(x) @ turned(heads(x))) * 0.5).relu() @ heads(y),
        (1, 4, 6),
        (1, 4, 12),
        ([1, 4, 3, 4], [1, 4, 3, 4], False),
    ),
    "broadcast": (lambda x, y: x @ y, (1, 3, 4, 5), (1, 1, 5, 6), ([1, 12, 1, 5], [1, 5, 1, 6], False)),
    "broadcast first": (
        lambda x, y: x @ turned(y),
        (1, 1, 4, 5),
        (1, 3, 6, 5),
        ([1, 4, 1, 5], [1, 18, 1, 5], True),
    ),
    "vector": (lambda x, y: x @ y[0], (1, 4, 5), (1, 5), ([1, 4, 1, 5], [1, 1, 1, 5], True)),
    "sum over two": (
        lambda x, y: torch.einsum("ntab,nsab->nts", x, y),
        (1, 4, 2, 3),
        (1, 5, 2, 3),
        ([1, 4, 1, 6], [1, 5, 1, 6], True),
    ),
    "result turned": (
        lambda x, y: torch.einsum("ntk,nsk->nst", x, y),
        (1, 4, 2),
        (1, 5, 2),
        ([1, 4, 1, 2], [1, 5, 1, 2], True),
    ),
}


def lowered(function: Function, *inputs: Tensor) -> tuple[MaseGraph, dict[str, str]]:
    graph, _ = init_metadata_analysis_pass(MaseGraph(Net(function), example=list(inputs)))
    dummy = dict(zip(("x", "y"), inputs, strict=True))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": dummy, "add_value": False})
    graph, _ = lower_movement_transform_pass(graph)
    graph, info = lower_products_transform_pass(graph)
    return graph, info["lowered"]


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    function, *shapes, (first, second, transposed) = FORMS[name]
    torch.manual_seed(1)
    x, y = (torch.randn(shape) for shape in shapes)
    graph, found = lowered(function, x, y)
    assert found and not any(graph.meta_of(n).common.mase_op in ("matmul", "einsum") for n in graph.nodes)
    product = graph.node(list(found)[-1])
    assert graph.meta_of(product).common.mase_op == "grouped_matmul" and product.args[2] is transposed
    assert [list(t.shape) for t in graph.meta_of(product).common.args.tensors.values()] == [first, second]
    torch.testing.assert_close(graph.model(x, y), function(x, y))


def folded(value: Tensor) -> Tensor:
    """Heads of all frames in one dimension, as ``bmm`` wants them."""
    return heads(value).flatten(0, 1)


STACKED: dict[str, Function] = {
    "heads": lambda x, y: heads(x) @ turned(heads(y)),
    "folded": lambda x, y: torch.bmm(folded(x), turned(folded(y))),
    "folded and added": lambda x, y: torch.baddbmm(BIAS.repeat(len(x), 1, 1), folded(x), turned(folded(y)), beta=0.5),
    "folded, with a matrix for three heads": lambda x, y: torch.bmm(
        folded(x), turned(heads(y[..., :2], 1).repeat_interleave(3, 1).flatten(0, 1))
    ),
}
BIAS = torch.arange(15.0).reshape(3, 1, 5)


@pytest.mark.parametrize("name", STACKED)
def test_frames_can_be_stacked(name: str) -> None:
    """The graph is made for one frame, and takes several."""
    function = STACKED[name]
    graph, found = lowered(function, torch.randn(1, 4, 6), torch.randn(1, 5, 6))
    assert found and not any(graph.meta_of(n).common.mase_op in ("bmm", "baddbmm") for n in graph.nodes)
    x, y = torch.randn(7, 4, 6), torch.randn(7, 5, 6)
    torch.testing.assert_close(graph.model(x, y), function(x, y))


REFUSED: dict[str, Function] = {
    "one index in both and twice in one": lambda x, y: torch.einsum("nii,nij->nj", x, y),
    "summed in one operand alone": lambda x, y: torch.einsum("nij,nik->nk", x, y),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_left(name: str) -> None:
    graph, found = lowered(REFUSED[name], torch.randn(1, 4, 4), torch.randn(1, 4, 4))
    assert not found and [n for n in graph.nodes if graph.meta_of(n).common.mase_op == "einsum"]
    with pytest.raises(UnsupportedError, match="einsum"):
        quantize_transform_pass(graph, {"default": {"config": CONFIG}})


def test_quantised_graphs_are_refused() -> None:
    graph, _ = lowered(lambda x, y: x @ y, torch.randn(1, 4, 4), torch.randn(1, 4, 4))
    graph, _ = quantize_transform_pass(graph, {"default": {"config": CONFIG}})
    with pytest.raises(GraphError, match="quantised"):
        lower_products_transform_pass(graph)
