"""The batch engine: the same plan, stalls and judge as cocotb, without Python in the loop.

For whole data sets. Every file the driver leaves has the meaning of its namesake from the cocotb bench, so verdicts,
beats and cycle numbers of the two engines can be compared directly; ``tests/engines`` does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mase_hw.errors import ResultsError
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.coverage import FILE, read_coverage
from mase_hw.simulate.engines.batch.build import build
from mase_hw.simulate.engines.batch.parts import clean_parts, cut, join
from mase_hw.simulate.engines.batch.plan import write_batch_plan
from mase_hw.simulate.engines.batch.run import run_batch
from mase_hw.simulate.inner_stalls import InnerStalls
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import MEMORY, Limits, Plan, Reset, Stalls, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Progress
from mase_hw.streams import IntArray


def simulate(
    built: Built,
    run_dir: Path,
    stimulus: Mapping[str, IntArray],
    expected: Mapping[str, IntArray],
    *,
    watchdog: int,
    max_cycles: int,
    seed: int = 0,
    stalls: Stalls | None = None,
    waves: bool = False,
    idle_cycles: int = 8,
    tail_cycles: int = 64,
    timeout: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    jobs: int = 1,
    reset_at: Sequence[Reset] = (),
    window: tuple[int, int] | None = None,
    inner: InnerStalls | None = None,
) -> SimResult:
    """Play stimulus against a built design and judge what comes out.

    Args:
        built: From :func:`mase_hw.simulate.engines.batch.build.build`.
        run_dir: Folder for plan, log, results and waves; what an earlier run left there is removed first.
        stimulus: Mantissas ``(beats, lanes)`` for every input stream, as :meth:`Stream.pack` makes them.
        expected: The same for every output stream.
        watchdog: Cycles without any handshake after which stalls are lifted; as many again are a hang.
        max_cycles: Cycles after which an unfinished run (of each process) is given up.
        seed: Of stalls, garbage on idle data ports and initial values of registers.
        stalls: How often the surroundings stall; never by default.
        waves: Write ``dump.fst``; needs a build with waves, and one process.
        idle_cycles: Cycles between reset and the first beat.
        tail_cycles: Least number of cycles to wait for surplus beats after the last expected one.
        timeout: Seconds of wall time after which a simulator is killed.
        progress: Called now and then with the state of the run.
        jobs: Processes. Each resets the design and plays a share of the frames, with ``seed`` plus its number; cycle
            numbers of a share go on where those of the one before end.
        window: First and last cycle to write waves of; all if None.
        reset_at: Resets in the middle of the run (of each process), one after the other; each plays all frames again,
            and only what comes after the last one is recorded and judged.
        inner: Stalls inside the design, which must have been built with them; none by default.

    Returns:
        The verdict, also when it is a bad one; call :meth:`SimResult.raise_on_failure`.

    Raises:
        ConfigError: If the beats do not fit the design's streams, or cannot be cut into frames for several processes.
        EmitError: If the run folder cannot be written.
        ToolError: If the simulator cannot be started.
    """
    limits = Limits(watchdog, max_cycles, idle_cycles=idle_cycles, tail_cycles=tail_cycles)
    stalls, run_dir = stalls or Stalls.none(), run_dir.resolve()
    common: dict[str, Any] = {"stalls": stalls, "limits": limits, "reset_at": reset_at, "inner": inner}
    whole = write_plan(built.dut, run_dir, stimulus, expected, seed=seed, **common)
    clean_parts(run_dir)
    shares = cut(built.dut, stimulus, expected, 1 if waves else jobs)
    if len(shares) == 1:
        write_batch_plan(whole)
        (run,) = run_batch(built, [whole], seeds=[seed], waves=waves, timeout=timeout, progress=progress, window=window)
        return _covered(built, judge(built.dut, whole, run, results_xml=False), [whole])
    plans: list[Plan] = []
    # All read the memory files of the whole run, which were checked once.
    memory = run_dir / MEMORY if built.dut.memory is not None else None
    sharing = dataclasses.replace(built.dut, memory=memory, digests={})
    seeds = [seed + number for number in range(len(shares))]
    for share, own_seed in zip(shares, seeds, strict=True):
        folder = run_dir / "parts" / str(len(plans))
        plan = write_plan(sharing, folder, share.stimulus, share.expected, seed=own_seed, **common)
        write_batch_plan(plan)
        plans.append(plan)
    runs = run_batch(built, plans, seeds=seeds, timeout=timeout, progress=progress)
    return _covered(built, join(built.dut, whole, shares, plans, runs), plans)


def _covered(built: Built, result: SimResult, plans: Sequence[Plan]) -> SimResult:
    """With what was reached, if the simulator counts it; a run that proves nothing has no coverage."""
    if not built.coverage or isinstance(result.failure, ResultsError):
        return result
    try:
        return dataclasses.replace(result, coverage=read_coverage(plan.folder / FILE for plan in plans))
    except ResultsError as problem:
        return dataclasses.replace(result, failure=result.failure or problem)


class _Batch:
    """Verilator with a C++ driver and nothing else in the loop."""

    name = "batch"
    build = staticmethod(build)
    simulate = staticmethod(simulate)


BATCH = _Batch()
"""The engine of whole data sets."""
