"""Products of two streams, and what reduces, joins or pools them."""

from __future__ import annotations

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
    capacity = p["CAPACITY"] // rows_beside
    held = ceil(capacity / rows)
    tiles = held * row_tiles - (held * rows - capacity) // banks
    depth = tiles * groups * words
    uneven = bool(p["CAUSAL"]) and 4 * words <= row_tiles
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
    # ---- The matrix, where it is not kept by an external_cache.
    if not p.get("STREAMED"):
        counter(t, "matrix.rows", rows)
        address = bits_of(depth)
        t.count(ff=bits_of(groups * words) + bits_of(banks) + address)
        t.logic("matrix.write", address + bits_of(banks) + bits_of(groups * words))
        level(t, "matrix.have", capacity + rows - 1)
        level(t, "matrix.used", capacity)
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
    array["DATA_OUT_0_PARALLELISM_DIM_0"] = lanes_out * beside
    mac_array(t, array, Schedule(lanes_in, beats, columns=beside))


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
