"""A transformer on real images: 8 bits cost less than a point, every bit is in Verilator, at the bound of the work."""

from __future__ import annotations

import copy
import dataclasses
import tomllib
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.compiler.stages import CALIBRATE, quantise_pipeline
from mase_hw.formats import any_scaled
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import Pipeline, calibrate_analysis_pass, quantize_transform_pass, smooth_quant_transform_pass
from mase_hw.passes.explanation import explain, explained
from mase_hw.passes.mixed_precision import noise_based_mixed_precision_quantization
from mase_hw.passes.quantize.noise import noise_analysis_pass
from tests.passes.digits import ROOT, Digits, accuracy, digits_vit, train
from tests.unit.pipeline import OWN_FRAMES, WIDTHS, rule

WORK = 2 * (4 * 16 * 32 * 32 + 2 * 16 * 32 * 64 + 2 * 16 * 16 * 32) + 16 * 4 * 32 + 32 * 10
"""Products of an image: projections, the MLP, both products of an attention; patches and scores."""


def lowered(d: Digits | None = None) -> MaseGraph:
    """The float graph with everything observed, before the quantisation."""
    d = d or digits_vit()
    images = d.train[0][:256]
    whole = quantise_pipeline({"image": images[:1]}, calibration=[images])
    steps = whole.steps[: whole.names.index(CALIBRATE) + 1]
    return Pipeline(steps).run(MaseGraph(d.net)).graph


@pytest.mark.parametrize("frames", [8, pytest.param(360, marks=pytest.mark.slow)])
def test_the_example(frames: int, tmp_path: Path) -> None:
    """Held-out images to the bit, in the cycles that are predicted and no more than the work needs.

    All of them in `make sim`, and in `make test-long`: their simulator is worth optimising, which takes three times as
    long as building that of a few.
    """
    d = digits_vit()
    images, labels = d.test
    design = mase_hw.compile(
        d.net,
        images[:1],
        tomllib.loads((ROOT / "examples" / "digits_vit.toml").read_text(encoding="utf-8")) | OWN_FRAMES,
        out=tmp_path / "vit",
        calibration=list(d.train[0].split(256)),
    )
    plain, eight = accuracy(d.net, images, labels), accuracy(design.model, images, labels)
    print(f"float {plain:.4f}, 8 bits {eight:.4f}")
    assert plain >= 0.96 and eight >= plain - 0.01
    assert len(images) == 360
    simulation = design.simulate(images[:frames], engine="batch")
    assert simulation.passed and simulation.result.mismatches == 0 and simulation.frames == frames
    assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])
    multipliers = sum(i.get("multipliers") or 0 for i in design.manifest["instances"])
    assert simulation.interval <= 2048 and -(-WORK // 2048) <= multipliers <= 170
    assert all(i["module"] != "stream_reorder" for i in design.manifest["instances"])
    products = sum(i["multipliers"] for i in design.manifest["instances"] if i["module"] == "fixed_matmul")
    page = " ".join((ROOT / "docs" / "transformers.md").read_text(encoding="utf-8").split())
    assert f"{multipliers} multipliers, of which the products of the two attentions have {products}." in page


def test_training_at_low_width_reaches_scores_and_probabilities() -> None:
    """Weights of 3 bits lose points; two epochs of training through norms, products and softmax win them back."""
    d = digits_vit()
    graph, _ = quantize_transform_pass(lowered(), {"default": rule(**{**WIDTHS, "weight_width": 3})})
    model = graph.model
    ops = {m.mase_op for m in model.modules() if isinstance(m, Quantized)}
    assert {"grouped_matmul", "softmax", "layer_norm", "gelu", "linear", "add"} <= ops
    before = accuracy(model, *d.test)
    train(model, *d.train, 5e-4)
    after = accuracy(model, *d.test)
    print(f"3-bit weights {before:.4f}, trained {after:.4f}")
    assert before < 0.93 and after > before + 0.02
    weights = [p for name, p in model.named_parameters() if "q_proj" in name and name.endswith("weight")]
    assert weights and all(p.grad is not None and bool(p.grad.any()) for p in weights)


def test_integers_are_as_accurate_as_fixed_point() -> None:
    """Scales by channel in every op, norms, scores, probabilities and sums included, and the same bits everywhere."""
    d = digits_vit()
    found = {}
    for bits in (2, 3, 4, 8):
        keys = {"data_in_width": bits, "weight_width": bits, "data_out_width": bits}
        kinds = {"fixed": {"name": "fixed"}, "integer": {"name": "integer", "weight_granularity": "channel"}}
        for name, kind in kinds.items():
            config = {"default": {"config": {**keys, **kind}}, "output_width": 16}
            graph, _ = quantize_transform_pass(lowered(), config)
            modules = [m for m in graph.model.modules() if isinstance(m, Quantized)]
            scaled = [any_scaled(m.arithmetic.formats) for m in modules]
            assert all(scaled) if name == "integer" else not any(scaled)
            found[name, bits] = 100 * accuracy(graph.model, *d.test)
    print(found)
    assert all(found["integer", bits] >= found["fixed", bits] for bits in (2, 3, 4, 8))
    assert found["integer", 4] > found["fixed", 4] + 5 and found["integer", 3] > found["fixed", 3] + 5


def test_noise_of_scores_and_probabilities() -> None:
    """Each by itself is as noisy as its format says; a probability of 4 bits shows in what follows, and there alone."""
    images, real = digits_vit().train[0][:64], lowered()

    def noise(**more: object) -> dict[str, dict[str, float]]:
        graph, _ = quantize_transform_pass(lowered(), {"default": rule(**WIDTHS), **more})
        _, info = noise_analysis_pass(graph, {"float_graph": real, "data": [images]})
        return {
            node: {kind: found[kind]["sqnr_db"] for kind in ("local", "cumulative")}
            for node, found in info["nodes"].items()
        }

    eight, coarse = noise(), noise(softmax=rule(data_out_width=4))
    before, after = "encoder_layers_0_self_attn_matmul", "encoder_layers_0_self_attn_matmul_1"
    softmax = "encoder_layers_0_self_attn_softmax"
    assert all(eight[node]["local"] > 20 for node in (before, softmax, after))
    assert coarse[before] == eight[before]
    # Each bit of a format is 6 dB; small probabilities are 0 in 4 bits, which costs no more than that.
    assert coarse[softmax]["local"] < eight[softmax]["local"] - 15
    assert coarse[after]["cumulative"] < eight[after]["cumulative"] - 3
    assert coarse[after]["local"] == pytest.approx(eight[after]["local"], abs=3)


def test_smooth_quant_moves_ranges_from_norms_to_projections() -> None:
    """Its real use: a layer norm's outliers go into the weights of what reads it; the float model stays what it is.

    With some channels of each norm 64 times as large, and the weights that read them as much smaller, 8 bits for all
    channels together lose most of the images; smoothed they lose none that they did not lose before.
    """
    d = digits_vit()
    images, labels = d.test
    net = copy.deepcopy(d.net)
    layers = net.encoder.layers
    with torch.no_grad():
        for layer in layers:
            for norm, readers in (
                (layer.norm1, [layer.self_attn.in_proj_weight]),
                (layer.norm2, [layer.linear1.weight]),
            ):
                for parameter in (norm.weight, norm.bias):
                    parameter[::8] *= 64
                for weight in readers:
                    weight[:, ::8] /= 64
        torch.testing.assert_close(net(images), d.net(images), rtol=1e-3, atol=1e-3)

    def eight(smooth: bool) -> tuple[float, dict[str, object]]:
        graph, info = lowered(dataclasses.replace(d, net=net)), {}
        if smooth:
            graph, info = smooth_quant_transform_pass(graph, {"data": [d.train[0][:256]]})
            with torch.no_grad():
                torch.testing.assert_close(graph.model(images), d.net(images), rtol=1e-3, atol=1e-3)
            graph, _ = calibrate_analysis_pass(graph, {"data": [d.train[0][:256]]})
        graph, _ = quantize_transform_pass(graph, {"default": rule(**WIDTHS)})
        return accuracy(graph.model, images, labels), info

    (rough, _), (smooth, info) = eight(False), eight(True)
    print(f"outliers {rough:.4f}, smoothed {smooth:.4f}")
    prefix = "encoder_layers_{}_"
    wanted = {
        **{prefix.format(i) + "norm1": {prefix.format(i) + f"self_attn_{p}_proj" for p in "qkv"} for i in range(2)},
        **{prefix.format(i) + "norm2": {prefix.format(i) + "linear1"} for i in range(2)},
    }
    assert {node: set(entry["layers"]) for node, entry in info["smoothed"].items()} == wanted  # type: ignore[attr-defined]
    assert smooth >= accuracy(d.net, images, labels) - 0.02 and rough < smooth - 0.05


def test_explain_speaks_of_scores_and_probabilities() -> None:
    graph, _ = quantize_transform_pass(lowered(), {"default": rule(**WIDTHS)})
    roles = {name: explain(graph, name).role for name in explained(graph)}
    path = "encoder_layers_1_self_attn_"
    assert roles[f"{path}matmul"].startswith("scores") and roles[f"{path}softmax"].startswith("probabilities")
    assert roles[f"{path}matmul_1"].startswith("result of an attention")
    assert sum(bool(role) for role in roles.values()) == 6
    said = explain(graph, f"{path}softmax")
    assert str(said).startswith(f"{path}softmax (probabilities of an attention)")
    tensor = said.to_dict()["tensors"]["data_out_0"]
    assert tensor["format"].startswith("u8.") and len(tensor["candidates"]) > 3


@pytest.mark.parametrize("layers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_mixed_precision_finds_what_costs_the_points(layers: int) -> None:
    """Between 4 and 8 bits everywhere; products of streams are counted in the cost.

    The search takes time in the square of the nodes, so every run searches a transformer of one layer.
    """
    d = digits_vit() if layers == 2 else digits_vit(epochs=10, layers=layers)
    images, labels = d.train[0][:64], d.train[1][:64]

    def uniform(width: int) -> float:
        widths = {**WIDTHS, "data_in_width": width, "data_out_width": width, "weight_width": width}
        graph, _ = quantize_transform_pass(lowered(d), {"default": rule(**widths)})
        return accuracy(graph.model, images, labels)

    target = (uniform(4) + uniform(8)) / 2
    found = noise_based_mixed_precision_quantization(
        lowered(d), {"low": 4, "high": 8}, "accuracy", target, data=[(images, labels)], fast_mode=True
    )
    print(f"target {target:.4f}, reached {found.score:.4f}, raised {found.raised}, cost {found.cost}")
    assert accuracy(found.graph.model, images, labels) >= target
    assert 0 < len(found.raised) < 10 * layers and found.cost["high"] > found.cost["low"] > 0
