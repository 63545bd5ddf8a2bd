"""Sums, differences, products, extremes, comparisons of two tensors, or a tensor and a constant: exact, one cast."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.opdef import Case, Hardware, OpDef
from mase_hw.ops import _binary as binary
from mase_hw.ops._binary import ADD, CONSTANT, EQ, GE, GT, LE, LT, MAX, MIN, MUL, NE, SUB
from mase_hw.ops._scaled import PRODUCT, SELECTION, SUM


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
    return functools.partial(binary.case, binary.build(operation))


def _sum_cases() -> list[Case]:
    case = _case_of(ADD)
    return [
        case("same_format", (4, 16), 4, "s8.4 s8.4 s9.4"),
        case("aligned", (2, 3, 5), 2, "s8.6 s8.2 s8.4"),
        case("aligned_other_way", (2, 9), 3, "s8.2 s8.6 s8.4 floor wrap"),
        case("fast", (2, 3, 5), 2, "s8.6 s8.2 s8.4", fast=True),
        case("fast_constant", (2, 3, 5), 4, "zu8.7 s4.0 s10.0", constant=(5,), fast=True),
        case("unsigned", (3, 7), 7, "u6.3 u6.1 u7.2 half_up"),
        case("mixed_signs", (3, 7), 3, "u6.3 s8.4 s8.4"),
        case("two_bit", (2, 5), 1, "s2.0 s2.0 s3.0"),
        case("wide", (2, 3), 3, "s16.9 s16.4 s17.6 trunc"),
        case("beyond_float64", (2, 3), 2, "s44.20 s50.8 s52.8"),
        case("negative_fraction", (2, 3), 2, "s6.-3 s4.-1 s8.-2"),
        case("scalar", (1,), 1, "s8.4 s8.4 s9.4", frames=16),
        case("number", (3, 10), 4, "s8.4 s3.1 s8.4", constant=()),
        case("per_channel", (2, 3, 10), 4, "s8.4 s8.6 s9.4", constant=(10,)),
        case("per_row", (2, 3, 4), 4, "s8.4 s8.6 s8.4", constant=(3, 1)),
        case("whole", (2, 3, 4), 2, "s8.4 s8.4 s8.4", constant=(2, 3, 4)),
        case("scaled", (2, 3, 5), 2, "z8.-100 zu8.7 s42.0", multipliers=(2**31 - 1, 2**29 + 3)),
        case("scaled_pads", (2, 5), 3, "z8.-100 s4.0 s12.0", multipliers=(1, 6)),
        case("centred_constant", (2, 3, 5), 4, "zu8.7 s4.0 s10.0", constant=(5,)),
    ]


def _difference_cases() -> list[Case]:
    case = _case_of(SUB)
    return [
        case("aligned", (2, 3, 5), 2, "s8.6 s8.2 s8.4"),
        case("unsigned", (3, 7), 3, "u6.3 u6.3 s7.3"),
        case("to_unsigned", (3, 8), 4, "u6.3 s4.1 u6.3 half_up"),
        case("two_bit", (2, 5), 5, "s2.0 s2.0 s2.0 floor wrap"),
        case("wide", (2, 3), 3, "s16.9 s16.4 s17.6 half_up"),
        case("minus_constant", (3, 6), 4, "s8.4 s8.6 s8.4", constant=(6,)),
        case("from_constant", (3, 6), 4, "s8.4 s8.6 s8.4", constant=(6,), reversed=True),
        case("from_number", (3, 7), 2, "u6.3 s2.0 s8.4", constant=(), reversed=True),
        case("scaled", (2, 3, 5), 2, "zu8.7 z8.-100 s33.0", multipliers=(2**20, 3**12)),
        case("scaled_from", (2, 5), 5, "z8.-100 s4.0 s12.0", constant=(), reversed=True, multipliers=(5, 1)),
    ]


def _product_cases() -> list[Case]:
    case = _case_of(MUL)
    return [
        case("plain", (2, 3, 5), 2, "s8.6 s8.4 s8.4"),
        case("unsigned", (3, 7), 3, "u6.3 u6.3 u12.6"),
        case("mixed_signs", (3, 8), 4, "u6.3 s8.4 s8.2 half_up"),
        case("two_bit", (2, 5), 1, "s2.0 s2.0 s4.1"),
        case("four_bit", (2, 6), 6, "s4.1 s4.1 s4.1 trunc"),
        case("wide", (2, 3), 3, "s16.9 s16.9 s16.9 floor wrap"),
        case("beyond_float64", (2, 3), 1, "s30.10 s32.16 s48.12"),
        case("times_number", (3, 10), 4, "s8.4 s2.1 s8.4", constant=()),
        case("per_channel", (2, 3, 10), 3, "s8.4 s8.6 s8.4 half_up", constant=(10,)),
        case("whole", (2, 3, 4), 4, "s8.4 s8.6 s8.4", constant=(2, 3, 4)),
        case("centred", (2, 3, 5), 2, "z8.-100 zu8.7 s18.0"),
    ]


def _extreme_cases(operation: int) -> Callable[[], list[Case]]:
    def cases() -> list[Case]:
        return [
            _case_of(operation)("aligned", (2, 3, 5), 2, "s8.6 s8.2 s12.6"),
            _case_of(operation)("mixed_signs", (3, 7), 3, "u6.3 s8.4 s8.4 half_up"),
            _case_of(operation)("two_bit", (2, 5), 5, "s2.0 s2.0 s2.0"),
            _case_of(operation)("wide", (2, 3), 1, "s16.9 s16.4 s12.2 floor wrap"),
            _case_of(operation)("number", (3, 10), 4, "s8.4 s3.1 s8.4", constant=()),
            _case_of(operation)("per_channel", (2, 3, 6), 4, "s8.4 s8.6 s8.4", constant=(6,)),
        ]

    return cases


def _comparison_cases(operation: int) -> Callable[[], list[Case]]:
    """Few numbers on both sides, so that some are equal; a result of two bits shows 1 as neither end of its range."""

    def cases() -> list[Case]:
        more = {
            LT: [_case_of(LT)("wide", (2, 9), 1, "s16.9 s16.10 s12.2 floor wrap")],
            GE: [_case_of(GE)("number", (3, 10), 4, "s4.1 s3.1 s3.0", constant=())],
        }
        return [
            _case_of(operation)("aligned", (2, 8, 5), 3, "s4.1 s3.0 s3.0"),
            _case_of(operation)("per_channel", (2, 3, 6), 4, "s4.1 s3.0 s3.0", constant=(6,)),
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
