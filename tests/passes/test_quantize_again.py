"""Quantising a part of a model, or a model that is quantised already."""

from __future__ import annotations

import pytest
import torch

from mase_hw.errors import MaseHwError
from mase_hw.nn import Quantized
from mase_hw.passes import verify_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.unit.pipeline import EIGHT, FIXED, FRACS, MLP, annotated, calibrated, inputs, quantised, rule, seeded


def test_without_calibration_when_every_fraction_is_given() -> None:
    graph, info = quantize_transform_pass(annotated(seeded(MLP), inputs(2, 6)), FIXED)
    verify_analysis_pass(graph)
    assert {r for node in info["nodes"].values() for r in node["reasons"].values()} == {
        "configured", "as its input",
    }  # fmt: skip
    assert "quantize_transform_pass" in graph.completed


def test_a_model_that_is_left_in_float() -> None:
    graph, info = quantised(seeded(MLP), inputs(2, 6), config={"default": rule(name="NA")})
    assert info == {"modified": False, "nodes": {}, "casts": [], "inputs": {}}
    assert torch.equal(graph.model(inputs(2, 6)), seeded(MLP)(inputs(2, 6)))


@pytest.mark.parametrize("left", ["fc1", "relu", "fc2"])
def test_a_node_that_is_left_in_float(left: str) -> None:
    """Parts of a model may stay in float, for experiments; the graph is consistent, and hardware refuses it."""
    model, x = seeded(MLP), inputs(2, 6)
    graph, info = quantised(model, x, config={**EIGHT, "overrides": {left: {"config": {"name": None}}}})
    assert set(info["nodes"]) == {"fc1", "relu", "fc2"} - {left}
    assert not isinstance(graph.modules[left], Quantized)
    assert torch.allclose(graph.model(x), model(x), atol=0.1)


def test_twice_is_refused_or_changes_nothing() -> None:
    """A graph that is fixed point already must not get a second boundary."""
    graph, _ = quantised(seeded(MLP), inputs(2, 6))
    x = inputs(5, 6)
    before, names = graph.model(x), [n.name for n in graph.nodes]
    try:
        graph, _ = quantize_transform_pass(graph, EIGHT)
    except MaseHwError as error:
        assert "quantize" in str(error)
    assert [n.name for n in graph.nodes] == names
    assert torch.equal(graph.model(x), before)


def test_it_undoes_what_it_makes_stale() -> None:
    graph = calibrated(seeded(MLP), inputs(2, 6))
    graph.meta["passes"].append("add_hardware_metadata_analysis_pass")
    graph, _ = quantize_transform_pass(graph, {**EIGHT, "overrides": {"fc1": rule(**FRACS)}})
    assert "add_hardware_metadata_analysis_pass" not in graph.completed
    assert "quantize_transform_pass" in graph.completed
