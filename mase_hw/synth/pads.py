"""Pads of a mapped design, and the constraints that say where they are, for a nextpnr that does not choose pins."""

from __future__ import annotations

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


LIFCL_17_BG256 = ("G15", "F16", "G11", "G13", "F15", "E15", "E16", "D12", "C13", "D16", "D15", "C15", "C14", "C16")
_ROWS = (
    # From M19 nextpnr finds a way to the clock tree, which it does not from every pin that has one. Left out are those
    # of configuration, and the 74 of 1.8 V at most.
    ("M", (19,)),
    ("D", (3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16, 17)),
    ("E", (2, 3, 4, 7, 8, 9, 10, 12, 13, 16, 17, 18, 20)),
    ("F", (1, 13, 14, 16, 18, 20)),
    ("G", (13, 14, 15, 19)),
    ("J", (1, 2)),
    ("K", (1, 2, 3, 4, 5, 6, 7, 8)),
    ("L", (1, 2, 5, 6, 7, 8, 13, 14, 15, 16, 19, 20)),
    ("M", (2, 3, 4, 5, 6, 7, 14, 15, 16, 17, 18, 20)),
    ("N", (4, 5, 6, 7, 14, 15, 16, 19, 20)),
    ("P", (1, 2, 5, 6, 17, 18, 19, 20)),
    ("R", (1, 2, 3, 4, 17, 18)),
    ("T", (18, 20)),
    ("U", (18, 20)),
    ("V", (18, 19, 20)),
    ("W", (19, 20)),
    ("Y", (19,)),
)
LIFCL_40_BG400 = tuple(f"{row}{column}" for row, columns in _ROWS for column in columns)
"""Pins for 3.3 V of a package, as nextpnr has them."""
