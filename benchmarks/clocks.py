"""What a clock asked of a whole frame per beat becomes: stages, and what place and route on ECP5 reaches.

    python -m benchmarks.clocks --out DIR --sizes 8 8 4 --bits 4 --mhz 40 80 --seeds 1 2 3 4 5

A network of random weights is compiled with ``hardware.unroll_mhz``, mapped, placed and routed. The parts of every
longest path are what the delays of ``mase_hw/ops/unrolled/_delays.py`` are means of: the last line says them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import mase_hw
from mase_hw.synth.place import Placement
from mase_hw.synth.synthesise import synthesise


def parts(path: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Nanoseconds of the parts of a path of nextpnr, each with the wire to it.

    Returns:
        Of every ``table``, of every ``chain`` without its carries, of every ``carry`` bit, and of what is left, the
        ``register``.
    """
    found: dict[str, list[float]] = {"table": [], "chain": [], "carry": [], "register": [0.0]}
    wire, inside = 0.0, False
    for step in path:
        delay, chained = float(step["delay"]), "CCU2_COMB" in step["to"]
        if step["kind"] == "routing":
            wire, inside = wire + delay, inside and delay == 0
        elif step["kind"] != "logic":
            found["register"][0] += delay
        elif not chained:
            found["table"].append(wire + delay)
            wire = 0.0
        elif inside:
            found["carry"].append(delay if delay < 0.2 else 0.0)
            found["chain"][-1] += delay if delay >= 0.2 else 0.0
        else:
            found["chain"].append(wire + delay)
            wire, inside = 0.0, True
    found["register"][0] += wire
    return found


def main() -> None:
    """Compile and place a network for each clock, and print a line for every seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="folder of the bundles")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 8, 4], help="of the vectors, from input to result")
    parser.add_argument("--bits", type=int, default=4, help="of weights and data")
    parser.add_argument("--mhz", type=float, nargs="+", default=[40.0, 80.0], help="clocks")
    parser.add_argument("--device", default="lfe5u-25f")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1], help="of the placement")
    given = parser.parse_args()
    widths = {f"{name}_width": given.bits for name in ("data_in", "weight", "bias")} | {"data_out_width": 8}
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in zip(given.sizes, given.sizes[1:], strict=False)]
    net = nn.Sequential(*[each for layer in layers for each in (layer, nn.ReLU())][:-1]).eval()
    data, all_parts = torch.randn(32, given.sizes[0]), dict[str, list[float]]()
    for mhz in given.mhz:
        config = {
            "quantize": {"default": {"config": widths}},
            "hardware": {"unroll": "frame", "unroll_mhz": mhz, "family": "ecp5"},
        }
        out = given.out / f"{mhz:g}"
        design = mase_hw.compile(net, data[:1], config, out=out, calibration=[data], vectors=data)
        for seed in given.seeds:
            how = Placement(mhz, seed)
            placed = synthesise(design, "ecp5", device=given.device, replay_netlist=False, placement=how).place
            assert placed is not None  # it was asked for
            for name, values in parts(placed["path"]).items():
                all_parts.setdefault(name, []).extend(values)
            print(
                f"{mhz:g} MHz: {design.timing['fill']} cycles, seed {seed}: {placed['mhz']:.1f} MHz, longest path "
                f"{placed['logic']:.2f} ns logic and {placed['routing']:.2f} ns wires",
                flush=True,
            )
    means = {name: round(sum(values) / len(values), 3) for name, values in all_parts.items() if values}
    print(f"means in ns: {json.dumps(means)}")


if __name__ == "__main__":
    main()
