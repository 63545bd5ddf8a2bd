"""Completes what a simulation exercised with what only the model knows: ties met, results that did not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mase_hw.simulate.exercise.record import Exercise
from mase_hw.simulate.result import SimResult
from mase_hw.vectors.casts import CastUse

if TYPE_CHECKING:
    from mase_hw.emit.reference import Inputs
    from mase_hw.ir import MaseGraph

FRAMES = 256
"""Most frames of a run over which casts are counted."""


def with_casts(
    result: SimResult, manifest: Mapping[str, Any], graph: MaseGraph | None, inputs: Inputs | None
) -> SimResult:
    """The same result with what its frames exercised of the casts, if it says what was exercised at all.

    Args:
        result: Of the simulator.
        manifest: Of the bundle; it says so of the bundle's own vectors, and what faults these show.
        graph: The model, if there is one.
        inputs: What was given; None for the bundle's own vectors.
    """
    exercise = result.exercise
    if exercise is None:
        return result
    if inputs is None:
        vectors = manifest.get("vectors", {})
        if "casts" in vectors:
            found = {node: CastUse.from_json(use) for node, use in vectors["casts"].items()}
            frames = int(vectors["faults"]["frames"])
            exercise = dataclasses.replace(exercise, casts=found, frames=frames, vectors=vectors)
    elif graph is not None:
        exercise = _counted(exercise, graph, inputs)
    return dataclasses.replace(result, exercise=exercise)


def _counted(exercise: Exercise, graph: MaseGraph, inputs: Inputs) -> Exercise:
    from mase_hw.emit.reference import Reference
    from mase_hw.vectors.choose import frames_to_try, stacked
    from mase_hw.vectors.playback import cut, frames_of
    from mase_hw.vectors.watch import count_casts

    named = Reference(graph).named(inputs)
    stacks = stacked(graph, named)
    frames = frames_to_try(graph, min(FRAMES, frames_of(graph, named)), stacks)
    return dataclasses.replace(exercise, casts=count_casts(graph, cut(graph, named, 0, frames), stacks), frames=frames)
