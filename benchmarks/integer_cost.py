"""What scaled integers cost beside fixed point of the same widths: look-up tables by kind of module.

    python benchmarks/integer_cost.py                 # one op each, and every network, estimated
    python benchmarks/integer_cost.py ops --yosys     # one op each, counted by Yosys for Xilinx 7
    python benchmarks/integer_cost.py vit --yosys

All with random weights and 8 bits, and by channel where a layer has channels. One op each has results of 8 bits: *op*
is all that a design has but for its requantisations, and *requantisation* is those with the memories of their
multipliers and with what converts beats in front of them; a cast of fixed point within an op is counted with the op.
Beside them stands ``fixed_rescale``, the unit that brings a normalised row to its result: as many lanes with data,
multipliers, shifts and results of equal widths, its product in multiplier blocks, once as in a norm, with a mean to
take off and a shift, and once bare, with both tied to 0.

The networks are those of the examples, with 16 bits for results of the model. Requantisations and casts have a row of
their own, and so has each kind of module; what stands between modules (FIFOs, converters of widths) is in those of the
top level.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.design.design import Design
from mase_hw.emit.estimate import Part, estimate
from mase_hw.hardware.library import source
from mase_hw.host.resources import rtl_root
from mase_hw.opdef import SUPPORT
from mase_hw.synth.synthesise import synthesise
from mase_hw.synth.targets import find_target
from mase_hw.synth.tools import run_yosys

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


class Of(nn.Module):
    """A function of two inputs, of which the second one has a range of its own.

    Args:
        name: Of :data:`TWO`.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.of = TWO[name]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Two tensors of equal shapes."""
        found: Tensor = self.of(x, y)
        return found


TWO: dict[str, Any] = {
    "sum": lambda x, y: x + y,
    "product": lambda x, y: x * y,
    "concat": lambda x, y: torch.cat([x, y], -1),
    "matmul": lambda x, y: x @ y.transpose(-1, -2),
}
OPS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(16, 16), (16,)),
    "conv": (lambda: nn.Conv2d(4, 8, 3), (4, 10, 10)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), (8, 10, 10)),
    **{name: (lambda name=name: Of(name), (8, 16)) for name in TWO},
    "softmax": (lambda: nn.Softmax(-1), (16,)),
    "layer norm": (lambda: nn.LayerNorm(16), (16,)),
    "gelu": (nn.GELU, (16,)),
    "max pool": (lambda: nn.MaxPool2d(2), (8, 8, 8)),
    "average pool": (lambda: nn.AvgPool2d(2), (8, 8, 8)),
}
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


def configuration(name: str, wide: int = WIDE) -> dict[str, Any]:
    """Of fixed point or of scaled integers."""
    keys: dict[str, Any] = {"name": name, "data_in_width": BITS, "weight_width": BITS, "data_out_width": BITS}
    if name == "integer":
        keys["weight_granularity"] = "channel"
    else:
        keys["bias_width"] = WIDE
    return {"quantize": {"default": {"config": keys}, "output_width": wide}}


@dataclass(frozen=True)
class Side:
    """What a design takes.

    Args:
        luts: By instance; of what stands between them under an empty name.
        modules: Module of each instance.
        rounding: Instances of requantisations, and of what feeds them.
        total: All look-up tables.
        blocks: DSP blocks.
        units: Parameters of the requantisations.
    """

    luts: dict[str, int]
    modules: dict[str, str]
    rounding: frozenset[str]
    total: int
    blocks: int
    units: list[Mapping[str, Any]]

    @property
    def rounds(self) -> int:
        """Look-up tables of requantisations."""
        return sum(self.luts.get(name, 0) for name in self.rounding)

    def by_module(self) -> Counter[str]:
        """Look-up tables by kind of module."""
        luts: Counter[str] = Counter()
        for name, count in self.luts.items():
            luts[self.modules.get(name, "")] += count
        return luts


def side(make: Any, shape: tuple[int, ...], config: dict[str, Any], yosys: bool) -> Side:
    """Compile a network with random data and count."""
    torch.manual_seed(0)
    net = make().eval()
    data = [torch.rand(64, *shape) * 2 - 1]
    if isinstance(net, Of):
        data.append(torch.rand(64, *shape) * 3 - 1.5)
    with tempfile.TemporaryDirectory() as folder:
        design = mase_hw.compile(
            net,
            tuple(each[:1] for each in data),
            config,
            out=Path(folder) / "design",
            calibration=[tuple(data)],
        )
        return counted(design, yosys)


def counted(design: Design, yosys: bool) -> Side:
    """Look-up tables by instance, and all of them, and DSP blocks."""
    instances, luts = design.record.instances, {}
    if yosys:
        report = synthesise(design, "xc7", replay_netlist=False)
        luts = {row.instance: int(row.counts["lut"]) for row in report.rows}
        total, blocks = int(report.total["lut"]), int(report.total["dsp"])
    else:
        for entry in instances:
            memories = [each for each in design.record.memories if each.instance == entry.name]
            luts[entry.name] = int(estimate(Part([entry], memories))["lut"])
        whole = estimate(design.record)
        total, blocks = int(whole["lut"]), int(whole["dsp"])
    nodes = {entry.node for entry in instances if entry.module in ROUNDS}
    modules = {entry.name: entry.module for entry in instances}
    rounding = frozenset(entry.name for entry in instances if entry.node in nodes)
    units = [dict(entry.parameters) for entry in instances if entry.module == "fixed_requantize"]
    return Side(luts, modules, rounding, total, blocks, units)


REFERENCE = """module {name} (
  input logic clk, input logic [4:0] enable, input logic signed [{inner}:0] mean, input logic [{lanes}*{width}-1:0] x,
  input logic [{lanes}*{scale}-1:0] scale, input logic shift, output logic [{lanes}*{out}-1:0] y
);
  for (genvar i = 0; i < {lanes}; i++) begin : g_lane
    logic signed [{inner}:0] short_q;
    logic [{scale}-1:0] scale_q;
    logic signed [{inner}+{scale}+1:0] product;
    assign product = ({inner}+{scale}+2)'(short_q) * ({inner}+{scale}+2)'(signed'({{1'b0, scale_q}}));
    fixed_rescale #(.IN_WIDTH({width}), .SIZE(1), .SUM_WIDTH({inner}+1), .CENTRED_WIDTH({inner}+1), .SHIFT_WIDTH(1),
      .SCALE_WIDTH({scale}), .PRODUCT_FRAC({drop}), .OUT_WIDTH({out}), .OUT_FRAC(0), .OUT_SIGNED({signed})) u_unit (
      .clk, .enable, .in_data(x[i*{width}+:{width}]), .in_sum({mean}), .in_shift({shift}),
      .in_scale(scale[i*{scale}+:{scale}]), .in_weight(8'd0), .in_bias(8'd0), .in_zero(1'b0), .out_short(short_q),
      .out_scale(scale_q), .in_product(product), .out_data(y[i*{out}+:{out}]));
  end
endmodule
"""


def rescales(units: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Look-up tables of ``fixed_rescale`` in place of requantisations, as in a norm and bare, by Yosys for Xilinx 7."""
    texts, tops = [], []
    for number, p in enumerate(units):
        width = p["DATA_IN_0_PRECISION_0"] + 1 - p["DATA_IN_0_SIGNED"]
        for bare in (False, True):
            name = f"ref_{number}_{int(bare)}"
            given = {"mean": "'0" if bare else "mean", "shift": "1'b0" if bare else "shift", "inner": width}
            given |= {"lanes": p["DATA_IN_0_PARALLELISM_DIM_0"], "width": width, "scale": p["MULTIPLIER_PRECISION_0"]}
            given |= {"drop": p["SHIFT"], "out": p["DATA_OUT_0_PRECISION_0"], "signed": p["DATA_OUT_0_SIGNED"]}
            texts.append(REFERENCE.format(name=name, **given))
            tops.append(name)
    files = [*SUPPORT, "lib/fixed_cast_unit.sv", "lib/fixed_rescale.sv"]
    target = find_target("xc7")
    found: list[int] = []
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        for file in files:
            (folder / Path(file).name).write_text(source(rtl_root() / file), encoding="utf-8")
        (folder / "references.sv").write_text("".join(texts), encoding="utf-8")
        for top in tops:
            read = (
                f"read_slang -j 1 --ignore-assertions --top {top} {' '.join(Path(f).name for f in files)} references.sv"
            )
            script = [read, *target.mapper.script(top, pads=False), f"tee -q -o {top}.json stat -json"]
            run_yosys(script, folder, f"{top}.log", lambda _: None)
            stat = json.loads((folder / f"{top}.json").read_text(encoding="utf-8"))["modules"]
            counts = [target.count(entry["num_cells_by_type"])[0]["lut"] for entry in stat.values()]
            found.append(int(sum(counts)))
    return list(zip(found[::2], found[1::2], strict=True))


def of_ops(names: Sequence[str], yosys: bool) -> None:
    """Print the table of one op each."""
    head = (
        "op | fixed point | of it casts | integers: op | | requantisation | widths | fixed_rescale in a norm | bare | "
    )
    head += "DSP fixed, integers"
    print(f"| {head} |\n|{'---|' * len(head.split(' | '))}")
    for name in names:
        make, shape = OPS[name]
        fixed, ours = (side(make, shape, configuration(kind, BITS), yosys) for kind in ("fixed", "integer"))
        alone = ours.total - ours.rounds
        ratio = f"{alone / fixed.total - 1:+.0%}"
        references = rescales(ours.units) if yosys else []
        norm, bare = (f"{sum(each[i] for each in references):,}" if references else "" for i in (0, 1))
        widths = ", ".join(
            f"{p['DATA_IN_0_PARALLELISM_DIM_0']} x {p['DATA_IN_0_PRECISION_0']} by {p['MULTIPLIER_PRECISION_0']}"
            for p in ours.units
        )
        cells = (name, f"{fixed.total:,}", f"{fixed.rounds:,}", f"{alone:,}", ratio, f"{ours.rounds:,}", widths, norm)
        print(f"| {' | '.join((*cells, bare, f'{fixed.blocks}, {ours.blocks}'))} |", flush=True)


def of_networks(names: Sequence[str], yosys: bool) -> None:
    """Print the tables of networks."""
    print("| network | module | fixed point | scaled integers | |\n|---|---|---|---|---|")
    for network in names:
        make, shape = NETWORKS[network]
        one, other = (side(make, shape, configuration(kind), yosys) for kind in ("fixed", "integer"))
        fixed, ours = one.by_module(), other.by_module()
        modules = sorted({*fixed, *ours}, key=lambda m: -max(fixed[m], ours[m]))
        rows = [(module or "between modules", fixed[module], ours[module]) for module in modules]
        rows += [("requantisations and what feeds them", one.rounds, other.rounds)]
        rows += [("all but these", one.total - one.rounds, other.total - other.rounds)]
        rows += [("all", one.total, other.total)]
        for module, left, right in rows:
            ratio = f"{right / left - 1:+.0%}" if left else ""
            print(f"| {network} | {module} | {left:,} | {right:,} | {ratio} |")
        print(f"| {network} | DSP blocks | {one.blocks} | {other.blocks} | |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=f"ops, {', '.join(NETWORKS)}; all if left out")
    parser.add_argument("--only", nargs="*", default=list(OPS), help=f"of ops: {', '.join(OPS)}")
    parser.add_argument("--yosys", action="store_true", help="count, for Xilinx 7")
    args = parser.parse_args()
    wanted = args.networks or ["ops", *NETWORKS]
    if "ops" in wanted:
        of_ops(args.only, args.yosys)
    if rest := [name for name in wanted if name != "ops"]:
        of_networks(rest, args.yosys)


if __name__ == "__main__":
    main()
