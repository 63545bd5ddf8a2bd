"""Quotients rounded to whole numbers, towards minus infinity or towards zero: exact, on the divider of ``div``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.formats import FixedFormat, Rounding
from mase_hw.formats.attributes import Attributes
from mase_hw.numerics import magnitude
from mase_hw.opdef import Arithmetic, Case, OpDef, Request
from mase_hw.ops._binary import CONSTANT, BinaryParams
from mase_hw.ops.arithmetic import quotient

MOST = 32
"""Bits of a whole quotient; a larger one saturates."""


def floor_quotient(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The largest whole number that is not above ``input / other``; one of them may be a number.

    Args:
        input: Any shape that broadcasts.
        other: The divisor.
    """
    return _divided("floor", floor_quotient, input, other)


def trunc_quotient(input: Tensor | float, other: Tensor | float) -> Tensor:
    """``input / other`` without its fraction; one of them may be a number.

    Args:
        input: Any shape that broadcasts.
        other: The divisor.
    """
    return _divided("trunc", trunc_quotient, input, other)


def _divided(mode: str, itself: Callable[..., Tensor], x: Any, y: Any) -> Tensor:
    """A division that tracing records as one call."""
    tensors = tuple(value for value in (x, y) if not isinstance(value, int | float))
    if has_torch_function(tensors):
        recorded: Tensor = handle_torch_function(itself, tensors, x, y)
        return recorded
    x, y = (value if isinstance(value, Tensor) else torch.tensor(float(value)) for value in (x, y))
    result: Tensor = torch.div(x, y, rounding_mode=mode)
    return result


def _whole(formats: Mapping[str, FixedFormat], sizes: Sequence[int], attributes: Attributes) -> FixedFormat:
    """Whole numbers up to the largest number of the dividend over the smallest of the divisor."""
    second = CONSTANT if CONSTANT in formats else "data_in_1"
    over, under = ("data_in_0", second) if not attributes.get("reversed") else (second, "data_in_0")
    n, d = formats[over], formats[under]
    bits = magnitude(n).bit_length() + d.frac_width - n.frac_width
    signed = n.signed or d.signed
    return FixedFormat(min(max(bits, 1) + signed, MOST), 0, signed)


_DIV = quotient.OPS[0]


def _op(name: str, function: Callable[..., Tensor], rounding: Rounding, cases: Callable[[], list[Case]]) -> OpDef:
    assert _DIV.hardware is not None  # a division is hardware

    def rounded(a: Arithmetic) -> Arithmetic:
        return dataclasses.replace(a, rounding=rounding)

    def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``data_in_0 / data_in_1``, or with a ``constant``, rounded to the format of ``data_out_0`` one way."""
        return quotient.golden(rounded(a), t)

    def build(r: Request) -> BinaryParams:
        return quotient.build(dataclasses.replace(r, arithmetic=rounded(r.arithmetic)))

    return dataclasses.replace(
        _DIV,
        name=name,
        functions=(function,),
        methods=(),
        attributes=("reversed",),
        golden=golden,
        check=None,
        exact_out=_whole,
        hardware=dataclasses.replace(_DIV.hardware, build=build, cases=cases),
    )


def _floors() -> list[Case]:
    return [
        quotient.case("mixed_signs", (3, 8), 4, "u6.3 s8.4 s8.0 floor"),
        quotient.case("number_by", (3, 10), 3, "s8.4 s4.1 s6.0 floor", (), reversed=True),
    ]


def _truncs() -> list[Case]:
    return [
        quotient.case("two_signs", (2, 9), 2, "s8.4 s4.1 s6.0 trunc wrap"),
        quotient.case("per_channel", (2, 3, 5), 4, "s8.4 s6.4 s5.0 trunc wrap", (5,)),
    ]


OPS = (
    _op("floor_quotient", floor_quotient, Rounding.FLOOR, _floors),
    _op("trunc_quotient", trunc_quotient, Rounding.TRUNC, _truncs),
)
