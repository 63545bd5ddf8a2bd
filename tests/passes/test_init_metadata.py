"""The first pass."""

from __future__ import annotations

import pytest
import torch

from mase_hw.errors import ConfigError, PassOrderError
from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.passes.analysis import (
    add_common_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
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


def test_running_it_again_starts_over() -> None:
    graph = annotated(MLP(4), {"x": torch.ones(1, 28, 28)})
    init_metadata_analysis_pass(graph)
    assert graph.completed == ("init_metadata_analysis_pass",)
    assert graph.meta["mase"].to_dict()["common"] == {}
    with pytest.raises(PassOrderError):
        verify_analysis_pass(graph)
