"""Selection: one of two tensors, element by element, by a truth value; one cast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Tensor3, port
from mase_hw.numerics import as_carrier, carrier, cast, magnitude
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops import _binary as binary
from mase_hw.ops._binary import CONSTANT
from mase_hw.ops._cases import case
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps

FAR = -1e4
"""A number in the place of data, or added to it, that is at most this leaves the element out: it means the least."""
LEAST = -(2.0**110)
"""What stands for the least there is in a float graph; sums and products with ordinary numbers stay finite."""
_BEYOND = 2.0**80


def beyond(values: Tensor) -> Tensor:
    """Which numbers are no data: what stands for the least or the largest there is, infinities and NaN."""
    return ~(values.abs() < _BEYOND) if values.is_floating_point() else torch.zeros_like(values, dtype=torch.bool)


def some_beyond(values: Tensor) -> bool:
    """Whether any of the numbers is no data: as :func:`beyond` of all of them, but read once."""
    if not values.is_floating_point() or not values.numel():
        return False
    return not all(abs(float(end)) < _BEYOND for end in torch.aminmax(values.detach()))  # NaN if one is


def stand_in(far: Tensor) -> Tensor:
    """What stands for numbers that leave elements out: so far beyond data that :func:`stood_for` gives them back.

    A number from 2**30 on, an infinity too, is :data:`LEAST`, or its negative; what stands for one already, stays.
    """
    done = (far.abs() >= -FAR * _BEYOND) & (far.abs() <= -LEAST)
    return torch.where(done, far, far.clamp(LEAST / _BEYOND, -LEAST / _BEYOND) * _BEYOND)


def stood_for(values: Tensor) -> Tensor:
    """The numbers of the model for which elements beyond data stand, scaled as these were since."""
    return values / _BEYOND


def select(condition: Tensor, kept: Tensor, other: Tensor) -> Tensor:
    """``torch.where``, also of a condition that is a number: it holds where that is not 0."""
    given = (condition, kept, other)
    if has_torch_function(given):  # tracing records one call
        result: Tensor = handle_torch_function(select, given, *given)
        return result
    return torch.where(condition.bool(), kept, other)


def choose(condition: Tensor, kept: Tensor, constant: Tensor, reversed: bool = False) -> Tensor:
    """``kept`` where the condition holds and a stored tensor elsewhere; with ``reversed`` the other way round.

    Args:
        condition: Truth values; any shape.
        kept: Of the same shape.
        constant: Broadcasts to it.
        reversed: The constant stands where the condition holds.
    """
    given = (condition, kept, constant)
    if has_torch_function(given):  # tracing records one call
        result: Tensor = handle_torch_function(choose, given, *given, reversed=reversed)
        return result
    return torch.where(condition.bool(), *((constant, kept) if reversed else (kept, constant)))


class WhereParams(binary.OperandParams, frozen=True):
    """Parameters of ``fixed_where``; ``data_in_2`` describes the second choice, constant or not."""

    last: ClassVar[str] = "data_in_2"

    data_in_0: Tensor3
    data_in_1: Tensor3
    has_constant: bool
    data_in_2: Tensor3
    data_out_0: Tensor3
    reversed: bool
    cast: Cast

    def attributes(self) -> Attributes:
        """Whether the choices are the other way round."""
        return {"reversed": True} if self.reversed else {}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` (true where it is not 0), ``data_in_1`` and ``data_in_2`` of one shape -> ``data_out_0``.

    In the place of ``data_in_2`` there may be a ``constant`` that broadcasts to the data; with the attribute
    ``reversed`` it stands where the condition holds.
    """
    second, out = CONSTANT if CONSTANT in t else "data_in_2", a.formats["data_out_0"]
    dtype = carrier(magnitude(out))
    kept, other = (
        as_carrier(cast(t[n], a.formats[n].frac_width, out, a.rounding, a.overflow), dtype)
        for n in ("data_in_1", second)
    )
    choices = (other, kept) if a.attributes.get("reversed") else (kept, other)
    return {"data_out_0": torch.where(t["data_in_0"] != 0, *choices)}


def _build(r: Request) -> WhereParams:
    formats, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"]
    second = CONSTANT if CONSTANT in r.shapes else "data_in_2"
    for name in {"data_in_1", second}:
        binary.check_shapes(r, name)
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    for name in ("data_in_1", "data_in_2"):
        if name in r.parallelism:
            lanes_within(r.node, name, r.parallelism[name], shape)
    other = binary.streamed_shape(r, second) if second == CONSTANT else shape
    return WhereParams(
        data_in_0=port(shape, formats["data_in_0"], lanes),
        data_in_1=port(shape, formats["data_in_1"], lanes),
        has_constant=second == CONSTANT,
        data_in_2=port(other, formats[second], lanes),
        data_out_0=port(shape, formats["data_out_0"], lanes),
        reversed=bool(r.arithmetic.attributes.get("reversed")),
        cast=r.arithmetic.modes,
    )


def _latency(p: WhereParams) -> Latency:
    beats = p.data_in_0.beats
    return Latency.from_steps(Steps.registered(beats, 3 - p.has_constant, skid=True))


def _covering(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    return binary.covering_both({name: fmt for name, fmt in formats.items() if name != "data_in_0"})


def _case(
    name: str, shape: Sequence[int], lanes: int, formats: str, constant: Sequence[int] | None = None, **more: Any
) -> Case:
    second = "data_in_2" if constant is None else CONSTANT
    shapes = {n: tuple(shape) for n in ("data_in_0", "data_in_1")}
    shapes[second] = tuple(shape if constant is None else constant)
    return case(_build, name, shapes, lanes, formats, (*shapes, "data_out_0"), 6, **more)


def _cases() -> list[Case]:
    return [
        _case("plain", (2, 3, 5), 2, "u1.0 s8.4 s8.6 s8.4"),
        _case("few_bits", (2, 9), 1, "u1.0 s4.1 u6.3 s4.1 half_up wrap"),
        _case("numbers_as_truth", (3, 8), 4, "s2.0 s16.9 s8.4 s20.9"),
        _case("else_number", (3, 10), 4, "u1.0 s8.4 s3.1 s8.4", constant=()),
        _case("per_channel", (2, 3, 10), 3, "u1.0 s8.4 s6.2 s8.4", constant=(10,), reversed=True),
    ]


def _op(name: str, parameters: tuple[str, ...], cases: Any, **facets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type="implicit_func",
        parameters=parameters,
        golden=golden,
        formats=("data_in_0", "data_in_1", *(parameters or ("data_in_2",)), "data_out_0"),
        default_out=_covering,
        hardware=Hardware(
            module="fixed_where",
            params=WhereParams,
            build=_build,
            latency=_latency,
            cases=cases,
            follows_input=True,
            static=parameters,
            broadcast=parameters,
        ),
        **facets,
    )


OPS = (
    _op("where", (), lambda: [c for c in _cases() if not c.params.has_constant], functions=(torch.where, select),
        methods=("where",)),
    _op("choose", (CONSTANT,), lambda: [c for c in _cases() if c.params.has_constant], functions=(choose,),
        attributes=("reversed",)),
)  # fmt: skip
