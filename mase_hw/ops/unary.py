"""Negative, absolute value, clamp, and rounding to whole numbers: exact, one cast, then the limits.

``clamp(x, min, max)``: the limits are brought into the output format half-even and saturating, as every constant is;
the input is cast and then held between them. The cast saturates, whatever is configured: what wraps could be held no
more. So this equals a clamp before the cast, because a cast that saturates keeps the order.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.formats.taken import Ends
from mase_hw.hardware.params import Cast, Params, Tensor3, port
from mase_hw.numerics import as_carrier, carrier, cast, magnitude
from mase_hw.opdef import Arithmetic, Case, Hardware, OpDef, Request
from mase_hw.ops import _elementwise as elementwise
from mase_hw.ops._scaled import clamp as scaled_clamp
from mase_hw.ops._tensors import lanes_within

COPY, NEG, ABS, FLOOR, CEIL, ROUND, TRUNC = range(7)
"""Codes of the parameter ``OPERATION``."""
WHOLE = {FLOOR: Rounding.FLOOR, CEIL: Rounding.FLOOR, ROUND: Rounding.HALF_EVEN, TRUNC: Rounding.TRUNC}
"""Operation -> how a value becomes a whole number; ``CEIL`` is ``-floor(-x)``."""


class UnaryParams(Params, frozen=True):
    """Parameters of ``fixed_unary``."""

    data_in_0: Tensor3
    data_out_0: Tensor3
    operation: int
    has_lowest: bool
    lowest: int
    has_highest: bool
    highest: int
    cast: Cast

    def attributes(self) -> Attributes:
        """The limits, as numbers."""
        limits = {"min": (self.has_lowest, self.lowest), "max": (self.has_highest, self.highest)}
        frac = self.data_out_0.fmt.frac_width
        return attributes_of({name: math.ldexp(code, -frac) for name, (there, code) in limits.items() if there})


def limit(a: Arithmetic, name: str) -> int | None:
    """A limit of ``clamp`` as a mantissa of the output, half-even and saturating; None if there is none."""
    value, fmt = dict[str, Any](a.attributes).get(name), a.formats["data_out_0"]
    if value is None:
        return None
    if math.isinf(value):
        return fmt.max_mantissa if value > 0 else fmt.min_mantissa
    return max(fmt.min_mantissa, min(fmt.max_mantissa, round(math.ldexp(float(value), fmt.frac_width))))


def golden(operation: int, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0`` of the same shape."""
    fmt = a.formats["data_in_0"]
    x = as_carrier(t["data_in_0"], carrier(magnitude(fmt)))
    x = -x if operation in (NEG, CEIL) else x.abs() if operation == ABS else x
    frac = fmt.frac_width
    if operation in WHOLE and frac > 0:
        x, frac = cast(x, frac, _wholes(fmt), WHOLE[operation]), 0
    x = -x if operation == CEIL else x
    lowest, highest = limit(a, "min"), limit(a, "max")
    overflow = a.overflow if lowest is None and highest is None else Overflow.SATURATE
    out = cast(x, frac, a.formats["data_out_0"], a.rounding, overflow)
    if lowest is not None or highest is not None:
        out = out.clamp(lowest, highest)
    return {"data_out_0": out}


def _wholes(fmt: FixedFormat) -> FixedFormat:
    """The narrowest format of the whole numbers that values of a format, or their negatives, are rounded to."""
    return fmt if fmt.frac_width <= 0 else FixedFormat(max(1, fmt.width - fmt.frac_width) + 2, 0)


def _whole_out(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    """As many whole numbers as the input has, one more bit for what is rounded up."""
    fmt = formats["data_in_0"]
    if fmt.frac_width <= 0:
        return fmt
    return FixedFormat(max(1 + fmt.signed, fmt.width - fmt.frac_width + 1), 0, fmt.signed)


def _to_wholes(node: str, attributes: Attributes) -> None:
    if attributes.get("decimals", 0) != 0:
        raise UnsupportedError(
            "numbers are rounded to whole numbers only", node=node, field="decimals", got=attributes["decimals"],
            expected=0, remedy="multiply by a power of two before and divide after it",
        )  # fmt: skip


def _build(operation: int, r: Request) -> UnaryParams:
    formats, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"]
    if "data_in_1" in r.shapes:
        raise UnsupportedError(
            "only numbers are limits in hardware",
            node=r.node,
            got="a tensor",
            remedy="use torch.maximum and torch.minimum for limits that are tensors",
        )
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    lowest, highest = (_word(r, name) for name in ("min", "max"))
    modes = r.arithmetic.modes
    if lowest is not None or highest is not None:
        modes = msgspec.structs.replace(modes, overflow=Overflow.SATURATE)
    return UnaryParams(
        data_in_0=port(shape, formats["data_in_0"], lanes),
        data_out_0=port(shape, formats["data_out_0"], lanes),
        operation=operation,
        has_lowest=lowest is not None,
        lowest=lowest or 0,
        has_highest=highest is not None,
        highest=highest or 0,
        cast=modes,
    )


def _word(r: Request, name: str) -> int | None:
    value, fmt = limit(r.arithmetic, name), r.arithmetic.formats["data_out_0"]
    if value is None or value == (fmt.min_mantissa if name == "min" else fmt.max_mantissa):
        return None  # the format itself limits
    if not -(2**31) <= value < 2**31:
        raise UnsupportedError(
            "a limit does not fit a parameter of 32 bits",
            node=r.node,
            field=name,
            got=value,
            remedy="give the result a narrower format",
        )
    return value


def _numbers(node: str, attributes: Attributes) -> None:
    for name in ("min", "max"):
        value = attributes.get(name)
        if value is not None and (not isinstance(value, int | float) or math.isnan(value)):
            raise UnsupportedError(
                "only numbers are limits in hardware", node=node, field=name, got=value, expected="a number"
            )


def _negated(formats: Mapping[str, FixedFormat], shapes: Mapping[str, tuple[int, ...]]) -> FixedFormat:
    """One bit more: the smallest number of a signed format has no negative in it, and others had no sign."""
    fmt = formats["data_in_0"]
    return FixedFormat(fmt.width + 1, fmt.frac_width)


def _case(operation: int, name: str, shape: Sequence[int], lanes: int, formats: str, **attributes: float) -> Case:
    made = elementwise.case(
        name, shape, lanes, formats, build=functools.partial(_build, operation), attributes=attributes_of(attributes)
    )
    return dataclasses.replace(made, attributes={})


def _plain_cases(operation: int) -> list[Case]:
    return [
        _case(operation, "same_format", (4, 64), 8, "s8.4 s8.4"),
        _case(operation, "uneven", (2, 3, 5), 3, "s8.4 s6.2 half_up wrap"),
        _case(operation, "from_unsigned", (1, 64), 5, "u6.3 s7.3"),
        _case(operation, "to_unsigned", (4, 64), 8, "s8.4 u8.4"),
        _case(operation, "two_bit", (1, 3), 1, "s2.0 s3.0"),
        _case(operation, "wide", (1, 7), 7, "s16.9 s12.4 trunc"),
    ]


def _whole_cases(operation: int) -> list[Case]:
    more = [
        _case(operation, "whole_already", (2, 3, 5), 3, "s6.-1 s8.0"),
        _case(operation, "halves", (2, 5), 2, "s6.1 s7.0"),
        _case(operation, "below_one", (1, 7), 2, "s6.8 s4.2"),
        _case(operation, "wide", (2, 9), 1, "s40.20 s24.1 trunc wrap"),
    ]
    first = _case(operation, "every_code", (4, 67), 4, "s8.4 s7.1")
    return [first, *(more if operation == CEIL else more[2:3] if operation == FLOOR else ())]


def _ends(attributes: Attributes) -> Ends:
    """The ends of a clamp; None for one that is open."""
    low, high = attributes.get("min"), attributes.get("max")
    return None if low is None else float(low), None if high is None else float(high)


def _clamp_cases() -> list[Case]:
    def case(*args: Any, **options: Any) -> Case:
        return _case(COPY, *args, **options)

    return [
        case("both", (4, 64), 8, "s8.4 s8.4", min=-2.5, max=3.25),
        case("lowest", (4, 64), 8, "s8.4 s6.2", min=-0.8),
        case("highest", (2, 3, 5), 3, "s8.4 s6.4 floor wrap", max=1),
        case("above_zero", (2, 3, 5), 3, "s8.4 s8.4", min=1.5, max=4.0),
        case("below_zero", (5, 7), 4, "s8.4 s8.4", max=-1.0),
        case("unsigned", (1, 64), 5, "u6.3 u6.3", min=1.0, max=6.5),
        case("wide", (1, 7), 2, "s40.20 s36.18", min=-3000.5, max=2000.25),
    ]


def _op(name: str, operation: int, cases: Callable[[], Sequence[Case]], kind: str, **facets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type=kind,
        golden=functools.partial(golden, operation),
        hardware=Hardware(
            module="fixed_unary",
            params=UnaryParams,
            build=functools.partial(_build, operation),
            latency=elementwise.registered,
            cases=cases,
            follows_input=True,
        ),
        **facets,
    )


OPS = (
    _op(
        "neg",
        NEG,
        functools.partial(_plain_cases, NEG),
        "builtin_func",
        oracle=operator.neg,
        functions=(torch.neg, torch.negative, operator.neg),
        methods=("neg", "neg_", "negative"),
        exact=_negated,
    ),
    _op(
        "abs",
        ABS,
        functools.partial(_plain_cases, ABS),
        "implicit_func",
        oracle=operator.abs,
        functions=(torch.abs, torch.absolute, operator.abs),
        methods=("abs", "abs_", "absolute", "absolute_"),
        default_out=lambda formats: FixedFormat(
            formats["data_in_0"].width, formats["data_in_0"].frac_width, signed=False
        ),
    ),
    _op(
        "clamp",
        COPY,
        _clamp_cases,
        "implicit_func",
        functions=(torch.clamp, torch.clip, torch.clamp_min, torch.clamp_max),
        methods=("clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_min_", "clamp_max", "clamp_max_"),
        attributes=("min", "max"),
        check=_numbers,
        scaled=scaled_clamp(_ends),
    ),
    *(
        _op(
            name,
            operation,
            functools.partial(_whole_cases, operation),
            "builtin_func",
            functions=functions,
            methods=(name, f"{name}_"),
            attributes=("decimals",) if operation == ROUND else (),
            check=_to_wholes if operation == ROUND else None,
            default_out=_whole_out,
        )
        for name, operation, functions in (
            ("floor", FLOOR, (torch.floor, math.floor)),
            ("ceil", CEIL, (torch.ceil, math.ceil)),
            ("round", ROUND, (torch.round, torch.special.round)),
            ("trunc", TRUNC, (torch.trunc, torch.fix, math.trunc)),
        )
    ),
)
