"""What scaled integers cost beside fixed point of the same widths: look-up tables by kind of module.

    python benchmarks/integer_cost.py                # every network, estimated
    python benchmarks/integer_cost.py vit --yosys    # counted by Yosys for Xilinx 7

The networks are those of the examples, with random weights, and one op each beside them; all with 8 bits, 16 for
results of the model, and by channel where a layer has channels. Requantisations and casts have a row of their own, and
so has each kind of module; what stands between modules (FIFOs, converters of widths) is in those of the top level.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.design.design import Design
from mase_hw.emit.estimate import Part, estimate
from mase_hw.synth.synthesise import synthesise

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import digits_cnn
import digits_mlp
import digits_vit

BITS, WIDE = 8, 16
ROUNDS = ("fixed_requantize", "fixed_cast", "fixed_affine")
"""Modules that bring numbers into another format."""


class Sum(nn.Module):
    """Two branches, added."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, 16)`` -> the same."""
        found: Tensor = self.left(x) + self.right(x)
        return found


NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8)), (16,)),
    "conv": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3)), (3, 10, 10)),
    "sum": (Sum, (16,)),
    "norm": (lambda: nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 8)), (16,)),
    "softmax": (lambda: nn.Sequential(nn.Linear(16, 16), nn.Softmax(-1), nn.Linear(16, 8)), (16,)),
    "gelu": (lambda: nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 8)), (16,)),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True), (8, 16)),
    "mlp": (digits_mlp.DigitsMLP, (8, 8)),
    "cnn": (digits_cnn.DigitsCNN, (8, 8)),
    "vit": (digits_vit.DigitsViT, (8, 8)),
}


def configuration(name: str) -> dict[str, Any]:
    """Of fixed point or of scaled integers."""
    keys: dict[str, Any] = {"name": name, "data_in_width": BITS, "weight_width": BITS, "data_out_width": BITS}
    if name == "integer":
        keys["weight_granularity"] = "channel"
    else:
        keys["bias_width"] = WIDE
    return {"quantize": {"default": {"config": keys}, "output_width": WIDE}}


def found(design: Design, yosys: bool) -> tuple[Counter[str], int, int]:
    """LUTs by module, all of them, and DSP blocks."""
    luts: Counter[str] = Counter()
    if yosys:
        report = synthesise(design, "xc7", replay_netlist=False)
        for row in report.rows:
            luts[row.module] += int(row.counts["lut"])
        return luts, int(report.total["lut"]), int(report.total["dsp"])
    for entry in design.record.instances:
        memories = [each for each in design.record.memories if each.instance == entry.name]
        luts[entry.module] += int(estimate(Part([entry], memories))["lut"])
    whole = estimate(design.record)
    return luts, int(whole["lut"]), int(whole["dsp"])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--yosys", action="store_true", help="count, for Xilinx 7")
    args = parser.parse_args()
    print("| network | module | fixed point | scaled integers | |\n|---|---|---|---|---|")
    for network in args.networks or NETWORKS:
        make, shape = NETWORKS[network]
        sides = []
        for name in ("fixed", "integer"):
            torch.manual_seed(0)
            net, data = make().eval(), torch.rand(64, *shape) * 2 - 1
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "design"
                design = mase_hw.compile(net, data[:1], configuration(name), out=out, calibration=[data])
                sides.append(found(design, args.yosys))
        (fixed, total, blocks), (ours, all_ours, more) = sides
        modules = sorted({*fixed, *ours}, key=lambda m: -max(fixed[m], ours[m]))
        rows = [(module, fixed[module], ours[module]) for module in modules if module not in ROUNDS]
        rows += [("casts and requantisations", *(sum(side[m] for m in ROUNDS) for side in (fixed, ours)))]
        rows += [("all but these", *(side[1] - rows[-1][1 + i] for i, side in enumerate(sides)))]
        rows += [("all", total, all_ours)]
        for module, one, other in rows:
            ratio = f"{other / one - 1:+.0%}" if one else ""
            print(f"| {network} | {module} | {one:,} | {other:,} | {ratio} |")
        print(f"| {network} | DSP blocks | {blocks} | {more} | |", flush=True)


if __name__ == "__main__":
    main()
