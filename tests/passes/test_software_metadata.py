"""Software metadata: the tree MASE documents, on every node."""

from __future__ import annotations

import pytest
import torch

from mase_hw.errors import PassOrderError
from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.passes import (
    add_software_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
)
from tests.ir.nets import MLP, ConvNet, annotated, assert_json, catalogue

DATA = {"x": torch.ones(1, 28, 28)}


def test_documented_tree() -> None:
    graph, info = add_software_metadata_analysis_pass(annotated(MLP(4), DATA))
    assert_json(info)
    assert info == {"nodes": 6, "tensors": 14}
    empty: dict[str, object] = {"stat": {}}
    software = {n.name: n.meta["mase"]["software"].to_dict() for n in graph.nodes}
    assert software["x"] == {"results": {"data_out_0": empty}}
    assert software["flatten"] == {"args": {"data_in_0": empty}, "results": {"data_out_0": empty}}
    assert software["fc1"] == {
        "args": {"data_in_0": empty, "weight": empty, "bias": empty},
        "results": {"data_out_0": empty},
    }
    assert software["output"]["args"] == {"data_in_0": empty}


def test_every_statistic_of_the_documented_tree() -> None:
    graph, _ = add_software_metadata_analysis_pass(annotated(MLP(4), DATA))
    names = ["record", "variance_online", "variance_precise", "range_n_sigma", "range_quantile", "range_min_max"]
    profile_statistics_analysis_pass(
        graph,
        {
            "target_activation_nodes": ["linear"],
            "activation_statistics": {name: {} for name in names},
            "profile_output_activation": True,
            "input_generator": [torch.randn(3, 28, 28)],
        },
    )
    moments, bounds = {"variance", "mean", "count"}, {"min", "max", "count"}
    expected = dict(zip(names, [{"data", "count"}, moments, moments, bounds, bounds, bounds], strict=True))
    for branch, name in (("args", "data_in_0"), ("results", "data_out_0")):
        stat = graph.node("fc2").meta["mase"]["software"][branch][name]["stat"]
        assert {key: set(stat[key]) for key in stat} == expected
    assert graph.node("fc1").meta["mase"].parameters["software"]["args"]["weight"]["stat"] == {}


def test_places_are_not_shared() -> None:
    graph, _ = add_software_metadata_analysis_pass(annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)}))
    graph.node("body").meta["mase"]["software"]["args"]["weight"]["stat"]["mine"] = 1
    stats = [
        s["stat"]
        for n in graph.nodes
        for b in ("args", "results")
        for s in getattr(graph.meta_of(n).software, b).values()
    ]
    assert sum("mine" in s for s in stats) == 1 and len({id(s) for s in stats}) == len(stats)


def test_what_was_observed_stays() -> None:
    graph = annotated(MLP(4), DATA)
    calibrate_analysis_pass(graph, {"data": [torch.ones(2, 28, 28)]})
    before = graph.node("fc1").meta["mase"]["software"].to_dict()
    add_software_metadata_analysis_pass(graph)
    assert graph.node("fc1").meta["mase"]["software"] == before
    init_metadata_analysis_pass(graph)
    assert graph.node("fc1").meta["mase"]["software"] == {}


def test_order() -> None:
    graph, _ = init_metadata_analysis_pass(MaseGraph(MLP(4), catalogue=catalogue()))
    with pytest.raises(PassOrderError, match="run add_common_metadata_analysis_pass first"):
        add_software_metadata_analysis_pass(graph)


def test_what_a_node_knows_of_itself() -> None:
    graph = annotated(MLP(4), DATA)
    meta = graph.meta_of(graph.node("fc1"))
    assert meta.node is graph.node("fc1") and meta.model is graph.model and meta.graph is graph.fx_graph
    assert meta.module is graph.modules["fc1"] and graph.meta_of(graph.node("relu")).module is None
    assert meta.parameters == meta and set(meta) == {"common", "software", "hardware"}
    assert MaseMetadata.known_types == [
        "fixed",
        "integer",
        "binary",
        "ternary",
        "mxint",
        "mxfp",
        "minifloat",
        "groups",
        "float",
        "NA",
    ]
    assert MaseMetadata.known_toolchain == ["INTERNAL", "EXTERNAL", "HLS"]
    assert MaseMetadata.known_storage == ["BRAM", "LUT"]
