"""How a frame lies in memory: its elements in the order of the stream, each in a slot, padded to the bus width."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mase_hw.emit.port_entry import format_of, port_stream
from mase_hw.errors import ConfigError
from mase_hw.hardware.beats import from_words
from mase_hw.hardware.manifest import Port
from mase_hw.host.documents import Json
from mase_hw.streams import IntArray, ceil_div

SLOTS = (8, 16, 32, 64)
"""Widths of integers in C."""


@dataclass(frozen=True)
class Frame:
    """A frame of one port.

    Args:
        port: The port of the core.
        width: Bits of an element.
        slot: Bits that it takes in memory; above it are its sign or zeros.
        signed: Whether elements are signed.
        lanes: Elements of a beat of the core.
        row: Elements after which a beat of the core ends short; all, if none does.
        size: Elements of the frame.
        bus: Bits of a beat of the bus.
        note: What it carries, in one line.
    """

    port: str
    width: int
    slot: int
    signed: bool
    lanes: int
    row: int
    size: int
    bus: int
    note: str

    @classmethod
    def of(cls, port: Port, bus: int, packed: bool) -> Frame:
        """The frame of a port of a manifest.

        Raises:
            ConfigError: If its elements are no two's complement or wider than 64 bits, or pad lanes stand elsewhere
                than at the ends of rows.
        """
        fmt = port.format
        if format_of(fmt).bipolar or fmt.width > SLOTS[-1]:
            raise _refused(port, f"elements of {fmt.width} bits", "integers in two's complement of at most 64 bits")
        ragged = any(size % lanes for size, lanes in zip(reversed(port.streamed), port.parallelism, strict=False))
        if ragged and math.prod(port.parallelism[1:]) > 1:
            raise _refused(port, f"tiles of {port.parallelism}", "tiles that fill it, or lanes of one dimension")
        size = math.prod(port.streamed)
        slot = fmt.width if packed else next(slot for slot in SLOTS if slot >= fmt.width)
        shape = "x".join(map(str, port.shape)) or "scalar"
        sign = "signed" if fmt.signed else "unsigned"
        place = f"{slot} bits each, {'packed' if packed else 'aligned'}"
        return cls(
            port=port.name,
            width=fmt.width,
            slot=slot,
            signed=fmt.signed,
            lanes=port.lanes,
            row=port.streamed[-1] if ragged else size,
            size=size,
            bus=bus,
            note=f"{port.tensor}, {shape}: {size} {sign} integers of {fmt.width} bits ({format_of(fmt).rule}), {place}",
        )

    @property
    def beats(self) -> int:
        """Of the bus."""
        return ceil_div(self.size * self.slot, self.bus)

    @property
    def length(self) -> int:
        """Bytes in memory, the end padded to the bus width."""
        return self.beats * self.bus // 8

    def pack(self, values: list[int]) -> bytes:
        """The integers of a frame as it lies in memory."""
        mask = (1 << self.slot) - 1
        word = sum((value & mask) << (self.slot * index) for index, value in enumerate(values))
        return word.to_bytes(self.length, "little")

    def unpack(self, raw: bytes) -> list[int]:
        """The inverse of :meth:`pack`."""
        word, mask, sign = int.from_bytes(raw, "little"), (1 << self.width) - 1, 1 << (self.width - 1)
        codes = [word >> (self.slot * index) & mask for index in range(self.size)]
        return [code - 2 * (code & sign) if self.signed else code for code in codes]

    def from_vectors(self, port: Port, text: str) -> list[list[int]]:
        """The integers of every frame of a vector file, without pad lanes."""
        return self.from_beats(from_words(port_stream(port), text))

    def from_beats(self, beats: IntArray) -> list[list[int]]:
        """The same of beats, integers of shape ``(beats, lanes)``."""
        rows = beats.reshape(-1, ceil_div(self.row, self.lanes) * self.lanes)[:, : self.row]
        return [[int(value) for value in frame] for frame in rows.reshape(-1, self.size)]

    def entry(self) -> Json:
        """What the manifest of the system says of it."""
        return {
            "port": self.port,
            "elements": self.size,
            "element_bits": self.width,
            "slot_bits": self.slot,
            "signed": self.signed,
            "bytes": self.length,
            "order": "as `streamed` of the port in the bundle's manifest, the last size fastest, without pad lanes; "
            "least significant bit first, zeros at the end",
        }


@dataclass(frozen=True)
class Record:
    """The frames of all ports of one direction, one behind the other: what a job moves at a time.

    Args:
        frames: Of the ports, in the order of the manifest.
    """

    frames: tuple[Frame, ...]

    @property
    def length(self) -> int:
        """Bytes in memory."""
        return sum(frame.length for frame in self.frames)

    @property
    def size(self) -> int:
        """Elements."""
        return sum(frame.size for frame in self.frames)

    @property
    def parts(self) -> list[tuple[int, Frame]]:
        """The frames, and the bytes before each."""
        return [(sum(other.length for other in self.frames[:i]), frame) for i, frame in enumerate(self.frames)]


def _refused(port: Port, got: str, expected: str) -> ConfigError:
    return ConfigError(
        "a system cannot bring the frames of this port to memory",
        node=port.name,
        got=got,
        expected=expected,
        remedy="connect the core's own streams, which the bundle's README describes",
    )
