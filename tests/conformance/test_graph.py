"""What the documents of MASE say of the graph, holds: one test a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, fx, nn

from mase_hw import MaseGraph
from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import trace_torch_module
from mase_hw.passes import add_common_metadata_analysis_pass

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Flatten()).eval()


def test_a_graph_has_metadata_from_its_construction() -> None:
    """``MaseGraph(model)`` initialises metadata unless ``skip_init_metadata``."""
    graph = MaseGraph(net())
    assert all("mase" in node.meta for node in graph.nodes)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": X}})
    assert graph.node("_0").meta["mase"]["common"]["mase_op"] == "linear"
    bare = MaseGraph(net(), skip_init_metadata=True)
    assert not any("mase" in node.meta for node in bare.nodes) and bare.completed == ()


def test_a_bare_graph_with_its_root() -> None:
    """A bare ``fx.Graph`` with its root is taken, and its owner stays what it was."""
    model = net()
    calls, owned = fx.Tracer().trace(model), fx.symbolic_trace(model)
    assert torch.equal(MaseGraph(calls, root=model).model(X), model(X)) and calls.owning_module is None
    assert torch.equal(MaseGraph(owned.graph).model(X), model(X)) and owned.graph.owning_module is owned
    with pytest.raises(GraphError, match="with its module as root"):
        MaseGraph(calls)
    with pytest.raises(ConfigError, match=r"belongs to an fx\.Graph"):
        MaseGraph(model, root=model)


def test_draw_has_the_name_of_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``draw()`` writes ``mase_graph.svg``."""
    monkeypatch.chdir(tmp_path)
    MaseGraph(net()).draw()
    assert [path.name for path in tmp_path.iterdir()] == ["mase_graph.svg"]


def test_arguments_of_the_metadata_are_checked() -> None:
    """``add_metadata_args`` with a missing or misspelt key says which."""
    with pytest.raises(ConfigError, match=r"dummy_in\.input: missing"):
        MaseGraph(net(), add_metadata_args={"add_value": False})
    with pytest.raises(ConfigError, match=r"did you mean 'dummy_in'") as caught:
        MaseGraph(net(), add_metadata_args={"dumy_in": {"input": X}})
    assert caught.value.field == "add_metadata_args.dumy_in"


def test_implicit_nodes_are_names_on_the_class() -> None:
    """``MaseGraph.implicit_nodes`` is the list of names on the class."""
    names = MaseGraph.implicit_nodes
    assert {"flatten", "view", "permute", "size", "dropout"} <= set(names) and "linear" not in names
    assert MaseGraph(net()).implicit_nodes == names


class Mine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def test_custom_ops_of_the_tracer_alone() -> None:
    """``custom_ops`` given to the tracer alone needs no golden and no RTL; given to a graph it does."""
    model = nn.Sequential(nn.Linear(4, 3), Mine())
    traced = trace_torch_module(model, custom_ops={"modules": {Mine: {}}})
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == ["0", "1"]
    with pytest.raises(ConfigError, match=r"Mine\.golden: missing"):
        MaseGraph(model, custom_ops={"modules": {Mine: {}}})
    with pytest.raises(ConfigError, match="wrong kind of key"):
        trace_torch_module(model, custom_ops={"modules": {"Mine": {}}})


class Asking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(min=torch.finfo(x.dtype).min) + torch.tensor(x.size(1))


def test_types_and_sizes_are_traced() -> None:
    """``torch.finfo(x.dtype)`` and ``torch.tensor(x.size(1))`` trace, without an example and with one."""
    graph = MaseGraph(Asking(), add_metadata_args={"dummy_in": {"x": X}})
    assert {"finfo", "tensor"} <= {node.name for node in graph.nodes}
    for made in (graph, MaseGraph(Asking(), example=[X]), MaseGraph(Asking())):
        assert torch.equal(made.model(X), X + 4)
    assert torch.finfo.__class__ is type and callable(torch.tensor)


def test_a_symbolic_run_is_on_the_device_meta(tmp_path: Path) -> None:
    """``force_device_meta=True`` gives tensors on the device meta, leaves the model alone, excludes ``add_value``."""
    model, symbolic = net(), {"dummy_in": {"input": X}, "force_device_meta": True}
    graph = MaseGraph(model, add_metadata_args=symbolic)
    result = graph.node("_0").meta["mase"]["common"]["results"]["data_out_0"]["value"]
    assert result.is_meta and result.shape == (2, 3) and torch.equal(graph.model(X), model(X))
    graph.export(tmp_path / "graph")
    again = MaseGraph.from_checkpoint(tmp_path / "graph")
    assert again.node("_0").meta["mase"]["common"]["results"]["data_out_0"]["value"].is_meta
    with pytest.raises(ConfigError) as caught:
        add_common_metadata_analysis_pass(MaseGraph(model), {**symbolic, "add_value": True})
    assert caught.value.field == "add_value"


def test_passes_take_what_is_on_the_device_meta() -> None:
    """A graph of a symbolic run is lowered as any other."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.InstanceNorm2d(4), nn.Flatten(2)).eval()
    image = torch.rand(1, 3, 6, 6)
    steps = quantise_pipeline({"input": image}).until("lower_rows")
    steps = steps.replaced("common", {"dummy_in": {"input": image}, "force_device_meta": True})
    made = steps.run(MaseGraph(model), verify=True).graph
    assert torch.allclose(made.model(image), model(image), atol=1e-5)
