"""Quotients of two tensors, or of a tensor and a constant: exact, rounded once."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.numerics import carrier, magnitude, straight_through
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops import _binary as binary
from mase_hw.ops._binary import CONSTANT, BinaryParams
from mase_hw.ops._division import divide_cast, surrogate
from mase_hw.steps import Steps


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 / data_in_1`` of equal shapes, or with a ``constant`` that broadcasts to the data -> ``data_out_0``.

    A constant comes first if the attribute ``reversed`` says so. ``x / 0`` is the largest number of the result with
    the sign of x, and ``0 / 0`` is 0.
    """
    second = CONSTANT if CONSTANT in t else "data_in_1"
    over, under = ("data_in_0", second) if not a.attributes.get("reversed") else (second, "data_in_0")
    fn, fd, out = a.formats[over], a.formats[under], a.formats["data_out_0"]
    n, d = torch.broadcast_tensors(t[over], t[under])  # type: ignore[no-untyped-call]
    size, frac = d.detach().abs(), fn.frac_width - fd.frac_width
    zero = size == 0
    size = torch.where(zero, torch.ones_like(size), size)
    limits = (magnitude(fn), magnitude(fd))
    turned = torch.where(d.detach() < 0, -n, n)
    found = divide_cast(turned, size.to(torch.int64), limits, frac, out, a.modes)
    ends = torch.where(n > 0, out.max_mantissa, torch.where(n < 0, out.min_mantissa, 0)).to(found.dtype)
    result = torch.where(zero, ends, found)
    if any(v.requires_grad for v in (n, d)):
        safe = torch.where(d == 0, torch.ones_like(d), d).double()
        whole = surrogate(n.double(), safe, frac, out, a.overflow)
        result = straight_through(result.detach().to(carrier(magnitude(out))), torch.where(zero, whole.detach(), whole))
    return {"data_out_0": result}


def quotient_bits(p: BinaryParams) -> int:
    """Bits of the quotient before it is brought into the output format: a stage each."""
    width, frac, below = p.data_in_0.fmt.width, p.data_in_0.fmt.frac_width, p.data_in_1.fmt.frac_width
    if p.operation:
        width, frac, below = p.data_in_1.fmt.width, p.data_in_1.fmt.frac_width, p.data_in_0.fmt.frac_width
    return max(1, width + p.data_out_0.fmt.frac_width - (frac - below))


class QuotientParams(BinaryParams, frozen=True):
    """Parameters of ``fixed_divide``; operation 1 is the second operand by the first."""

    def attributes(self) -> Attributes:
        """Which operand is divided."""
        return {"reversed": True} if self.operation else {}


def build(r: Request) -> QuotientParams:
    """Parameters of the divider for a node."""
    plain = binary.plain(r, binary.ADD, QuotientParams)
    return msgspec.structs.replace(plain, operation=int(bool(r.arithmetic.attributes.get("reversed"))))


def _latency(p: BinaryParams) -> Latency:
    """One beat per cycle through the operands' register, a stage a bit, and the output's."""
    beats = p.data_in_0.beats
    return Latency.from_steps(Steps.registered(beats, 2 - p.has_constant, quotient_bits(p) + 2, skid=True))


def _check(node: str, attributes: Attributes) -> None:
    mode = attributes.get("rounding_mode")
    if mode is not None:
        raise UnsupportedError(
            "a quotient that is rounded to whole numbers is an op of its own",
            node=node,
            field="rounding_mode",
            got=mode,
            expected=None,
            remedy="run lower_arithmetic_transform_pass before calibration (compile does)",
        )


def case(*given: Any, **more: Any) -> Case:
    """A case of a divider, from formats of dividend, divisor and quotient; see :func:`mase_hw.ops._binary.case`."""
    return binary.case(build, *given, **more)


OPS = (
    OpDef(
        name="div",
        mase_type="builtin_func",
        functions=(operator.truediv, torch.div, torch.true_divide, torch.divide),
        methods=("div", "div_", "true_divide", "true_divide_", "divide", "divide_"),
        parameters=(CONSTANT,),
        attributes=("reversed", "rounding_mode"),
        constant=CONSTANT,
        golden=golden,
        check=_check,
        formats=("data_in_0", "data_in_1", CONSTANT, "data_out_0"),
        hardware=Hardware(
            module="fixed_divide",
            params=QuotientParams,
            build=build,
            latency=_latency,
            cases=lambda: [
                case("plain", (2, 3, 5), 2, "s8.4 s8.6 s12.5"),
                case("unsigned", (3, 7), 3, "u6.3 u6.3 u9.3 half_up"),
                case("mixed_signs", (3, 8), 4, "u6.3 s8.4 s8.4 floor"),
                case("few_bits", (2, 9), 1, "s4.1 s3.0 s4.1 half_away wrap"),
                case("coarse", (2, 9), 3, "s10.6 s4.1 s5.0"),
                case("all_dropped", (2, 9), 3, "s4.8 s4.1 s4.0 floor wrap"),
                case("wide", (9, 3), 3, "s24.9 s20.10 s24.8"),
                case("by_number", (3, 10), 4, "s8.4 s3.0 s8.4", constant=()),
                case("number_by", (3, 10), 3, "s8.4 s4.0 s12.5", constant=(), reversed=True),
                case("per_channel", (2, 3, 10), 4, "s8.4 s6.4 s8.4 trunc", (10,)),
            ],
            follows_input=True,
            static=(CONSTANT,),
            broadcast=(CONSTANT,),
        ),
    ),
)
