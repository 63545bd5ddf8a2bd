"""The first pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import ConfigError, PassOrderError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.nn import Quantized
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    add_hardware_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
    verify_analysis_pass,
)
from tests.ir.nets import MLP, annotated


def test_every_node_gets_empty_metadata() -> None:
    graph, info = init_metadata_analysis_pass(MaseGraph(MLP(4)))
    assert info == {"nodes": 6}
    for node in graph.nodes:
        meta = node.meta["mase"]
        assert isinstance(meta, MaseMetadata) and meta.node is node
        assert meta.graph is graph.fx_graph
        assert meta.to_dict() == {"common": {}, "software": {}, "hardware": {}}
    assert graph.node("fc1").meta["mase"].module is graph.modules["fc1"]
    assert graph.node("relu").meta["mase"].module is None


def test_it_takes_no_arguments() -> None:
    with pytest.raises(ConfigError, match="dummy_in: unknown key"):
        init_metadata_analysis_pass(MaseGraph(MLP(4)), {"dummy_in": {}})


def test_later_passes_need_it_and_each_other() -> None:
    graph = MaseGraph(MLP(4), skip_init_metadata=True)
    dummy = {"dummy_in": {"x": torch.ones(1, 28, 28)}}
    with pytest.raises(PassOrderError, match="run init_metadata_analysis_pass first"):
        add_common_metadata_analysis_pass(graph, dummy)
    init_metadata_analysis_pass(graph)
    with pytest.raises(PassOrderError, match="run add_common_metadata_analysis_pass first"):
        calibrate_analysis_pass(graph, {"data": []})
    with pytest.raises(PassOrderError, match="run add_common_metadata_analysis_pass first"):
        verify_analysis_pass(graph)


def test_a_pass_of_ones_own_counts_by_what_it_leaves() -> None:
    """The order of passes is judged by what is there, not by who did it."""
    inputs = {"x": torch.rand(4, 28, 28)}

    def init_metadata(graph: MaseGraph) -> MaseGraph:
        for node in graph.fx_graph.nodes:
            node.meta["mase"] = MaseMetadata(node, model=graph.model)
        return graph

    graph = init_metadata(MaseGraph(MLP(4)))
    assert graph.completed == ("init_metadata_analysis_pass",)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": inputs})
    graph, _ = calibrate_analysis_pass(graph, {"data": [inputs["x"]]})
    widths = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "data_out_width": 8}
    graph, _ = quantize_transform_pass(graph, {"default": {"config": widths}})
    graph, _ = verify_analysis_pass(add_hardware_metadata_analysis_pass(graph)[0])
    init_metadata(graph)
    with pytest.raises(PassOrderError, match="run add_common_metadata_analysis_pass first"):
        add_hardware_metadata_analysis_pass(graph)


def test_modules_of_ones_own_are_a_quantisation() -> None:
    graph = annotated(nn.Sequential(nn.ReLU()), {"input_1": torch.rand(1, 4)})
    with pytest.raises(PassOrderError, match="run quantize_transform_pass first"):
        add_hardware_metadata_analysis_pass(graph)
    formats = {"data_in_0": FixedFormat(8, 4), "data_out_0": FixedFormat(7, 4, signed=False)}
    graph.model.add_submodule("0", Quantized(graph.catalogue["relu"], Arithmetic(formats)))
    graph.refresh()
    assert "quantize_transform_pass" in graph.completed


def test_running_it_again_starts_over() -> None:
    graph = annotated(MLP(4), {"x": torch.ones(1, 28, 28)})
    init_metadata_analysis_pass(graph)
    assert graph.completed == ("init_metadata_analysis_pass",)
    assert graph.meta["mase"].to_dict()["common"] == {}
    with pytest.raises(PassOrderError):
        verify_analysis_pass(graph)
