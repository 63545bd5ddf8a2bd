"""What a transformer block of any kind stores: rows of tokens, never a score of every token with every other one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from benchmarks.attention_schedule import memories
from mase_hw.synth.synthesise import Run
from mase_hw.synth.targets import find_target

TOKENS, WIDTH, HEADS = 64, 8, 2


class Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, nn.Transformer.generate_square_subsequent_mask(TOKENS), is_causal=True)


class Packed(nn.Module):
    """One projection for queries, keys and values, two heads of queries for one of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split([WIDTH, WIDTH // 2, WIDTH // 2], -1)
        q, k, v = (t.unflatten(-1, (-1, WIDTH // 2)).transpose(1, 2) for t in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x, nn.Transformer.generate_square_subsequent_mask(TOKENS), tgt_is_causal=True)


def encoder(norm_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, dropout=0.0, batch_first=True, norm_first=norm_first)
    return nn.Sequential(layer)


KINDS = {
    "norm_first": lambda: encoder(True),
    "norm_last": lambda: encoder(False),
    "causal": Causal,
    "packed": Packed,
    "decoder": Decoder,
}
SCORES = TOKENS * TOKENS * 8
"""Bits of the scores of one head."""


def compiled(kind: str, out: Path) -> mase_hw.Design:
    torch.manual_seed(1)
    frames = torch.randn(2, TOKENS, WIDTH)
    settings = {"hardware": {"max_parallelism": 2}, "vectors": {"frames": 1, "faults": 4}}
    return mase_hw.compile(KINDS[kind]().eval(), frames[:1], settings, out=out, calibration=[frames])


@pytest.mark.parametrize("kind", KINDS)
def test_fifos_and_matrices(kind: str, tmp_path: Path) -> None:
    design = compiled(kind, tmp_path / "design")
    assert not {"stream_reorder", "fixed_rearrange"} & {i["module"] for i in design.manifest["instances"]}
    found = memories(design.manifest)
    assert sum(module == "matrix_buffer" for _, module, *_ in found) >= 2
    assert max(count * words * bits for *_, count, words, bits in found) < SCORES / 3
    assert design.timing["exact"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_memory(kind: str, tmp_path: Path) -> None:
    """All memories of the elaborated RTL, whatever they are for."""
    run = Run(compiled(kind, tmp_path / "design"), find_target("xc7"), tmp_path / "work", lambda _: None)
    run.work.mkdir()
    written = [memory for memory in run.elaborate().memories if memory.writable]
    assert len(written) > 4 and max(memory.bits for memory in written) < SCORES / 3
