"""What all ops of one input and one output of equal shape share: parameters, ports, timing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Tensor3, port
from mase_hw.opdef import Arithmetic, Case, Latency, Request
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps


class ElementwiseParams(Params, frozen=True):
    """Parameters of an elementwise module: both tensors and the cast modes."""

    data_in_0: Tensor3
    data_out_0: Tensor3
    cast: Cast


def build(r: Request) -> ElementwiseParams:
    """Parameters for a node; the output has the lanes of the input."""
    formats, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"]
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    return ElementwiseParams(
        data_in_0=port(shape, formats["data_in_0"], lanes),
        data_out_0=port(shape, formats["data_out_0"], lanes),
        cast=r.arithmetic.modes,
    )


def registered(p: ElementwiseParams) -> Latency:
    """One register, one beat per cycle."""
    return Latency.from_steps(Steps.registered(p.data_in_0.beats))


def case(
    name: str,
    shape: Sequence[int],
    lanes: int,
    formats: str,
    *,
    build: Callable[[Request], Any] = build,
    attributes: Attributes | None = None,
    frames: int = 0,
) -> Case:
    """A catalogue case of an op with one input, from formats and modes as :meth:`Arithmetic.read` takes them.

    Every input code is fed if ``frames``, or one if none are given, hold as many; else six frames of random ones.
    """
    a = Arithmetic.read(formats, attributes=attributes)
    request = Request(name, a, {"data_in_0": tuple(shape)}, {"data_in_0": (lanes,)})
    every = math.prod(shape) * max(frames, 1) >= 1 << a.formats["data_in_0"].width
    return Case(name, build(request), frames or (1 if every else 6), every, a.attributes)
