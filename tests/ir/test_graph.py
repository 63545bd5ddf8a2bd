"""MaseGraph: construction, navigation along edges, formats, and what it refuses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import GraphError, MetadataKeyError, PassOrderError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from tests.ir.nets import MLP, ConvNet, annotated, catalogue, untouched


def test_construction_from_module_and_graph_module() -> None:
    model = MLP(8).eval()
    x = torch.randn(3, 28, 28)
    for graph in (MaseGraph(model), MaseGraph.from_module(model), MaseGraph(fx.symbolic_trace(model))):
        assert [n.name for n in graph.nodes] == ["x", "flatten", "fc1", "relu", "fc2", "output"]
        assert torch.equal(graph.model(x), model(x))
        assert isinstance(graph.modules["fc1"], nn.Linear)
        assert graph.modules["fc1"] is not model.fc1
        assert [n.name for n in graph.nodes if graph.is_implicit(n)] == ["flatten"]
        assert graph.completed == ("init_metadata_analysis_pass",)


@pytest.mark.parametrize("wrong", [MLP, "model", None, torch.ones(2), fx.Graph()])
def test_anything_else_is_a_value_error(wrong: object) -> None:
    with pytest.raises(ValueError, match="Module"):
        MaseGraph(wrong)  # type: ignore[arg-type]


def test_metadata_is_not_shared_with_the_graph_module_it_came_from() -> None:
    first = MaseGraph(MLP(4), add_metadata_args={"dummy_in": {"x": torch.ones(1, 28, 28)}})
    second = MaseGraph(first.model, skip_init_metadata=True)
    assert "mase" not in second.node("fc1").meta
    assert first.node("fc1").meta["mase"].common.mase_op == "linear"


def test_constructed_with_metadata() -> None:
    args = {"dummy_in": {"x": torch.ones(1, 28, 28)}, "add_value": False}
    graph = MaseGraph(MLP(4), add_metadata_args=args)
    assert graph.completed == ("init_metadata_analysis_pass", "add_common_metadata_analysis_pass")
    assert graph.node("fc1").meta["mase"]["common"]["results"]["data_out_0"]["shape"] == [1, 4]
    assert MaseGraph(MLP(4), add_metadata_args=args, skip_init_metadata=True).completed == ()


def test_unknown_names_are_suggested() -> None:
    graph = MaseGraph(MLP(4), skip_init_metadata=True)
    with pytest.raises(GraphError, match="'fc1'"):
        graph.node("fc_1")
    with pytest.raises(PassOrderError, match="init_metadata_analysis_pass"):
        graph.meta_of(graph.node("fc1"))
    graph = annotated(MLP(4), {"x": torch.ones(1, 28, 28)})
    with pytest.raises(MetadataKeyError, match="'weight'"):
        graph.tensor(graph.node("fc1"), "weigth")


def test_op_of() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain, self.scaled = nn.Linear(2, 2), Scaled(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.scaled(self.plain(x).relu()).cummax(0)

    graph = MaseGraph(Net(), catalogue=catalogue())
    ops = {n.name: op.name if (op := graph.op_of(n)) else None for n in graph.nodes}
    assert ops["plain"] == "linear" and ops["relu"] == "relu" and ops["x"] is None and ops["cummax"] is None
    assert [n.target for n in graph.nodes if ops[n.name] == "linear"] == ["plain", F.linear]


def test_edges() -> None:
    graph = annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})
    add = graph.node("add")
    norm, stem = graph.node("norm"), graph.node("stem_2")
    assert graph.sources(add) == {"data_in_0": (norm, "data_out_0"), "data_in_1": (stem, "data_out_0")}
    assert graph.consumers(stem) == [(graph.node("body"), "data_in_0"), (add, "data_in_1")]
    assert graph.sources(graph.node("x")) == {}


def test_set_format_takes_consumers_along() -> None:
    graph = annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})
    fmt = FixedFormat(8, 5)
    graph.set_format(graph.node("stem_2"), "data_out_0", fmt)
    assert graph.tensor(graph.node("add"), "data_in_1").fmt == fmt
    assert graph.tensor(graph.node("body"), "data_in_0").fmt == fmt
    assert graph.tensor(graph.node("add"), "data_in_0").fmt is None


class Fixed(nn.Module):
    """Stands for a quantised module: an op and its formats."""

    mase_leaf = True
    mase_op = "relu"

    def __init__(self, fmt_in: FixedFormat, fmt_out: FixedFormat) -> None:
        super().__init__()
        self.arithmetic = Arithmetic({"data_in_0": fmt_in, "data_out_0": fmt_out}, attributes={"inplace": False})

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


def test_formats_of_quantised_modules_flow_through_implicit_nodes() -> None:
    a, b = FixedFormat(8, 4), FixedFormat(7, 4, signed=False)
    net = nn.Sequential(nn.Flatten(), Fixed(a, b), nn.Dropout(), Fixed(b, b), nn.Identity())
    graph = annotated(net, {"input": torch.randn(2, 3, 4)})
    formats = {n.name: graph.tensor(n, "data_out_0").fmt for n in graph.nodes}
    assert formats == {"input_1": a, "_0": a, "_1": b, "_2": b, "_3": b, "_4": b, "output": b}
    assert graph.metadata.common.args["data_in_0"].fmt == a
    assert graph.metadata.common.results["data_out_0"].fmt == b
    assert graph.node("_1").meta["mase"]["common"]["args"]["inplace"] is False


def test_users_model_survives_everything() -> None:
    model = ConvNet().train()
    x = torch.randn(2, 3, 8, 8)
    original = x.clone()
    with untouched(model):
        graph = annotated(model, {"x": x})
    assert torch.equal(x, original)
    assert graph.model.training and all(m.training for m in graph.modules.values())
    assert torch.equal(graph.modules["norm"].running_mean, torch.zeros(8))  # type: ignore[arg-type]
