"""Signs that are chosen, configurations that are merged, and the explanation of both."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    calibrate_analysis_pass,
    calibration_quantization_transform_pass,
    quantize_transform_pass,
    update_quantization_configs,
)
from mase_hw.passes.explanation import explain, explained
from tests.ir.nets import annotated
from tests.unit.pipeline import EIGHT, FIXED, MLP, WIDTHS, calibrated, formats, inputs, quantised, rule, seeded


def test_signs_of_an_mlp() -> None:
    """An input in [0, 1) and everything behind a relu have no sign, and use all 8 bits without it."""
    model, x = seeded(MLP), inputs(64, 6).abs().clamp(max=0.99)
    graph, info = quantised(model, x, config=EIGHT)
    assert formats(graph, "x_quantize")["data_out_0"] == "u8.8"
    hidden = formats(graph, "fc1")["data_out_0"]
    assert hidden.startswith("s9.") and formats(graph, "relu")["data_out_0"] == hidden.replace("s9", "u8")
    assert formats(graph, "fc2")["data_in_0"] == formats(graph, "relu")["data_out_0"]
    assert info["casts"] == []


def test_an_explicit_sign_is_obeyed() -> None:
    model, x = seeded(MLP), inputs(64, 6).abs()
    signed = rule(data_in_signed=True, data_out_signed=True)
    graph, info = quantised(model, x, config={**EIGHT, "overrides": dict.fromkeys(("fc1", "relu", "fc2"), signed)})
    assert all(f.startswith("s8.") for node in info["nodes"].values() for f in node["formats"].values())
    assert formats(graph, "x_quantize")["data_out_0"].startswith("s8.")
    with pytest.raises(ConfigError, match="data_out_0 is configured as unsigned, but negative"):
        quantised(model, x, config={**EIGHT, "overrides": {"fc1": rule(data_out_signed=False)}})
    graph, _ = quantised(model, x, config=FIXED)
    assert formats(graph, "relu")["data_out_0"] == "s8.4", "configured fraction widths mean signed formats"


def test_a_result_that_others_read_keeps_its_width() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.fc(x)
            return y, y.relu()

    graph, _ = quantised(seeded(Both), inputs(8, 6), config=EIGHT)
    assert formats(graph, "fc")["data_out_0"].startswith("s8.")
    assert formats(graph, "relu")["data_out_0"].startswith("u7.")


def test_the_extra_bit_is_worth_it() -> None:
    model, x = seeded(MLP), inputs(400, 6)
    signed = {**EIGHT["default"]["config"], "data_out_signed": True, "data_in_signed": True}
    errors = []
    for config in ({"default": {"config": signed}}, EIGHT):
        graph, _ = quantised(model, x, config=config)
        errors.append(float(((graph.model(x) - model(x)) ** 2).mean()))
    assert errors[1] < errors[0]


def record_of(graph: MaseGraph, node: str) -> dict[str, Any]:
    return graph.node(node).meta["mase"]["software"]["quantization"]  # type: ignore[no-any-return]


def test_global_values_override_nothing_and_custom_ones_win() -> None:
    """update_quantization_configs does not override what was recorded at a node before."""
    graph = annotated(seeded(MLP), {"x": inputs(2, 6)})
    before = {
        "by": "type",
        "default": {"config": {"name": "fixed", "weight_width": 4}},
        "linear": {"config": {"bias_width": 5}},
        "overrides": {"fc2": {"config": {"weight_width": 6, "rounding": "floor"}}},
    }
    with pytest.raises(ConfigError, match="fc9: no such node"):
        update_quantization_configs(graph, {"configs": before, "custom_configs": {"fc9": WIDTHS}})
    with pytest.raises(ConfigError, match="weigth_width: unknown key"):
        update_quantization_configs(graph, {"global_config": {"weigth_width": 4}})
    assert not any(graph.meta_of(n).software.quantization for n in graph.nodes), "nothing is recorded of what is wrong"
    more = WIDTHS | {"rounding": "trunc"}
    graph, info = update_quantization_configs(
        graph, {"configs": before, "global_config": more, "custom_configs": {"fc2": {"weight_width": 3}}}
    )
    assert "data_in_width" not in before["default"]["config"] and "fc2" in before["overrides"]
    one, two = info["nodes"]["fc1"], info["nodes"]["fc2"]
    assert one == {"name": "fixed", **WIDTHS, "weight_width": 4, "bias_width": 5, "rounding": "trunc"}
    assert two == {**one, "weight_width": 3, "rounding": "floor"}
    assert (record_of(graph, "fc1"), record_of(graph, "fc2")) == (one, two)
    graph, info = update_quantization_configs(graph, {"global_config": {"weight_width": 6, "data_in_width": 2}})
    assert (record_of(graph, "fc1"), record_of(graph, "fc2")) == (one, two)
    fresh = {"configs": {"overrides": {"fc1": {"config": {"bias_width": 7}}}}, "global_config": {"overflow": "wrap"}}
    graph, info = update_quantization_configs(graph, fresh)
    assert record_of(graph, "fc1") == {**one, "bias_width": 7, "overflow": "wrap"}


def formats_of(graph: MaseGraph, node: str) -> tuple[int, int]:
    formats = graph.modules[node].arithmetic.formats
    return formats["weight"].width, formats["bias"].width


def test_the_record_at_the_node_is_what_quantisation_reads() -> None:
    """The record at the node is the one that quantisation reads, however it came there."""
    model, x = seeded(MLP), inputs(20, 6)
    graph, _ = update_quantization_configs(
        calibrated(model, x),
        {"configs": EIGHT, "global_config": {"rounding": "floor"}, "custom_configs": {"fc2": {"weight_width": 5}}},
    )
    by_hand = {**EIGHT, "overrides": {"fc2": rule(weight_width=5)}}
    by_hand["default"] = {"config": {**EIGHT["default"]["config"], "rounding": "floor"}}
    made, _ = quantize_transform_pass(graph)
    other, _ = quantize_transform_pass(calibrated(model, x), by_hand)
    assert all(made.modules[n].arithmetic == other.modules[n].arithmetic for n in ("fc1", "relu", "fc2"))

    graph, _ = update_quantization_configs(calibrated(model, x), {"configs": EIGHT})
    record_of(graph, "fc1")["weight_width"] = 3
    made, _ = quantize_transform_pass(graph)
    assert formats_of(made, "fc1") == (3, 8) and formats_of(made, "fc2") == (8, 8)

    graph = calibrated(model, x)
    graph.node("fc1").meta["mase"]["software"]["quantization"] = {"weight_width": 3, "bias_width": 6}
    made, _ = quantize_transform_pass(graph, {**EIGHT, "overrides": {"fc1": rule(bias_width=7)}})
    assert formats_of(made, "fc1") == (3, 7)
    graph, _ = update_quantization_configs(calibrated(model, x), {"global_config": {"weight_width": 3}})
    made, _ = quantize_transform_pass(graph, EIGHT)  # a relu has no weights, as with a default
    assert formats_of(made, "fc2") == (3, 8)
    graph = calibrated(model, x)
    record_of(graph, "fc1")["weigth_width"] = 3
    with pytest.raises(ConfigError, match="weigth_width: unknown key"):
        quantize_transform_pass(graph, EIGHT)


def test_quantising_without_a_configuration() -> None:
    """Quantising with no configuration at all is an error, not a pass that did nothing."""
    graph = calibrated(seeded(MLP), inputs(20, 6))
    for given in ({}, {"by": "name"}, {"output_width": 8}):
        with pytest.raises(ConfigError, match="nothing says how to quantise") as caught:
            quantize_transform_pass(graph, given)
        assert "update_quantization_configs" in str(caught.value.remedy)
    assert "quantize_transform_pass" not in graph.completed


def test_calibration_and_quantisation_as_one_pass() -> None:
    model, x = seeded(MLP), inputs(40, 6)
    batches = [x[:30], x[30:]]
    two = annotated(model, {"x": x[:1]})
    calibrate_analysis_pass(two, {"data": batches, "method": "mse"})
    quantize_transform_pass(two, EIGHT)
    one, info = calibration_quantization_transform_pass(
        annotated(model, {"x": x[:1]}), {"data": batches, "method": "mse", "quantize": EIGHT}
    )
    assert info["calibration"]["batches"] == 2 and set(info["nodes"]) == {"fc1", "relu", "fc2"}
    assert torch.equal(one.model(x), two.model(x)) and not torch.equal(one.model(x), model(x))
    assert {"calibrate_analysis_pass", "quantize_transform_pass"} <= set(one.completed)
    recorded = annotated(model, {"x": x[:1]})
    with pytest.raises(ConfigError, match="nothing says how to quantise"):
        calibration_quantization_transform_pass(recorded, {"data": batches})
    recorded, _ = update_quantization_configs(recorded, {"configs": EIGHT})
    again, _ = calibration_quantization_transform_pass(recorded, {"data": batches, "method": "mse"})
    assert torch.equal(again.model(x), two.model(x))


def test_explain() -> None:
    model, x = seeded(MLP), inputs(64, 6)
    graph = annotated(model, {"x": x})
    calibrate_analysis_pass(graph, {"data": [x], "method": "mse", "weight_method": "min_max"})
    config = {**EIGHT, "linear": rule(weight_width=6), "overrides": {"fc2": rule(weight_width=5, bias_frac_width=3)}}
    _, info = quantize_transform_pass(graph, config)
    found = explain(graph, "fc2")
    told = json.loads(json.dumps(found.to_dict()))
    assert told["node"] == "fc2" and set(told["tensors"]) == {"data_in_0", "weight", "bias", "data_out_0"}
    weight = told["tensors"]["weight"]
    assert weight["settings"]["weight_width"] == [["default", 8], ["linear", 6], ["overrides.fc2", 5]]
    assert weight["format"] == info["nodes"]["fc2"]["formats"]["weight"] and weight["criterion"] == "range"
    assert told["tensors"]["bias"]["reason"] == "configured" and "candidates" not in told["tensors"]["bias"]
    out = told["tensors"]["data_out_0"]
    low, high = float(model(x).min()), float(model(x).max())
    assert out["method"] == "mse" and out["range"] == [low, high]
    errors = {c["format"]: c["error"] for c in out["candidates"]}
    assert errors[out["format"]] == min(errors.values()) and len(errors) > 3
    text = str(found)
    assert "overridden: overrides.fc2 says 5" in text and f"-> {out['format']:>8}" in text
    assert told["tensors"]["data_in_0"]["reason"] == "as relu gives it"
    assert explained(graph) == ["fc1", "relu", "fc2"]


def test_explain_what_nothing_was_decided_about() -> None:
    """Inputs, casts and shapes have the format of another node, and it is said whose."""
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 2)), inputs(8, 6)
    config = {**EIGHT, "overrides": {"_3": rule(data_in_width=5)}}
    graph, info = quantised(model, x, config=config)
    formats = info["nodes"]["_1"]["formats"], info["nodes"]["_3"]["formats"]
    cast = explain(graph, "_3_cast").tensors
    assert str(cast["data_out_0"].decision.fmt) == formats[1]["data_in_0"]
    assert [cast[name].decision.reason for name in cast] == ["as _2 gives it", "as _3 takes it"]
    for name, said in (
        ("input_1", "input_1_quantize brings"),
        ("input_1_quantize", "as _0 takes"),
        ("_0", "the shape"),
    ):
        found = explain(graph, name).tensors["data_out_0"].decision
        assert str(found.fmt) == formats[0]["data_in_0"] and said in found.reason, name
    floats, _ = quantised(model, x, config={**EIGHT, "overrides": {"_2": {"config": {"name": None}}}})
    with pytest.raises(GraphError, match="not quantised"):
        explain(floats, "_2")


def test_explain_refuses_what_it_does_not_know() -> None:
    graph = annotated(seeded(MLP), {"x": inputs(2, 6)})
    with pytest.raises(GraphError, match="run quantize_transform_pass"):
        explain(graph, "fc1")
    graph, _ = quantised(seeded(MLP), inputs(2, 6))
    with pytest.raises(GraphError, match="did you mean 'fc1'"):
        explain(graph, "fc11")
