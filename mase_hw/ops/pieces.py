"""The ops of :data:`mase_hw.ops.pieces.PIECES`: ``cast(slope * x + offset)`` with the constants of x's piece.

Comparisons of a tensor with a number, as functions of their own: hardware compares codes with a constant.

Functions made of three linear pieces: one line each; comparators and constant factors in hardware.

``f(x) = slope * x + offset``, with one pair below a threshold, one above another, and one between them. Slopes and
offsets become integers (exactly, where they have few bits), the thresholds codes of the input, and what follows is
exact until the one cast. Where constants are rounded, a slope and an offset each move what is cast by at most
``2**-GUARD`` LSB.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, ScaledFormat, ScaledUse, steps_of
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.formats.taken import Ends
from mase_hw.nn.values import OnValues, cast_to, in_float32
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops import _elementwise as elementwise
from mase_hw.ops._scaled import clamp, exact_result, thresholds
from mase_hw.steps import Steps


def _compare(function: Callable[..., Tensor], itself: Callable[..., Tensor], x: Tensor, number: float) -> Tensor:
    """A comparison that tracing records as one call."""
    if has_torch_function_unary(x):
        result: Tensor = handle_torch_function(itself, (x,), x, number)
        return result
    return function(x, number)


def lt_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is below the number; a boolean tensor of the same shape."""
    return _compare(torch.lt, lt_number, x, number)


def le_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is at most the number; a boolean tensor of the same shape."""
    return _compare(torch.le, le_number, x, number)


def gt_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is above the number; a boolean tensor of the same shape."""
    return _compare(torch.gt, gt_number, x, number)


def ge_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is at least the number; a boolean tensor of the same shape."""
    return _compare(torch.ge, ge_number, x, number)


def eq_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is the number; a boolean tensor of the same shape."""
    return _compare(torch.eq, eq_number, x, number)


def ne_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is another number; a boolean tensor of the same shape."""
    return _compare(torch.ne, ne_number, x, number)


COMPARISONS = {
    f.__name__.removesuffix("_number"): f for f in (lt_number, le_number, gt_number, ge_number, eq_number, ne_number)
}
"""The name of the comparison of two tensors -> the function."""


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

    def given(self, attributes: Mapping[str, object]) -> Attributes:
        """Those attributes of a node that the function takes."""
        return attributes_of({name: attributes[name] for name in self.attributes if name in attributes})


def _of(name: str, shape: Callable[..., Shape], *targets: Any, attributes: str = "") -> Pieces:
    return Pieces(name, shape, tuple(dict.fromkeys(targets)), tuple(attributes.split()))


def _comparison(function: Callable[..., Any], below: int, at: int, above: int) -> Pieces:
    """Whether a value relates to a number: 0 or 1 below the number, at it, and above it."""

    def shape(number: float) -> Shape:
        first, middle, last = (0.0, float(below)), (0.0, float(at)), (0.0, float(above))
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
    _comparison(lt_number, 1, 0, 0),
    _comparison(le_number, 1, 1, 0),
    _comparison(gt_number, 0, 0, 1),
    _comparison(ge_number, 0, 1, 1),
    _comparison(eq_number, 0, 1, 0),
    _comparison(ne_number, 1, 0, 1),
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


class PiecesParams(elementwise.ElementwiseParams, frozen=True):
    """Parameters of ``fixed_pieces``; see the module for their meaning."""

    low: int
    high: int
    slope: tuple[int, int, int]
    slope_frac: int
    offset: tuple[int, int, int]
    offset_frac: int


def golden(name: str, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arithmetic of a function: ``data_in_0`` of any shape -> ``data_out_0`` of the same shape."""
    x, source, target = t["data_in_0"], a.formats["data_in_0"], a.formats["data_out_0"]
    c = constants(name, a)
    frac = max(source.frac_width + c.slope_frac, c.offset_frac)
    kept = frac - c.out_frac
    slopes = [s << (frac - source.frac_width - c.slope_frac) for s in c.slopes]
    offsets = [o << (frac - c.offset_frac) for o in c.offsets]
    bound = max(magnitude(source) * abs(s) + abs(o) for s, o in zip(slopes, offsets, strict=True))
    dtype = carrier(max(bound, magnitude(source)), wide=True)
    m = as_carrier(x, dtype)
    out = cast(_straight(m, c, slopes, offsets), kept, target, a.rounding, a.overflow)
    if not dtype.is_floating_point and out.dtype != torch.int64 and x.requires_grad:
        rough = _straight(x.double(), c, slopes, offsets) * math.ldexp(1.0, target.frac_width - kept)
        if a.overflow is Overflow.SATURATE:
            rough = rough.clamp(target.min_mantissa, target.max_mantissa)
        out = straight_through(out, rough)
    return {"data_out_0": out}


def _straight(m: Tensor, c: Constants, slopes: list[int], offsets: list[int]) -> Tensor:
    """The exact value, in units of the finer of product and offset."""
    first, middle, last = (m * s + o for s, o in zip(slopes, offsets, strict=True))
    return torch.where(m < c.low, first, torch.where(m >= c.high, last, middle))


def _on_values(name: str, a: Arithmetic, t: Mapping[str, Tensor]) -> OnValues | None:
    """As a clamp of values, where the pieces are one for every code of the input."""
    source, last = a.formats["data_in_0"], cast_to(a)
    try:
        c = constants(name, a)
    except FormatError:  # the golden says it better
        return None
    low, high = -math.inf, math.inf
    ends = []
    # Pieces that no code of the input lies in do not matter.
    if c.low > source.min_mantissa:
        low = math.ldexp(c.offsets[0], -c.offset_frac)
        ends.append((low, c.low, c.slopes[0]))
    if c.high <= source.max_mantissa:
        high = math.ldexp(c.offsets[2], -c.offset_frac)
        ends.append((high, c.high, c.slopes[2]))
    kept = c.slopes[1] == 1 << c.slope_frac and c.offsets[1] == 0
    if not kept or low > high or last is None or not in_float32(source):
        return None
    for end, code, slope in ends:
        # The last code before a threshold is not beyond the limit, and the first after it not short of it.
        if slope or not code - 1 <= end / source.scale <= code:
            return None
        if float(torch.tensor(end, dtype=torch.float32)) != end:
            return None
    return OnValues(lambda x: x.clamp(low, high), last, clamp=(low, high))


def _build(name: str, r: Request) -> PiecesParams:
    try:
        c = constants(name, r.arithmetic)
    except FormatError as error:
        error.node = error.node or r.node
        raise
    common = elementwise.build(r)
    out = common.data_out_0.fmt
    given = dataclasses.replace(out, frac_width=out.frac_width + c.out_frac)
    return PiecesParams(
        common.data_in_0,
        msgspec.structs.replace(common.data_out_0, fmt=given),
        common.cast,
        low=c.low,
        high=c.high,
        slope=(c.slopes[0], c.slopes[1], c.slopes[2]),
        slope_frac=c.slope_frac,
        offset=(c.offsets[0], c.offsets[1], c.offsets[2]),
        offset_frac=c.offset_frac,
    )


def _check(name: str, node: str, attributes: Attributes) -> None:
    """Attributes must be finite numbers."""
    for attribute, value in BY_NAME[name].given(attributes).items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise UnsupportedError("this must be a finite number", node=node, field=attribute, got=value)


ATTRIBUTES: dict[str, Mapping[str, float]] = {
    "hardtanh": {"min_val": -2.3, "max_val": 4.5},
    "leaky_relu": {"negative_slope": 0.01},
    "threshold": {"threshold": 0.3, "value": -2.7},
    "hardshrink": {"lambd": 0.3},
    "softshrink": {"lambd": 0.7},
    **{f"{name}_number": {"number": 0.75} for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}
"""Of the catalogue's cases."""


def _cases(name: str) -> Callable[[], list[Case]]:
    case = functools.partial(
        elementwise.case, build=functools.partial(_build, name), attributes=attributes_of(ATTRIBUTES.get(name, {}))
    )

    def cases() -> list[Case]:
        found = [case("eight_bits", (4, 67), 4, "s8.4 s8.4")]
        if name == "leaky_relu":
            falling = attributes_of({"negative_slope": -2.0})
            found += [
                case("wide", (3, 22), 4, "s16.9 s12.7 floor wrap"),
                case("falling", (4, 9), 3, "s4.2 s6.2", attributes=falling),
            ]
        if name == "hardsigmoid":
            found += [
                case("unsigned", (3, 23), 1, "u6.3 u8.8 half_up"),
                case("one_left", (2, 9), 4, "s6.3 s8.7"),
                case("finer", (2, 2, 5), 5, "s3.0 s16.13 trunc"),
            ]
        return found

    return cases


def _always(fmt: FixedFormat | None) -> Callable[[Mapping[str, FixedFormat]], FixedFormat] | None:
    """What gives one format, whatever the input has."""
    return None if fmt is None else lambda _: fmt


_ENDS: dict[str, Callable[[Attributes], Ends]] = {
    "relu6": lambda _: (0.0, 6.0),
    "hardtanh": lambda a: (float(a.get("min_val", -1.0)), float(a.get("max_val", 1.0))),
}
"""Of those that are clamps: the ends."""


_STRAIGHT = ("leaky_relu", "threshold", "hardshrink", "softshrink", "hardsigmoid")
"""Those that scaled integers have besides; the others are signs and comparisons."""


def _scaled(name: str) -> ScaledUse:
    if name in _ENDS:
        return clamp(_ENDS[name])
    return ScaledUse("pieces", exact_result) if name in _STRAIGHT else ScaledUse("steps", thresholds)


def _op(function: Pieces) -> OpDef:
    name, targets = function.name, function.targets
    is_module = [isinstance(t, type) and issubclass(t, nn.Module) for t in targets]
    return OpDef(
        name=name,
        mase_type="module_related_func",
        modules=tuple(t for t, module in zip(targets, is_module, strict=True) if module),
        functions=tuple(t for t, m in zip(targets, is_module, strict=True) if not m and not isinstance(t, str)),
        methods=tuple(t for t in targets if isinstance(t, str)),
        attributes=(*function.attributes, "inplace"),
        golden=functools.partial(golden, name),
        on_values=functools.partial(_on_values, name) if name in ("hardtanh", "relu6") else None,
        check=functools.partial(_check, name),
        scaled=_scaled(name),
        default_out=_always(function.result),
        hardware=Hardware(
            module="fixed_pieces",
            params=PiecesParams,
            build=functools.partial(_build, name),
            latency=lambda p: Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=2)),
            cases=_cases(name),
            follows_input=True,
        ),
    )


OPS = tuple(_op(function) for function in PIECES)
