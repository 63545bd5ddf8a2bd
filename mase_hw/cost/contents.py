"""What is known of a ROM whose words are known: how many bits differ, and the look-up tables that they take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mase_hw.cost.casts import WIDEST, wide

MOST = 1024
"""Words up to which look-up tables are counted: what has more is in blocks."""
_UNKNOWN = 2
Bits = NDArray[np.uint8]


def parameters_of(words: Sequence[int], bits: int, family: str) -> dict[str, int]:
    """What the cost model takes beside the parameters of a module with a table.

    Args:
        words: Contents.
        bits: Of a word.
        family: A family with a cost model.

    Returns:
        ``DISTINCT``, the bits that are neither always the same nor copies of others, and ``TABLE_LUTS``, the look-up
        tables of these: each is a function of as many bits of the address as it depends on. A function with more of
        them than one look-up table and the multiplexers beside it take is put together from several.
    """
    columns = _columns(words, bits)
    different = [c for c in {c.tobytes(): c for c in columns}.values() if c.min() != c.max()]
    found = {"DISTINCT": len(different)}
    if len(words) <= MOST:
        address = columns.shape[1].bit_length() - 1
        found["TABLE_LUTS"] = sum(_luts(column, address, family != "ecp5") for column in different)
    return found


def _columns(words: Sequence[int], bits: int) -> Bits:
    """The bits of all words, each a row; above the last word anything is what needs no logic."""
    places = 1 << max(len(words) - 1, 0).bit_length()
    size = (bits + 7) // 8
    packed = b"".join(word.to_bytes(size, "little") for word in words)
    plain = np.unpackbits(np.frombuffer(packed, np.uint8).reshape(len(words), size), axis=1, bitorder="little")
    columns = np.full((bits, places), _UNKNOWN, np.uint8)
    columns[:, : len(words)] = plain[:, :bits].T
    step = 1
    while step < places:
        halves = columns.reshape(bits, -1, 2, step)
        np.copyto(halves[:, :, 1], halves[:, :, 0], where=halves[:, :, 1] == _UNKNOWN)
        step *= 2
    return columns


def _support(column: Bits, address: int) -> int:
    """Bits of the address that it depends on."""
    halves = (column.reshape(-1, 2, 1 << bit) for bit in range(address))
    return sum(bool((pair[:, 0] != pair[:, 1]).any()) for pair in halves)


def _luts(column: Bits, address: int, xilinx: bool) -> int:
    """Look-up tables of one bit: none where it is a bit of the address."""
    support, most = _support(column, address), WIDEST[xilinx]
    if support <= 1:
        return int(column[0])  # a bit of the address, or that inverted
    if support <= most or address <= most:
        return wide(xilinx, support)
    parts = [part for part in column.reshape(-1, 1 << most) if part.min() != part.max()]
    chosen = (1 << (address - most)) - 1
    return sum(wide(xilinx, _support(part, most)) for part in parts) + (-(-chosen // 3) if xilinx else chosen)
