"""The module of the norms: its parameters, its streams, and when it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mase_hw.layouts import Layout
from mase_hw.opdef import Latency
from mase_hw.ops._tensors import format_of
from mase_hw.steps import Steps
from mase_hw.streams import Stream, ceil_div

SCALE_LATENCY, APPLY_LATENCY = 12, 5


@dataclass(frozen=True)
class NormParams:
    """Parameters of ``fixed_normalize``: dimension 0 channels (or the row), 1 positions, 2 rows."""

    DATA_IN_0_PRECISION_0: int
    DATA_IN_0_PRECISION_1: int
    DATA_IN_0_SIGNED: int
    DATA_IN_0_TENSOR_SIZE_DIM_0: int
    DATA_IN_0_TENSOR_SIZE_DIM_1: int
    DATA_IN_0_TENSOR_SIZE_DIM_2: int
    DATA_IN_0_PARALLELISM_DIM_0: int
    DATA_IN_0_PARALLELISM_DIM_1: int
    DATA_IN_0_PARALLELISM_DIM_2: int
    HAS_WEIGHT: int
    WEIGHT_PRECISION_0: int
    WEIGHT_PRECISION_1: int
    WEIGHT_SIGNED: int
    WEIGHT_TENSOR_SIZE_DIM_0: int
    WEIGHT_PARALLELISM_DIM_0: int
    HAS_BIAS: int
    BIAS_PRECISION_0: int
    BIAS_PRECISION_1: int
    BIAS_SIGNED: int
    BIAS_TENSOR_SIZE_DIM_0: int
    BIAS_PARALLELISM_DIM_0: int
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
    GROUPS: int
    CENTRE: int
    EPSILON: int
    EPSILON_SHIFT: int
    RADICAND_WIDTH: int
    RADICAND_FRAC: int
    SCALE_FRAC: int
    DROP: int
    SEGMENTS: int
    STEP_WIDTH: int
    COEFFICIENT_FRAC: int
    C0_WIDTH: int
    C1_WIDTH: int
    C2_WIDTH: int

    @property
    def units(self) -> int:
        """Groups in a beat."""
        share = self.DATA_IN_0_TENSOR_SIZE_DIM_0 // self.GROUPS
        return 1 if self.GROUPS == 1 else max(1, self.DATA_IN_0_PARALLELISM_DIM_0 // share)

    @property
    def tiles(self) -> int:
        """Beats of a position."""
        return ceil_div(self.DATA_IN_0_TENSOR_SIZE_DIM_0, self.DATA_IN_0_PARALLELISM_DIM_0)

    @property
    def turns(self) -> int:
        """Groups that follow each other in a position."""
        return self.GROUPS if self.units == 1 else self.tiles


def ports_of(images: bool) -> Callable[[NormParams], tuple[Stream, ...]]:
    """The streams; those of images ``(N, C, positions)`` run channels-last."""

    def data(p: NormParams, prefix: str, direction: Any) -> Stream:
        channels, positions, rows = (getattr(p, f"{prefix}_TENSOR_SIZE_DIM_{i}") for i in range(3))
        layout = Layout.channels_last((rows, channels, positions)) if images else None
        lanes = (getattr(p, f"{prefix}_PARALLELISM_DIM_0"), 1, 1)
        shape = (rows, positions, channels)
        return Stream(prefix.lower(), direction, shape, format_of(p, prefix), lanes, layout=layout)

    def ports(p: NormParams) -> tuple[Stream, ...]:
        repeat = p.DATA_IN_0_TENSOR_SIZE_DIM_1 * p.DATA_IN_0_TENSOR_SIZE_DIM_2
        lanes, size = (p.DATA_IN_0_PARALLELISM_DIM_0,), (p.DATA_IN_0_TENSOR_SIZE_DIM_0,)
        parameters = [
            Stream(name.lower(), "in", size, format_of(p, name), lanes, repeat=repeat)
            for name in ("WEIGHT", "BIAS")
            if getattr(p, f"HAS_{name}")
        ]
        return (data(p, "DATA_IN_0", "in"), *parameters, data(p, "DATA_OUT_0", "out"))

    return ports


def latency(p: NormParams) -> Latency:
    """A FIFO that holds a frame of rows until their scales are known, then the registers of the products."""
    rows, positions, turns = p.DATA_IN_0_TENSOR_SIZE_DIM_2, p.DATA_IN_0_TENSOR_SIZE_DIM_1, p.turns
    inner = p.tiles // turns
    note = 3 + (p.DATA_IN_0_PARALLELISM_DIM_0 // p.units - 1).bit_length() + SCALE_LATENCY
    row, position, turn, _ = (axis.reshape(-1) for axis in np.indices((rows, positions, turns, inner)))
    length = positions * turns * inner
    first = (positions - 1) * turns * inner + (turn + 1) * inner
    queue = Steps(
        needs=(row * length + np.where(position == 0, first, length),),
        frees=(np.arange(1, rows * length + 1),),
        emits=np.arange(1, rows * length + 1),
        delay=(note,),
        pipe=0,
        room=((positions - 1) * turns * inner + inner + note,),
        queue=0,
    )
    return Latency.from_steps(queue, Steps.registered(rows * length, pipe=APPLY_LATENCY))


def tied(p: NormParams) -> dict[str, str]:
    """Ports of the parameters that a node does not have."""
    absent = [name for name in ("weight", "bias") if not getattr(p, f"HAS_{name.upper()}")]
    return {k: v for n in absent for k, v in ((n, "'0"), (f"{n}_valid", "1'b0"), (f"{n}_ready", ""))}
