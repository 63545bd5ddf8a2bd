"""QONNX: ``Quant``, ``FloatQuant``, ``BipolarQuant`` and ``Trunc``."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Rounding, ScaledFormat
from mase_hw.formats.elements import holding
from mase_hw.importers.graph import Marker, Ref, Refused
from mase_hw.importers.onnx import grids
from mase_hw.importers.onnx.step import Step

ROUNDINGS = {
    "ROUND": Rounding.HALF_EVEN,
    "HALF_EVEN": Rounding.HALF_EVEN,
    "FLOOR": Rounding.FLOOR,
    "DOWN": Rounding.TRUNC,
    "HALF_UP": Rounding.HALF_AWAY,
}
"""Names of QONNX -> modes; its ``HALF_UP`` rounds ties away from zero."""
_ROUND: dict[Rounding, Callable[[Tensor], Tensor]] = {
    Rounding.HALF_EVEN: torch.round,
    Rounding.FLOOR: torch.floor,
    Rounding.TRUNC: torch.trunc,
    Rounding.HALF_AWAY: lambda x: torch.sign(x) * torch.floor(x.abs() + 0.5),
}


def quant(s: Step) -> Ref:
    """``Quant``: ``(round(clip(x / scale + zero point)) - zero point) * scale``."""
    mode, scale, x = _rounding(s, "ROUND"), s.known(1, "the scale"), s.data()
    signed, narrow, bits = bool(s.node.get("signed", 1)), bool(s.node.get("narrow", 0)), s.known(3, "the bit width")
    if bits.numel() > 1 or (scale.numel() > 1 and not isinstance(x, Tensor)):
        return _by_element(s, mode, signed, narrow)
    width = _bits(s, 3)
    integers = grids.Integers(width, signed, narrow)
    if isinstance(x, Tensor) and not (width == 1 and signed):
        zeros = _zeros(s)
        low, high = integers.limits
        grids.steps(scale)
        if not bool(((zeros >= low) & (zeros <= high)).all()):
            raise Refused(f"a zero point beyond {low} to {high}", "a zero point is one of the integers")
        codes = _ROUND[mode]((x.float() / scale.float() + zeros).clamp(low, high)) - zeros
        _refuse_spread(codes, x, scale)
        codes, scale = _joined(codes.double(), scale)
        return grids.stored(s, codes, scale, width, signed, fixed=not bool(zeros.any()))
    zero = _zero(s)
    if width == 1 and signed:
        if zero:
            raise Refused(f"one bit with a sign and a zero point of {zero}", "use a zero point of 0")
        return _bipolar(s, scale)
    tied = True
    if zero and mode is not Rounding.FLOOR:
        # The zero point is added before rounding: what depends on the sign or on even numbers is not as for values.
        if mode is Rounding.TRUNC and signed:
            raise Refused(f"DOWN with a zero point of {zero} and a sign", "use FLOOR or ROUND")
        if not signed:
            mode = {Rounding.TRUNC: Rounding.FLOOR, Rounding.HALF_AWAY: Rounding.HALF_UP}.get(mode, mode)
        tied = mode in (Rounding.FLOOR, Rounding.HALF_UP) or (mode is Rounding.HALF_EVEN and zero % 2 == 0)
    return grids.rounded(s, x, scale, zero, integers, mode=mode, tied=tied)


def _refuse_spread(codes: Tensor, x: Tensor, scale: Tensor) -> None:
    if codes.shape != x.shape:
        raise Refused(
            f"scales of the shape {list(scale.shape)} for stored numbers of the shape {list(x.shape)}",
            "give one scale, or one for every channel or element in a shape that broadcasts to the numbers",
        )


def _joined(codes: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Integers at the finest scale, if several dimensions have scales and all are powers of two; else as they are."""
    if sum(n > 1 for n in scale.shape) < 2 or grids.frac_widths(scale) is None:
        return codes, scale
    finest = scale.double().min()
    return codes * (scale.double() / finest), finest


def _by_element(s: Step, mode: Rounding, signed: bool, narrow: bool) -> Ref:
    """``Quant`` whose elements differ in scale and bits: integers of the finest scale, or a format for every element.

    Raises:
        Refused: If a scale is no power of two, there is a zero point, or a number of bits says no format.
    """
    scale, bits, x = s.known(1, "the scale"), s.known(3, "the bit width").double(), s.data()
    fracs = grids.frac_widths(scale)
    if fracs is None or _zero(s):
        raise Refused("elements with bits of their own and other scales", "use powers of two, without a zero point")
    if not bool(((bits == bits.round()) & (bits >= 0) & (bits <= grids.MOST_BITS)).all()):
        raise Refused(f"bit widths beyond 0 to {grids.MOST_BITS}, or not whole", "quantise to whole numbers of bits")
    if signed and bool((bits == 1).any()):
        raise Refused(
            "one bit with a sign for some elements, which for a whole tensor means -1 and 1", "give them two bits"
        )
    if bool((bits == 0).any()) and signed and float(_ROUND[mode](torch.tensor(-0.5))):
        raise Refused(f"0 bits, which {mode.name.lower()} rounds to -1", "use ROUND, or a scale without such elements")
    if isinstance(x, Tensor):
        high = 2.0 ** (bits - int(signed)) - 1 - int(narrow and not signed)
        low = int(narrow) - 2.0 ** (bits - 1) if signed else torch.zeros_like(bits)
        high = torch.where(bits == 0, 0.0, high)
        low = torch.where(bits == 0, 0.0, low)
        codes = _ROUND[mode]((x.float() / scale.float()).double().clamp(low, high))
        _refuse_spread(codes, x, scale)
        finest = scale.double().min()
        codes = codes * (scale.double() / finest)
        most = max(int(codes.max()).bit_length(), int(-codes.min() - 1).bit_length() if bool((codes < 0).any()) else 0)
        return grids.stored(s, codes, finest, max(most + int(signed), 1), signed)
    if narrow:
        raise Refused("a narrow range of data whose elements differ", "use the whole range")
    shape = s.writer.shape(x)
    try:
        each = [torch.broadcast_to(v, shape)[0].reshape(-1) for v in (bits, torch.tensor(fracs).reshape(scale.shape))]
    except RuntimeError:
        raise Refused(
            f"scales {list(scale.shape)} and bit widths {list(bits.shape)} for data {list(shape)}",
            "give them shapes that broadcast to a frame",
        ) from None
    elements = tuple((int(width), int(frac), signed) for width, frac in zip(*map(Tensor.tolist, each), strict=True))
    return grids.mark(s, x, Marker(holding(elements), mode, elements=elements))


def float_quant(s: Step) -> Ref:
    """``FloatQuant`` of stored numbers: minifloats, as integers times the step of the subnormal ones."""
    mode, scale, x = _rounding(s, "ROUND"), s.known(1, "the scale"), s.data()
    if not isinstance(x, Tensor):
        raise Refused("data that are minifloats", "quantise data with Quant; stored numbers may be minifloats")
    if not s.node.get("saturation", 1):
        raise Refused("numbers that become infinity or NaN", "set saturation")
    for name in ("has_inf", "has_nan", "has_subnormal"):
        s.node.get(name, 0)  # by the definition of the operation without effect
    names = ("bits of the exponent", "bits of the mantissa", "the bias of the exponent")
    bits, mantissa, bias = (_integer(s, index, f"the {name}") for index, name in enumerate(names, 2))
    grids.steps(scale)
    values, lowest = (x.float() / scale.float()).double(), 1 - bias - mantissa
    exponents = (torch.frexp(values).exponent - 1 - mantissa).clamp(min=lowest).double()
    most = (2.0 - 2.0**-mantissa) * 2.0 ** (2**bits - 1 - bias)
    if len(s.inputs) > 5:
        most = min(most, float(s.known(5, "the largest number").reshape(-1)[0]))
    rounded = (_ROUND[mode](values * 2.0**-exponents) * 2.0**exponents).clamp(-most, most)
    codes = torch.ldexp(rounded, torch.tensor(-lowest))
    width = int(codes.abs().max()).bit_length() + 1 if codes.numel() else 2
    if width > grids.MOST_BITS or not bool((codes == codes.round()).all()):
        raise Refused(f"numbers of {width} bits from the smallest to the largest", f"at most {grids.MOST_BITS}")
    return grids.stored(s, codes, scale * 2.0**lowest, max(width, 2), True)


def _integer(s: Step, index: int, what: str) -> int:
    value = float(s.known(index, what).reshape(-1)[0])
    if not value.is_integer() or abs(value) > 128:
        raise Refused(f"{what} of {value:g}", "a small integer is expected")
    return int(value)


def bipolar_quant(s: Step) -> Ref:
    """``BipolarQuant``: the scale, with the sign of the value; 0 counts as positive."""
    return _bipolar(s, s.known(1, "the scale"))


def _bipolar(s: Step, scale: Tensor) -> Ref:
    fracs, x = grids.frac_widths(scale), s.data()
    if isinstance(x, Tensor):
        signs = torch.where(x >= 0, 1.0, -1.0).double()
        return grids.stored(s, signs, scale, 2, True)
    if scale.numel() != 1:
        raise Refused("the signs of data with a scale for each channel", "quantise it with one scale")
    (step,) = grids.steps(scale)
    # 2 * step where the value is not negative, less one step: both are exact.
    positive = s.writer.method("to", s.call(torch.ge, x, 0.0), torch.float32)
    signs = s.call(torch.sub, s.call(torch.mul, positive, 2 * step), step)
    s.writer.integers |= fracs is None
    fmt = ScaledFormat.make(2, step, narrow=True) if fracs is None else FixedFormat(2, fracs[0])
    return grids.mark(s, signs, Marker(fmt, Rounding.HALF_EVEN))


def trunc(s: Step) -> Ref:
    """``Trunc`` of version 2 (with an output scale) or 1: drops the last bits of what is quantised."""
    up = s.node.get("rounding_mode", "FLOOR").upper() == "CEIL"
    mode, scale = Rounding.FLOOR if up else _rounding(s, "FLOOR"), s.known(1, "the scale")
    if _zero(s):
        raise Refused(f"a zero point of {_zero(s)} of what is truncated", "truncate without a zero point")
    if len(s.inputs) != (6 if s.node.version > 1 else 5):
        raise Refused(f"{len(s.inputs)} inputs in version {s.node.version} of {s.node.domain}")
    given, x, signed = _bits(s, 3, "the input bit width"), s.data(), True
    if s.node.version > 1:
        signed = bool(s.node.get("signed", 1))
        if s.node.get("narrow", 0):
            raise Refused("a narrow range of what is truncated", "use the whole range")
        target, width = s.known(4, "the output scale"), _bits(s, 5, "the output bit width")
        given_width, given_scale = grids.MOST_BITS * 2, scale
    else:
        lost = given - _bits(s, 4, "the output bit width")
        if grids.frac_widths(scale) is None:
            raise Refused("version 1 with a scale that is no power of two", "use version 2 of Trunc")
        x = s.call(torch.mul, x, math.ldexp(1.0, -lost))
        # Nothing is clipped: what comes is a number of the input bit width, signed or not.
        target, width = scale, given - lost + 1
        given_width, given_scale = given + 1, scale * math.ldexp(1.0, -lost)
    if up:  # the next multiple of the coarse step is the one below what a coarse step less a fine one is added to
        coarse, fine = (grids.steps(v)[0] for v in (target, given_scale))
        if coarse < fine or not (coarse / fine).is_integer():
            raise Refused(f"CEIL from steps of {fine:g} to {coarse:g}", "truncate to a multiple of the steps")
        x, given_width = s.call(torch.add, x, coarse - fine), given_width + 2  # with a sign, and one bit more
    have, want = _data_format(given_scale, given_width, signed or up), _data_format(target, width, signed)
    if isinstance(x, Tensor):
        step = grids.steps(target)[0]
        ends = [v * step for v in (want.min_mantissa, want.max_mantissa)]
        return (_ROUND[mode](x.double() / step) * step).clamp(*ends).float()
    s.writer.integers |= isinstance(want, ScaledFormat)
    return grids.mark(s, x, Marker(want, mode, have))


def _data_format(scale: Tensor, width: int, signed: bool) -> FixedFormat:
    if scale.numel() != 1:
        raise Refused("data with a scale for each channel", "quantise it with one scale")
    fracs = grids.frac_widths(scale)
    if fracs is None:
        return ScaledFormat.make(width, grids.steps(scale), signed=signed)
    return FixedFormat(width, fracs[0], signed)


def _bits(s: Step, index: int, what: str = "the bit width") -> int:
    """A known number of bits."""
    value = s.known(index, what)
    number = float(value.reshape(-1)[0]) if value.numel() == 1 else math.nan
    if not number.is_integer() or not 1 <= number <= grids.MOST_BITS:
        raise Refused(
            f"{what} is {value.tolist()!r:.60}, not one number from 1 to {grids.MOST_BITS}",
            "quantise to whole numbers of bits",
        )
    return int(number)


def _zeros(s: Step) -> Tensor:
    """Known zero points: one, or of stored numbers one for each channel."""
    value = s.known(2, "the zero point").float()
    if not value.numel() or not bool((torch.isfinite(value) & (value == value.round())).all()):
        raise Refused(f"a zero point of {value.tolist()!r:.60}, not an integer", "a zero point is one of the integers")
    return value


def _zero(s: Step) -> int:
    """A known zero point, the same everywhere."""
    found = set(_zeros(s).reshape(-1).tolist())
    if len(found) != 1:
        raise Refused(f"zero points for each channel: {sorted(found)[:4]}", "quantise it with one zero point")
    return int(found.pop())


def _rounding(s: Step, default: str) -> Rounding:
    """The rounding mode."""
    name = s.node.get("rounding_mode", default).upper()
    if name not in ROUNDINGS:
        raise Refused(f"the rounding mode {name[:40]!r}", f"use one of {', '.join(ROUNDINGS)}")
    return ROUNDINGS[name]


RULES = {"Quant": quant, "IntQuant": quant, "FloatQuant": float_quant, "BipolarQuant": bipolar_quant, "Trunc": trunc}
"""Operation of QONNX -> what writes it."""
DOMAINS = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})
"""Domains of QONNX."""
