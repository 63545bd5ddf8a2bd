"""Attention from plain PyTorch to Verilator: every bit, at the predicted speed, without a reorder buffer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor

import mase_hw
from tests.passes.attention_models import MASKED, MODELS, TOKENS, WIDTH
from tests.unit.pipeline import OWN_FRAMES

BUILT = {
    "nano_gpt": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "fixed_softmax": 0, "stream_reorder": 0},
    "class_token": {"fixed_matmul": 2, "fixed_softmax": 1, "fixed_zero_pad2d": 1, "stream_reorder": 0},
    "rotary": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "fixed_concat": 2, "stream_reorder": 0},
    "repeat_kv": {"fixed_matmul": 2, "fixed_softmax": 1, "fixed_rearrange": 0, "stream_reorder": 0},
    "timm": {"fixed_matmul": 2, "fixed_softmax": 1, "fixed_slice": 3, "stream_reorder": 0},
    "windows": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "stream_reorder": 0},
    "multihead_weights": {"fixed_matmul": 2, "fixed_softmax": 1, "stream_reorder": 0},
    "encoder_layer_first": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "fixed_normalize": 2, "stream_reorder": 0},
    "decoder_layer": {"fixed_matmul": 4, "fixed_masked_softmax": 1, "fixed_softmax": 1, "stream_reorder": 0},
    "padding_and_causal": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "fixed_rearrange": 1, "stream_reorder": 0},
    "bert": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "fixed_rearrange": 1, "stream_reorder": 0},
    "sdpa_bias": {"fixed_matmul": 2, "fixed_masked_softmax": 1, "stream_reorder": 0},
}
"""How many of some modules a model becomes."""


@pytest.mark.parametrize("name", BUILT)
def test_every_bit(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(12, TOKENS, WIDTH), torch.rand(12, TOKENS) > 0.4
    mask[:, 0] = True
    model = {**MODELS, **MASKED}[name]().eval()
    frames = {"x": x, "mask": mask} if name in MASKED else {"x": x}
    each = [{n: t[i : i + 1] for n, t in frames.items()} for i in range(12)]
    design = mase_hw.compile(
        model, each[0], {"hardware": {"max_parallelism": 2}, **OWN_FRAMES}, out=tmp_path / name, calibration=each
    )
    found = Counter(i["module"] for i in design.manifest["instances"])
    assert {module: found[module] for module in BUILT[name]} == BUILT[name]
    some = {n: t[:5] for n, t in frames.items()}
    for stalls in (0.0, 0.4):
        simulation = design.simulate(some, engine="batch", stalls=stalls, seed=3)
        assert simulation.passed and simulation.result.mismatches == 0
        if not stalls:
            assert design.timing["exact"]
            assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])
    with torch.no_grad():
        singles = [model(*(t[i : i + 1] for t in some.values())) for i in range(5)]
    each_result = zip(*([r] if isinstance(r, Tensor) else r for r in singles), strict=True)
    real = [torch.cat(parts) for parts in each_result]
    for output, wanted in zip(simulation.outputs.values(), real, strict=True):
        assert output.shape == wanted.shape
        noise = (output - wanted).square().sum()
        assert 10 * torch.log10(wanted.square().sum() / noise.clamp(min=1e-12)) > 15
