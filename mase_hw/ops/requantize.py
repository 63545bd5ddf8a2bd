"""Requantisation: the same value at another scale, ``saturate(round((x - z) * multiplier * 2**-shift) + zero_point)``.

The cast of scaled integers, and the one between the two families of formats. The multiplier is a stored tensor, one
for the tensor or one for each channel, and the shift an attribute: the product is exact, a number with ``shift``
fraction bits, and :func:`mase_hw.numerics.cast` rounds once. A cast of fixed point is the case of multiplier 1 and zero
point 0; it stays the op ``cast``, which has no multiplier.

TensorFlow Lite rounds the product of some ops twice (``MultiplyByQuantizedMultiplier``: a saturating rounding doubling
high multiplication, then a rounding shift to the right, ties away from zero). The attribute ``first`` is the number of
the ``shift`` bits that the first of the two drops, ties up: 31 there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.exact_sums import exact_product, shift_left
from mase_hw.formats import (
    MULTIPLIER_BITS,
    FixedFormat,
    Rounding,
    ScaledFormat,
    multipliers,
    steps_of,
)
from mase_hw.numerics import carrier, cast, magnitude, straight_through
from mase_hw.opdef import Arithmetic, OpDef


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0``; ``multiplier``, optional ``multiplier_shift`` that broadcast to it -> ``data_out_0``.

    A ``multiplier_shift`` of ``s`` multiplies a channel's product by ``2**s`` before the (last) rounding.
    """
    x, m, align = t["data_in_0"], t["multiplier"], t.get("multiplier_shift")
    fx, fm, fy = (a.formats[name] for name in ("data_in_0", "multiplier", "data_out_0"))
    frac, first = int(a.attributes["shift"]), int(a.attributes.get("first", 0))
    centred = x.double() - fx.zero_point if fx.zero_point else x  # exact: data is within 53 bits
    bound = magnitude(fx.centred) * magnitude(fm)
    product, dropped = exact_product(centred, m, magnitude(fx.centred), magnitude(fm))
    frac -= dropped
    least = frac - (0 if align is None else a.formats["multiplier_shift"].max_mantissa)
    if dropped and (first or least < 2):
        carrier(bound)  # refuses what no integer holds
    if first:
        # Both drop bits of the whole product; what is left has the rest of the shift to go.
        product = cast(product, first, FixedFormat(max(2, bound.bit_length() + 2 - first), 0), Rounding.HALF_UP)
        frac -= first
    out = _cast(product, frac, align, a)
    if product.dtype == torch.int64 and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        smooth = (x.double() - fx.zero_point) * m.double()
        smooth = smooth if align is None else shift_left(smooth, align)
        smooth = smooth * math.ldexp(1.0, -int(a.attributes["shift"])) + fy.zero_point
        out = straight_through(out, smooth.clamp(fy.min_mantissa, fy.max_mantissa))
    return {"data_out_0": out}


def _cast(product: Tensor, frac: int, align: Tensor | None, a: Arithmetic) -> Tensor:
    """One cast; where channels are aligned, one for all that are by as many bits, so that nothing overflows."""
    fmt = a.formats["data_out_0"]
    if align is None:
        return cast(product, frac + fmt.frac_width, fmt, a.rounding, a.overflow)
    result: Tensor | None = None
    for bits in sorted(set(align.flatten().tolist())):
        made = cast(product, frac - int(bits) + fmt.frac_width, fmt, a.rounding, a.overflow)
        result = made if result is None else torch.where(align == bits, made, result)
    assert result is not None  # there is at least one channel
    return result


def requantization(
    have: FixedFormat,
    want: FixedFormat,
    *,
    bits: int = MULTIPLIER_BITS,
    rounding: Rounding = Rounding.HALF_EVEN,
    exact: bool = False,
    twice: bool = False,
) -> tuple[Arithmetic, dict[str, Tensor]]:
    """The arithmetic and the parameters of a requantisation, for :class:`mase_hw.nn.Quantized`.

    Args:
        have: Format of the data; with a scale for every channel, the dimension of the channels is counted from the end.
        want: Format of the result, with one scale.
        bits: Bits of the largest multiplier.
        rounding: Of the product; ``half_up`` is that of TensorFlow Lite's single rounding.
        exact: Every channel has a multiplier of all bits, as in TensorFlow Lite (see
            :func:`mase_hw.formats.multipliers`).
        twice: TensorFlow Lite's two roundings; ``rounding`` must then be ``half_away``.

    Raises:
        FormatError: Scales too far apart.
    """
    (step,) = steps_of(want)
    ratios = [each / step for each in steps_of(have)]
    # Twice, channels have one first rounding, so that larger ratios get zeros behind their multipliers.
    least = bits if twice and len(ratios) > 1 else 0
    found = multipliers(ratios, bits, exact=exact or twice, least=least)
    axis = have.axis if isinstance(have, ScaledFormat) and have.channels > 1 else -1
    shape = (-1, *[1] * (-axis - 1)) if len(found.values) > 1 else (1,)
    parameters = {"multiplier": torch.tensor(found.values, dtype=torch.int64).reshape(shape)}
    formats = {"data_in_0": have, "multiplier": FixedFormat(found.width, 0, signed=False), "data_out_0": want}
    if found.align:
        parameters["multiplier_shift"] = torch.tensor(found.align, dtype=torch.int64).reshape(shape)
        formats["multiplier_shift"] = FixedFormat(max(found.align).bit_length(), 0, signed=False)
    attributes = {"shift": found.shift, **({"first": min(bits, found.shift)} if twice else {})}
    return Arithmetic(formats, rounding, attributes=attributes), parameters


def _scaled(formats: Mapping[str, FixedFormat]) -> str:
    out = formats["data_out_0"]
    return "one scale for its result" if isinstance(out, ScaledFormat) and out.per_channel else ""


OPS = (
    OpDef(
        name="requantize",
        mase_type="builtin_func",
        parameters=("multiplier", "multiplier_shift"),
        golden=golden,
        scaled=_scaled,
    ),
)
