"""What the hardware metadata pass refuses; the metadata stay as they were."""

from __future__ import annotations

from typing import Any

import pytest

from mase_hw.errors import ConfigError, MaseHwError, PassOrderError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.ir.nets import refusal
from tests.unit.pipeline import (
    EIGHT,
    MLP,
    Halves,
    annotated,
    calibrated,
    catalogue_with_halve,
    inputs,
    quantised,
    rule,
    seeded,
)


def refused(graph: MaseGraph, args: dict[str, Any], kind: type[MaseHwError], *texts: str) -> None:
    said = refusal(graph, kind, lambda: add_hardware_metadata_analysis_pass(graph, args))
    for text in texts:
        assert text in said, said


@pytest.mark.parametrize(
    ("args", "kind", "texts"),
    [
        ({"max_paralellism": 4}, ConfigError, ["max_paralellism: unknown key; did you mean 'max_parallelism'?"]),
        ({"max_parallelism": 0}, ConfigError, ["at least 1", "hardware.max_parallelism", "got: 0"]),
        ({"max_parallelism": -4}, ConfigError, ["at least 1", "got: -4"]),
        ({"max_parallelism": []}, ConfigError, ["hardware.max_parallelism"]),
        ({"max_parallelism": "four"}, ConfigError, ["max_parallelism", "'four'"]),
        ({"parallelism": {"fc3": {"data_in_0": 2}}}, ConfigError, ["hardware.parallelism.fc3", "did you mean"]),
        ({"parallelism": {"x": {"data_in_0": 2}}}, ConfigError, ["not in hardware", "hardware.parallelism.x"]),
        (
            {"parallelism": {"fc1": {"data_in": 2}}},
            ConfigError,
            ["hardware.parallelism.fc1.data_in", "fc1.data_in_0'"],
        ),
        ({"parallelism": {"fc1": {"weight": 2}}}, ConfigError, ["hardware.parallelism.fc1.weight"]),
        ({"parallelism": {"fc1": {"data_in_0": 0}}}, ConfigError, ["at least 1", "hardware.parallelism.fc1.data_in_0"]),
        ({"parallelism": {"fc1": {"data_in_0": 7}}}, UnsupportedError, ["fc1", "[7]", "1 to 6 lanes"]),
        ({"parallelism": {"fc1": {"data_out_0": 6}}}, UnsupportedError, ["fc1", "[6]", "1 to 5 lanes"]),
        ({"parallelism": {"fc1": {"data_in_0": [2, 2]}}}, ConfigError, ["[2, 2]", "innermost"]),
        ({"parallelism": {"relu": {"data_in_0": 6}}}, UnsupportedError, ["relu", "1 to 5 lanes"]),
        (
            {"parallelism": {"relu": {"data_in_0": 1, "data_out_0": 5}}},
            ConfigError,
            ["as many lanes out as in", "relu"],
        ),
    ],
)
def test_bad_parallelism(args: dict[str, Any], kind: type[MaseHwError], texts: list[str]) -> None:
    refused(quantised(seeded(MLP), inputs(2, 6))[0], args, kind, *texts)


@pytest.mark.parametrize("left", ["fc1", "relu", "fc2"])
def test_a_node_in_float(left: str) -> None:
    config = {**EIGHT, "overrides": {left: {"config": {"name": None}}}}
    graph, _ = quantize_transform_pass(calibrated(seeded(MLP), inputs(2, 6)), config)
    refused(graph, {}, UnsupportedError, "the node is in float", f"where: {left}", "quantize_transform_pass")


def test_a_whole_model_in_float() -> None:
    graph, _ = quantised(seeded(MLP), inputs(2, 6), config={"default": rule(name="NA")})
    refused(graph, {}, UnsupportedError, "in float", "fc1")


def test_an_op_without_hardware() -> None:
    """Known to the catalogue, but nothing builds it."""
    graph = annotated(Halves().eval(), inputs(2, 6), catalogue=catalogue_with_halve())
    graph.meta["passes"].append("quantize_transform_pass")
    refused(graph, {}, UnsupportedError, "in float", "fc")
    for name in ("data_in_0", "weight", "bias", "data_out_0"):
        graph.set_format(graph.node("fc"), name, FixedFormat(8, 4))
    refused(graph, {}, UnsupportedError, "'halve' is known but not in hardware", "where: halve", "linear", "replace it")


def test_wrong_order() -> None:
    refused(MaseGraph(MLP()), {}, PassOrderError, "needs the result of add_common_metadata_analysis_pass", "first")
    graph = annotated(seeded(MLP), inputs(2, 6))
    refused(
        graph, {}, PassOrderError, "needs the result of quantize_transform_pass", "run quantize_transform_pass first"
    )
