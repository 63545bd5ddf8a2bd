"""Watching the casts of a model: counting what frames exercise, and simulating casts that are wrong."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, fx

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.vectors.casts import CastUse
from mase_hw.vectors.playback import at_a_time, cut, frames_of, playbacks, stackable

_HALVES = (Rounding.HALF_EVEN, Rounding.HALF_UP, Rounding.HALF_AWAY)


class CastCounter:
    """Counts what the casts of one node meet.

    Args:
        grows: See :class:`CastUse`.
    """

    def __init__(self, grows: bool) -> None:
        self._grows = grows
        self._uses: list[CastUse] = []
        self._ties = (0, 0)
        self._rounds = False

    def rounded(self, value: Tensor, floor: Tensor, tie: Tensor, rounding: Rounding) -> Tensor:
        """Count ties."""
        if rounding in _HALVES:
            self._rounds = True
            self._ties = (int((tie & (floor >= 0)).sum()), int((tie & (floor < 0)).sum()))
        return value

    def fitted(
        self, result: Tensor, value: Tensor, low: Tensor, high: Tensor, fmt: FixedFormat, overflow: Overflow
    ) -> Tensor:
        """Count what does not fit."""
        negative = low | (~high & (value < 0))
        below, over, under = (int(t.sum()) for t in (negative, high, low))
        above_zero, below_zero = self._ties
        if not fmt.signed:
            below, below_zero = 0, 0  # all of them are too low, whatever they are rounded to
        self._uses.append(
            CastUse(result.numel(), below, over, under, above_zero, below_zero, self._rounds, self._grows)
        )
        self._ties, self._rounds = (0, 0), False
        return result

    def use(self) -> CastUse:
        """All of it."""
        return CastUse.total(self._uses)


TIES_POSITIVE, TIES_NEGATIVE, RANGE = "ties above zero", "ties below zero", "range"
CAST_FAULTS = (TIES_POSITIVE, TIES_NEGATIVE, RANGE)
"""Ties of one sign go to the other neighbour; what does not fit wraps instead of being saturated."""


class FaultyCast:
    """Casts with one fault.

    Args:
        kind: One of :data:`CAST_FAULTS`.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def rounded(self, value: Tensor, floor: Tensor, tie: Tensor, rounding: Rounding) -> Tensor:
        """Round ties the other way."""
        if self.kind == RANGE or rounding not in _HALVES:
            return value
        wrong = tie & (floor < 0 if self.kind == TIES_NEGATIVE else floor >= 0)
        return torch.where(wrong, 2 * floor + 1 - value, value)

    def fitted(
        self, result: Tensor, value: Tensor, low: Tensor, high: Tensor, fmt: FixedFormat, overflow: Overflow
    ) -> Tensor:
        """Wrap what should be saturated."""
        if self.kind != RANGE or overflow is not Overflow.SATURATE or fmt.width > 62:
            return result
        wrapped = value & ((1 << fmt.width) - 1)
        wrapped = torch.where(wrapped > fmt.max_mantissa, wrapped - (1 << fmt.width), wrapped)
        return torch.where(low | high, wrapped, result)


def count_casts(graph: MaseGraph, inputs: Mapping[str, Tensor], stacks: bool | None = None) -> dict[str, CastUse]:
    """What frames exercise of the casts of a quantised model.

    Args:
        graph: The quantised graph.
        inputs: Frames by name of the model's input, along the first dimension.
        stacks: What :func:`mase_hw.vectors.playback.stackable` said, if it was asked.

    Returns:
        By node, in order; only nodes that cast.
    """
    counters: dict[str, CastCounter] = {}

    def watch(node: fx.Node) -> CastCounter:
        return counters.setdefault(node.name, CastCounter(_grows(graph, node)))

    stacks, step = stackable(graph, inputs) if stacks is None else stacks, at_a_time(graph)
    for begin in range(0, frames_of(graph, inputs), step):
        playbacks(graph, cut(graph, inputs, begin, begin + step), watch, stacks=stacks)
    return {name: use for name, counter in counters.items() if (use := counter.use()).values}


def _grows(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether a node may leave its range: it has parameters or several inputs, or a narrower result than input."""
    module = graph.model.get_submodule(str(node.target))
    assert isinstance(module, Quantized)  # nobody watches others
    formats = module.arithmetic.formats
    return len(formats) > 2 or formats["data_in_0"].max_value > formats["data_out_0"].max_value
