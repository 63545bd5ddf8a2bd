"""Configurations and models that quantisation refuses, with nothing changed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import ConfigError, FormatError, MaseHwError, PassOrderError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.ir.nets import snapshot
from tests.unit.pipeline import (
    EIGHT,
    FIXED,
    FRACS,
    MLP,
    WIDTHS,
    Halves,
    annotated,
    calibrated,
    catalogue_with_halve,
    inputs,
    quantised,
    rule,
    seeded,
)


def refused(
    config: dict[str, Any], kind: type[MaseHwError], *texts: str, graph: MaseGraph | None = None
) -> MaseHwError:
    """The error, with all texts in it; metadata, graph and modules are as before."""
    graph = graph or calibrated(seeded(MLP), inputs(4, 6))
    before, code, modules = snapshot(graph), graph.model.code, list(graph.modules.items())
    with pytest.raises(kind) as caught:
        quantize_transform_pass(graph, config)
    assert type(caught.value) is kind
    for text in texts:
        assert text in str(caught.value), str(caught.value)
    assert snapshot(graph) == before and graph.model.code == code
    assert [(n, id(m)) for n, m in graph.modules.items()] == [(n, id(m)) for n, m in modules]
    return caught.value


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        ({"by": "type", "linaer": rule()}, ["linaer: no such op (did you mean 'linear'?)"]),
        ({"by": "type", "fc1": rule()}, ["fc1: no such op"]),
        (
            {"by": "name", "fc3": rule(), "rleu": rule()},
            ["fc3: no such node", "rleu: no such node (did you mean 'relu'?)"],
        ),
        ({"by": "regex_name", "fc": rule()}, ["fc: matches no node"]),
        ({"overrides": {"linear": rule()}}, ["overrides.linear: no such node"]),
        ({"by": "regex_name", "fc(": rule()}, ["fc("]),
    ],
)
def test_rules_that_apply_to_nothing(config: dict[str, Any], texts: list[str]) -> None:
    refused({**EIGHT, **config}, ConfigError, *texts)


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        ({"relu": rule(weight_width=4)}, ["relu.config.weight_width: relu has no weight"]),
        (
            {"by": "name", "relu": rule(data_in_width=7, bias_frac_width=4, weight_signed=True)},
            ["relu.config.bias_frac_width: relu has no bias", "relu.config.weight_signed: relu has no weight"],
        ),
        ({"overrides": {"relu": rule(weight_width=4)}}, ["overrides.relu.config.weight_width: relu has no weight"]),
        ({"prelu": rule(bias_width=4)}, ["prelu.config.bias_width: prelu has no bias"]),
    ],
)
def test_keys_of_tensors_that_the_op_has_not(config: dict[str, Any], texts: list[str]) -> None:
    refused({**EIGHT, **config}, ConfigError, *texts)


def test_keys_that_some_of_the_nodes_have() -> None:
    """An expression is for nodes of all kinds, and so is the default; a constant operand has the keys of weights."""
    graph = calibrated(seeded(MLP), inputs(4, 6))
    quantize_transform_pass(graph, {**EIGHT, "by": "regex_name", ".*": rule(weight_width=4)})
    assert [n.name for n in graph.nodes if n.name == "fc1"]
    graph = calibrated(seeded(MLP), inputs(4, 6))
    quantize_transform_pass(graph, {**EIGHT, "add": rule(weight_width=4), "conv2d": rule(bias_width=4)})


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        ({"by": "op"}, ["by: ", "'op'"]),
        ({"default": {"name": "fixed"}}, ["default.config: missing", "default.name: unknown key"]),
        ({"default": {"config": {"nmae": "fixed"}}}, ["default.config.nmae: unknown key; did you mean 'name'?"]),
        ({"default": {"config": {"name": "float8"}}}, ["default.config.name", "'float8'"]),
        (
            {"linear": {"config": {"weigth_width": 8}}},
            ["linear.config.weigth_width: unknown key; did you mean 'weight_width'?"],
        ),
        ({"linear": 8}, ["linear: ", "got 8"]),
        ({"overrides": {"fc1": {"config": {"widht": 8}}}}, ["overrides.fc1.config.widht: unknown key"]),
        ({"default": rule(weight_width=0)}, ["default.config.weight_width", "greater than or equal to 1", "got 0"]),
        ({"default": rule(bias_width=-8)}, ["default.config.bias_width", "got -8"]),
        ({"default": rule(data_in_width=10**6)}, ["default.config.data_in_width", "less than or equal to"]),
        ({"default": rule(data_in_width=7.5)}, ["default.config.data_in_width", "7.5"]),
        (
            {"default": rule(rounding="up")},
            ["default.config.rounding", "half_even | half_up | floor | trunc | half_away"],
        ),
        ({"default": rule(overflow="clamp")}, ["default.config.overflow", "saturate | wrap"]),
        (
            {"default": rule(weight_width=0, bias_width=0, x=1)},
            ["3 problem(s)", "weight_width", "bias_width", "config.x"],
        ),
    ],
)
def test_malformed_configuration(config: dict[str, Any], texts: list[str]) -> None:
    refused(config, ConfigError, *texts)


@pytest.mark.parametrize("key", [key for key in WIDTHS if key != "bias_width"])
def test_missing_width(key: str) -> None:
    config = {"default": rule(**{k: v for k, v in {**WIDTHS, **FRACS}.items() if k != key})}
    tensor = key.removesuffix("_width")
    refused(config, ConfigError, f"no width for {tensor}", "fc1", f"set {key} in the rule for this node")


@pytest.mark.parametrize("key", list(FRACS))
def test_missing_fraction_width_without_calibration(key: str) -> None:
    config = {"default": rule(**WIDTHS, **{k: v for k, v in FRACS.items() if k != key})}
    tensor = key.removesuffix("_frac_width")
    graph = annotated(seeded(MLP), inputs(4, 6))
    error = refused(
        config,
        PassOrderError,
        f"fraction width of {tensor}",
        "fc1",
        "run calibrate_analysis_pass first",
        key,
        graph=graph,
    )
    assert error.node == "fc1"


def test_unsigned_for_negative_numbers() -> None:
    config = {"default": rule(**WIDTHS, weight_signed=False)}
    refused(config, ConfigError, "weight is configured as unsigned, but negative values were observed", "weight_signed")
    given = {"default": rule(**WIDTHS, weight_signed=False, weight_frac_width=6)}
    assert quantised(seeded(MLP), inputs(4, 6), config=given)[1]["nodes"]["fc1"]["formats"]["weight"] == "u8.6"


@pytest.mark.parametrize("parameter", ["fc1.weight", "fc2.bias"])
def test_nan_names_the_parameter(parameter: str) -> None:
    model = seeded(MLP)
    with torch.no_grad():
        dict(model.named_parameters())[parameter].view(-1)[1] = math.nan
    refused(FIXED, FormatError, "NaN", parameter, graph=annotated(model, inputs(4, 6)))


class Computed(nn.Module):
    """A weight that is a result of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 36)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.fc(x).reshape(6, 6))


def test_a_weight_that_is_computed() -> None:
    graph = calibrated(Computed().eval(), inputs(1, 6))
    refused(EIGHT, UnsupportedError, "weight is computed by the model, not stored", "linear", graph=graph)


def test_an_op_without_hardware() -> None:
    """Known to the catalogue, but it has no fixed-point arithmetic."""
    graph = annotated(Halves().eval(), inputs(2, 6), catalogue=catalogue_with_halve())
    refused(FIXED, UnsupportedError, "op 'halve' cannot be quantised", "where: halve", "mase-hw ops", graph=graph)


@pytest.mark.parametrize("graph", [MaseGraph(MLP())])
def test_wrong_order(graph: MaseGraph) -> None:
    refused(
        EIGHT,
        PassOrderError,
        "quantize_transform_pass needs",
        "run add_common_metadata_analysis_pass first",
        graph=graph,
    )
