"""The runs of one simulation of a design: the one that counts, and the one with waves if that fails."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mase_hw.design.played import Played
from mase_hw.errors import ToolError
from mase_hw.host.locks import locked
from mase_hw.host.progress import Count, counter
from mase_hw.simulate.arguments import Arguments
from mase_hw.simulate.diagnose.failure import Replay
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.registry import DEFAULT, names
from mase_hw.simulate.engines.registry import engine as engine_of
from mase_hw.simulate.exercise.inner import INNER, with_inner_stalls
from mase_hw.simulate.exercise.watch import watched
from mase_hw.simulate.inner_stalls import InnerStalls
from mase_hw.simulate.limits import Waits
from mase_hw.simulate.plan import FAILURE, clean_run_folder
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Progress as State
from mase_hw.simulate.waves.lanes import FOLDER as LANES
from mase_hw.simulate.waves.lanes import with_lanes
from mase_hw.simulate.waves.mark import first_wrong
from mase_hw.simulate.waves.save_files import write_save_files
from mase_hw.simulate.waves.shown import Shown

Progress = Callable[[str], None]
"""Told what is being done, a line at a time."""
PROGRESS_SECONDS = 2.0
"""Least time between two progress lines of a running simulation."""


class Attempts:
    """Builds and runs a design in its work folder, as it was asked.

    Args:
        dut: The design.
        asked: What was asked.
        waits: How long to wait for the design.
        cycles: About how many cycles the run takes.
        frames: Frames to play.
        tell: Told what is being done.
        inner: Stalls inside the design.
        shown: Streams that waves show by node, with their lanes as fixed-point numbers.
    """

    def __init__(
        self,
        dut: Dut,
        asked: Arguments,
        waits: Waits,
        cycles: int,
        frames: int,
        tell: Progress,
        inner: InnerStalls | None = None,
        shown: Sequence[Shown] = (),
    ) -> None:
        self.dut, self.asked, self.waits, self.cycles = dut, asked, waits, cycles
        self.frames, self.tell, self.inner, self.shown = frames, tell, inner, shown

    def run(self, played: Played) -> SimResult:
        """The run that counts. Waves that an earlier failure left by itself in the work folder are gone afterwards.

        Raises:
            EmitError: If a file of the design is not what it was, or the work folder cannot be written.
            SimulationError: If Verilator refuses the design.
            ToolError: If a tool is missing or fails.
        """
        asked = self.asked
        with alone(asked.work):
            for left in self._waves_of_failures():
                clean_run_folder(left)
            beats = (played.beats_in, played.beats_out)
            return self._attempt(bool(asked.waves), asked.coverage, beats, seed=asked.seed, **asked.options)

    def again_with_waves(self, again: Replay, failure: Exception) -> SimResult:
        """Run what led to a failure once more, and write waves of that only, with what they are of beside them.

        Raises:
            EmitError: As :meth:`run`.
            SimulationError: As :meth:`run`.
            ToolError: As :meth:`run`.
        """
        with alone(self.asked.work):
            beats, options = (again.beats_in, again.beats_out), {**self.asked.options, "window": again.window}
            result = self._attempt(True, False, beats, seed=again.seed, **options)
            (result.run_dir / FAILURE).write_text(f"{type(failure).__name__}: {failure}\n", encoding="utf-8")
            return result

    def _waves_of_failures(self) -> list[Path]:
        """The run folders, of any engine, with waves that nobody asked for."""
        engines = ("" if name == DEFAULT else f"-{name}" for name in names())
        folders = (self.asked.work / f"run{engine}{inner}-waves" for engine in engines for inner in ("", "-inner"))
        return [folder for folder in folders if (folder / FAILURE).is_file()]

    def _suffix(self) -> str:
        engine = "" if self.asked.engine == DEFAULT else f"-{self.asked.engine}"
        return engine if self.inner is None else f"{engine}-inner"

    def simulated(self) -> Dut:
        """What is built: the design with monitors, and with connectors on its edges if these are stalled."""
        dut = self.dut if self.inner is None else with_inner_stalls(self.dut, self.asked.work / INNER)
        return watched(dut)

    def _attempt(self, waves: bool, coverage: bool, beats: tuple[Any, Any], **more: Any) -> SimResult:
        asked, engine = self.asked, engine_of(self.asked.engine)
        suffix = self._suffix() + ("-waves" if waves else "") + ("-coverage" if coverage else "")
        self.tell(f"building the simulator ({'with' if waves else 'without'} waves) with Verilator")
        dut = self.simulated()
        built = engine.build(
            with_lanes(dut, self.shown, asked.work / LANES) if waves else dut,
            asked.work / f"build{suffix}",
            waves=waves,
            cache_dir=asked.work.parent / "runtime-cache",
            cycles=self.cycles,
            **({"coverage": True} if coverage else {}),
            **({"threads": asked.threads} if asked.threads > 1 else {}),
        )
        how = "reused" if built.reused or built.cached else "built"
        self.tell(f"{how} in {built.seconds:.1f} s; simulating {self.frames} frames")
        result = engine.simulate(
            built,
            asked.work / f"run{suffix}",
            *beats,
            stalls=asked.stalls,
            waves=waves,
            progress=_ticker(self.tell),
            reset_at=asked.reset_at,
            inner=self.inner,
            **self.waits,
            **more,
        )
        if result.waves is not None:
            self._save(result, built.dut.inside.rstrip("."))
        return result

    def _save(self, result: SimResult, top: str) -> None:
        """Write what shows the waves in viewers; a disk that is full spoils no verdict."""
        assert result.waves is not None
        with contextlib.suppress(OSError):
            write_save_files(result.waves, top, self.shown, None if self.asked.reset_at else first_wrong(result))


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


def _counted(count: Count, state: State) -> None:
    count(state.beats, state.total)


def _ticker(tell: Progress) -> Callable[[State], None]:
    """Passes on how far a simulation is: to whoever counts, or a line every few seconds."""
    count = counter(tell, "simulating", "beats")
    if count is not None:
        return lambda state: _counted(count, state)
    last = time.monotonic()

    def tick(state: State) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            share = state.beats / max(1, state.total)
            tell(f"simulated {state.cycles:,} cycles, {state.beats:,} of {state.total:,} beats ({share:.0%})")

    return tick
