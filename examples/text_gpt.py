"""A character model in hardware: a small causal transformer, trained on the documentation that comes with Python.

Trains two decoder layers of width 32 on the help texts of ``pydoc``, quantises them, emits SystemVerilog, and compares
float, quantised model and simulated hardware: bits per character on text that was held out, and every bit of the
scores. The same model with a choice of the next character then writes lines by itself, several in turn, up to the end
of a sentence: what it computed of the characters before stays in its memories.

    python examples/text_gpt.py --out build/text_gpt

Exit code 0 only if not one bit differs.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import mase_hw

CONFIG = Path(__file__).with_suffix(".toml")
LETTERS = "\n abcdefghijklmnopqrstuvwxyz.,'-?"
SPACE = LETTERS.index(" ")
TOKENS, WIDTH, HEADS, LAYERS = 24, 32, 2, 2
STEPS, BATCH, SEED = 1500, 64, 0
TEMPERATURE = 0.5
"""How far written lines stray from what is likeliest."""
PROMPTS = ("the value ", "if the ", "an object ", "a class ", "this is ", "the name ")
"""How they begin."""
WRITES = {"sample": "top_k", "candidates": 4, "temperature": TEMPERATURE, "stop": LETTERS.index(".")}
"""Of the design that writes them."""


class Block(nn.Module):
    """Attention to what came before, and a network of two layers; both add to what comes in."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Shape ``(batch, tokens, width)``, as the result."""
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class TextGPT(nn.Module):
    """Scores of the next character behind each of 24 characters; ids of shape ``(batch, 24)``."""

    def __init__(self, tokens: int = TOKENS, width: int = WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, len(LETTERS))

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of shape ``(batch, 24, letters)``."""
        x = self.letters(ids) + self.places(torch.arange(self.places.num_embeddings))
        return self.scores(self.norm(self.blocks(x)))


def encode(text: str) -> Tensor:
    """Numbers of the characters; what is no letter becomes a space."""
    return torch.tensor([LETTERS.find(c) if c in LETTERS[SPACE:] else SPACE for c in text.lower()])


def load(tokens: int = TOKENS) -> tuple[Tensor, Tensor]:
    """The text, in frames of one character more: nine tenths to train, the rest held out."""
    text = encode(" ".join(topics[name] for name in sorted(topics)))
    text = text[(text != SPACE) | (text.roll(1) != SPACE)]
    frames = text[: len(text) // (tokens + 1) * (tokens + 1)].view(-1, tokens + 1)
    order = torch.randperm(len(frames), generator=torch.Generator().manual_seed(SEED))
    frames = frames[order]
    return frames[: len(frames) * 9 // 10], frames[len(frames) * 9 // 10 :]


def train(frames: Tensor, steps: int = STEPS, **sizes: int) -> nn.Module:
    """Train in float, a model of other sizes if they are given; some seconds, the same weights every time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one order of summation
    torch.manual_seed(SEED)
    net = TextGPT(**sizes)
    optimiser = torch.optim.AdamW(net.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    for _ in range(steps):
        batch = frames[torch.randint(len(frames), (BATCH,))]
        optimiser.zero_grad()
        F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimiser.step()
        schedule.step()
    torch.set_num_threads(threads)
    return net.eval()


def bits_per_character(scores: Tensor, frames: Tensor) -> float:
    """The cross-entropy of the next characters, in bits."""
    loss = F.cross_entropy(scores.float().flatten(0, 1), frames[: len(scores), 1:].flatten())
    return float(loss) / math.log(2)


def drawn() -> Callable[[Any], int]:
    """What draws the next characters by their scores; the same every time."""
    draw = torch.Generator().manual_seed(SEED)

    def choose(scores: Any) -> int:
        chances = torch.softmax(torch.from_numpy(scores) / TEMPERATURE, -1)
        return int(torch.multinomial(chances, 1, generator=draw))

    return choose


def write(design: mase_hw.Design, say: Callable[[str], None]) -> list[str]:
    """Lines of text that the simulated hardware writes by itself, every character and cycle compared."""
    written = design.generate([encode(prompt).tolist() for prompt in PROMPTS], progress=say)
    assert written.measured == written.predicted
    return [p + "".join(LETTERS[i] for i in ids) for p, ids in zip(PROMPTS, written.tokens, strict=True)]


def model() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """What ``mase-hw compile examples/text_gpt.py:model`` takes: model, example input, calibration batches."""
    frames, _ = load()
    return train(frames), frames[:1, :-1], list(frames[:256, :-1].split(64))


def main() -> int:
    """Run everything; see the module."""
    parser = argparse.ArgumentParser(description="A character model, from float training to bit-exact hardware.")
    parser.add_argument("--out", type=Path, default=Path("build") / "text_gpt", help="folder of the bundle")
    parser.add_argument("--frames", type=int, default=20, help="held-out frames to simulate")
    parser.add_argument("--letters", type=int, default=15, help="characters to write in each line at most")
    arguments = parser.parse_args()
    console = Console()
    try:
        return run(arguments, console)
    except mase_hw.MaseHwError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {error}", highlight=False)
        return 1


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Train, compile, simulate, report."""

    def say(text: str) -> None:
        console.print(f"[bold cyan]==>[/] {text}", highlight=False)

    frames, held = load()
    say(f"training on {frames.numel()} characters of the documentation of Python, holding out {held.numel()}")
    net = train(frames)
    design = mase_hw.compile(
        net,
        frames[:1, :-1],
        CONFIG,
        out=arguments.out,
        calibration=frames[:256, :-1].split(64),
        vectors=held[:4, :-1],
        progress=say,
    )
    held = held[: arguments.frames]
    simulation = design.simulate(held[:, :-1], progress=say, check=False)
    result = simulation.result
    table = Table()
    table.add_column("model")
    table.add_column("bits per character", justify="right")
    with torch.no_grad():
        scores = {"float PyTorch": net(held[:, :-1]), "quantised PyTorch": design.model(held[:, :-1])}
    scores["RTL in Verilator"] = simulation.output
    for name, values in scores.items():
        table.add_row(name, f"{bits_per_character(values, held):.3f}" if len(values) == len(held) else "incomplete")
    console.print(table)
    timing = design.timing
    console.print(f"interval: {timing['interval']} cycles predicted, {simulation.interval} measured", highlight=False)
    if result.failure is not None:
        console.print(f"[bold red]FAILED[/] {type(result.failure).__name__}: {result.failure}", highlight=False)
        return 1
    cycles, paces = (design.manifest["decode"][key] for key in ("cycles", "paces"))
    console.print(
        f"a character by itself: {cycles[0]} cycles for the first, {cycles[-1]} for the last; "
        + ", ".join(f"{pace} each with {lines} lines in turn" for lines, pace in paces[1:]),
        highlight=False,
    )
    say("the same model with a choice of the next character, which writes by itself")
    settings = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    settings["decode"] |= {**WRITES, "length": arguments.letters}
    writer = mase_hw.compile(
        net,
        frames[:1, :-1],
        settings,
        out=arguments.out.with_name(f"{arguments.out.name}_writes"),
        calibration=frames[:256, :-1].split(64),
        vectors=held[:4, :-1],
    )
    for line in write(writer, say):
        console.print(f"the hardware writes: {line}", highlight=False, markup=False)
    console.print(
        f"[bold green]PASSED[/]: {result.beats_compared} beats compared with PyTorch, {result.mismatches} mismatches",
        highlight=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
