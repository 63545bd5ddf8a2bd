"""What all ops of one input and one output of equal shape share: parameters, ports, timing."""

from __future__ import annotations

from mase_hw.formats import FixedFormat, Overflow, Rounding
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
    shape: tuple[int, ...],
    lanes: int,
    data_in: FixedFormat,
    data_out: FixedFormat,
    rounding: Rounding = Rounding.HALF_EVEN,
    overflow: Overflow = Overflow.SATURATE,
    *,
    frames: int = 6,
    exhaustive: bool = False,
) -> Case:
    """A catalogue case of an elementwise op."""
    a = Arithmetic({"data_in_0": data_in, "data_out_0": data_out}, rounding, overflow)
    request = Request(name, a, {"data_in_0": shape}, {"data_in_0": (lanes,)})
    return Case(name, build(request), frames, exhaustive)
