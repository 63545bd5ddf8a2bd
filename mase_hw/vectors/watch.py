"""Watching the casts of a model: counting what frames exercise, and simulating casts that are wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.nn.streaming import streaming
from mase_hw.numerics import as_carrier, cast
from mase_hw.numerics.grid import rounded
from mase_hw.numerics.integer_cast import observed_cast
from mase_hw.vectors.casts import CastUse
from mase_hw.vectors.playback import Playback, at_a_time, cut, frames_of, playbacks, stackable

_FAR = 64
"""Shifts beyond this leave nothing of a mantissa of a float carrier, or take it out of every format."""
_WIDEST = 62
"""Formats of more bits are not made to wrap."""
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

    def saw(
        self, mantissa: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow, result: Tensor
    ) -> bool:
        """Count all of it in a float carrier, in which shifts and fractions are exact; integers come step by step."""
        if not mantissa.dtype.is_floating_point:
            return False
        # Further shifts say nothing new, see mase_hw.numerics.
        x = mantissa * math.ldexp(1.0, -max(-_FAR, min(_FAR, shift))) if shift else mantissa
        if shift > 0 and rounding in _HALVES:
            ties = x.frac().abs_() == 0.5
            above = _count(ties & (x > 0))
            self._rounds, self._ties = True, (above, _count(ties) - above)
        x = rounded(x, rounding, fmt.odd_ties) if shift > 0 else x
        least, most = (float(end) for end in torch.aminmax(x)) if x.numel() else (0.0, 0.0)
        below, over, under = (
            _count(x < 0) if least < 0 else 0,
            _count(x > fmt.max_mantissa) if most > fmt.max_mantissa else 0,
            _count(x < fmt.min_mantissa) if least < fmt.min_mantissa else 0,
        )
        self._note(result.numel(), below, over, under, fmt)
        return True

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
        self._note(result.numel(), _count(low | (~high & (value < 0))), _count(high), _count(low), fmt)
        return result

    def _note(self, count: int, below: int, over: int, under: int, fmt: FixedFormat) -> None:
        above_zero, below_zero = self._ties
        if not fmt.signed:
            below, below_zero = 0, 0  # all of them are too low, whatever they are rounded to
        self._uses.append(CastUse(count, below, over, under, above_zero, below_zero, self._rounds, self._grows))
        self._ties, self._rounds = (0, 0), False

    def use(self) -> CastUse:
        """All of it."""
        return CastUse.total(self._uses)


TIES_POSITIVE, TIES_NEGATIVE, RANGE = "ties above zero", "ties below zero", "range"
CAST_FAULTS = (TIES_POSITIVE, TIES_NEGATIVE, RANGE)
"""Ties of one sign go to the other neighbour; what does not fit wraps instead of being saturated."""


class FaultyCast:
    """Casts with one fault.

    Args:
        kinds: One of :data:`CAST_FAULTS`; or, if there are several, one for each index of the first dimension, where
            anything else stands for none.
    """

    def __init__(self, *kinds: str) -> None:
        self._of = {kind: torch.tensor([each == kind for each in kinds]) for kind in CAST_FAULTS}

    def saw(
        self, mantissa: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow, result: Tensor
    ) -> bool:
        """Everything is done step by step."""
        return False

    def rounded(self, value: Tensor, floor: Tensor, tie: Tensor, rounding: Rounding) -> Tensor:
        """Round ties the other way."""
        if rounding not in _HALVES:
            return value
        wrong = tie & torch.where(floor < 0, self._has(TIES_NEGATIVE, value), self._has(TIES_POSITIVE, value))
        return torch.where(wrong, 2 * floor + 1 - value, value)

    def fitted(
        self, result: Tensor, value: Tensor, low: Tensor, high: Tensor, fmt: FixedFormat, overflow: Overflow
    ) -> Tensor:
        """Wrap what should be saturated."""
        if overflow is not Overflow.SATURATE or fmt.width > _WIDEST:
            return result
        beyond = (low | high) & self._has(RANGE, result)
        if not bool(beyond.any()):
            return result
        wrapped = value & ((1 << fmt.width) - 1)
        wrapped = torch.where(wrapped > fmt.mantissas.max_mantissa, wrapped - (1 << fmt.width), wrapped)
        return torch.where(beyond, wrapped, result)

    def _has(self, kind: str, like: Tensor) -> Tensor:
        """Where a tensor has a kind of fault."""
        where = self._of[kind].to(like.device)
        return where.reshape(-1, *[1] * (like.dim() - 1)) if len(where) > 1 else where.squeeze(0)


@dataclass(frozen=True)
class SeenCast:
    """One cast as it happened; the arguments of :func:`mase_hw.numerics.cast` with a shift, and its result."""

    mantissa: Tensor
    shift: int
    fmt: FixedFormat
    rounding: Rounding
    overflow: Overflow
    result: Tensor

    def again(self, kind: str) -> Tensor:
        """The result with one of :data:`CAST_FAULTS`."""
        if self.mantissa.dtype.is_floating_point:
            return as_carrier(self._in_floats(kind), self.result.dtype)
        wrong = FaultyCast(kind)
        found = observed_cast(wrong, self.mantissa.long(), self.shift, self.fmt, self.rounding, self.overflow)
        return as_carrier(found, self.result.dtype)

    def _in_floats(self, kind: str) -> Tensor:
        """The same where halves and powers of two are exact."""
        point = self.fmt.frac_width
        if kind == RANGE:
            if self.overflow is not Overflow.SATURATE or self.fmt.width > _WIDEST:
                return self.result
            return cast(self.mantissa, self.shift + point, self.fmt.mantissas, self.rounding, Overflow.WRAP)
        if self.shift <= 0 or self.rounding not in _HALVES:
            return self.result
        # In double precision, as there may be a bit more below the point than above it.
        x = self.mantissa.double() * math.ldexp(1.0, -min(self.shift, _FAR))
        floor = x.floor()
        wrong = (x - floor == 0.5) & (floor < 0 if kind == TIES_NEGATIVE else floor >= 0)
        near = rounded(x, self.rounding, self.fmt.odd_ties)
        near = torch.where(wrong, 2 * floor + 1 - near, near)
        return cast(near, point, self.fmt, self.rounding, self.overflow)

    def is_all_of(self, value: Tensor) -> bool:
        """Whether a tensor is the result itself, in its order, whatever its shape."""
        same = value.data_ptr() == self.result.data_ptr() and value.numel() == self.result.numel()
        return same and value.is_contiguous() and self.result.is_contiguous()


class CastRecorder:
    """Keeps the casts that happen, as they are."""

    def __init__(self) -> None:
        self.seen: list[SeenCast] = []
        self.shown = 0
        """Roundings before a cast, which are not kept."""

    def saw(
        self, mantissa: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow, result: Tensor
    ) -> bool:
        """Keep it."""
        self.seen.append(SeenCast(mantissa, shift, fmt, rounding, overflow, result))
        return True

    def rounded(self, value: Tensor, floor: Tensor, tie: Tensor, rounding: Rounding) -> Tensor:
        """Count it: an op rounds by itself."""
        self.shown += 1
        return value

    def fitted(
        self, result: Tensor, value: Tensor, low: Tensor, high: Tensor, fmt: FixedFormat, overflow: Overflow
    ) -> Tensor:
        """Nothing is shown step by step."""
        return result

    def only(self, result: Tensor) -> SeenCast | None:
        """The one cast whose result this is; None if the op did anything else with it."""
        if len(self.seen) != 1 or self.shown or not self.seen[0].is_all_of(result):
            return None
        return self.seen[0]


def _count(where: Tensor) -> int:
    return int(torch.count_nonzero(where))


def count_casts(
    graph: MaseGraph, inputs: Mapping[str, Tensor], stacks: bool | None = None, kept: list[Playback] | None = None
) -> dict[str, CastUse]:
    """What frames exercise of the casts of a quantised model.

    Args:
        graph: The quantised graph.
        inputs: Frames by name of the model's input, along the first dimension.
        stacks: What :func:`mase_hw.vectors.playback.stackable` said, if it was asked.
        kept: Takes what was simulated, as much of it as fits into memory, but of no stream.

    Returns:
        By node, in order; only nodes that cast.
    """
    counters: dict[str, CastCounter] = {}

    def watch(node: fx.Node) -> CastCounter:
        return counters.setdefault(node.name, CastCounter(_grows(graph, node)))

    stacks, step = stackable(graph, inputs) if stacks is None else stacks, at_a_time(graph)
    step = frames_of(graph, inputs) if streaming(graph.model) else step
    for begin in range(0, frames_of(graph, inputs), step):
        parts = playbacks(graph, cut(graph, inputs, begin, begin + step), watch, stacks=stacks)
        if kept is not None and not begin and not streaming(graph.model):
            kept += parts
    return {name: use for name, counter in counters.items() if (use := counter.use()).values}


def _grows(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether a node may leave its range: it has parameters or several inputs, or a narrower result than input."""
    module = graph.model.get_submodule(str(node.target))
    assert isinstance(module, Quantized)  # nobody watches others
    formats = module.arithmetic.formats
    return len(formats) > 2 or formats["data_in_0"].max_value > formats["data_out_0"].max_value
