"""The cheapest choice within budgets, with a proof.

Budgets couple all nodes, so that no elimination alone decides. Each budget gets a price (a Lagrange multiplier), and
the cheapest choice under these prices is a bound for every choice within the budgets (M. Fisher, "The Lagrangian
relaxation method for solving integer programming problems", Management Science 1981). Where the best choice found and
the best bound differ, the candidates of a node are divided and both halves are solved (branch and bound). What is then
still open goes to CP-SAT, where it is installed.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mase_hw.errors import UnsupportedError
from mase_hw.fit import cp_sat
from mase_hw.fit.elimination import Elimination, TooManyError, below, restricted
from mase_hw.fit.problem import Numbers, Problem

ROUNDS, FINEST = 120, 1 / 1024
"""Changes of the prices of budgets before candidates are divided, and the share of a full step that ends them."""
ROUNDS_OF_HALVES, FINEST_OF_HALVES = 40, 1 / 16
"""The same where candidates were divided: prices begin with good ones."""
PRICE = 1 << 24
"""Of a whole budget where nothing else has a price."""
FIRST = 8
"""Divided problems that are solved before all choices are looked at, where any one within the budgets will do."""
HALVES = 60
"""Divided problems that are solved before the bound is reported as it is."""
SHARES = (1 / 256, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
"""Of the gap, in which all choices are looked at before the next one."""


@dataclass(frozen=True)
class Solution:
    """A choice within the budgets.

    Args:
        chosen: A candidate of every node.
        total: What it takes of every measure.
        value: The weighed sum that was to be least.
        bound: No choice within the budgets has a lower one.
    """

    chosen: Mapping[str, int]
    total: Numbers
    value: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether no choice is better."""
        return self.bound >= self.value

    @property
    def gap(self) -> float:
        """By how much a better choice could be better at most, as a share of the bound."""
        return 0.0 if self.proven else (self.value - self.bound) / max(abs(self.bound), 1)


@dataclass(frozen=True)
class Impossible:
    """No choice was found.

    Args:
        proven: Whether there is none.
        nearest: The choice that exceeds the budgets least, as a share of them; None if nothing can be built.
        bound: If there is one, its weighed sum is not lower.
    """

    proven: bool
    nearest: Numbers | None
    bound: int = 0


@dataclass
class _Best:
    """What is known so far of a problem and its halves."""

    chosen: dict[str, int] | None = None
    total: Numbers | None = None
    value: int = 1 << 62
    nearest: Numbers | None = None
    excess: float = float("inf")

    def take(self, chosen: dict[str, int], problem: Problem, weights: Numbers) -> None:
        """Keep a choice within the budgets if it is better."""
        total = problem.total(chosen)
        if total is not None and int(total @ weights) < self.value:
            self.chosen, self.total, self.value = chosen, total, int(total @ weights)


@dataclass(frozen=True)
class _Half:
    """A problem of which some candidates are left out, and what its relaxation says."""

    kept: Mapping[str, Numbers]
    prices: Numbers
    bound: int
    within: dict[str, int] | None
    beyond: dict[str, int] | None


def solve(
    problem: Problem, weights: Numbers, budgets: Mapping[int, int], halves: int = HALVES
) -> Solution | Impossible:
    """The choice within budgets whose weighed sum is least.

    Args:
        problem: The choice.
        weights: Of every measure, not negative; all 0 if any choice within the budgets will do.
        budgets: Most of a measure, by its number.
        halves: Divided problems that are solved before the bound is reported as it is.

    Raises:
        UnsupportedError: If the network is too entangled for exact elimination.
    """
    best = _Best()
    search = _Search(problem, weights, budgets, best)
    everything = {name: np.arange(len(prices)) for name, prices in problem.prices.items()}
    try:
        root = search.relaxed(everything, search.first)
    except UnsupportedError:
        if not cp_sat.installed():
            raise
        return _by_cp_sat(problem, weights, budgets, best, -(1 << 62))
    if root is None:
        return Impossible(True, best.nearest)
    if halves and root.bound < best.value and not search.any_will_do:
        left = search.closed(root)
        if left is None:
            return _answer(best, best.value, proven=True)
        root = left
    counter = itertools.count()
    heap = [(root.bound, next(counter), root)]
    solved = 0
    while heap and heap[0][0] < best.value and solved < halves and not search.satisfied:
        if solved == FIRST and search.any_will_do and search.closed(root) is None:
            return _answer(best, best.value, proven=True)
        half = heapq.heappop(heap)[2]
        for kept in search.divided(half):
            solved += 1
            found = search.relaxed(kept, half.prices)
            if found is not None and found.bound < best.value:
                heapq.heappush(heap, (max(found.bound, half.bound), next(counter), found))
    bound = best.value if search.satisfied else min([best.value, *(entry[0] for entry in heap)])
    if bound < best.value and halves and cp_sat.installed():
        return _by_cp_sat(problem, weights, budgets, best, bound)
    return _answer(best, bound, proven=not heap)


def _answer(best: _Best, bound: int, *, proven: bool) -> Solution | Impossible:
    """What is known at the end; ``proven`` says whether there is none if none was found."""
    if best.chosen is None or best.total is None:
        return Impossible(proven, best.nearest, max(bound, 0))
    return Solution(best.chosen, best.total, best.value, min(bound, best.value))


def _by_cp_sat(
    problem: Problem, weights: Numbers, budgets: Mapping[int, int], best: _Best, bound: int
) -> Solution | Impossible:
    chosen, proven = cp_sat.solve(problem, weights, budgets, best.chosen)
    if chosen is not None:
        best.take(chosen, problem, weights)
    return _answer(best, bound if proven is None else max(bound, proven), proven=proven is None)


class _Search:
    """Solves relaxations of a problem and its halves."""

    def __init__(self, problem: Problem, weights: Numbers, budgets: Mapping[int, int], best: _Best) -> None:
        self.problem, self.weights, self.best = problem, weights, best
        self.at = np.array(sorted(budgets), dtype=np.int64)
        self.most = np.array([budgets[int(i)] for i in self.at], dtype=np.int64)
        self.first: Numbers = np.zeros(problem.measures, dtype=np.int64)
        self.unit = 1 << 10
        self.any_will_do = not weights.any()
        if self.any_will_do:
            # Any choice within the budgets will do: prices alone say how near one is.
            self.first[self.at] = PRICE // np.maximum(self.most, 1)
            self.unit = PRICE >> 4

    @property
    def satisfied(self) -> bool:
        """Whether a choice is found where each one within the budgets is as good as every other."""
        return self.any_will_do and self.best.chosen is not None

    def relaxed(self, kept: Mapping[str, Numbers], prices: Numbers) -> _Half | None:
        """Follow the prices of budgets upwards to a good bound; None if no choice is within the budgets."""
        program = Elimination(restricted(self.problem, kept))
        top = -(1 << 62)
        scale = 1.0
        within = beyond = None
        steady = 0
        best_prices = prices
        rounds, finest = (ROUNDS, FINEST) if prices is self.first else (ROUNDS_OF_HALVES, FINEST_OF_HALVES)
        for _ in range(rounds):
            found = program.cheapest(self.weights + prices)
            if found is None:
                return None
            chosen = {name: int(kept[name][i]) for name, i in found[0].items()}
            total = self.problem.total(chosen)
            assert total is not None  # the elimination leaves out what is impossible
            bound = found[1] - int(prices[self.at] @ self.most)
            over = total[self.at] - self.most
            self._note(chosen, total, over)
            if (over <= 0).all():
                within = chosen
            else:
                beyond = chosen
            if bound > top:
                top, best_prices, steady = bound, prices.copy(), 0
            else:
                steady += 1
                if steady == 3:
                    scale, steady = scale / 2, 0
                    if scale < finest:
                        break
            if top >= self.best.value or not len(self.at) or self._hopeless(top) or self.satisfied:
                break
            share = over / np.maximum(self.most, 1)
            moving = np.where((prices[self.at] == 0) & (share <= 0), 0.0, share)
            norm = float(moving @ moving)
            if norm == 0:
                break
            aim = self.best.value if self.best.chosen is not None else top + max(abs(top) // 8, self.unit)
            step = scale * max(aim - bound, 1) / norm
            prices = prices.copy()
            moved = prices[self.at] + step * moving / np.maximum(self.most, 1)
            prices[self.at] = np.clip(np.rint(moved), 0, 1 << 32).astype(np.int64)
        if self._hopeless(top):
            return None
        return _Half(kept, best_prices, top, within, beyond)

    def closed(self, root: _Half) -> _Half | None:
        """Look at all choices that are little above the bound, then at more; None if no better one is left.

        Only the best choice decides how far that has to go, not how good the one is that is known.
        """
        if self.satisfied:
            return None
        budgets = {int(m): int(most) for m, most in zip(self.at, self.most, strict=True)}
        known = self.best.chosen is not None
        above = self.best.value if known else root.bound + max(abs(root.bound) // 8, self.unit)
        aims = [1] if self.any_will_do else [root.bound + int((above - root.bound) * share) for share in SHARES]
        for aim in sorted({max(aim, root.bound + 1) for aim in aims}):
            try:
                found = below(self.problem, self.weights, budgets, root.prices, aim)
            except TooManyError:
                return root
            if found is not None:
                self.best.take(found, self.problem, self.weights)
                return None
            root = dataclasses.replace(root, bound=aim)
        return None if known or self.any_will_do else root

    def _hopeless(self, bound: int) -> bool:
        """Whether a bound is beyond the most expensive choice, so that none is within the budgets."""
        return self.best.chosen is None and bound > self._most_expensive

    @functools.cached_property
    def _most_expensive(self) -> int:
        nodes = sum(int((prices @ self.weights).max()) for prices in self.problem.prices.values())
        return nodes + sum(int((edge.prices @ self.weights).max()) for edge in self.problem.edges)

    def _note(self, chosen: dict[str, int], total: Numbers, over: Numbers) -> None:
        """Keep a choice that is within the budgets and better, or less beyond them, than any before."""
        excess = float((over / np.maximum(self.most, 1)).max()) if len(over) else 0.0
        if excess < self.best.excess:
            self.best.excess, self.best.nearest = excess, total
        if (over <= 0).all():
            self.best.take(chosen, self.problem, self.weights)

    def divided(self, half: _Half) -> list[dict[str, Numbers]]:
        """Both halves of the candidates of one node; nothing if no node has two."""
        name = self._undecided(half)
        if name is None:
            return []
        of = half.kept[name]
        shares = self._shares(name, of)
        if half.within is not None and half.beyond is not None and half.within[name] != half.beyond[name]:
            ends = self._shares(name, np.array([half.within[name], half.beyond[name]]))
            low = shares <= ends.mean()
        else:
            low = shares <= np.median(shares)
        if low.all() or not low.any():
            low = np.arange(len(of)) < len(of) // 2
        return [{**half.kept, name: of[low]}, {**half.kept, name: of[~low]}]

    def _shares(self, name: str, of: Numbers) -> Numbers:
        taken = self.problem.prices[name][of][:, self.at] / np.maximum(self.most, 1)
        return np.asarray(taken.max(axis=1))

    def _undecided(self, half: _Half) -> str | None:
        """The node whose candidates make the most difference."""
        several = [name for name, of in half.kept.items() if len(of) > 1]
        if not several:
            return None
        if half.within is not None and half.beyond is not None:
            ends = {n: self._shares(n, np.array([half.within[n], half.beyond[n]])) for n in several}
            name = max(several, key=lambda n: abs(float(ends[n][0] - ends[n][1])))
            if ends[name][0] != ends[name][1]:
                return name
        return max(several, key=lambda n: float(np.ptp(self._shares(n, half.kept[n]))))
