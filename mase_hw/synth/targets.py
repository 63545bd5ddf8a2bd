"""What can be synthesised for: mapping commands, and what their cells count as.

What a design asks for, before any mapping: its word-level netlist, read from Yosys's JSON.

Flip-flops, multipliers and memories are exact at this stage; look-up tables are an estimate by width.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mase_hw.cost.devices import Device, device_of
from mase_hw.cost.fabrics import product_luts
from mase_hw.emit.yosys import MAPPERS, Mapper
from mase_hw.errors import ConfigError, ToolError, refuse_unknown
from mase_hw.hardware.memories import FAMILIES, REGISTERED, UNNAMED
from mase_hw.host.documents import Json

COLUMNS = ("lut", "ff", "carry", "dsp", "bram", "lutram")
"""What is counted. ``lut`` contains those used as memory, which ``lutram`` counts again; ``bram`` is in blocks."""

Counts = dict[str, int]


@dataclass(frozen=True)
class Target:
    """A family of devices, or none in particular.

    Args:
        name: As the user names it.
        mapper: What Yosys maps with.
        cells: Pattern of cell types and what one of them counts; the first that matches decides.
        block_bits: Capacity of one block RAM; 0 if there is none.
        dsp_widths: Widest signed operands of one multiplier, wider first; empty if there is none.
        models: Files with simulation models of the cells: of Yosys's data folder, or of ``sim/cells`` if they begin
            with ``ours/``. Cells may be missing; then a netlist with them is not simulated.
        packs: Whether registers are moved into blocks behind Yosys, by :mod:`mase_hw.emit.pack_ecp5`.
        whole: Words above which a memory is not mapped, and counted by its bits; 0 where all are mapped.
        products: Whether products are cells that are made of look-up tables, which are counted by their widths.
    """

    name: str
    mapper: Mapper
    cells: tuple[tuple[str, Mapping[str, float]], ...]
    block_bits: int
    dsp_widths: tuple[int, int] | tuple[()]
    models: tuple[str, ...] = ()
    packs: bool = False
    whole: int = 0
    products: bool = False

    @property
    def title(self) -> str:
        """For people."""
        return self.mapper.title

    def count(self, cells: Mapping[str, int]) -> tuple[Counts, Counts]:
        """Sum cells by column.

        Args:
            cells: Number of cells by type, without instances of modules.

        Returns:
            The sums, and the cells whose type is in no column.
        """
        sums, others = dict.fromkeys(COLUMNS, 0.0), {}
        for kind, number in cells.items():
            for pattern, weights in self.cells:
                if re.fullmatch(pattern, kind):
                    for column, weight in weights.items():
                        sums[column] += weight * number
                    break
            else:
                others[kind] = number
        return {column: math.ceil(number) for column, number in sums.items()}, others


MEMORY_BITS = "memory bits"
"""What bits of memories that were not mapped are counted as among the cells."""


def cells_of(statistics: Json) -> dict[str, int]:
    """Cells of a module by type, and its bits of memory, from what ``stat -json`` says of it."""
    found = {kind: int(number) for kind, number in statistics["num_cells_by_type"].items()}
    bits = int(statistics.get("num_memory_bits", 0))
    return {**found, MEMORY_BITS: bits} if bits else found


PRODUCT_LUTS = "$product_luts"
"""What the look-up tables of products are counted as among the cells; Yosys has no cell of that name."""


def count_products(statistics: Path, netlist: Path) -> None:
    """Add the look-up tables that products are made of to what ``stat -json`` wrote.

    Args:
        statistics: The file; written again.
        netlist: The same design in Yosys's JSON.
    """
    modules: Json = json.loads(netlist.read_text(encoding="utf-8"))["modules"]
    found: Json = json.loads(statistics.read_text(encoding="utf-8"))
    for name, module in modules.items():
        sizes = [cell["parameters"] for cell in module["cells"].values() if cell["type"] == "CC_MULT"]
        luts = sum(product_luts(_number(size["A_WIDTH"]), _number(size["B_WIDTH"])) for size in sizes)
        if luts:
            found["modules"][f"\\{name}"]["num_cells_by_type"][PRODUCT_LUTS] = luts
    statistics.write_text(json.dumps(found), encoding="utf-8")


LATCHES = re.compile(r"\$_?DLATCH.*|\$_?SR_.*|LD[CP]E(_1)?|SB_DL.*|TRELLIS_.*LATCH|DL[NCPE]*|CC_DLT")
"""Types of cells that are latches, before and after mapping."""

_NOTHING: Mapping[str, float] = {}
_XILINX = (
    (r"LUT[1-6]|INV|SRL16E|SRLC32E|CFGLUT5", {"lut": 1}),
    (r"FD[RSCP]E(_1)?", {"ff": 1}),
    (r"CARRY[48]", {"carry": 1}),
    (r"DSP48E[12]", {"dsp": 1}),
    (r"RAMB18E[12]", {"bram": 1}),
    (r"RAMB36E[12]", {"bram": 2}),
    (r"RAM32M|RAM64M|RAM128X1D", {"lut": 4, "lutram": 4}),
    (r"RAM32M16|RAM64M8|RAM256X1D|RAM512X1S", {"lut": 8, "lutram": 8}),
    (r"RAM(32|64)X1D|RAM128X1S", {"lut": 2, "lutram": 2}),
    (r"RAM(32|64)X1S", {"lut": 1, "lutram": 1}),
    (r"MUXF[789]|GND|VCC|BUFG|IBUF|OBUF", _NOTHING),
)
_ECP5 = (
    (r"LUT4", {"lut": 1}),
    (r"TRELLIS_FF", {"ff": 1}),
    (r"CCU2C", {"lut": 2, "carry": 1}),
    (r"MULT18X18D", {"dsp": 1}),
    (r"DP16KD|PDPW16KD", {"bram": 1}),
    (r"TRELLIS_DPR16X4", {"lut": 4, "lutram": 4}),
    (r"PFUMX|L6MUX21|VHI|VLO", _NOTHING),
)
_XILINX_MODELS = ("xilinx/cells_sim.v", "ours/block_ram.v", "ours/ramb_common.v", "ours/ramb_e1.v")
_ECP5_MODELS = (
    "lattice/common_sim.vh",
    "lattice/ccu2c_sim.vh",
    "ours/mult18x18d.v",
    "ours/block_ram.v",
    "ours/dp16kd.v",
)
_NEXUS = (
    (r"LUT4|INV", {"lut": 1}),
    (r"WIDEFN9", {"lut": 2}),
    (r"FD1P3[BDIJ]X", {"ff": 1}),
    (r"CCU2", {"lut": 2, "carry": 1}),
    (r"MULT9X9", {"dsp": 1}),
    (r"MULT18X18", {"dsp": 2}),
    (r"DP16K|PDP16K|PDPSC16K", {"bram": 1}),
    (r"DPR16X4", {"lut": 4, "lutram": 4}),
    (r"VHI|VLO|IB|OB", _NOTHING),
)
_ICE40 = (
    (r"SB_LUT4", {"lut": 1}),
    (r"SB_DFF\w*", {"ff": 1}),
    (r"SB_CARRY", {"carry": 1}),
    (r"SB_MAC16", {"dsp": 1}),
    (r"SB_RAM40_4K\w*", {"bram": 1}),
    (r"SB_GB|SB_IO", _NOTHING),
)
_GOWIN = (
    (r"LUT[1-8]", {"lut": 1}),
    (r"DFF\w*", {"ff": 1}),
    (r"ALU", {"lut": 1, "carry": 1}),
    (r"MULT9X9", {"dsp": 1}),
    (r"MULT18X18", {"dsp": 2}),
    (r"MULT36X36", {"dsp": 8}),
    (r"(DP|SDP|SP|DPX9|SDPX9|SPX9|pROM|pROMX9)B?", {"bram": 1}),
    (r"RAM16SDP[124]", {"lut": 4, "lutram": 4}),
    (r"MUX2\w*|GND|VCC|IBUF|OBUF", _NOTHING),
)
_GATEMATE_MODELS = ("gatemate/cells_sim.v",)
_GOWIN_MODELS = ("gowin/cells_sim.v", "ours/gowin_mult.v", "ours/block_ram.v", "ours/gowin_ram.v")
_GATEMATE = (
    (r"CC_L2T4|CC_LUT[12]|CC_MX2", {"lut": 1}),
    (r"CC_L2T5|CC_MX4", {"lut": 2}),
    (r"CC_DFF", {"ff": 1}),
    (r"CC_ADDF", {"lut": 1, "carry": 1}),
    (re.escape(PRODUCT_LUTS), {"lut": 1}),
    (r"CC_BRAM_20K", {"bram": 1}),
    (r"CC_BRAM_40K", {"bram": 2}),
    (r"CC_MULT|CC_[IO]BUF|CC_BUFG", _NOTHING),
)
"""In halves of a CPE, as nextpnr packs them."""
_ASIC = (
    (r"\$_N(AND|OR)_", {"lut": 1}),
    (r"\$_(X|XN)OR_", {"lut": 3}),
    (r"\$_NOT_", {"lut": 0.5}),
    (r"\$_(AOI|OAI)3_", {"lut": 1.5}),
    (r"\$_(AOI|OAI)4_", {"lut": 2}),
    (r"\$_MUX_", {"lut": 3}),
    (r"\$_NMUX_", {"lut": 2.5}),
    (r"\$_DFF_P_", {"ff": 1}),
    (MEMORY_BITS, {"bram": 1}),
    (r"\$mem(rd|wr|init)\w*|\$scopeinfo", _NOTHING),
)
"""In NAND gates of two inputs, by the transistors of static CMOS that Yosys counts (``stat -tech cmos``): a NAND has
four. Memories are in bits."""
_GENERIC = (
    (r"\$lut", {"lut": 1}),
    (r"\$_[AS]?L?DFF\w*_", {"ff": 1}),
)

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("xc7", MAPPERS["xc7"], _XILINX, FAMILIES["xc7"].block.bits, (25, 18), _XILINX_MODELS),
        Target("xcup", MAPPERS["xcup"], _XILINX, FAMILIES["xcup"].block.bits, (27, 18), _XILINX_MODELS),
        Target("ecp5", MAPPERS["ecp5"], _ECP5, FAMILIES["ecp5"].block.bits, (18, 18), _ECP5_MODELS, packs=True),
        Target("nexus", MAPPERS["nexus"], _NEXUS, FAMILIES["nexus"].block.bits, (9, 9), ("lattice/cells_sim_nexus.v",)),
        Target("ice40", MAPPERS["ice40"], _ICE40, FAMILIES["ice40"].block.bits, (16, 16), ("ice40/cells_sim.v",)),
        Target("gowin", MAPPERS["gowin"], _GOWIN, FAMILIES["gowin"].block.bits, (9, 9), _GOWIN_MODELS),
        Target(
            "gatemate",
            MAPPERS["gatemate"],
            _GATEMATE,
            FAMILIES["gatemate"].block.bits,
            (),
            _GATEMATE_MODELS,
            products=True,
        ),
        Target("asic", MAPPERS["asic"], _ASIC, 0, (), whole=REGISTERED),
        Target("generic", Mapper("4-input LUTs, no vendor", ("synth -lut 4 -flatten -top {top}",)), _GENERIC, 0, ()),
    )
}
"""Every target by name."""


def find_target(name: str) -> Target:
    """Look up a target.

    Raises:
        ConfigError: If there is none of that name.
    """
    refuse_unknown(name, TARGETS, "unknown synthesis target", field="target")
    return TARGETS[name]


def find_device(name: str, target: Target) -> Device:
    """Look up a device of a target.

    Raises:
        ConfigError: If there is none of that name, or it belongs to another target.
    """
    device = device_of(name)
    if device.target != target.name:
        raise ConfigError(
            "the device is not of this target",
            field="device",
            got=f"{device.name} with target {target.name}",
            expected=f"target {device.target}",
        )
    return device


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
        modules: Json = json.loads(path.read_text(encoding="utf-8"))["modules"]
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
