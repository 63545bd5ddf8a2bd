"""Requantisation: the same value at another scale, ``saturate(round((x - z) * multiplier * 2**-shift) + zero_point)``.

The cast of scaled integers, and the one between the two families of formats. The multiplier is a stored tensor, one
for the tensor or one for each channel, and the shift an attribute: the product is exact, a number with ``shift``
fraction bits more than the data, and :func:`mase_hw.numerics.cast` rounds once. A cast of fixed point is the case of
multiplier 1 and zero point 0; it stays the op ``cast``, which has no multiplier.

TensorFlow Lite rounds the product of some ops twice (``MultiplyByQuantizedMultiplier``: a saturating rounding doubling
high multiplication, then a rounding shift to the right, ties away from zero). The attribute ``first`` is the number of
the ``shift`` bits that the first of the two drops, ties up: 31 there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import (
    MULTIPLIER_BITS,
    FixedFormat,
    Multipliers,
    Rounding,
    ScaledFormat,
    ScaledUse,
    enough_bits,
    multipliers,
    steps_of,
)
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import Cast, Params, Tensor3, port
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.numerics.exact_sums import shift_left
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._binary import streamed_shape
from mase_hw.ops._scaled import blocks
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps

_DATA = ("data_in_0", "data_out_0")


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0``; ``multiplier``, optional ``multiplier_shift`` that broadcast to it -> ``data_out_0``.

    A ``multiplier_shift`` of ``s`` multiplies a channel's product by ``2**s`` before the (last) rounding.
    """
    x, m, align = t["data_in_0"], t["multiplier"], t.get("multiplier_shift")
    fx, fm, fy = (a.formats[name] for name in ("data_in_0", "multiplier", "data_out_0"))
    frac, first = fx.frac_width + int(a.attributes["shift"]), int(a.attributes.get("first", 0))
    centred = x.double() - fx.zero_point if fx.zero_point else x  # exact: data is within 53 bits
    bound = magnitude(fx.centred) * magnitude(fm)
    dtype = carrier(bound, wide=True)
    product = as_carrier(centred, dtype) * as_carrier(m, dtype)
    if first:
        # Both drop bits of the whole product; what is left has the rest of the shift to go.
        product = cast(product, first, FixedFormat(max(2, bound.bit_length() + 2 - first), 0), Rounding.HALF_UP)
        frac -= first
    out = _cast(product, frac, align, a)
    # What was rounded twice may be floats again, without a gradient.
    if not dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        smooth = (x.double() - fx.zero_point) * m.double()
        smooth = smooth if align is None else shift_left(smooth, align)
        smooth = smooth * math.ldexp(1.0, fy.frac_width - fx.frac_width - int(a.attributes["shift"])) + fy.zero_point
        out = straight_through(out, smooth.clamp(fy.min_mantissa, fy.max_mantissa))
    return {"data_out_0": out}


def _cast(product: Tensor, frac: int, align: Tensor | None, a: Arithmetic) -> Tensor:
    """One cast; where channels are aligned, one for all that are by as many bits, so that nothing overflows."""
    fmt = a.formats["data_out_0"]
    if align is None:
        return cast(product, frac, fmt, a.rounding, a.overflow)
    result: Tensor | None = None
    for bits in sorted(set(align.flatten().tolist())):
        made = cast(product, frac - int(bits), fmt, a.rounding, a.overflow)
        result = made if result is None else torch.where(align == bits, made, result)
    assert result is not None  # there is at least one channel
    return result


def requantization(
    have: FixedFormat,
    want: FixedFormat,
    *,
    bits: int | None = MULTIPLIER_BITS,
    rounding: Rounding = Rounding.HALF_EVEN,
    exact: bool = False,
    twice: bool = False,
    ratios: Sequence[float | Fraction] | None = None,
) -> tuple[Arithmetic, dict[str, Tensor]]:
    """The arithmetic and the parameters of a requantisation, for :class:`mase_hw.nn.Quantized`.

    Args:
        have: Format of the data; with a scale for every channel, the dimension of the channels is counted from the end.
        want: Format of the result, with one scale.
        bits: Bits of the largest multiplier; None for as many as :func:`mase_hw.formats.enough_bits` says.
        rounding: Of the product; ``half_up`` is that of TensorFlow Lite's single rounding.
        exact: Every channel has a multiplier of all bits, as in TensorFlow Lite (see
            :func:`mase_hw.formats.multipliers`).
        twice: TensorFlow Lite's two roundings; ``rounding`` must then be ``half_away``.
        ratios: What the source multiplies by, for the tensor or each channel; else exactly the ratios of the scales.

    Raises:
        FormatError: Scales too far apart.
    """
    (step,) = steps_of(want)
    wanted = [each / step for each in steps_of(have)] if ratios is None else [Fraction(r) for r in ratios]
    bits = enough_bits(want.width, wanted) if bits is None else bits
    # Twice, channels have one first rounding, so that larger ratios get zeros behind their multipliers.
    least = bits if twice and len(wanted) > 1 else 0
    found = multipliers(wanted, bits, exact=exact or twice, least=least)
    return requantization_by(have, want, found, rounding, min(bits, found.shift) if twice else 0)


def requantization_by(
    have: FixedFormat, want: FixedFormat, found: Multipliers, rounding: Rounding, first: int = 0
) -> tuple[Arithmetic, dict[str, Tensor]]:
    """The same with multipliers that are known.

    Args:
        have: Format of the data.
        want: Format of the result.
        found: Multipliers between integers of the two.
        rounding: Of the product, or of what a first rounding leaves of it.
        first: Bits that the first of two roundings drops; 0 for one rounding.

    Raises:
        FormatError: A ratio of scales so large that its multiplier is no integer of 63 bits.
    """
    if found.width > 63:
        raise FormatError(
            "two scales are too far apart",
            field="scale",
            got=f"a multiplier of {found.width} bits",
            expected="at most 63",
            remedy="give the result a larger scale",
        )
    axis = have.axis if isinstance(have, ScaledFormat) and have.channels > 1 else -1
    shape = (-1, *[1] * (-axis - 1)) if len(found.values) > 1 else (1,)
    parameters = {"multiplier": torch.tensor(found.values, dtype=torch.int64).reshape(shape)}
    formats = {"data_in_0": have, "multiplier": FixedFormat(found.width, 0, signed=False), "data_out_0": want}
    if found.align:
        parameters["multiplier_shift"] = torch.tensor(found.align, dtype=torch.int64).reshape(shape)
        formats["multiplier_shift"] = FixedFormat(max(found.align).bit_length(), 0, signed=False)
    attributes: Attributes = {"shift": found.shift - have.frac_width + want.frac_width}
    if first:
        attributes["first"] = first
    return Arithmetic(formats, rounding, attributes=attributes), parameters


def _scaled(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    out = formats["data_out_0"]
    return "one scale for its result" if isinstance(out, ScaledFormat) and out.per_channel else ""


class RequantizeParams(Params, frozen=True):
    """Parameters of ``fixed_requantize``; see the module for their meaning."""

    data_in_0: Tensor3
    data_in_0_zero_point: int
    multiplier: Tensor3
    has_multiplier_shift: bool
    multiplier_shift: Tensor3
    shift: int
    first: int
    data_out_0: Tensor3
    data_out_0_zero_point: int
    data_out_0_low: int
    data_out_0_high: int
    data_out_0_odd_ties: bool
    rounding: Rounding

    def repetitions(self) -> dict[str, int]:
        """The multipliers come again and again along the data."""
        return dict.fromkeys(("multiplier", "multiplier_shift"), self.data_in_0.beats // self.multiplier.beats)

    def fmt(self, name: str) -> FixedFormat:
        """The format of a port; the result has limits of its own."""
        fmt, low, high = super().fmt(name), self.data_out_0_low, self.data_out_0_high
        if name != "data_out_0" or (
            not self.data_out_0_odd_ties and (low, high) == (fmt.min_mantissa, fmt.max_mantissa)
        ):
            return fmt
        zero = self.data_out_0_zero_point
        result = ScaledFormat.make(fmt.width, 1.0, zero, signed=fmt.signed, low=low, high=high)
        return dataclasses.replace(result, odd_ties=self.data_out_0_odd_ties)

    def modes(self) -> Cast:
        """Results saturate at their limits."""
        return Cast(self.rounding)

    def attributes(self) -> Attributes:
        """The shifts."""
        return {"shift": self.shift, "first": self.first}


def _build(r: Request) -> RequantizeParams:
    formats, shape, attributes = r.arithmetic.formats, r.stream_shapes["data_in_0"], r.arithmetic.attributes
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    several = math.prod(r.shapes["multiplier"]) > 1
    multiplier, width = (streamed_shape(r, "multiplier"), lanes) if several else ((1,), 1)
    fx, fy = formats["data_in_0"], formats["data_out_0"]
    shift = formats.get("multiplier_shift", FixedFormat(1, 0, signed=False))
    return RequantizeParams(
        data_in_0=port(shape, fx, lanes),
        data_in_0_zero_point=fx.zero_point,
        multiplier=port(multiplier, formats["multiplier"], width),
        has_multiplier_shift="multiplier_shift" in formats,
        multiplier_shift=port(multiplier, shift, width),
        shift=int(attributes["shift"]),
        first=int(attributes.get("first", 0)),
        data_out_0=port(shape, fy, lanes),
        data_out_0_zero_point=fy.zero_point,
        data_out_0_low=fy.min_mantissa,
        data_out_0_high=fy.max_mantissa,
        data_out_0_odd_ties=fy.odd_ties and r.arithmetic.rounding is Rounding.HALF_EVEN,
        rounding=r.arithmetic.rounding,
    )


def _multipliers(p: RequantizeParams) -> int:
    """Multiplier blocks: a multiplier of 31 bits takes several for each lane, one of a single bit none."""
    if p.multiplier.fmt.width == 1:
        return 0
    data = p.data_in_0.fmt.width + (1 - p.data_in_0.fmt.signed) + int(p.data_in_0_zero_point != 0)
    return p.data_in_0.lanes[0] * blocks(data, p.multiplier.fmt.width + 1)


def _work(p: RequantizeParams) -> int:
    """Uses of a multiplier block per frame."""
    blocks_of_lane = _multipliers(p) // p.data_in_0.lanes[0]
    return math.prod(p.data_in_0.shape) * blocks_of_lane


def _case(
    name: str,
    shape: tuple[int, ...],
    lanes: int,
    formats: tuple[FixedFormat, FixedFormat],
    multiplier: tuple[int, ...],
    rounding: Rounding = Rounding.HALF_EVEN,
    *,
    channels: bool = True,
    **attributes: int,
) -> Case:
    """A case; the multiplier as bits, shift and bits of shifts, for the channels of the last dimension or for all."""
    bits, shift, *align = multiplier
    stored: dict[str, FixedFormat] = {"data_in_0": formats[0], "multiplier": FixedFormat(bits, 0, signed=False)}
    stored |= {"multiplier_shift": FixedFormat(align[0], 0, signed=False)} if align else {}
    a = Arithmetic(
        {**stored, "data_out_0": formats[1]}, rounding, attributes=attributes_of({"shift": shift, **attributes})
    )
    shapes = {"data_in_0": shape, "multiplier": shape[-1:] if channels else (1,)}
    return Case(name, _build(Request(name, a, shapes, {"data_in_0": (lanes,)})), 5)


def _cases() -> list[Case]:
    def made(width: int, zero: int = 0, odd_ties: bool = False, **more: Any) -> ScaledFormat:
        return dataclasses.replace(ScaledFormat.make(width, 1.0, zero, **more), odd_ties=odd_ties)

    s24, s8 = made(24), made(8)
    away, up = Rounding.HALF_AWAY, Rounding.HALF_UP
    return [
        _case("channels", (2, 3, 8), 4, (s24, made(8, -3)), (31, 45)),
        _case("one_multiplier", (2, 9), 3, (made(20), s8), (16, 28), channels=False),
        _case("uneven", (2, 7), 3, (s24, made(8, 5)), (12, 27), up),
        _case("uneven_one", (3, 5), 2, (made(12, -7), made(6, 3)), (9, 14), channels=False),
        _case("unsigned", (1, 6), 2, (s24, made(8, signed=False)), (31, 46), away),
        _case("clamped", (1, 8), 8, (s24, made(8, -100, low=-100, high=20)), (31, 46), Rounding.FLOOR),
        _case("clamped_without_zero", (2, 3), 3, (made(16), made(8, low=1, high=90)), (8, 15), Rounding.TRUNC),
        _case("unsigned_clamped", (1, 6), 2, (s24, made(8, signed=False, high=90)), (31, 46)),
        _case("unsigned_data", (2, 5), 2, (made(8, 128, signed=False), made(8, -1)), (31, 32), channels=False),
        _case("serial", (1, 3), 1, (made(32), made(16, 77)), (31, 47)),
        _case("twice", (2, 6), 3, (made(32), made(8, 4)), (31, 55), away, first=31),
        _case("twice_ties", (2, 6), 3, (made(6), made(5, 4)), (3, 5), away, channels=False, first=3),
        _case("twice_channels", (2, 5), 2, (made(28), s8), (31, 52, 3), away, first=31),
        _case("aligned", (2, 4), 2, (made(18), made(4, -8)), (15, 30, 2)),
        _case("one_bit", (1, 4), 2, (made(6), made(1, signed=False)), (3, 4)),
        _case("from_fixed", (1, 6), 2, (FixedFormat(8, 5), made(8, -20)), (20, 18), channels=False),
        _case("to_fixed", (1, 6), 2, (s24, FixedFormat(9, 4)), (20, 40)),
        _case("no_shift", (1, 4), 4, (made(4), made(12, 9)), (3, 0)),
        _case("odd_ties", (2, 5), 2, (made(7, 4), made(5, -3, odd_ties=True)), (3, 3), channels=False),
        _case("odd_ties_clamped", (2, 4), 2, (made(7), made(4, 7, True, signed=False, high=12)), (3, 8, 2)),
        _case("odd_ties_of_zero", (1, 4), 2, (made(5), made(6, odd_ties=True)), (1, 2), channels=False),
        _case("wide_multiplier", (1, 4), 2, (made(48), s8), (37, 77)),
        _case("odd_ties_twice", (2, 6), 3, (made(6), made(5, -3, odd_ties=True)), (3, 5), channels=False, first=3),
        _case("odd_ties_of_few_steps", (2, 5), 2, (made(7), made(4, 7, odd_ties=True, signed=False)), (3, 8)),
        _case("twice_narrow", (2, 6), 3, (made(6), made(5)), (3, 7), away, first=7),
    ]


OPS = (
    OpDef(
        name="requantize",
        mase_type="builtin_func",
        parameters=("multiplier", "multiplier_shift"),
        golden=golden,
        formats=("data_in_0", "multiplier", "multiplier_shift", "data_out_0"),
        scaled=ScaledUse("requantisation", _scaled),
        hardware=Hardware(
            module="fixed_requantize",
            params=RequantizeParams,
            build=_build,
            latency=lambda p: Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=4)),
            cases=_cases,
            work=_work,
            multipliers=_multipliers,
            follows_input=True,
            time_multiplexed=True,
            static=("multiplier", "multiplier_shift"),
            broadcast=("multiplier", "multiplier_shift"),
        ),
    ),
)
