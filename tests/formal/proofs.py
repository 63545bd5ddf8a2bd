"""What is proven: the harnesses with the parameters, and how deep the induction goes."""

from __future__ import annotations

from mase_hw.ops.products._multipliers import logic_rows

from .runner import Harness, Proof

RULES = ("stream_rules",)
FOLLOW = ("stream_follow", *RULES)
STREAM = ("stream_spec", *FOLLOW)
SLICE = Harness("register_slice", parts=STREAM)
SKID = Harness("skid_buffer", parts=STREAM)
FIFO = Harness("stream_fifo", parts=STREAM)
FORK = Harness("stream_fork")
JOIN = Harness("stream_join")
REPLAY = Harness("replay_buffer", needs=("loop_counter",), parts=RULES)
REPACK = Harness("stream_repack", needs=("loop_counter",), parts=RULES)
LINK = Harness(
    "stream_link", needs=("link_send", "link_line", "link_receive", "stream_fifo", "loop_counter"), parts=FOLLOW
)
ROM = Harness("rom_source", needs=("loop_counter", "set_repeat"), parts=RULES)
FETCH = Harness(
    "external_source", needs=("external_blocks", "loop_counter", "set_repeat", "stream_fifo", "replay_buffer")
)
LOOP = Harness("loop_counter")
HOLD = Harness("block_hold", needs=("loop_counter",))
PIPELINE = Harness("pipeline_control", parts=FOLLOW)
FILL = Harness("causal_fill", needs=("causal_limit", "loop_counter"))
POSITION = Harness("slot_position")
ROWS = Harness("row_fifo", needs=("stream_fifo", "loop_counter"), parts=RULES)
VECTORS = Harness("vector_buffer")
WINDOWS = Harness("window_control", needs=("window_rise",))
STEPS = Harness("matrix_steps", needs=("causal_limit", "loop_counter"))
CROSS = Harness("system_async_fifo", needs=("system_sync",), clocks=True)
RESET = Harness("system_reset", needs=("system_sync",), parts=("reset_spec",), clocks=True)
SAMPLE = Harness("system_sample", needs=("system_sync", "system_reset"), parts=("reset_spec",), clocks=True)
REGISTERS = Harness("system_registers")
MASTER = ("system_bursts", "stream_fifo", "loop_counter")
READER = Harness("system_dma_read", needs=MASTER, parts=("axi_read_rules", "burst_rules"))
WRITER = Harness("system_dma_write", needs=MASTER, parts=("axi_write_memory", "burst_rules"))
SHARE = ("system_order", "stream_fifo")
READERS = Harness("system_share_read", needs=SHARE, parts=("share_spec", "axi_read_rules"))
REQUESTS = Harness("system_parameters", parts=("axi_read_rules",))
IMAGE = Harness("external_image")
TURNS = Harness("external_reader", needs=("stream_fifo",), parts=("share_spec",))
FETCHES = Harness("cache_reader", needs=("stream_fifo",), parts=("share_spec",))
STORES = Harness("cache_writer")
CACHED = Harness("cache_blocks", needs=("loop_counter",))
CACHE = Harness(
    "external_cache",
    needs=(
        *("matrix_steps", "causal_limit", "loop_counter", "matrix_buffer"),
        *("cache_blocks", "external_blocks", "stream_fifo"),
    ),
)
GENERATES = Harness("token_loop", needs=("stream_fork", "stream_fifo"))
WRITERS = Harness("system_share_write", needs=SHARE, parts=("share_spec", "axi_write_memory"))
RECORDS = Harness("system_records")
GATE = Harness("frame_gate", needs=("system_records", "loop_counter"))
CAST = Harness("fixed_cast_unit", parts=("rounded_rules",))
ELEMENT = Harness("block_round_lane")
DIVIDE = Harness("fixed_divide_unit", needs=("fixed_cast_unit",), parts=("rounded_rules",))
LOGIC = Harness("fixed_logic_product", needs=("fixed_adder_tree",))
BLOCK = Harness("fixed_block_product")
MAC = Harness(
    "fixed_mac_array",
    needs=(
        *("fixed_adder_tree", "fixed_carry_tree", "fixed_dot_product", "fixed_chain_product", "fixed_sign_product"),
        *("fixed_logic_product", "fixed_dot_products"),
        *("fixed_accumulator", "fixed_cast_unit", "fixed_mac_lane", "fixed_mac_sides", "loop_counter"),
        *("mac_control", "partial_sums", "stream_fifo"),
    ),
)

LINES = ("9", "3", "c", "1", "7")
"""Of a memory; no two lines are equal."""


def fifo(depth: int, lut_depth: int) -> Proof:
    """A FIFO of that depth; with a LUT depth below it, in block memory."""
    return Proof(FIFO, {"DEPTH": depth, "LUT_DEPTH": lut_depth}, cover=depth + 4 if depth <= 3 else 0)


def replay(length: int, repeats: int, depth: int = 0) -> Proof:
    """Vectors of that length, sent so often, in a memory of two or of so many beats; without repetition it is wires."""
    cover = 3 * length * repeats + 2 if repeats > 1 and length * repeats <= 6 else 0
    return Proof(REPLAY, {"LEN": length, "REPEATS": repeats, "DEPTH": depth or 2 * length}, cover=cover)


def fetch(row: int, block: int, depth: int, room: int, pace: int, extra: int = 0, of: int = 1, asks: int = 1) -> Proof:
    """A source of so many beats in external memory, in rows of blocks, so many of which it holds."""
    sizes = {"ROW": row, "BLOCK": block, "DEPTH": depth, "ROOM": room, "ASKS": asks}
    sizes |= {"PACE": pace, "EXTRA": extra, "OF": of}
    return Proof(FETCH, sizes, cover=24 if row == block == 1 else 0)


def repack(in_lanes: int, out_lanes: int, in_size: int, out_size: int, cover: int = 0) -> Proof:
    """Rows of ``in_size`` elements into rows of ``out_size``."""
    sides = {"IN_LANES": in_lanes, "OUT_LANES": out_lanes, "IN_SIZE": in_size, "OUT_SIZE": out_size}
    return Proof(REPACK, sides, cover=cover)


def link(width: int, word: int, latency: int, credits: int, pace: int = 1, cover: int = 0) -> Proof:
    """A link of beats and words of so many bits, cycles on the way and credits, with a word every so many cycles."""
    sizes = {"WIDTH": width, "WORD": word, "LATENCY": latency, "CREDITS": credits, "PACE": pace}
    return Proof(LINK, sizes, cover=cover)


def cast(in_width: int, in_signed: int, out_width: int, out_signed: int, shifts: range) -> Proof:
    """One pair of formats, at those shifts."""
    formats = {"IN_WIDTH": in_width, "IN_SIGNED": in_signed, "OUT_WIDTH": out_width, "OUT_SIGNED": out_signed}
    return Proof(CAST, {**formats, "SHIFT_MIN": shifts.start, "SHIFTS": len(shifts)}, k=0)


def element(width: int, signed: int, top: int, digits: int, most: int) -> Proof:
    """Elements of a block on a grid of that width."""
    sizes = {"WIDTH": width, "SIGNED": signed, "TOP": top, "DIGITS": digits, "MOST": most}
    return Proof(ELEMENT, sizes, k=0)


def every_shift(in_width: int) -> range:
    """From two fraction bits more to so many fewer that one more changes nothing, and one more than that."""
    return range(-2, in_width + 4)


def divide(**parameters: int) -> Proof:
    """A divider with these parameters, the others as in the harness."""
    return Proof(DIVIDE, parameters, cover=5)


def mac(cover: int = 0, **parameters: int) -> Proof:
    """An array with these parameters, the others as in the harness; the induction spans its multipliers and adders."""
    stages = 2 + (parameters["N"] - 1).bit_length() + parameters.get("HAS_SHIFT", 0)
    return Proof(MAC, parameters, k=stages + 1, cover=cover)


def logic(n: int, group: int, a: tuple[int, int], b: tuple[int, int]) -> Proof:
    """A dot product of look-up tables, of so many products and operands of those widths, signed or not."""
    latency = 1 + -(-logic_rows((a[0], bool(a[1])), (b[0], bool(b[1]))) // 2) + (-(-n // group) - 1).bit_length()
    operands = {"A_WIDTH": a[0], "A_SIGNED": a[1], "B_WIDTH": b[0], "B_SIGNED": b[1]}
    return Proof(LOGIC, {"N": n, "GROUP": group, **operands, "LATENCY": latency}, k=latency + 1)


def block_product(a: int, b: int, block: int) -> Proof:
    """A product of operands of those widths by a block of so many bits."""
    return Proof(BLOCK, {"A_WIDTH": a, "B_WIDTH": b, "BLOCK": block}, k=0)


def rows(depth: int, length: int) -> Proof:
    """A FIFO of so many beats, for rows of that length."""
    return Proof(ROWS, {"DEPTH": depth, "LEN": length}, cover=2 * length + 6)


def vectors(length: int, count: int) -> Proof:
    """A buffer for so many vectors of that length."""
    return Proof(VECTORS, {"LEN": length, "VECTORS": count}, cover=2 * length + 6)


def fill(tokens: int, heads: int, rows: int, banks: int) -> Proof:
    """Scores of so many tokens and heads, for rows in banks."""
    return Proof(FILL, {"TOKENS": tokens, "HEADS": heads, "ROWS": rows, "BANKS": banks})


def position(slots: int, rows: int, banks: int, cover: int = 0) -> Proof:
    """Of sequences in so many slots, each of so many rows in banks."""
    return Proof(POSITION, {"SLOTS": slots, "ROWS": rows, "BANKS": banks}, cover=cover)


def windows(
    image: tuple[int, ...], span: tuple[int, ...], strides: tuple[int, ...], *depth: int, cover: int = 0
) -> Proof:
    """Rows and columns of the image and of windows; span; stride and padding; beats per pixel and of the buffer."""
    names = [
        "IN_H",
        "IN_W",
        "OUT_H",
        "OUT_W",
        "SPAN_H",
        "SPAN_W",
        "STRIDE_H",
        "STRIDE_W",
        "PAD_H",
        "PAD_W",
        "TILES",
        "DEPTH",
    ]
    return Proof(WINDOWS, dict(zip(names, (*image, *span, *strides, *depth), strict=True)), cover=cover)


def blocks(rows: int, words: int, span: int, banks: int, tiles: int, bus: int, row: int = 1, base: int = 0) -> Proof:
    """Sequences of so many rows of words, in blocks of tiles of banks; bits and words of a word of memory."""
    names = ("ROWS", "WORDS", "SPAN", "BANKS", "BLOCK", "BUS", "ROW", "BASE")
    sizes = dict(zip(names, (rows, words, span, banks, tiles, bus, row, base), strict=True))
    return Proof(CACHED, sizes, cover=16 if banks == tiles == 1 else 0)


def cache(transposed: int, rows: int, heads: int, groups: int, words: int, banks: int, tiles: int) -> Proof:
    """Of a product, summed or multiplied rows; rows, heads and groups of words, banks and tiles of a block."""
    names = ("TRANSPOSED", "ROWS", "HEADS", "GROUPS", "WORDS", "BANKS", "BLOCK")
    sizes = dict(zip(names, (transposed, rows, heads, groups, words, banks, tiles), strict=True))
    return Proof(CACHE, sizes, cover=16 if rows == 3 else 0)


def steps(transposed: int, causal: int, tokens: int, heads: tuple[int, int], rows: tuple[int, int, int, int]) -> Proof:
    """Heads and groups that they share; rows, banks, words and tiles of the buffer."""
    names = ("TRANSPOSED", "CAUSAL", "TOKENS", "HEADS", "GROUPS", "ROWS", "BANKS", "WORDS", "TILES")
    return Proof(STEPS, dict(zip(names, (transposed, causal, tokens, *heads, *rows), strict=True)))


PROOFS = [
    Proof(SLICE, cover=5),
    Proof(SKID, cover=5),
    *(fifo(depth, lut_depth) for lut_depth in (32, 0) for depth in range(1, 9)),
    *(Proof(FORK, {"N": n}, cover=5) for n in range(1, 5)),
    *(Proof(JOIN, {"N": n}, cover=4) for n in range(1, 4)),
    *(replay(*shape) for shape in ((1, 1), (1, 2), (2, 2), (1, 3), (3, 2), (2, 3), (4, 3))),
    *(replay(*shape) for shape in ((1, 2, 1), (2, 2, 3), (3, 2, 3), (3, 3, 4), (1, 2, 4), (2, 2, 5), (2, 3, 8))),
    *(
        Proof(ROM, {"DEPTH": d, "REGISTERS": registers}, cover=d + 5, memory=LINES[:d])
        for d in (1, 2, 5)
        for registers in (0, 1, 2)
    ),
    # As many lanes, dividing lanes both ways, lanes without a common factor, ragged rows, rows of other lengths.
    *(repack(1, 1, 3, 3, 8), repack(1, 4, 8, 8), repack(4, 1, 8, 8), repack(4, 2, 10, 10)),
    *(repack(4, 3, 10, 10, 10), repack(3, 4, 10, 10), repack(7, 2, 7, 7), repack(5, 3, 16, 16)),
    *(repack(3, 3, 5, 7, 10), repack(4, 4, 10, 30), repack(8, 3, 8, 24), repack(2, 7, 6, 21), repack(6, 4, 9, 15)),
    # Rings of beats: of the input, of the output, ragged or not.
    *(repack(4, 2, 8, 16), repack(4, 2, 10, 20, 14), repack(2, 4, 8, 16), repack(2, 4, 10, 10, 14)),
    # The same of short pieces.
    *(repack(4, 2, 7, 7), repack(4, 2, 9, 9, 14), repack(2, 4, 7, 7), repack(2, 4, 9, 9, 14), repack(3, 3, 7, 7, 10)),
    # One word to a beat, ragged words, one credit, slow words; wires, and a way of some cycles.
    *(link(1, 1, 0, 1, 1, 10), link(2, 1, 0, 3), link(3, 2, 1, 2), link(2, 2, 2, 4), link(3, 1, 2, 3, 2, 24)),
    *(Proof(CROSS, {"LOG2": log2, "FIRST_IN": first}, cover=24) for log2, first in ((1, 0), (2, 0), (2, 1), (1, 1))),
    *(Proof(RESET, {"LEFT": left}) for left in (8, 5)),
    *(Proof(SAMPLE, {"LEFT": left}) for left in (8, 5)),
    Proof(REGISTERS),
    *(
        Proof(harness, {"FRAME_BEATS": beats, "BURST": burst, "GAP": gap}, cover=14)
        for harness in (READER, WRITER)
        for beats, burst, gap in ((3, 2, 0), (5, 4, 1), (1, 3, 2))
    ),
    Proof(READERS, cover=12),
    Proof(WRITERS, cover=14),
    Proof(TURNS, cover=12),
    *(Proof(FETCHES, {"ROWS": rows, "BLOCK": block}) for rows, block in ((3, 1), (7, 2), (5, 1))),
    *(
        Proof(GENERATES, {"SLOTS": slots, "FRAMES": frames, "CONTEXT": context, "LENGTH": length}, cover=12)
        for slots, frames, context, length in ((1, 0, 3, 2), (1, 1, 3, 3), (1, 1, 2, 3), (2, 0, 3, 2), (2, 1, 2, 2))
    ),
    *(Proof(STORES, {"CACHES": caches}, cover=12) for caches in (2, 3)),
    # One beat a block; units of several words, of parts, of packs, ragged sequences, a word across two of memory.
    *(blocks(*shape) for shape in ((5, 1, 1, 1, 1, 3), (13, 2, 1, 2, 2, 9, 2, 3), (7, 4, 2, 1, 2, 1))),
    *(blocks(*shape) for shape in ((13, 2, 2, 1, 3, 8, 3), (9, 2, 1, 1, 4, 5, 2), (10, 2, 2, 3, 1, 4, 1, 5))),
    *(cache(way, 3, 1, 1, 1, 1, 1) for way in (0, 1)),
    *(cache(*shape) for shape in ((0, 7, 1, 1, 2, 2, 1), (1, 11, 4, 2, 1, 2, 2), (0, 10, 2, 2, 1, 3, 1))),
    Proof(IMAGE, {"WORDS": 1}, cover=16),
    Proof(IMAGE, {"STORED": 1}, cover=16),
    Proof(IMAGE, {"WORDS": 2, "BURST": 3}, cover=16),
    *(Proof(REQUESTS, {"BURST": burst}, cover=cover) for burst, cover in ((1, 0), (3, 8), (256, 8))),
    *(Proof(RECORDS, {"INPUTS": inputs}, cover=8) for inputs in (2, 3)),
    Proof(GATE, {"INPUTS": 2, "OUTPUTS": 2}, cover=12),
    Proof(GATE, {"INPUTS": 2, "FIRST": 3, "OTHER": 2, "RESULT": 3}, cover=14),
    Proof(GATE, {"OUTPUTS": 2, "FIRST": 1, "OTHER": 3}, cover=14),
    *(fetch(*shape) for shape in ((1, 1, 4, 2, 2), (2, 1, 4, 2, 1), (1, 2, 4, 2, 3))),
    Proof(FETCH, {**fetch(1, 1, 4, 2, 1).parameters, "SETS": 2, "REPEATS": 2}),
    fetch(1, 1, 3, 3, 1, 2, 3),
    *(fetch(*shape) for shape in ((1, 1, 4, 3, 1, 0, 1, 3), (1, 1, 3, 3, 1, 2, 3, 2), (1, 2, 4, 2, 3, 0, 1, 2))),
    Proof(LOOP, {"MAX": 17}, cover=10),
    *(Proof(PIPELINE, {"STAGES": stages}, cover=2 * stages + 4) for stages in (1, 3)),
    *(rows(*shape) for shape in ((3, 1), (5, 3))),
    *(vectors(*shape) for shape in ((1, 2), (3, 2))),
    *(fill(*shape) for shape in ((1, 1, 1, 1), (4, 2, 5, 2))),
    # Rows that fill their tiles, and that do not; one tile, one row.
    *(position(2, 4, 2, 8), position(4, 5, 2), position(2, 3, 4), position(2, 1, 1)),
    # Both products; shared matrices, ragged ones, some longer than there are tokens, in a ring of tiles.
    *(steps(way, limit, 3, (4, 2), (5, 2, 2, 5)) for way in (0, 1) for limit in (0, 1)),
    # As convolutions have them; strides that leave pixels out; windows that lie in the padding.
    windows((4, 4, 4, 4), (2, 2), (1, 1, 1, 1), 1, 12, cover=30),
    windows((5, 3, 2, 2), (1, 0), (3, 2, 0, 0), 2, 9),
    windows((3, 3, 5, 4), (1, 2), (2, 1, 4, 2), 1, 9),
    mac(12, N=1, RUN=1),
    mac(N=2, RUN=2),
    mac(N=2, RUN=3, HAS_BIAS=1, BIAS_FRAC=3),
    mac(N=1, RUN=4, HAS_BIAS=1, BIAS_FRAC=0, BIAS_SIGNED=0, A_SIGNED=0),
    mac(N=2, RUN=1, LANES=2, HAS_SHIFT=1, A_SIGNED=0, B_SIGNED=0),
    mac(N=3, RUN=2, HAS_BIAS=1, BIAS_FRAC=2, HAS_SHIFT=1),
    mac(N=2, RUN=3, HAS_BIAS=1, BIAS_FRAC=2, HAS_SHIFT=1, EVERY_SHIFT=1),
    mac(N=2, RUN=3, HAS_BIAS=1, BIAS_FRAC=3, HAS_SHIFT=1, EVERY_SHIFT=1, FACTORS=1),
    mac(16, N=1, RUN=2, HAS_SHIFT=1, EVERY_SHIFT=1, AHEAD=1),
    *(Proof(HOLD, {"ROW": row, "BLOCK": block}, cover=row + 3) for row, block in ((1, 1), (4, 4), (5, 2), (7, 3))),
    *(mac(10, N=n, RUN=run, FLOWING=1) for n, run in ((2, 1), (1, 2), (2, 3))),
    mac(12, N=1, RUN=1, HAS_BIAS=1, AHEAD=1),
    mac(16, N=2, RUN=2, HAS_BIAS=1, BIAS_FRAC=3, HAS_SHIFT=1, AHEAD=1),
    mac(18, N=1, RUN=4, HAS_BIAS=1, BIAS_FRAC=0, BIAS_SIGNED=0, A_SIGNED=0, AHEAD=1),
    *(mac(12, N=n, RUN=run, FLOWING=1, AHEAD=1) for n, run in ((2, 1), (1, 2))),
    # Every sign, rows of either operand, even and odd numbers of them, one row; pairs, and one left over.
    *(logic(1, 1, (a, s), (b, t)) for a, b in ((4, 4), (3, 5), (1, 3)) for s in (0, 1) for t in (0, 1)),
    *(logic(2, 2, (3, s), (3, t)) for s in (0, 1) for t in (0, 1)),
    *(logic(1, 1, (1, s), (1, t)) for s in (0, 1) for t in (0, 1)),
    *(logic(3, group, (2, 1), (2, 1)) for group in (1, 2)),
    block_product(4, 4, 0),
    block_product(3, 6, 4),
    block_product(5, 3, 3),
    block_product(6, 5, 4),
    element(10, 1, 4, 0, 31),
    element(8, 0, 2, 0, 7),
    element(10, 1, 3, 2, 3),
    element(11, 1, 8, 3, 7),
    element(9, 0, 5, 4, 14),
    element(4, 1, 0, 0, 1),
    cast(12, 1, 8, 1, every_shift(12)),
    cast(12, 0, 5, 0, every_shift(12)),
    cast(8, 0, 12, 1, every_shift(8)),
    cast(7, 1, 3, 0, every_shift(7)),
    cast(3, 1, 12, 0, every_shift(3)),
    *(cast(1, a, 1, b, every_shift(1)) for a in (0, 1) for b in (0, 1)),
    divide(IN_WIDTH=7, IN_FRAC=3, COL_MIN=7, OUT_WIDTH=4, OUT_FRAC=1),
    divide(IN_WIDTH=4, ROW_MIN=2, ROWS=2, COLS=2),
    divide(IN_WIDTH=4, COL_MIN=9, OUT_FRAC=3, OUT_SIGNED=0),
    divide(IN_WIDTH=4, IN_FRAC=9, COL_MIN=3),
    divide(IN_WIDTH=6, IN_FRAC=4, COL_MIN=2, COLS=2, OUT_WIDTH=3),
]
"""Proven by `make test`, which takes those of :data:`OFTEN`, and by `make test-long`, which takes the others."""

_BY_HARNESS = [[p for p in PROOFS if p.harness == harness] for harness in dict.fromkeys(p.harness for p in PROOFS)]
OFTEN = frozenset(p.id for group in _BY_HARNESS for p in (group[0], group[-1]))
"""Of the proofs of a module the first and the last, in every run."""

WIDE = [
    *(cast(a, (a + b) % 2, b, (a + b // 2) % 2, every_shift(a)) for a in range(1, 13) for b in range(1, 13)),
    divide(IN_WIDTH=10, IN_FRAC=2, COL_MIN=7, OUT_WIDTH=8),
    divide(IN_WIDTH=6, ROW_MIN=2, ROWS=2, COLS=3),
    *(logic(1, 1, (a, s), (b, t)) for a in range(1, 6) for b in range(1, 6) for s in (0, 1) for t in (0, 1)),
    *(logic(2, 2, (a, s), (b, t)) for a in range(1, 4) for b in range(1, 5) for s in (0, 1) for t in (0, 1)),
    *(repack(i, o, a, b) for i in range(1, 6) for o in range(1, 6) for a, b in ((6, 6), (7, 7), (5, 8), (9, 3))),
    *(replay(length, repeats) for length in range(1, 7) for repeats in range(2, 6)),
    *(Proof(FORK, {"N": n}, cover=5) for n in (5, 8)),
    *(Proof(PIPELINE, {"STAGES": stages}, cover=2 * stages + 4) for stages in (2, 5, 8)),
    *(rows(*shape) for shape in ((4, 2), (4, 4), (7, 3), (6, 5))),
    *(vectors(*shape) for shape in ((2, 2), (2, 4), (1, 3), (4, 2))),
    *(fill(*shape) for shape in ((3, 2, 3, 1), (3, 3, 7, 3), (2, 1, 8, 4), (5, 1, 5, 5))),
    *(steps(way, limit, 1, (1, 1), (1, 1, 1, 1)) for way in (0, 1) for limit in (0, 1)),
    *(steps(way, limit, 4, (2, 2), (4, 3, 3, 4)) for way in (0, 1) for limit in (0, 1)),
]
"""Proven by `make test-long`: what differs in sizes only."""
