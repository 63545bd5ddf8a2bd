"""Operations of a TFLite file that hardware does not have, as the host computes them: the integers of LiteRT's kernels.

``SOFTMAX`` is the arithmetic of ``reference_ops::Softmax`` for 8 bits and of gemmlowp's ``fixedpoint.h`` (exponentials
of negative numbers by a polynomial and seven factors, the reciprocal by three steps of Newton), in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.formats import ScaledFormat
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.step import Step, Value, format_of
from mase_hw.nn import QuantizeInput
from mase_hw.nn.on_host import OnHost

Ints = np.ndarray[Any, np.dtype[np.int64]]
INTEGER_BITS, SUM_BITS = 5, 12
"""Bits before the binary point of a scaled difference, and of a sum of exponentials."""
_ONE = (1 << 31) - 1
_FACTORS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))
"""Exponent of two, and ``exp(-2**exponent)`` as a number of 31 fraction bits."""


class Softmax(OnHost):
    """``SOFTMAX`` of int8 along the last dimension.

    Args:
        given: Format of the data.
        want: Format of the result, 1/256 with the zero point -128.
        beta: What the data is multiplied by.
    """

    def __init__(self, given: ScaledFormat, want: ScaledFormat, beta: float) -> None:
        super().__init__(
            "hardware divides otherwise than the kernel of SOFTMAX; the host gives the kernel's integers, exactly"
        )
        self.given, self.want, self.beta = given, want, beta
        real = min(beta * float(np.float32(given.scale)) * (1 << (31 - INTEGER_BITS)), _ONE * 1.0)
        part, self.shift = math.frexp(real)
        self.factor = math.floor(part * (1 << 31) + 0.5)
        if self.factor == 1 << 31:
            self.factor, self.shift = self.factor // 2, self.shift + 1
        if real <= 1.0:
            raise Refused(f"a scale of {given.scale:.3g} with beta {beta:.3g}, which the kernel does not take")
        self.least = -(((1 << INTEGER_BITS) - 1) * (1 << (31 - INTEGER_BITS)) >> self.shift)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the integers of the data, ``(..., classes)`` -> those of the result."""
        codes = torch.round(x.detach().double() / self.given.scale).to(torch.int64).cpu().numpy()
        found = self.want.scale * (torch.from_numpy(self.of_integers(codes)).double() - self.want.zero_point)
        return found.to(x.dtype).to(x.device)

    def of_integers(self, x: Ints) -> Ints:
        """Integers less their zero point -> integers of the result."""
        away = x - x.max(-1, keepdims=True)
        counted = away >= self.least
        scaled = _product(np.where(counted, away, 0) << self.shift, np.int64(self.factor))
        powers = np.where(counted, _exponential(scaled), 0)
        total = _halved(powers, SUM_BITS).sum(-1, keepdims=True)
        bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # of 32
        reciprocal = _reciprocal((total << (32 - bits)) - (1 << 31))
        found = _halved_by(_product(reciprocal, powers), bits + (SUM_BITS - 32 + 31 - 8)) - 128
        result: Ints = np.where(counted, np.clip(found, -128, 127), -128)
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


def _reciprocal(x: Ints) -> Ints:
    """``one_over_one_plus_x_for_x_in_0_1``, without integer bits."""
    half = (x + _ONE + 1) >> 1
    found = 1515870810 + _product(half, -1010580540)
    for _ in range(3):
        left = (1 << 29) - _product(half, found)
        found = found + (_product(found, left) << 2)
    result: Ints = np.minimum(found << 1, _ONE)
    return result


def softmax(s: Step) -> Value:
    """``SOFTMAX`` on the host, and the rounding with which hardware takes what it gives."""
    x, want = s.data(), format_of(s.out)
    if (want.scale, want.zero_point) != (1 / 256, -128):
        raise Refused(
            f"a result of the scale {want.scale:g} and the zero point {want.zero_point}",
            "quantise it with 0.00390625 and -128, as the kernel asks for",
        )
    beta = s.op.number("Beta")
    if not 0 < beta < 1 << 20:
        raise Refused(f"Beta is {beta}")
    given = s.as_in_file(x)
    made = s.writer.computed(Softmax(x.fmt, want, beta), [given], x.shape)
    name, s.writer.source = s.writer.source, f"{s.writer.source}_quantize"
    entered = s.writer.computed(QuantizeInput(want, made.name), [made], x.shape)
    s.writer.sources[entered.name] = s.writer.source = name
    return s.result(entered, want, first=False)


RULES: dict[str, Callable[[Step], Value]] = {"SOFTMAX": softmax}
"""Operation -> what writes it for the host."""
