"""What stands between layers, and the layers that only look at one element at a time."""

from __future__ import annotations

from math import ceil, gcd, prod

from mase_hw.cost.primitives import cast, cast_bits, fifo, ram
from mase_hw.cost.terms import Parameters, Terms, bits_of


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


def plain(t: Terms, p: Parameters) -> None:
    """Any layer: lanes and widths of its streams, and the sizes that it counts."""
    t.both("any", 1)
    widths = [(k.removesuffix("_PRECISION_0"), v) for k, v in p.items() if k.endswith("_PRECISION_0")]
    for name, width in widths:
        lanes = prod(v for k, v in p.items() if k.startswith(f"{name}_PARALLELISM_DIM"))
        size = prod(v for k, v in p.items() if k.startswith(f"{name}_TENSOR_SIZE_DIM"))
        t.both(f"{name}.bits", lanes * width)
        t.both(f"{name}.lanes", lanes)
        t.both(f"{name}.size", bits_of(size))
