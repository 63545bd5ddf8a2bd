"""``SOFTMAX`` of 8 bits as LiteRT's reference kernel computes it, and the same integers in hardware.

The kernel is the arithmetic of ``reference_ops::Softmax`` and of gemmlowp's ``fixedpoint.h`` (exponentials of negative
numbers by a polynomial and seven factors, the reciprocal by three steps of Newton), in integers. Those are numbers of
fixed point whose products are rounded half up: hardware has a table of exponentials, their sum, and the same steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import fx

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, Multipliers, Rounding, ScaledFormat
from mase_hw.formats.attributes import attributes_of
from mase_hw.importers.graph import ON_HOST, Refused
from mase_hw.importers.tflite.step import Step, Value, format_of
from mase_hw.importers.tflite.sums import expanded
from mase_hw.nn import Quantized
from mase_hw.ops._binary import CONSTANT
from mase_hw.ops._functions import CODES, TABLE_BITS

Ints = np.ndarray[Any, np.dtype[np.int64]]
INTEGER_BITS, SUM_BITS = 5, 12
"""Bits before the binary point of a scaled difference, and of a sum of exponentials."""
_ONE = (1 << 31) - 1
_FACTORS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))
"""Exponent of two, and ``exp(-2**exponent)`` as a number of 31 fraction bits."""


class Kernel:
    """The kernel's arithmetic.

    Args:
        given: Format of the data.
        beta: What the data is multiplied by.

    Raises:
        Refused: A scale that the kernel does not take.
    """

    def __init__(self, given: ScaledFormat, beta: float) -> None:
        real = min(beta * float(np.float32(given.scale)) * (1 << (31 - INTEGER_BITS)), _ONE * 1.0)
        part, self.shift = math.frexp(real)
        self.factor = math.floor(part * (1 << 31) + 0.5)
        if self.factor == 1 << 31:
            self.factor, self.shift = self.factor // 2, self.shift + 1
        if real <= 1.0:
            raise Refused(f"a scale of {given.scale:.3g} with beta {beta:.3g}, which the kernel does not take")
        self.least = -(((1 << INTEGER_BITS) - 1) * (1 << (31 - INTEGER_BITS)) >> self.shift)

    def powers(self, away: Ints) -> Ints:
        """Integers less the largest of their row -> exponentials of 31 fraction bits."""
        counted = away >= self.least
        scaled = _product(np.where(counted, away, 0) << self.shift, np.int64(self.factor))
        found: Ints = np.where(counted, _exponential(scaled), 0)
        return found

    def of_integers(self, x: Ints) -> Ints:
        """Integers less their zero point, ``(..., classes)`` -> integers of the result."""
        powers = self.powers(x - x.max(-1, keepdims=True))
        total = _halved(powers, SUM_BITS).sum(-1, keepdims=True)
        bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # of 32
        inverse = reciprocal((total << (32 - bits)) - (1 << 31))
        found = _halved_by(_product(inverse, powers), bits + (SUM_BITS - 32 + 31 - 8)) - 128
        result: Ints = np.where(powers > 0, np.clip(found, -128, 127), -128)
        return result


def _product(a: Ints, b: Any) -> Ints:
    """``SaturatingRoundingDoublingHighMul``: the upper half of twice a product; nothing here saturates."""
    exact = a * b
    exact = exact + np.where(exact >= 0, 1 << 30, 1 - (1 << 30))
    found: Ints = np.sign(exact) * (np.abs(exact) >> 31)
    return found


def _halved(x: Ints, bits: int) -> Ints:
    """``RoundingDivideByPOT``: half away from zero."""
    return _halved_by(x, np.int64(bits))


def _halved_by(x: Ints, bits: Any) -> Ints:
    mask = (np.int64(1) << bits) - 1
    found: Ints = (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))
    return found


def _exponential(x: Ints) -> Ints:
    """``exp_on_negative_values`` of numbers with 5 integer bits; the result has none."""
    fraction = 31 - INTEGER_BITS
    quarter = 1 << (fraction - 2)
    least = (x & (quarter - 1)) - quarter
    a = (least << INTEGER_BITS) + (1 << 28)
    square = _product(a, a)
    cube, fourth = _product(square, a), _halved(_product(square, square), 2)
    series = _halved(_product(fourth + cube, 715827883) + square, 1)
    found = 1895147668 + _product(np.full_like(a, 1895147668), a + series)
    rest = least - x
    for exponent, factor in _FACTORS:
        found = np.where(rest & (1 << (fraction + exponent)), _product(found, factor), found)
    result: Ints = np.where(x == 0, _ONE, found)
    return result


def reciprocal(x: Ints) -> Ints:
    """``one_over_one_plus_x_for_x_in_0_1``, without integer bits."""
    half = (x + _ONE + 1) >> 1
    found = 1515870810 + _product(half, -1010580540)
    for _ in range(3):
        left = (1 << 29) - _product(half, found)
        found = found + (_product(found, left) << 2)
    result: Ints = np.minimum(found << 1, _ONE)
    return result


def result_format(s: Step) -> ScaledFormat:
    """The format of the result, which is the kernel's."""
    want = format_of(s.out)
    if (want.scale, want.zero_point) != (1 / 256, -128):
        raise Refused(
            f"a result of the scale {want.scale:g} and the zero point {want.zero_point}",
            "quantise it with 0.00390625 and -128, as the kernel asks for",
        )
    return want


def beta_of(s: Step) -> float:
    """What the data is multiplied by."""
    beta = s.op.number("Beta")
    if not 0 < beta < 1 << 20:
        raise Refused(f"Beta is {beta}")
    return beta


def softmax(s: Step) -> Value:
    """``SOFTMAX`` along the last dimension."""
    x, want = s.data(), result_format(s)
    classes, shape, last = x.shape[-1], x.shape, len(x.shape) - 1
    if classes >= 1 << TABLE_BITS:
        raise Refused(f"rows of {classes} elements, as many as {1 << TABLE_BITS} or more", ON_HOST)
    codes = Kernel(x.fmt, beta_of(s)).powers(-np.arange(256, dtype=np.int64)).tolist()
    whole = classes.bit_length()
    bits = whole + 31 - SUM_BITS  # of the largest sum
    # A sum is from 1 to below 2**whole: what brings it to between 1/2 and 1, for every whole number.
    factors = [1 << whole - max(count, 1).bit_length() for count in range(1 << whole)]

    def put(op: str, part: str, given: list[fx.Node], formats: list[FixedFormat], **more: Any) -> fx.Node:
        stored = {CONSTANT: torch.tensor([more.pop("by")], dtype=torch.float64)} if "by" in more else {}
        names = [f"data_in_{i}" for i in range(len(given))] + [CONSTANT] * len(stored)
        named = dict(zip((*names, "data_out_0"), formats, strict=True))
        size = list(s.writer.shape(given[0]))
        size[last] = 1 if "dim" in more else size[last]
        arithmetic = Arithmetic(named, more.pop("rounding", Rounding.HALF_UP), attributes=attributes_of(more))
        return s.put(Quantized(s.catalogue[op], arithmetic, stored), given, size, part)

    far, power = ScaledFormat.make(8, x.fmt.scale, signed=False), _unsigned(31, 31)
    term, total, index = _unsigned(32 - SUM_BITS, 31 - SUM_BITS), _unsigned(bits, 31 - SUM_BITS), _unsigned(whole, 0)
    factor, share, over = _unsigned(whole, whole), _unsigned(8, 8), {"dim": (last,), "keepdim": True}
    data = s.as_in_file(x)
    largest = expanded(s, put("amax", "largest", [data], [x.fmt, x.fmt], **over), x.fmt, shape, "largest_of_row")
    away = put("sub", "distance", [largest, data], [x.fmt, x.fmt, far])
    powers = put("table", "exponentials", [away], [far, power], **{CODES: tuple(codes)})
    terms = put("cast", "terms", [powers], [power, term])
    summed = put("sum", "total", [terms], [term, total], **over)
    count = put("cast", "whole", [summed], [total, index], rounding=Rounding.FLOOR)
    scale = put("table", "factor", [count], [index, factor], **{CODES: tuple(factors)})
    half = put("mul", "normalised", [summed, scale], [total, factor, _unsigned(bits, bits)])

    # The kernel's three steps of Newton towards the reciprocal, in numbers of 29 fraction bits.
    found, root, reciprocal = FixedFormat(32, 29), _unsigned(bits, bits), _unsigned(31, 30)
    slope = put("mul", "slope", [half], [root, found, found], by=-1010580540 / (1 << 29))
    guess = put("add", "guess", [slope], [found, found, found], by=1515870810 / (1 << 29))
    for i in range(3):
        near = put("mul", f"product_{i}", [half, guess], [root, found, found])
        left = put("sub", f"rest_{i}", [near], [found, found, found], by=1.0, reversed=True)
        step = put("mul", f"step_{i}", [guess, left], [found, found, FixedFormat(32, 27)])
        ends = reciprocal if i == 2 else found  # 2 saturates
        guess = put("add", f"guess_{i}", [guess, step], [found, FixedFormat(32, 27), ends])

    part = _unsigned(31, 30)
    row = expanded(s, guess, reciprocal, shape, "reciprocal_of_row")
    made = put("mul", "numerator", [powers, row], [power, reciprocal, part])
    made = put("mul", "shares", [made, expanded(s, scale, factor, shape, "factor_of_row")], [part, factor, share])
    return s.result(s.requantised(made, share, want, Multipliers((1,), 0), Rounding.FLOOR), want, first=False)


def _unsigned(width: int, frac: int) -> FixedFormat:
    return FixedFormat(width, frac, signed=False)


RULES = {"SOFTMAX": softmax}
"""Operation -> what writes it."""
