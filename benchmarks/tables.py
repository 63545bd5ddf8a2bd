"""Digits as tables, windows of them, gates, trees and an unrolled MLP: accuracy, look-up tables, cycles, and a clock.

Every design takes an image per cycle, 64 pixels of 4 bits (of 0 to 16, the last two are one), and gives ten scores; the
largest one is the digit. The split is that of the examples, 360 images are held out. All bits are compared in a
simulation of these; look-up tables and flip-flops are those of Yosys on xc7, the whole design, no multiplier and no
memory in it.

    python -m benchmarks.tables --out DIR --designs tables windows gates trees mlp --place tables
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.formats import FixedFormat
from mase_hw.nn.tables import TableWindows, thresholds
from mase_hw.synth.place import Placement
from mase_hw.synth.synthesise import synthesise
from mase_hw.training import TableConv2d, TableLinear, prepare

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import digits_mlp

PIXEL = FixedFormat(4, 0, signed=False)
INPUT = {"data_in_width": 4, "data_in_frac_width": 0, "data_in_signed": False}
BAR = 0.96
"""Least accuracy on the images that are held out."""


class Voting(nn.Module):
    """Pixels beside limits, layers of tables, and the votes of as many tables for every digit."""

    def __init__(self, limits: list[float], widths: list[int], fan_in: int, seed: int = 0) -> None:
        super().__init__()
        self.coded = thresholds(torch.tensor(limits).repeat(64, 1) - 0.5, PIXEL)
        ins = [64 * len(limits), *widths]
        layers = [
            TableLinear(i, o, fan_in=fan_in, learn_sources=True, seed=seed + n)
            for n, (i, o) in enumerate(zip(ins, widths, strict=False))
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        votes: Tensor = self.layers(self.coded(x)).reshape(-1, 10, self.layers[-1].words.shape[0] // 10).sum(2)
        return votes


class Windows(nn.Module):
    """Pixels beside limits, windows of 3 x 3 of them, a layer of tables, and its votes."""

    def __init__(self, limits: list[float], kernels: int, width: int, seed: int = 0) -> None:
        super().__init__()
        above = torch.arange(16)[None] > torch.tensor(limits)[:, None] - 0.5
        ones = torch.zeros(len(limits), 1)
        self.coded = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), TableWindows(ones, above, PIXEL, FixedFormat(1, 0, signed=False))
        )
        self.layers = nn.Sequential(
            TableConv2d(len(limits), kernels, 3, fan_in=6, learn_sources=True, seed=seed),
            nn.Flatten(),
            TableLinear(36 * kernels, width, fan_in=6, learn_sources=True, seed=seed + 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        votes: Tensor = self.layers(self.coded(x)).reshape(-1, 10, self.layers[-1].words.shape[0] // 10).sum(2)
        return votes


def voting(digits: digits_mlp.Digits, net: Voting | Windows, temperature: float, epochs: int) -> nn.Module:
    """Train, with noise on the pixels and without a fifth of the votes, another one each time."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    pixels = pixels_of(digits.train_images)
    net.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(pixels)).split(64):
            optimiser.zero_grad()
            noisy = pixels[batch] + 1.5 * torch.randn(len(batch), 64)
            votes = F.dropout(net.layers(net.coded(noisy)), 0.2).reshape(len(batch), 10, -1).sum(2)
            F.cross_entropy(votes / temperature, digits.train_labels[batch]).backward()
            optimiser.step()
        schedule.step()
    return net.eval()


def pixels_of(images: Tensor) -> Tensor:
    """Pixels as the designs take them."""
    return (images.flatten(1) * 16).clamp(max=15)


def tables(digits: digits_mlp.Digits) -> tuple[Any, dict[str, Any]]:
    """A hundred tables of six inputs."""
    return voting(digits, Voting([4, 8, 12], [100], 6), 1.5, 60), {**INPUT, "data_out_width": 8}


def windows(digits: digits_mlp.Digits) -> tuple[Any, dict[str, Any]]:
    """Sixteen kernels of six inputs, and two hundred tables over what they give."""
    return voting(digits, Windows([4, 8, 12], 16, 200), 2.0, 60), {**INPUT, "data_out_width": 8}


def gates(digits: digits_mlp.Digits) -> tuple[Any, dict[str, Any]]:
    """Two layers of gates of two inputs."""
    return voting(digits, Voting([4, 8, 12], [400, 200], 2), 2.0, 60), {**INPUT, "data_out_width": 8}


def trees(digits: digits_mlp.Digits) -> tuple[Any, dict[str, Any]]:
    """Sixty rounds of boosting with trees of depth 2."""
    from sklearn.ensemble import GradientBoostingClassifier

    how = {"n_estimators": 60, "max_depth": 2, "learning_rate": 0.3, "max_features": 4, "subsample": 0.7}
    model = GradientBoostingClassifier(**how, random_state=0)
    model.fit(pixels_of(digits.train_images).numpy(), digits.train_labels.numpy())
    return mase_hw.from_trees(model, leaf_bits=7), {**INPUT, "data_out_width": 8}


def mlp(digits: digits_mlp.Digits) -> tuple[Any, dict[str, Any]]:
    """16 hidden neurons, weights of 3 bits and activations of 4, trained in that precision."""
    images = pixels_of(digits.train_images)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    widths = {"data_in_width": 4, "weight_width": 3, "bias_width": 8, "data_out_width": 4}
    config = {"quantize": {"default": {"config": widths}, "output_width": 8}}

    def run(model: nn.Module, epochs: int, rate: float, half: Callable[[], None]) -> None:
        optimiser = torch.optim.Adam(model.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
        model.train()
        for epoch in range(epochs):
            if epoch == epochs // 2:
                half()
            for batch in torch.randperm(len(images)).split(64):
                optimiser.zero_grad()
                F.cross_entropy(model(images[batch]), digits.train_labels[batch]).backward()
                optimiser.step()
            schedule.step()

    run(net, 40, 2e-3, lambda: None)
    model = prepare(net, images[:1], config, calibration=[images])
    run(model, 60, 2e-4, model.round_steps)
    return model.freeze(), widths


DESIGNS: dict[str, Callable[[digits_mlp.Digits], tuple[Any, dict[str, Any]]]] = {
    "tables": tables,
    "windows": windows,
    "gates": gates,
    "trees": trees,
    "mlp": mlp,
}


def main() -> None:
    """Measure the designs that are asked for, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--out", type=Path, required=True, help="folder of the bundles")
    parser.add_argument("--levels", type=int, default=3, help="levels between two registers")
    parser.add_argument(
        "--place", nargs="*", default=[], choices=list(DESIGNS), help="placed and routed on ECP5 as well"
    )
    parser.add_argument("--mhz", type=float, default=150.0, help="clock to aim at")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1], help="of the placement")
    given = parser.parse_args()
    digits = digits_mlp.load()
    pixels, labels = pixels_of(digits.test_images), digits.test_labels
    for name in given.designs:
        begin = time.process_time()
        net, widths = DESIGNS[name](digits)
        spent = time.process_time() - begin
        config = {
            "top": "digits",
            "hardware": {"unroll": "frame", "unroll_levels": given.levels, "family": "xc7"},
            "quantize": {"default": {"config": widths}, "output_width": 8},
        }
        design = mase_hw.compile(net, pixels[:1], config, out=given.out / name, calibration=[pixels], vectors=pixels)
        assert design.graph is not None  # it was made here
        right = digits_mlp.accuracy(design.graph.model(pixels), labels)
        result, timing = design.simulate(engine="batch"), design.manifest["timing"]
        assert timing["interval"] == 1 and result.passed, result
        total = synthesise(design, "xc7", replay_netlist=False).total
        met = "met" if right >= BAR else "missed"
        print(
            f"{name}: accuracy {right:.4f} ({met}), {total['lut']} LUT, {total['ff']} FF, {total['carry']} carry, "
            f"latency {timing['fill']} cycles, interval {timing['interval']}, every bit of {len(pixels)} images equal; "
            f"trained in {spent:.0f} s",
            flush=True,
        )
        for seed in given.seeds if name in given.place else []:
            placed = synthesise(design, "ecp5", replay_netlist=False, placement=Placement(given.mhz, seed)).place
            assert placed is not None  # it was asked for
            print(f"{name}: ECP5, seed {seed}: {placed['mhz']:.1f} MHz", flush=True)


if __name__ == "__main__":
    main()
