"""The smallest language model, token by token: cycles and multipliers, and words that the simulated hardware writes.

One block of width 16 with 4 heads, RMSNorm and an MLP of 64, 16 positions, 27 tokens (letters, and an end), 16 bits:
the shape of A. Karpathy's microgpt. It learns words of the documentation that comes with Python.

    python -m benchmarks.microgpt

Exit code 0 only if no bit and no cycle differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw

CONTEXT, WIDTH, HEADS, HIDDEN, LETTERS = 16, 16, 4, 64, "\nabcdefghijklmnopqrstuvwxyz"
STEPS, BATCH, SEED, SLOTS = 400, 64, 0, 4
CONFIG: dict[str, Any] = {
    "quantize": {"by": "type", "default": {"config": {"data_in_width": 16, "weight_width": 16, "data_out_width": 16}}},
    "vectors": {"frames": 1, "faults": 4},
}


class MicroGPT(nn.Module):
    """Scores of the next letter behind each of 16; ids of shape ``(1, 16)``."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.norm0, self.norm1, self.norm2 = (nn.RMSNorm(WIDTH, elementwise_affine=False) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.scores = nn.Linear(WIDTH, len(LETTERS), bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of shape ``(1, 16, 27)``."""
        x = self.norm0(self.letters(ids) + self.places(torch.arange(CONTEXT)))
        parts = self.qkv(self.norm1(x)).view(-1, CONTEXT, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.scores(x + self.down(torch.relu(self.up(self.norm2(x)))))


def load() -> Tensor:
    """Words, each between two ends, filled up with ends."""
    words = sorted({w for text in topics.values() for w in re.findall("[a-z]+", text.lower()) if 3 < len(w) < CONTEXT})
    rows = torch.zeros(len(words), CONTEXT + 1, dtype=torch.long)
    for row, word in zip(rows, words, strict=True):
        row[1 : 1 + len(word)] = torch.tensor([LETTERS.index(letter) for letter in word])
    return rows


def train(rows: Tensor) -> nn.Module:
    """Train in float; some seconds, the same weights every time."""
    torch.set_num_threads(1)  # one order of summation
    torch.manual_seed(SEED)
    net = MicroGPT()
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-2, total_steps=STEPS)
    for _ in range(STEPS):
        batch = rows[torch.randint(len(rows), (BATCH,))]
        optimiser.zero_grad()
        F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimiser.step()
        schedule.step()
    return net.eval()
