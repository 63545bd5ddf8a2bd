"""Scaled integers: numbers ``scale * (m - zero_point)`` with any positive real scale.

The arithmetic on their mantissas is that of fixed point without a fraction, so a :class:`ScaledFormat` is a
:class:`~mase_hw.formats.FixedFormat` of ``frac_width`` 0: an op that takes scaled integers computes with them as with
integers, and the scale says what they stand for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mase_hw.errors import FormatError
from mase_hw.formats.fixed import FixedFormat

Limits = tuple[int, ...]


def _fail(problem: str, field: str, got: Any, expected: str, remedy: str = "") -> FormatError:
    return FormatError(
        f"{problem} of a scaled-integer format", field=field, got=repr(got), expected=expected, remedy=remedy
    )


@dataclass(frozen=True)
class ScaledFormat(FixedFormat):
    """The numbers ``scale * (m - zero_point)`` with ``m`` an integer of ``width`` bits.

    Made by :meth:`make`, which takes single numbers where there is one of a kind.

    Args:
        width: Bits of the mantissa, sign included; at least 1.
        frac_width: 0, the binary point of the mantissa.
        signed: Two's complement if true.
        scales: Step between two neighbouring numbers: one for the tensor, or one for every index of dimension
            ``axis``. Each is finite and positive, and means exactly the rational number that the float is.
        zero_point: The mantissa that stands for 0, one of ``width`` bits.
        axis: Dimension of the tensor that has the channels; counted from the end if negative.
        lows: Smallest mantissa, one for the tensor or one for every channel; empty for that of the width. A *narrow
            range* is that of a signed format without the most negative code.
        highs: Largest mantissa, likewise.
        odd_ties: Where a value is rounded half to even, one in the middle between two numbers becomes the one that is
            an odd number of steps from 0. So it is where an odd zero point is added before rounding, as QONNX does.

    Raises:
        FormatError: A width, scale, zero point or limit that is no such number or out of range.
    """

    frac_width: int = 0
    signed: bool = True
    scales: tuple[float, ...] = (1.0,)
    zero_point: int = 0
    axis: int = 0
    lows: Limits = ()
    highs: Limits = ()
    odd_ties: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frac_width != 0:
            raise _fail("the fraction width", "frac_width", self.frac_width, "0", "put the weight into the scale")
        if not self.scales:
            raise _fail("the scales", "scale", self.scales, "one number, or one for every channel")
        for scale in self.scales:
            if not isinstance(scale, float) or not math.isfinite(scale) or scale <= 0.0:
                raise _fail(
                    "a scale", "scale", scale, "a finite number above 0", "a scale is the step between two numbers"
                )
        for field in ("zero_point", "axis"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int):
                raise _fail(f"the {field.replace('_', ' ')}", field, value, "int")
        first, last = super().min_mantissa, super().max_mantissa
        for field in ("lows", "highs"):
            limits = getattr(self, field)
            if len(limits) not in (0, 1, self.channels):
                raise _fail(f"the {field}", field, limits, f"1 or {self.channels} of them")
            if any(isinstance(v, bool) or not isinstance(v, int) or not first <= v <= last for v in limits):
                raise _fail(f"the {field}", field, limits, f"integers from {first} to {last}")
        if any(low > high for low, high in self.limits):
            raise _fail("the limits", "lows", list(self.limits), "no low above its high")
        # One way to write a format, so that equal ones are equal.
        pairs = self.limits if len(set(self.limits)) > 1 else self.limits[:1]
        lows, highs = ((), ()) if set(pairs) == {(first, last)} else zip(*pairs, strict=True)
        object.__setattr__(self, "lows", lows)
        object.__setattr__(self, "highs", highs)
        del self.__dict__["limits"]  # they were looked at before
        if not self.per_channel:
            object.__setattr__(self, "axis", 0)
        if not first <= self.zero_point <= last:
            raise _fail(
                "the zero point",
                "zero_point",
                self.zero_point,
                f"{first} to {last}",
                "0 must be one of the numbers; widen the range so that it is",
            )

    @classmethod
    def make(
        cls,
        width: int,
        scale: float | Fraction | Iterable[float | Fraction],
        zero_point: int = 0,
        *,
        signed: bool = True,
        axis: int = 0,
        narrow: bool = False,
        low: int | Iterable[int] | None = None,
        high: int | Iterable[int] | None = None,
    ) -> ScaledFormat:
        """A format, from single numbers or one for every channel.

        Args:
            width: Bits.
            scale: As ``scales``; fractions are rounded to the nearest float64.
            zero_point: The mantissa of 0.
            signed: Two's complement.
            axis: Dimension of the channels.
            narrow: Without the most negative code; for signed formats of at least 2 bits.
            low: As ``lows``.
            high: As ``highs``.

        Raises:
            FormatError: As the constructor; and a narrow range that does not exist.
        """
        given = (scale,) if isinstance(scale, float | int | Fraction) else tuple(scale)
        try:
            scales = tuple(float(s) for s in given)
        except (TypeError, ValueError, OverflowError) as error:
            raise _fail("a scale", "scale", scale, "a finite number above 0") from error
        if narrow:
            if not signed or width < 2 or low is not None:
                raise _fail("the narrow range", "narrow", True, "a signed format of 2 bits or more, without lows")
            low = -(1 << (width - 1)) + 1
        return cls(width, 0, signed, scales, zero_point, axis, _limits(low), _limits(high))

    @property
    def channels(self) -> int:
        """Scales: 1 for the tensor, or one for every channel."""
        return len(self.scales)

    @property
    def per_channel(self) -> bool:
        """Whether channels have scales or limits of their own."""
        return max(len(self.scales), len(self.lows), len(self.highs)) > 1

    @functools.cached_property
    def limits(self) -> tuple[tuple[int, int], ...]:
        """The smallest and the largest mantissa, of the tensor or of every channel."""
        lows = self.lows or (super().min_mantissa,)
        highs = self.highs or (super().max_mantissa,)
        count = max(len(lows), len(highs))
        return tuple(zip(lows * (count // len(lows)), highs * (count // len(highs)), strict=True))

    @property
    def min_mantissa(self) -> int:
        """Smallest mantissa of any channel."""
        return min(low for low, _ in self.limits)

    @property
    def max_mantissa(self) -> int:
        """Largest mantissa of any channel."""
        return max(high for _, high in self.limits)

    @property
    def scale(self) -> float:
        """Weight of the last bit; of channels, the largest."""
        return max(self.scales)

    @property
    def rule(self) -> str:
        """How an integer becomes a value, as documents and comments say it."""
        integer = f"(integer - {self.zero_point})" if self.zero_point else "integer"
        scale = repr(self.scales[0]) if self.channels == 1 else "the scale of its channel"
        return f"{integer} * {scale}".replace("- -", "+ ")

    @property
    def min_value(self) -> float:
        """Smallest value of any channel."""
        return min(s * (low - self.zero_point) for s, (low, _) in self._channels())

    @property
    def max_value(self) -> float:
        """Largest value of any channel."""
        return max(s * (high - self.zero_point) for s, (_, high) in self._channels())

    def _channels(self) -> Iterable[tuple[float, tuple[int, int]]]:
        limits = self.limits
        count = max(self.channels, len(limits))
        return zip(self.scales * (count // self.channels), limits * (count // len(limits)), strict=True)

    @property
    def precision(self) -> list[int]:
        """The format as MASE's metadata shows it: ``[width]``; scale and zero point stand beside it."""
        return [self.width]

    @property
    def mantissas(self) -> FixedFormat:
        """The format of the mantissas, which is all that hardware knows: without scale, zero point and limits."""
        return FixedFormat(self.width, 0, self.signed)

    @property
    def centred(self) -> ScaledFormat:
        """The format of ``m - zero_point``: what is left of a cast to this one when the zero point is added after it.

        One bit wider where the zero point is not 0.
        """
        if not self.zero_point:
            return self
        lows, highs = zip(*self.limits, strict=True)
        return ScaledFormat(
            self.width + 1,
            0,
            True,
            self.scales,
            0,
            self.axis,
            tuple(low - self.zero_point for low in lows),
            tuple(high - self.zero_point for high in highs),
            self.odd_ties,
        )

    def clamped(self, low: float | None, high: float | None) -> ScaledFormat:
        """The same numbers, but none below ``low`` or above ``high``: what a clamp leaves of them.

        The ends are rounded half away from zero to numbers of the format, as TensorFlow Lite computes the activation
        range of a fused ReLU (``CalculateActivationRangeQuantized``).
        """
        (first, last), *more = self.limits
        if more or self.channels > 1:
            raise _fail("the limits", "lows", self.lows, "one for the tensor, to clamp all of it")

        def mantissa(value: float) -> int:
            exact = Fraction(value) / Fraction(self.scales[0])
            away = math.floor(abs(exact) + Fraction(1, 2))
            return self.zero_point + (away if exact >= 0 else -away)

        bottom = first if low is None else min(max(first, mantissa(low)), last)
        top = last if high is None else max(min(last, mantissa(high)), bottom)
        return dataclasses.replace(self, lows=(bottom,), highs=(top,))

    def __str__(self) -> str:
        scale = f"{self.scales[0]:.6g}" if self.channels == 1 else f"{min(self.scales):.6g}..{max(self.scales):.6g}"
        zero = f", zero {self.zero_point}" if self.zero_point else ""
        full = (super().min_mantissa, super().max_mantissa)
        own = (self.min_mantissa, self.max_mantissa)
        limits = f", {own[0]} to {own[1]}" if own != full else ""
        ties = ", ties to odd steps" if self.odd_ties else ""
        return f"{'s' if self.signed else 'u'}{self.width} * {scale}{zero}{limits}{ties}"


def _limits(value: int | Iterable[int] | None) -> Limits:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def as_scaled(fmt: FixedFormat) -> ScaledFormat:
    """A format as one of scaled integers: the same numbers."""
    if isinstance(fmt, ScaledFormat):
        return fmt
    return ScaledFormat.make(fmt.width, Fraction(2) ** -fmt.frac_width, signed=fmt.signed)


def steps_of(fmt: FixedFormat) -> tuple[Fraction, ...]:
    """The exact weight of the last bit, of the tensor or of every channel; of both families.

    Args:
        fmt: Any format.
    """
    if isinstance(fmt, ScaledFormat):
        return tuple(Fraction(s) for s in fmt.scales)
    return (Fraction(2) ** -fmt.frac_width,)


def sum_format(bits: int, frac: int, x: FixedFormat, w: FixedFormat, axis: int) -> FixedFormat:
    """The format of exact sums of products, in the family of its factors.

    Args:
        bits: Bits that every sum fits, sign included.
        frac: Fraction width of the sums, of fixed-point factors.
        x: Format of the data.
        w: Format of the weights; their channels are those of the sums.
        axis: Dimension of the sums' channels.
    """
    if not isinstance(x, ScaledFormat) and not isinstance(w, ScaledFormat):
        return FixedFormat(bits, frac)
    (step,) = steps_of(x)
    return ScaledFormat.make(bits, [step * each for each in steps_of(w)], axis=axis)
