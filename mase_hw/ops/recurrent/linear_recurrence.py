"""A linear recurrence: ``h[t] = decay[t] * h[t-1] + x[t]``, element by element, along dimension 1.

The state of state-space models and of linear attention: everything else of them works on one time step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Precision, Tensor4, port
from mase_hw.nn.recurrence import linear_recurrence
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through, symbolic
from mase_hw.opdef import Arithmetic, Case, Hardware, Inner, Latency, OpDef, Request
from mase_hw.ops._binary import CONSTANT, OperandParams, check_shapes, streamed_shape
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps

NAMES = ("data_in_0", "data_in_1", "state", "data_out_0")
"""What has a format: ``x``, ``decay``, the state, and the result that is cast from it."""
STORED = ("data_in_0", CONSTANT, "state", "data_out_0")
"""The same where the model stores the decay."""


class LinearRecurrenceParams(OperandParams, frozen=True):
    """Parameters of ``fixed_linear_recurrence``: time steps are dimension 2 of the ports, sequences dimension 3."""

    data_in_0: Tensor4
    has_constant: bool
    data_in_1: Tensor4
    data_out_0: Tensor4
    state: Precision
    cast: Cast

    def formats(self) -> dict[str, FixedFormat]:
        """Those of the streams and that of the state."""
        return super().formats() | {"state": FixedFormat(self.state.width, self.state.frac_width)}

    @property
    def beats(self) -> int:
        """Beats of a time step."""
        return self.data_in_0.beats // math.prod(self.data_in_0.shape[:2])


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` ``(N, T, ...)``, ``data_in_1`` of the same shape or ``constant`` of one that broadcasts to it.

    Gives ``data_out_0`` of the shape of ``data_in_0``.
    """
    second = CONSTANT if CONSTANT in t else "data_in_1"
    x, decay, state, out = t["data_in_0"], t[second], a.formats["state"], a.formats["data_out_0"]
    if symbolic(x):
        return {"data_out_0": x.new_zeros(x.shape, dtype=carrier(magnitude(out)))}
    given, product = a.formats["data_in_0"], state.frac_width + a.formats[second].frac_width
    frac = max(given.frac_width, product)
    bound = (magnitude(state) * magnitude(a.formats[second]) << frac - product) + (
        magnitude(given) << frac - given.frac_width
    )
    dtype = carrier(bound, wide=True)
    added = as_carrier(x, dtype) * (1 << frac - given.frac_width)
    kept = as_carrier(decay, dtype).expand(x.shape) * (1 << frac - product)
    states: list[Tensor] = []
    for step in range(x.shape[1]):
        exact = added[:, step] + kept[:, step] * states[-1] if states else added[:, step]
        states.append(as_carrier(cast(exact, frac, state, a.rounding, a.overflow), dtype))
    results = as_carrier(torch.stack(states, 1), carrier(magnitude(state)))
    found = cast(results, state.frac_width, out, a.rounding, a.overflow)
    if not dtype.is_floating_point and found.is_floating_point() and (x.requires_grad or decay.requires_grad):
        smooth = linear_recurrence(x.double() * given.scale, decay.double() * a.formats[second].scale)
        smooth = smooth * math.ldexp(1.0, out.frac_width)
        if a.overflow is Overflow.SATURATE:
            smooth = smooth.clamp(out.min_mantissa, out.max_mantissa)
        found = straight_through(found, smooth)
    return {"data_out_0": found}


def _check(node: str, attributes: Attributes) -> None:
    if attributes.get("reversed"):
        raise UnsupportedError(
            "a linear recurrence adds what the model stores to a state whose decay is data",
            node=node,
            expected="x of data",
            remedy="give x for each token, as `x + 0 * decay`",
        )


def _build(r: Request) -> LinearRecurrenceParams:
    formats, shape = r.arithmetic.formats, r.shapes["data_in_0"]
    second = CONSTANT if CONSTANT in r.shapes else "data_in_1"
    check_shapes(r, second)
    if len(shape) < 3:
        raise UnsupportedError(
            "a recurrence needs dimensions of frames, of time and of features",
            node=r.node,
            got=list(shape),
            expected="(N, T, ...)",
            remedy="unsqueeze both operands along the last dimension",
        )
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    for name in [each for each in r.parallelism if each not in ("data_in_0", CONSTANT)]:
        lanes_within(r.node, name, r.parallelism[name], shape)
    whole = (*shape[:2], math.prod(shape[2:-1]), shape[-1])
    x, result = (port(whole, formats[name], lanes, dims=4) for name in ("data_in_0", "data_out_0"))
    decay = port(streamed_shape(r, second, whole) if second == CONSTANT else whole, formats[second], lanes, dims=4)
    state = Precision(formats["state"].width, formats["state"].frac_width)
    return LinearRecurrenceParams(
        data_in_0=x,
        has_constant=second == CONSTANT,
        data_in_1=decay,
        data_out_0=result,
        state=state,
        cast=r.arithmetic.modes,
    )


def _latency(p: LinearRecurrenceParams) -> Latency:
    """A register for the product, one for the state, and the output; the next beat may need the state of this one."""
    beats, streams = p.data_in_0.beats, 2 - p.has_constant
    if p.beats > 1:
        return Latency.from_steps(Steps.registered(beats, streams, 3, skid=True))
    each, none = (np.arange(beats, dtype=np.int64),) * streams, (0,) * streams
    product = Steps.at(beats, needed=each, freed=each, emitted=each[0], delay=none, room=none, pipe=1, queue=1)
    return Latency.from_steps(product, Steps.registered(beats, 1, 2, skid=True))


def _cases() -> Sequence[Case]:
    def case(
        name: str,
        shape: tuple[int, ...],
        lanes: int,
        formats: str,
        frames: int = 4,
        stored: tuple[int, ...] | None = None,
    ) -> Case:
        a = Arithmetic.read(formats, NAMES if stored is None else STORED)
        second = ("data_in_1", shape) if stored is None else (CONSTANT, stored)
        shapes = {"data_in_0": shape, **dict([second]), "data_out_0": shape}
        return Case(name, _build(Request(name, a, shapes, {"data_in_0": (lanes,)})), frames)

    return [
        case("plain", (1, 5, 3, 4), 2, "s8.6 u8.8 s16.12 s8.4"),
        case("two_beats", (1, 6, 4), 2, "s8.4 s8.7 s12.7 s8.3 half_up"),
        case("three_beats", (2, 4, 3, 1), 1, "s8.6 u6.6 s10.6 s10.6 floor"),
        case("one_beat", (1, 6, 3), 3, "u8.6 u8.8 s16.12 s9.4"),
        case("one_element", (3, 4, 1), 1, "s8.6 u8.8 s9.5 s6.2 trunc", frames=6),
        case("pads", (2, 3, 2, 5), 3, "s8.2 s6.4 s14.9 s8.4 wrap"),
        case("fine_input", (1, 4, 6), 2, "s16.14 u4.4 s8.4 u6.3"),
        case("wide", (1, 4, 6), 3, "s24.10 s24.23 s32.12 s20.1"),
        case("stored_number", (1, 5, 4), 2, "s8.6 u8.8 s16.12 s8.4", stored=()),
        case("stored_by_head", (2, 4, 3, 2, 2), 2, "s8.6 s8.7 s12.8 s8.4", stored=(3, 1, 1)),
        case("stored_by_time", (1, 5, 3), 3, "s8.6 u8.8 s16.12 s9.4 half_up", stored=(1, 5, 1)),
    ]


def _observe(module: nn.Module | None, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    return {"state": linear_recurrence(inputs[0], inputs[1])}


OPS = (
    OpDef(
        name="linear_recurrence",
        mase_type="builtin_func",
        functions=(linear_recurrence,),
        golden=golden,
        formats=("data_in_0", "data_in_1", CONSTANT, "state", "data_out_0"),
        parameters=(CONSTANT,),
        attributes=("reversed",),
        constant=CONSTANT,
        check=_check,
        inner=Inner(lambda _: ("state",), _observe, lambda _, width: 2 * width),
        hardware=Hardware(
            module="fixed_linear_recurrence",
            params=LinearRecurrenceParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            work=lambda p: math.prod(p.data_in_0.shape),
            multipliers=lambda p: p.data_in_0.lanes[0],
            idle=lambda p: p.data_in_0.beats if p.beats == 1 else 0,
            follows_input=True,
            layout="row_major",
            static=(CONSTANT,),
            broadcast=(CONSTANT,),
        ),
    ),
)
