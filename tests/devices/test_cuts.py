"""The search for cuts against every run solved and every way to cut, on runs whose costs are drawn at random."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from mase_hw.devices.cuts import NEVER, RELAXED, SOLVED, Search
from mase_hw.fit.budget import Impossible, Solution, solve
from mase_hw.fit.problem import SHARE, Problem

LAYERS, DEVICES, SEEDS = 6, 3, 40
Answer = Solution | Impossible


def costs(
    rng: np.random.Generator, slack: int, ends: int = 0
) -> tuple[Search, Callable[..., Answer], Callable[..., bool]]:
    """Runs of which each costs a share of its layers more; two kinds of devices, of unlike room.

    Args:
        rng: Draws them.
        slack: What is left open of a run at most.
        ends: What a cut behind some layers makes a run cost more at most, but no longer one.
    """
    layers, kinds = rng.integers(1, 50, LAYERS), [0, 1, 0]
    more, room = rng.integers(0, 9, (LAYERS + 1, LAYERS + 1)), rng.integers(60, 220, 2)
    open_ = rng.integers(0, slack + 1, (LAYERS + 1, LAYERS + 1))
    forbidden = rng.random((LAYERS + 1, LAYERS + 1, DEVICES)) < 0.15
    dear = np.where(rng.random(LAYERS + 1) < 0.5, rng.integers(0, ends + 1, LAYERS + 1), 0)
    dear[LAYERS] = 0

    def least(low: int, high: int, kind: int) -> int | None:
        taken = int(layers[low:high].sum())
        return None if taken > room[kind] else taken

    def solve(low: int, high: int, kind: int, closely: bool = True) -> Answer:
        # What stands between layers makes a run of more of them no cheaper.
        taken = int(layers[low:high].sum() + more[:, :high][low:high].sum() + dear[high])
        if taken > room[kind]:
            found: Answer = Impossible(closely, None, 0 if closely else taken // 2)
            return found
        gap = int(open_[low, high])
        value, bound = (taken + gap, taken) if closely else (taken + gap + 5, taken - min(taken, 4))
        return Solution({}, np.zeros(0, dtype=np.int64), value, bound)

    def allowed(low: int, high: int, device: int) -> bool:
        return not bool(forbidden[low, high, device])

    search = Search(range(LAYERS + 1), kinds, allowed, least, solve, lambda _: None, lambda _, high, __: not dear[high])
    return search, solve, allowed


def every(search: Search, solve: Callable[..., Answer], allowed: Callable[..., bool]) -> tuple[int, int]:
    """The least value and the least bound of all ways to cut, all runs solved."""
    values, bounds = [NEVER], [NEVER]
    for between in itertools.combinations_with_replacement(range(LAYERS + 1), DEVICES - 1):
        runs = list(zip((0, *between), (*between, LAYERS), range(DEVICES), strict=True))
        runs = [run for run in runs if run[0] < run[1]]
        solved = [solve(low, high, search.kinds[device]) for low, high, device in runs]
        if all(allowed(*run) for run in runs) and all(isinstance(each, Solution) for each in solved):
            values.append(sum(each.value for each in solved if isinstance(each, Solution)))
            bounds.append(sum(each.bound for each in solved if isinstance(each, Solution)))
    return min(values), min(bounds)


@pytest.mark.parametrize(("slack", "ends"), [(0, 0), (12, 0), (12, 90)])
def test_as_if_every_run_were_solved(slack: int, ends: int) -> None:
    """Value and bound are those of all runs solved, and most of them are not."""
    solved, impossible = 0, 0
    for seed in range(SEEDS):
        search, solve, allowed = costs(np.random.default_rng(seed), slack, ends)
        found = search.best(DEVICES, LAYERS)
        value, bound = every(search, solve, allowed)
        assert (found.value, found.bound) == (value, min(value, bound)), seed
        if found.ends is None:
            impossible += 1
            continue
        runs = list(zip((0, *found.ends), found.ends, range(DEVICES), strict=False))
        answers = [solve(low, high, search.kinds[device]) for low, high, device in runs if low < high]
        assert sum(each.value for each in answers if isinstance(each, Solution)) == value
        solved += search.looked[SOLVED]
    assert 0 < impossible < SEEDS // 2
    # There are 42 runs, 21 on each kind of device.
    assert solved / (SEEDS - impossible) < 42 / 2


def test_a_gap_that_is_enough() -> None:
    """The search ends as soon as value and bound are so near, and what it says of both is true."""
    looked = {0.0: 0, 0.2: 0}
    for seed in range(SEEDS):
        for gap in looked:
            search, solve, allowed = costs(np.random.default_rng(seed), 0)
            found = search.best(DEVICES, LAYERS, gap)
            best, _ = every(search, solve, allowed)
            assert found.bound <= best <= found.value
            if found.ends is not None:
                assert found.value - found.bound <= gap * found.value
            looked[gap] += search.looked[RELAXED] + search.looked[SOLVED]
    assert looked[0.2] < looked[0.0]


def test_words_have_a_price() -> None:
    """Thirty layers share a million words: what a word costs is far less than what a look-up table does."""
    layers = {
        f"n{i}": np.array([[900 + 7 * i, 0], [50 + i, 120_000 + 1000 * i], [300 + 3 * i, 60_000]]) for i in range(30)
    }
    weights = np.array([SHARE // 134_600 + 1, 0])
    found = solve(Problem(layers, []), weights, {0: 134_600, 1: 1_000_000}, 0)
    assert isinstance(found, Solution) and found.gap < 0.1
