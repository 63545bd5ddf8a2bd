"""A convolutional network on real images: 8 bits cost nothing, 4-bit weights are trained back, a plan is hardware."""

from __future__ import annotations

from pathlib import Path

import torch

import mase_hw
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import quantize_transform_pass
from mase_hw.passes.mixed_precision import noise_based_mixed_precision_quantization
from tests.passes.digits import accuracy, digits_cnn, train
from tests.unit.pipeline import RANGES, WIDTHS, formats, rule


def quantised(weight: int) -> MaseGraph:
    config = {"default": rule(**{**WIDTHS, "weight_width": weight})}
    return quantize_transform_pass(digits_cnn().graph(), config)[0]


def test_eight_bits_after_training_and_four_with_training() -> None:
    """8 bits are within half a point of float; 4-bit weights lose points, and two epochs bring them within one."""
    d = digits_cnn()
    plain = accuracy(d.net, *d.test)
    assert plain > 0.96
    assert accuracy(quantised(8).model, *d.test) >= plain - 0.005
    model = quantised(4).model
    layers = [m for m in model.modules() if isinstance(m, Quantized)]
    assert {m.mase_op for m in layers} == {"conv2d", "relu", "max_pool2d", "linear"}
    given = [dict(m.arithmetic.formats) for m in layers]
    before = accuracy(model, *d.test)
    assert before < plain - 0.02
    train(model, *d.train, 1e-3)
    after = accuracy(model, *d.test)
    print(f"float {plain:.4f}, 4-bit weights {before:.4f}, trained {after:.4f}")
    assert after >= plain - 0.01
    assert [dict(m.arithmetic.formats) for m in layers] == given


def test_a_mixed_plan_is_hardware(tmp_path: Path) -> None:
    """The plan meets its target with fewer bits than 8 everywhere, and Verilator computes its bits."""
    d = digits_cnn()
    target = d.between(4, 8)
    found = noise_based_mixed_precision_quantization(
        d.graph(), {"low": 4, "high": 8}, "accuracy", target, data=d.data, fast_mode=True
    )
    assert accuracy(found.graph.model, *d.train) >= target
    assert found.raised and found.cost["mixed"] < 0.5 * found.cost["high"]
    print(f"target {target:.4f}, reached {found.score:.4f}, raised {found.raised}, cost {found.cost}")
    images = d.test[0][:32]
    config = {"quantize": found.plan.quantize, "calibrate": RANGES, "hardware": {"max_parallelism": 4}}
    design = mase_hw.compile(d.net, images[:1], config, out=tmp_path / "bundle", calibration=d.train[0].split(512))
    for node in found.graph.nodes:
        if node.op == "call_module":
            assert formats(design.graph, node.name) == formats(found.graph, node.name)
    simulation = design.simulate(images, engine="batch")
    assert simulation.passed and simulation.result.mismatches == 0 and simulation.frames == 32
    with torch.no_grad():
        assert torch.equal(simulation.output.float(), found.graph.model(images))
