"""What a failed simulation of a design still has to say: waves, a diagnosis, or why there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mase_hw.design.attempts import Attempts, alone
from mase_hw.design.played import Played
from mase_hw.errors import MaseHwError, ResultsError, SimulationError
from mase_hw.simulate.diagnose.failure import Replay, explainable, replay
from mase_hw.simulate.result import SimResult

NO_MODEL = (
    "no diagnosis was possible, because a bundle has no model to compare its edges with: name it, as in "
    "`mase-hw sim BUNDLE --model FILE.py:FUNCTION --config FILE.toml`, or simulate what mase_hw.compile returns"
)


def explained(
    design: Any,
    attempts: Attempts,
    played: Played,
    result: SimResult,
    inputs: Any,
    *,
    changed: Sequence[str],
    diagnose: bool,
) -> SimResult:
    """The same failure with what more runs show, and what it cannot be told.

    Args:
        design: What was simulated; :class:`mase_hw.simulate.diagnose.diagnose.Diagnosable`.
        attempts: The runs.
        played: What was played.
        result: How it failed.
        inputs: What the model was given; None for the bundle's own vectors.
        changed: Files of the bundle that are not what was emitted.
        diagnose: Whether to run again with probes.
    """
    failure, asked, tell = result.failure, attempts.asked, attempts.tell
    assert failure is not None  # the caller looked
    again = replay(
        result,
        design.streams,
        played.stimulus,
        played.beats_in,
        played.beats_out,
        seed=asked.seed,
        reach=int(design.timing["last"]) + int(design.timing["interval"]),
        jobs=asked.jobs,
    )
    if changed:
        failure.got = f"files that are not what was emitted: {', '.join(changed)}\n    {failure.got or ''}".rstrip()
    if asked.waves is None and not isinstance(failure, ResultsError):
        tell(f"{type(failure).__name__}: running again with waves")
        result = _with_waves(attempts, again, result, failure)
    if not diagnose or asked.intervenes or not explainable(result):
        return result
    if design.graph is None:
        failure.remedy = NO_MODEL if failure.remedy is None else f"{failure.remedy}; {NO_MODEL}"
        return result
    tell(f"{type(failure).__name__}: running again with probes on every edge")
    return _with_probes(design, attempts, again, result, inputs)


def _with_waves(attempts: Attempts, again: Replay, result: SimResult, failure: SimulationError) -> SimResult:
    """With waves of what led to the failure; a run that cannot write them hides nothing."""
    try:
        traced = attempts.again_with_waves(again, failure)
    except (MaseHwError, OSError) as problem:
        failure.add_note(f"no waves, the run with them failed: {problem}")
        return result
    if traced.failure is None:
        failure.add_note("the same run passed with waves: the failure does not repeat itself")
    return dataclasses.replace(result, waves=traced.waves)


def _with_probes(design: Any, attempts: Attempts, again: Replay, result: SimResult, inputs: Any) -> SimResult:
    """With a diagnosis."""
    from mase_hw.simulate.diagnose.explain import explain

    asked = attempts.asked
    with alone(asked.work):
        return explain(
            design,
            result,
            # A share is played from its mantissas, which is what its inputs became.
            None if again.part else inputs,
            again.stimulus,
            seed=again.seed,
            stalls=asked.stalls,
            work_dir=asked.work,
            reset_at=asked.reset_at,
            frames=again.frames,
            first=again.first,
            inner=attempts.inner,
            **attempts.waits,
        )
