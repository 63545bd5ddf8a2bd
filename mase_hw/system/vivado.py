"""A Vivado project around a system for Zynq boards: the system as an IP, a block design, an overlay for PYNQ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from mase_hw._version import __version__
from mase_hw.emit.bundle import Bundle
from mase_hw.emit.handoff.options import HandoffOptions
from mase_hw.hardware.library import rendered
from mase_hw.hardware.manifest import Manifest
from mase_hw.system.options import SystemOptions

FOLDER = "vivado"
_PORT = re.compile(r"^ *(input|output) logic ((?:\[[^]]*\] )?)(\w+)", re.MULTILINE)
_SINGLE = {
    "clk": ("clock:1.0 clk CLK", "ASSOCIATED_BUSIF {busses}, ASSOCIATED_RESET rst_n"),
    "core_clk": ("clock:1.0 core_clk CLK", ""),
    "rst_n": ("reset:1.0 rst_n RST", "POLARITY ACTIVE_LOW"),
    "irq": ("interrupt:1.0 irq INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
}
"""Signals that are an interface by themselves, and what Vivado is told of them."""


@dataclass(frozen=True)
class Port:
    """A port of the IP.

    Args:
        name: As in the system.
        text: Its declaration in Verilog.
        interface: That it belongs to; empty if it is one by itself.
        info: Its place in the interface, as an attribute.
        parameter: What is said of the interface, at the first of its ports.
    """

    name: str
    text: str
    interface: str
    info: str
    parameter: str


@dataclass(frozen=True)
class Dma:
    """An AXI DMA of the block design.

    Args:
        name: Of the cell.
        input: The stream of the system that it fills from memory, if any.
        output: The stream that it writes to memory, if any.
    """

    name: str
    input: str | None
    output: str | None


def add_vivado(system: Bundle, manifest: Manifest, name: str, options: SystemOptions) -> None:
    """Add the project to a system; where frames come as streams, AXI DMAs move them.

    Args:
        system: With its RTL.
        manifest: Of the bundle.
        name: Of the system's top level.
        options: Those of the system.
    """
    handoff = HandoffOptions.model_validate({} if manifest.handoff is None else manifest.handoff.options)
    ports = _ports(system.read(f"rtl/{name}.sv").decode(), options)
    streams = [
        [one for one in dict.fromkeys(port.interface for port in ports) if one.startswith(kind)]
        for kind in ("s_axis", "m_axis")
    ]
    context = {
        "version": __version__,
        "name": name,
        "memory": bool(manifest.parameters),
        "ports": ports,
        "core_clock": options.core_clock,
        "speed": "$mhz and $core_mhz MHz" if options.core_clock else "$mhz MHz",
        "dmas": [Dma(f"dma{index}", *pair) for index, pair in enumerate(zip_longest(*streams))],
        "bus": options.bus,
        "files": [*system.read("rtl/files.f").decode().split(), f"{FOLDER}/{name}_ip.v"],
        "mhz": f"{handoff.clock_mhz:g}",
        "vendor": handoff.vendor,
        "library": handoff.library,
        "ip_version": handoff.version,
        "reach": f"0x{1 << options.address_bits:x}",
    }
    for file, template in ((f"{name}_ip.v", "ip.v.j2"), ("build.tcl", "build.tcl.j2")):
        text = rendered(f"system/{FOLDER}/{template}", **context)
        system.add(f"{FOLDER}/{file}", text)


def _ports(text: str, options: SystemOptions) -> list[Port]:
    """The ports of a top level, and the interfaces that they are."""
    told = {
        "s_axil": "PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH 7",
        "m_axi": f"PROTOCOL AXI4, DATA_WIDTH {options.bus}, ADDR_WIDTH {options.address_bits}, "
        f"MAX_BURST_LENGTH {options.burst}, NUM_READ_OUTSTANDING {options.outstanding}, "
        f"NUM_WRITE_OUTSTANDING {options.outstanding}, SUPPORTS_NARROW_BURST 0",
    }
    declared = _PORT.findall(text.partition("\n);")[0])
    interfaces = {name: "" if name in _SINGLE else name.rpartition("_")[0] for _, _, name in declared}
    busses = ":".join(dict.fromkeys(filter(None, interfaces.values())))
    found = []
    for direction, width, name in declared:
        interface = interfaces[name]
        if interface:
            kind = "axis" if interface.startswith(("s_axis", "m_axis")) else "aximm"
            signal = name.removeprefix(f"{interface}_").upper()
            info, parameter = f"interface:{kind}:1.0 {interface} {signal}", told.pop(interface, "")
        else:
            signal, parameter = _SINGLE[name]
            info, parameter = f"signal:{signal}", parameter.format(busses=busses)
        found.append(Port(name, f"{direction} wire {width}{name}", interface, f"xilinx.com:{info}", parameter))
    return found
