"""What a sampler looks at stays bounded, and is good enough to find a front."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.host.pools import HerePool
from mase_hw.search.history import BEST, GROWTH, LATEST, POPULATION, REDRAWS, History, crowding, nondominated
from mase_hw.search.study import Chosen, Outcome, Rules, Trial, run_trials

pytest.importorskip("optuna")
VARIABLES = {f"v{i}": tuple(range(6)) for i in range(8)}
RULES: dict[str, Any] = {
    "choices": VARIABLES, "ordered": frozenset(VARIABLES), "starts": [], "against": ("a", "b"),
    "higher_is_better": False, "seed": 3, "window": 8, "identity": "stub",
}  # fmt: skip


def stub(chosen: Chosen) -> Outcome:
    """Three numbers that pull in different directions; some configurations are refused."""
    values = [int(value) for value in chosen.values()]
    if values[0] == values[1] == 5:
        return Outcome(None, reason="refused")
    near = [sum((value - at) ** 2 for value in values) for at in (0, 2.5, 5)]
    return Outcome(near[0], {"a": near[1], "b": near[2]})


@pytest.mark.parametrize("sampler", ["nsga2", "tpe", "random"])
def test_the_study_of_a_sampler_is_bounded(sampler: str) -> None:
    """However many trials there were; and proposals depend on nothing but the trials before them."""
    made = [History(dict.fromkeys(VARIABLES, 6), frozenset(VARIABLES), 3, sampler, 1) for _ in range(2)]
    draw = random.Random(0)
    for number in range(2 * GROWTH + 3 * POPULATION + 8):
        params = {name: draw.randrange(6) for name in VARIABLES}
        outcome = stub(params)
        values = None if outcome.score is None else (outcome.score, outcome.measures["a"], outcome.measures["b"])
        for history in made:
            history.add(params, values)
        if number % 7 == 0:
            made[0].propose(10_000 + number)  # a question to one of them alone
        trials = made[0]._study.get_trials(deepcopy=False)
        assert len(trials) <= BEST + LATEST + 2 * GROWTH
    proposed = [[history.propose(number) for number in range(12)] for history in made]
    assert proposed[0] == proposed[1] and made[0].propose(0, REDRAWS) != made[0].propose(1, REDRAWS)


@pytest.mark.parametrize("seed", range(3))
def test_a_front_is_found(seed: int) -> None:
    """Of a space of 1.7 million: NSGA-II with its bounded history dominates more than random choices do."""
    volumes = {}
    for sampler in ("nsga2", "random"):
        rules = Rules(sampler=sampler, **RULES | {"seed": seed})
        records = run_trials(rules, 700, lambda t: stub(t.chosen), HerePool(), None, print)
        outcomes = [outcome for _, outcome in records.values() if outcome.score is not None]
        points = np.array([(o.score, o.measures["a"], o.measures["b"]) for o in outcomes], dtype=float)
        draw = np.random.default_rng(0).uniform(0, 200, (4000, 3))
        volumes[sampler] = np.mean([(points <= at).all(axis=1).any() for at in draw])
    assert volumes["nsga2"] > volumes["random"], volumes


def test_repetitions_are_tried_once() -> None:
    """Of a space of 36 all are tried, each once, though there are more trials."""
    rules = {**RULES, "choices": {n: VARIABLES[n] for n in ("v0", "v1")}, "ordered": frozenset({"v0"})}
    calls: list[str] = []

    def run(trial: Trial) -> Outcome:
        calls.append(trial.digest)
        return stub(trial.chosen)

    records = run_trials(Rules(sampler="random", **rules), 200, run, HerePool(), None, print)
    assert len(records) == 200 and len(set(calls)) == len(calls) == 36
    assert all(outcome == stub(trial.chosen) for trial, outcome in records.values())


def test_a_journal_with_a_trial_twice(tmp_path: Path) -> None:
    run_trials(Rules(sampler="random", **RULES), 6, lambda t: stub(t.chosen), HerePool(), tmp_path, print)
    journal = tmp_path / "trials.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines, lines[-1]]))
    with pytest.raises(Exception, match="holds a trial twice"):
        run_trials(Rules(sampler="random", **RULES), 6, lambda t: stub(t.chosen), HerePool(), tmp_path, print)


@pytest.mark.parametrize("seed", range(10))
def test_what_nothing_beats(seed: int) -> None:
    draw = random.Random(seed)
    values = [tuple(float(draw.randrange(4)) for _ in range(3)) for _ in range(40)]
    found = nondominated(values)
    for index, mine in enumerate(values):
        better = [all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in values]
        assert (index in found) == (not any(better) and values.index(mine) == index)


def test_crowding() -> None:
    """By hand: the ends are kept, and between them the sum of the sides of the box between neighbours."""
    values = np.array([[0.0, 4.0], [1.0, 3.0], [3.0, 1.0], [4.0, 0.0]])
    assert crowding(values).tolist() == [np.inf, 3 / 4 + 3 / 4, 3 / 4 + 3 / 4, np.inf]
    assert all(np.isinf(crowding(values[list(p)])).sum() == 2 for p in itertools.permutations(range(4)))
