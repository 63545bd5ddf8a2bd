"""The benches of ``slot_buffer`` and ``slot_rom``.

Each token reads the rows of its sequence up to its own, or the values of its position, whatever others do.
"""

from __future__ import annotations

import numpy as np

from mase_hw.formats import FixedFormat
from mase_hw.simulate.result import SimResult

from .benches import U8, Bench, noise, on_library, plays, port

TOKENS = 400


def slot_rows(rows: int, words: int, slots: int, capacity: int) -> Bench:
    """Tokens of any slots; sequences begin when a token says so, and behind their last row."""
    rng = np.random.default_rng([rows, words, slots])
    data = noise(TOKENS * words, U8)[:, 0].reshape(TOKENS, words)
    held: list[list[list[int]]] = [[] for _ in range(slots)]
    codes, seen = [], []
    for row in data.tolist():
        slot, begins = int(rng.integers(slots)), rng.random() < 0.2
        if begins or len(held[slot]) == rows:
            held[slot] = []
        held[slot].append(row)
        codes.append(slot + slots * begins)
        seen += [word for each in held[slot] for word in each]
    code = FixedFormat(slots.bit_length(), 0, signed=False)
    streams = (
        port("slot_in", "in", TOKENS, code),
        port("in_data", "in", TOKENS * words, U8),
        port("out_data", "out", len(seen), U8),
    )
    sizes = {"ROWS": rows, "WORDS": words, "SLOTS": slots, "CAPACITY": capacity}
    dut = on_library("slot_buffer_bench", ("slot_position.sv", "slot_buffer.sv"), streams, WIDTH=8, **sizes)
    beats = {"slot_in": np.array(codes)[:, None], "in_data": data.reshape(-1, 1), "out_data": np.array(seen)[:, None]}

    def holds(name: str, result: SimResult) -> None:
        assert result.beats_compared == len(seen) > data.size
        if name == "full rate":  # the first row is read as it comes: two cycles from a word to the output
            assert result.presented["out_data"][0] == result.accepted["in_data"][0] + 2

    return Bench(dut, plays(beats), holds)


def slot_rom(rows: int, words: int, slots: int) -> Bench:
    """Tokens of any slots; a sequence begins again when a token says so, and behind its last row."""
    rng = np.random.default_rng([rows, words, slots, 1])
    stored = noise(rows * words, U8, seed=2).reshape(rows, words)
    position, codes, seen = [0] * slots, [], []
    for _ in range(TOKENS):
        slot, begins = int(rng.integers(slots)), rng.random() < 0.2
        row = 0 if begins else position[slot]
        position[slot] = (row + 1) % rows
        codes.append(slot + slots * begins)
        seen += stored[row].tolist()
    code = FixedFormat(slots.bit_length(), 0, signed=False)
    streams = (port("in_data", "in", TOKENS, code), port("out_data", "out", TOKENS * words, U8))
    # The file is a parameter, so that mutated copies have it by names of their own.
    sizes = {"WIDTH": 8, "DEPTH": rows * words, "SLOTS": slots, "ROWS": rows}
    files = ("slot_position.sv", "slot_rom.sv")
    dut = on_library("slot_rom_bench", files, streams, MEM_FILE="mem/rom.mem", **sizes)
    beats = {"in_data": np.array(codes)[:, None], "out_data": np.array(seen)[:, None]}

    def holds(name: str, result: SimResult) -> None:
        if name == "full rate":
            first, taken = result.presented["out_data"], result.accepted["in_data"]
            # A token is taken with its last beat; its first is at the output a cycle after it was offered.
            assert (np.diff(first) == 1).all() and first[words - 1] == taken[0] + 1

    return Bench(dut, plays(beats), holds, tuple(stored.ravel().tolist()))


FAULTS = {
    "a row of another slot": ("AddrW'(s * RowTiles * WORDS)", "AddrW'(s / 2 * RowTiles * WORDS)"),
    "a sequence does not wait": ("!(begins && opened[row_slot])", "!(begins && opened[row_slot] && &open_q[row_slot])"),
    "a word that has not come": ("word_q > part", "word_q >= part"),
    "a token is told again": ("if (token_ends) read_q <= after(read_q);", ""),
    "more rows than there is room": ("begun_q != CountW'(CAPACITY) &&", ""),
}
"""What of the module becomes what, so that no run passes in all surroundings."""
