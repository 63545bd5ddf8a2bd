"""What stands between layers, and the layers that only look at one element at a time."""

from __future__ import annotations

from math import ceil, gcd, prod

from mase_hw.cost.primitives import blocks_of, cast, cast_bits, chosen, fifo, level, multiplied, ram
from mase_hw.cost.terms import Parameters, Terms, bits_of


def stream_fifo(t: Terms, p: Parameters) -> None:
    """A ``stream_fifo``."""
    fifo(t, "fifo", p["WIDTH"], p["DEPTH"])


def stream_fork(t: Terms, p: Parameters) -> None:
    """A ``stream_fork``."""
    t.both("outputs", p["N"])
    t.logic("any", 1)


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
    splits = outs == 1 and (slack == 0 or in_tail == ins or in_beats > 1)
    joins = ins == 1 and (out_tail == outs or out_beats > 1)
    t.logic("any", 1)
    level(t, "count", ins + ready)
    for name, tail, units, beats in (("in", in_tail, ins, in_beats), ("out", out_tail, outs, out_beats)):
        if tail != units and beats > 1:
            t.count(ff=bits_of(beats))
            t.logic(f"{name}_ragged.bits", bits_of(beats))
    t.logic("padded", (outs - out_tail) * bits if out_beats > 1 else 0)
    if splits and slack == 0:
        t.count(ff=(ins + 1) * bits + 1)
        if t.xilinx or ins < 4:
            t.logic("aside", bits)
            t.logic("found", chosen(t, ins) * bits)
        else:
            t.logic("found", WITH_ASIDE * ceil(ins / 8) * bits)
        _at(t, ins)
    elif splits:
        t.count(ff=4)
        t.logic("rows", 1)
        ram(t, "split.ram", 4, ins * bits, False)
        t.logic("found", chosen(t, ins) * bits)
        _at(t, ins)
    elif joins and slack == 0 and out_tail == outs > 2:
        t.count(ff=2 * outs * bits)
        _at(t, outs)
        t.logic("filled", outs)
        t.count(lut=bits)
    elif joins:
        row = 1 if slack == 0 and out_tail == outs else 2
        t.count(ff=row)  # that of the reads is the register that Yosys makes for the memory
        t.logic("rows", 1)
        _at(t, outs)
        t.logic("filled", outs)
        ram(t, "join.ram", 1 << row, bits, False, outs)
    else:
        _shifted(t, (ins, outs, out_tail if out_beats > 1 else outs), ready, bits)
    for name, tail, units, beats in (("in", in_tail, ins, in_beats), ("out", out_tail, outs, out_beats)):
        whole = splits and slack if name == "in" else joins
        if whole and tail != units and beats > 1:
            t.count(ff=bits_of(beats))
            t.logic(f"{name}_ragged.bits", bits_of(beats))


WITH_ASIDE = 9
"""Look-up tables on ECP5 of one of four to eight bits or of the one set aside: two levels of wide ones."""


def _at(t: Terms, units: int) -> None:
    """The number of a unit in its beat, which counts up."""
    t.count(ff=bits_of(units))
    t.logic("at.bits", bits_of(units))
    t.logic("at.compare", bits_of(units) if units & (units - 1) else 0)


def _shifted(t: Terms, units: tuple[int, int, int], ready: int, bits: int) -> None:
    """Units of the input go behind those that are there, units of the output leave from below."""
    ins, outs, tail = units
    capacity = ins + ready
    t.count(ff=capacity * bits)
    for slot in range(capacity):
        lanes = min(slot, ins - 1) - max(slot - ready, 0) + 1
        places = 1 + int(slot + outs < capacity) + int(tail != outs and slot + tail < capacity)
        t.logic("slots", chosen(t, lanes + places) * bits)
        t.logic("choices", lanes + places - 1)
    t.logic("insert_at", ready + 1)


def stream_reorder(t: Terms, p: Parameters) -> None:
    """A ``stream_reorder``: two buffers in turns, and the counters of an address."""
    bits = p["WIDTH"]
    words = prod(v for k, v in p.items() if k.startswith("SIZE_"))
    t.logic("any", 1)
    t.both("address", bits_of(words))
    t.both("out", bits)
    ram(t, "ram", 2 * words, bits, True)


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
    t.count(ff=1 + lanes * cast_bits(taken, given, p["ROUNDING"]))
    cast(t, "cast", lanes, taken, given, (p["ROUNDING"], p["OVERFLOW"]))


def binary(t: Terms, p: Parameters) -> None:
    """A ``fixed_binary``: two streams joined, computed with, cast, and a skid buffer."""
    lanes = p["DATA_OUT_0_PARALLELISM_DIM_0"]
    bits, fracs = [], []
    for port in ("DATA_IN_0", "DATA_IN_1"):
        signs = (0 if p[f"{port}_SIGNED"] else 1) + int(p.get(f"{port}_ZERO_POINT", 0) != 0)
        bits.append(p[f"{port}_PRECISION_0"] + signs + bits_of(p.get(f"{port}_MULTIPLIER", 1)))
        fracs.append(p[f"{port}_PRECISION_1"])
    product = p["OPERATION"] == 3
    exact = sum(bits) if product else max(b + max(fracs) - f for b, f in zip(bits, fracs, strict=True)) + 1
    taken = (exact, sum(fracs) if product else max(fracs), 1)
    given = (p["DATA_OUT_0_PRECISION_0"], p["DATA_OUT_0_PRECISION_1"], p["DATA_OUT_0_SIGNED"])
    kept = lanes * cast_bits(taken, given, p["ROUNDING"])
    t.logic("any", 1)
    t.count(ff=2 + 2 * kept)
    t.logic("skid", kept)
    if product:
        blocks = multiplied(
            t, *((p[f"{port}_PRECISION_0"], p[f"{port}_SIGNED"]) for port in ("DATA_IN_0", "DATA_IN_1"))
        )
        t.count(ff=1 + (0 if t.xilinx and blocks else lanes * exact), dsp=lanes * blocks)
        t.logic("product" if blocks else "soft.bits", lanes * (1 if blocks else bits[0] * bits[1]))
    elif p["OPERATION"] < 3:
        t.logic("sum", lanes * exact)
        _scaled(t, p, lanes)
    else:
        t.logic("compare", lanes * exact)
    cast(t, "cast", lanes, taken, given, (p["ROUNDING"], p["OVERFLOW"]))


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
        t.count(ff=lanes * (17 * (blocks - 1) if t.xilinx and blocks else wide))
        t.logic("scaled.parts", lanes * max(blocks - 1, 0) * wide)
        t.logic("scaled.soft", 0 if blocks or plain else lanes * width * factor.bit_length())


def plain(t: Terms, p: Parameters) -> None:
    """Any layer: lanes and widths of its streams, and the sizes that it counts."""
    t.every("any", 1)
    widths = [(k.removesuffix("_PRECISION_0"), v) for k, v in p.items() if k.endswith("_PRECISION_0")]
    for name, width in widths:
        lanes = prod(v for k, v in p.items() if k.startswith(f"{name}_PARALLELISM_DIM"))
        size = prod(v for k, v in p.items() if k.startswith(f"{name}_TENSOR_SIZE_DIM"))
        t.every(f"{name}.bits", lanes * width)
        t.every(f"{name}.lanes", lanes)
        t.both(f"{name}.size", bits_of(size))
