"""What a simulation of a design showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mase_hw.simulate.result import SimResult
from mase_hw.simulate.timing import Timing
from mase_hw.streams import Stream

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Simulation:
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
    predicted: dict[str, Any]
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

    def report(self) -> str:
        """A text for people."""
        lines = [self.result.report()]
        for name, value in (("fill", self.fill), ("interval", self.interval)):
            shown = "nothing" if value is None else f"{value} cycles"
            bound = "" if self.predicted["exact"] or name == "interval" else "at least "
            lines.append(f"  {name}: predicted {bound}{self.predicted[name]} cycles, measured {shown}")
        return "\n".join(lines)
