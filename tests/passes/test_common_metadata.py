"""Common metadata against MASE's documented trees and against real runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from tests.ir.nets import MLP, ConvNet, annotated, catalogue, refusal, untouched

F32 = {"type": "float", "precision": [32]}
DATA = {"shape": [1, 784], "torch_dtype": torch.float32, **F32}


@pytest.fixture(scope="module")
def mlp() -> MaseGraph:
    return annotated(MLP(), {"x": torch.randn(1, 28, 28)}, add_value=False)


def test_documented_linear(mlp: MaseGraph) -> None:
    tree = {
        "common": {
            "mase_type": "module_related_func",
            "mase_op": "linear",
            "args": {
                "data_in_0": DATA,
                "weight": {**F32, "shape": [784, 784]},
                "bias": {**F32, "shape": [784]},
            },
            "results": {"data_out_0": DATA},
        },
        "software": {},
        "hardware": {},
    }
    assert mlp.node("fc1").meta["mase"].to_dict() == tree
    assert mlp.node("fc1").meta["mase"] == tree and mlp.node("fc1").meta["mase"].parameters == tree


def documented(name: str, kind: str, args: dict[str, Any]) -> dict[str, Any]:
    """The tree of a node that has the name of its op, and no parameters."""
    common = {"mase_type": kind, "mase_op": name, "results": {"data_out_0": DATA}, "args": args}
    return {"common": common, "software": {}, "hardware": {}}


def test_documented_relu(mlp: MaseGraph) -> None:
    tree = documented("relu", "module_related_func", {"data_in_0": DATA, "inplace": False})
    assert mlp.node("relu").meta["mase"].to_dict() == tree


def test_documented_flatten(mlp: MaseGraph) -> None:
    args = {"data_in_0": {**DATA, "shape": [1, 28, 28]}, "start_dim": 1, "end_dim": -1}
    assert mlp.node("flatten").meta["mase"].to_dict() == documented("flatten", "implicit_func", args)


def test_linear_without_bias_has_none(mlp: MaseGraph) -> None:
    assert set(mlp.node("fc2").meta["mase"]["common"]["args"]) == {"data_in_0", "weight"}


def test_graph_level_metadata_looks_through_implicit_nodes(mlp: MaseGraph) -> None:
    common = mlp.meta["mase"]["common"]
    assert common["nodes_in"] == [mlp.node("fc1")] and common["nodes_out"] == [mlp.node("fc2")]
    assert common["args"] == {"data_in_0": DATA}
    assert common["results"] == {"data_out_0": {**DATA, "shape": [1, 10]}}


class Recorder(fx.Interpreter):
    """A real run, independent of the pass: what every node returned."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.seen: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.seen[n.name] = result.clone() if isinstance(result, Tensor) else result
        return result


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("net", "shape"), [(MLP, (2, 28, 28)), (ConvNet, (3, 3, 8, 8)), (ConvNet, (1, 3, 9, 11))])
def test_shapes_types_and_values_of_a_real_run(net: type[nn.Module], shape: tuple[int, ...], symbolic: bool) -> None:
    model, x = net(), torch.randn(shape)
    graph = annotated(model, {"x": x}, force_device_meta=symbolic)
    hooked: dict[str, list[int]] = {}
    for name, module in model.eval().named_modules():
        module.register_forward_hook(lambda _m, _i, out, name=name: hooked.update({name: list(out.shape)}))
    with torch.no_grad():
        model(x)
        recorder = Recorder(graph.model.eval())
        recorder.run(x)
    for node in graph.nodes:
        result, real = graph.meta_of(node).common.results["data_out_0"], recorder.seen[node.name]
        if isinstance(real, Tensor):
            assert result.shape == list(real.shape) and result.torch_dtype == real.dtype
            assert result.value.is_meta if symbolic else torch.equal(result.value, real)
        else:
            assert result.value == real and not result.is_tensor
        if node.op == "call_module":
            assert result.shape == hooked[str(node.target)]
    assert len(hooked) > 2


def test_inplace_operations_do_not_rewrite_recorded_values() -> None:
    x = torch.full((1, 2), -3.0)
    graph = annotated(nn.Sequential(nn.ReLU(inplace=True)), {"input": x})
    assert torch.equal(graph.tensor(graph.node("_0"), "data_in_0").value, torch.full((1, 2), -3.0))
    assert torch.equal(x, torch.full((1, 2), -3.0))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 6))
        self.register_buffer("offset", torch.ones(5))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = F.linear(x, self.weight, self.offset)
        a, b = torch.split(torch.cat([z, y], dim=1), 5, dim=1)
        return {"sum": a + b, "twice": 2 * a}


def test_functional_names_constants_lists_and_tuples() -> None:
    graph = annotated(Functional(), {"x": torch.randn(2, 6), "y": torch.randn(2, 5)}, add_value=False)
    trees = {n.name: n.meta["mase"]["common"].to_dict() for n in graph.nodes}
    assert trees["linear"]["args"].keys() == {"data_in_0", "weight", "bias"}
    assert trees["linear"]["args"]["weight"] == {**F32, "shape": [5, 6]}
    assert trees["weight"]["mase_type"] == "get_attr" and trees["weight"]["args"] == {}
    assert trees["cat"]["args"].keys() == {"data_in_0", "data_in_1", "dim"}
    assert trees["split"]["results"].keys() == {"data_out_0", "data_out_1"}
    assert trees["getitem"]["args"].keys() == {"data_in_0", "data_in_1", "b"}
    assert trees["add"]["args"].keys() == {"data_in_0", "data_in_1"}
    assert trees["mul"]["args"].keys() == {"a", "data_in_0"} and trees["mul"]["args"]["a"] == 2
    assert trees["output"]["results"].keys() == {"data_out_0", "data_out_1"}
    common = graph.metadata.common
    assert [n.name for n in common.nodes_in] == ["linear", "cat"]
    assert [n.name for n in common.nodes_out] == ["add", "mul"]
    assert common.args.keys() == {"data_in_0", "data_in_1"}


def test_integers_are_fixed_point_without_fraction() -> None:
    class Sum(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    graph = annotated(Sum(), {"x": torch.ones(2, dtype=torch.int16), "y": torch.ones(2, dtype=torch.bool)})
    x, y = (graph.tensor(graph.node(n), "data_out_0") for n in "xy")
    assert (x.type, x.precision, x.signed) == ("fixed", [16, 0], True)
    assert (y.type, y.precision, y.signed) == ("fixed", [1, 0], False)


def test_values_of_parameters_are_not_copies() -> None:
    graph = annotated(MLP(4), {"x": torch.ones(1, 28, 28)})
    value = graph.tensor(graph.node("fc1"), "weight").value
    assert value.data_ptr() == graph.modules["fc1"].weight.data_ptr()  # type: ignore[union-attr]
    graph = annotated(MLP(4), {"x": torch.ones(1, 28, 28)}, add_value=False)
    assert all(t.value is None for n in graph.nodes for t in graph.meta_of(n).common.args.tensors.values())


def ready(model: nn.Module) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, catalogue=catalogue()))
    return graph


def refused(graph: MaseGraph, error: type[Exception], args: dict[str, Any] | None) -> str:
    return refusal(graph, error, lambda: add_common_metadata_analysis_pass(graph, args))


def test_missing_and_unexpected_inputs() -> None:
    graph = ready(Functional())
    message = refused(graph, ConfigError, None)
    assert "dummy_in.x: missing" in message and "dummy_in.y: missing" in message
    assert "pass {'dummy_in': {'x': tensor, 'y': tensor}}" in message
    message = refused(graph, ConfigError, {"dummy_in": {"x": torch.ones(2, 6), "why": 3, "y": "text"}})
    assert "dummy_in.why: the model has no such input" in message and "dummy_in.y: not a tensor but str" in message
    message = refused(graph, ConfigError, {"dummy": {}, "add_value": "perhaps"})
    assert "dummy: unknown key; did you mean 'dummy_in'?" in message and "add_value: " in message


@pytest.mark.parametrize("symbolic", [False, True])
def test_shape_mismatch_names_node_and_both_shapes(symbolic: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(5, 3))
    args = {"dummy_in": {"input": torch.ones(2, 6)}, "force_device_meta": symbolic}
    message = refused(ready(model), GraphError, args)
    assert "node '_2' cannot be evaluated" in message
    assert "_1 [2, 4]" in message and "weight [3, 5]" in message


def test_unknown_ops_are_refused_by_name_all_at_once() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.odd = nn.Linear(2, 2), nn.FractionalMaxPool2d(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.fft(self.odd(self.fc(x))).cummax(0)

    graph = ready(Net())
    message = refused(graph, UnsupportedError, {"dummy_in": {"x": torch.ones(2, 2)}})
    assert "3 node(s)" in message
    for text in (
        "odd (call_module torch.nn.modules.pooling.FractionalMaxPool2d)",
        "fft (call_function",
        "cummax (call_method",
    ):
        assert text in message
    assert "mase-hw ops" in message and "custom_ops" in message


def test_a_default_of_forward_is_used() -> None:
    class Scale(nn.Module):
        def forward(self, x: Tensor, k: float = 2.5) -> Tensor:
            return x * k

    graph = annotated(Scale(), {"x": torch.ones(2)})
    assert graph.node("mul").meta["mase"]["common"]["args"]["b"] == 2.5
    assert torch.equal(graph.tensor(graph.node("mul"), "data_out_0").value, torch.full((2,), 2.5))


def test_symbolic_run_needs_no_memory() -> None:
    """A linear of 16 TB on the meta device: any attempt to have its weights would fail."""
    model = nn.Sequential(nn.Linear(2_000_000, 2_000_000, device="meta"), nn.ReLU())
    x = torch.empty(1, 2_000_000)
    with_value = annotated(model, {"input": x}, force_device_meta=True)
    assert with_value.tensor(with_value.node("_0"), "weight").shape == [2_000_000, 2_000_000]
    assert with_value.tensor(with_value.node("_1"), "data_out_0").shape == [1, 2_000_000]
    assert next(iter(model.parameters())).device.type == "meta"


def test_symbolic_run_does_not_move_the_model() -> None:
    model, x = ConvNet(), torch.randn(1, 3, 8, 8)
    with untouched(model):
        graph = annotated(model, {"x": x}, force_device_meta=True)
    assert {p.device.type for p in graph.model.parameters()} == {"cpu"}
    assert torch.isfinite(graph.model(torch.randn(2, 3, 8, 8))).all()
