"""Sums, differences, products, extremes, comparisons of two tensors, or a tensor and a constant: exact, one cast."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.opdef import Case, Hardware, OpDef
from mase_hw.ops import _binary as binary
from mase_hw.ops._binary import ADD, CONSTANT, EQ, GE, GT, LE, LT, MAX, MIN, MUL, NE, SUB
from mase_hw.ops._cases import asked_of
from mase_hw.ops._scaled import PRODUCT, SELECTION, SUM

S8, S8_FINE, S8_COARSE = FixedFormat(8, 4), FixedFormat(8, 6), FixedFormat(8, 2)
U6, S2, S4, S16 = FixedFormat(6, 3, signed=False), FixedFormat(2, 0), FixedFormat(4, 1), FixedFormat(16, 9)
S4_0, Z8 = FixedFormat(4, 0), ScaledFormat.make(8, 1.0, -100)
ZU8 = ScaledFormat.make(8, 1.0, 7, signed=False)
DEFAULT = (Rounding.HALF_EVEN, Overflow.SATURATE)
FLOOR_WRAP, UP = (Rounding.FLOOR, Overflow.WRAP), (Rounding.HALF_UP, Overflow.SATURATE)


def _unscaled(node: str, attributes: Attributes) -> None:
    """``torch.add(x, y, alpha=2)`` is two operations; ``rounding_mode`` and ``out`` do not exist here."""
    alpha = attributes.get("alpha", 1)
    if alpha != 1:
        raise UnsupportedError(
            "a scaled operand is not in hardware",
            node=node,
            field="alpha",
            got=alpha,
            expected=1,
            remedy="write the product as an operation of its own: x + alpha * y",
        )


def _case_of(operation: int) -> Callable[..., Case]:
    def case(
        name: str,
        shape: Sequence[int],
        lanes: int,
        formats: tuple[FixedFormat, FixedFormat, FixedFormat],
        modes: tuple[Rounding, Overflow] = DEFAULT,
        *,
        constant: Sequence[int] | None = None,
        frames: int = 6,
        **attributes: Any,
    ) -> Case:
        asked = asked_of(attributes)
        request = replace(binary.request(name, shape, lanes, formats, modes, constant, attributes), **asked)
        return Case(name, binary.build(operation)(request), frames)

    return case


def _sum_cases() -> list[Case]:
    case = _case_of(ADD)
    return [
        case("same_format", (4, 16), 4, (S8, S8, FixedFormat(9, 4))),
        case("aligned", (2, 3, 5), 2, (S8_FINE, S8_COARSE, S8)),
        case("aligned_other_way", (2, 9), 3, (S8_COARSE, S8_FINE, S8), FLOOR_WRAP),
        case("fast", (2, 3, 5), 2, (S8_FINE, S8_COARSE, S8), fast=True),
        case("fast_constant", (2, 3, 5), 4, (ZU8, S4_0, FixedFormat(10, 0)), constant=(5,), fast=True),
        case("unsigned", (3, 7), 7, (U6, FixedFormat(6, 1, signed=False), FixedFormat(7, 2, signed=False)), UP),
        case("mixed_signs", (3, 7), 3, (U6, S8, S8)),
        case("two_bit", (2, 5), 1, (S2, S2, FixedFormat(3, 0))),
        case("wide", (2, 3), 3, (S16, FixedFormat(16, 4), FixedFormat(17, 6)), (Rounding.TRUNC, Overflow.SATURATE)),
        case("beyond_float64", (2, 3), 2, (FixedFormat(44, 20), FixedFormat(50, 8), FixedFormat(52, 8))),
        case("negative_fraction", (2, 3), 2, (FixedFormat(6, -3), FixedFormat(4, -1), FixedFormat(8, -2))),
        case("scalar", (1,), 1, (S8, S8, FixedFormat(9, 4)), frames=16),
        case("number", (3, 10), 4, (S8, FixedFormat(3, 1), S8), constant=()),
        case("per_channel", (2, 3, 10), 4, (S8, S8_FINE, FixedFormat(9, 4)), constant=(10,)),
        case("per_row", (2, 3, 4), 4, (S8, S8_FINE, S8), constant=(3, 1)),
        case("whole", (2, 3, 4), 2, (S8, S8, S8), constant=(2, 3, 4)),
        case("scaled", (2, 3, 5), 2, (Z8, ZU8, FixedFormat(42, 0)), multipliers=(2**31 - 1, 2**29 + 3)),
        case("scaled_pads", (2, 5), 3, (Z8, S4_0, FixedFormat(12, 0)), multipliers=(1, 6)),
        case("centred_constant", (2, 3, 5), 4, (ZU8, S4_0, FixedFormat(10, 0)), constant=(5,)),
    ]


def _difference_cases() -> list[Case]:
    case = _case_of(SUB)
    return [
        case("aligned", (2, 3, 5), 2, (S8_FINE, S8_COARSE, S8)),
        case("unsigned", (3, 7), 3, (U6, U6, FixedFormat(7, 3))),
        case("to_unsigned", (3, 8), 4, (U6, S4, U6), UP),
        case("two_bit", (2, 5), 5, (S2, S2, S2), FLOOR_WRAP),
        case("wide", (2, 3), 3, (S16, FixedFormat(16, 4), FixedFormat(17, 6)), UP),
        case("minus_constant", (3, 6), 4, (S8, S8_FINE, S8), constant=(6,)),
        case("from_constant", (3, 6), 4, (S8, S8_FINE, S8), constant=(6,), reversed=True),
        case("from_number", (3, 7), 2, (U6, FixedFormat(2, 0), S8), constant=(), reversed=True),
        case("scaled", (2, 3, 5), 2, (ZU8, Z8, FixedFormat(33, 0)), multipliers=(2**20, 3**12)),
        case("scaled_from", (2, 5), 5, (Z8, S4_0, FixedFormat(12, 0)), constant=(), reversed=True, multipliers=(5, 1)),
    ]


def _product_cases() -> list[Case]:
    case = _case_of(MUL)
    return [
        case("plain", (2, 3, 5), 2, (S8_FINE, S8, S8)),
        case("unsigned", (3, 7), 3, (U6, U6, FixedFormat(12, 6, signed=False))),
        case("mixed_signs", (3, 8), 4, (U6, S8, S8_COARSE), UP),
        case("two_bit", (2, 5), 1, (S2, S2, S4)),
        case("four_bit", (2, 6), 6, (S4, S4, S4), (Rounding.TRUNC, Overflow.SATURATE)),
        case("wide", (2, 3), 3, (S16, S16, S16), FLOOR_WRAP),
        case("beyond_float64", (2, 3), 1, (FixedFormat(30, 10), FixedFormat(32, 16), FixedFormat(48, 12))),
        case("times_number", (3, 10), 4, (S8, FixedFormat(2, 1), S8), constant=()),
        case("per_channel", (2, 3, 10), 3, (S8, S8_FINE, S8), UP, constant=(10,)),
        case("whole", (2, 3, 4), 4, (S8, S8_FINE, S8), constant=(2, 3, 4)),
        case("centred", (2, 3, 5), 2, (Z8, ZU8, FixedFormat(18, 0))),
    ]


def _extreme_cases(operation: int) -> Callable[[], list[Case]]:
    def cases() -> list[Case]:
        return [
            _case_of(operation)("aligned", (2, 3, 5), 2, (S8_FINE, S8_COARSE, FixedFormat(12, 6))),
            _case_of(operation)("mixed_signs", (3, 7), 3, (U6, S8, S8), UP),
            _case_of(operation)("two_bit", (2, 5), 5, (S2, S2, S2)),
            _case_of(operation)("wide", (2, 3), 1, (S16, FixedFormat(16, 4), FixedFormat(12, 2)), FLOOR_WRAP),
            _case_of(operation)("number", (3, 10), 4, (S8, FixedFormat(3, 1), S8), constant=()),
            _case_of(operation)("per_channel", (2, 3, 6), 4, (S8, S8_FINE, S8), constant=(6,)),
        ]

    return cases


def _comparison_cases(operation: int) -> Callable[[], list[Case]]:
    """Few numbers on both sides, so that some are equal; a result of two bits shows 1 as neither end of its range."""

    def cases() -> list[Case]:
        out = FixedFormat(3, 0)
        more = {
            LT: [_case_of(LT)("wide", (2, 9), 1, (S16, FixedFormat(16, 10), FixedFormat(12, 2)), FLOOR_WRAP)],
            GE: [_case_of(GE)("number", (3, 10), 4, (S4, FixedFormat(3, 1), out), constant=())],
        }
        return [
            _case_of(operation)("aligned", (2, 8, 5), 3, (S4, FixedFormat(3, 0), out)),
            _case_of(operation)("per_channel", (2, 3, 6), 4, (S4, FixedFormat(3, 0), out), constant=(6,)),
            *more.get(operation, []),
        ]

    return cases


EXACTLY: dict[int, Callable[..., Any]] = {ADD: operator.add, SUB: operator.sub, MUL: operator.mul, MIN: min, MAX: max}
"""Operation -> the same on exact values, for the test."""


def _op(name: str, operation: int, cases: Callable[[], Sequence[Case]], *methods: str, **facets: Any) -> OpDef:
    places = (torch, operator)
    return OpDef(
        name=name,
        # What MASE calls them.
        mase_type="implicit_func" if operation in (EQ, NE, GE) else "builtin_func",
        functions=tuple(getattr(p, m) for m in methods for p in places if callable(getattr(p, m, None))),
        methods=methods,
        parameters=(CONSTANT,),
        attributes=("reversed",) if operation in binary.MIRRORED else (),
        constant=CONSTANT,
        golden=binary.golden(operation),
        oracle=EXACTLY.get(operation),
        on_values=None if operation in binary.COMPARE else binary.on_values(operation),
        formats=("data_in_0", "data_in_1", CONSTANT, "data_out_0"),
        hardware=Hardware(
            module="fixed_binary",
            params=binary.CombinedParams,
            build=binary.build(operation),
            latency=binary.latency,
            cases=cases,
            work=binary.work,
            multipliers=binary.multipliers,
            follows_input=True,
            fast=operation in binary.SUMS,
            static=(CONSTANT,),
            broadcast=(CONSTANT,),
        ),
        **facets,
    )


OPS = (
    _op("add", ADD, _sum_cases, "add", "add_", check=_unscaled, scaled=SUM),
    _op("sub", SUB, _difference_cases, "sub", "sub_", "subtract", "subtract_", check=_unscaled, scaled=SUM),
    _op("mul", MUL, _product_cases, "mul", "mul_", "multiply", "multiply_", exact=binary.exact_product, scaled=PRODUCT),
    _op("minimum", MIN, _extreme_cases(MIN), "minimum", "fmin", default_out=binary.covering_both, scaled=SELECTION),
    _op("maximum", MAX, _extreme_cases(MAX), "maximum", "fmax", default_out=binary.covering_both, scaled=SELECTION),
    *(
        _op(name, code, _comparison_cases(code), name, f"{name}_", *also, default_out=binary.truth)
        for name, code, *also in (
            ("lt", LT, "less"),
            ("le", LE, "less_equal"),
            ("gt", GT, "greater"),
            ("ge", GE, "greater_equal"),
            ("eq", EQ),
            ("ne", NE, "not_equal"),
        )
    ),
)
