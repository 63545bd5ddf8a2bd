"""How Yosys maps to each family: one table for the scripts of a bundle and for ``mase-hw synth``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.hardware.memories import REGISTERED

LUTS = "scratchpad -copy abc9.script.default.fast abc9.script"
"""LUT mapping without restructuring the logic first.

ABC9's usual script merges nodes of the table of a ROM with each other and with the address counter, after which a bit
of a ROM that fits one LUT takes three. Without it designs with ROMs in LUTs get smaller, a few small others larger.
"""
_HIDDEN = "$__hidden_add"
_ICE40 = "synth_ice40 -device u -top {top}"
_NEXUS = "synth_nexus -family lifcl -top {top}"
_GATEMATE = "synth_gatemate -luttree -nomx8 -top {top}"
"""Trees of small look-up tables are what nextpnr packs; multiplexers of eight it does not."""


def _nexus_products(widest: int, least: int) -> tuple[str, ...]:
    """Products whose wider operand has at least so many bits, in blocks of so many."""
    sizes = f"-D DSP_A_MAXWIDTH={widest} -D DSP_B_MAXWIDTH={widest} -D DSP_A_MINWIDTH={least} -D DSP_B_MINWIDTH=2"
    return (
        f"techmap -map +/mul2dsp.v {sizes} -D DSP_NAME=$__NX_MUL{widest}X{widest}",
        *("select a:mul2dsp", "setattr -unset mul2dsp", "opt_expr -fine", "wreduce", "select -clear"),
        "chtype -set $mul t:$__soft_mul",
    )


@dataclass(frozen=True)
class Mapper:
    """What maps a design to a family.

    Args:
        title: The family, for people.
        commands: Of Yosys, after the RTL was read; ``{top}`` is the top module.
        without_pads: Options of the last command that leave out the pads of ports and the clock buffer.
    """

    title: str
    commands: tuple[str, ...]
    without_pads: str = ""

    def script(self, top: str, pads: bool = True) -> list[str]:
        """The commands for a top module; without pads for a part of a larger design."""
        more = "" if pads or not self.without_pads else f" {self.without_pads}"
        return [command.format(top=top) for command in self.commands[:-1]] + [self.commands[-1].format(top=top) + more]


MAPPERS: Mapping[str, Mapper] = {
    "xc7": Mapper("Xilinx 7 series", (LUTS, "synth_xilinx -family xc7 -flatten -top {top}"), "-noiopad -noclkbuf"),
    "xcup": Mapper("Xilinx UltraScale+", (LUTS, "synth_xilinx -family xcup -flatten -top {top}"), "-noiopad -noclkbuf"),
    "ecp5": Mapper("Lattice ECP5", (LUTS, "synth_ecp5 -top {top}")),
    "nexus": Mapper(
        "Lattice Nexus",
        # Multipliers are mapped before `synth_nexus`: its pass lattice_dsp_nexus (Yosys 0.70) takes a register that
        # several multipliers read into one of them, and gives the others 0. So all registers stay beside the blocks.
        (
            LUTS,
            f"{_NEXUS} -run begin:coarse",
            *("proc", "flatten", "opt_expr", "opt_clean", "opt -nodffe -nosdff", "wreduce", "peepopt", "opt_clean"),
            "wreduce t:$mul",
            *_nexus_products(18, 10),
            *_nexus_products(9, 2),
            "techmap -map +/lattice/dsp_map_nexus.v",
            "setundef -undriven -zero",  # clock and resets of the registers that are not used
            f"{_NEXUS} -nodsp -run coarse:",
        ),
        "-noiopad",
    ),
    "ice40": Mapper(
        "Lattice iCE40 UltraPlus",
        # Instead of `synth_ice40 -dsp`: its pass ice40_dsp (Yosys 0.70) takes the adder behind two multipliers into the
        # block of the first, and the product register of the second as well, which then drives nothing. So adders are
        # out of its sight while it runs.
        (
            LUTS,
            f"{_ICE40} -run begin:coarse",
            *("opt_expr", "opt_clean", "opt -nodffe -nosdff", "opt", "wreduce", "peepopt", "opt_clean", "memory_dff"),
            "wreduce t:$mul",
            "techmap -map +/mul2dsp.v -map +/ice40/dsp_map.v -D DSP_A_MAXWIDTH=16 -D DSP_B_MAXWIDTH=16 "
            "-D DSP_A_MINWIDTH=2 -D DSP_B_MINWIDTH=2 -D DSP_Y_MINWIDTH=11 -D DSP_NAME=$__MUL16X16",
            *("select a:mul2dsp", "setattr -unset mul2dsp", "opt_expr -fine", "wreduce", "select -clear"),
            f"chtype -set {_HIDDEN} t:$add",
            "ice40_dsp",
            f"chtype -set $add t:{_HIDDEN}",
            "chtype -set $mul t:$__soft_mul",
            f"{_ICE40} -run coarse:",
        ),
    ),
    "asic": Mapper(
        "gates of standard cells",
        # Memories of more words than registers are made of stay whole: they are what a compiler of memories makes.
        # Enables and resets of flip-flops are gates in front of them.
        (
            "synth -flatten -top {top} -run begin:fine",
            f"memory_map t:$mem_v2 r:SIZE<={REGISTERED} %i",
            *("opt -fast -full", "opt -undriven -fine", "techmap", "opt -fast", "dfflegalize -cell $_DFF_P_ 01"),
            *("opt_clean", "abc -g cmos", "memory_unpack", "opt_clean"),
        ),
    ),
    "gowin": Mapper("Gowin GW2A", (LUTS, "synth_gowin -family gw2a -top {top}"), "-noiopads"),
    "gatemate": Mapper(
        "Cologne Chip GateMate",
        # Flip-flops have an enable and no synchronous reset. A reset that counts before the enable would take both as
        # logic in front of every bit (Yosys 0.70); where the enable is on with it, it is a gate for all of them.
        (
            f"{_GATEMATE} -run begin:map_io",
            "dfflegalize -cell $_DFF_?_ 01 -cell $_DFFE_??_ 01 -cell $_SDFF_???_ 01 -cell $_SDFFCE_????_ 01",
            "dffunmap -srst-only",
            f"{_GATEMATE} -run map_io:",
        ),
        "-noiopad -noclkbuf",
    ),
}
"""By the name of the target."""
