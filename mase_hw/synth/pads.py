"""Pads of a mapped design, and the constraints that say where they are, for a nextpnr that does not choose pins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mase_hw.host.documents import Json

CLOCK = "clk"
"""The port of the clock."""


@dataclass(frozen=True)
class Pad:
    """The buffer between a pin and the design.

    Args:
        cell: Its type.
        outer: Its port at the pin.
        inner: Its port at the design.
    """

    cell: str
    outer: str
    inner: str

    def between(self, outer: int, inner: int | str, into: bool) -> Json:
        """One in Yosys's JSON, between two nets, into the design or out of it."""
        return {
            "type": self.cell,
            "parameters": {},
            "attributes": {},
            "port_directions": {
                self.outer: "input" if into else "output",
                self.inner: "output" if into else "input",
            },
            "connections": {self.outer: [outer], self.inner: [inner]},
        }


@dataclass(frozen=True)
class Pads:
    """How the pads of a family are said to its nextpnr.

    Args:
        buffers: Of inputs and of outputs; none where nextpnr makes them.
        arguments: Of nextpnr, with ``{file}`` for the file of the constraints; none where it chooses pins.
        suffix: Of that file.
        line: What places a port at a pin in it.
        opened: Type, parameter, its value and port of cells that do not read that port then: nextpnr wants it open.
        clock: The buffer behind the pad of the clock, if nextpnr does not make it.
    """

    buffers: tuple[Pad, Pad] | None
    arguments: tuple[str, ...] = ()
    suffix: str = ""
    line: str = ""
    opened: tuple[str, str, str, str] | None = None
    clock: Pad | None = None

    def constraints(self, netlist: Json, top: str, pins: tuple[str, ...]) -> str:
        """The file: the ports of the top module, in their order, at the pins, in theirs."""
        ports = netlist["modules"][top]["ports"]
        names = [name for port, entry in ports.items() for name in _bits(port, entry)]
        return "".join(
            self.line.format(port=port, pin=pin) + "\n" for port, pin in zip(names, pins[: len(names)], strict=True)
        )

    def add(self, netlist: Json, top: str) -> None:
        """Put a buffer at every bit of a port of the top module, and open what is to be open; in place."""
        if self.opened is not None:
            kind, parameter, value, port = self.opened
            for cell in (cell for module in netlist["modules"].values() for cell in module["cells"].values()):
                if cell["type"] == kind and cell["parameters"].get(parameter) == value:
                    cell["connections"].pop(port, None)
        if self.buffers is None:
            return
        module = netlist["modules"][top]
        free = 1 + max((bit for bit in _nets(module) if isinstance(bit, int)), default=1)
        for port, entry in module["ports"].items():
            into = entry["direction"] == "input"
            pad = self.buffers[not into]
            for place, name in enumerate(_bits(port, entry)):
                inside = entry["bits"][place]
                if name == CLOCK and self.clock is not None:
                    module["cells"][f"buffer_{name}"] = self.clock.between(free, inside, into)
                    inside, free = free, free + 1
                module["cells"][f"pad_{name}"] = pad.between(free, inside, into)
                entry["bits"][place] = free
                free += 1


def _bits(port: str, entry: Mapping[str, Any]) -> list[str]:
    """Names of the bits of a port."""
    number = len(entry["bits"])
    return [port] if number == 1 else [f"{port}[{bit}]" for bit in range(number)]


def _nets(module: Mapping[str, Any]) -> Iterator[int | str]:
    for entry in (*module["ports"].values(), *module["netnames"].values()):
        yield from entry["bits"]
    for cell in module["cells"].values():
        for bits in cell["connections"].values():
            yield from bits


_BALLS = re.compile(r"([A-Z]+)(\d+)(?:-(\d+))?")


def _pins(text: str) -> tuple[str, ...]:
    """Names of pins of a package: ``D3-5`` is three of row D."""
    found = (match.groups(default="") for match in _BALLS.finditer(text))
    return tuple(f"{row}{ball}" for row, first, last in found for ball in range(int(first), int(last or first) + 1))


LIFCL_17_BG256 = _pins("G15 F16 G11 G13 F15 E15-16 D12 C13 D16 D15 C15 C14 C16")
# From M19 nextpnr finds a way to the clock tree, which it does not from every pin that has one. Left out are those of
# configuration, and the 74 of 1.8 V at most.
LIFCL_40_BG400 = _pins(
    "M19 D3-10 D13-17 E2-4 E7-10 E12-13 E16-18 E20 F1 F13-14 F16 F18 F20 G13-15 G19 J1-2 K1-8 L1-2 L5-8 L13-16 "
    "L19-20 M2-7 M14-18 M20 N4-7 N14-16 N19-20 P1-2 P5-6 P17-20 R1-4 R17-18 T18 T20 U18 U20 V18-20 W19-20 Y19"
)
"""Pins for 3.3 V of a package, as nextpnr has them."""
GW2A_18_PG484 = _pins(
    "D11 A1-22 B1-3 B6-8 B15-17 B22 C1-19 C22 D1 D3-10 D13-20 D22 E1 E3-17 E19-20 E22 F1-2 F5-7 F16-22 G1-2 G5-6 "
    "G17-22 H1-5 H18-22 J1 J3-5 J18-20 J22 K1 K3-5 K18-20 K22 L1-5 L19-22 M1-2 M5 M21 N1 N3-5 P1 P3-4 R2-4 R19 T2-6 "
    "T17 U1-7 U16-19 V1 V3-20 W1 W3-20 Y1-20 Y22 AA3 AA6-8 AA11 AA15-17 AA20 AA22 AB1-8 AB11 AB13-22"
)
"""Pins that have no other use, as Apycula has them, behind one of the clock."""
