"""A transformer block of a published shape: 64 tokens of 192 in 3 heads at 8 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from benchmarks.attention_schedule import blocks
from benchmarks.vision_transformers import fewest

TOKENS, WIDTH, HEADS, HIDDEN, INTERVAL = 64, 192, 3, 768, 100_000


@pytest.mark.slow
def test_every_bit_at_the_interval_of_the_work(tmp_path: Path) -> None:
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    net = nn.Sequential(layer).eval()
    square = fewest(TOKENS, WIDTH, WIDTH, INTERVAL)
    chosen = {f"_0_self_attn_{part}_proj": square for part in ("q", "k", "v", "out")} | {
        "_0_self_attn_matmul": fewest(TOKENS * HEADS, WIDTH // HEADS, TOKENS, INTERVAL),
        "_0_self_attn_matmul_1": fewest(TOKENS * HEADS, TOKENS, WIDTH // HEADS, INTERVAL),
        "_0_linear1": fewest(TOKENS, WIDTH, HIDDEN, INTERVAL),
        "_0_linear2": fewest(TOKENS, HIDDEN, WIDTH, INTERVAL),
    }
    frames = torch.randn(4, TOKENS, WIDTH)
    settings = {"hardware": {"max_parallelism": 1, "parallelism": chosen}, "vectors": {"frames": 2}}
    design = mase_hw.compile(net, frames[:1], settings, out=tmp_path / "block", calibration=[frames])
    multipliers = sum(i.get("multipliers") or 0 for i in design.manifest["instances"])
    work = TOKENS * WIDTH * (4 * WIDTH + 2 * HIDDEN + 2 * TOKENS)
    assert -(-work // INTERVAL) <= multipliers <= 1.05 * work / INTERVAL
    assert design.timing["interval"] <= INTERVAL
    assert sum(blocks(design.manifest).values()) <= 33
    for stalls in (None, 0.2):
        simulation = design.simulate(frames, engine="batch", stalls=stalls)
        assert simulation.passed and simulation.frames == len(frames)
        if stalls is None:
            assert simulation.fill == design.timing["fill"] and simulation.interval == design.timing["interval"]
