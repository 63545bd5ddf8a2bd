"""Cast: the same value in another format; the op the quantisation pass puts where two formats meet.

With ``drops`` every element of a frame has a number of bits of its own: that many of its lowest bits become 0, and all
of it where they are the whole width. Such a cast is part of a whole frame per beat, where each element is a wire.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from mase_hw.errors import UnsupportedError
from mase_hw.formats import Overflow, Rounding
from mase_hw.formats.elements import format_of
from mase_hw.nn.values import OnValues, cast_to, in_float32
from mase_hw.numerics import cast, magnitude
from mase_hw.numerics.exact_sums import EXACT_FLOAT32
from mase_hw.opdef import Arithmetic, Case, Hardware, OpDef, Request
from mase_hw.ops import _elementwise as elementwise

OF_ELEMENTS = ("drops", "elements")
"""Attributes of a cast whose elements differ."""


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0`` of the same shape."""
    frac, out = a.formats["data_in_0"].frac_width, a.formats["data_out_0"]
    if a.attributes.get("elements") is not None:
        return {"data_out_0": _each(a, t["data_in_0"])}
    found = cast(t["data_in_0"], frac, out, a.rounding, a.overflow)
    drops = a.attributes.get("drops")
    if drops is not None:
        unit = torch.tensor([1 << drop for drop in drops], dtype=found.dtype, device=found.device)
        rows = found.reshape(-1, len(drops))
        kept = torch.div(rows, unit, rounding_mode="floor") * unit
        found = torch.where(unit > 1 << (out.width - 1), 0, kept).reshape(found.shape).to(found.dtype)
    return {"data_out_0": found}


def _each(a: Arithmetic, x: Tensor) -> Tensor:
    """The casts of elements, each into its own format, as mantissas of the one that holds all."""
    frac, out = a.formats["data_in_0"].frac_width, a.formats["data_out_0"]
    places: dict[tuple[int, ...], list[int]] = {}
    elements = a.attributes["elements"] or ()
    for place, element in enumerate(elements):
        places.setdefault(tuple(element), []).append(place)
    rows = x.reshape(-1, len(elements))
    carrier = torch.float64 if rows.dtype == torch.float32 and magnitude(out) > EXACT_FLOAT32 else rows.dtype
    found = torch.zeros(rows.shape, dtype=carrier, device=rows.device)
    for element, columns in places.items():
        own = format_of(element)
        if own is not None:
            given = cast(rows[:, columns], frac, own, a.rounding, a.overflow)
            found[:, columns] = (given * (1 << (out.frac_width - own.frac_width))).to(found.dtype)
    return found.reshape(x.shape)


def _build(r: Request) -> elementwise.ElementwiseParams:
    if any(r.arithmetic.attributes.get(name) is not None for name in OF_ELEMENTS):
        raise UnsupportedError(
            "elements with widths of their own are for a whole frame per beat",
            node=r.node,
            field="hardware.unroll",
            got="a stream, all of whose elements have one format",
            expected='hardware.unroll = "frame"',
            remedy='compile with it; in training, use learn_widths="weights"',
        )
    return elementwise.build(r)


def _on_values(a: Arithmetic, t: Mapping[str, Tensor]) -> OnValues | None:
    plain = in_float32(a.formats["data_in_0"]) and all(a.attributes.get(name) is None for name in OF_ELEMENTS)
    last = cast_to(a) if plain else None
    return None if last is None else OnValues(torch.clone, last)


def passed_on(x: Tensor) -> Tensor:
    """``x`` as it is: what leaves a model as it came in."""
    if has_torch_function_unary(x):  # tracing records one call
        result: Tensor = handle_torch_function(passed_on, (x,), x)
        return result
    return x.clone()


def _cases() -> list[Case]:
    every_mode = [
        elementwise.case(f"{rounding}_{overflow}", (16, 64), 16, f"s10.6 s6.3 {rounding} {overflow}")
        for rounding, overflow in itertools.product(*([m.name.lower() for m in kind] for kind in (Rounding, Overflow)))
    ]
    return [
        *every_mode,
        elementwise.case("to_unsigned", (1, 64), 5, "s6.3 u5.1"),
        elementwise.case("to_signed", (1, 64), 4, "u6.3 s4.2"),
        elementwise.case("left_shift", (2, 8), 3, "s4.-1 s9.4"),
        elementwise.case("left_wrap", (2, 8), 4, "s4.0 s5.3 floor wrap"),
        elementwise.case("all_bits_lost", (2, 8), 4, "s4.9 s4.0 floor"),
        elementwise.case("whole_width_lost", (2, 8), 4, "s4.4 s4.0 floor"),
        elementwise.case("one_element", (1, 1), 1, "s4.2 s3.0", frames=16),
        elementwise.case("one_bit", (1, 16), 4, "s4.2 s1.0"),
        elementwise.case("forty_bits", (1, 6), 2, "s40.20 s33.14"),
    ]


_HARDWARE = Hardware(
    module="fixed_cast",
    params=elementwise.ElementwiseParams,
    build=_build,
    latency=elementwise.registered,
    cases=_cases,
    follows_input=True,
)
OPS = (
    OpDef(
        name="cast",
        mase_type="builtin_func",
        golden=golden,
        oracle=lambda x: x,
        on_values=_on_values,
        hardware=_HARDWARE,
    ),
    OpDef(
        name="passed_on",
        mase_type="builtin_func",
        functions=(passed_on,),
        golden=golden,
        oracle=lambda x: x,
        default_out=lambda formats: formats["data_in_0"],
        hardware=dataclasses.replace(_HARDWARE, cases=lambda: [elementwise.case("as_it_is", (2, 7), 3, "s6.3 s6.3")]),
    ),
    # Where a float input of the model becomes fixed point: done by the host, so no hardware of its own.
    OpDef(name="quantize", mase_type="builtin_func", implicit=True),
)
