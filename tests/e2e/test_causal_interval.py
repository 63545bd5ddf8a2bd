"""Causal products take about half of the cycles of bidirectional ones, alone and in a whole design."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from benchmarks.attention_schedule import interval

TOKENS, HEADS, SIZE = 32, 2, 16


@pytest.mark.parametrize("transposed", [True, False], ids=["scores", "sums"])
@pytest.mark.parametrize("size, tokens", [(4, 4), (8, 4), (16, 2), (16, 4)])
def test_alone(transposed: bool, size: int, tokens: int) -> None:
    """64 tokens, 3 heads of 64; at most 6 lanes over tokens, else tiles that are cut by the limit cost more."""
    lanes = (size, tokens) if transposed else (tokens, size)
    both, causal = (interval(transposed, limited, lanes) for limited in (False, True))
    assert both == 3 * 64 * 64 * 64 // (size * tokens)
    assert causal <= 0.55 * both


class Attention(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for x in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return y.transpose(1, 2).flatten(2)


def compiled(causal: bool, out: Path) -> mase_hw.Design:
    torch.manual_seed(2)
    frames = [{name: torch.randn(1, TOKENS, HEADS * SIZE) for name in "qkv"} for _ in range(3)]
    scores, sums = (f"scaled_dot_product_attention_matmul{end}" for end in ("", "_1"))
    lanes = {scores: {"data_in_0": 4, "data_out_0": 2}, sums: {"data_in_0": 2, "data_out_0": 4}}
    settings = {"hardware": {"max_parallelism": 4, "parallelism": lanes}, "vectors": {"frames": 1, "faults": 4}}
    return mase_hw.compile(Attention(causal), frames[0], settings, out=out, calibration=frames)


def test_in_a_design(tmp_path: Path) -> None:
    """Vectors of early tokens wait in both products; every bit, at the interval that was predicted."""
    design = compiled(True, tmp_path / "causal")
    steps = TOKENS * HEADS * (SIZE // 4) * (TOKENS // 2)
    assert compiled(False, tmp_path / "both").timing["interval"] == steps
    assert design.timing["exact"] and design.timing["interval"] <= 0.58 * steps
    frames = {name: torch.randn(5, TOKENS, HEADS * SIZE) for name in "qkv"}
    for stalls in (None, 0.3):
        simulation = design.simulate(frames, engine="batch", stalls=stalls)
        assert simulation.passed and simulation.frames == 5
        if stalls is None:
            assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])
