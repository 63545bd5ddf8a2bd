"""The numbers to which files round: scales, zero points and integers, of stored tensors and of data.

Values that are known become numbers of the grid at once. Data passes a node that only marks where, and to what, its
values are rounded; :mod:`mase_hw.importers.settle` makes fixed point or scaled integers of that.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Rounding, ScaledFormat
from mase_hw.importers.graph import Known, Marker, Ref, Refused
from mase_hw.importers.onnx.step import Step
from mase_hw.ops.cast import passed_on

MOST_BITS = 32


def steps(scale: Tensor) -> list[float]:
    """Every step, as the number that it is."""
    found: list[float] = scale.double().reshape(-1).tolist()
    for value in found:
        if not math.isfinite(value) or value <= 0:
            raise Refused(f"a scale of {value:g}", "a scale is finite and above zero")
    if not found:
        raise Refused("no scale")
    return found


def frac_widths(scale: Tensor) -> list[int] | None:
    """The fraction width of every step; None if one is no power of two."""
    parts = [math.frexp(value) for value in steps(scale)]
    return [1 - exponent for _, exponent in parts] if all(part == 0.5 for part, _ in parts) else None


class Integers(NamedTuple):
    """Integers of some bits; a narrow range is without the outermost one."""

    width: int
    signed: bool
    narrow: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest one."""
        if self.signed:
            return -(1 << (self.width - 1)) + self.narrow, (1 << (self.width - 1)) - 1
        return 0, (1 << self.width) - 1 - self.narrow


def stored(s: Step, integers: Tensor, scale: Tensor, width: int, signed: bool, *, fixed: bool = True) -> Tensor:
    """The values of stored integers, and what the file says of them.

    Args:
        s: The node that reads or makes them.
        integers: Less their zero point, in float64.
        scale: Steps that broadcast to them.
        width: Bits that the file has for them.
        signed: Whether these are with a sign.
        fixed: Whether their zero point is one that fixed point has as well.
    """
    fracs, exact = frac_widths(scale), integers * scale.double()
    s.writer.quantised = True
    s.writer.integers |= fracs is None or not fixed
    fmt = FixedFormat(width, fracs[0], signed) if fracs is not None and len(set(fracs)) == 1 else None
    low, high = (int(integers.min()), int(integers.max())) if integers.numel() else (0, 0)
    sign = signed or low < 0
    bits = max(width, high.bit_length() + sign, (-low - 1).bit_length() + 1 if low < 0 else 0)
    narrow = sign and bits >= 2 and low > -(1 << (bits - 1))  # as far as these numbers go
    channels = [i for i, n in enumerate(scale.shape) if n > 1]
    if len(channels) > 1:
        raise Refused(f"scales of the shape {list(scale.shape)}", "give one for the tensor, or for each channel")
    axis = integers.dim() - scale.dim() + channels[0] if channels else 0
    whole = ScaledFormat.make(bits, steps(scale), signed=sign, axis=axis, narrow=narrow)
    return s.writer.note(exact.float(), Known(fmt, whole, exact))


def rounded(
    s: Step,
    x: Ref,
    scale: Tensor,
    zero: int,
    integers: Integers,
    *,
    mode: Rounding = Rounding.HALF_EVEN,
    tied: bool = True,
) -> Ref:
    """A node that says to which numbers data is rounded.

    Args:
        s: The node of the file.
        x: The data.
        scale: One step.
        zero: The integer that stands for 0.
        integers: Which there are.
        mode: How.
        tied: Whether ``mode`` says of ties what the file does. Else ``half_even`` takes the odd neighbour, and of
            other modes there must be none.
    """
    if scale.numel() != 1:
        raise Refused("data with a scale for each channel", "quantise it with one scale")
    (step,), fracs = steps(scale), frac_widths(scale)
    (width, signed, narrow), (low, high) = integers, integers.limits
    half = -(1 << (width - 1)) if signed else 1 << (width - 1)
    if not low <= zero <= high:
        raise Refused(f"a zero point of {zero} beyond {low} to {high}", "a zero point is one of the integers")
    if fracs is not None and tied and (zero == 0 or (zero == half and not narrow)):
        if narrow:
            x = s.call(torch.clamp, x, math.ldexp(low, -fracs[0]), math.ldexp(high, -fracs[0]))
        return mark(s, x, Marker(FixedFormat(width, fracs[0], signed != (zero != 0)), mode))
    s.writer.integers = True
    odd = mode is Rounding.HALF_EVEN and not tied
    fmt = dataclasses.replace(ScaledFormat.make(width, step, zero, signed=signed, low=low, high=high), odd_ties=odd)
    return mark(s, x, Marker(fmt, mode, tied=tied or odd))


def mark(s: Step, x: Ref, marker: Marker) -> Ref:
    """A node that passes data on, and says what becomes of it."""
    made = s.call(passed_on, x)
    s.writer.markers[made.name] = marker
    return made
