"""Causal products take about half of the cycles of bidirectional ones, alone and in a whole design."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from benchmarks.attention_schedule import interval
from mase_hw.beat_times import BeatNetwork
from mase_hw.errors import CatalogueError

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


class One(nn.Module):
    """Causal or not, of which several heads may share their keys, with and without a stored mask."""

    def __init__(self, tokens: int, heads: int, groups: int, causal: bool, masked: bool = False) -> None:
        super().__init__()
        self.sizes, self.causal = (heads, groups, groups), causal
        self.project = nn.Linear(8, 4 * sum(self.sizes))
        self.register_buffer("mask", torch.ones(tokens, tokens, dtype=torch.bool).tril() if masked else None)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x).split([4 * heads for heads in self.sizes], -1)
        q, k, v = (part.unflatten(-1, (-1, 4)).transpose(1, 2) for part in parts)
        k, v = (part.repeat_interleave(self.sizes[0] // self.sizes[1], 1) for part in (k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.causal).transpose(1, 2)


@pytest.mark.parametrize(
    ("tokens", "heads", "groups", "causal", "masked"),
    [
        *[(1, groups, groups, True, False) for groups in (1, 2, 3, 4)],
        (1, 4, 2, True, False),
        (1, 3, 3, False, True),
        (2, 3, 3, True, False),
    ],
)
def test_few_tokens(tokens: int, heads: int, groups: int, causal: bool, masked: bool, tmp_path: Path) -> None:
    """A single token sees itself, causal or not: the same bits in the same cycles, as predicted."""
    torch.manual_seed(4)
    model = One(tokens, heads, groups, causal, masked).eval()
    x = torch.randn(5, tokens, 8)
    settings = {"vectors": {"frames": 1, "faults": 1}}
    design = mase_hw.compile(model, x[:1], settings, out=tmp_path / "causal", calibration=[x])
    found = design.simulate(x, engine="batch")
    assert found.passed and design.timing["exact"]
    assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])
    if tokens > 1:
        return
    with torch.no_grad():
        values = model.project(x)[..., -4 * groups :].unflatten(-1, (-1, 4))  # what a softmax of one score leaves
        wanted = values.repeat_interleave(heads // groups, 2)
    assert (design.model(x) - wanted).abs().max() < 0.1
    model.causal, model.mask = False, None
    both = mase_hw.compile(model, x[:1], settings, out=tmp_path / "both", calibration=[x])
    assert torch.equal(both.model(x), design.model(x)) and both.timing == design.timing


def test_a_timing_that_never_settles_names_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BeatNetwork, "settle", lambda *_, **__: None)
    with pytest.raises(CatalogueError, match="steady rate") as caught:
        mase_hw.compile(One(3, 3, 3, True).eval(), torch.randn(1, 3, 8), out=tmp_path / "design")
    assert caught.value.node is not None and not list(tmp_path.iterdir())
