"""How often every net of a mapped netlist changes, and what that costs, by instance of the top level.

The energy of a change is that of charging a capacitance (Najm, "A survey of power estimation techniques in VLSI
circuits", IEEE Trans. VLSI Systems 2(4), 1994). Without a layout every pin on a net counts the same, 1: what drives it
and what it drives. So a unit is half of ``C V^2`` for the capacitance of a pin, and no figure here is in joules.

What a block does inside is related to that by published figures, for 45 nm at 0.9 V (Horowitz, "Computing's energy
problem", ISSCC 2014), and by the measured ratio of logic in an FPGA to standard cells (Kuon and Rose, "Measuring the
gap between FPGAs and ASICs", IEEE Trans. CAD 26(2), 2007), since blocks are made as the latter are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.host.documents import Json

PART_KINDS = ("nets", "clock", "products", "memory")
"""What energy goes into: changes of nets; pins of the clock; inside of multiplier blocks; inside of block RAMs."""

_ADD_8, _MULTIPLY_8 = 0.03, 0.2
"""Picojoules of an addition and of a product of 8-bit integers (Horowitz)."""
_READ, _READ_BITS, _READ_BYTES = 10.0, 64, 8192
"""Picojoules of a read from a memory of 8 KB, of a word of so many bits (Horowitz); as the square root of the size."""
_GAP = 14.0
"""Energy of logic in LUTs by that of the same in standard cells (Kuon and Rose)."""
_ADDITION_PINS = 3 * 8 * 2 // 2
"""Changed pins of an addition in LUTs: of two operands and a result of 8 bits half change, each with two pins."""
PIN = _ADD_8 * _GAP / _ADDITION_PINS
"""Picojoules by which the figures of blocks become units."""
PRODUCT = _MULTIPLY_8 / (8 * 8) / PIN
"""Units of a changed bit of an operand, for each bit of the other one: half of two operands of 8 bits change."""


def access(block_bits: int) -> float:
    """Units of a bit that is read from, or written to, a block RAM of this size."""
    return _READ / _READ_BITS * math.sqrt(block_bits / 8 / _READ_BYTES) / PIN


_PRODUCTS = {
    "DSP48E1": ("A|D", "B"),
    "MULT18X18D": (r"A\d+", r"B\d+"),
    "SB_MAC16": ("A", "B"),
}
"""Pins of the two operands, by type of a multiplier block."""


@dataclass(frozen=True)
class _Port:
    """A port of a block RAM: patterns of pins."""

    enable: str
    write: str
    outputs: str
    inputs: str


_RAMB = (_Port("ENARDEN", "WEA", "DOP?ADOP?", "DIP?ADIP?"), _Port("ENBWREN", "WEBWE", "DOP?BDOP?", "DIP?BDIP?"))
_RAMB_SDP = (_Port("ENARDEN", "", "DO.*", ""), _Port("ENBWREN", "WEBWE", "", "DI.*"))
_MEMORIES = {
    r"RAMB(18|36)E1": _RAMB,
    "DP16KD": tuple(_Port(f"CE{side}", f"WE{side}", rf"DO{side}\d+", rf"DI{side}\d+") for side in "AB"),
    r"SB_RAM40_4K\w*": (_Port("RE", "", "RDATA", ""), _Port("WE", "WE", "", "WDATA")),
}


@dataclass(frozen=True)
class Change:
    """What a net did in a window.

    Args:
        times: How often it changed.
        high: Share of the time at 1.
    """

    times: int
    high: float


_STILL = Change(0, 0.0)
_NET = re.compile(r"\((\S+) \(T0 (\d+)\) \(T1 (\d+)\) \(TZ 0\) \(TX 0\) \(TB 0\) \(TC (\d+)\)\)")
_DURATION = re.compile(r"\(DURATION (\d+)\)")


def windowed(after: str, before: str) -> str:
    """A SAIF file of a window, from what Verilator wrote at its end and at its beginning.

    Verilator counts the time from 0 on, and a net that is 1 at first as one that has changed.

    Raises:
        ToolError: If the files are not of the same nets.
    """
    start = int(_found(_DURATION, before))
    lines = []
    pairs = after.splitlines(), before.splitlines()
    if len(pairs[0]) != len(pairs[1]):
        raise ToolError("the simulator wrote two lists of nets", got=[len(part) for part in pairs])
    for line, first in zip(*pairs, strict=True):
        if (net := _NET.search(line)) and (at_first := _NET.search(first)):
            name, low, high, times = net.groups()
            if at_first[1] != name:
                raise ToolError("the simulator wrote two lists of nets", got=f"{name} and {at_first[1]}")
            low, times = str(int(low) - start), str(int(times) - int(at_first[4]))
            line = line.replace(net[0], f"({name} (T0 {low}) (T1 {high}) (TZ 0) (TX 0) (TB 0) (TC {times}))")
        elif duration := _DURATION.search(line):
            line = line.replace(duration[0], f"(DURATION {int(duration[1]) - start})")
        lines.append(line)
    return "\n".join([*lines, ""])


def read_saif(text: str) -> dict[tuple[str, str], Change]:
    """Changes by scope, its parts separated by slashes, and by net: ``name``, or ``name[bit]``.

    Raises:
        ToolError: If there is no duration.
    """
    duration = int(_found(_DURATION, text))
    found: dict[tuple[str, str], Change] = {}
    scopes: list[str] = []
    for line in text.splitlines():
        word = line.strip()
        if word.startswith(("(INSTANCE ", "(NET")):
            scopes.append(word.removeprefix("(INSTANCE ") if word.startswith("(I") else "")
        elif word == ")" and scopes:
            scopes.pop()
        elif net := _NET.fullmatch(word):
            name, _, high, times = net.groups()
            found["/".join(filter(None, scopes)), name.replace("\\", "")] = Change(int(times), int(high) / duration)
    return found


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise ToolError("not a SAIF file", got=text[:80], expected=pattern.pattern)
    return match[1]


_Bit = tuple[str, int]
"""A net of one bit: the scope that it is named in, and its number in the netlist's module."""
_Pins = Mapping[str, list[_Bit | str]]


@dataclass(frozen=True)
class _Cell:
    instance: str
    kind: str
    parameters: Json
    pins: _Pins
    outputs: frozenset[str]


@dataclass
class Energy:
    """Units by kind.

    Args:
        nets: Of changes of nets but the clock.
        clock: Of the pins of the clock.
        products: Inside of multiplier blocks.
        memory: Inside of block RAMs.
        changes: How often nets changed that a cell of it drives, but the clock; this is no energy.
    """

    nets: float = 0.0
    clock: float = 0.0
    products: float = 0.0
    memory: float = 0.0
    changes: float = 0.0


@dataclass
class _Netlist:
    modules: Mapping[str, Json]
    names: dict[_Bit, tuple[str, str]] = field(default_factory=dict)

    def cells(self, kind: str, scope: str, instance: str, ports: Mapping[int, _Bit | str]) -> Iterator[_Cell]:
        """All cells of a module and of those in it; ``ports`` says what its bits are outside."""
        module = self.modules[kind]
        for name, entry in module["netnames"].items():
            wide = len(entry["bits"]) > 1
            for index, bit in enumerate(entry["bits"]):
                self.names.setdefault((scope, bit), (scope, f"{name}[{index}]" if wide else name))
        for name, cell in module["cells"].items():
            pins: dict[str, list[_Bit | str]] = {
                pin: [bit if isinstance(bit, str) else ports.get(bit, (scope, bit)) for bit in bits]
                for pin, bits in cell["connections"].items()
            }
            inner = self.modules.get(cell["type"])
            if inner is None or inner["attributes"].get("blackbox") or inner["attributes"].get("whitebox"):
                outputs = (pin for pin, way in cell.get("port_directions", {}).items() if way == "output")
                yield _Cell(instance, cell["type"], cell["parameters"], pins, frozenset(outputs))
                continue
            bound = {
                inside: outside
                for port, entry in inner["ports"].items()
                for inside, outside in zip(entry["bits"], pins.get(port, ()), strict=False)
                if isinstance(inside, int)
            }
            yield from self.cells(cell["type"], f"{scope}/{name}", instance or name, bound)


def energies(
    netlist: Path, top: str, clock: str, changes: Mapping[tuple[str, str], Change], cycles: int, block_bits: int
) -> dict[str, Energy]:
    """What the changes cost, by instance of the top level; the empty name is what lies in the top level itself.

    Args:
        netlist: In Yosys's JSON, every net with the name that it was simulated with.
        top: The top module, whose scope is ``top``.
        clock: Its clock.
        changes: As :func:`read_saif` gives them.
        cycles: Of the window.
        block_bits: Of a block RAM.

    Raises:
        ToolError: If a net was not simulated.
    """
    modules = json.loads(netlist.read_text(encoding="utf-8"))["modules"]
    net = _Netlist(modules)
    found: dict[str, Energy] = {}
    (clock_bit,) = modules[top]["ports"][clock]["bits"]
    driven: set[_Bit] = set()

    def change(bit: _Bit | str) -> Change:
        if isinstance(bit, str):
            return Change(0, 1.0) if bit == "1" else _STILL
        name = net.names[bit]
        if name not in changes:
            raise ToolError("a net of the netlist was not simulated", node="/".join(name))
        return changes[name]

    cells = list(net.cells(top, top, "", {}))
    # What is outside is on a net of a port, too.
    loads = {(top, bit): 1 for entry in modules[top]["ports"].values() for bit in entry["bits"] if bit != clock_bit}
    for cell in cells:
        for bits in cell.pins.values():
            for bit in bits:
                if not isinstance(bit, str):
                    loads[bit] = loads.get(bit, 0) + 1
    for cell in cells:
        spent = found.setdefault(cell.instance, Energy())
        for pin, bits in cell.pins.items():
            for bit in bits:
                if isinstance(bit, str):
                    continue
                times = change(bit).times
                if bit == (top, clock_bit):
                    spent.clock += times
                    continue
                # An output that nothing else is on has no wire.
                spent.nets += times if loads[bit] > 1 else 0
                if pin in cell.outputs and bit not in driven:
                    driven.add(bit)
                    spent.changes += times
        if cell.kind in _PRODUCTS:
            one, other = ({b for b in _pins(cell, p) if not isinstance(b, str)} for p in _PRODUCTS[cell.kind])
            sums = [sum(change(bit).times for bit in side) for side in (one, other)]
            spent.products += PRODUCT * (sums[0] * len(other) + sums[1] * len(one))
        spent.memory += access(block_bits) * cycles * _accessed(cell, change, loads) if block_bits else 0.0
    return found


def _pins(cell: _Cell, pattern: str) -> list[_Bit | str]:
    return [bit for pin, bits in cell.pins.items() if pattern and re.fullmatch(pattern, pin) for bit in bits]


def _accessed(cell: _Cell, change: Callable[[_Bit | str], Change], loads: Mapping[_Bit, int]) -> float:
    """Bits that a block RAM reads and writes in a cycle, on average; 0 for another cell."""
    ports = next((ports for kind, ports in _MEMORIES.items() if re.fullmatch(kind, cell.kind)), ())
    if ports is _RAMB and cell.parameters.get("RAM_MODE") == "SDP":
        ports = _RAMB_SDP
    bits = 0.0
    for port in ports:
        on = [min((change(bit).high for bit in _pins(cell, port.enable)), default=1.0)]
        on.append(max((change(bit).high for bit in _pins(cell, port.write)), default=0.0))
        read = sum(not isinstance(bit, str) and loads[bit] > 1 for bit in _pins(cell, port.outputs))
        written = sum(not isinstance(bit, str) for bit in _pins(cell, port.inputs))
        bits += on[0] * read + min(on) * written
    return bits
