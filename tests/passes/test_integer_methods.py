"""Noise, rounding, bias correction, equalization and mixed precision on scaled integers, each beside numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from mase_hw.formats import ScaledFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes import (
    analyse_noise,
    equalization_transform_pass,
    quantize_transform_pass,
    round_weights_transform_pass,
)
from mase_hw.passes.mixed_precision import noise_based_mixed_precision_quantization, uniform
from mase_hw.passes.mixed_precision.plan import complete, compose, settings_of
from mase_hw.passes.quantize.noise.network import network_noise
from mase_hw.passes.quantize.rounding.layers import Layer
from mase_hw.search.search import search
from tests.unit.pipeline import MLP, annotated, calibrated, inputs, seeded

Array = npt.NDArray[np.float64]


def integers(width: int, **keys: Any) -> dict[str, Any]:
    return uniform(width, name="integer", weight_granularity="channel", **keys)


def arithmetic(graph: MaseGraph, node: str) -> dict[str, ScaledFormat]:
    module = graph.meta_of(graph.node(node)).module
    assert isinstance(module, Quantized | QuantizeInput)
    found = module.arithmetic.formats
    assert all(isinstance(f, ScaledFormat) for name, f in found.items() if not name.startswith("multiplier"))
    return dict(found)  # type: ignore[arg-type]


def enter(values: Array, fmt: ScaledFormat) -> Array:
    """Values of a format with one scale, half-even."""
    low, high = fmt.limits[0]
    codes: Array = np.clip(np.rint(values / fmt.scale) + fmt.zero_point, low, high)
    return (codes - fmt.zero_point) * fmt.scale


def by_channel(values: Array, fmt: ScaledFormat) -> Array:
    """The mantissas of weights, every channel with its scale and limits."""
    count = len(values)
    scales = np.array(fmt.scales * (count // fmt.channels)).reshape(-1, *[1] * (values.ndim - 1))
    lows, highs = (np.array(e * (count // len(e))).reshape(scales.shape) for e in zip(*fmt.limits, strict=True))
    codes: Array = np.clip(np.rint(values / scales), lows, highs)
    return codes


def layer(entered: Array, module: nn.Linear, formats: dict[str, ScaledFormat]) -> Array:
    """A layer's exact sums, from its float parameters."""
    fw, fb = formats["weight"], formats["bias"]
    scales = np.array(fw.scales)
    weight = by_channel(module.weight.detach().double().numpy(), fw) * scales[:, None]
    unit = scales * formats["data_in_0"].scale
    assert np.allclose(fb.scales, unit, rtol=1e-15)
    sums: Array = entered @ weight.T + np.rint(module.bias.detach().double().numpy() / unit) * unit
    return sums


def figures(want: Array, got: Array, fmt: ScaledFormat) -> dict[str, float | int]:
    codes = np.rint(got / np.array(fmt.scales)).astype(int)
    low, high = (each - fmt.zero_point for each in (fmt.min_mantissa, fmt.max_mantissa))
    clipped = ((want > (high + 0.5) * fmt.scale) & (codes == high)) | (
        (want < (low - 0.5) * fmt.scale) & (codes == low)
    )
    span = int(codes.max()) - int(codes.min())
    return {
        "sqnr_db": 10 * np.log10(np.square(want).sum() / np.square(want - got).sum()),
        "max_abs": np.abs(want - got).max(),
        "saturation": clipped.mean(),
        "used_bits": span.bit_length() if fmt.zero_point else int(np.abs(codes).max()).bit_length() + fmt.signed,
    }


def test_noise_beside_numpy() -> None:
    """Every node, local and cumulative, the requantisations too; and what the network loses by a node alone."""
    model, x = seeded(MLP), inputs(300, 6, scale=2.0)
    calibration = x[:40]
    graph = calibrated(model, calibration)
    quantised, _ = quantize_transform_pass(copy_graph(graph), integers(5, data_affine=True))
    report = analyse_noise(graph, quantised, [x[:100], x[100:]])
    formats = {n: arithmetic(quantised, n) for n in ("fc1", "relu", "fc2", "fc2_requantize")}
    entry = arithmetic(quantised, "x_quantize")["data_out_0"]
    exact = {"x_quantize": x.double().numpy()}
    parameters = {n: p.detach().double().numpy() for n, p in model.named_parameters()}
    exact["fc1"] = exact["x_quantize"] @ parameters["fc1.weight"].T + parameters["fc1.bias"]
    exact["relu"] = np.maximum(exact["fc1"], 0)
    exact["fc2"] = exact["fc2_requantize"] = exact["relu"] @ parameters["fc2.weight"].T + parameters["fc2.bias"]

    def node(name: str, value: Array) -> Array:
        if name == "x_quantize":
            return enter(value, entry)
        if name in ("fc1", "fc2"):
            return layer(enter(value, formats[name]["data_in_0"]), getattr(model, name), formats[name])
        sums = formats[name]["data_in_0"]
        on_grid = by_channel(value.T, sums).T * np.array(sums.scales)
        return enter(on_grid, formats[name]["data_out_0"])  # limits clamp, as the ReLU does

    order = ["x_quantize", "fc1", "relu", "fc2", "fc2_requantize"]
    assert list(report.nodes) == order and formats["fc1"]["data_in_0"].zero_point
    value = before = exact["x_quantize"]
    for name in order:
        value = node(name, value)
        fmt = entry if name == "x_quantize" else formats[name]["data_out_0"]
        for found, got in ((report.nodes[name].local, node(name, before)), (report.nodes[name].cumulative, value)):
            for key, wanted in figures(exact[name], got, fmt).items():
                # The network computes in float32.
                assert math.isclose(getattr(found, key), wanted, rel_tol=2e-5, abs_tol=1e-6), (name, key)
        before = exact[name]
    assert report.nodes["relu"].local.saturation > 0
    alone = network_noise(graph, quantised, [x])
    only = node("fc2_requantize", node("fc2", exact["relu"]))
    assert math.isclose(alone.noise["fc2"], np.square(only - exact["fc2"]).sum(), rel_tol=1e-4)


@pytest.mark.parametrize("method", ["gptq", "adaround"])
@pytest.mark.parametrize("keys", [{}, {"data_affine": True, "weight_affine": True}], ids=["symmetric", "affine"])
def test_rounding_beside_numpy(method: str, keys: dict[str, Any]) -> None:
    """The reported errors are those of the integers that are exported, and below those of the nearest ones."""
    model, x = seeded(MLP), inputs(200, 6) @ torch.randn(6, 6, generator=torch.Generator().manual_seed(4))
    graph = calibrated(model, x)
    quantised, _ = quantize_transform_pass(copy_graph(graph), integers(3, **keys))
    config = {"method": method, "target": "layer", "keep": "always", "iterations": 200, "reference": graph}
    quantised, info = round_weights_transform_pass(quantised, {"data": [x], **config})
    entered = enter(x.double().numpy(), arithmetic(quantised, "x_quantize")["data_out_0"])
    module, formats = Layer.of(quantised, quantised.node("fc1")), arithmetic(quantised, "fc1")
    assert module is not None
    scales, weight = np.array(formats["weight"].scales)[:, None], model.fc1.weight.detach().double().numpy()
    errors = {
        name: np.square(entered @ (codes * scales - weight).T).mean()
        for name, codes in (
            ("now", module.module.mantissa("weight").double().numpy()),
            ("nearest", by_channel(weight, formats["weight"])),
        )
    }
    found = info["layers"]["fc1"]["error"]
    assert found == pytest.approx(errors, rel=1e-4)
    assert errors["now"] < 0.9 * errors["nearest"] and info["layers"]["fc1"]["changed"] > 0
    codes = module.module.mantissa("weight").numpy()
    lows, highs = zip(*formats["weight"].limits * (1 if keys else 5), strict=True)
    assert (codes >= np.array(lows)[:, None]).all() and (codes <= np.array(highs)[:, None]).all()


def test_a_bias_has_the_bits_that_rounded_weights_need() -> None:
    """The zero point times the sum of the new weights is in the bias, whose width was that of the old ones."""
    model, x = seeded(MLP), inputs(60, 6)
    model.fc1.weight.data = torch.where(torch.arange(6) % 2 == 0, 1.0, -1.0).expand(5, 6) * model.fc1.weight.abs()
    graph, _ = quantize_transform_pass(calibrated(model, x), integers(8, data_affine=True))
    found = Layer.of(graph, graph.node("fc1"))
    assert found is not None
    before = arithmetic(graph, "fc1")
    found.set_weight(torch.full((1, 5, 6), 127.0, dtype=torch.float64))
    after = arithmetic(graph, "fc1")
    unit = [float(s) * after["data_in_0"].scale for s in after["weight"].scales]
    zero = after["data_in_0"].zero_point
    wanted = [round(b / u) - zero * 127 * 6 for b, u in zip(found.bias().tolist(), unit, strict=True)]
    assert found.module.mantissa("bias").tolist() == wanted
    assert before["bias"].width < after["bias"].width == max(abs(w) for w in wanted).bit_length() + 1
    assert arithmetic(graph, "relu")["data_in_0"] == after["data_out_0"]
    assert graph.tensor(graph.node("fc1"), "bias").fmt == after["bias"]
    limited, _ = quantize_transform_pass(calibrated(model, x), integers(8, data_affine=True, bias_width=6))
    narrow = Layer.of(limited, limited.node("fc1"))
    assert narrow is not None and narrow.set_bias(torch.full((5,), 1e3, dtype=torch.float64)), "it says that it clips"
    assert arithmetic(limited, "fc1")["bias"].width == 6


@pytest.mark.parametrize("how", ["empirical", "analytic"])
def test_bias_correction_takes_the_mean_error_off(how: str) -> None:
    model, x = seeded(MLP), inputs(400, 6) + 0.5
    graph = calibrated(model, x)
    means = {}
    for name, method in (("before", "none"), ("after", how)):
        quantised, _ = quantize_transform_pass(copy_graph(graph), integers(3, data_affine=True, data_in_width=8))
        config = {"data": [x], "bias_correction": method, "keep": "always", "reference": graph}
        quantised, _ = round_weights_transform_pass(quantised, config)
        module = quantised.meta_of(quantised.node("fc1")).module
        assert isinstance(module, Quantized)
        with torch.no_grad():
            error = module(quantised.model.get_submodule("x_quantize")(x)).double() - model.fc1(x).double()
        means[name] = error.mean(0).abs().max()
    assert means["after"] < 0.05 * means["before"]


class Uneven(nn.Module):
    """Channels of the first layer differ by a factor of 100, which the second takes back."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)
        with torch.no_grad():
            factor = torch.logspace(-1, 1, 8)
            self.fc1.weight.mul_(factor[:, None])
            self.fc1.bias.mul_(factor)
            self.fc2.weight.div_(factor)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc2(self.relu(self.fc1(x)))
        return y


def test_equalization() -> None:
    """The float function stays, and scaled integers with a scale for the tensor gain what fixed point gains."""
    model, x = seeded(Uneven), inputs(200, 6)
    graph = annotated(model, x[:1])
    config = uniform(6, name="integer")
    graph, info = equalization_transform_pass(graph, {"data": [x], "cross_layer": True, "quantize": config})
    assert torch.allclose(graph.model(x), model(x), atol=1e-5)
    assert info["steps"]["cross_layer"]["kept"]
    after, before = info["sqnr_db"]["after"], info["sqnr_db"]["before"]
    assert after > before + 5, "with channels a hundred times apart"


def labelled(model: nn.Module, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    with torch.no_grad():
        return [(x, model(x))]


def test_mixed_precision() -> None:
    """The family stays, ReLUs have the width of their group, the target is met, and the plan means the same."""
    model, x = seeded(MLP), inputs(128, 6)
    graph, data = calibrated(model, x), labelled(model, x)
    both = {"low": integers(3), "high": integers(8)}
    found = noise_based_mixed_precision_quantization(graph, both, "sqnr", 10.0, data=data)
    assert found.score >= 10 and 0 < len(found.raised) < 3 and found.cost["mixed"] < found.cost["high"]
    again, _ = quantize_transform_pass(copy_graph(graph), found.plan.quantize)
    for name in ("fc1", "relu", "fc2", "fc2_requantize"):
        assert arithmetic(again, name) == arithmetic(found.graph, name)
        bits = 8 if name.removesuffix("_requantize") in found.raised else 3
        if not name.startswith("fc") or name.endswith("requantize"):
            assert arithmetic(found.graph, name)["data_out_0"].width == bits
        else:
            assert arithmetic(found.graph, name)["weight"].width == bits
            assert arithmetic(found.graph, name)["weight"].channels > 1
    with torch.no_grad():
        error = found.graph.model(x).double() - model(x).double()
        power = model(x).double().square().sum() / error.square().sum()
    assert found.score == pytest.approx(float(10 * torch.log10(power)))
    low, high = (settings_of(graph, complete("c", integers(bits))) for bits in (3, 8))
    made = compose(graph, {"fc1": low["fc1"], "relu": high["relu"], "fc2": low["fc2"]})
    raised, _ = quantize_transform_pass(copy_graph(graph), made)
    assert [arithmetic(raised, n)["data_out_0"].width for n in ("relu", "fc2_requantize")] == [8, 3]
    pytest.importorskip("optuna")
    options: Any = {"base": integers(8), "widths": (4, 8), "vary": ["widths"], "against": ["bit_operations"]}
    widths = search(graph, "sqnr", data=data, trials=4, **options)
    for plan, _ in widths.plans:
        assert plan["default"]["config"]["name"] == "integer"


def test_all_raised_is_high_alone() -> None:
    model, x = seeded(MLP), inputs(64, 6)
    graph, data = calibrated(model, x), labelled(model, x)
    high, _ = quantize_transform_pass(copy_graph(graph), {**integers(8), "output_width": 1})
    both = {"low": integers(2), "high": integers(8)}
    with torch.no_grad():
        best = float(torch.mean((high.model(x) - model(x)) ** 2))
        found = noise_based_mixed_precision_quantization(graph, both, "mse", best * 1.0001, data=data)
        assert torch.equal(found.graph.model(x), high.model(x))
