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
from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Cast, Params, Precision, Tensor4, port
from mase_hw.nn.recurrence import linear_recurrence
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, symbolic
from mase_hw.opdef import Arithmetic, Case, Hardware, Inner, Latency, OpDef, Request
from mase_hw.ops._binary import check_shapes
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps

NAMES = ("data_in_0", "data_in_1", "state", "data_out_0")
"""What has a format: ``x``, ``decay``, the state, and the result that is cast from it."""


class LinearRecurrenceParams(Params, frozen=True):
    """Parameters of ``fixed_linear_recurrence``: time steps are dimension 2 of the ports, sequences dimension 3."""

    data_in_0: Tensor4
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
    """``data_in_0`` and ``data_in_1`` of one shape ``(N, T, ...)`` -> ``data_out_0`` of that shape."""
    x, decay, state, out = t["data_in_0"], t["data_in_1"], a.formats["state"], a.formats["data_out_0"]
    if symbolic(x):
        return {"data_out_0": x.new_zeros(x.shape, dtype=carrier(magnitude(out)))}
    given, product = a.formats["data_in_0"], state.frac_width + a.formats["data_in_1"].frac_width
    frac = max(given.frac_width, product)
    bound = (magnitude(state) * magnitude(a.formats["data_in_1"]) << frac - product) + (
        magnitude(given) << frac - given.frac_width
    )
    dtype = carrier(bound, wide=True)
    added = as_carrier(x, dtype) * (1 << frac - given.frac_width)
    kept = as_carrier(decay, dtype) * (1 << frac - product)
    states: list[Tensor] = []
    for step in range(x.shape[1]):
        exact = added[:, step] + kept[:, step] * states[-1] if states else added[:, step]
        states.append(as_carrier(cast(exact, frac, state, a.rounding, a.overflow), dtype))
    results = as_carrier(torch.stack(states, 1), carrier(magnitude(state)))
    return {"data_out_0": cast(results, state.frac_width, out, a.rounding, a.overflow)}


def _build(r: Request) -> LinearRecurrenceParams:
    formats, shape = r.arithmetic.formats, r.shapes["data_in_0"]
    check_shapes(r, "data_in_1")
    if len(shape) < 3:
        raise UnsupportedError(
            "a recurrence needs dimensions of frames, of time and of features",
            node=r.node,
            got=list(shape),
            expected="(N, T, ...)",
            remedy="unsqueeze both operands along the last dimension",
        )
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    for name in [each for each in r.parallelism if each != "data_in_0"]:
        lanes_within(r.node, name, r.parallelism[name], shape)
    whole = (*shape[:2], math.prod(shape[2:-1]), shape[-1])
    first, second, result = (port(whole, formats[n], lanes, dims=4) for n in ("data_in_0", "data_in_1", "data_out_0"))
    state = Precision(formats["state"].width, formats["state"].frac_width)
    return LinearRecurrenceParams(first, second, result, state, r.arithmetic.modes)


def _latency(p: LinearRecurrenceParams) -> Latency:
    """A register for the product, one for the state, and the output; the next beat may need the state of this one."""
    beats = p.data_in_0.beats
    if p.beats > 1:
        return Latency.from_steps(Steps.registered(beats, 2, 3, skid=True))
    each = np.arange(beats, dtype=np.int64)
    product = Steps.at(
        beats, needed=(each, each), freed=(each, each), emitted=each, delay=(0, 0), room=(0, 0), pipe=1, queue=1
    )
    return Latency.from_steps(product, Steps.registered(beats, 1, 2, skid=True))


def _cases() -> Sequence[Case]:
    def case(name: str, shape: tuple[int, ...], lanes: int, formats: str, frames: int = 4) -> Case:
        a = Arithmetic.read(formats, NAMES)
        shapes = dict.fromkeys(("data_in_0", "data_in_1", "data_out_0"), shape)
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
    ]


def _observe(module: nn.Module | None, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    return {"state": linear_recurrence(inputs[0], inputs[1])}


OPS = (
    OpDef(
        name="linear_recurrence",
        mase_type="builtin_func",
        functions=(linear_recurrence,),
        golden=golden,
        formats=NAMES,
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
        ),
    ),
)
