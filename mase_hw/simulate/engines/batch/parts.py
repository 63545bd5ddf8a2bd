"""Shares of a run for several processes, and the one verdict over all of them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mase_hw.errors import ConfigError, MismatchError, SimulationError
from mase_hw.host.disk import not_written
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.exercise.record import Exercise
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import Plan
from mase_hw.simulate.result import Part, SimResult
from mase_hw.simulate.run import Run
from mase_hw.streams import IntArray


@dataclass(frozen=True)
class Share:
    """What one process plays.

    Args:
        first: Number of its first frame.
        frames: How many frames it has.
        stimulus: Beats of the inputs.
        expected: Beats of the outputs.
    """

    first: int
    frames: int
    stimulus: Mapping[str, IntArray]
    expected: Mapping[str, IntArray]


def clean_parts(run_dir: Path) -> None:
    """Remove the shares of an earlier run."""
    try:
        shutil.rmtree(run_dir / "parts")
    except FileNotFoundError:
        return
    except OSError as problem:
        raise not_written("the run folder", run_dir, problem) from problem


def cut(dut: Dut, stimulus: Mapping[str, IntArray], expected: Mapping[str, IntArray], jobs: int) -> list[Share]:
    """Cut a run into at most ``jobs`` shares of whole frames, of two at least so that each shows an interval.

    Raises:
        ConfigError: If ``jobs`` is not positive, or the streams do not hold the same number of whole frames.
    """
    if jobs < 1:
        raise ConfigError("a simulation needs at least one process", field="jobs", got=jobs, expected="1 or more")
    if jobs == 1:
        return [Share(0, 0, stimulus, expected)]
    beats = {**stimulus, **expected}
    counts = {s.name: divmod(beats[s.name].shape[0], s.frame_beats) for s in dut.streams}
    frames = {whole for whole, _ in counts.values()}
    if len(frames) != 1 or any(rest for _, rest in counts.values()):
        raise ConfigError(
            "only whole frames can be shared between processes",
            field="jobs",
            got={name: f"{whole} frames and {rest} beats" for name, (whole, rest) in counts.items()},
            remedy="give every stream the same number of frames, or jobs=1",
        )
    (total,) = frames
    jobs = max(1, min(jobs, total // 2))
    edges = [total * i // jobs for i in range(jobs + 1)]

    def part(side: Mapping[str, IntArray], begin: int, end: int) -> dict[str, IntArray]:
        size = {s.name: s.frame_beats for s in dut.streams}
        return {name: data[begin * size[name] : end * size[name]] for name, data in side.items()}

    return [Share(a, b - a, part(stimulus, a, b), part(expected, a, b)) for a, b in itertools.pairwise(edges)]


def join(dut: Dut, whole: Plan, shares: Sequence[Share], plans: Sequence[Plan], runs: Sequence[Run]) -> SimResult:
    """Judge every share, then all of them as one run.

    A share that did not move exactly the beats it should is itself the verdict: beats after a gap could not be told
    from others, so nothing is merged.
    """
    results = [judge(dut, plan, run, results_xml=False) for plan, run in zip(plans, runs, strict=True)]
    seconds = max(run.seconds for run in runs)
    for number, (share, result) in enumerate(zip(shares, results, strict=True)):
        if not _exact(result):
            assert result.failure is not None
            place = f"frames {share.first} to {share.first + share.frames - 1} of the run, counted from 0"
            part = Part(number, share.first, share.frames, 0, own=True)
            return dataclasses.replace(result, seconds=seconds, failure=_placed(result.failure, place), part=part)
    log = whole.folder / "sim.log"
    try:
        _merge(dut, whole, results)
        log.write_text("".join(f"see {run.log}\n" for run in runs), encoding="utf-8")
    except OSError as problem:
        raise not_written("the merged results", whole.folder, problem) from problem
    names = dict.fromkeys(name for share in results for name in share.edges)
    edges = {name: [share.edges.get(name, (0, 0)) for share in results] for name in names}
    sums = {name: (sum(f for f, _ in seen), sum(b for _, b in seen)) for name, seen in edges.items()}
    result = judge(dut, whole, Run(0, False, log, seconds), results_xml=False, edges=sums)
    exercise = Exercise.merged([share.exercise for share in results])
    return dataclasses.replace(result, exercise=exercise, part=_failing(result, shares, results))


def _failing(whole: SimResult, shares: Sequence[Share], results: Sequence[SimResult]) -> Part | None:
    """The share in which the first difference is."""
    first = whole.first_mismatch
    for number, share in enumerate(shares):
        if first is not None and share.first <= first.frame < share.first + share.frames:
            return Part(number, share.first, share.frames, sum(r.cycles for r in results[:number]), own=False)
    return None


def _exact(result: SimResult) -> bool:
    if result.failure is not None and type(result.failure) is not MismatchError:
        return False
    return bool(result.ports) and all(port.beats == port.expected for port in result.ports.values())


def _placed(failure: SimulationError, place: str) -> SimulationError:
    """The same failure, saying which share it speaks of."""
    return type(failure)(
        f"{failure.message} ({place})",
        node=failure.node,
        field=failure.field,
        got=failure.got,
        expected=failure.expected,
        remedy=failure.remedy,
    )


def _merge(dut: Dut, whole: Plan, results: Sequence[SimResult]) -> None:
    """Write the records of all shares as those of one run, the outcome last."""
    streams: dict[str, Any] = {}
    starts = [sum(r.cycles for r in results[:i]) for i in range(len(results))]
    for stream in dut.streams:
        name, ports = stream.name, [r.ports[stream.name] for r in results]
        for kind in ("presented", "accepted"):
            data = b"".join(
                # A beat offered in the tail of a share but never expected is not part of the whole.
                (getattr(port.cycles, kind)[: port.beats] + start).tobytes()
                for port, start in zip(ports, starts, strict=True)
            )
            (whole.folder / "cycles" / f"{name}.{kind}.bin").write_bytes(data)
        if stream.direction == "out":
            found = b"".join((r.run_dir / "found" / f"{name}.bin").read_bytes() for r in results)
            (whole.folder / "found" / f"{name}.bin").write_bytes(found)
        streams[name] = {
            "direction": stream.direction,
            **{k: sum(getattr(p, k) for p in ports) for k in ("beats", "expected", "compared", "mismatches", "extra")},
            "valid": ports[-1].valid,
            "ready": ports[-1].ready,
        }
    wrong = sum(state["mismatches"] for state in streams.values())
    outcome = {
        "version": 1,
        "plan": whole.identity,
        "verdict": "mismatch" if wrong else "pass",
        "message": f"{wrong} wrong beats" if wrong else "every beat equals the reference",
        "cycles": sum(r.cycles for r in results),
        "resets": whole.resets,
        "streams": streams,
        "complete": True,
    }
    partial = whole.folder / "outcome.json.partial"
    partial.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    partial.replace(whole.folder / "outcome.json")
