"""What a failed simulation asks for: whether it can be explained, how much must be played again, where to look."""

from __future__ import annotations

from typing import Any

from mase_hw.errors import HangError, MismatchError
from mase_hw.flow.result import SimResult

WINDOW = 64
"""Cycles of waves before and after what is wrong."""


def can_explain(design: Any, result: SimResult) -> bool:
    """Whether probes can say more: the bits or the handshakes are wrong, and there is a model to compare with."""
    return design.graph is not None and isinstance(result.failure, MismatchError | HangError)


def frames_needed(result: SimResult) -> int | None:
    """Frames that are enough to see the failure again; None for all."""
    first = result.first_mismatch
    if first is not None:
        return first.frame + 1
    if not isinstance(result.failure, HangError) or not result.ports:
        return None
    # Beyond what moved, two frames: one that is stuck, one that pushes.
    return max(-(-port.beats // port.stream.frame_beats) for port in result.ports.values()) + 2


def failure_window(result: SimResult, reach: int) -> tuple[int, int] | None:
    """The cycles in which a failure came about: up to its first sign and ``WINDOW`` more; None if it has no place.

    Args:
        result: How the run failed.
        reach: Cycles that a beat is under way in the design.
    """
    first = result.first_mismatch
    if first is not None:
        sign = int(result.presented[first.stream][first.beat_index])
    else:
        sign = max((int(cycles[-1]) for cycles in result.accepted.values() if len(cycles)), default=-1)
    return (max(0, sign - reach - WINDOW), sign + WINDOW) if sign >= 0 else None
