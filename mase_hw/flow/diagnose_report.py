"""What a diagnosis says, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw.errors import HangError
from mase_hw.flow.result import Mismatch, SimResult


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

    def __str__(self) -> str:
        total = "" if self.expected is None else f"/{self.expected}"
        last = "never moved" if self.last is None else f"last in cycle {self.last}"
        return (
            f"{self.net}: {self.source} -> {self.sink} valid={self.valid} ready={self.ready} "
            f"{self.beats}{total} beats, {last}"
        )


@dataclass(frozen=True)
class QueueState:
    """A queue that balances two ways, at the end of a run.

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
class Divergence:
    """The first edge, from the inputs on, that differs from the quantised model.

    Args:
        net: Signal name.
        node: Graph node whose values are wrong.
        parameter: The parameter, if a memory holds the wrong value.
        source: Instance that drives the net.
        sink: Instance that takes it.
        mismatch: Place and both values of the first difference.
        neighbours: The beats around it.
        cycle: Cycle in which the beat moved.
    """

    net: str
    node: str
    parameter: str | None
    source: str
    sink: str
    mismatch: Mismatch
    neighbours: tuple[Neighbour, ...]
    cycle: int

    def lines(self) -> list[str]:
        """The text."""
        what = f"parameter {self.parameter} of node {self.node}" if self.parameter else f"node {self.node}"
        way = f"on the way from {self.source} to {self.sink}, in cycle {self.cycle}"
        text = [f"first divergence: {what}, {way}", f"  {self.mismatch}"]
        for beat in self.neighbours:
            mark = " " if beat.expected == beat.found else "*"
            text.append(f"  {mark} beat {beat.beat_index}: expected {list(beat.expected)}, found {list(beat.found)}")
        return text


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
    """Who waits for whom, by the handshakes that stand half done."""
    found = []
    for edge in states:
        if edge.ready and not edge.valid:
            found.append(Wait(edge.sink, edge.source, edge.net, "data"))
        elif edge.valid and not edge.ready:
            found.append(Wait(edge.source, edge.sink, edge.net, "space"))
    return found


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
        waits: Who waits for whom at the end of the run.
        queues: Fill levels of the queues on reconvergent paths.
        first_frame: Frame of the run that is frame 0 here, if only a share of it was played again.
    """

    result: SimResult
    edges: tuple[EdgeState, ...]
    divergence: Divergence | None
    waits: tuple[Wait, ...]
    queues: tuple[QueueState, ...] = ()
    first_frame: int = 0

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
        lines = self.divergence.lines() if self.divergence else ["every value on every edge equals the model"]
        if self.first_frame:
            lines += [f"frames are counted from frame {self.first_frame} of the run: only a share of it was played"]
        if self.hangs:
            lines += [f"nothing moved after cycle {self.last_progress}"]
            lines += [f"  {wait}" for wait in self.waits]
            stuck = culprits(self.waits)
            lines += [f"everything waits for {', '.join(stuck)}" if stuck else "all wait in a circle: a deadlock"]
            if self.queues:
                lines += ["queues:", *(f"  {queue}" for queue in self.queues)]
            lines += ["edges:", *(f"  {edge}" for edge in self.edges)]
        if self.result.waves is not None:
            lines += [f"waves around it: {self.result.waves}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON types."""
        divergence = None
        if self.divergence is not None:
            divergence = dataclasses.asdict(self.divergence) | {"mismatch": self.divergence.mismatch.to_json()}
        failure = self.result.failure
        return {
            "passed": self.result.passed,
            "failure": None if failure is None else type(failure).__name__,
            "hangs": self.hangs,
            "first_frame": self.first_frame,
            "last_progress": self.last_progress,
            "divergence": divergence,
            "waits": [dataclasses.asdict(wait) for wait in self.waits] if self.hangs else [],
            "culprits": culprits(self.waits) if self.hangs else [],
            "queues": [dataclasses.asdict(queue) for queue in self.queues],
            "edges": [dataclasses.asdict(edge) for edge in self.edges],
            "waves": None if self.result.waves is None else str(self.result.waves),
        }
