"""The first edge of a design that differs from the quantised model, as text and as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from mase_hw.simulate.diagnose.inputs import InputValues
from mase_hw.simulate.result import Mismatch


@dataclass(frozen=True)
class Neighbour:
    """A beat near the first difference.

    Args:
        beat_index: Beat since the start of the run.
        expected: Mantissas of the reference, lane 0 first.
        found: Mantissas of the hardware.
    """

    beat_index: int
    expected: tuple[int, ...]
    found: tuple[int, ...]


@dataclass(frozen=True)
class Driver:
    """What drives a net.

    Args:
        module: SystemVerilog module; None for a port of the design.
        file: Its file in the bundle.
        memory: The memory file that it reads, in the bundle.
        line: Line of that file with the beat that differs, from 1.
    """

    module: str | None = None
    file: str | None = None
    memory: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.module is None:
            return "an input of the design"
        memory = f", which reads line {self.line} of {self.memory}" if self.memory else ""
        return f"module {self.module} in {self.file}{memory}"


@dataclass(frozen=True)
class Divergence:
    """The first edge, from the inputs on, that differs from the quantised model.

    Args:
        net: Signal name.
        node: Graph node whose values are wrong.
        parameter: The parameter, if a memory holds the wrong value.
        source: Instance that drives the net.
        sink: Instance that takes it.
        mismatch: Place and both values of the first difference, and every lane of its beat that differs.
        neighbours: The beats around it.
        cycle: Cycle in which the beat moved.
        driver: The module of ``source``, and where it is.
        inputs: What the element was computed from.
    """

    net: str
    node: str
    parameter: str | None
    source: str
    sink: str
    mismatch: Mismatch
    neighbours: tuple[Neighbour, ...]
    cycle: int
    driver: Driver = Driver()
    inputs: tuple[InputValues, ...] = ()

    def lines(self) -> list[str]:
        """The text."""
        what = f"parameter {self.parameter} of node {self.node}" if self.parameter else f"node {self.node}"
        way = f"on the way from {self.source} to {self.sink}, in cycle {self.cycle}"
        text = [f"first divergence: {what}, {way}", f"  {self.mismatch}", f"  {self.source} is {self.driver}"]
        text += [f"  every lane of this beat that differs: {self.mismatch.lanes_text()}"]
        text += [f"  it was computed from {values}" for values in self.inputs if values.elements]
        for beat in self.neighbours:
            mark = " " if beat.expected == beat.found else "*"
            text.append(f"  {mark} beat {beat.beat_index}: expected {list(beat.expected)}, found {list(beat.found)}")
        return text

    def to_json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return dataclasses.asdict(self) | {"mismatch": self.mismatch.to_json()}
