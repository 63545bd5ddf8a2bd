"""What a layer takes whose parameters are loaded, beside one with ROMs: LUTs, flip-flops, and the frequency on ECP5.

    python -m benchmarks.loaded                  # counts for xc7 and ecp5
    python -m benchmarks.loaded --seeds 1 2 3    # also placed and routed, for an LFE5U-85F

A linear layer 64x64 of 8 bits, 8 x 8 lanes, weights from -127 to 127. Counted apart is what is there to load and to
read back: the loader with its digest, the gate that holds frames, and in every memory what puts words in their places
and finds them again (``ram_load``). Exit code 0 only if the rest takes at most 5 % more LUTs and flip-flops than with
ROMs, and the median frequency is not lower.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

import mase_hw
from mase_hw.design.design import Design
from mase_hw.emit.pack_ecp5 import pack
from mase_hw.synth.place import ROUTERS, place
from mase_hw.synth.targets import find_device, find_target
from mase_hw.synth.tools import run_yosys
from regress.synthesis import packed

LAYER = ("fixed_linear", "rom_source", "ram_source")
LOADER = ("ram_load", "parameter_load", "frame_gate")
"""Modules that stay whole: what is compared, and what is counted apart."""
MHZ, MOST = 100.0, 1.05


def compiled(parameters: str, family: str, folder: Path) -> Design:
    """The layer with its parameters in such a place."""
    torch.manual_seed(0)
    net, data, config = packed()
    config["hardware"] |= {"family": family, "parameters": parameters}
    config["vectors"] = {"frames": 1, "faults": 1}
    return mase_hw.compile(net.eval(), data[:1], config, out=folder, calibration=[data])


def mapped(design: Design, family: str) -> tuple[Counter[str], Counter[str]]:
    """Counts of the layer with its memories, and of what loads them; the netlist lies in the bundle's folder."""
    target, folder, top = find_target(family), design.path, design.record.top
    script = [
        f"read_slang -j 1 --keep-hierarchy --ignore-assertions --top {top} {' '.join(design.record.rtl)}",
        f"setattr -mod -set keep_hierarchy 1 {' '.join(f'{name}$*' for name in (*LAYER, *LOADER))}",
        *target.mapper.script(top, pads=False),
        "write_json netlist.json",
    ]
    run_yosys(script, folder, "map.log", lambda _: None)
    netlist = json.loads((folder / "netlist.json").read_text())
    if target.packs:
        pack(netlist)
        (folder / "netlist.json").write_text(json.dumps(netlist))
    layer: Counter[str] = Counter()
    loader: Counter[str] = Counter()
    ours = {name: m["cells"] for name, m in netlist["modules"].items() if "blackbox" not in m["attributes"]}
    for name, cells in ours.items():
        kinds = Counter(cell["type"] for cell in cells.values() if cell["type"] not in ours)
        (layer if name.partition("$")[0] in LAYER else loader).update(target.count(kinds)[0])
    return layer, loader


def shown(counts: Counter[str]) -> str:
    """Counts for people."""
    return ", ".join(f"{counts[kind]} {kind.upper()}" for kind in ("lut", "ff", "bram"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="of placements")
    seeds, missed, device = parser.parse_args().seeds, False, list(ROUTERS["ecp5"].parts)[-1]
    for family in ("xc7", "ecp5"):
        found, speeds = {}, {}
        for parameters in ("rom", "ram"):
            with tempfile.TemporaryDirectory() as work:
                design = compiled(parameters, family, Path(work) / "bundle")
                found[parameters], loader = mapped(design, family)
                counts = [shown(of) for of in (found[parameters], loader)]
                print(f"{family} {parameters}: {counts[0]}; besides {counts[1]}", flush=True)
                for seed in seeds if family == "ecp5" else []:
                    netlist, part = design.path / "netlist.json", find_device(device, find_target(family))
                    placed = place(netlist, design.record, part, MHZ, seed, lambda _: None)
                    speeds.setdefault(parameters, []).append(placed["mhz"])
                    print(f"  seed {seed}: {placed['mhz']} MHz, limited by {placed['limited_by']}", flush=True)
        missed |= any(found["ram"][kind] > MOST * found["rom"][kind] for kind in ("lut", "ff"))
        if speeds:
            medians = {name: statistics.median(of) for name, of in speeds.items()}
            print(f"  medians {medians}")
            missed |= medians["ram"] < medians["rom"]
    sys.exit(missed)


if __name__ == "__main__":
    main()
