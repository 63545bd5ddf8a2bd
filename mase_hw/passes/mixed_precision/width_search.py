"""Search of widths under a hardware cost, with Optuna behind it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mase_hw.errors import ConfigError, ToolError, suggest
from mase_hw.ir import MaseGraph
from mase_hw.passes.evaluation import CriterionLike
from mase_hw.passes.mixed_precision.candidates import CandidateScorer, check_graph
from mase_hw.passes.mixed_precision.cost import CostModel, cost_model
from mase_hw.passes.mixed_precision.pareto import Point, WidthSearch, pareto_front
from mase_hw.passes.mixed_precision.plan import QuantizeLike, complete
from mase_hw.passes.mixed_precision.search import Tell
from mase_hw.passes.mixed_precision.space import Widths, WidthSpace

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.storages.journal import BaseJournalBackend

POPULATION = 16
"""Of NSGA-II: small, because a trial is a whole evaluation."""


def search_widths(
    graph: MaseGraph,
    criterion: CriterionLike,
    *,
    data: Iterable[Any],
    base: QuantizeLike = 8,
    widths: Widths = (2, 3, 4, 5, 6, 7, 8),
    cost: str | CostModel = "bit_operations",
    trials: int = 100,
    seed: int = 0,
    sampler: str = "tpe",
    storage: str | Path | None = None,
    fast_mode: bool = True,
    progress: Tell | None = None,
) -> WidthSearch:
    """Search the widths of every node's weight and result, and of the model's inputs, for the best trade-off.

    Two objectives, the criterion and the cost. The uniform widths are tried first, so the front is never worse than
    they are. The same seed gives the same points; a search that continues from its storage gives those of one that
    was never interrupted, because every trial's sampler is seeded by the number of completed trials.

    Args:
        graph: A calibrated float graph; it is not changed.
        criterion: As :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes it.
        data: Iterable of ``(inputs, targets)``, gone through in every trial. Keep other data for the final figure: the
            chosen plan is fitted to this one.
        base: What is not searched (bias widths, rounding, ...): a width for everything, or arguments of
            ``quantize_transform_pass`` with all widths.
        widths: Widths to choose from, for all tensors or by tensor; see
            :class:`~mase_hw.passes.mixed_precision.space.WidthSpace`.
        cost: A name of :data:`~mase_hw.passes.mixed_precision.cost.COSTS`, or a function from a quantised graph to a
            number.
        trials: Trials in all, those that the storage holds and the uniform ones included.
        seed: Of the sampler.
        sampler: ``tpe``, ``nsga2`` or ``random``.
        storage: A file (Optuna's journal) in which trials are kept, and from which an existing search is continued.
        fast_mode: Evaluate whole batches at once instead of frame by frame; the same bits.
        progress: Told after every trial.

    Returns:
        All points, the Pareto front and its plans.

    Raises:
        ToolError: If Optuna is not installed.
        ConfigError: If a setting is wrong, or the storage holds a search of something else.
    """
    check_graph(graph, "search_widths")
    if trials < 1:
        raise ConfigError("no trial is allowed", field="trials", got=trials, expected="1 or more")
    if seed < 0:
        raise ConfigError("a seed is not negative", field="seed", got=seed)
    args = complete("base", base)
    space = WidthSpace(graph, args, widths)
    scorer = CandidateScorer(graph, data, criterion, fast_mode)
    cost_name, cost_of = cost_model(cost)
    make_sampler = _sampler(sampler)
    identity = scorer.fingerprint(args.model_dump(mode="json"), space.choices, scorer.name, cost_name, seed, sampler)

    def attempt(chosen: Mapping[str, int]) -> tuple[float, float]:
        made = scorer.quantised(space.quantize(chosen))
        return scorer.score(made), float(cost_of(made))

    with _quiet():
        study = _study(storage, scorer.higher_is_better, identity)
        _run(
            study, space, attempt, trials, lambda count: make_sampler(_seed(seed, count)), progress or (lambda _: None)
        )
        done = _completed(study)
    points = {_key(space, t.params): Point(_chosen(space, t.params), t.values[0], t.values[1]) for t in reversed(done)}
    ordered = tuple(points[key] for key in dict.fromkeys(_key(space, t.params) for t in done))
    front = tuple(pareto_front(ordered, scorer.higher_is_better))
    plans = tuple(space.quantize(point.widths) for point in front)
    return WidthSearch(ordered, front, len(done), scorer.name, cost_name, scorer.higher_is_better, plans)


def _run(
    study: Study,
    space: WidthSpace,
    attempt: Callable[[Mapping[str, int]], tuple[float, float]],
    trials: int,
    sampler: Callable[[int], BaseSampler],
    tell: Tell,
) -> None:
    import optuna

    distributions = {
        name: optuna.distributions.IntDistribution(0, len(choice) - 1) for name, choice in space.choices.items()
    }
    known = {_key(space, t.params): (t.values[0], t.values[1]) for t in _completed(study)}
    for count in range(len(_completed(study)), trials):
        if count < len(space.uniform):
            params = {name: space.choices[name].index(w) for name, w in space.uniform[count].items()}
            values = attempt(space.uniform[count])
            study.add_trial(optuna.trial.create_trial(params=params, distributions=dict(distributions), values=values))
        else:
            study.sampler = sampler(count)
            trial = study.ask(dict(distributions))
            params = dict(trial.params)
            try:
                values = known.get(_key(space, params)) or attempt(_chosen(space, params))
            except BaseException:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                raise
            study.tell(trial, values)
        known[_key(space, params)] = values
        tell(f"trial {count + 1} of {trials}: score {values[0]:.6g}, cost {values[1]:.6g}")


def _study(storage: str | Path | None, higher_is_better: bool, identity: str) -> Study:
    import optuna

    place = None
    if storage is not None:
        file = Path(storage)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            place = optuna.storages.JournalStorage(_journal(file))
        except (OSError, ValueError) as error:
            raise ConfigError(
                "the storage of a search cannot be used", node=str(file), field="storage", got=str(error)
            ) from error
    better = optuna.study.StudyDirection.MAXIMIZE if higher_is_better else optuna.study.StudyDirection.MINIMIZE
    study = optuna.create_study(
        study_name="widths",
        storage=place,
        directions=[better, optuna.study.StudyDirection.MINIMIZE],
        load_if_exists=True,
    )
    kept = study.user_attrs.get("identity")
    if kept is None:
        study.set_user_attr("identity", identity)
    elif kept != identity:
        raise ConfigError(
            "the storage holds the search of another network, configuration, criterion, cost or seed",
            node=str(storage),
            field="storage",
            remedy="name another file, or delete this one",
        )
    return study


def _journal(file: Path) -> BaseJournalBackend:
    """A journal whose entries are written whole, and whose lock is given back, also when Ctrl-C comes meanwhile."""
    from optuna.storages.journal import JournalFileBackend

    journal = JournalFileBackend(str(file))
    write = journal.append_logs

    def append(logs: list[dict[str, object]]) -> None:
        with _uninterrupted():
            write(logs)

    journal.append_logs = append
    return journal


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is answered behind the block; outside the main thread nothing has to be done, as it is answered there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])


def _completed(study: Study) -> list[Any]:
    import optuna

    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))


def _sampler(name: str) -> Callable[[int], BaseSampler]:
    try:
        from optuna import samplers
    except ImportError as error:
        raise ToolError(
            "searching widths needs Optuna",
            node="optuna",
            got=str(error),
            remedy="pip install 'mase-hw[search]'",
        ) from error
    known: dict[str, Callable[[int], BaseSampler]] = {
        "nsga2": lambda seed: samplers.NSGAIISampler(population_size=POPULATION, seed=seed),
        "tpe": lambda seed: samplers.TPESampler(seed=seed),
        "random": lambda seed: samplers.RandomSampler(seed=seed),
    }
    if name not in known:
        raise ConfigError("there is no such sampler", field="sampler", got=name, remedy=suggest(str(name), known))
    return known[name]


def _seed(seed: int, count: int) -> int:
    """An independent seed for every trial, so that a search can be continued from the number of trials alone."""
    return int(np.random.SeedSequence([seed, count]).generate_state(1)[0])


def _chosen(space: WidthSpace, params: Mapping[str, int]) -> dict[str, int]:
    return {name: choice[params[name]] for name, choice in space.choices.items()}


def _key(space: WidthSpace, params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(params[name]) for name in space.choices)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's own messages; its level of logging is restored."""
    from optuna import logging

    level = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(level)
