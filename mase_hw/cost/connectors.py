"""What stands between layers, and the layers that only look at one element at a time."""

from __future__ import annotations

from math import ceil, gcd, prod

from mase_hw.cost.primitives import cast, cast_bits, fifo, multiplied, ram, rom_in_block
from mase_hw.cost.terms import Parameters, Terms, bits_of
from mase_hw.memories import FAMILIES


def stream_fifo(t: Terms, p: Parameters) -> None:
    """A ``stream_fifo``."""
    fifo(t, "fifo", p["WIDTH"], p["DEPTH"])


def stream_fork(t: Terms, p: Parameters) -> None:
    """A ``stream_fork``."""
    t.both("outputs", p["N"])
    t.logic("any", 1)


def stream_repack(t: Terms, p: Parameters) -> None:
    """A ``stream_repack``."""
    taken, given = p["IN_LANES"], p["OUT_LANES"]
    in_rest, out_rest = p["IN_SIZE"] % taken, p["OUT_SIZE"] % given
    unit = gcd(gcd(taken, given), gcd(in_rest, out_rest))
    ins, outs = taken // unit, given // unit
    ready = 2 * outs - 1 + (0 if p["IN_SIZE"] == p["OUT_SIZE"] else ins)
    capacity = ins + ready
    bits = unit * p["WIDTH"]
    in_tail = (in_rest or taken) // unit
    out_tail = (out_rest or given) // unit
    t.logic("any", 1)
    t.both("count", bits_of(capacity + 1))
    t.both("store", capacity * bits)
    t.logic("insert", sum(min(s, ins - 1) - max(s - ready, 0) + 1 for s in range(capacity)) * bits)
    t.logic("at", ready + 1)
    t.logic("shift", max(capacity - min(outs, out_tail), 0) * bits)
    if in_tail != ins:
        t.both("in_ragged", bits_of(ceil(p["IN_SIZE"] / taken)) + 1)
    if out_tail != outs:
        t.both("out_ragged", bits_of(ceil(p["OUT_SIZE"] / given)) + 1)
        t.logic("out_padded", (outs - out_tail) * bits)
        t.logic("out_two", max(capacity - out_tail, 0) * bits)


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
    else:
        t.logic("compare", lanes * exact)
    cast(t, "cast", lanes, taken, given, (p["ROUNDING"], p["OVERFLOW"]))


def pieces(t: Terms, p: Parameters) -> None:
    """A ``fixed_pieces``: a multiplier and an addition a lane."""
    lanes = p["DATA_OUT_0_PARALLELISM_DIM_0"]
    t.count(dsp=lanes, ff=2)
    t.logic("any", 1)
    t.both("out", lanes * p["DATA_OUT_0_PRECISION_0"])
    t.both("in", lanes * p["DATA_IN_0_PRECISION_0"])
    t.both("lanes", lanes)


def function(t: Terms, p: Parameters) -> None:
    """A ``fixed_function``: a table for each lane, or segments."""
    if p["SEGMENTS"]:
        plain(t, p)
        return
    lanes, taken, given = (
        p["DATA_OUT_0_PARALLELISM_DIM_0"],
        p["DATA_IN_0_PRECISION_0"],
        p["DATA_OUT_0_PRECISION_0"],
    )
    words = 1 << taken
    t.logic("any", 1)
    t.count(ff=1)
    if rom_in_block(t, words, given):
        t.count(bram=lanes * FAMILIES[t.family].block.count(words, given))
        return
    t.registers("out", lanes * given)
    t.logic("table", lanes * given * max(words / FAMILIES[t.family].rom_words, 1))
    t.logic("lanes", lanes)


def matmul(t: Terms, p: Parameters) -> None:
    """A ``fixed_matmul``: as any layer, with a multiplier for each pair of lanes."""
    plain(t, p)
    t.dsp.clear()
    pairs = p["DATA_IN_0_PARALLELISM_DIM_0"] * p["DATA_OUT_0_PARALLELISM_DIM_0"]
    ports = ("DATA_IN_0", "DATA_IN_1")
    t.count(dsp=pairs * multiplied(t, *((p[f"{port}_PRECISION_0"], p[f"{port}_SIGNED"]) for port in ports)))
    t.both("pairs", pairs * (p["DATA_IN_0_PRECISION_0"] + p["DATA_IN_1_PRECISION_0"]))


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
