"""What stands between layers, and the layers that only look at one element at a time."""

from __future__ import annotations

from math import ceil, gcd, prod

from mase_hw.cost.casts import SOFT, Cast, Parameters, Terms, bits_of, cast, cast_bits
from mase_hw.cost.primitives import blocks_of, counted_down, fifo, level, multiplied, ram, replay, soft


def stream_fifo(t: Terms, p: Parameters) -> None:
    """A ``stream_fifo``."""
    fifo(t, "fifo", p["WIDTH"], p["DEPTH"])


def stream_fork(t: Terms, p: Parameters) -> None:
    """A ``stream_fork``: what each output has had follows from what all of them have, or take in this cycle."""
    outputs = p["N"]
    t.count(ff=outputs, lut=outputs + _had(t, outputs))
    t.logic("any", 1)


def _had(t: Terms, outputs: int) -> int:
    """Look-up tables of the bits of a fork, each of which depends on all of them and on the readies."""
    pairs, joined = 2 * outputs, ceil(2 * outputs / t.luts.inputs)
    if t.xilinx:
        return outputs + joined
    if t.luts.muxes and pairs <= t.luts.widest + 1:  # in a single function, if that is large enough
        return outputs * t.luts.of(pairs + 1)
    return 3 * outputs - 1


def beat_turn(t: Terms, p: Parameters) -> None:
    """A ``beat_turn``: the register behind its wires, and the gate of its ready."""
    t.count(ff=p["WIDTH"] * p["ROWS"] * p["COLUMNS"] + 1, lut=1)


def replay_buffer(t: Terms, p: Parameters) -> None:
    """A ``replay_buffer``."""
    replay(t, "replay", p["WIDTH"], p.get("DEPTH", 2 * p["LEN"]), p["REPEATS"])


def loop_entry(t: Terms, p: Parameters) -> None:
    """A ``loop_entry``: one of two streams is chosen, with its handshake."""
    t.count(ff=1, lut=p["WIDTH"] + 4)
    _passes(t, p)


def loop_exit(t: Terms, p: Parameters) -> None:
    """A ``loop_exit``: one of two handshakes is chosen."""
    t.count(lut=3)
    _passes(t, p)


def _passes(t: Terms, p: Parameters) -> None:
    bits = counted_down(p["BEATS"]) + counted_down(p["PASSES"])
    t.count(ff=bits, lut=bits + 2)


def stream_repack(t: Terms, p: Parameters) -> None:
    """A ``stream_repack``: beats of one side that are kept whole, or units that shift."""
    taken, given = p["IN_LANES"], p["OUT_LANES"]
    in_rest, out_rest = p["IN_SIZE"] % taken, p["OUT_SIZE"] % given
    unit = gcd(gcd(taken, given), gcd(in_rest, out_rest))
    ins, outs = taken // unit, given // unit
    in_tail, out_tail = (in_rest or taken) // unit, (out_rest or given) // unit
    in_beats, out_beats = ceil(p["IN_SIZE"] / taken), ceil(p["OUT_SIZE"] / given)
    slack = 0 if p["IN_SIZE"] == p["OUT_SIZE"] else ins
    ready = 2 * outs - 1 + slack
    bits = unit * p["WIDTH"]
    smaller = min(ins, outs)
    divides = ins % smaller == outs % smaller == 0 and in_beats > 1 and out_beats > 1
    piece = smaller if slack == 0 and divides else 1
    in_pieces, out_pieces, piece_bits = ins // piece, outs // piece, piece * bits
    splits = out_pieces == 1 and (slack == 0 or in_tail == ins or in_beats > 1)
    joins = in_pieces == 1 and (out_tail == outs or out_beats > 1)
    kind = _kind(splits, joins, slack == 0 and (piece == 1 or not splits), out_tail == outs > 2)
    t.logic(f"{kind}.any", 1)
    level(t, f"{kind}.count", ins + ready)
    for name, tail, units, beats in (("in", in_tail, ins, in_beats), ("out", out_tail, outs, out_beats)):
        if tail != units and beats > 1:
            t.count(ff=counted_down(beats))
            t.logic(f"{name}_ragged.bits", counted_down(beats))
            t.logic(f"{name}_ragged.any", 1)
    in_end, out_end = ceil(in_tail / piece) != in_pieces, ceil(out_tail / piece) != out_pieces
    if kind == "beat":
        t.count(ff=1, lut=bits * t.luts.found(ins))
        t.data((ins + 1) * bits)
        _at(t, kind, ins)
    elif kind == "split":
        t.count(ff=4)
        ram(t, "split.ram", 4, ins * bits, False)
        t.logic("split.found", t.luts.chosen(in_pieces) * piece_bits)
        _at(t, kind, in_pieces, in_end)
    elif kind == "fill":
        t.count(lut=bits)
        t.data(2 * outs * bits)
        _at(t, kind, outs)
        t.logic("fill.filled", outs)
    elif kind == "join":
        row = 1 if slack == 0 and out_tail == outs else 2
        t.count(ff=row)  # that of the reads is the register that Yosys makes for the memory
        t.logic("join.rows", row)
        _at(t, kind, out_pieces, out_end)
        t.logic("join.filled", out_pieces)
        ram(t, "join.ram", 1 << row, piece_bits, False, out_pieces)
    else:
        _shifted(t, (ins, outs, out_tail if out_beats > 1 else outs), ready, bits)
    # What fills the last beat of a row is part of what chooses among registers.
    t.logic("padded", (outs - out_tail) * bits if out_beats > 1 and "join.ram.logic" not in t.lut else 0)
    whole = splits and (slack or piece > 1)
    for name, ragged, beats in (("in", whole and in_end, in_beats), ("out", joins and out_end, out_beats)):
        if ragged and beats > 1:
            t.count(ff=counted_down(beats))
            t.logic(f"{name}_ragged.bits", counted_down(beats))


def _kind(splits: bool, joins: bool, even: bool, whole: bool) -> str:
    """How beats become others, by the names of the module's generated blocks."""
    if splits:
        return "beat" if even else "split"
    if joins:
        return "fill" if even and whole else "join"
    return "shift"


def _at(t: Terms, kind: str, units: int, ragged: bool = False) -> None:
    """The number of a unit in its beat, which counts up, to another one where the last beat of a row has fewer."""
    t.count(ff=bits_of(units))
    t.logic(f"{kind}.at.bits", bits_of(units))
    t.logic(f"{kind}.at.compare", bits_of(units) if units & (units - 1) and not ragged else 0)
    t.logic(f"{kind}.end.any", int(ragged))


def _shifted(t: Terms, units: tuple[int, int, int], ready: int, bits: int) -> None:
    """Units of the input go behind those that are there, units of the output leave from below."""
    ins, outs, tail = units
    capacity = ins + ready
    ragged = tail != outs
    t.data(capacity * bits)
    for slot in range(capacity):
        lanes = min(slot, ins - 1) - max(slot - ready, 0) + 1
        places = lanes + int(slot + outs < capacity) + int(ragged and slot + tail < capacity)
        # How many units leave is known later still where the last beat of a row has fewer.
        t.logic("slots_late" if ragged else "slots", bits * t.luts.late(places, ragged))
        t.logic("choices", places)
    t.logic("insert_at", ready + 1)


def stream_reorder(t: Terms, p: Parameters) -> None:
    """A ``stream_reorder``: the buffers, and the counters of an address."""
    bits = p["WIDTH"]
    sizes = [p[f"SIZE_{i}"] for i in range(6)]
    address = max(bits_of(prod(sizes)), 1)
    digits = [bits_of(size) for size in sizes if size > 1]
    t.count(ff=sum(digits) + 2 * address + 5)
    t.logic("any", 1)
    t.logic("address", address)
    t.logic("digits", sum(digits))
    t.logic("moves", (len(digits) - 1) * address)
    ram(t, "ram", p.get("BANKS", 2) << address, bits, True, forwarded=False)


def elementwise(t: Terms, p: Parameters) -> None:
    """A ``fixed_cast``: casts and a register slice."""
    lanes = p["DATA_OUT_0_PARALLELISM_DIM_0"]
    taken = (p["DATA_IN_0_PRECISION_0"], p["DATA_IN_0_PRECISION_1"], p["DATA_IN_0_SIGNED"])
    _cast_slice(t, p, lanes, taken)


def relu(t: Terms, p: Parameters) -> None:
    """A ``fixed_relu``: the same of numbers that are not negative."""
    lanes, width, signed = (
        p["DATA_OUT_0_PARALLELISM_DIM_0"],
        p["DATA_IN_0_PRECISION_0"],
        p["DATA_IN_0_SIGNED"],
    )
    t.logic("negative", lanes * signed)
    _cast_slice(t, p, lanes, (width - signed, p["DATA_IN_0_PRECISION_1"], 0))


def _cast_slice(t: Terms, p: Parameters, lanes: int, taken: tuple[int, int, int]) -> None:
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    t.logic("any", 1)
    t.count(ff=1 + lanes * cast_bits(taken, given, p["ROUNDING"], p["OVERFLOW"]))
    cast(t, "cast", lanes, Cast(taken, given, (p["ROUNDING"], p["OVERFLOW"])))


def binary(t: Terms, p: Parameters) -> None:
    """A ``fixed_binary``: two streams joined, computed with, cast, and a skid buffer."""
    lanes, operation = p["DATA_OUT_0_PARALLELISM_DIM_0"], p["OPERATION"]
    product = operation == 3
    bits, fracs, signs = [], [], []
    for port in ("DATA_IN_0", "DATA_IN_1"):
        centred = int(p.get(f"{port}_ZERO_POINT", 0) != 0)
        t.logic("centred", lanes * (p[f"{port}_PRECISION_0"] + 1) * centred)
        bits.append(p[f"{port}_PRECISION_0"] + centred + bits_of(p.get(f"{port}_MULTIPLIER", 1)))
        fracs.append(p[f"{port}_PRECISION_1"])
        signs.append(int(bool(p[f"{port}_SIGNED"]) or centred))
    # Sums and products of numbers without sign have none either.
    signed = int(any(signs) or operation not in (0, 3))
    bits = [b + (signed and 1 - s) for b, s in zip(bits, signs, strict=True)]
    exact = sum(bits) if product else max(b + max(fracs) - f for b, f in zip(bits, fracs, strict=True)) + 1
    taken = (exact, sum(fracs) if product else max(fracs), signed)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    way = (p["ROUNDING"], p["OVERFLOW"])
    t.logic("any", 1)
    t.count(ff=2)
    t.data(2 * lanes * cast_bits(taken, given, *way))
    if product:
        blocks = multiplied(
            t, *((p[f"{port}_PRECISION_0"], p[f"{port}_SIGNED"]) for port in ("DATA_IN_0", "DATA_IN_1"))
        )
        # Bits that no rounding reads are not kept.
        drop = max(taken[1] - given[1], 0)
        kept = exact - (min(max(drop - int(way[0] == 1), 0), exact) if way[0] in (1, 2) else 0)
        kept -= max(exact - drop - given[0], 0) if way[1] else 0
        t.count(ff=1, dsp=lanes * blocks)
        t.data(0 if t.takes(blocks) else lanes * kept)
        t.logic("product", lanes if blocks else 0)
        soft(t, "soft.bits", 0 if blocks else lanes, (bits[0], bits[1]), bits[0] * bits[1])
    elif operation < 3:
        apart = abs(fracs[0] - fracs[1])
        added = max(exact - apart - int(apart > 0 and t.xilinx), 1)
        if way[1]:
            added = min(added, max(given[0] + taken[1] - given[1] - apart, 1))
        t.logic("sum" if added > SOFT[t.xilinx] else "soft.sum", lanes * (added if t.xilinx else t.luts.chain(added)))
        _scaled(t, p, lanes)
        if p.get("AHEAD"):
            t.count(ff=1 + lanes * sum(bits))
    else:
        t.logic("compare", lanes * exact)
    cast(t, "cast", lanes, Cast(taken, given, way), held=True, summed=not product)


def _scaled(t: Terms, p: Parameters, lanes: int) -> None:
    """Operands of different scales: each times a constant, in registers of their own."""
    factors = [p.get(f"DATA_IN_{i}_MULTIPLIER", 1) for i in range(2)]
    if factors == [1, 1]:
        return
    t.count(ff=1)
    for i, factor in enumerate(factors):
        width = p[f"DATA_IN_{i}_PRECISION_0"] + (0 if p[f"DATA_IN_{i}_SIGNED"] else 1)
        width += int(p[f"DATA_IN_{i}_ZERO_POINT"] != 0)
        wide = width + bits_of(factor)
        plain = factor & (factor - 1) == 0
        blocks = 0 if plain else blocks_of(t, width, factor.bit_length() + 1, wide)
        t.count(dsp=lanes * blocks)
        # Blocks of Xilinx have the register of their product, but not that of the parts below the last.
        t.count(ff=lanes * (17 * (blocks - 1) if t.adders and blocks else width if plain else wide))
        t.logic("scaled.parts", lanes * max(blocks - 1, 0) * wide)
        size = factor.bit_length()
        soft(t, "scaled.soft", 0 if blocks or plain else lanes, (width, size + 1), width * size)
