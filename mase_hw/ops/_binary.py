"""What the ops of two operands share: parameters, ports, timing and the exact combination.

The second operand is a stream, or a *constant*: a number in the code or a tensor the model stores. A constant is held
with a format of its own, broadcast as PyTorch does, and streamed from a memory in the order of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Tensor3, fold_shape, port
from mase_hw.layouts import Layout
from mase_hw.nn.values import OnValues, cast_to, in_float32
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through, wider
from mase_hw.opdef import Arithmetic, Case, Latency, Request
from mase_hw.ops import _cases
from mase_hw.ops._scaled import blocks
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps

ADD, SUB, SUB_FROM, MUL, MIN, MAX, LT, LE, GT, GE, EQ, NE = range(12)
"""Codes of the parameter ``OPERATION``; ``SUB_FROM`` is the second operand minus the first."""
SUMS = (ADD, SUB, SUB_FROM)
ARITHMETIC = (*SUMS, MUL)
"""Operations that compute with values; the others choose among mantissas or compare them."""
CONSTANT = "constant"
"""Name of an operand that the model stores, and of its stream."""

B = TypeVar("B", bound="BinaryParams")
Combine = Callable[[Tensor, Tensor], Tensor]
EXACT: dict[int, Combine] = {
    ADD: torch.add,
    SUB: torch.sub,
    SUB_FROM: lambda x, y: y - x,
    MUL: torch.mul,
    MIN: torch.minimum,
    MAX: torch.maximum,
}
"""Operation -> what it does to aligned mantissas."""
COMPARE: dict[int, Combine] = {LT: torch.lt, LE: torch.le, GT: torch.gt, GE: torch.ge, EQ: torch.eq, NE: torch.ne}
"""Operation -> how it compares aligned mantissas; the result is 0 or 1."""
MIRRORED = {SUB: SUB_FROM, LT: GT, LE: GE, GT: LT, GE: LE}
"""Operation whose first operand is a constant -> the operation on the data, with the constant second."""


class OperandParams(Params, frozen=True):
    """Parameters of a module whose last operand is a stream, or a constant that comes in at a port of its own."""

    last: ClassVar[str] = "data_in_1"
    if TYPE_CHECKING:  # fields of those that inherit
        has_constant: bool
        data_in_0: Tensor3

    @property
    def second(self) -> str:
        """Name of the last operand."""
        return self.called(self.last)

    def called(self, name: str) -> str:
        return CONSTANT if name == self.last and self.has_constant else name

    def absent(self) -> tuple[str, ...]:
        return (self.last if self.has_constant else CONSTANT,)

    def repetitions(self) -> dict[str, int]:
        return {self.last: self.data_in_0.beats // getattr(self, self.last).beats}


class BinaryParams(OperandParams, frozen=True):
    """Parameters of two operands and a cast, as ``fixed_divide`` has them.

    ``data_in_1`` describes the second operand, constant or not.
    """

    data_in_0: Tensor3
    has_constant: bool
    data_in_1: Tensor3
    data_out_0: Tensor3
    operation: int
    cast: Cast

    def attributes(self) -> Attributes:
        """Which way round a difference is."""
        return {"reversed": True} if self.operation == SUB_FROM else {}


class CombinedParams(BinaryParams, frozen=True):
    """Parameters of ``fixed_binary``, which takes scaled integers as well."""

    data_in_0_zero_point: int
    data_in_0_multiplier: int
    data_in_1_zero_point: int
    data_in_1_multiplier: int
    ahead: bool

    @property
    def multiplied(self) -> bool:
        """Whether an operand is brought to another scale."""
        return self.data_in_0_multiplier != 1 or self.data_in_1_multiplier != 1

    def attributes(self) -> Attributes:
        """The multipliers besides."""
        factors = (self.data_in_0_multiplier, self.data_in_1_multiplier)
        return super().attributes() | ({"multipliers": factors} if self.multiplied else {})


def operation_of(a: Arithmetic, operation: int) -> int:
    """The operation of a node: one whose first operand is a constant is the other way round."""
    return MIRRORED.get(operation, operation) if a.attributes.get("reversed") else operation


def golden(operation: int) -> Callable[[Arithmetic, Mapping[str, Tensor]], dict[str, Tensor]]:
    """The arithmetic: align exactly, combine, cast once.

    Scaled integers are taken less their zero point. The attribute ``multipliers`` of a sum or a difference has an
    integer for each operand, which brings both to one scale; an operand is multiplied by it.

    ``data_in_0`` of any shape, ``data_in_1`` of the same shape or ``constant`` of one that broadcasts to it ->
    ``data_out_0``.
    """

    def run(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        second = CONSTANT if CONSTANT in t else "data_in_1"
        code = operation_of(a, operation)
        formats = (a.formats["data_in_0"], a.formats[second])
        operands = tuple(_centred(v, f) for v, f in zip((t["data_in_0"], t[second]), formats, strict=True))
        most = [magnitude(f.centred) for f in formats]
        if code == MUL:
            frac, factors = formats[0].frac_width + formats[1].frac_width, [1, 1]
            bound = most[0] * most[1]
        else:
            frac = max(f.frac_width for f in formats)
            factors = [m << (frac - f.frac_width) for m, f in zip(multipliers_of(a), formats, strict=True)]
            bound = sum(m * factor for m, factor in zip(most, factors, strict=True))
        dtype = carrier(bound, wide=True)
        x, y = (as_carrier(v, dtype) * factor for v, factor in zip(operands, factors, strict=True))
        if code in COMPARE:
            holds = as_carrier(COMPARE[code](x, y), torch.float32)
            return {"data_out_0": cast(holds, 0, a.formats["data_out_0"], a.rounding, a.overflow)}
        exact = EXACT[code](x, y)
        out = cast(exact, frac, a.formats["data_out_0"], a.rounding, a.overflow)
        if not dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in operands):
            wide = [v.double() * float(factor) for v, factor in zip(operands, factors, strict=True)]
            out = straight_through(out, _surrogate(EXACT[code](*wide), frac, a))
        return {"data_out_0": out}

    return run


def multipliers_of(a: Arithmetic) -> tuple[int, int]:
    """What both operands of a sum or a difference are multiplied by."""
    first, second = a.attributes.get("multipliers", (1, 1))
    return int(first), int(second)


def _centred(mantissas: Tensor, fmt: FixedFormat) -> Tensor:
    """Less the zero point, exactly."""
    if not fmt.zero_point:
        return mantissas
    return as_carrier(mantissas, wider(mantissas.dtype, carrier(magnitude(fmt.centred)))) - fmt.zero_point


def on_values(operation: int) -> Callable[[Arithmetic, Mapping[str, Tensor]], OnValues | None]:
    """The same on values, where every combination of two of them is exact in float32."""

    def find(a: Arithmetic, t: Mapping[str, Tensor]) -> OnValues | None:
        second = CONSTANT if CONSTANT in t else "data_in_1"
        code, last = operation_of(a, operation), cast_to(a)
        fx, fy = a.formats["data_in_0"], a.formats[second]
        if last is None or not in_float32(fx, fy):
            return None
        if code == MUL:
            bound = magnitude(fx) * magnitude(fy)
        else:
            frac = max(fx.frac_width, fy.frac_width)
            bound = sum(magnitude(f) << (frac - f.frac_width) for f in (fx, fy))
        if carrier(bound) != torch.float32:
            return None
        combine = EXACT[code]
        if CONSTANT not in t:
            return OnValues(combine, last)
        held = (t[CONSTANT].double() * fy.scale).float()
        return OnValues(lambda x: combine(x, held), last)

    return find


def _surrogate(value: Tensor, frac: int, a: Arithmetic) -> Tensor:
    """The cast in float64, for the gradient only: int64 carries none."""
    fmt = a.formats["data_out_0"]
    value = value * math.ldexp(1.0, fmt.frac_width - frac)
    return value.clamp(fmt.min_mantissa, fmt.max_mantissa) if a.overflow is Overflow.SATURATE else value


def streamed_shape(r: Request, name: str, folded: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Shape of the part of a constant that a frame of ``data_in_0`` streams again and again.

    The smallest run of whole inner dimensions of the stream beyond which the constant repeats itself.

    Args:
        r: Of the node.
        name: The constant.
        folded: Sizes of the stream of ``data_in_0``, as the module counts them; three if they are not given.
    """
    full = r.shapes["data_in_0"]
    folded = folded or tuple(reversed(fold_shape(r.stream_shapes["data_in_0"])))
    layout = r.layouts.get("data_in_0") or Layout.row_major(full)
    constant = (1,) * (len(full) - len(r.shapes[name])) + tuple(r.shapes[name])
    probe = torch.arange(math.prod(constant)).reshape(constant).expand(full)
    run = torch.from_numpy(layout.to_stream(probe[None].numpy())).reshape(-1)
    for outer in reversed(range(len(folded))):
        period = math.prod(folded[outer:])
        if bool((run.reshape(-1, period) == run[:period]).all()):
            return (1,) * outer + folded[outer:]
    return folded


def build(operation: int) -> Callable[[Request], CombinedParams]:
    """Parameters of ``fixed_binary`` for a node; everything has the lanes of the first input.

    Raises:
        UnsupportedError: As :func:`plain`.
    """

    def run(r: Request) -> CombinedParams:
        p, factors = plain(r, operation, BinaryParams), multipliers_of(r.arithmetic)
        # What only chooses has its numbers, zero points and all, as they are.
        zeros = [r.arithmetic.formats[n].zero_point if operation in ARITHMETIC else 0 for n in ("data_in_0", p.second)]
        return CombinedParams(
            **msgspec.structs.asdict(p),
            data_in_0_zero_point=zeros[0],
            data_in_0_multiplier=factors[0],
            data_in_1_zero_point=zeros[1],
            data_in_1_multiplier=factors[1],
            ahead=r.fast and operation in SUMS,
        )

    return run


def plain(r: Request, operation: int, kind: type[B]) -> B:
    """Parameters of two operands; everything has the lanes of the first input.

    Raises:
        UnsupportedError: If one side is larger than the other and it is not a constant that broadcasts to the data.
    """
    formats, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"]
    second = CONSTANT if CONSTANT in r.shapes else "data_in_1"
    check_shapes(r, second)
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    if second in r.parallelism and second != CONSTANT:
        lanes_within(r.node, second, r.parallelism[second], shape)
    other = streamed_shape(r, second) if second == CONSTANT else shape
    return kind(
        data_in_0=port(shape, formats["data_in_0"], lanes),
        has_constant=second == CONSTANT,
        data_in_1=port(other, formats[second], lanes),
        data_out_0=port(shape, formats["data_out_0"], lanes),
        operation=operation_of(r.arithmetic, operation),
        cast=r.arithmetic.modes,
    )


def check_shapes(r: Request, second: str) -> None:
    """Refuse an operand whose shape is not that of ``data_in_0``, or, of a constant, does not broadcast to it.

    Raises:
        UnsupportedError: With both shapes.
    """
    first, other = r.shapes["data_in_0"], r.shapes[second]
    if second == CONSTANT:
        fits = len(other) <= len(first) and all(
            size in (1, whole) for size, whole in zip(reversed(other), reversed(first), strict=False)
        )
    else:
        fits = first == other
    if not fits:
        raise UnsupportedError(
            "the operands have different shapes",
            node=r.node,
            field=second,
            got=list(other),
            expected=list(first),
            remedy="only numbers and stored tensors are broadcast in hardware; expand data in the model",
        )


def latency(p: CombinedParams) -> Latency:
    """One beat per cycle; a product, and operands that wait or are multiplied, have one register more."""
    beats, pipe = p.data_in_0.beats, 2 if p.operation == MUL or p.multiplied or p.ahead else 1
    return Latency.from_steps(Steps.registered(beats, 2 - p.has_constant, pipe, skid=True))


def multipliers(p: CombinedParams) -> int:
    """Multiplier blocks: one a lane for a product; of a sum, those of the multipliers that are no powers of two."""
    lanes = p.data_in_0.lanes[0]
    if p.operation == MUL:
        return lanes
    operands = (
        (p.data_in_0.fmt.width, p.data_in_0.fmt.signed, p.data_in_0_zero_point, p.data_in_0_multiplier),
        (p.data_in_1.fmt.width, p.data_in_1.fmt.signed, p.data_in_1_zero_point, p.data_in_1_multiplier),
    )
    return lanes * sum(
        blocks(width + (1 - signed) + int(zero != 0), factor.bit_length() + 1)
        for width, signed, zero, factor in operands
        if factor & (factor - 1)
    )


def elements(p: BinaryParams) -> int:
    """Elements per frame."""
    return math.prod(p.data_in_0.shape)


def work(p: CombinedParams) -> int:
    """Uses of a multiplier block per frame: of an element as many as its lane has blocks."""
    return elements(p) * (multipliers(p) // p.data_in_0.lanes[0])


def truth(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    """One bit without a sign: the format of what is true or false."""
    return FixedFormat(1, 0, signed=False)


def covering_both(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    """The narrowest format that holds every value of both operands."""
    operands = [f for name, f in formats.items() if name != "data_out_0"]
    signed = any(f.signed for f in operands)
    integer = max(f.width - f.frac_width - int(f.signed) for f in operands)
    frac = max(f.frac_width for f in operands)
    return FixedFormat(integer + frac + int(signed), frac, signed)


def exact_product(formats: Mapping[str, FixedFormat], shapes: Mapping[str, tuple[int, ...]]) -> FixedFormat:
    """The format that holds every product of both operands."""
    x, y = formats["data_in_0"], formats[CONSTANT if CONSTANT in formats else "data_in_1"]
    return FixedFormat(x.width + y.width, x.frac_width + y.frac_width, x.signed or y.signed)


def case(
    build: Callable[[Request], Any],
    name: str,
    shape: Sequence[int],
    lanes: int,
    formats: str,
    constant: Sequence[int] | None = None,
    frames: int = 6,
    **more: Any,
) -> Case:
    """A catalogue case of two operands.

    Args:
        build: As of :func:`mase_hw.ops._cases.case`, as is the rest.
        name: Likewise.
        shape: Of the operands.
        lanes: Of all streams.
        formats: Of the operands and the result.
        constant: The shape of the second operand if it is a constant.
        frames: Likewise.
        more: Likewise.
    """
    second = "data_in_1" if constant is None else CONSTANT
    shapes = {"data_in_0": tuple(shape), second: tuple(shape if constant is None else constant)}
    return _cases.case(build, name, shapes, lanes, formats, ("data_in_0", second, "data_out_0"), frames, **more)
