"""A Vivado project around a system for Zynq boards: the system as an IP, a block design, an overlay for PYNQ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mase_hw._version import __version__
from mase_hw.emit.bundle import Bundle
from mase_hw.emit.handoff.options import HandoffOptions
from mase_hw.emit.render import environment
from mase_hw.hardware.manifest import Manifest

if TYPE_CHECKING:
    from mase_hw.system.make import SystemOptions

FOLDER = "vivado"
_PORT = re.compile(r"^ *(input|output) logic ((?:\[[^]]*\] )?)(\w+)", re.MULTILINE)
_SINGLE = {
    "clk": ("clock:1.0 clk CLK", "ASSOCIATED_BUSIF s_axil:m_axi, ASSOCIATED_RESET rst_n"),
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
        attributes: Which interface it belongs to.
    """

    name: str
    text: str
    attributes: list[str]


def add_vivado(system: Bundle, manifest: Manifest, name: str, ports: str, options: SystemOptions) -> None:
    """Add the project to a system whose frames lie in memory.

    Args:
        system: With its RTL.
        manifest: Of the bundle.
        name: Of the system's top level.
        ports: Of the top level, as text.
        options: Those of the system.
    """
    handoff = HandoffOptions.model_validate({} if manifest.handoff is None else manifest.handoff.options)
    files = [*system.read("rtl/files.f").decode().split(), f"{FOLDER}/{name}_ip.v"]
    context = {
        "version": __version__,
        "name": name,
        "memory": bool(manifest.parameters),
        "ports": _ports(ports, options),
        "files": files,
        "mhz": f"{handoff.clock_mhz:g}",
        "vendor": handoff.vendor,
        "library": handoff.library,
        "ip_version": handoff.version,
        "reach": f"0x{1 << options.address_bits:x}",
    }
    for file, template in ((f"{name}_ip.v", "ip.v.j2"), ("build.tcl", "build.tcl.j2")):
        text = environment().get_template(f"system/{FOLDER}/{template}").render(context)
        system.add(f"{FOLDER}/{file}", text)


def _ports(text: str, options: SystemOptions) -> list[Port]:
    known = {
        "s_axil": "PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH 7",
        "m_axi": f"PROTOCOL AXI4, DATA_WIDTH {options.bus}, ADDR_WIDTH {options.address_bits}, "
        f"MAX_BURST_LENGTH {options.burst}, NUM_READ_OUTSTANDING {options.outstanding}, "
        f"NUM_WRITE_OUTSTANDING {options.outstanding}, SUPPORTS_NARROW_BURST 0",
    }
    found = []
    for direction, width, name in _PORT.findall(text):
        if name in _SINGLE:
            what, parameter = _SINGLE[name]
            info = f"xilinx.com:signal:{what}"
        else:
            interface, _, signal = name.rpartition("_")
            info = f"xilinx.com:interface:aximm:1.0 {interface} {signal.upper()}"
            parameter = known.pop(interface, "")  # with the first of its signals
        attributes = [f'X_INTERFACE_INFO = "{info}"']
        if parameter:
            attributes.append(f'X_INTERFACE_PARAMETER = "{parameter}"')
        found.append(Port(name, f"{direction} wire {width}{name}", attributes))
    return found
