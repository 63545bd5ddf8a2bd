"""``SOFTMAX`` of 8 bits as LiteRT's reference kernel computes it, and the same integers in hardware.

The kernel is ``reference_ops::Softmax`` on :mod:`mase_hw.numerics.integer_functions`: numbers of fixed
point whose products are rounded half up. Hardware has a table of exponentials, their sum, and the same steps.
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
from mase_hw.numerics.integer_functions import Integers, Ints, halved
from mase_hw.ops._binary import CONSTANT
from mase_hw.ops._functions import CODES, TABLE_BITS

INTEGER_BITS, SUM_BITS = 5, 12
"""Bits before the binary point of a scaled difference, and of a sum of exponentials."""
_NUMBERS = Integers(32)


class Kernel:
    """The kernel's arithmetic.

    Args:
        given: Format of the data.
        beta: What the data is multiplied by.

    Raises:
        Refused: A scale that the kernel does not take.
    """

    def __init__(self, given: ScaledFormat, beta: float) -> None:
        real = min(beta * float(np.float32(given.scale)) * (1 << (31 - INTEGER_BITS)), float(_NUMBERS.one))
        part, self.shift = math.frexp(real)
        self.factor = math.floor(part * (1 << 31) + 0.5)
        if self.factor == 1 << 31:
            self.factor, self.shift = self.factor // 2, self.shift + 1
        if real <= 1.0:
            raise Refused(f"a scale of {given.scale:.3g} with beta {beta:.3g}, which the kernel does not take")
        self.least = -(((1 << INTEGER_BITS) - 1) * (1 << (31 - INTEGER_BITS)) >> self.shift)

    def powers(self, away: Ints) -> Ints:
        """Integers less the largest of their row -> exponentials of 31 fraction bits."""
        found: Ints = np.where(away >= self.least, _NUMBERS.exponential(self.scaled(away), INTEGER_BITS), 0)
        return found

    def scaled(self, away: Ints) -> Ints:
        """The same multiplied, with 26 fraction bits; what is too far away counts as if it were not."""
        return _NUMBERS.product(np.maximum(away, self.least) << self.shift, np.int64(self.factor))

    def of_integers(self, x: Ints) -> Ints:
        """Integers less their zero point, ``(..., classes)`` -> integers of the result."""
        powers = self.powers(x - x.max(-1, keepdims=True))
        total = halved(powers, SUM_BITS).sum(-1, keepdims=True)
        bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # of 32
        inverse = _NUMBERS.reciprocal((total << (32 - bits)) - (1 << 31))
        found = halved(_NUMBERS.product(inverse, powers), bits + (SUM_BITS - 32 + 31 - 8)) - 128
        result: Ints = np.where(powers > 0, np.clip(found, -128, 127), -128)
        return result


def result_format(s: Step, scale: float = 1 / 256, zero: int = -128) -> ScaledFormat:
    """The format of the result, which is the kernel's."""
    want = format_of(s.out)
    if (want.scale, want.zero_point) != (scale, zero):
        raise Refused(
            f"a result of the scale {want.scale:g} and the zero point {want.zero_point}",
            f"quantise it with {scale:g} and {zero}, as the kernel asks for",
        )
    return want


def beta_of(s: Step) -> float:
    """What the data is multiplied by."""
    beta = s.op.number("Beta")
    if not 0 < beta < 1 << 20:
        raise Refused(f"Beta is {beta}")
    return beta


def unsigned(width: int, frac: int) -> FixedFormat:
    """A format without a sign."""
    return FixedFormat(width, frac, signed=False)


RECIPROCAL = unsigned(31, 30)
"""Format of a reciprocal of numbers from 1/2 to 1."""


class Row:
    """The hardware of a row: the exponentials of its elements, their sum, and reciprocals by Newton's steps.

    Args:
        s: The operation, along the last dimension.
        beta: What its data is multiplied by.

    Raises:
        Refused: Rows of so many elements that their sum has more bits than a table has.
    """

    def __init__(self, s: Step, beta: float) -> None:
        self.s, self.x = s, s.data()
        x, self.shape = self.x, self.x.shape
        if self.shape[-1] >= 1 << TABLE_BITS:
            raise Refused(f"rows of {self.shape[-1]} elements, as many as {1 << TABLE_BITS} or more", ON_HOST)
        self.kernel = Kernel(x.fmt, beta)
        codes = self.kernel.powers(-np.arange(256, dtype=np.int64)).tolist()
        self.whole = self.shape[-1].bit_length()
        self.bits = self.whole + 31 - SUM_BITS  # of the largest sum
        # A sum is from 1 to below 2**whole: what brings it to between 1/2 and 1, for every whole number.
        factors = [1 << self.whole - max(count, 1).bit_length() for count in range(1 << self.whole)]
        self.far, self.power = ScaledFormat.make(8, x.fmt.scale, signed=False), unsigned(31, 31)
        term, self.total = unsigned(32 - SUM_BITS, 31 - SUM_BITS), unsigned(self.bits, 31 - SUM_BITS)
        self.index, self.factor = unsigned(self.whole, 0), unsigned(self.whole, self.whole)
        self.root = unsigned(self.bits, self.bits)
        over = {"dim": (len(self.shape) - 1,), "keepdim": True}
        data = s.as_in_file(x)
        largest = self.spread(self.put("amax", "largest", [data], [x.fmt, x.fmt], **over), x.fmt, "largest_of_row")
        self.away = self.put("sub", "distance", [largest, data], [x.fmt, x.fmt, self.far])
        self.powers = self.table("exponentials", self.away, self.far, self.power, codes)
        terms = self.put("cast", "terms", [self.powers], [self.power, term])
        self.sum = self.put("sum", "total", [terms], [term, self.total], **over)
        self.count = self.put("cast", "whole", [self.sum], [self.total, self.index], rounding=Rounding.FLOOR)
        self.scale = self.table("factor", self.count, self.index, self.factor, factors)
        self.half = self.put("mul", "normalised", [self.sum, self.scale], [self.total, self.factor, self.root])

    def put(self, op: str, part: str, given: list[fx.Node], formats: list[FixedFormat], **more: Any) -> fx.Node:
        """A node; formats are those of its inputs, of the number ``by`` that is stored, and of its result."""
        stored = {CONSTANT: torch.tensor([more.pop("by")], dtype=torch.float64)} if "by" in more else {}
        names = [f"data_in_{i}" for i in range(len(given))] + [CONSTANT] * len(stored)
        named = dict(zip((*names, "data_out_0"), formats, strict=True))
        size = list(self.s.writer.shape(given[0]))
        size[-1] = 1 if "dim" in more else size[-1]
        arithmetic = Arithmetic(named, more.pop("rounding", Rounding.HALF_UP), attributes=attributes_of(more))
        return self.s.put(Quantized(self.s.catalogue[op], arithmetic, stored), given, size, part)

    def table(self, part: str, node: fx.Node, have: FixedFormat, want: FixedFormat, codes: list[int]) -> fx.Node:
        """A table of the codes of its input."""
        return self.put("table", part, [node], [have, want], **{CODES: tuple(codes)})

    def spread(self, node: fx.Node, fmt: FixedFormat, part: str) -> fx.Node:
        """A number of the row, for each of its elements."""
        return expanded(self.s, node, fmt, self.shape, part)

    def reciprocal(self, half: fx.Node, root: FixedFormat) -> fx.Node:
        """The reciprocal of numbers from 1/2 to 1, of 30 fraction bits: the kernel's three steps, of 29."""
        found = FixedFormat(32, 29)
        slope = self.put("mul", "slope", [half], [root, found, found], by=-1010580540 / (1 << 29))
        guess = self.put("add", "guess", [slope], [found, found, found], by=1515870810 / (1 << 29))
        for i in range(3):
            near = self.put("mul", f"product_{i}", [half, guess], [root, found, found])
            left = self.put("sub", f"rest_{i}", [near], [found, found, found], by=1.0, reversed=True)
            step = self.put("mul", f"step_{i}", [guess, left], [found, found, FixedFormat(32, 27)])
            ends = RECIPROCAL if i == 2 else found  # 2 saturates
            guess = self.put("add", f"guess_{i}", [guess, step], [found, FixedFormat(32, 27), ends])
        return guess


def softmax(s: Step) -> Value:
    """``SOFTMAX`` along the last dimension."""
    want, row, part, share = result_format(s), Row(s, beta_of(s)), unsigned(31, 30), unsigned(8, 8)
    inverse = row.spread(row.reciprocal(row.half, row.root), RECIPROCAL, "reciprocal_of_row")
    made = row.put("mul", "numerator", [row.powers, inverse], [row.power, RECIPROCAL, part])
    factors = row.spread(row.scale, row.factor, "factor_of_row")
    made = row.put("mul", "shares", [made, factors], [part, row.factor, share])
    return s.result(s.requantised(made, share, want, Multipliers((1,), 0), Rounding.FLOOR), want, first=False)


RULES = {"SOFTMAX": softmax}
"""Operation -> what writes it."""
