"""Convolutional networks in plain PyTorch: complete metadata, equal to a real run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from tests.ir.nets import With, annotated, untouched
from tests.ir.networks import VGG, LeNet5, MobileNetV2, ResNet18
from tests.ir.real_run import assert_real

NETWORKS = [(LeNet5, (2, 1, 32, 32)), (VGG, (1, 3, 16, 24)), (ResNet18, (2, 3, 40, 33)), (MobileNetV2, (1, 3, 32, 32))]


@pytest.mark.parametrize("symbolic", [False, True], ids=["real", "symbolic"])
@pytest.mark.parametrize(("net", "shape"), NETWORKS, ids=[net.__name__ for net, _ in NETWORKS])
def test_every_node_is_as_in_a_real_run(net: Callable[[], nn.Module], shape: tuple[int, ...], symbolic: bool) -> None:
    torch.manual_seed(3)
    model, inputs = net().eval(), {"x": torch.randn(shape)}
    with untouched(model):
        graph = annotated(model, inputs, force_device_meta=symbolic)
    assert_real(graph, model, inputs, values=not symbolic)


@pytest.mark.parametrize("part", ["shape", "torch_dtype", "precision", "value"])
def test_the_comparison_sees_a_difference(part: str) -> None:
    model, inputs = LeNet5().eval(), {"x": torch.randn(1, 1, 32, 32)}
    graph = annotated(model, inputs)
    tensor = graph.tensor(graph.node("conv2"), "data_in_0")
    wrong = {"shape": [1, 6, 14, 15], "torch_dtype": torch.float64, "precision": [16], "value": tensor.value + 1e-6}
    setattr(tensor, part, wrong[part])
    with pytest.raises(AssertionError):
        assert_real(graph, model, inputs, values=True)


def ops(graph: MaseGraph) -> Counter[str]:
    return Counter(graph.meta_of(n).common.mase_op for n in graph.nodes)


def test_the_networks_are_what_they_are_called() -> None:
    """So that no layer of them went missing on the way."""
    found = {n.__name__: ops(annotated(n().eval(), {"x": torch.randn(s)}, add_value=False)) for n, s in NETWORKS}
    assert found["LeNet5"] == Counter(
        {"conv2d": 3, "tanh": 4, "avg_pool2d": 2, "linear": 2, "flatten": 1, "log_softmax": 1}
        | {"placeholder": 1, "output": 1}
    )
    assert found["ResNet18"]["conv2d"] == 20 and found["ResNet18"]["add"] == 8 and found["ResNet18"]["relu"] == 17
    assert found["MobileNetV2"]["conv2d"] == 52 and found["MobileNetV2"]["relu6"] == 35
    assert found["MobileNetV2"]["add"] == 10 and found["MobileNetV2"]["mean"] == 1
    assert found["VGG"]["batch_norm2d"] == found["VGG"]["conv2d"] == 6 and found["VGG"]["max_pool2d"] == 3


def test_shape_arithmetic() -> None:
    class Heads(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            batch, length = x.size(0), x.shape[1]
            heads = x.reshape(batch * length, 2, x.size()[-1] // 2) / math.sqrt(x.size(-1) // 2)
            extra = torch.arange(length + 1, device=x.device)[None, : length - 1].expand(batch, -1)
            return heads.view(batch, -1) + extra.sum(dim=1, keepdim=True) % (batch + 3) - (length**2 - 2 * batch)

    model = Heads()
    for shape in ((2, 5, 6), (1, 3, 4)):
        inputs = {"x": torch.randn(shape)}
        for symbolic in (False, True):
            graph = annotated(model, inputs, force_device_meta=symbolic)
            assert_real(graph, model, inputs, values=not symbolic)
    tree = graph.node("floordiv").meta["mase"]["common"].to_dict()
    assert tree["mase_op"] == "floor_divide" and tree["args"] == {"a": 4, "b": 2}
    assert tree["results"] == {"data_out_0": {"shape": [1], "type": "NA", "precision": [], "value": 2}}


def test_implicit_is_what_costs_no_hardware() -> None:
    """MASE calls these implicit; those that move elements are not let through as if they did nothing.

    A transpose renames dimensions: the stream stays, and the layout says where its elements stand.
    """

    class Moves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.view(2, -1).unsqueeze(0).contiguous()
            return torch.cat([y.transpose(1, 2).flatten(1), y.permute(0, 2, 1).flatten(1)], 1)

    graph = annotated(Moves(), {"x": torch.randn(2, 3)})
    kinds = {n.name: graph.meta_of(n).common.mase_type for n in graph.nodes}
    assert kinds["transpose"] == kinds["permute"] == kinds["cat"] == kinds["view"] == "implicit_func"
    names = ["view", "unsqueeze", "contiguous", "transpose", "flatten", "permute", "flatten_1"]
    assert [n.name for n in graph.nodes if graph.is_implicit(n)] == names
    assert [n.name for n in graph.metadata.common.nodes_in] == ["cat"]


def test_who_asks_for_a_shape_reads_no_data() -> None:
    flat = With(nn.Linear(6, 2), lambda fc, x: fc(x.reshape(x.shape[0], -1)))
    graph = annotated(flat, {"x": torch.randn(2, 3, 2)})
    assert [n.name for n in graph.metadata.common.nodes_in] == ["fc"]
