"""What a diagnosis says, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mase_hw.errors import HangError
from mase_hw.host.documents import Json
from mase_hw.simulate.diagnose.inputs import InputValues
from mase_hw.simulate.result import Mismatch, SimResult


@dataclass(frozen=True)
class EdgeState:
    """A handshake inside the design at the end of a run.

    Args:
        net: Signal name of the data.
        source: Instance (or input port) that drives it.
        sink: Instance (or output port) that takes it.
        tensor: Node, or node and parameter, whose values it carries.
        valid: State of ``valid``.
        ready: State of ``ready``.
        beats: Beats moved.
        expected: Beats of the whole run; None for a memory, which repeats without end.
        last: Cycle of the last beat; None if none moved.
    """

    net: str
    source: str
    sink: str
    tensor: str
    valid: int
    ready: int
    beats: int
    expected: int | None
    last: int | None

    @property
    def complete(self) -> bool:
        """Whether all beats of the run have moved; never for a memory."""
        return self.expected is not None and self.beats >= self.expected

    def __str__(self) -> str:
        total = "" if self.expected is None else f"/{self.expected}"
        last = "never moved" if self.last is None else f"last in cycle {self.last}"
        return (
            f"{self.net}: {self.source} -> {self.sink} valid={self.valid} ready={self.ready} "
            f"{self.beats}{total} beats, {last}"
        )


@dataclass(frozen=True)
class FifoState:
    """A FIFO that balances reconvergent paths, at the end of a run.

    Args:
        instance: Its instance.
        before: The data input it stands before.
        depth: Beats it can hold.
        level: Beats it holds.
        most: Most beats it ever held.
    """

    instance: str
    before: str
    depth: int
    level: int
    most: int

    def __str__(self) -> str:
        full = ", full" if self.level == self.depth else ""
        return f"{self.instance} before {self.before}: {self.level} of {self.depth} beats{full}, {self.most} at most"


@dataclass(frozen=True)
class Wait:
    """An instance that cannot go on before another one does.

    Args:
        who: The waiting instance or port.
        whom: What it waits for.
        net: The edge between them.
        why: ``data`` (it could take a beat and none comes) or ``space`` (it offers a beat that is not taken).
    """

    who: str
    whom: str
    net: str
    why: str

    def __str__(self) -> str:
        return f"{self.who} waits for {self.why} from {self.whom} ({self.net})"


def waiting(states: Iterable[EdgeState]) -> list[Wait]:
    """Which instance waits for which, by the handshakes that are half done.

    Nobody waits for data where all beats have moved. A memory that offers its next word waits at all times, which says
    nothing. One that leaves a beat on one input while it lacks one on another waits for the other.
    """
    states = list(states)
    held = {edge.sink for edge in states if edge.valid and not edge.ready}
    found = []
    for edge in states:
        if edge.valid and not edge.ready and edge.expected is not None:
            found.append(Wait(edge.source, edge.sink, edge.net, "space"))
        elif not edge.valid and not edge.complete and (edge.ready or edge.sink in held):
            found.append(Wait(edge.sink, edge.source, edge.net, "data"))
    return found


@dataclass(frozen=True)
class Loss:
    """An instance that has taken everything, is not held up, and has not given everything.

    Args:
        who: The instance.
        net: The edge that is short.
        gave: Beats it moved.
        expected: Beats of the whole run.
        frame: Frame of the first one that is missing.
        beat: Its place within the frame.
    """

    who: str
    net: str
    gave: int
    expected: int
    frame: int
    beat: int

    def __str__(self) -> str:
        return (
            f"{self.who} took every beat of its inputs and gave {self.gave} of {self.expected} on {self.net}: "
            f"frame {self.frame}, beat {self.beat} is missing, or one before it whose values are the same"
        )


def losses(states: Sequence[EdgeState], frame_beats: Mapping[str, int]) -> list[Loss]:
    """The instances that lost beats, from the inputs on; not one that waits, for example for a word of a memory.

    Args:
        states: Every edge at the end of a run.
        frame_beats: Beats of a frame by name of the net.
    """
    found = []
    waiters = {wait.who for wait in waiting(states)}
    for edge in states:
        inputs = [other for other in states if other.sink == edge.source and other.expected is not None]
        if not inputs or not all(other.complete for other in inputs) or edge.expected is None:
            continue
        if edge.source in waiters:
            continue
        if edge.beats < edge.expected and not edge.valid:
            frame, beat = divmod(edge.beats, frame_beats[edge.net])
            found.append(Loss(edge.source, edge.net, edge.beats, edge.expected, frame, beat))
    return found


@dataclass(frozen=True)
class Gap:
    """A port of the design that shows something else than the edge behind it.

    Args:
        port: The port.
        net: The edge.
        at_port: Beats that moved at the port.
        on_net: Beats that moved on the edge.
    """

    port: str
    net: str
    at_port: int
    on_net: int

    def __str__(self) -> str:
        seen = f"{self.at_port} beats moved at port {self.port} and {self.on_net} on {self.net}"
        if self.at_port == self.on_net:
            seen = f"what moved on {self.net} equals the model and what moved at port {self.port} does not"
        return f"{seen}: the fault lies between them, in the top level"


def culprits(waits: Sequence[Wait]) -> list[str]:
    """Those that others wait for and that wait for nobody; empty if all wait in a circle."""
    waiters = {wait.who for wait in waits}
    return list(dict.fromkeys(wait.whom for wait in waits if wait.whom not in waiters))


@dataclass(frozen=True)
class Diagnosis:
    """What a run with probes showed.

    Args:
        result: Verdict of that run.
        edges: Every edge, from the inputs on; empty if the run left no records.
        divergence: The first edge that differs; None if none does.
        waits: Which instance waits for which at the end of the run.
        fifos: Fill levels of the FIFOs on reconvergent paths.
        first_frame: Frame of the run that is frame 0 here, if only a share of it was played again.
        losses: Instances that lost beats.
        gaps: Ports that show something else than the edges behind them.
    """

    result: SimResult
    edges: tuple[EdgeState, ...]
    divergence: Divergence | None
    waits: tuple[Wait, ...]
    fifos: tuple[FifoState, ...] = ()
    first_frame: int = 0
    losses: tuple[Loss, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def hangs(self) -> bool:
        """Whether the design stopped, and not only its results are wrong."""
        failure = self.result.failure
        short = any(port.beats < port.expected for port in self.result.ports.values())
        return isinstance(failure, HangError) or (failure is not None and short)

    @property
    def last_progress(self) -> int | None:
        """Cycle in which a beat last moved anywhere."""
        return max((edge.last for edge in self.edges if edge.last is not None), default=None)

    def report(self) -> str:
        """A text for people."""
        if self.result.passed:
            return "the design passed when it ran again with probes: every beat equals the reference"
        if not self.edges:
            return f"the run with probes left no records\n{self.result.failure}"
        lines = self.divergence.lines() if self.divergence else ["every value that moved on an edge equals the model"]
        lines += [str(fault) for fault in (*self.losses, *self.gaps)]
        if self.first_frame:
            lines += [f"frames are counted from frame {self.first_frame} of the run: only a share of it was played"]
        if self.hangs:
            lines += [f"nothing moved after cycle {self.last_progress}"]
            lines += [f"  {wait}" for wait in self.waits]
            stuck = culprits(self.waits)
            if stuck:
                lines += [f"everything waits for {', '.join(stuck)}"]
            elif self.waits:
                lines += ["all wait in a circle: a deadlock"]
            if self.fifos:
                lines += ["FIFOs:", *(f"  {fifo}" for fifo in self.fifos)]
            lines += ["edges:", *(f"  {edge}" for edge in self.edges)]
        if self.result.waves is not None:
            lines += [f"waves around it: {self.result.waves}"]
        return "\n".join(lines)

    def to_json(self) -> Json:
        """The same as JSON types."""
        divergence = None if self.divergence is None else self.divergence.to_json()
        failure = self.result.failure
        return {
            "passed": self.result.passed,
            "failure": None if failure is None else type(failure).__name__,
            "hangs": self.hangs,
            "first_frame": self.first_frame,
            "last_progress": self.last_progress,
            "divergence": divergence,
            "losses": [dataclasses.asdict(loss) for loss in self.losses],
            "gaps": [dataclasses.asdict(gap) for gap in self.gaps],
            "waits": [dataclasses.asdict(wait) for wait in self.waits] if self.hangs else [],
            "culprits": culprits(self.waits) if self.hangs else [],
            "fifos": [dataclasses.asdict(fifo) for fifo in self.fifos],
            "edges": [dataclasses.asdict(edge) for edge in self.edges],
            "waves": None if self.result.waves is None else str(self.result.waves),
        }


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

    def to_json(self) -> Json:
        """The same as JSON types."""
        return dataclasses.asdict(self) | {"mismatch": self.mismatch.to_json()}
