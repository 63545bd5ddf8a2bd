"""What can be synthesised for: mapping commands, and what their cells count as."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cost.devices import Device, device_of
from mase_hw.emit.yosys import MAPPERS, Mapper
from mase_hw.errors import ConfigError, suggest
from mase_hw.hardware.memories import FAMILIES

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
        place: Whether place and route is available.
    """

    name: str
    mapper: Mapper
    cells: tuple[tuple[str, Mapping[str, int]], ...]
    block_bits: int
    dsp_widths: tuple[int, int] | tuple[()]
    models: tuple[str, ...] = ()
    place: bool = False

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
        sums, others = dict.fromkeys(COLUMNS, 0), {}
        for kind, number in cells.items():
            for pattern, weights in self.cells:
                if re.fullmatch(pattern, kind):
                    for column, weight in weights.items():
                        sums[column] += weight * number
                    break
            else:
                others[kind] = number
        return sums, others


LATCHES = re.compile(r"\$_?DLATCH.*|\$_?SR_.*|LD[CP]E(_1)?|SB_DL.*|TRELLIS_.*LATCH|DL[NCPE]*")
"""Types of cells that are latches, before and after mapping."""

_NOTHING: Mapping[str, int] = {}
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
    (r"MULT(9X9|18X18|36X36)", {"dsp": 1}),
    (r"(DP|SDP|SP|DPX9|SDPX9|SPX9|pROM|pROMX9)B?", {"bram": 1}),
    (r"RAM16SDP[124]", {"lut": 4, "lutram": 4}),
    (r"MUX2\w*|GND|VCC|IBUF|OBUF", _NOTHING),
)
_GENERIC = (
    (r"\$lut", {"lut": 1}),
    (r"\$_[AS]?L?DFF\w*_", {"ff": 1}),
)

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("xc7", MAPPERS["xc7"], _XILINX, FAMILIES["xc7"].block.bits, (25, 18), _XILINX_MODELS),
        Target("xcup", MAPPERS["xcup"], _XILINX, FAMILIES["xcup"].block.bits, (27, 18), _XILINX_MODELS),
        Target("ecp5", MAPPERS["ecp5"], _ECP5, FAMILIES["ecp5"].block.bits, (18, 18), _ECP5_MODELS, place=True),
        Target("ice40", MAPPERS["ice40"], _ICE40, FAMILIES["ice40"].block.bits, (16, 16), ("ice40/cells_sim.v",)),
        Target("gowin", MAPPERS["gowin"], _GOWIN, FAMILIES["gowin"].block.bits, (18, 18), ("gowin/cells_sim.v",)),
        Target("generic", Mapper("4-input LUTs, no vendor", ("synth -lut 4 -flatten -top {top}",)), _GENERIC, 0, ()),
    )
}
"""Every target by name."""


def find_target(name: str) -> Target:
    """Look up a target.

    Raises:
        ConfigError: If there is none of that name.
    """
    if name not in TARGETS:
        raise ConfigError("unknown synthesis target", field="target", got=name, remedy=suggest(name, TARGETS))
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
