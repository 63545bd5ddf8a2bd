"""Products of two streams, and what reduces, joins or pools them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mase_hw.cost.casts import Parameters, Terms, bits_of
from mase_hw.cost.primitives import counter, fifo, level, ram, ring
from mase_hw.cost.products import Schedule, mac_array

_NO_BIAS = {
    "HAS_BIAS": 0,
    "BIAS_PRECISION_0": 1,
    "BIAS_PRECISION_1": 0,
    "BIAS_SIGNED": 1,
    "HAS_WEIGHT_SHIFT": 0,
    "WEIGHT_SHIFT_PRECISION_0": 1,
    "PACKED": 1,
    "CHAIN": 0,
    "SPACING": 17,
    "NARROW": 0,
    "LIFT": 0,
    "LOGIC": 0,
}


def matmul(t: Terms, p: Parameters) -> None:
    """A ``fixed_matmul``: a matrix and vectors are kept, and an array multiplies them."""
    rows_first = bool(p["TRANSPOSED"])
    ins, outs = p["DATA_IN_0_TENSOR_SIZE_DIM_0"], p["DATA_OUT_0_TENSOR_SIZE_DIM_0"]
    lanes_in, lanes_out = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_OUT_0_PARALLELISM_DIM_0"]
    # Tokens of a beat have multipliers of their own; its rows are one to the buffer, as many times as wide.
    beside, rows_beside = p["DATA_IN_0_PARALLELISM_DIM_2"], p["DATA_IN_1_PARALLELISM_DIM_2"]
    rows = (outs if rows_first else ins) // rows_beside
    banks = (lanes_out if rows_first else lanes_in) // rows_beside
    heads, groups = p["DATA_IN_0_TENSOR_SIZE_DIM_1"], p["DATA_IN_1_TENSOR_SIZE_DIM_1"]
    tokens = p["DATA_IN_0_TENSOR_SIZE_DIM_2"] // beside // (p["DATA_IN_1_TENSOR_SIZE_DIM_2"] // rows_beside // rows)
    beats = ceil(ins / lanes_in)
    words = beats if rows_first else ceil(outs / lanes_out)
    row_tiles = ceil(rows / banks)
    capacity, causal = p["CAPACITY"] // rows_beside, bool(p["CAUSAL"])
    slots = 1 << (p["SLOT_PRECISION_0"] - 1) if p.get("HAS_SLOT") else 0
    held = ceil(capacity / rows)
    tiles = row_tiles if slots else held * row_tiles - (held * rows - capacity) // banks
    depth = max(slots, 1) * tiles * groups * words
    uneven = causal and 4 * words <= row_tiles
    held_beats = min(2 * row_tiles, 32) if uneven and rows_first else 2
    vectors = 4 if uneven and not rows_first and row_tiles <= 16 else 2
    width_in = lanes_in * beside * p["DATA_IN_0_PRECISION_0"]
    width_rows = (lanes_in if rows_first else lanes_out) * rows_beside * p["DATA_IN_1_PRECISION_0"]
    t.logic("any", 1)
    _steps(t, (banks, row_tiles), (groups, words), (heads // groups, tokens), depth)
    # ---- Vectors.
    places = 3 if beats == 1 and vectors == 2 else vectors * beats
    ring(t, "vector.write", places)
    ring(t, "vector.base", places)
    for _ in range(2):
        level(t, "vector.level", places + beats)
    ram(t, "vector.ram", places, width_in, True)
    # ---- What a token sees, and zeros in place of scores of the rest.
    limit = _Limit(tokens, rows, banks, row_tiles)
    if slots:
        limit.of_slots(t, "slots.position", slots)
    elif causal:
        limit.of_tokens(t, "limit", bits_of(rows + 1))
    if causal and rows_first:
        bits_tile = bits_of(row_tiles)
        t.count(ff=1 + bits_tile)
        t.logic("fill.tile", bits_tile)
        t.logic("fill.data", lanes_out * beside * p["DATA_OUT_0_PRECISION_0"])
        counter(t, "fill.heads", heads)
        if slots:
            fifo(t, "fill.noted", max(bits_tile, 1), held_beats + bits_of(lanes_in) + 8)
        else:
            counter(t, "fill.token", tokens)
            limit.of_tokens(t, "fill.limit", 0)
    # ---- The matrix, where it is not kept by an external_cache.
    if slots:
        _slots(t, limit, slots, capacity, (groups * words, depth))
        ram(t, "matrix.ram", depth, width_rows, True, banks)
    elif not p.get("STREAMED"):
        counter(t, "matrix.rows", rows)
        address = bits_of(depth)
        t.count(ff=bits_of(groups * words) + bits_of(banks) + address)
        t.logic("matrix.write", address + bits_of(banks) + bits_of(groups * words))
        level(t, "matrix.have", capacity + rows - 1)
        level(t, "matrix.used", capacity)
        t.logic("matrix.early", bits_of(capacity + rows) if causal else 0)
        ram(t, "matrix.ram", depth, width_rows, True, banks)
    # ---- Registers of a step.
    t.count(ff=2 + (bits_of(beats + 1) if beats > 1 else 1) + bits_of(banks + 1))
    padded = rows % banks
    t.both("keep", banks - padded if padded else 0)
    t.logic("kept", (banks - padded) * width_rows if padded else 0)
    if p["CAUSAL"] and rows_beside > 1:
        # Rows of its own beat that a token does not see.
        t.count(ff=banks)
        t.logic("kept", banks * width_rows * (rows_beside - 1) // 2)
    array = {**p, **_NO_BIAS, **{f"WEIGHT_{k}": p[f"DATA_IN_1_{k}"] for k in ("PRECISION_0", "PRECISION_1", "SIGNED")}}
    shortest = (rows - tokens) // banks + 1 if causal and not rows_first else beats
    array["DATA_OUT_0_PARALLELISM_DIM_0"] = lanes_out * beside
    mac_array(t, array, Schedule(lanes_in, beats, columns=beside, shortest=shortest, held=held_beats))


@dataclass(frozen=True)
class _Limit:
    """What the token of a causal product sees: up to which tile of its matrix, and which bank of that.

    Args:
        tokens: Of a frame.
        rows: Of a matrix.
        banks: Rows side by side.
        tiles: So many rows take.
    """

    tokens: int
    rows: int
    banks: int
    tiles: int

    @property
    def bits(self) -> int:
        """Of a place: the tile and the bank."""
        return bits_of(self.tiles) + (bits_of(self.banks + 1) if self.banks > 1 else 0)

    def of_tokens(self, t: Terms, name: str, more: int) -> None:
        """A ``causal_limit`` beside the counter of its tokens, of which so many bits of the rows are read."""
        t.count(ff=self.bits + more)
        t.logic(name, self.bits + more)

    def of_slots(self, t: Terms, name: str, slots: int) -> None:
        """A ``slot_position``: a place for each sequence."""
        t.count(ff=slots * self.bits)
        t.logic(name, slots * self.bits)
        t.logic(f"{name}.next", self.bits)


def _slots(t: Terms, limit: _Limit, slots: int, capacity: int, matrix: tuple[int, int]) -> None:
    """A ``slot_buffer`` but for its memories: slots that wait, and rows by sequence."""
    words, depth = matrix
    tags, tag = capacity + 1, bits_of(slots) + 1
    for name in ("come", "row", "read"):
        ring(t, f"slots.{name}", tags)
    for name in ("known", "used", "begun", "have"):
        level(t, f"slots.{name}", tags)
    for _ in range(2):  # read for the row that comes, and for the token that is multiplied
        ram(t, "slots.tags", tags, tag, False)
    open_rows = slots * bits_of(tags + 1)
    t.count(ff=open_rows + bits_of(words))
    t.logic("slots.open", open_rows)
    t.logic("slots.place", bits_of(depth))
    limit.of_slots(t, "slots.position", slots)


def external_cache(t: Terms, p: Parameters) -> None:
    """An ``external_cache``: two blocks of rows that are read, the same to be written, and what comes back."""
    words, block = p["GROUPS"] * p["WORDS"], p["BLOCK"] * p["BANKS"]
    row_tiles = ceil(p["ROWS"] / p["BANKS"])
    tiles = row_tiles - (p["ROWS"] - 2 * block) // p["BANKS"]
    _steps(t, (p["BANKS"], row_tiles), (p["GROUPS"], p["WORDS"]), (p["HEADS"] // p["GROUPS"], p["ROWS"]), tiles * words)
    ram(t, "matrix.ram", tiles * words, p["WIDTH"], True, p["BANKS"])
    ram(t, "blocks.ram", 2 * p["BLOCK"] * words, p["WIDTH"], True, p["BANKS"])
    span = p["WORDS"] if p["TRANSPOSED"] else 1
    fifo(t, "rows", p["ROW"] * p["BANKS"] * p["WIDTH"], p["ROOM"] * p["BLOCK"] * span // p["ROW"])
    fifo(t, "due", bits_of(p["DELAY"]), p["ROOM"])


def _steps(t: Terms, matrix: tuple[int, int], words: tuple[int, int], loops: tuple[int, int], depth: int) -> None:
    """``matrix_steps``: which word of the matrix meets which of the vector."""
    banks, row_tiles = matrix
    groups, word = words
    address = bits_of(depth)
    for count in loops:
        counter(t, "steps.loop", count)
    t.count(ff=bits_of(row_tiles) + bits_of(word) + 2 * address + (address if groups > 1 else 0))
    t.logic("steps.tile", bits_of(row_tiles))
    t.logic("steps.word", bits_of(word))
    t.logic("steps.base", address)
    t.logic("steps.address", address * (int(groups > 1) + int(word > 1)))
    t.logic("steps.done", bits_of(banks + 1))
