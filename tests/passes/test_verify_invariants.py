"""The invariants of modules, values, statistics and hardware, each broken on purpose; and verification in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from mase_hw.errors import GraphError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_hardware_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    calibrate_analysis_pass,
    graph_pass,
    quantize_transform_pass,
    verify_analysis_pass,
)
from mase_hw.passes.base import Info, NoArgs
from tests.ir.nets import ConvNet, annotated
from tests.passes.verified import verified_passes


class Net(nn.Module):
    """Two layers, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.relu(self.fc1(x.flatten(1)))
        return x, self.fc2(x)


def conv() -> MaseGraph:
    graph, _ = add_software_metadata_analysis_pass(annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)}))
    calibrate_analysis_pass(graph, {"data": [torch.randn(1, 3, 8, 8)]})
    return graph


def quantised(**overrides: Any) -> MaseGraph:
    torch.manual_seed(0)
    x = torch.randn(1, 2, 3)
    graph = annotated(Net(), {"x": x}, add_value=False)
    calibrate_analysis_pass(graph, {"data": [x]})
    widths = {f"{t}_width": 8 for t in ("data_in", "weight", "bias", "data_out")}
    config = {"by": "type", "default": {"config": {"name": "fixed", **widths}}, "overrides": overrides}
    quantize_transform_pass(graph, config)
    return graph


def mapped() -> MaseGraph:
    graph, _ = add_hardware_metadata_analysis_pass(quantised())
    return graph


def hardware(graph: MaseGraph, node: str) -> Any:
    return graph.node(node).meta["mase"].hardware


def record(graph: MaseGraph, node: str, **changes: Any) -> None:
    """Other results than the hardware pass recorded."""
    hardware(graph, node).fill({**hardware(graph, node), **changes})


def flip(key: str, value: Any, node: str = "fc1") -> Callable[[MaseGraph], None]:
    return lambda graph: record(graph, node, **{key: value})


def code(graph: MaseGraph) -> None:
    graph.node("head").replace_input_with(graph.node("dropout"), graph.node("drop"))


def result_name(graph: MaseGraph) -> None:
    results = graph.meta_of(graph.node("head")).common.results
    results["data_out_1"] = results["data_out_0"].copy()
    del results["data_out_0"]


def attribute(graph: MaseGraph) -> None:
    graph.modules["average"].output_size = 2  # type: ignore[assignment]


def dtype_of_parameter(graph: MaseGraph) -> None:
    graph.modules["head"].double()


def dtype(graph: MaseGraph) -> None:
    graph.tensor(graph.node("pool"), "data_out_0").torch_dtype = torch.float64


def value(graph: MaseGraph) -> None:
    graph.tensor(graph.node("pool"), "data_out_0").value = torch.ones(1)


def value_type(graph: MaseGraph) -> None:
    tensor = graph.tensor(graph.node("pool"), "data_out_0")
    tensor.value = tensor.value.int()


def stranger(graph: MaseGraph) -> None:
    graph.meta_of(graph.node("relu")).software.args["weight"] = {"stat": {}}


def half_a_statistic(graph: MaseGraph) -> None:
    del graph.meta_of(graph.node("relu")).software.args["data_in_0"]["stat"]["range_min_max"]["max"]


def no_count(graph: MaseGraph) -> None:
    graph.meta_of(graph.node("relu")).software.results["data_out_0"]["stat"]["range_min_max"]["count"] = 0


def output(graph: MaseGraph) -> None:
    graph.tensor(graph.node("output"), "data_out_0").shape = [1, 6]


def implicit_format(graph: MaseGraph) -> None:
    for name in ("data_out_0",):
        graph.set_format(graph.node("dropout"), name, FixedFormat(8, 4))


@pytest.mark.parametrize(
    ("damage", "texts"),
    [
        (code, ("not recompiled",)),
        (result_name, ("head", "data_out_1", "data_out_0")),
        (attribute, ("average.output_size", "got: 1", "expected: 2")),
        (dtype_of_parameter, ("head.weight", "float64", "[32]")),
        (dtype, ("pool.data_out_0", "float64", "[32]")),
        (value, ("pool.data_out_0", "value")),
        (value_type, ("pool.data_out_0", "int32")),
        (stranger, ("relu.weight", "software.args")),
        (half_a_statistic, ("relu.data_in_0", "range_min_max is not whole")),
        (no_count, ("relu.data_out_0", "seen nothing")),
        (output, ("output", "[1, 6]", "[1, 5]")),
        (implicit_format, ("dropout.data_out_0", "passed on")),
    ],
)
def test_damage_is_found(damage: Callable[[MaseGraph], None], texts: tuple[str, ...]) -> None:
    refused(conv(), damage, *texts)


def refused(graph: MaseGraph, damage: Callable[[MaseGraph], None], *texts: str) -> None:
    verify_analysis_pass(graph)
    damage(graph)
    with pytest.raises(GraphError) as error:
        verify_analysis_pass(graph)
    for text in texts:
        assert text in str(error.value), str(error.value)


def module_format(graph: MaseGraph) -> None:
    graph.set_format(graph.node("fc2"), "data_out_0", FixedFormat(9, 1))


def output_format(graph: MaseGraph) -> None:
    graph.tensor(graph.node("output"), "data_out_1").fmt = FixedFormat(9, 1)


def parameters(graph: MaseGraph, node: str, **changes: int) -> None:
    record(graph, node, verilog_param={**hardware(graph, node).verilog_param, **changes})


def parameter(graph: MaseGraph) -> None:
    parameters(graph, "fc1", DATA_IN_0_PRECISION_1=hardware(graph, "fc1").verilog_param["DATA_IN_0_PRECISION_1"] + 1)


def size(graph: MaseGraph) -> None:
    parameters(graph, "fc1", DATA_IN_0_TENSOR_SIZE_DIM_1=2)


def unknown_parameter(graph: MaseGraph) -> None:
    parameters(graph, "relu", WIDTH=1)


@pytest.mark.parametrize(
    ("damage", "texts"),
    [
        (module_format, ("fc2.data_out_0", "format differs from that of the module")),
        (output_format, ("output.data_out_1", "passed on")),
        (flip("is_implicit", True), ("fc1: hardware.is_implicit", "got: True")),
        (flip("is_implicit", False, "flatten"), ("flatten: hardware.is_implicit",)),
        (flip("module", "fixed_relu"), ("fc1: hardware.module", "fixed_linear")),
        (parameter, ("fc1: hardware.verilog_param", "data_in_0 has another format")),
        (size, ("fc1: hardware.verilog_param", "data_in_0 has another size")),
        (unknown_parameter, ("relu: hardware.verilog_param", "WIDTH")),
    ],
)
def test_damage_to_hardware_is_found(damage: Callable[[MaseGraph], None], texts: tuple[str, ...]) -> None:
    refused(mapped(), damage, *texts)


def test_hardware_is_looked_at_only_after_its_pass() -> None:
    graph = quantised()
    flip("module", "fixed_relu")(graph)
    verify_analysis_pass(graph)


@pytest.mark.parametrize("left", ["fc1", "relu", "fc2"])
def test_a_quantised_module_may_read_floats(left: str) -> None:
    """A node left in float is a decision, not damage: what reads it quantises."""
    graph = quantised(**{left: {"config": {"name": None}}})
    x = torch.randn(1, 2, 3)
    assert all(torch.isfinite(y).all() for y in graph.model(x))


def test_every_pass_is_verified(verify_after_every_pass: list[str]) -> None:
    mapped()
    assert verify_after_every_pass == [
        "add_common_metadata_analysis_pass",
        "calibrate_analysis_pass",
        "quantize_transform_pass",
        "add_hardware_metadata_analysis_pass",
    ]


def test_a_pass_that_leaves_damage_fails() -> None:
    @graph_pass("careless_pass", args=NoArgs)
    def careless(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
        node: fx.Node = graph.node("head")
        graph.tensor(node, "data_in_0").shape = [3]
        return graph, {}

    graph = annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})
    with verified_passes(), pytest.raises(GraphError, match=r"head\.data_in_0"):
        careless(graph)
