"""What a sampler looks at: a bounded part of the trials, so that a trial costs the same however many there were.

Optuna's samplers for several objectives read every trial that a study has whenever they are asked. So they are given
a study of their own, in memory, that holds the best trials so far (those that no other one beats, and of many the
least crowded) and the latest ones, and that is made anew from these when it has grown.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mase_hw.errors import refuse_unknown
from mase_hw.host.toolchain import of_extra

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler

POPULATION = 32
"""Of NSGA-II."""
BEST, LATEST = 128, 128
"""Trials that are kept when the study of a sampler is made anew."""
GROWTH = 256
"""Trials after which it is."""
REDRAWS = 4
"""How often the sampler is asked for another choice in place of one that was tried."""
SAMPLERS = ("nsga2", "tpe", "random")
Params = dict[str, int]
Values = tuple[float, ...]


class History:
    """Trials as far as the next one depends on them.

    Args:
        sizes: Choices of every variable.
        ordered: Variables whose neighbouring choices are alike, such as widths.
        objectives: Numbers of a trial, all to be least.
        sampler: A name of :data:`SAMPLERS`.
        seed: Of the sampler.

    Raises:
        ToolError: If Optuna is not installed.
        ConfigError: If there is no such sampler.
    """

    def __init__(
        self, sizes: Mapping[str, int], ordered: frozenset[str], objectives: int, sampler: str, seed: int
    ) -> None:
        self._make, self._seed, self._objectives = _sampler(sampler), seed, objectives
        self._random, self._fixed = _sampler("random"), sampler == "nsga2"
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self.distributions: dict[str, Any] = {
            name: IntDistribution(0, size - 1) if name in ordered else CategoricalDistribution(range(size))
            for name, size in sizes.items()
        }
        self._space = {name: each for name, each in self.distributions.items() if not each.single()}
        self._best: list[tuple[int, Params, Values]] = []
        self._latest: deque[tuple[int, Params, Values | None]] = deque(maxlen=LATEST)
        self._count = self._since = self._good = self._parents = 0
        self._filled: dict[int, int] = {}
        self._study = self._new()

    def add(self, params: Params, values: Values | None) -> None:
        """Take a trial into account, in the order of their numbers; ``values`` is None if it was pruned."""
        each = (self._count, params, values)
        self._count += 1
        self._latest.append(each)
        if values is not None:
            self._good += 1
            self._improve(self._count - 1, params, values)
        self._since += 1
        if self._since >= GROWTH:
            self._renew()
        else:
            self._enter(params, values, 0 if values is None else self._generation())

    def propose(self, number: int, attempt: int = 0) -> Params:
        """Choices of a trial, by variable; the same for the same trials before it.

        Args:
            number: Of the trial.
            attempt: How often what was proposed for it had been tried; in the end the choice is random, as some
                samplers propose what they have no reason to leave.
        """
        import optuna

        with quiet():
            self._select_parents()
            sampler = (self._make if attempt < REDRAWS else self._random)(seed_of(self._seed, number, attempt))
            if self._fixed and attempt < REDRAWS:  # else it would compare all trials to find what variables they have
                sampler.infer_relative_search_space = lambda *_: self._space  # type: ignore[method-assign]
            self._study.sampler = sampler
            trial = self._study.ask(dict(self.distributions))
            params = {name: int(value) for name, value in trial.params.items()}
            # What comes of it is added later, in order; here it is only a question.
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return params

    def _select_parents(self) -> None:
        """Let NSGA-II choose the parents of every generation, one after the other, before it is asked.

        It keeps them, and gives them in another order when it has just chosen them: proposals would depend on whether
        a question of the same generation was asked before, by a search that went on without a break.
        """
        if not self._fixed or not self._filled:
            return
        last = max(self._filled)
        for generation in range(self._parents + 1, last + (self._filled[last] >= POPULATION) + 1):
            self._make(0).get_parent_population(self._study, generation)  # type: ignore[attr-defined]
            self._parents = generation

    def _generation(self) -> int:
        """That of NSGA-II; what was kept when the study was made is the first."""
        return (self._good - 1) // POPULATION

    def _improve(self, number: int, params: Params, values: Values) -> None:
        """Keep the trials that no other one beats, the first of equal ones; of too many the least crowded."""
        if self._best:
            known = np.array([v for _, _, v in self._best])
            mine = np.array(values)
            if (known <= mine).all(axis=1).any():
                return
            beaten = [bool(each) for each in np.atleast_1d((mine <= known).all(axis=1))]
            self._best = [each for each, gone in zip(self._best, beaten, strict=True) if not gone]
        self._best.append((number, params, values))
        if len(self._best) > BEST:
            del self._best[int(np.argmin(crowding(np.array([v for _, _, v in self._best]))))]

    def _renew(self) -> None:
        self._study = self._new()
        kept: dict[int, tuple[Params, Values | None]] = {number: (p, v) for number, p, v in self._best}
        kept |= {number: (p, v) for number, p, v in self._latest}
        for number in sorted(kept):
            self._enter(*kept[number], 0)
        self._since = 0
        self._good = POPULATION  # the next one is of the generation after what was kept

    def _enter(self, params: Params, values: Values | None, generation: int) -> None:
        from optuna.samplers import NSGAIISampler
        from optuna.trial import TrialState, create_trial

        if values is not None:
            self._filled[generation] = self._filled.get(generation, 0) + 1
        state = TrialState.PRUNED if values is None else TrialState.COMPLETE
        of = {} if values is None else {f"{NSGAIISampler.__name__}:generation": generation}
        self._study.add_trial(
            create_trial(
                state=state, params=params, distributions=self.distributions, values=values, system_attrs=of
            )
        )  # fmt: skip

    def _new(self) -> Study:
        import optuna

        self._filled, self._parents = {}, 0
        with quiet():
            return optuna.create_study(directions=["minimize"] * self._objectives)


def crowding(values: Any) -> Any:
    """How far apart the neighbours of every point are, summed over the objectives (Deb et al. 2002, NSGA-II).

    Args:
        values: Points by row, objectives by column.
    """
    found = np.zeros(len(values))
    for column in values.T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        span = ordered[-1] - ordered[0]
        found[order[0]] = found[order[-1]] = np.inf
        if np.isfinite(span) and span > 0:
            found[order[1:-1]] += (ordered[2:] - ordered[:-2]) / span
    return found


def seed_of(*numbers: int) -> int:
    """An independent seed for every trial, so that a search can be continued from the number of trials alone."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1)[0])


def digest_of(*parts: str) -> str:
    """A hash by which a trial is known."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's own messages; its level of logging is restored."""
    from optuna import logging

    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _sampler(name: str) -> Callable[[int], BaseSampler]:
    samplers = of_extra("search", "optuna.samplers", "a search by trials needs Optuna", node="optuna")
    known: dict[str, Callable[[int], BaseSampler]] = {
        "nsga2": lambda seed: samplers.NSGAIISampler(population_size=POPULATION, seed=seed),
        "tpe": lambda seed: samplers.TPESampler(seed=seed),
        "random": lambda seed: samplers.RandomSampler(seed=seed),
    }
    refuse_unknown(name, known, "there is no such sampler", field="sampler")
    return known[name]


def nondominated(values: Sequence[Values]) -> list[int]:
    """Indices of the points that no other one beats, the first of equal ones, in order; all numbers are to be least.

    A point with NaN is none.
    """
    points = np.array(values, dtype=float)
    front = np.empty(0, dtype=np.int64)
    for index, mine in enumerate(points):
        if np.isnan(mine).any():
            continue
        known = points[front]
        if len(front) and (known <= mine).all(axis=1).any():
            continue
        front = np.append(front[~(mine <= known).all(axis=1)] if len(front) else front, index)
    return [int(each) for each in front]
