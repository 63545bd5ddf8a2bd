"""Images of parameters: what a design that is loaded while it runs takes, as 32-bit words, little-endian.

An image is :data:`LOAD`, the number of the design, the words of every memory, and the CRC-32 of all words before it.
A beat of a memory is :attr:`Part.chunks` words of :attr:`Part.column` bits each, the lowest bits first.
``rtl_templates/lib/parameter_load.sv`` takes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.hardware.beats import beats_of
from mase_hw.hardware.manifest import Manifest
from mase_hw.streams import ceil_div

ROM, LOADED = "rom_source", "ram_source"
"""Modules that stream parameters: one that is fixed, and one that is loaded."""
LOAD = 0x4D415357
"""The first word of an image."""
WORD = 32


@dataclass(frozen=True)
class Part:
    """A memory that is loaded.

    Args:
        file: Of its contents, in the bundle.
        beats: That it streams.
        bits: Of a beat.
    """

    file: str
    beats: int
    bits: int

    @property
    def chunks(self) -> int:
        """Words of a beat."""
        return ceil_div(self.bits, WORD)

    @property
    def column(self) -> int:
        """Bits of a word."""
        return ceil_div(self.bits, self.chunks)

    @property
    def words(self) -> int:
        """Words of all beats."""
        return self.beats * self.chunks

    def split(self, text: str) -> list[int]:
        """The words of a memory file.

        Raises:
            ConfigError: If it has other beats.
        """
        beats = beats_of(text, self.beats, self.bits, self.file)
        mask = (1 << self.column) - 1
        return [beat >> self.column * chunk & mask for beat in beats for chunk in range(self.chunks)]


def loaded(manifest: Manifest) -> list[Part]:
    """The memories of a design that are loaded; empty if none is."""
    files = {entry.instance: entry.file for entry in manifest.memories}
    return [
        Part(files[each.name], int(each.parameters["DEPTH"]), int(each.parameters["WIDTH"]))
        for each in manifest.instances
        if each.module.removeprefix(manifest.prefix) == LOADED
    ]


def make_image(design: str, parts: Sequence[Part], texts: Mapping[str, str]) -> bytes:
    """An image.

    Args:
        design: The number of the design, eight hexadecimal digits.
        parts: Its memories.
        texts: Of the memory files, by name.

    Raises:
        ConfigError: If a file does not fit its memory.
    """
    words = [LOAD, int(design, 16), *(word for part in parts for word in part.split(texts[part.file]))]
    raw = np.array(words, "<u4").tobytes()
    return raw + zlib.crc32(raw).to_bytes(4, "little")


def digest_of(image: bytes) -> int:
    """The CRC-32 at the end of an image, which the design shows while it has it."""
    return int.from_bytes(image[-4:], "little")
