"""Paths of modules in place of names of nodes; problems that are named together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import nodes_at, translations
from mase_hw.nn import Quantized
from mase_hw.passes import (
    add_hardware_metadata_analysis_pass,
    explain,
    noise_based_mixed_precision_quantization,
    quantize_transform_pass,
)
from mase_hw.passes.evaluation import against
from tests.unit.pipeline import EIGHT, WIDTHS, annotated, calibrated, inputs, rule


def net() -> nn.Module:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
    return nn.Sequential(block, nn.ReLU(), nn.Linear(6, 4)).eval()


def weights(graph: MaseGraph) -> dict[str, int]:
    """Width of the weight of every layer, by the path of its module."""
    return {
        path: module.arithmetic.formats["weight"].width
        for path, module in graph.model.named_modules()
        if isinstance(module, Quantized) and "weight" in module.arithmetic.formats
    }


def test_what_a_path_stands_for() -> None:
    graph = annotated(net(), inputs(3, 6))
    assert nodes_at(graph, "0") == ["_0_0", "_0_1", "_0_2"] and nodes_at(graph, "0.2") == ["_0_2"]
    assert nodes_at(graph, "_0_2") == ["_0_2"] and nodes_at(graph, "0.9") == [] == nodes_at(graph, "0.")
    assert translations(graph, ["2", "_2", "none"]) == {"2": ["_2"]}


@pytest.mark.parametrize("by", ["type", "name"])
def test_rules_by_path(by: str) -> None:
    """The longer path wins over the shorter, the node's name over both, key by key."""
    rules = {"0": rule(weight_width=3, bias_width=5), "0.2": rule(weight_width=4), "_2": rule(weight_width=6)}
    config = {**EIGHT, "by": by, **({"overrides": rules} if by == "type" else rules)}
    del rules["0"]["config"]["bias_width"]
    made, info = quantize_transform_pass(calibrated(net(), inputs(30, 6)), config)
    assert weights(made) == {"0.0": 3, "0.2": 4, "2": 6}
    assert info["paths"] == {"0": ["_0_0", "_0_1", "_0_2"], "0.2": ["_0_2"]}
    assert "overrides._0_2 says 4" in str(explain(made, "0.2")) or by == "name"
    assert explain(made, "0.2") == explain(made, "_0_2")


def test_a_path_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"overrides\.0\.7: no such node.*; overrides\.fc: no such node"):
        config = {**EIGHT, "overrides": {"0.7": rule(weight_width=3), "fc": rule(weight_width=3)}}
        quantize_transform_pass(calibrated(net(), inputs(30, 6)), config)


def test_mixed_precision_and_hardware_by_path() -> None:
    model, x = net(), inputs(60, 6)
    found = noise_based_mixed_precision_quantization(
        calibrated(model, x),
        {"low": {**EIGHT, "default": rule(**dict.fromkeys(WIDTHS, 4))}, "high": EIGHT},
        "sqnr",
        0.0,
        data=against(model, [x]),
        custom_quantization_configs={"0.0": {"weight_width": 7}},
    )
    assert weights(found.graph)["0.0"] == 7
    made, _ = quantize_transform_pass(calibrated(model, x), EIGHT)
    lanes = {"0.0": {"data_out_0": 8}, "2": {"data_in_0": 3}}
    made, info = add_hardware_metadata_analysis_pass(made, {"max_parallelism": 2, "parallelism": lanes})
    assert info["nodes"]["_0_0"]["parallelism"]["data_out_0"][0] == 8
    assert info["nodes"]["_2"]["parallelism"]["data_in_0"][0] == 3


class Unsupported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x).remainder(3).fmod(5)
        return self.b(y.remainder(7))


def test_ops_without_hardware_are_named_together() -> None:
    graph = calibrated(Unsupported().eval(), inputs(5, 4))
    with pytest.raises(UnsupportedError) as caught:
        quantize_transform_pass(graph, EIGHT)
    assert caught.value.message == "ops 'remainder', 'fmod' cannot be quantised"
    assert caught.value.node == "remainder: remainder, remainder_1; fmod: fmod"
    assert "mase-hw ops" in str(caught.value.expected) and len(str(caught.value)) < 800
    only = {**EIGHT, "fmod": {"config": {"name": None}}}
    with pytest.raises(UnsupportedError) as caught:
        quantize_transform_pass(graph, only)
    assert (caught.value.message, caught.value.node) == ("op 'remainder' cannot be quantised", "remainder, remainder_1")


def test_impossible_parallelism_is_named_together() -> None:
    made, _ = quantize_transform_pass(calibrated(net(), inputs(30, 6)), EIGHT)
    lanes = {"_0_0": {"data_out_0": 9}, "_0_2": {"data_out_0": 2}, "_2": {"data_in_0": 7}}
    with pytest.raises(UnsupportedError) as caught:
        add_hardware_metadata_analysis_pass(made, {"parallelism": lanes})
    assert caught.value.message.startswith("2 problems")
    assert "1 to 8 lanes" in str(caught.value) and "1 to 6 lanes" in str(caught.value)
    strange = {"fc": {"data_in_0": 2}, "_2": {"data_in_7": 1}}
    with pytest.raises(ConfigError) as wrong:
        add_hardware_metadata_analysis_pass(made, {"parallelism": strange, "fifo_depth": {"_2.x": 3}})
    assert wrong.value.field == "hardware.parallelism.fc, hardware.parallelism._2.data_in_7, hardware.fifo_depth._2.x"
