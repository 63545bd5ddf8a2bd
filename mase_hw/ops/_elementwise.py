"""What all ops of one input and one output of equal shape share: parameters, ports, timing."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.opdef import Arithmetic, Case, Latency, Request
from mase_hw.ops._tensors import CAST_SLICE, format_of, lanes_within, stream_of, tensor_params
from mase_hw.steps import Steps
from mase_hw.streams import Stream

FILES = ("lib/elementwise_check.sv", *CAST_SLICE)
"""Files of an elementwise module that ends in one cast and a register."""


@dataclass(frozen=True)
class ElementwiseParams:
    """Parameters of an elementwise module: both tensors and the cast modes."""

    DATA_IN_0_PRECISION_0: int
    DATA_IN_0_PRECISION_1: int
    DATA_IN_0_SIGNED: int
    DATA_IN_0_TENSOR_SIZE_DIM_0: int
    DATA_IN_0_TENSOR_SIZE_DIM_1: int
    DATA_IN_0_TENSOR_SIZE_DIM_2: int
    DATA_IN_0_PARALLELISM_DIM_0: int
    DATA_IN_0_PARALLELISM_DIM_1: int
    DATA_IN_0_PARALLELISM_DIM_2: int
    DATA_OUT_0_PRECISION_0: int
    DATA_OUT_0_PRECISION_1: int
    DATA_OUT_0_SIGNED: int
    DATA_OUT_0_TENSOR_SIZE_DIM_0: int
    DATA_OUT_0_TENSOR_SIZE_DIM_1: int
    DATA_OUT_0_TENSOR_SIZE_DIM_2: int
    DATA_OUT_0_PARALLELISM_DIM_0: int
    DATA_OUT_0_PARALLELISM_DIM_1: int
    DATA_OUT_0_PARALLELISM_DIM_2: int
    ROUNDING: int
    OVERFLOW: int


def build(r: Request) -> ElementwiseParams:
    """Parameters for a node; the output has the lanes of the input."""
    formats, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"]
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    return ElementwiseParams(
        **tensor_params("DATA_IN_0", shape, formats["data_in_0"], (lanes,)),
        **tensor_params("DATA_OUT_0", shape, formats["data_out_0"], (lanes,)),
        ROUNDING=int(r.arithmetic.rounding),
        OVERFLOW=int(r.arithmetic.overflow),
    )


def ports(p: ElementwiseParams) -> tuple[Stream, ...]:
    """One stream in, one out."""
    return (stream_of(p, "DATA_IN_0", "in"), stream_of(p, "DATA_OUT_0", "out"))


def arithmetic(p: ElementwiseParams) -> Arithmetic:
    """Both formats and the cast modes."""
    formats = {"data_in_0": format_of(p, "DATA_IN_0"), "data_out_0": format_of(p, "DATA_OUT_0")}
    return Arithmetic(formats, Rounding(p.ROUNDING), Overflow(p.OVERFLOW))


def registered(p: ElementwiseParams) -> Latency:
    """One register, one beat per cycle."""
    beats = stream_of(p, "DATA_IN_0", "in").beats
    return Latency.from_steps(Steps.registered(beats))


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
