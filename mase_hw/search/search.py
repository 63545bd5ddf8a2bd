"""Widths, formats, folding and implementation of a network, searched together for a Pareto front."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mase_hw.compiler.config import ConfigLike, load_config
from mase_hw.errors import ConfigError
from mase_hw.host.pools import HerePool, Pool
from mase_hw.ir import MaseGraph
from mase_hw.passes.evaluation import CriterionLike
from mase_hw.passes.mixed_precision.plan import QuantizeLike, complete
from mase_hw.search.front import Found, Point, pareto_front
from mase_hw.search.problem import Against, Problem, run_trial
from mase_hw.search.space import Space, Widths
from mase_hw.search.study import Outcome, Rules, Tell, Trial, run_trials

WINDOW = 16


def search(
    graph: MaseGraph,
    criterion: CriterionLike,
    *,
    data: Iterable[Any],
    config: ConfigLike = None,
    base: QuantizeLike = 8,
    vary: Sequence[str] = ("widths", "folding"),
    widths: Widths = (2, 3, 4, 5, 6, 7, 8),
    formats: Sequence[str] = ("fixed", "ternary", "binary"),
    against: Against = ("interval", "lut", "dsp"),
    trials: int = 100,
    seed: int = 0,
    sampler: str = "nsga2",
    window: int = WINDOW,
    storage: str | Path | None = None,
    pool: Pool | None = None,
    fast_mode: bool = True,
    progress: Tell | None = None,
) -> Found:
    """Search for the best trade-offs between a criterion and what the hardware takes.

    The uniform widths are tried first, so that the front is never worse than they are. The same seed gives the same
    points, on any pool, in one go or in pieces. A trial that is over a budget of the target, or is refused, is pruned
    before its accuracy is computed.

    Args:
        graph: A calibrated float graph; it is not changed.
        criterion: As :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes it.
        data: Iterable of ``(inputs, targets)``, gone through in every trial. Keep other data for the final figure: the
            chosen plan is fitted to this one.
        config: The configuration: ``hardware`` is kept where it is not searched, ``target`` has the budgets.
        base: What is not searched of the formats (bias widths, rounding, ...): a width for everything, or arguments of
            ``quantize_transform_pass`` with all widths.
        vary: What is chosen: ``widths`` (of every node's weight and result, and of the model's inputs), ``formats`` (of
            every node's weights), ``folding`` (cycles per frame at most, for which the solver of ``fit`` chooses the
            lanes of least area) and ``implementation`` (of every node that has several).
        widths: Widths to choose from, for all tensors or by tensor; see :class:`~mase_hw.search.space.Space`.
        formats: Formats of weights to choose from: ``fixed``, ``integer``, ``binary``, ``ternary``, ``mxint``,
            ``mxfp``, ``groups``.
        against: What is to be least beside the criterion: ``interval``, ``fill``, ``lut``, ``ff``, ``dsp``, ``bram``,
            ``bit_operations``, ``memory_bits``, or a function from a quantised graph to a number.
        trials: Trials in all, those that the storage holds and the uniform ones included.
        seed: Of the sampler.
        sampler: ``nsga2``, ``tpe`` or ``random``.
        window: Trials that may be under way at a time: one is drawn from what those gave that are a window before it.
        storage: A folder in which trials are kept (Optuna's journal), and from which an existing search is continued;
            with several machines one that all of them have.
        pool: Who makes the trials: this process if None, a :class:`~mase_hw.host.pools.LocalPool` or a
            :class:`~mase_hw.host.pools.DaskPool`.
        fast_mode: Evaluate whole batches at once instead of frame by frame; the same bits.
        progress: Told after every trial.

    Returns:
        All points, the Pareto front and its plans.

    Raises:
        ToolError: If Optuna is not installed.
        ConfigError: If a setting is wrong, or the storage holds a search of something else.
        MaseHwError: If the hardware is searched or measured, and the network cannot be mapped.
    """
    for name, number, least in (("trials", trials, 1), ("seed", seed, 0), ("window", window, 1)):
        if number < least:
            raise ConfigError("this number is too small", field=name, got=number, expected=f"{least} or more")
    space = Space(graph, complete("base", base), vary, widths, formats)
    settings = load_config(config)
    problem = Problem(criterion, data=data, settings=settings, space=space, against=against, fast_mode=fast_mode)
    identity = problem.identity(seed, sampler, window)
    rules = Rules(
        problem.space.choices, frozenset(problem.space.ordered), problem.space.starts, problem.against,
        problem.scorer.higher_is_better, sampler, seed, window, identity,
        problem.space.settled,
    )  # fmt: skip
    folder = None if storage is None else Path(storage).absolute()
    with ExitStack() as stack:
        run: Callable[[Trial], Outcome] = functools.partial(_attempt, problem)
        if pool is not None:
            place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            place.mkdir(parents=True, exist_ok=True)
            problem.save(place, identity)
            run = functools.partial(run_trial, folder=str(place), identity=identity)
        records = run_trials(rules, trials, run, pool or HerePool(), folder, progress or (lambda _: None))
    points: dict[str, Point] = {}
    outcomes: dict[str, Outcome] = {}
    for trial, outcome in records.values():
        score = float("nan") if outcome.score is None else outcome.score
        made = Point(trial.chosen, score, outcome.measures, trial.number, trial.digest, outcome.reason)
        points.setdefault(trial.digest, made)
        outcomes.setdefault(trial.digest, outcome)
    scored = [point for point in points.values() if not point.reason]
    front = tuple(pareto_front(scored, problem.against, problem.scorer.higher_is_better))
    return Found(
        tuple(scored),
        front,
        tuple(point for point in points.values() if point.reason),
        len(records),
        problem.scorer.name,
        problem.against,
        problem.scorer.higher_is_better,
        tuple(problem.plan_tables(point.chosen, outcomes[point.digest]) for point in front),
        sum(outcome.seconds for _, outcome in records.values()),
    )


def _attempt(problem: Problem, trial: Trial) -> Outcome:
    return problem.attempt(trial.chosen)
