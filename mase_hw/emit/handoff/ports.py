"""Ports of a design as the wrapper, the testbenches and the README see them: numbers, no expressions."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.emit.port_entry import format_of
from mase_hw.hardware.manifest import Manifest, Port

SLAVE, MASTER = "s_axis_", "m_axis_"


@dataclass(frozen=True)
class HandoffPort:
    """One stream of the design.

    Args:
        name: Its data port; ``<name>_valid`` and ``<name>_ready`` go with it.
        into: Whether it is an input.
        bits: Bits of a beat.
        beats: Beats of a frame.
        file: Its vectors, below ``vectors``.
        note: What it carries, in one line.
        entry: Its entry in the manifest.
        seed: Of its stalls in the testbench; different for every port.
    """

    name: str
    into: bool
    bits: int
    beats: int
    file: str
    note: str
    entry: Port
    seed: int

    @property
    def bus(self) -> str:
        """Name of its AXI4-Stream interface."""
        return (SLAVE if self.into else MASTER) + self.name

    @property
    def bytes(self) -> int:
        """Bytes of TDATA."""
        return (self.bits + 7) // 8

    @property
    def tdata(self) -> int:
        """Bits of TDATA."""
        return 8 * self.bytes

    @property
    def pad(self) -> int:
        """Bits of TDATA that carry nothing."""
        return self.tdata - self.bits

    @property
    def count_bits(self) -> int:
        """Bits of a counter of the beats of a frame."""
        return max(1, (self.beats - 1).bit_length())

    @property
    def forward(self) -> str:
        """Direction of data, valid and last."""
        return "input" if self.into else "output"

    @property
    def backward(self) -> str:
        """Direction of ready."""
        return "output" if self.into else "input"


def handoff_ports(manifest: Manifest) -> list[HandoffPort]:
    """The ports of a manifest, inputs first."""
    return [_port(entry, index) for index, entry in enumerate(manifest.ports)]


def _port(entry: Port, index: int) -> HandoffPort:
    fmt = entry.format
    sign = "signed" if fmt.signed else "unsigned"
    shape = "x".join(map(str, entry.shape)) or "scalar"
    note = (
        f"{entry.name}: {entry.tensor}, {shape}, {entry.lanes} lanes of {fmt.width} bits ({sign}, "
        f"value = {format_of(fmt).rule}), {entry.beats} beats per frame"
    )
    return HandoffPort(
        name=entry.name,
        into=entry.direction == "in",
        bits=entry.bits,
        beats=entry.beats,
        file=f"{entry.name}.mem",
        note=note,
        entry=entry,
        seed=0x1234_5601 + 0x0101_0111 * index,
    )
