"""What devices have, each with where that is known from, and budgets given by numbers.

What a module takes of a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.hardware.memories import FAMILIES, UNNAMED
from mase_hw.host.documents import Json
from mase_hw.plugins import plugins

RESOURCES = ("lut", "ff", "dsp", "bram")


@dataclass(frozen=True)
class Resources:
    """Counts of a family's cells; they add up.

    Args:
        lut: Look-up tables, those used as memory among them.
        ff: Flip-flops.
        dsp: Multiplier blocks.
        bram: Block RAMs of 18 Kbit.
        not_estimated: The module of every instance of which no estimate is known. Where there is one, the counts are
            what is known at least.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0
    not_estimated: tuple[str, ...] = ()

    def __add__(self, other: Resources) -> Resources:
        """Both together."""
        return Resources(
            self.lut + other.lut,
            self.ff + other.ff,
            self.dsp + other.dsp,
            self.bram + other.bram,
            self.not_estimated + other.not_estimated,
        )

    def as_dict(self) -> dict[str, int]:
        """By the names of :data:`RESOURCES`."""
        return {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "bram": self.bram}

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Resources:
        """Those of counts by these names; others are left out."""
        return cls(counts["lut"], counts["ff"], counts["dsp"], counts["bram"])

    def to_json(self) -> Json:
        """The same with the number of instances that are not estimated, by module."""
        return {**self.as_dict(), "not_estimated": dict(sorted(Counter(self.not_estimated).items()))}

    def fits(self, capacity: Mapping[str, int]) -> bool:
        """Whether it is known to be within a capacity; a resource without a number is not limited."""
        within = all(number <= capacity[name] for name, number in self.as_dict().items() if name in capacity)
        return within and not self.not_estimated


Kind = tuple[str, frozenset[tuple[str, int | str]]]
"""What instances have in common that differ in their contents alone: module and parameters."""


def missing(modules: Mapping[str, int]) -> str:
    """Which modules are not estimated, for people: ``2 x fixed_where, leaky_shift``."""
    return ", ".join(f"{number} x {name}" if number > 1 else name for name, number in modules.items())


DSP_KINDS: Mapping[str, str] = {
    "xc7": "DSP48E1",
    "xcup": "DSP48E2",
    "ecp5": "MULT18X18D",
    "nexus": "MULT9X9",
    "ice40": "SB_MAC16",
    "gowin": "MULT9X9",
    "gatemate": "none",
    "asic": "none",
}
"""The multiplier block of each family, which is what ``dsp`` counts; a MULT18X18 of Nexus or Gowin counts as two."""


@dataclass(frozen=True)
class Device:
    """What one device has.

    Args:
        name: The vendor's, in lower case.
        target: Its family, as ``mase-hw synth`` names it.
        lut: Look-up tables.
        ff: Flip-flops.
        dsp: Multiplier blocks; :data:`DSP_KINDS` says of which kind.
        bram: Block RAMs of the family: 18 Kbit, 4 Kbit on iCE40, 20 Kbit on GateMate. A block of twice as many bits
            counts as two.
        source: Where the figures are from.
    """

    name: str
    target: str
    lut: int
    ff: int
    dsp: int
    bram: int
    source: str

    @property
    def block_bits(self) -> int:
        """Bits of one of the block RAMs."""
        return FAMILIES[self.target].block.bits

    def capacity(self) -> dict[str, int]:
        """By the names of :data:`mase_hw.cost.devices.RESOURCES`."""
        return {"lut": self.lut, "ff": self.ff, "dsp": self.dsp, "bram": self.bram}


NEXTPNR = "totals that nextpnr prints for the device"
_DS180 = 'AMD DS180, 7 Series FPGAs Data Sheet: Overview, table "{} FPGA Feature Summary by Device"'
_DS190 = "AMD DS190, Zynq-7000 SoC Data Sheet: Overview, table 1"
_DS890 = "AMD DS890, UltraScale Architecture and Product Data Sheet: Overview, table of Kintex UltraScale+ FPGAs"
_DS891 = "AMD DS891, Zynq UltraScale+ MPSoC Data Sheet: Overview, table of EG devices"
DEVICES: Mapping[str, Device] = {
    device.name: device
    for device in (
        Device("xc7z010", "xc7", 17_600, 35_200, 80, 120, _DS190),
        Device("xc7z020", "xc7", 53_200, 106_400, 220, 280, _DS190),
        Device("xc7z045", "xc7", 218_600, 437_200, 900, 1_090, _DS190),
        Device("xc7s50", "xc7", 32_600, 65_200, 120, 150, _DS180.format("Spartan-7")),
        Device("xc7a35t", "xc7", 20_800, 41_600, 90, 100, _DS180.format("Artix-7")),
        Device("xc7a50t", "xc7", 32_600, 65_200, 120, 150, _DS180.format("Artix-7")),
        Device("xc7a75t", "xc7", 47_200, 94_400, 180, 210, _DS180.format("Artix-7")),
        Device("xc7a100t", "xc7", 63_400, 126_800, 240, 270, _DS180.format("Artix-7")),
        Device("xc7a200t", "xc7", 134_600, 269_200, 740, 730, _DS180.format("Artix-7")),
        Device("xc7k70t", "xc7", 41_000, 82_000, 240, 270, _DS180.format("Kintex-7")),
        Device("xc7k160t", "xc7", 101_400, 202_800, 600, 650, _DS180.format("Kintex-7")),
        Device("xc7k325t", "xc7", 203_800, 407_600, 840, 890, _DS180.format("Kintex-7")),
        Device("xczu3eg", "xcup", 70_560, 141_120, 360, 432, _DS891),
        Device("xcku5p", "xcup", 216_960, 433_920, 1_824, 960, _DS890),
        Device("lfe5u-25f", "ecp5", 24_288, 24_288, 28, 56, NEXTPNR),
        Device("lfe5u-45f", "ecp5", 43_848, 43_848, 72, 108, NEXTPNR),
        Device("lfe5u-85f", "ecp5", 83_640, 83_640, 156, 208, NEXTPNR),
        Device("lifcl-17", "nexus", 13_824, 13_824, 48, 24, NEXTPNR),
        Device("lifcl-40", "nexus", 32_256, 32_256, 112, 84, NEXTPNR),
        Device("gw2a-18", "gowin", 20_736, 15_552, 96, 46, NEXTPNR),
        Device("ice40up5k", "ice40", 5_280, 5_280, 8, 30, NEXTPNR),
        Device("ccgm1a1", "gatemate", 40_960, 40_960, 0, 64, NEXTPNR),
    )
}
"""Devices by name, in lower case."""


def device_of(name: str) -> Device:
    """Look up a device of the package or of a plug-in.

    Raises:
        ConfigError: If there is none of that name.
    """
    known = DEVICES if name.lower() in DEVICES else {**DEVICES, **plugins("targets")}
    refuse_unknown(name.lower(), known, "unknown device", field="device")
    return known[name.lower()]


def available(device: str | None, limits: Mapping[str, int | None]) -> tuple[dict[str, int], int]:
    """What there is: of a device, and numbers, which count before those of the device.

    Args:
        device: Its name; None for no device.
        limits: Numbers by resource; None for no limit.

    Returns:
        Numbers by resource, and the bits of a block RAM.

    Raises:
        ConfigError: If there is no such device or resource, or a number is negative.
    """
    for resource, number in limits.items():
        refuse_unknown(resource, RESOURCES, "unknown resource", field="limits")
        if number is not None and number < 0:
            raise ConfigError("a budget cannot be negative", field=resource, got=number, expected=">= 0")
    found, bits = {}, UNNAMED.block.bits
    if device is not None:
        known = device_of(device)
        found, bits = known.capacity(), known.block_bits
    return {**found, **{name: number for name, number in limits.items() if number is not None}}, bits
