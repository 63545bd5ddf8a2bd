"""What a design asks for, before any mapping: its word-level netlist, read from Yosys's JSON.

Flip-flops, multipliers and memories are exact at this stage; look-up tables are an estimate by width.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mase_hw.errors import ToolError
from mase_hw.hardware.memories import FAMILIES, UNNAMED
from mase_hw.synth.targets import LATCHES, Target

_LUT_PER_BIT = {
    **dict.fromkeys(("$add", "$sub", "$neg", "$alu", "$macc", "$lt", "$le", "$gt", "$ge"), 1.0),
    **dict.fromkeys(("$mux", "$and", "$or", "$xor", "$xnor", "$bwmux"), 0.5),
    **dict.fromkeys(("$eq", "$ne", "$reduce_and", "$reduce_or", "$reduce_bool", "$reduce_xor", "$logic_not"), 0.33),
}
"""Estimated 6-input LUTs for each bit of the widest side of a cell; neighbours merge, so less than one."""
_SHIFTS = frozenset({"$shl", "$shr", "$sshl", "$sshr", "$shift", "$shiftx"})
_FLIPFLOPS = frozenset({"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce", "$adff", "$adffe", "$aldff", "$aldffe"})
_ROM_WORDS, _RAM_WORDS = UNNAMED.rom_words, UNNAMED.ram_words
"""Words of one LUT used as memory, read-only and writable."""


@dataclass(frozen=True)
class Memory:
    """A memory of the elaborated design.

    Args:
        instance: Instance of the top level that holds it.
        name: Path inside the instance.
        words: Depth.
        width: Bits of a word that are not constant.
        writable: Whether it has a write port.
        clocked: Whether every read is registered, as a block RAM needs.
    """

    instance: str
    name: str
    words: int
    width: int
    writable: bool
    clocked: bool

    @property
    def bits(self) -> int:
        """Its size."""
        return self.words * self.width

    def blocks(self, target: Target) -> int:
        """Block RAMs it takes, in the best shape; 0 if it cannot or need not be in one."""
        family = FAMILIES.get(target.name)
        if not self.clocked or family is None or self.words <= _ROM_WORDS or self.bits < family.block.bits // 4:
            return 0
        return family.block.count(self.words, self.width)

    @property
    def luts(self) -> int:
        """Estimated look-up tables if it is not in block RAM."""
        return math.ceil(self.words / (_RAM_WORDS if self.writable else _ROM_WORDS)) * self.width


@dataclass(frozen=True)
class Elaborated:
    """What the instances of the top level ask for.

    Args:
        multipliers: Operand widths of every multiplier by instance.
        ff: Flip-flops by instance.
        logic: Estimated look-up tables without memories and multipliers, by instance.
        memories: Every memory.
        latches: Paths of latches; there should be none.
    """

    multipliers: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    ff: dict[str, int] = field(default_factory=dict)
    logic: dict[str, float] = field(default_factory=dict)
    memories: list[Memory] = field(default_factory=list)
    latches: list[str] = field(default_factory=list)

    def fitting(self, instance: str, target: Target) -> int:
        """Multipliers of an instance that one DSP block each can do."""
        if not target.dsp_widths:
            return 0
        return sum(_fits(pair, target.dsp_widths) for pair in self.multipliers.get(instance, []))

    def estimate(self, target: Target) -> dict[str, int]:
        """Estimated use of a target, by column of its devices."""
        lut = sum(self.logic.values())
        dsp = bram = 0
        for instance, pairs in self.multipliers.items():
            dsp += self.fitting(instance, target)
            lut += sum(a * b for a, b in pairs if not target.dsp_widths or not _fits((a, b), target.dsp_widths))
        for memory in self.memories:
            blocks = memory.blocks(target)
            bram += blocks
            lut += 0 if blocks else memory.luts
        return {"lut": round(lut), "ff": sum(self.ff.values()), "dsp": dsp, "bram": bram}


def _fits(pair: tuple[int, int], widths: tuple[int, int]) -> bool:
    return max(pair) <= max(widths) and min(pair) <= min(widths)


def instance_of(module: str, top: str) -> str:
    """The instance of the top level that a module of Yosys belongs to; empty for the top level itself."""
    _, _, path = module.partition("$")
    return path.removeprefix(f"{top}.") if path else ""


def read_elaborated(path: Path, top: str) -> Elaborated:
    """Read the JSON of an elaborated design, a module for each instance of the top level.

    Raises:
        ToolError: If it is not what Yosys writes.
    """
    found = Elaborated()
    try:
        modules: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["modules"]
        for name, module in modules.items():
            instance = instance_of(name, top)
            for cell, content in module["cells"].items():
                _cell(found, instance, cell, content["type"], content["parameters"], content.get("connections", {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ToolError("the elaborated design cannot be read", node=str(path), got=repr(problem)) from problem
    return found


def _cell(
    found: Elaborated, instance: str, name: str, kind: str, parameters: Mapping[str, str], pins: Mapping[str, list[Any]]
) -> None:
    widths = [_number(value) for key, value in parameters.items() if key in ("A_WIDTH", "B_WIDTH", "Y_WIDTH", "WIDTH")]
    if kind == "$mul":
        pair = _used(pins["A"]), _used(pins["B"])
        found.multipliers.setdefault(instance, []).append(pair)
    elif kind == "$mem_v2":
        ports = parameters["RD_CLK_ENABLE"][-_number(parameters["RD_PORTS"]) :]
        memory = Memory(
            instance,
            name,
            _number(parameters["SIZE"]),
            _number(parameters["WIDTH"]),
            _number(parameters["WR_PORTS"]) > 0,
            "0" not in ports,
        )
        found.memories.append(memory)
    elif kind in _FLIPFLOPS:
        found.ff[instance] = found.ff.get(instance, 0) + _number(parameters["WIDTH"])
    elif LATCHES.fullmatch(kind):
        found.latches.append(f"{instance}.{name}")
    elif kind in _SHIFTS:
        steps = min(_number(parameters["B_WIDTH"]), 8)
        _add(found, instance, _number(parameters["Y_WIDTH"]) * steps / 2)
    elif kind == "$pmux":
        _add(found, instance, _number(parameters["WIDTH"]) * _number(parameters["S_WIDTH"]) / 2)
    elif kind in _LUT_PER_BIT:
        _add(found, instance, _LUT_PER_BIT[kind] * max(widths))


def _add(found: Elaborated, instance: str, luts: float) -> None:
    found.logic[instance] = found.logic.get(instance, 0.0) + luts


def _used(pins: list[Any]) -> int:
    """Width of an operand without the copies of its sign bit."""
    width = len(pins)
    while width > 1 and pins[width - 1] == pins[width - 2]:
        width -= 1
    return width


def _number(text: str | int) -> int:
    return int(text, 2) if isinstance(text, str) else text
