"""What drops, repeats or adds elements, and the scaling of negative ones: counters beside a cast."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.casts import cast, cast_bits
from mase_hw.cost.primitives import counted, counter, fifo, level, multiplied, ram
from mase_hw.cost.terms import Parameters, Terms, bits_of

CONTROL = 6
"""Look-up tables of the handshakes of a stream with a skid buffer or two register slices."""


def _formats(p: Parameters) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int]]:
    """Of the input, of the output, and the way between them."""
    taken, given = (
        (p[f"{port}_PRECISION_0"], p[f"{port}_PRECISION_1"], p[f"{port}_SIGNED"])
        for port in ("DATA_IN_0", "DATA_OUT_0")
    )
    return taken, given, (p["ROUNDING"], p["OVERFLOW"])


def _place(t: Terms, places: int) -> None:
    """A counter that begins again after so many places."""
    bits = bits_of(places)
    if bits:
        t.count(ff=bits, lut=counted(t, bits))


def cut(t: Terms, p: Parameters) -> None:
    """A ``fixed_slice``."""
    lanes, inside = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DIM"] == 0
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes)
    taken, given, way = _formats(p)
    counter(t, "inner", 1 if inside else tiles * p["DATA_IN_0_TENSOR_SIZE_DIM_1"])
    _place(t, tiles if inside else p["DATA_IN_0_TENSOR_SIZE_DIM_2"])
    _place(t, max(p["STEP"], 2))
    t.count(ff=2 * lanes * cast_bits(taken, given, *way) + 2, lut=CONTROL + 12)
    t.logic("any", 1)
    cast(t, "cast", lanes, taken, given, way, held=True)


def prelu(t: Terms, p: Parameters) -> None:
    """A ``fixed_prelu``: negative elements times a weight that comes with them."""
    lanes = p["DATA_IN_0_PARALLELISM_DIM_0"] * p.get("DATA_IN_0_PARALLELISM_DIM_1", 1)
    a, b = (p["DATA_IN_0_PRECISION_0"], p["DATA_IN_0_SIGNED"]), (p["WEIGHT_PRECISION_0"], p["WEIGHT_SIGNED"])
    widths = [width + (0 if signed else 1) for width, signed in (a, b)]
    up = max(p["WEIGHT_PRECISION_1"], 0)
    exact = max(widths[0] + up, sum(widths) + max(-p["WEIGHT_PRECISION_1"], 0))
    _, given, way = _formats(p)
    taken = (exact, p["DATA_IN_0_PRECISION_1"] + up, 1)
    blocks = multiplied(t, a, b)
    t.count(dsp=lanes * blocks, ff=2 + lanes * (exact + cast_bits(taken, given, *way)), lut=CONTROL + lanes * exact)
    t.logic("soft.bits", 0 if blocks else lanes * a[0] * b[0])
    t.logic("any", 1)
    cast(t, "cast", lanes, taken, given, way)


def zero_pad2d(t: Terms, p: Parameters) -> None:
    """A ``fixed_zero_pad2d``: counters over the larger image say where the smaller one is."""
    lanes, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes)
    taken, given, way = _formats(p)
    fifo(t, "in", lanes * width, 2)
    places = (tiles, p["DATA_OUT_0_TENSOR_SIZE_DIM_1"] + 1, p["DATA_OUT_0_TENSOR_SIZE_DIM_2"] + 1)
    for count in (*places, p["DATA_OUT_0_TENSOR_SIZE_DIM_3"]):
        _place(t, count)
    t.count(ff=1 + lanes * cast_bits(taken, given, *way), lut=CONTROL + 8 + lanes * width)
    t.logic("any", 1)
    cast(t, "cast", lanes, taken, given, way)


def upsample_nearest(t: Terms, p: Parameters) -> None:
    """A ``fixed_upsample_nearest``: a line, read as often as there are pixels of it."""
    lanes, width = p["DATA_IN_0_PARALLELISM_DIM_0"], p["DATA_IN_0_PRECISION_0"]
    tiles = ceil(p["DATA_IN_0_TENSOR_SIZE_DIM_0"] / lanes)
    pixels = p["DATA_IN_0_TENSOR_SIZE_DIM_1"] if p["FACTOR_1"] > 1 else 1
    depth = 2 * pixels * tiles
    for count in (tiles, pixels, p["FACTOR_0"], p["FACTOR_1"], depth):
        _place(t, count)
    t.count(ff=bits_of(depth) + 1, lut=CONTROL + 3 * bits_of(depth))
    for _ in range(2):
        level(t, "used", depth)
    ram(t, "ram", depth, lanes * width, True)
    t.logic("any", 1)
