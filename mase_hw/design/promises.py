"""What a manifest promises besides the bits: cycles, if it says that they are exact."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mase_hw.errors import SimulationError
from mase_hw.hardware.manifest import Instance, Manifest
from mase_hw.simulate.result import SimResult, Timing

SOURCE, SINK = "data_in_0", "data_out_0"
"""The ports between which the fill latency is promised."""
_SHOWN = 4
"""Promises that an error lists."""


@dataclass(frozen=True)
class Missed:
    """A promise that was not kept.

    Args:
        field: Where it stands in the manifest.
        promised: Cycles.
        measured: Cycles.
        instance: The instance that is at fault, if it is known.
    """

    field: str
    promised: int
    measured: int
    instance: str | None = None

    def __str__(self) -> str:
        return f"{self.field}: promised {self.promised} cycles, measured {self.measured}"


def kept(result: SimResult, manifest: Manifest, frames: int, jobs: int = 1) -> SimResult:
    """The same result; a failure if all bits are right, but something came in another cycle than promised.

    Args:
        result: Of a run that passed, with inputs that always offer and outputs that always accept: only of such a run
            anything is promised.
        manifest: Of the bundle.
        frames: That were played.
        jobs: Processes that shared them.
    """
    processes = max(1, min(jobs, frames // 2))
    found = list(missed(result, manifest, frames - frames * (processes - 1) // processes))
    if not found:
        return result
    culprit = _culprit(found, manifest)
    users = culprit is not None and bool(culprit.custom_op)
    more = f"\n    and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    failure = SimulationError(
        "every bit is right, but the design does not take the cycles that its manifest calls exact",
        node=SINK if culprit is None else f"{culprit.node} ({_kind(culprit)})",
        field=f"custom_ops.{culprit.custom_op}.latency" if culprit is not None and users else found[0].field,
        got="".join(f"\n    {each}" for each in found[:_SHOWN]) + more,
        expected="the promised cycles in a run at full rate",
        remedy=_CUSTOM if users else _OURS,
    )
    return dataclasses.replace(result, failure=failure)


_CUSTOM = (
    "let `latency` of this custom op say the cycles that its module takes, with its steps (mase_hw.steps.Steps) where "
    "beats come in bursts or wait; docs/custom_ops.md shows how"
)
_OURS = "compile the model again; if nobody edited the manifest, please report this with the bundle"


def missed(result: SimResult, manifest: Manifest, frames: int) -> Iterator[Missed]:
    """Every promise of an exact timing that a run at full rate did not keep.

    Args:
        result: Of the run.
        manifest: Of the bundle.
        frames: Of the last process that took part.
    """
    timing = manifest.timing
    measured = result.timing(SOURCE, SINK)
    if not timing.exact or measured is None:
        return
    yield from _stages(result, manifest)
    outputs = [name for name in result.outputs if result.ports[name].beats]
    last = max(_last(result, name) for name in outputs)
    found = {"fill": (timing.fill, measured.fill), "last": (timing.last, last)}
    if timing.steady is not None and frames > timing.steady:
        # Beats that pile up stop a design for the first time after many frames, and then again and again.
        since = steady_intervals(result, manifest)[timing.steady - frames :]
        found["interval"] = (timing.interval, next((n for n in since if n != timing.interval), timing.interval))
    for name, (promised, value) in found.items():
        if value != promised:
            yield Missed(f"timing.{name}", promised, value)


def timings(result: SimResult, manifest: Manifest) -> tuple[dict[str, Timing], dict[str, Timing]]:
    """Of every output that moved, from the first input on, and of every input that nothing reads, by port name."""
    outputs = {name: t for name in result.outputs if (t := result.timing(SOURCE, name)) is not None}
    return outputs, {name: t for name in _unread(result, manifest) if (t := result.timing(name, name)) is not None}


def _unread(result: SimResult, manifest: Manifest) -> list[str]:
    return [name for name in result.ports if f"{name} to drain.{name}" in manifest.edges]


def steady_intervals(result: SimResult, manifest: Manifest) -> list[int]:
    """Cycles between the ends of every two frames; none if there were no two.

    A frame ends with its last beat at the last of the outputs and of the inputs that nothing reads: one of them that is
    ahead of the others may stop and go, until it can be no farther ahead.
    """
    ports = [result.ports[name] for name in (*result.outputs, *_unread(result, manifest))]
    lasts = [port.cycles.accepted[port.stream.frame_beats - 1 :: port.stream.frame_beats] for port in ports]
    ends = [max(map(int, each)) for each in zip(*(each for each in lasts if each.size), strict=False)]
    return [after - before for before, after in itertools.pairwise(ends)]


def _last(result: SimResult, name: str) -> int:
    """Cycles from the first input beat accepted to the last beat of the first frame of an output valid."""
    port = result.ports[name]
    at = min(port.stream.frame_beats, port.beats) - 1
    return int(port.cycles.presented[at]) - int(result.ports[SOURCE].cycles.accepted[0])


def _stages(result: SimResult, manifest: Manifest) -> Iterator[Missed]:
    """The cycles from its first beat to its first result, of every instance where they are others than promised."""
    begins = {} if result.exercise is None else result.exercise.begins
    source = next((name for name in begins if name.partition(" to ")[0] == SOURCE), None)
    if source is None:
        return
    port = result.ports[SOURCE].cycles
    start = begins[source] + int(port.accepted[0] - port.presented[0])
    given = {end: begins[name] - start for name in begins for end in [name.partition(" to ")[0]]}
    taken = {end: begins[name] - start for name in begins for end in [name.partition(" to ")[2]]}
    for entry in manifest.instances:
        timing, name = entry.timing, entry.name
        first_in = _first(taken, name, ("data_in_0", "in_data"))
        first_out = _first(given, name, ("data_out_0", "out_data", "out_data[0]"))
        if timing is None or first_in is None or first_out is None:
            continue
        promised, measured = timing.first_out - timing.first_in, first_out - first_in
        if measured != promised:
            yield Missed(f"instances.{name}.timing.first_out - first_in", promised, measured, name)


def _first(cycles: Mapping[str, int], instance: str, ports: tuple[str, ...]) -> int | None:
    return next((cycles[end] for port in ports if (end := f"{instance}.{port}") in cycles), None)


def _culprit(found: list[Missed], manifest: Manifest) -> Instance | None:
    """The instance at fault: the first with another delay, or a custom op if only the interval tells."""
    named = [each.instance for each in found if each.instance is not None]
    entries = {entry.name: entry for entry in manifest.instances}
    if named:
        return entries[named[0]]
    users = [entry for entry in entries.values() if entry.custom_op]
    slowest = [entry for entry in users if entry.name == manifest.timing.bottleneck]
    return next(iter(slowest or users), None)


def _kind(entry: Instance) -> str:
    return f"custom op {entry.custom_op}" if entry.custom_op else f"instance {entry.name}"
