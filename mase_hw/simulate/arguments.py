"""What is asked of a simulation, refused or brought into the types of the engines before anything is built."""

from __future__ import annotations

import numbers
import operator
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.host.process import cores
from mase_hw.simulate.engines.fast import Intervention
from mase_hw.simulate.engines.registry import engine as engine_of
from mase_hw.simulate.plan import DEFAULT_ENGINE, MOST_STALLS, PATTERNS, InnerStalls, Reset, SimulationOptions, Stalls

When = Reset | int | str
"""A time of a reset: :class:`Reset`, or what :meth:`Reset.parse` reads; a number counts cycles."""
_RESETS = "a Reset, a number of cycles, 'in:5' or 'out:3', or a list of these"


class Asked(TypedDict, total=False):
    """What may be asked of a simulation.

    Args:
        engine: Name of the simulation engine (``cocotb``); see :mod:`mase_hw.simulate.engines.registry`.
        seed: Of stalls, garbage on idle ports and initial register values (0).
        stalls: Probability of a stall on every input and output in every cycle, or :class:`Stalls`, or the name of a
            pattern of :data:`mase_hw.simulate.plan.PATTERNS`.
        waves: Write an FST, which only one process can; None: only when something is wrong, by running again.
        work_dir: Where the simulator is built and run, not in the bundle; ``<bundle>.work`` beside it by default.
        jobs: Processes that share the frames (1); only the batch engine has more than one.
        threads: Threads that evaluate the design together, in every process (1); only with the batch engine. With
            ``jobs``, there must be a core for each thread of each process.
        reset_at: Resets in the middle of the run; all frames are played again after each. One or several, as
            :class:`Reset`, cycles (``40``) or words (``"in:5"``).
        coverage: Count lines, branches and toggles; only with the batch engine.
        intervene: ``FILE.py`` or ``FILE.py:FUNCTION``, a test that intervenes in the run; only with the fast engine.
            Its failures are not diagnosed, since the run with probes does not intervene.
        inner_stalls: Probability with which each edge inside the design closes in a cycle, also for long now and then;
            0 for the design as it is. Simulated on a copy of the top level with a connector on every edge.
    """

    engine: str
    seed: int
    stalls: Stalls | float | str | None
    waves: bool | None
    work_dir: Path | str | None
    jobs: int
    threads: int
    reset_at: When | Sequence[When]
    coverage: bool
    intervene: Path | str | None
    inner_stalls: float


def check(bundle: Path, interval: int = 1, **asked: Unpack[Asked]) -> SimulationOptions:
    """Check what is asked of a simulation of a design.

    Args:
        bundle: Where the design lies, or will lie.
        interval: Cycles per frame, if it is known.
        asked: What is asked.

    Raises:
        ConfigError: If something is unknown, of the wrong kind or out of range, does not fit the engine, or if two
            things contradict each other.
    """
    for name in asked:
        refuse_unknown(name, Asked.__annotations__, "a simulation has no such argument", field=name)
    engine = asked.get("engine", DEFAULT_ENGINE)
    engine_of(engine)
    options = SimulationOptions(
        engine=engine,
        seed=_seed(asked.get("seed", 0)),
        stalls=as_stalls(asked.get("stalls")),
        reset_at=as_resets(asked.get("reset_at", ())),
        waves=asked.get("waves"),
        coverage=bool(asked.get("coverage")),
        intervene=asked.get("intervene"),
        work=_work_folder(bundle, asked.get("work_dir")),
        jobs=_at_least_one("jobs", asked.get("jobs", 1), "process"),
    )
    _fits(options)
    closes = _probability("inner_stalls", asked.get("inner_stalls", 0.0))
    inner = InnerStalls(closes, interval) if closes else None
    return replace(options, inner=inner, threads=_threads(engine, asked.get("threads", 1), options.jobs))


def _fits(options: SimulationOptions) -> None:
    """Refuse what this engine does not do, and a test that does not exist."""
    engine, jobs, intervene = options.engine, options.jobs, options.intervene
    if intervene is not None and engine != "fast":
        raise ConfigError(
            f"no test can intervene in engine {engine!r}", field="intervene", got=str(intervene),
            expected='engine="fast"', remedy='use engine="fast"',
        )  # fmt: skip
    if intervene is not None:
        Intervention.parse(intervene)
    if engine == "batch" and jobs > 1 and options.waves:
        raise ConfigError(
            "only one process can write waves",
            field="waves",
            got=f"waves={options.waves} and jobs={jobs}",
            expected="jobs=1, or waves=None (no --waves) for waves of the share that fails, if one does",
            remedy="leave out one of the two",
        )
    if engine != "batch" and jobs != 1:
        raise ConfigError(
            f"engine {engine!r} runs in one process", field="jobs", got=jobs, expected=1, remedy='use engine="batch"'
        )
    if engine != "batch" and options.coverage:
        raise ConfigError(
            f"engine {engine!r} counts no coverage", field="coverage", got=True, expected='engine="batch"',
            remedy='use engine="batch"',
        )  # fmt: skip


def _at_least_one(field: str, asked: Any, what: str) -> int:
    number = _integer(field, asked)
    if number < 1:
        raise ConfigError(
            f"a simulation needs at least one {what}",
            field=field,
            got=number,
            expected="1 or more",
            remedy=f"give {field}=1",
        )
    return number


def _threads(engine: str, asked: Any, jobs: int) -> int:
    """Threads of a process, which spin while they wait for each other: more than there are cores would crawl."""
    threads = _at_least_one("threads", asked, "thread")
    if threads == 1:
        return 1
    if engine != "batch":
        raise ConfigError(
            f"engine {engine!r} has one thread", field="threads", got=threads, expected=1, remedy='use engine="batch"'
        )
    there = cores()
    if threads * jobs > there:
        raise ConfigError(
            "more threads than this process has cores",
            field="threads",
            got=f"{jobs} processes of {threads} threads" if jobs > 1 else threads,
            expected=f"at most {there} in all, one a core",
            remedy="give fewer threads or fewer jobs; jobs alone share frames without waiting for each other",
        )
    return threads


def as_stalls(stalls: Any) -> Stalls:
    """A probability, the name of a pattern or :class:`Stalls`, as the latter; None is full rate.

    Raises:
        ConfigError: If it is none of these.
    """
    if stalls is None:
        return Stalls.none()
    if isinstance(stalls, Stalls):
        return stalls
    if isinstance(stalls, str):
        return Stalls.named(stalls)
    number = isinstance(stalls, numbers.Real)  # also one of numpy
    if not number:
        raise ConfigError(
            "not a way to stall",
            field="stalls",
            got=_shown(stalls),
            expected=f"a probability from 0 to {MOST_STALLS}, a Stalls, or one of {', '.join(PATTERNS)}",
            remedy="give a Stalls to stall inputs and outputs differently",
        )
    if not 0 <= stalls <= MOST_STALLS:
        # Not left to Stalls, which would name fields that the caller did not set.
        raise ConfigError(
            "stall probability out of range",
            field="stalls",
            got=stalls,
            expected=f"0 to {MOST_STALLS}, the share of cycles in which a port stalls",
            remedy=f"give a probability, or the name of a pattern: {', '.join(PATTERNS)}",
        )
    return Stalls.random(float(stalls), float(stalls)) if stalls else Stalls.none()


def _probability(field: str, value: Any) -> float:
    if isinstance(value, numbers.Real) and 0 <= float(value) <= MOST_STALLS:
        return float(value)
    raise ConfigError(
        "not a probability of stalls inside the design",
        field=field,
        got=_shown(value),
        expected=f"a number from 0 to {MOST_STALLS}",
        remedy=f"give the probability that an edge closes in a cycle, for example {field}=0.2",
    )


def as_resets(reset_at: Any) -> tuple[Reset, ...]:
    """One reset or several, as numbers, words or :class:`Reset`, in the order in which they come.

    Raises:
        ConfigError: If one of them is none of these.
    """
    alone = isinstance(reset_at, str | Reset) or not isinstance(reset_at, Iterable)
    return tuple(_reset(when) for when in ((reset_at,) if alone else reset_at))


def _reset(when: Any) -> Reset:
    if isinstance(when, Reset):
        return when
    if isinstance(when, str):
        return Reset.parse(when)
    try:
        cycles = operator.index(when)
    except TypeError:
        raise ConfigError(
            "not a time of a reset",
            field="reset_at",
            got=_shown(when),
            expected=_RESETS,
            remedy="use mase_hw.simulate.plan.Reset for other lengths than one cycle",
        ) from None
    return Reset(cycles)


def _work_folder(bundle: Path, work_dir: Path | str | None) -> Path:
    """Where to build and run; never in the bundle, whose files are what its manifest says."""
    bundle = bundle.resolve()
    if work_dir is None:
        return bundle.parent / f"{bundle.name}.work"
    try:
        work = Path(work_dir)
        inside = work.resolve().is_relative_to(bundle)
        blocked = _in_the_way(work)
    except (TypeError, ValueError, OSError) as error:  # no path, or one that no file system takes
        raise ConfigError(
            "not a folder",
            field="work_dir",
            got=f"{_shown(work_dir):.200}",
            expected="a path, or None for <bundle>.work",
            remedy="give the folder as a str or a Path",
        ) from error
    if inside:
        raise ConfigError(
            "the work folder is in the bundle, which a simulation must not change",
            node=str(bundle),
            field="work_dir",
            got=str(work),
            expected="a folder outside the bundle",
            remedy=f"leave it out for {bundle.name}.work beside the bundle, or name another folder",
        )
    if blocked is not None:
        raise ConfigError(
            "the work folder cannot be made",
            field="work_dir",
            got=f"{blocked} is not a folder one may write to",
            expected="a folder, or a place for one",
            remedy="name another folder, or change the permissions",
        )
    return work


def _in_the_way(folder: Path) -> Path | None:
    """What keeps a folder from being made, or from being written to if it is there; None if nothing does."""
    while not folder.exists():
        folder = folder.parent
    return None if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) else folder


def _seed(value: Any) -> int:
    """An integer of 64 bits, signed or not."""
    seed = _integer("seed", value)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ConfigError("a seed of more bits than a generator has", field="seed", expected="at most 64 bits")
    return seed


def _integer(field: str, value: Any) -> int:
    """An integer of any kind, also of numpy; no float, whose rest would be dropped."""
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigError(
            f"{field} is not an integer",
            field=field,
            got=_shown(value),
            expected="an integer",
            remedy=f"give {field} as an int",
        ) from None


def _shown(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"
