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
from mase_hw.emit.estimate import estimate

CONTEXT, WIDTH, HEADS, HIDDEN, LETTERS = 16, 16, 4, 64, "\nabcdefghijklmnopqrstuvwxyz"
STEPS, BATCH, SEED, SLOTS = 400, 64, 0, 8
ATTENTION = "scaled_dot_product_attention_matmul"
LAYERS = ("qkv", ATTENTION, f"{ATTENTION}_1", "out", "up", "down", "scores")
PLANS: dict[str, dict[str, tuple[int, int]]] = {
    "turns": dict(zip(LAYERS, [(1, 8), (1, 3), (3, 1), (1, 3), (1, 10), (5, 2), (4, 1)], strict=True)),
    "alone": dict(zip(LAYERS, [(1, 6), (4, 1), (1, 4), (4, 1), (1, 8), (8, 1), (1, 7)], strict=True)),
    "tables": dict(zip(LAYERS[1:], [(4, 1), (1, 4), (4, 1), (1, 11), (11, 1), (1, 9)], strict=True)),
    "chosen": {},
    "fast": dict.fromkeys(LAYERS, (4, 4)),
}
"""Lanes of inputs and outputs by node; ``turns`` and ``alone``, for sequences in turn and for one, and ``tables``, for
both, have 48 multiplier blocks with those of norms and softmax."""
TABLE = 1 << 15
"""Elements of a table of ``tables``: 16 of every letter at every place."""
TARGET = {"dsp": 64, "interval": 120 * CONTEXT, "minimise": "latency", "unrolled": 0}
"""What those of ``chosen`` are to reach."""
CONFIG: dict[str, Any] = {
    "quantize": {"by": "type", "default": {"config": {"data_in_width": 16, "weight_width": 16, "data_out_width": 16}}},
    "vectors": {"frames": 1, "faults": 4},
}


def plan(name: str) -> dict[str, Any]:
    """The table ``hardware`` of a plan."""
    lanes = {node: {"data_in_0": i, "data_out_0": o} for node, (i, o) in PLANS[name].items()}
    most = 4 if name == "fast" else 1
    tables = name == "tables"
    norms, softmax = ["norm2"] if tables else [f"norm{n}" for n in range(3)], "scaled_dot_product_attention"
    rows = (*norms, softmax)
    heads = (f"{ATTENTION}_narrow", f"{ATTENTION}_narrow_1", f"{ATTENTION}_1_narrow") if tables else ()
    overlapping = dict.fromkeys(("out", "down", "scores") if lanes else (), "inputs_first")
    return {
        "parallelism": {
            **lanes,
            **{row: {"data_in_0": most} for row in rows},
            **{head: {"data_out_0": WIDTH // HEADS} for head in heads},
        },
        "max_parallelism": most if lanes else CONTEXT,
        "order": overlapping,
        # Of these products `ready` would go back through the tables to the id.
        "fifo_depth": dict.fromkeys((f"{ATTENTION}.data_in_1", f"{ATTENTION}_1.data_in_1") if tables else (), 2),
        "implementation": dict.fromkeys(norms if most == 1 and lanes else (), "in_turn"),
        "fast_clock": True if name in ("turns", "tables") else [softmax, "add", "add_1"],
        "adder_levels": {softmax: 3} if name == "alone" else {},
        "family": "ecp5",
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


def main() -> int:
    """Train, compile, generate, report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build") / "microgpt")
    parser.add_argument("--plan", choices=PLANS, action="append", help="the lanes; all of them by default")
    asked = parser.parse_args()
    rows = load()
    net = train(rows)
    wrong = 0
    for name in asked.plan or PLANS:
        config = {**CONFIG, "decode": {"context": CONTEXT, "slots": SLOTS}, "hardware": plan(name)}
        config |= {} if PLANS[name] else {"target": TARGET}
        config |= {"token_tables": TABLE} if name == "tables" else {}
        data = [rows[:256, :-1]]
        design = mase_hw.compile(net, rows[:1, :-1], config, out=asked.out / name, calibration=data)
        found = design.generate([[0, n] for n in range(1, 13)], CONTEXT - 2)
        assert found.result is not None
        multipliers = sum(entry.get("multipliers") or 0 for entry in design.manifest["instances"])
        decoding = design.manifest["decode"]
        print(f"{name}: {multipliers} multipliers of products; {estimate(design.record, 'ecp5')['dsp']} blocks of an "
              "ECP5 with those of norms and softmax, estimated")  # fmt: skip
        print(f"cycles per token: {decoding['cycles'][0]} to {decoding['cycles'][-1]} of one sequence; "
              + ", ".join(f"{pace} with {n} in turn" for n, pace in decoding["paces"][1:]))  # fmt: skip
        print(*("".join(LETTERS[i] for i in (n, *ids)).partition("\n")[0] for n, ids in enumerate(found.tokens, 1)))
        late = sum(
            a != b for pair in zip(found.measured, found.predicted, strict=True) for a, b in zip(*pair, strict=True)
        )
        print(f"{found.result.beats_compared} tokens compared, {found.result.mismatches} mismatches, {late} in other "
              f"cycles than predicted")  # fmt: skip
        wrong += late + found.result.mismatches
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
