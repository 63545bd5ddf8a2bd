"""The module of the norms: its parameters, its streams, and when it moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from mase_hw.hardware.params import Cast, Params, Segments, Tensor3, Vector
from mase_hw.layouts import Layout
from mase_hw.opdef import Latency
from mase_hw.steps import Steps

SCALE_LATENCY, APPLY_LATENCY = 12, 5


class NormParams(Params, frozen=True):
    """Parameters of ``fixed_normalize``: dimension 0 channels (or the row), 1 positions, 2 rows."""

    data_in_0: Tensor3
    has_weight: bool
    weight: Vector
    has_bias: bool
    bias: Vector
    data_out_0: Tensor3
    cast: Cast
    groups: int
    centre: bool
    epsilon: int
    epsilon_shift: int
    radicand_width: int
    radicand_frac: int
    scale_frac: int
    drop: int
    segments: Segments

    @property
    def units(self) -> int:
        """Groups in a beat."""
        share = self.data_in_0.size[0] // self.groups
        return 1 if self.groups == 1 else max(1, self.data_in_0.lanes[0] // share)

    @property
    def tiles(self) -> int:
        """Beats of a position."""
        return self.data_in_0.tiles[0]

    @property
    def turns(self) -> int:
        """Groups that follow each other in a position."""
        return self.groups if self.units == 1 else self.tiles

    def repetitions(self) -> dict[str, int]:
        """The parameters come once for every position."""
        return dict.fromkeys(("weight", "bias"), self.data_in_0.size[1] * self.data_in_0.size[2])

    def attributes(self) -> dict[str, Any]:
        """The size of a row."""
        return {"normalized_shape": (self.data_in_0.size[0],)}


class GroupNormParams(NormParams, frozen=True):
    """The same over groups of the channels of images."""

    def layout(self, name: str) -> Layout | None:
        """Channels last."""
        if not name.startswith("data_"):
            return None
        images, positions, channels = getattr(self, name).shape
        return Layout.channels_last((images, channels, positions))

    def attributes(self) -> dict[str, Any]:
        """The number of groups."""
        return {"num_groups": self.groups}


def latency(p: NormParams) -> Latency:
    """A FIFO that holds a frame of rows until their scales are known, then the registers of the products."""
    rows, positions, turns = p.data_in_0.size[2], p.data_in_0.size[1], p.turns
    inner = p.tiles // turns
    note = 3 + (p.data_in_0.lanes[0] // p.units - 1).bit_length() + SCALE_LATENCY
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
