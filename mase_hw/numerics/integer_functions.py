"""Exponential, reciprocal, logistic function and tanh in integers of 16 or 32 bits, as gemmlowp's ``fixedpoint.h`` has.

Numbers below are integers with so many bits before the binary point beside the sign. Every product is rounded, half up,
to the bits of its operands (``SaturatingRoundingDoublingHighMul``; nothing here saturates), every shift to the right
half away from 0. Exponentials are a polynomial and a factor for every bit of the rest, reciprocals three steps of
Newton's. LiteRT's reference kernels of int8 compute with these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
_FACTORS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))
"""Exponent of two, and ``exp(-2**exponent)`` as a number of 31 fraction bits."""
_EIGHTH, _THIRD, _SLOPE, _START = 1895147668, 715827883, -1010580540, 1515870810
"""``exp(-1/8)``, 1/3, and -32/17 and 48/17 with two bits before the point."""
_CLAMPED, _LEAST = 5, 32
"""With more bits before the point than these, ``exp`` of what is below the negative of this is 0."""


def halved(x: Ints, bits: Any) -> Ints:
    """``RoundingDivideByPOT``: half away from zero."""
    mask = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    found: Ints = (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))
    return found


class Integers:
    """Arithmetic of numbers of one size.

    Args:
        bits: 16 or 32, with the sign.
    """

    def __init__(self, bits: int) -> None:
        self.bits, self.frac = bits, bits - 1
        self.one = np.int64((1 << self.frac) - 1)
        """The largest number without bits before the point, which stands for 1."""

    def constant(self, number: int) -> Ints:
        """A number of 31 fraction bits."""
        return halved(np.asarray(number, np.int64), 32 - self.bits)

    def product(self, a: Ints, b: Any) -> Ints:
        """``SaturatingRoundingDoublingHighMul``: the upper half of twice a product."""
        exact, half = a * b, 1 << (self.frac - 1)
        exact = exact + np.where(exact >= 0, half, 1 - half)
        found: Ints = np.sign(exact) * (np.abs(exact) >> self.frac)
        return found

    def exponential(self, x: Ints, whole: int) -> Ints:
        """``exp_on_negative_values`` of numbers of ``whole`` bits before the point; the result has none."""
        fraction = self.frac - whole
        quarter = 1 << (fraction - 2)
        least = (x & (quarter - 1)) - quarter
        a = (least << whole) + (1 << (self.frac - 3))
        square = self.product(a, a)
        cube, fourth = self.product(square, a), halved(self.product(square, square), 2)
        series = halved(self.product(fourth + cube, self.constant(_THIRD)) + square, 1)
        eighth = self.constant(_EIGHTH)
        found = eighth + self.product(np.full_like(a, eighth), a + series)
        rest = least - x
        for exponent, factor in _FACTORS:
            if exponent < whole:
                times = self.product(found, self.constant(factor))
                found = np.where(rest & (1 << (fraction + exponent)), times, found)
        if whole > _CLAMPED:
            found = np.where(x < -(_LEAST << fraction), 0, found)
        result: Ints = np.where(x == 0, self.one, found)
        return result

    def _newton(self, x: Ints) -> Ints:
        """``2 / (1 + x)`` for ``x`` from 0 to 1, of two bits before the point."""
        half, one = (x + self.one + 1) >> 1, 1 << (self.frac - 2)
        found = self.constant(_START) + self.product(half, self.constant(_SLOPE))
        for _ in range(3):
            left = one - self.product(half, found)
            found = found + (self.product(found, left) << 2)
        return found

    def reciprocal(self, x: Ints) -> Ints:
        """``one_over_one_plus_x_for_x_in_0_1``, without bits before the point."""
        result: Ints = np.minimum(self._newton(x) << 1, self.one)
        return result

    def logistic(self, x: Ints, whole: int) -> Ints:
        """``logistic`` of numbers of ``whole`` bits before the point; the result has none."""
        found = self.reciprocal(self.exponential(-np.abs(x), whole))
        result: Ints = np.where(x == 0, 1 << (self.frac - 1), np.where(x > 0, found, self.one - found))
        return result

    def tanh(self, x: Ints, whole: int) -> Ints:
        """``tanh`` of numbers of ``whole`` bits before the point; the result has none."""
        powers = self.exponential(-np.abs(x), whole + 1)
        found = np.clip((self._newton(powers) - (1 << (self.frac - 2))) << 2, -self.one - 1, self.one)
        result: Ints = np.where(x == 0, 0, np.sign(x) * found)
        return result
