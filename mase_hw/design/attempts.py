"""The runs of one simulation of a design: the one that counts, and if it fails those that show why."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mase_hw.design.vectors import Played
from mase_hw.errors import MaseHwError, ResultsError, SimulationError, ToolError
from mase_hw.host.locks import locked
from mase_hw.host.progress import counter
from mase_hw.simulate.diagnose.failure import Replay, explainable, replay
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.registry import engine as engine_of
from mase_hw.simulate.exercise import INNER, watched, with_inner_stalls
from mase_hw.simulate.plan import DEFAULT_ENGINE, FAILURE, Limits, SimulationOptions, clean_run_folder
from mase_hw.simulate.plan import Progress as State
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.waves import FOLDER as LANES
from mase_hw.simulate.waves import Shown, first_wrong, with_lanes, write_save_files
from mase_hw.streams import Beats

Progress = Callable[[str], object]
"""Told what is being done, a line at a time."""
PROGRESS_SECONDS = 2.0
"""Least time between two progress lines of a running simulation."""


@dataclass(frozen=True)
class Attempts:
    """Builds and runs a design in its work folder.

    Args:
        dut: The design.
        options: How it is simulated.
        limits: How long to wait for it.
        cycles: About how many cycles the run takes.
        frames: Frames to play.
        tell: Told what is being done.
        shown: Streams that waves show by node, with their lanes as fixed-point numbers.
    """

    dut: Dut
    options: SimulationOptions
    limits: Limits
    cycles: int
    frames: int
    tell: Progress
    shown: Sequence[Shown] = ()

    def run(self, played: Played) -> SimResult:
        """The run that counts. Waves that an earlier failure left by itself in the work folder are gone afterwards.

        Raises:
            EmitError: If a file of the design is not what it was, or the work folder cannot be written.
            SimulationError: If Verilator refuses the design.
            ToolError: If a tool is missing or fails.
        """
        with alone(self.options.work):
            for left in self.options.work.glob(f"run*-waves/{FAILURE}"):
                clean_run_folder(left.parent)
            return self._attempt(played.beats_in, played.beats_out, self.options)

    def again_with_waves(self, again: Replay, failure: Exception) -> SimResult:
        """Run what led to a failure once more, and write waves of that only, with what they are of beside them.

        Raises:
            EmitError: As :meth:`run`.
            SimulationError: As :meth:`run`.
            ToolError: As :meth:`run`.
        """
        with alone(self.options.work):
            options = replace(self.options, waves=True, coverage=False, seed=again.seed, window=again.window)
            result = self._attempt(again.beats_in, again.beats_out, options)
            (result.run_dir / FAILURE).write_text(f"{type(failure).__name__}: {failure}\n", encoding="utf-8")
            return result

    def simulated(self) -> Dut:
        """What is built: the design with monitors, and with connectors on its edges if these are stalled."""
        stalled = self.options.inner is not None
        inner = self.options.work / INNER
        return watched(with_inner_stalls(self.dut, inner) if stalled else self.dut, inner)

    def _attempt(self, stimulus: Beats, expected: Beats, options: SimulationOptions) -> SimResult:
        engine, work = engine_of(options.engine), options.work
        self.tell(f"building the simulator ({'with' if options.waves else 'without'} waves) with Verilator")
        dut = self.simulated()
        built = engine.build(
            with_lanes(dut, self.shown, work / LANES) if options.waves else dut,
            work / f"build{_suffix(options)}",
            options,
            cache_dir=work.parent / "runtime-cache",
            cycles=self.cycles,
        )
        how = "reused" if built.reused or built.cached else "built"
        self.tell(f"{how} in {built.seconds:.1f} s; simulating {self.frames} frames")
        told = replace(options, progress=_ticker(self.tell))
        result = engine.simulate(built, work / f"run{_suffix(options)}", stimulus, expected, self.limits, told)
        if result.waves is not None:
            mark = None if options.reset_at else first_wrong(result)
            with contextlib.suppress(OSError):  # a disk that is full spoils no verdict
                write_save_files(result.waves, built.dut.inside.rstrip("."), self.shown, mark)
        return result


def _suffix(options: SimulationOptions) -> str:
    """What tells the folders of a simulation from those of others in the same work folder."""
    named = {
        options.engine: options.engine != DEFAULT_ENGINE,
        "inner": options.inner is not None,
        "waves": options.waves,
        "coverage": options.coverage,
    }
    return "".join(f"-{name}" for name, there in named.items() if there)


@contextmanager
def alone(work: Path) -> Iterator[None]:
    """One simulation at a time in a work folder, also between processes; the lock goes with its holder.

    Raises:
        EmitError: If the folder cannot be written.
    """
    with locked(work / ".lock", "the work folder"):
        try:
            yield
        except ToolError:
            # Nothing was built: leave nothing behind.
            if [p.name for p in work.iterdir()] == [".lock"]:
                shutil.rmtree(work, ignore_errors=True)
            raise


def _ticker(tell: Progress) -> Callable[[State], None]:
    """Passes on how far a simulation is: to a caller that counts, or a line every few seconds."""
    count, last = counter(tell, "simulating", "beats"), time.monotonic()

    def tick(state: State) -> None:
        nonlocal last
        if count is not None:
            count(state.beats, state.total)
        elif time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            share = state.beats / max(1, state.total)
            tell(f"simulated {state.cycles:,} cycles, {state.beats:,} of {state.total:,} beats ({share:.0%})")

    return tick


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
    failure, options, tell = result.failure, attempts.options, attempts.tell
    assert failure is not None  # the caller looked
    reach = int(design.timing["last"]) + int(design.timing["interval"])
    again = replay(result, design.streams, played, options, reach)
    if changed:
        failure.got = f"files that are not what was emitted: {', '.join(changed)}\n    {failure.got or ''}".rstrip()
    if options.waves is None and not isinstance(failure, ResultsError):
        tell(f"{type(failure).__name__}: running again with waves")
        result = _with_waves(attempts, again, result, failure)
    if not diagnose or options.intervene is not None or not explainable(result):
        return result
    if design.graph is None:
        failure.remedy = NO_MODEL if failure.remedy is None else f"{failure.remedy}; {NO_MODEL}"
        return result
    tell(f"{type(failure).__name__}: running again with probes on every edge")
    from mase_hw.simulate.diagnose.diagnose import explain

    with alone(options.work):
        # A share is played from its mantissas, which is what its inputs became.
        frames = None if again.part else inputs
        run = replace(options, seed=again.seed, waves=False)
        return explain(design, result, frames, again, attempts.limits, run)


def _with_waves(attempts: Attempts, again: Replay, result: SimResult, failure: SimulationError) -> SimResult:
    """With waves of what led to the failure; a run that cannot write them hides nothing."""
    try:
        traced = attempts.again_with_waves(again, failure)
    except (MaseHwError, OSError) as problem:
        failure.add_note(f"no waves, the run with them failed: {problem}")
        return result
    if traced.failure is None:
        failure.add_note("the same run passed with waves: the failure does not repeat itself")
    return replace(result, waves=traced.waves)
