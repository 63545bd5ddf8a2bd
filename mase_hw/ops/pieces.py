"""The ops of :data:`mase_hw.ops._pieces.PIECES`: ``cast(slope * x + offset)`` with the constants of x's piece."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledUse
from mase_hw.formats.taken import Ends
from mase_hw.nn.values import OnValues, cast_to, in_float32
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.opdef import Arithmetic, Case, Golden, Hardware, Latency, OpDef, Request
from mase_hw.ops import _elementwise as elementwise
from mase_hw.ops._pieces import BY_NAME, PIECES, Constants, Pieces, constants
from mase_hw.ops._scaled import clamp, exact_result, thresholds
from mase_hw.steps import Steps


class PiecesParams(elementwise.ElementwiseParams, frozen=True):
    """Parameters of ``fixed_pieces``; see the module for their meaning."""

    low: int
    high: int
    slope: tuple[int, int, int]
    slope_frac: int
    offset: tuple[int, int, int]
    offset_frac: int


def golden(name: str) -> Golden:
    """The arithmetic of a function: ``data_in_0`` of any shape -> ``data_out_0`` of the same shape."""

    def compute(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        x, source, target = t["data_in_0"], a.formats["data_in_0"], a.formats["data_out_0"]
        c = constants(name, a)
        frac = max(source.frac_width + c.slope_frac, c.offset_frac)
        kept = frac - c.out_frac
        slopes = [s << (frac - source.frac_width - c.slope_frac) for s in c.slopes]
        offsets = [o << (frac - c.offset_frac) for o in c.offsets]
        bound = max(magnitude(source) * abs(s) + abs(o) for s, o in zip(slopes, offsets, strict=True))
        dtype = carrier(max(bound, magnitude(source)))
        m = as_carrier(x, dtype)
        out = cast(_straight(m, c, slopes, offsets), kept, target, a.rounding, a.overflow)
        if dtype == torch.int64 and out.dtype != torch.int64 and x.requires_grad:
            rough = _straight(x.double(), c, slopes, offsets) * math.ldexp(1.0, target.frac_width - kept)
            if a.overflow is Overflow.SATURATE:
                rough = rough.clamp(target.min_mantissa, target.max_mantissa)
            out = straight_through(out, rough)
        return {"data_out_0": out}

    return compute


def _straight(m: Tensor, c: Constants, slopes: list[int], offsets: list[int]) -> Tensor:
    """The exact value, in units of the finer of product and offset."""
    first, middle, last = (m * s + o for s, o in zip(slopes, offsets, strict=True))
    return torch.where(m < c.low, first, torch.where(m >= c.high, last, middle))


def _on_values(name: str) -> Callable[[Arithmetic, Mapping[str, Tensor]], OnValues | None]:
    """As a clamp of values, where the pieces are one for every code of the input."""

    def find(a: Arithmetic, t: Mapping[str, Tensor]) -> OnValues | None:
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

    return find


def _build(name: str) -> Callable[[Request], PiecesParams]:
    def build(r: Request) -> PiecesParams:
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

    return build


def _check(name: str) -> Callable[[str, Mapping[str, Any]], None]:
    """Attributes must be finite numbers."""

    def check(node: str, attributes: Mapping[str, Any]) -> None:
        for attribute, value in BY_NAME[name].given(attributes).items():
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise UnsupportedError("this must be a finite number", node=node, field=attribute, got=value)

    return check


def _latency(p: PiecesParams) -> Latency:
    return Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=2))


S8 = FixedFormat(8, 4)
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "hardtanh": {"min_val": -2.3, "max_val": 4.5},
    "leaky_relu": {"negative_slope": 0.01},
    "threshold": {"threshold": 0.3, "value": -2.7},
    "hardshrink": {"lambd": 0.3},
    "softshrink": {"lambd": 0.7},
    **{f"{name}_number": {"number": 0.75} for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}
"""Of the catalogue's cases."""


def _cases(name: str) -> Callable[[], list[Case]]:
    attributes = ATTRIBUTES.get(name, {})

    def case(
        label: str,
        shape: tuple[int, ...],
        lanes: int,
        data_in: FixedFormat,
        data_out: FixedFormat,
        rounding: Rounding = Rounding.HALF_EVEN,
        overflow: Overflow = Overflow.SATURATE,
    ) -> Case:
        a = Arithmetic({"data_in_0": data_in, "data_out_0": data_out}, rounding, overflow, attributes)
        params = _build(name)(Request(label, a, {"data_in_0": shape}, {"data_in_0": (lanes,)}))
        every = math.prod(shape) >= 1 << data_in.width
        return Case(label, params, 1 if every else 6, every, attributes)

    def cases() -> list[Case]:
        more: dict[str, list[Case]] = {
            "leaky_relu": [
                case("wide", (3, 22), 4, FixedFormat(16, 9), FixedFormat(12, 7), Rounding.FLOOR, Overflow.WRAP)
            ],
            "hardsigmoid": [
                case("unsigned", (3, 23), 1, FixedFormat(6, 3, False), FixedFormat(8, 8, False), Rounding.HALF_UP),
                case("one_left", (2, 9), 4, FixedFormat(6, 3), FixedFormat(8, 7)),
                case("finer", (2, 2, 5), 5, FixedFormat(3, 0), FixedFormat(16, 13), Rounding.TRUNC),
            ],
        }
        return [case("eight_bits", (4, 67), 4, S8, S8), *more.get(name, [])]

    return cases


def _always(fmt: FixedFormat | None) -> Callable[[Mapping[str, FixedFormat]], FixedFormat] | None:
    """What gives one format, whatever the input has."""
    return None if fmt is None else lambda _: fmt


_ENDS: dict[str, Callable[[Mapping[str, Any]], Ends]] = {
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
        golden=golden(name),
        on_values=_on_values(name) if name in ("hardtanh", "relu6") else None,
        check=_check(name),
        scaled=_scaled(name),
        default_out=_always(function.result),
        hardware=Hardware(
            module="fixed_pieces",
            params=PiecesParams,
            build=_build(name),
            latency=_latency,
            cases=_cases(name),
            follows_input=True,
        ),
    )


OPS = tuple(_op(function) for function in PIECES)
