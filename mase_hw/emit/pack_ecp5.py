"""Moves registers into ECP5 multipliers, which Yosys leaves beside them.

A MULT18X18D has registers at its operands and at its product. Without them a value crosses the device from a flip-flop
to the multiplier, through it, and back within one cycle. Here a multiplier takes over the flip-flops at an operand if
all its bits come from plain ones (no enable, no reset, one clock), and those at the product if each bit goes to exactly
one. Values and cycles stay the same; only the unknown values before the first clock differ.

Bundles hold a copy of this file, so it needs nothing but Python: ``python3 synth/pack_ecp5.py NETLIST.json`` changes a
netlist of Yosys's ``write_json`` in place.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_BITS = 18
_PRODUCT = 36

Cell = dict[str, Any]


class _Module:
    """Who drives and who reads each net of a module."""

    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: dict[str, Cell] = module["cells"]
        self.driver: dict[int, str] = {}
        self.readers: dict[int, list[tuple[str, str]]] = {}
        self.outside = {bit for port in module["ports"].values() for bit in port["bits"]}
        for name, cell in self.cells.items():
            for pin, bits in cell["connections"].items():
                output = cell["port_directions"].get(pin) == "output"
                for bit in bits:
                    if isinstance(bit, int) and output:
                        self.driver[bit] = name
                    elif isinstance(bit, int):
                        self.readers.setdefault(bit, []).append((name, pin))

    def plain(self, name: str | None) -> bool:
        """Whether a cell is a flip-flop that takes its input in every cycle."""
        cell = self.cells.get(name or "")
        if cell is None or cell["type"] != "TRELLIS_FF":
            return False
        modes, pins = cell["parameters"], cell["connections"]
        enabled = modes.get("CEMUX", "1") == "1" or pins.get("CE", ["1"]) == ["1"]
        free = modes.get("LSRMUX", "LSR") == "LSR" and pins.get("LSR", ["0"]) == ["0"]
        return enabled and free and modes.get("CLKMUX", "CLK") == "CLK" and not isinstance(pins["CLK"][0], str)

    def clocks(self, names: Iterable[str]) -> set[int]:
        """The clocks of flip-flops."""
        return {self.cells[name]["connections"]["CLK"][0] for name in names}


def pack_multipliers(netlist: dict[str, Any]) -> dict[str, int]:
    """Move registers into the multipliers of a mapped netlist, in place.

    Args:
        netlist: What Yosys's ``write_json`` writes.

    Returns:
        Numbers of multipliers, of packed operands, of packed products and of flip-flops that are no longer needed.
    """
    done = {"multipliers": 0, "operands": 0, "products": 0, "flipflops": 0}
    for content in netlist["modules"].values():
        if content["cells"]:
            _pack_module(_Module(content), done)
    return done


def _pack_module(module: _Module, done: dict[str, int]) -> None:
    for name in [n for n, cell in module.cells.items() if cell["type"] == "MULT18X18D"]:
        done["multipliers"] += 1
        clocks: set[int] = set()
        for side in "AB":
            clocks |= _pack_operand(module, name, side, clocks, done)
        _pack_product(module, name, clocks, done)


def _pack_operand(module: _Module, name: str, side: str, clocks: set[int], done: dict[str, int]) -> set[int]:
    cell = module.cells[name]
    pins = [f"{side}{i}" for i in range(_BITS)]
    bits = [cell["connections"][pin][0] for pin in pins]
    sources = {bit: module.driver.get(bit) for bit in bits if isinstance(bit, int)}
    if not sources or any(bit != "0" for bit in bits if not isinstance(bit, int)):
        return set()
    registers = sorted({source for source in sources.values() if source is not None})
    if None in sources.values() or not all(module.plain(source) for source in registers):
        return set()
    found = module.clocks(registers)
    if len(found | clocks) != 1:
        return set()
    for pin, bit in zip(pins, bits, strict=True):
        source = sources.get(bit) if isinstance(bit, int) else None
        if source is not None:
            _connect(module, name, pin, module.cells[source]["connections"]["DI"][0])
    _register(module, name, f"REG_INPUT{side}", next(iter(found)))
    done["operands"] += 1
    for register in registers:
        _drop_if_unread(module, register, done)
    return found


def _pack_product(module: _Module, name: str, clocks: set[int], done: dict[str, int]) -> None:
    cell = module.cells[name]
    moved: dict[str, str] = {}
    for pin in (f"P{i}" for i in range(_PRODUCT)):
        bit = cell["connections"].get(pin, ["x"])[0]
        readers = module.readers.get(bit, []) if isinstance(bit, int) else []
        if bit in module.outside or len(readers) > 1:
            return
        if readers:
            reader, at = readers[0]
            if at != "DI" or not module.plain(reader):
                return
            moved[pin] = reader
    if not moved or len(module.clocks(moved.values()) | clocks) != 1:
        return
    _register(module, name, "REG_OUTPUT", next(iter(module.clocks(moved.values()))))
    for pin, register in moved.items():
        result = module.cells.pop(register)["connections"]["Q"][0]
        cell["connections"][pin] = [result]
        module.driver[result] = name
    done["products"] += 1
    done["flipflops"] += len(moved)


def _connect(module: _Module, name: str, pin: str, bit: int | str) -> None:
    old = module.cells[name]["connections"][pin][0]
    if isinstance(old, int):
        module.readers[old].remove((name, pin))
    module.cells[name]["connections"][pin] = [bit]
    if isinstance(bit, int):
        module.readers.setdefault(bit, []).append((name, pin))


def _register(module: _Module, name: str, what: str, clock: int) -> None:
    """Switch on registers of a multiplier, with enable and reset that never do anything."""
    cell = module.cells[name]
    cell["parameters"] |= {f"{what}_CLK": "CLK0", f"{what}_CE": "CE0", f"{what}_RST": "RST0", "GSR": "DISABLED"}
    for pin, bit in (("CLK0", clock), ("CE0", "1"), ("RST0", "0")):
        if pin not in cell["connections"]:
            cell["connections"][pin] = [bit]
            cell["port_directions"][pin] = "input"
            if isinstance(bit, int):
                module.readers.setdefault(bit, []).append((name, pin))


def _drop_if_unread(module: _Module, register: str, done: dict[str, int]) -> None:
    pins = module.cells[register]["connections"]
    if pins["Q"][0] in module.outside or module.readers.get(pins["Q"][0]):
        return
    for pin in ("CLK", "DI", "CE", "LSR"):
        for bit in pins.get(pin, []):
            if isinstance(bit, int):
                module.readers[bit].remove((register, pin))
    del module.cells[register]
    done["flipflops"] += 1


def main(arguments: list[str]) -> int:
    """Pack the netlists that are named."""
    for name in arguments:
        netlist = json.loads(Path(name).read_text(encoding="utf-8"))
        done = pack_multipliers(netlist)
        Path(name).write_text(json.dumps(netlist), encoding="utf-8")
        print(f"{name}: {', '.join(f'{number} {what}' for what, number in done.items())}")
    return 0 if arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
