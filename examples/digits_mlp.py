"""Handwritten digits from float training to bit-exact hardware.

Trains a 64-64-32-10 MLP on scikit-learn's bundled digits (1,797 real 8x8 images), quantises it to 8 bits, emits
SystemVerilog, simulates every held-out image in Verilator under cocotb and compares every bit with PyTorch.

    python examples/digits_mlp.py --out build/digits_mlp

Exit code 0 only if not one bit differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import mase_hw

CONFIG = Path(__file__).with_suffix(".toml")
SEED = 0


class DigitsMLP(nn.Module):
    """64-64-32-10 with ReLU; takes images of shape ``(batch, 8, 8)`` with pixels from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(64, 64)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(64, 32)
        self.relu2 = nn.ReLU()
        self.fc3 = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Class scores of shape ``(batch, 10)``."""
        x = self.relu1(self.fc1(self.flatten(image)))
        return self.fc3(self.relu2(self.fc2(x)))


@dataclass(frozen=True)
class Digits:
    """The data, split once: 80 % to train and calibrate, 20 % held out."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load() -> Digits:
    """Images of shape ``(n, 8, 8)`` in [0, 1] and their labels, stratified and seeded."""
    data = load_digits()
    split = train_test_split(data.images / 16.0, data.target, test_size=0.2, random_state=SEED, stratify=data.target)
    train_x, test_x, train_y, test_y = (torch.as_tensor(part) for part in split)
    return Digits(train_x.float(), train_y.long(), test_x.float(), test_y.long())


def train(digits: Digits, kind: type[nn.Module] = DigitsMLP, epochs: int = 40, seed: int = SEED) -> nn.Module:
    """Train in float; a few seconds, the same weights every time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one order of summation
    torch.manual_seed(seed)
    model = kind()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(digits.train_images)).split(64):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(digits.train_images[batch]), digits.train_labels[batch])
            loss.backward()
            optimiser.step()
    torch.set_num_threads(threads)
    return model.eval()


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of images whose highest score is the label."""
    return float((scores.argmax(dim=1) == labels).double().mean())


def model() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """What ``mase-hw compile examples/digits_mlp.py:model`` takes: model, example input, calibration batches."""
    digits = load()
    return train(digits), digits.test_images[:1], list(digits.train_images.split(256))


class Lines:
    """Says a line for every step."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __call__(self, text: str) -> None:
        """Say it."""
        self.console.print(f"[bold cyan]==>[/] {text}", highlight=False)


class Moving(Lines):
    """The same, and on a terminal how far a long step is, in a line that moves."""

    def count(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Show it."""
        of = "" if total is None else f" of {total:,}"
        self.console.file.write(f"\r    {what}: {done:,}{of} {unit}\x1b[K")
        self.console.file.flush()

    def __call__(self, text: str) -> None:
        """Say it in place of that line."""
        self.console.file.write("\r\x1b[K")
        super().__call__(text)


def main(kind: type[nn.Module] = DigitsMLP, config: Path = CONFIG, epochs: int = 40) -> int:
    """Run everything; see the module.

    Args:
        kind: The network; takes images of shape ``(batch, 8, 8)``, gives scores of shape ``(batch, 10)``.
        config: Its configuration.
        epochs: Passes over the training images.
    """
    parser = argparse.ArgumentParser(description=f"{kind.__name__}: float training to bit-exact hardware.")
    parser.add_argument("--out", type=Path, default=Path("build") / config.stem, help="folder of the bundle")
    parser.add_argument("--frames", type=int, help="held-out images to simulate (default: all)")
    parser.add_argument("--stalls", type=float, default=0.0, help="probability of a stall in every cycle")
    parser.add_argument("--seed", type=int, default=0, help="of the stalls")
    parser.add_argument("--waves", action="store_true", help="write an FST file")
    arguments = parser.parse_args()
    if arguments.frames is not None and arguments.frames < 2:
        parser.error("--frames needs at least 2: an interval is measured between frames")
    console = Console()
    say = (Moving if console.is_terminal else Lines)(console)
    try:
        return run(arguments, console, say, lambda digits: train(digits, kind, epochs), config)
    except mase_hw.MaseHwError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {error}", highlight=False, markup=True)
        return 1


def run(
    arguments: argparse.Namespace,
    console: Console,
    say: Callable[[str], None],
    trained: Callable[[Digits], nn.Module],
    config: Path,
) -> int:
    """Train, compile, simulate, report."""
    digits = load()
    say(f"training on {len(digits.train_images)} real images, holding out {len(digits.test_images)}")
    net = trained(digits)
    design = mase_hw.compile(
        net,
        digits.test_images[:1],
        config,
        out=arguments.out,
        calibration=digits.train_images.split(256),
        vectors=digits.test_images[:16],
        progress=say,
    )
    count = arguments.frames or len(digits.test_images)
    images, labels = digits.test_images[:count], digits.test_labels[:count]
    simulation = design.simulate(
        images, stalls=arguments.stalls, seed=arguments.seed, waves=arguments.waves or None, progress=say, check=False
    )
    with torch.no_grad():
        scores = {"float PyTorch": net(images), "quantised PyTorch": design.model(images)}
    scores["RTL in Verilator"] = simulation.output
    part = f"all {count}" if count == len(digits.test_images) else f"{count} of {len(digits.test_images)}"
    console.print(f"\nAccuracy on {part} held-out images", highlight=False)
    table = Table()
    table.add_column("model")
    table.add_column("accuracy", justify="right")
    for name, values in scores.items():
        complete = len(values) == count
        table.add_row(name, f"{accuracy(values, labels):.2%}" if complete else "incomplete")
    console.print(table)
    console.print("Hardware")
    console.print(hardware_table(design, simulation, stalled=arguments.stalls > 0))
    console.print(f"bundle: {design.path}", highlight=False)
    if simulation.result.waves is not None:
        console.print(f"waves:  {simulation.result.waves}", highlight=False)
    result = simulation.result
    if result.failure is not None:
        console.print(f"[bold red]FAILED[/] {type(result.failure).__name__}: {result.failure}", highlight=False)
        return 1
    console.print(
        f"[bold green]PASSED[/]: {result.beats_compared} beats compared with PyTorch, {result.mismatches} mismatches",
        highlight=False,
    )
    return 0


def hardware_table(design: mase_hw.Design, simulation: mase_hw.Simulation, *, stalled: bool) -> Table:
    """Cycles, predicted and measured."""
    table = Table()
    for column in ("", "predicted", "measured"):
        table.add_column(column, justify="right" if column else "left")
    note = " (with stalls)" if stalled else ""
    for name, label in (("fill", "fill latency"), ("interval", "initiation interval")):
        value = getattr(simulation, name)
        table.add_row(f"{label}, cycles{note}", str(design.timing[name]), "-" if value is None else str(value))
    table.add_row("beats compared", "", str(simulation.result.beats_compared))
    table.add_row("mismatches", "", str(simulation.result.mismatches))
    table.add_row("cycles simulated", "", str(simulation.result.cycles))
    return table


if __name__ == "__main__":
    sys.exit(main())
