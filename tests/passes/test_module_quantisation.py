"""Quantisation of modules without a graph, and the helpers that passes are written with."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw import MaseGraph
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.nn import Quantized
from mase_hw.passes import quantize_module_transform_pass, quantize_transform_pass
from mase_hw.passes.helpers import (
    create_new_module,
    get_mase_op,
    get_mase_type,
    get_node_actual_target,
    get_parent_name,
    update_quant_meta_param,
)

FIXED = {
    "name": "fixed",
    "data_in_width": 8,
    "data_in_frac_width": 5,
    "weight_width": 6,
    "weight_frac_width": 5,
    "bias_width": 8,
    "bias_frac_width": 6,
    "data_out_width": 10,
    "data_out_frac_width": 6,
}


def on_grid(x: Tensor, width: int, frac: int) -> Tensor:
    """Fixed point in float64, which is exact: half to even, saturating."""
    top = 2 ** (width - 1)
    return (x.double() * 2**frac).round().clamp(-top, top - 1) / 2**frac


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """A layer with the formats of FIXED, from the formula."""
    exact = on_grid(x, 8, 5) @ on_grid(layer.weight, 6, 5).T + on_grid(layer.bias, 8, 6)
    return on_grid(exact, 10, 6)


class Steered(nn.Module):
    """What no tracer takes: the values decide which way to go."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.head = nn.Linear(6, 5), nn.Sequential(nn.ReLU(), nn.Linear(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc1(x)
        return self.head(y if float(y.detach().sum()) > -1e9 else -y)


@pytest.mark.parametrize("by", ["type", "name", "regex_name"])
def test_layers_of_any_module_by_type_name_and_regular_expression(by: str) -> None:
    """``quantize_module_transform_pass`` takes layers by type, name and regular expression, without tracing."""
    torch.manual_seed(0)
    net, x = Steered().eval(), torch.randn(7, 6)
    before = copy.deepcopy(net.state_dict())
    key = {"type": "linear", "name": "head.1", "regex_name": r"head\.\d"}[by]
    rules: dict[str, Any] = {"by": by, key: {"config": FIXED}}
    if by == "regex_name":
        rules["overrides"] = {"head.0": {"config": {"name": "NA"}}}
    made, info = quantize_module_transform_pass(net, rules)
    hidden = net.fc1(x) if by != "type" else linear(net.fc1, x)
    assert torch.equal(made(x).double(), linear(net.head[1], hidden.relu()))
    assert list(info["nodes"]) == (["fc1", "head.1"] if by == "type" else ["head.1"])
    assert all(torch.equal(net.state_dict()[k], v) for k, v in before.items())


def test_fraction_widths_come_from_the_first_call() -> None:
    """Fraction widths that are left out are chosen by the first call, as a calibration with its data chooses them."""
    torch.manual_seed(1)
    net, data = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval(), torch.rand(32, 6)
    widths = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}
    made, info = quantize_module_transform_pass(net, {"default": {"config": widths}})
    assert info == {"nodes": {"0": {"op": "linear"}, "1": {"op": "relu"}, "2": {"op": "linear"}}, "modified": True}
    first = made(data)
    assert made[0].info["formats"]["data_in_0"] == "u8.8" and torch.allclose(first, net(data), atol=0.05)
    made(4 * data)
    assert made[0].info["formats"]["data_in_0"] == "u8.8"
    alone, _ = quantize_module_transform_pass(net[0], {"default": {"config": widths}})
    assert torch.equal(alone(data), made[0](data))


def test_what_is_refused() -> None:
    """A rule that applies to nothing, and a layer without arithmetic, are named by the path of the module."""
    with pytest.raises(ConfigError, match=r"fc3.*did you mean"):
        quantize_module_transform_pass(Steered(), {"by": "name", "fc3": {"config": FIXED}})
    with pytest.raises(GraphError, match="works on a module"):
        quantize_module_transform_pass(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="which results leave"):
        quantize_module_transform_pass(Steered(), {"output_width": 16})
    made, _ = quantize_module_transform_pass(nn.Sequential(nn.RReLU(-1.0, 1.0)), {"default": {"config": FIXED}})
    with pytest.raises(UnsupportedError) as error:
        made(torch.rand(2, 3))
    assert error.value.node == "0"


def test_the_pass_on_graphs_says_what_takes_modules() -> None:
    """``quantize_transform_pass`` of a module says so."""
    with pytest.raises(GraphError, match="quantize_module_transform_pass"):
        quantize_transform_pass(nn.Linear(2, 2), {})  # type: ignore[arg-type]


def test_helpers_of_passes() -> None:
    """A pass written with MASE's helpers replaces a layer by a bit-true one and records its formats."""
    net, x = nn.Sequential(nn.Linear(6, 5), nn.ReLU()).eval(), torch.randn(4, 6)
    graph = MaseGraph(net, add_metadata_args={"dummy_in": {"input": x[:1]}})
    for node in graph.nodes:
        if get_mase_op(node) == "linear":
            assert get_mase_type(node) == "module_related_func"
            layer = create_new_module("linear", get_node_actual_target(node), FIXED, node.meta)
            parent, name = get_parent_name(node.target)
            setattr(graph.modules[parent], name, layer)
            update_quant_meta_param(node, FIXED, get_mase_op(node))
    assert isinstance(graph.modules["0"], Quantized)
    assert torch.equal(graph.model(x).double(), linear(net[0], x).relu())
    args = graph.node("_0").meta["mase"]["common"]["args"]
    assert args["weight"]["type"] == "fixed" and args["weight"]["precision"] == [6, 5]
    assert get_parent_name("a.b.c") == ("a.b", "c") and get_parent_name("a") == ("", "a")
    assert get_node_actual_target(graph.node("input_1")) == "input"
