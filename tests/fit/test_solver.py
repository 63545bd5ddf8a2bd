"""The solver against every choice there is, and against divisors of sizes chosen layer by layer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from mase_hw.errors import UnsupportedError
from mase_hw.fit import cp_sat, elimination
from mase_hw.fit.budget import Impossible, Solution, solve
from mase_hw.fit.candidates import tile_lanes
from mase_hw.fit.elimination import TooManyError, below, cheapest
from mase_hw.fit.problem import Edge, Problem

MEASURES = 3


def network(rng: np.random.Generator) -> Problem:
    """A chain with up to two further edges, of which some pairs of lanes are impossible."""
    names = [f"n{i}" for i in range(int(rng.integers(2, 7)))]
    lanes = {name: rng.integers(0, 3, rng.integers(1, 5)) for name in names}
    prices = {name: rng.integers(0, 50, (len(of), MEASURES)) for name, of in lanes.items()}
    pairs = [*itertools.pairwise(names)]
    for _ in range(int(rng.integers(0, 3))):
        first, second = sorted(rng.choice(len(names), 2, replace=False))
        pairs.append((names[first], names[second]))
    edges = [
        Edge((a, b), lanes[a], lanes[b], rng.integers(0, 20, (3, 3, MEASURES)), rng.random((3, 3)) < 0.9)
        for a, b in pairs
    ]
    return Problem(prices, edges)


def exhaustive(problem: Problem, weights: np.ndarray, budgets: Mapping[int, int]) -> int | None:
    """The least weighed sum of all choices, prices added up one by one."""
    found = []
    for numbers in itertools.product(*(range(len(of)) for of in problem.prices.values())):
        chosen = dict(zip(problem.prices, numbers, strict=True))
        sums = [sum(int(problem.prices[n][i][m]) for n, i in chosen.items()) for m in range(MEASURES)]
        pairs = [(e, e.rows[chosen[e.ends[0]]], e.columns[chosen[e.ends[1]]]) for e in problem.edges]
        if not all(edge.possible[row, column] for edge, row, column in pairs):
            continue
        sums = [s + sum(int(e.prices[r, c][m]) for e, r, c in pairs) for m, s in enumerate(sums)]
        if all(sums[m] <= most for m, most in budgets.items()):
            found.append(sum(s * int(w) for s, w in zip(sums, weights, strict=True)))
    return min(found, default=None)


def test_the_solver_equals_exhaustive_search() -> None:
    seen = {"free": 0, "within": 0, "beyond": 0}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        problem, weights = network(rng), rng.integers(0, 5, MEASURES)
        free, least = cheapest(problem, weights), exhaustive(problem, weights, {})
        if free is None or least is None:
            assert free is None and least is None, seed
            continue
        total = problem.total(free[0])
        assert total is not None and int(total @ weights) == free[1] == least, seed
        seen["free"] += 1
        budgets = {m: int(total[m] * rng.uniform(0.7, 1.6)) for m in range(MEASURES) if rng.random() < 0.6}
        found, least = solve(problem, weights, budgets), exhaustive(problem, weights, budgets)
        if least is None:
            assert isinstance(found, Impossible) and found.proven, seed
            seen["beyond"] += 1
            continue
        assert isinstance(found, Solution) and found.proven and found.value == least, seed
        assert all(found.total[m] <= most for m, most in budgets.items())
        seen["within"] += 1
    assert min(seen.values()) > 15, seen


def test_counting_what_is_left_equals_exhaustive_search() -> None:
    """With any prices of budgets, and whatever is known already: only how much is looked at depends on them."""
    seen = {"better": 0, "none": 0}
    for seed in range(120):
        rng = np.random.default_rng(2000 + seed)
        problem, weights = network(rng), rng.integers(0, 5, MEASURES)
        free = cheapest(problem, weights)
        total = None if free is None else problem.total(free[0])
        if total is None:
            continue
        budgets = {m: int(total[m] * rng.uniform(0.7, 1.4)) for m in range(MEASURES) if rng.random() < 0.7}
        least = exhaustive(problem, weights, budgets)
        value = int(total @ weights) + 1 if least is None else least + int(rng.integers(-1, 30))
        found = below(problem, weights, budgets, rng.integers(0, 4, MEASURES), value)
        if least is None or least >= value:
            assert found is None, seed
            seen["none"] += 1
            continue
        assert found is not None and set(found) == set(problem.prices), seed
        total = problem.total(found)
        assert total is not None and int(total @ weights) == least, seed
        assert all(total[m] <= most for m, most in budgets.items()), seed
        seen["better"] += 1
    assert min(seen.values()) > 20, seen


def test_layers_that_are_alike_are_counted_together() -> None:
    """40 alike nodes with two candidates each: 2^40 choices, of which 41 sums differ."""
    names = [f"n{i}" for i in range(40)]
    prices = np.array([[30, 1], [10, 4]])
    problem = Problem({name: prices for name in names}, [])
    found = solve(problem, np.array([1, 0]), {1: 79})
    assert isinstance(found, Solution) and found.proven
    assert found.value == 27 * 30 + 13 * 10 and found.total.tolist() == [940, 79]
    with pytest.raises(TooManyError):
        rng = np.random.default_rng(0)
        unlike = Problem({name: rng.integers(1, 10**6, (8, 3)) for name in names}, [])
        below(unlike, np.array([1, 0, 0]), {1: 10**7, 2: 10**7}, np.zeros(3, dtype=np.int64), 10**9)


def test_a_bound_holds_when_the_search_is_cut_short() -> None:
    open_ends = 0
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        problem, weights = network(rng), np.array([1, 0, 0])
        free = cheapest(problem, np.array([0, 1, 1]))
        total = None if free is None else problem.total(free[0])
        if total is None:
            continue
        budgets = {m: int(total[m] * rng.uniform(1.0, 1.3)) for m in (1, 2)}
        found, least = solve(problem, weights, budgets, halves=0), exhaustive(problem, weights, budgets)
        if isinstance(found, Solution):
            assert least is not None and found.bound <= least <= found.value
            open_ends += not found.proven
        elif found.proven:
            assert least is None
    assert open_ends


def test_a_chain_of_sixty_layers_is_one_elimination_each() -> None:
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in range(60)]
    lanes = rng.integers(0, 15, (60, 200))
    prices = {name: rng.integers(0, 1000, (200, MEASURES)) for name in names}
    edges = [
        Edge((a, b), lanes[i], lanes[i + 1], rng.integers(0, 100, (15, 15, MEASURES)), np.ones((15, 15), np.bool_))
        for i, (a, b) in enumerate(itertools.pairwise(names))
    ]
    weights = np.array([1, 2, 3])
    found = cheapest(Problem(prices, edges), weights)
    assert found is not None
    best = {int(x): int((prices["n0"] @ weights)[lanes[0] == x].min()) for x in set(lanes[0].tolist())}
    for i, edge in enumerate(edges):  # from one end to the other, by lanes
        own, step = prices[names[i + 1]] @ weights, edge.prices @ weights
        after: dict[int, int] = {}
        for candidate, lane in enumerate(lanes[i + 1].tolist()):
            came = min(value + int(step[x, lane]) for x, value in best.items())
            after[lane] = min(after.get(lane, 1 << 60), came + int(own[candidate]))
        best = after
    assert found[1] == min(best.values())


def test_tables_beyond_reason_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "LARGEST", 1)
    with pytest.raises(UnsupportedError, match="too many branches"):
        cheapest(network(np.random.default_rng(3)), np.ones(MEASURES, dtype=np.int64))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 64, 97, 640])
def test_lanes_are_the_fewest_for_every_number_of_tiles(size: int) -> None:
    every = {-(-size // lanes) for lanes in range(1, size + 1)}
    expected = [min(n for n in range(1, size + 1) if -(-size // n) == tiles) for tiles in every]
    assert tile_lanes(size) == sorted(expected)
    assert {n for n in range(1, size + 1) if size % n == 0} <= set(tile_lanes(size))


def test_cp_sat_finds_the_same() -> None:
    """Where the extra is installed: the second, independent way to the same optimum."""
    pytest.importorskip("ortools", reason="needs the extra fit: pip install 'mase-hw[fit]'")
    for seed in range(40):
        rng = np.random.default_rng(500 + seed)
        problem, weights = network(rng), rng.integers(0, 5, MEASURES)
        budgets = {m: int(rng.integers(60, 300)) for m in range(MEASURES)}
        chosen, bound = cp_sat.solve(problem, weights, budgets, None)
        least = exhaustive(problem, weights, budgets)
        if least is None:
            assert chosen is None and bound is None
            continue
        assert chosen is not None
        total = problem.total(chosen)
        assert total is not None and int(total @ weights) == least == bound, seed


def test_cp_sat_takes_over_where_tables_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ortools", reason="needs the extra fit: pip install 'mase-hw[fit]'")
    monkeypatch.setattr(elimination, "LARGEST", 1)
    problem, weights = network(np.random.default_rng(7)), np.ones(MEASURES, dtype=np.int64)
    found = solve(problem, weights, {0: 10_000})
    assert isinstance(found, Solution) and found.proven and found.value == exhaustive(problem, weights, {0: 10_000})
    none = solve(problem, weights, {0: 60})
    assert isinstance(none, Impossible) and none.proven and exhaustive(problem, weights, {0: 60}) is None
