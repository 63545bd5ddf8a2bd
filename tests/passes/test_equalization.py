"""Equalization as one pass: what is enabled, the guard, bias absorption, and the way there from ``compile``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    absorb_bias_transform_pass,
    calibrate_analysis_pass,
    equalization_transform_pass,
    fold_batch_norm_transform_pass,
    quantize_transform_pass,
)
from tests.unit.pipeline import EIGHT, RANGES, WIDTHS, annotated, inputs, quantised, rule


def near(decibels: float) -> Any:
    """Of a ratio of sums of floats, whose order depends on the CPU and on how many frames are summed at once."""
    return pytest.approx(decibels, rel=0, abs=1e-3)


def bits(width: int) -> dict[str, Any]:
    return {"default": rule(**dict.fromkeys(WIDTHS, width))}


def hurt_by_cross_layer() -> nn.Module:
    """One large weight in every second channel: making the ranges equal takes bits from all others."""
    torch.manual_seed(38)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    with torch.no_grad():
        model[0].bias.uniform_(-1, 1)
        model[2].weight[torch.arange(0, 16, 2), 0:16:2] *= 8
    return model.eval()


def uneven_norms(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 8))
    with torch.no_grad():
        for norm in (model[1], model[4]):
            norm.weight.copy_(torch.exp(torch.randn(32) * 1.5))
            norm.running_var.copy_(torch.exp(torch.randn(32) * 2))
            norm.bias.copy_(torch.randn(32))
    return model.eval()


def loss(graph: MaseGraph, model: nn.Module, x: Tensor, width: int) -> float:
    """SQNR in dB of a float graph, quantised, against the model."""
    calibrate_analysis_pass(graph, {"data": [x], **RANGES})
    quantize_transform_pass(graph, bits(width))
    with torch.no_grad():
        want, got = model(x).double().numpy(), graph.model(x).double().numpy()
    return float(10 * np.log10((want**2).sum() / ((want - got) ** 2).sum()))


@pytest.mark.parametrize(
    ("model", "step", "lost"), [(hurt_by_cross_layer(), "cross_layer", 2.0), (uneven_norms(5), "smooth_quant", 4.0)]
)
def test_what_does_not_help_is_undone(model: nn.Module, step: str, lost: float) -> None:
    """Forced, the step costs decibels; by default it is not done, not one bit of a weight, and the report says why."""
    x = inputs(200, 16)

    def graph() -> MaseGraph:
        return fold_batch_norm_transform_pass(annotated(model, x))[0]

    plain = loss(graph(), model, x, 4)
    forced, info = equalization_transform_pass(graph(), {"data": [x], step: True, "keep": "always"})
    assert info["modified"] and "sqnr_db" not in info
    worse = loss(forced, model, x, 4)
    assert worse < plain - lost
    before = graph()
    weights = {name: value.clone() for name, value in before.model.state_dict().items()}
    guarded, info = equalization_transform_pass(
        before, {"data": [x], step: True, "quantize": bits(4), "calibrate": RANGES}
    )
    assert not info["modified"] and not info["steps"][step]["kept"]
    assert all(torch.equal(weights[name], value) for name, value in guarded.model.state_dict().items())
    assert info["steps"][step]["sqnr_db"] == {"before": near(plain), "after": near(worse)}
    assert info["sqnr_db"] == {"before": near(plain), "after": near(plain)}
    assert loss(guarded, model, x, 4) == near(plain)


def test_what_helps_is_kept_step_by_step() -> None:
    model, x = uneven_norms(), inputs(200, 16)
    graph = fold_batch_norm_transform_pass(annotated(model, x))[0]
    plain = loss(fold_batch_norm_transform_pass(annotated(model, x))[0], model, x, 4)
    enabled = {"cross_layer": True, "absorb_bias": True, "smooth_quant": True}
    graph, info = equalization_transform_pass(graph, {"data": [x], "quantize": bits(4), "calibrate": RANGES, **enabled})
    assert list(info["steps"]) == ["cross_layer", "absorb_bias", "smooth_quant"]
    kept = [step for step in info["steps"].values() if step["kept"]]
    assert kept and info["modified"]
    ratio = plain
    for step in info["steps"].values():
        if "sqnr_db" in step:
            assert step["sqnr_db"]["before"] == near(ratio)
            assert step["kept"] == (step["sqnr_db"]["after"] > step["sqnr_db"]["before"])
            ratio = max(ratio, step["sqnr_db"]["after"])
    assert info["sqnr_db"] == {"before": near(plain), "after": near(ratio)}
    assert loss(graph, model, x, 4) == near(ratio) and ratio > plain + 1


def test_nothing_is_done_that_is_not_enabled() -> None:
    model, x = hurt_by_cross_layer(), inputs(20, 16)
    graph, info = equalization_transform_pass(annotated(model, x), {"data": [x]})
    assert info == {"modified": False, "steps": {}}
    assert torch.equal(graph.model(x), model(x))


def lifted(padding: int = 0) -> nn.Module:
    """Channels that stay above zero behind the first layer, as after evening out they often do."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3, padding=padding), nn.ReLU()
    )
    with torch.no_grad():
        model[0].bias[:3] += 8
    return model.eval().double()


@pytest.mark.parametrize(("frames", "by_deviation"), [(2, True), (60, False)])
def test_absorbed_biases_are_those_of_the_publication(frames: int, by_deviation: bool) -> None:
    """``c = max(0, mean - 3 deviation)``, at most the smallest value; checked with numpy on the whole data."""
    model, x = lifted(), inputs(frames, 2, 10, 10).double()
    graph, info = absorb_bias_transform_pass(annotated(model, x), {"data": [x[:1], x[1:]]})
    with torch.no_grad():
        hidden = model[0](x).transpose(0, 1).flatten(1).numpy()
    shift = np.maximum(0, np.minimum(hidden.mean(1) - 3 * hidden.std(1), hidden.min(1)))
    assert (shift[:3] > 1).all() and not shift[3:].any()
    assert (hidden.min(1)[:3] > shift[:3]).any() == by_deviation
    found = graph.model.state_dict()
    assert np.allclose(found["0.bias"], model[0].bias.detach().numpy() - shift, rtol=1e-12)
    weight = model[3].weight.detach().numpy()
    bias = model[3].bias.detach().numpy() + np.einsum("oihw,i->o", weight, shift)
    assert np.allclose(found["3.bias"], bias, rtol=1e-12)
    with torch.no_grad():
        assert torch.allclose(graph.model(x), model(x), rtol=1e-10, atol=1e-12)
    assert info["absorbed"] == {"_0": {"second": "_3", "shift": pytest.approx(shift.max())}}


def test_absorption_through_flatten_and_into_a_layer_without_bias() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 5, bias=False)).eval().double()
    with torch.no_grad():
        model[0].bias += 6
    x = inputs(30, 1, 3, 3).double()
    graph, info = absorb_bias_transform_pass(annotated(model, x), {"data": [x]})
    assert info["modified"] and "3.bias" in graph.model.state_dict()
    with torch.no_grad():
        assert torch.allclose(graph.model(x), model(x), rtol=1e-10, atol=1e-12)


def test_where_nothing_can_be_absorbed() -> None:
    x = inputs(6, 2, 10, 10).double()
    _, info = absorb_bias_transform_pass(annotated(lifted(padding=1), x), {"data": [x]})
    assert not info["modified"] and "_3 pads zeros" in info["skipped"]["_0"]
    leaky = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(), nn.Linear(4, 4), nn.Linear(4, 4)).eval()
    _, info = absorb_bias_transform_pass(annotated(leaky, inputs(5, 4)), {"data": [inputs(5, 4)]})
    assert "does not keep a shift" in info["skipped"]["_0"] and "no relu" in info["skipped"]["_2"]
    with pytest.raises(ConfigError, match="is empty"):
        absorb_bias_transform_pass(annotated(leaky, inputs(5, 4)), {"data": []})


def test_it_is_a_step_of_compile_where_it_is_enabled() -> None:
    model, x = hurt_by_cross_layer(), inputs(50, 16)
    example = {"input": x[:1]}
    assert "equalization" not in quantise_pipeline(example).names
    config = {"equalization": {"cross_layer": True}, "quantize": bits(4)}
    for data in ([x], iter([x])):
        pipeline = quantise_pipeline(example, config, calibration=data)
        assert pipeline.names.index("equalization") == pipeline.names.index("calibrate") - 1
        run = pipeline.run(MaseGraph(model))
        assert set(run.infos["equalization"]["steps"]) == {"cross_layer"}
        ratios = run.infos["equalization"]["sqnr_db"]
        with torch.no_grad():
            want, got = model(x).double(), run.graph.model(x).double()
        found = float(10 * torch.log10(want.square().sum() / (want - got).square().sum()))
        assert found == near(ratios["after"])
    with pytest.raises(ConfigError, match="cross_leyer"):
        quantise_pipeline(example, {"equalization": {"cross_leyer": True}})


def test_wrong_data_and_graphs() -> None:
    model, x = hurt_by_cross_layer(), inputs(5, 16)
    with pytest.raises(ConfigError, match="only once"):
        equalization_transform_pass(annotated(model, x), {"data": iter([x]), "cross_layer": True})
    with pytest.raises(GraphError, match="before quantize_transform_pass"):
        equalization_transform_pass(quantised(model, x, config=EIGHT)[0], {"data": [x]})
