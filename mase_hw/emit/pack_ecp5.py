"""Moves registers into multipliers and block RAMs of ECP5, which Yosys leaves beside them.

A MULT18X18D has registers at its operands and at its product. Without them a value crosses the device from a flip-flop
to the multiplier, through it, and back within one cycle. Here a multiplier takes over the flip-flops at an operand if
all its bits come from plain ones (no enable, no reset, one clock), and those at the product if each bit goes to exactly
one. A DP16KD has a register behind each output, with an enable of its own: it takes over the flip-flops there if each
bit that is read goes to exactly one, all with the same enable and none with a reset. Values and cycles stay the same;
only the unknown values before the first clock differ.

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
_WIDE = 36
"""Bits of a word that leaves a block RAM at both ports, read at port B."""

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
        return self.enable(name or "") == "1"

    def enable(self, name: str) -> int | str | None:
        """What enables a flip-flop without a reset, "1" if it always takes its input; None of any other cell."""
        cell = self.cells.get(name)
        if cell is None or cell["type"] != "TRELLIS_FF":
            return None
        modes, pins = cell["parameters"], cell["connections"]
        free = modes.get("LSRMUX", "LSR") == "LSR" and pins.get("LSR", ["0"]) == ["0"]
        if not free or modes.get("CLKMUX", "CLK") != "CLK" or isinstance(pins["CLK"][0], str):
            return None
        # Yosys writes a string of digits with a space behind it.
        mode: str = modes.get("CEMUX", "1").strip()
        bit: int | str = pins.get("CE", ["1"])[0] if mode == "CE" else mode
        return bit if isinstance(bit, int) or bit == "1" else None

    def clocks(self, names: Iterable[str]) -> set[int]:
        """The clocks of flip-flops."""
        return {self.cells[name]["connections"]["CLK"][0] for name in names}


def pack(netlist: dict[str, Any]) -> dict[str, int]:
    """Move registers into the multipliers and block RAMs of a mapped netlist, in place.

    Args:
        netlist: What Yosys's ``write_json`` writes.

    Returns:
        Numbers of multipliers, of packed operands, of packed products, of block RAMs, of packed outputs and of
        flip-flops that are no longer needed.
    """
    done = {"multipliers": 0, "operands": 0, "products": 0, "memories": 0, "outputs": 0, "flipflops": 0}
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
    for name in [n for n, cell in module.cells.items() if cell["type"] == "DP16KD"]:
        done["memories"] += 1
        wide = int(str(module.cells[name]["parameters"]["DATA_WIDTH_B"]), 2) == _WIDE
        for sides in ("AB",) if wide else ("A", "B"):
            _pack_output(module, name, sides, done)


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
    moved = _sole_readers(module, name, [f"P{i}" for i in range(_PRODUCT)])
    if not moved or not all(module.plain(register) for register in moved.values()):
        return
    if len(module.clocks(moved.values()) | clocks) != 1:
        return
    _register(module, name, "REG_OUTPUT", next(iter(module.clocks(moved.values()))))
    done["products"] += 1
    _take_over(module, name, moved, done)


def _pack_output(module: _Module, name: str, sides: str, done: dict[str, int]) -> None:
    """Take over what is behind the outputs of a port, or of both where they are one: its clock is that of the last."""
    cell, port = module.cells[name], sides[-1]
    modes, pins = cell["parameters"], cell["connections"]
    moved = _sole_readers(module, name, [f"DO{side}{i}" for side in sides for i in range(_BITS)])
    if not moved or any(modes.get(f"REGMODE_{side}", "NOREG") != "NOREG" for side in sides):
        return
    enables = {module.enable(register) for register in moved.values()}
    resets = {pins.get(f"RST{side}", ["0"])[0] for side in sides}
    if len(enables) != 1 or None in enables or resets != {"0"}:
        return
    if module.clocks(moved.values()) != {pins[f"CLK{port}"][0]} or modes.get(f"CLK{port}MUX") != f"CLK{port}":
        return
    for side in sides:
        modes[f"REGMODE_{side}"] = "OUTREG"
        _connect(module, name, f"OCE{side}", next(enable for enable in enables if enable is not None))
    done["outputs"] += 1
    _take_over(module, name, moved, done)


def _sole_readers(module: _Module, name: str, outputs: list[str]) -> dict[str, str]:
    """The one cell that reads each output that is read, as its data; nothing if there is any other reader."""
    found: dict[str, str] = {}
    for pin in outputs:
        bit = module.cells[name]["connections"].get(pin, ["x"])[0]
        readers = module.readers.get(bit, []) if isinstance(bit, int) else []
        if bit in module.outside or len(readers) > 1:
            return {}
        for reader, where in readers:
            if where != "DI":
                return {}
            found[pin] = reader
    return found


def _take_over(module: _Module, name: str, moved: dict[str, str], done: dict[str, int]) -> None:
    """Flip-flops that are now inside a cell."""
    for pin, register in moved.items():
        pins = module.cells.pop(register)["connections"]
        for gone in ("CLK", "DI", "CE", "LSR"):
            for bit in pins.get(gone, []):
                if isinstance(bit, int):
                    module.readers[bit].remove((register, gone))
        result = pins["Q"][0]
        module.cells[name]["connections"][pin] = [result]
        module.driver[result] = name
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
        done = pack(netlist)
        Path(name).write_text(json.dumps(netlist), encoding="utf-8")
        print(f"{name}: {', '.join(f'{number} {what}' for what, number in done.items())}")
    return 0 if arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
