"""Functions made of three linear pieces: one line each; comparators and constant factors in hardware.

``f(x) = slope * x + offset``, with one pair below a threshold, one above another, and one between them. Slopes and
offsets become integers (exactly, where they have few bits), the thresholds codes of the input, and what follows is
exact until the one cast. Where constants are rounded, a slope and an offset each move what is cast by at most
``2**-GUARD`` LSB.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, ScaledFormat, steps_of
from mase_hw.numerics import magnitude
from mase_hw.opdef import Arithmetic
from mase_hw.ops import _comparisons as comparisons

Pair = tuple[float, float]
"""Slope and offset."""
EXACT_BITS = 24
"""A constant of up to so many bits is not rounded."""
SLOPE_BITS = 30
"""Bits of the largest constant of scaled integers."""
_MOST = (1 << SLOPE_BITS) - 1
GUARD = 7
"""The rounding of a constant moves what is cast by at most 2**-GUARD of the result's LSB."""


@dataclass(frozen=True)
class Shape:
    """Three pieces: ``first`` where x < low, ``last`` where x > high, ``middle`` elsewhere.

    Args:
        low: End of the first piece.
        high: End of the middle piece.
        first: Slope and offset below.
        middle: Slope and offset between.
        last: Slope and offset above.
        closed: The first piece includes ``low``.
    """

    low: float
    high: float
    first: Pair
    middle: Pair
    last: Pair
    closed: bool = False


def clip(low: float, high: float) -> Shape:
    """x, but not below ``low`` nor above ``high``."""
    return Shape(low, high, (0.0, low), (1.0, 0.0), (0.0, high))


@dataclass(frozen=True)
class Pieces:
    """A function of three linear pieces.

    Args:
        name: ``mase_op``.
        shape: The pieces; takes the attributes as keyword arguments.
        targets: Module classes, functions and names of methods that are this function.
        attributes: Names of what ``shape`` takes; those missing in a call have its defaults.
        result: Format of the result when the configuration gives none; None for one from what was observed.
    """

    name: str
    shape: Callable[..., Shape]
    targets: tuple[Any, ...]
    attributes: tuple[str, ...] = ()
    result: FixedFormat | None = None

    def given(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Those attributes of a node that the function takes."""
        return {name: attributes[name] for name in self.attributes if name in attributes}


def _of(name: str, shape: Callable[..., Shape], *targets: Any, attributes: str = "") -> Pieces:
    return Pieces(name, shape, tuple(dict.fromkeys(targets)), tuple(attributes.split()))


def _compare(function: Callable[..., Any], below: int, at: int, above: int) -> Pieces:
    """Whether a value relates to a number: 0 or 1 below the number, at it, and above it."""
    first, middle, last = (0.0, float(below)), (0.0, float(at)), (0.0, float(above))

    def shape(number: float) -> Shape:
        if at == above:
            return Shape(number, math.inf, first, middle, last)
        if at == below:
            return Shape(number, math.inf, first, last, last, closed=True)
        return Shape(number, number, first, middle, last)

    return Pieces(function.__name__, shape, (function,), ("number",), FixedFormat(1, 0, signed=False))


PIECES = (
    _of("relu6", lambda: clip(0.0, 6.0), nn.ReLU6, F.relu6),
    _of("hardtanh", lambda min_val=-1.0, max_val=1.0: clip(min_val, max_val), nn.Hardtanh, F.hardtanh, F.hardtanh_,
        attributes="min_val max_val"),
    _of("leaky_relu", lambda negative_slope=0.01: Shape(0.0, math.inf, (negative_slope, 0.0), (1.0, 0.0), (1.0, 0.0)),
        nn.LeakyReLU, F.leaky_relu, F.leaky_relu_, attributes="negative_slope"),
    _of("threshold", lambda threshold, value: Shape(threshold, math.inf, (0.0, value), (1.0, 0.0), (1.0, 0.0), True),
        nn.Threshold, F.threshold, vars(F)["threshold_"], torch.threshold, attributes="threshold value"),
    _of("hardshrink", lambda lambd=0.5: Shape(-lambd, lambd, (1.0, 0.0), (0.0, 0.0), (1.0, 0.0)),
        nn.Hardshrink, F.hardshrink, torch.hardshrink, "hardshrink", attributes="lambd"),
    _of("softshrink", lambda lambd=0.5: Shape(-lambd, lambd, (1.0, lambd), (0.0, 0.0), (1.0, -lambd)),
        nn.Softshrink, F.softshrink, attributes="lambd"),
    _of("hardsigmoid", lambda: Shape(-3.0, 3.0, (0.0, 0.0), (1 / 6, 0.5), (0.0, 1.0)),
        nn.Hardsigmoid, F.hardsigmoid),
    Pieces("sign", lambda: Shape(0.0, 0.0, (0.0, -1.0), (0.0, 0.0), (0.0, 1.0)),
        (torch.sign, torch.sgn, "sign", "sign_", "sgn"), (), FixedFormat(2, 0)),
    _compare(comparisons.lt_number, 1, 0, 0),
    _compare(comparisons.le_number, 1, 1, 0),
    _compare(comparisons.gt_number, 0, 0, 1),
    _compare(comparisons.ge_number, 0, 1, 1),
    _compare(comparisons.eq_number, 0, 1, 0),
    _compare(comparisons.ne_number, 1, 0, 1),
)  # fmt: skip
"""Adding a function is one line here, and its oracle in the tests."""

BY_NAME = {function.name: function for function in PIECES}


@dataclass(frozen=True)
class Constants:
    """The integers of a function for given formats.

    Args:
        low: First code of the middle piece.
        high: First code of the last piece.
        slopes: With ``slope_frac`` fraction bits.
        slope_frac: Fraction bits of the slopes.
        offsets: With ``offset_frac`` fraction bits.
        offset_frac: Fraction bits of the offsets.
        out_frac: Of scaled integers, fraction bits with which the result is one of its integers.
    """

    low: int
    high: int
    slopes: tuple[int, ...]
    slope_frac: int
    offsets: tuple[int, ...]
    offset_frac: int
    out_frac: int = 0


def constants(name: str, a: Arithmetic) -> Constants:
    """The integers of a function.

    Raises:
        FormatError: If a constant is no finite number, or does not fit a parameter of 32 bits.
    """
    given = tuple(sorted(BY_NAME[name].given(a.attributes).items()))
    return _constants(name, given, a.formats["data_in_0"], a.formats["data_out_0"])


@functools.lru_cache(maxsize=256)
def _constants(name: str, given: tuple[tuple[str, Any], ...], source: FixedFormat, target: FixedFormat) -> Constants:
    shape = BY_NAME[name].shape(**dict(given))
    every = (shape.low, shape.high, *shape.first, *shape.middle, *shape.last)
    if any(math.isnan(v) for v in every) or any(math.isinf(v) for v in every[2:]):
        raise FormatError(f"{name} has a constant that is not finite", got=dict(given))
    low = _code(shape.low, source, above=shape.closed)
    high = _code(shape.high, source, above=True)
    # The constants of a piece that no code of the input lies in need not fit.
    pairs = (
        shape.first if low > source.min_mantissa else shape.middle,
        shape.middle,
        shape.last if high <= source.max_mantissa else shape.middle,
    )
    last_bits = 0
    if isinstance(target, ScaledFormat):
        step, (unit,) = steps_of(source)[0], steps_of(target)
        slopes, down = _in_units([Fraction(slope) * step / unit for slope, _ in pairs])
        offsets, offset_down = _in_units([Fraction(offset) / unit for _, offset in pairs])
        last_bits = max(down, offset_down)
        slope_frac, offset_frac = last_bits - down, last_bits - offset_down
    else:
        tolerance = Fraction(2) ** -(target.frac_width + GUARD)
        reach = magnitude(source) * Fraction(2) ** -source.frac_width
        slopes, slope_frac = _integers([slope for slope, _ in pairs], tolerance / reach)
        offsets, offset_frac = _integers([offset for _, offset in pairs], tolerance)
    if shape.middle == shape.last:
        high = min(high, (1 << 31) - 1)  # beyond it is the same: of wide data the end is no parameter
    found = Constants(low, high, slopes, slope_frac, offsets, offset_frac, last_bits)
    large = any(abs(v) >= 1 << 30 for v in (*slopes, *offsets))
    if large or any(not -(1 << 31) <= v < 1 << 31 for v in (found.low, found.high)):
        raise FormatError(
            f"{name} of these formats needs too large constants",
            got=f"{source} to {target}",
            remedy="use narrower formats",
        )
    return found


def _in_units(values: list[Fraction]) -> tuple[tuple[int, ...], int]:
    """Integers that stand for values as well as the bits of a constant allow, and how many low bits are left out."""
    largest = max(abs(v) for v in values)
    down = max(0, int(largest).bit_length() - SLOPE_BITS)
    return tuple(min(max(round(v / 2**down), -_MOST), _MOST) for v in values), down


def _integers(values: list[float], tolerance: Fraction) -> tuple[tuple[int, ...], int]:
    """Integers that stand for values with common fraction bits: exact if short, else as few as the tolerance allows."""
    exact = [Fraction(v) for v in values]
    frac = max(v.denominator.bit_length() - 1 for v in exact)
    if any(abs(v * 2**frac) >= 1 << EXACT_BITS for v in exact):
        # Rounding to nearest is off by half a step at most.
        half = tolerance * 2
        frac = min(frac, (math.ceil(1 / half) - 1).bit_length() if half < 1 else 0)
    return tuple(round(v * 2**frac) for v in exact), frac


def _code(value: float, fmt: FixedFormat, *, above: bool) -> int:
    """The first code whose value is at least, or above, ``value``; one beyond the format if there is none.

    Of a format for each channel, the first: then ``value`` is 0.
    """
    if math.isinf(value):
        return fmt.max_mantissa + 1 if value > 0 else fmt.min_mantissa
    exact = Fraction(value) / steps_of(fmt)[0]
    code = (math.floor(exact) + 1 if above else math.ceil(exact)) + fmt.zero_point
    return min(max(code, fmt.min_mantissa), fmt.max_mantissa + 1)
