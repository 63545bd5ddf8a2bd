"""Functions of one value: ``cast(f(x))`` from a table, or piecewise where the input is wider than a table allows.

All of :data:`mase_hw.ops._functions.FUNCTIONS`, one op each, on one RTL module. Inputs of up to
:data:`mase_hw.ops._functions.TABLE_BITS` bits are looked up: the result is the exactly rounded one. Wider ones are
computed by :mod:`mase_hw.ops._piecewise`: at most 1 LSB from that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import msgspec
import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, ScaledUse
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Segments
from mase_hw.numerics import as_carrier, carrier, magnitude, straight_through, symbolic
from mase_hw.opdef import Arithmetic, Case, Golden, Hardware, Latency, Memory, OpDef, Request
from mase_hw.ops import _elementwise as elementwise
from mase_hw.ops._functions import (
    BY_NAME,
    CODES,
    FUNCTIONS,
    TABLE,
    TABLE_BITS,
    Function,
    Key,
    entries,
    key_of,
    look_up,
    memory,
)
from mase_hw.ops._piecewise import evaluate, fit
from mase_hw.steps import Steps

PIECEWISE_LATENCY = 8


class FunctionParams(elementwise.ElementwiseParams, frozen=True):
    """Parameters of ``fixed_function``; there are 0 segments for a table."""

    segments: Segments


def golden(name: str, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arithmetic of a function: ``data_in_0`` of any shape -> ``data_out_0`` of the same shape."""
    x, target = t["data_in_0"], a.formats["data_out_0"]
    dtype = carrier(magnitude(target))
    if symbolic(x):
        return {"data_out_0": as_carrier(x, dtype)}
    key = key_of(name, a)
    mantissas = x.detach()
    narrow = a.formats["data_in_0"].width <= TABLE_BITS
    out = as_carrier(look_up(key, mantissas) if narrow else evaluate(key, mantissas), dtype)
    if x.requires_grad and out.dtype.is_floating_point:
        smooth = _slopes(key, x) if name == TABLE.name else _surrogate(BY_NAME[name], a, x)
        out = straight_through(out, smooth)
    return {"data_out_0": out}


def _reads(name: str, a: Arithmetic, memory: str, content: Memory) -> Golden | None:
    """What a function gives with another table, or with other coefficients."""
    if memory != "TABLE_FILE":
        return None  # where the segments lie: with another content, places beyond the coefficients are read
    key, target = key_of(name, a), a.formats["data_out_0"]
    if a.formats["data_in_0"].width <= TABLE_BITS:
        table = entries(key, content)
        return lambda _, t: {"data_out_0": look_up(key, t["data_in_0"], table)}
    plan = fit(key).with_coefficients(content)
    dtype = carrier(magnitude(target))
    return lambda _, t: {"data_out_0": as_carrier(evaluate(key, t["data_in_0"], plan), dtype)}


def _surrogate(function: Function, a: Arithmetic, x: Tensor) -> Tensor:
    """The float function in units of the output, for the gradient only."""
    source, target = a.formats["data_in_0"], a.formats["data_out_0"]
    # A pole, or an infinite slope, is passed at half a code's distance: its gradient would be infinite.
    x = x.double() - source.zero_point
    low, high = (end / source.scale for end in function.domain(a.attributes))
    x = x.clamp(low + 0.5, high - 0.5)
    x = torch.where(torch.isfinite(function(x.detach() * source.scale, a.attributes)), x, x + 0.5)
    result = function(x * source.scale, a.attributes) / target.scale + target.zero_point
    if a.overflow is Overflow.SATURATE:
        result = result.clamp(target.min_mantissa, target.max_mantissa)
    return result


def _slopes(key: Key, x: Tensor) -> Tensor:
    """A table as a function with the slope between its neighbouring codes, for the gradient only."""
    source, at = key[2], x.detach()
    low, high = (look_up(key, at + d) for d in (-1, 1))
    inside = (at > source.min_mantissa) & (at < source.max_mantissa)
    slope = torch.where(inside, (high - low).to(torch.float64) / 2, torch.zeros((), dtype=torch.float64))
    return slope * (x.double() - at)


def _check(name: str, node: str, attributes: Attributes) -> None:
    """Attributes with which the function is a number everywhere."""
    function = BY_NAME[name]
    for attribute, value in function.given(attributes).items():
        if not isinstance(value, int | float | str) or (not isinstance(value, str) and not math.isfinite(value)):
            raise UnsupportedError("this must be a finite number", node=node, field=attribute, got=value)
    if name == "pow" and "exponent" not in attributes:
        raise UnsupportedError(
            "a power is a function of one value only if its exponent is a number",
            node=node,
            field="exponent",
            got="a tensor",
            expected="a number, x ** 3",
            remedy="write a ** b of positive a as torch.exp(b * torch.log(a)), of a number a with math.log(a)",
        )
    try:
        function.domain(attributes)
    except (RuntimeError, ZeroDivisionError, TypeError) as error:
        raise UnsupportedError(f"{name} cannot be computed", node=node, got=str(error)) from error
    except ValueError as error:
        raise UnsupportedError(
            f"{name} with these attributes is {error}", node=node, got=function.given(attributes)
        ) from error


def _tabled(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of a function of scaled integers: a table."""
    if any(fmt.per_channel for fmt in formats.values()):
        return "one scale for each tensor"
    wide = formats["data_in_0"].width > TABLE_BITS
    return f"scaled integers of at most {TABLE_BITS} bits; requantise its input" if wide else ""


def _build(name: str, r: Request) -> FunctionParams:
    common = msgspec.structs.asdict(elementwise.build(r))
    if r.arithmetic.formats["data_in_0"].width <= TABLE_BITS:
        return FunctionParams(**common, segments=Segments(0))
    try:
        plan = fit(key_of(name, r.arithmetic))
    except FormatError as error:
        error.node = error.node or r.node
        raise
    return FunctionParams(
        **common,
        segments=Segments(plan.segments, plan.step, plan.frac, *plan.widths),
    )


def _memories(name: str, a: Arithmetic) -> dict[str, Memory]:
    key = key_of(name, a)
    if a.formats["data_in_0"].width <= TABLE_BITS:
        return {"TABLE_FILE": memory(key)}
    return fit(key).memories()


def _latency(p: FunctionParams) -> Latency:
    return Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=PIECEWISE_LATENCY if p.segments.segments else 1))


MORE: dict[str, tuple[tuple[str, tuple[int, ...], int, str], ...]] = {
    "sigmoid": (
        ("unsigned", (3, 23), 4, "u6.3 u7.7 half_up"),
        ("one_lane", (2, 3, 11), 1, "s5.2 s12.11 floor wrap"),
        ("twelve_bits", (9, 23), 5, "s12.8 s10.9"),
        ("one_left", (3, 9), 4, "s4.1 s6.5"),
        ("two_bits", (4, 3), 3, "s2.0 s2.1 trunc"),
        ("wide", (9, 23), 4, "s16.10 s16.15"),
    ),
    "gelu": (("wide", (9, 22), 3, "s16.10 s14.9 half_up"),),
    "log": (("wide", (9, 21), 2, "u16.8 s12.7 floor"),),
    "reciprocal": (("wide", (9, 21), 1, "s20.10 s16.10 trunc"),),
    "exp": (("wide", (9, 21), 21, "s13.9 u18.4"),),
}
"""More cases than the one that every function has: name, shape, lanes, formats and cast modes."""


def _cases(name: str) -> list[Case]:
    special: dict[str, Attributes] = {
        "gelu": {"approximate": "tanh"},
        "elu": {"alpha": 0.7},
        "softplus": {"beta": 2.0},
        "inverse_power": {"scale": 0.5, "offset": 1.5, "exponent": 0.6},
        "exponential": {"base": 1.7},
        "polygamma": {"n": 1},
        "pow": {"exponent": 3},
        "table": {CODES: tuple((37 * code + 11) % 256 - 128 for code in range(256))},
    }
    attributes = special.get(name, {})
    bounded = max(map(abs, BY_NAME[name].domain(attributes))) <= 1
    case = functools.partial(elementwise.case, build=functools.partial(_build, name))
    plain = case("table", (4, 67), 4, "s8.7 s8.4" if bounded else "s8.4 s8.4", attributes=attributes)
    return [plain, *(case(*more) for more in MORE.get(name, ()))]


def _op(function: Function) -> OpDef:
    name, targets = function.name, function.targets
    is_module = [isinstance(t, type) and issubclass(t, nn.Module) for t in targets]
    return OpDef(
        name=name,
        mase_type=function.kind,
        modules=tuple(t for t, module in zip(targets, is_module, strict=True) if module),
        functions=tuple(t for t, m in zip(targets, is_module, strict=True) if not m and not isinstance(t, str)),
        methods=tuple(t for t in targets if isinstance(t, str)),
        attributes=(*function.attributes, *(["inplace"] if any(is_module) else [])),
        golden=functools.partial(golden, name),
        check=functools.partial(_check, name),
        scaled=ScaledUse("function", _tabled),
        hardware=Hardware(
            module="fixed_function",
            params=FunctionParams,
            build=functools.partial(_build, name),
            latency=_latency,
            cases=functools.partial(_cases, name),
            follows_input=True,
            memories=functools.partial(_memories, name),
            reads=functools.partial(_reads, name),
        ),
    )


OPS = tuple(_op(function) for function in (*FUNCTIONS, TABLE))
