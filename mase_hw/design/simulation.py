"""What a simulation of a design showed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mase_hw.hardware.manifest import Manifest
from mase_hw.host.documents import Json
from mase_hw.host.shown import Shown
from mase_hw.simulate.exercise import Exercise
from mase_hw.simulate.result import SimResult, Timing
from mase_hw.streams import Stream
from mase_hw.vectors.casts import CastUse

if TYPE_CHECKING:
    from torch import Tensor

if TYPE_CHECKING:
    from mase_hw.emit.reference import Inputs
    from mase_hw.ir import MaseGraph


@dataclass(frozen=True, repr=False)
class Simulation(Shown):
    """What a simulation of a design showed.

    Args:
        result: The engine's verdict, with counts and cycles.
        frames: Frames compared.
        predicted: Timing from the latency model: ``fill`` and ``interval`` in cycles.
        timings: Measured from the first input to every output that moved, by port name.
        streams: The ports of the design by name.
        paths: Where each port's tensor is in what the model takes or returns.
        drained: Measured at every input that nothing reads, by port name.
    """

    result: SimResult
    frames: int
    predicted: Json
    timings: dict[str, Timing]
    streams: Mapping[str, Stream] = field(repr=False)
    paths: Mapping[str, str] = field(default_factory=dict, repr=False)
    drained: Mapping[str, Timing] = field(default_factory=dict, repr=False)

    @property
    def passed(self) -> bool:
        """Whether every bit was equal."""
        return self.result.passed

    @cached_property
    def outputs(self) -> dict[str, Tensor]:
        """What the hardware computed, as floats of shape ``(frames * first dimension, ...)``, by port name."""
        import torch  # only here: it takes longer to load than a simulation to start

        from mase_hw.numerics import dequantize

        outputs = {}
        for name, beats in self.result.outputs.items():
            stream = self.streams[name]
            whole = beats[: len(beats) // stream.beats * stream.beats]
            values = dequantize(torch.from_numpy(stream.unpack(whole).astype(np.float64)), stream.fmt).double()
            outputs[name] = values.reshape(-1, *stream.tensor_shape[1:]) if stream.tensor_shape else values
        return outputs

    @property
    def results(self) -> dict[str, Tensor]:
        """The same by where they are in what the model returns: ``pair.1`` is ``result["pair"][1]``."""
        return {self.paths.get(name, name): value for name, value in self.outputs.items()}

    @property
    def fill(self) -> int | None:
        """Measured cycles from the first input beat accepted to the first beat of the first output valid."""
        first = next(iter(self.result.outputs), "")
        return self.timings[first].fill if first in self.timings else None

    @property
    def interval(self) -> int | None:
        """Measured cycles per frame in steady state; None for a single frame.

        That of the slowest output, or of an input that nothing reads, if its frames take longer.
        """
        found = [t.interval for t in (*self.timings.values(), *self.drained.values()) if t.interval is not None]
        return max(found) if found else None

    @property
    def output(self) -> Tensor:
        """The first output."""
        return next(iter(self.outputs.values()))

    def __str__(self) -> str:
        return self.report()

    def headline(self) -> str:
        """The verdict."""
        return self.report().partition("\n")[0]

    def text(self) -> str:
        """The same as :meth:`report`."""
        return self.report()

    def report(self) -> str:
        """A text for people."""
        lines = [self.result.report()]
        for name, value in (("fill", self.fill), ("interval", self.interval)):
            shown = "nothing" if value is None else f"{value} cycles"
            bound = "" if self.predicted["exact"] or name == "interval" else "at least "
            lines.append(f"  {name}: predicted {bound}{self.predicted[name]} cycles, measured {shown}")
        return "\n".join(lines)


FRAMES = 256
"""Most frames of a run over which casts are counted."""


def with_casts(result: SimResult, manifest: Manifest, graph: MaseGraph | None, inputs: Inputs | None) -> SimResult:
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
        vectors = manifest.vectors
        if vectors is not None and vectors.casts:
            found = {node: CastUse.from_json(use) for node, use in vectors.casts.items()}
            frames, said = int(vectors.faults["frames"]), msgspec.to_builtins(vectors)
            exercise = dataclasses.replace(exercise, casts=found, frames=frames, vectors=said)
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
