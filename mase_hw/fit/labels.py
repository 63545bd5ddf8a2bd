"""The last gap between a choice and its bound, closed exactly.

Prices of budgets (:mod:`mase_hw.fit.budget`) leave a gap that dividing candidates closes slowly where many layers are
alike. Here every choice that could still be better is counted: nodes are eliminated as in
:mod:`mase_hw.fit.elimination`, but a table holds sets of sums in place of the least one, in which only those stay that
no other one dominates and that some completion keeps below every limit. How little a completion adds is known exactly,
from the same elimination run backwards. This is the labelling of shortest paths with resources (J. Desrosiers et al.,
"Time constrained routing and scheduling", 1995) with bounds of completions, on tables in place of a path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.fit.elimination import Elimination, Messages
from mase_hw.fit.problem import Numbers, Problem

MOST = 1_500_000
"""Sums that are looked at before the search gives up."""


class TooManyError(Exception):
    """More choices than can be counted are within the gap."""


@dataclass(frozen=True)
class _Limit:
    """What a weighed sum may be at most, and what a completion adds at least."""

    weights: Numbers
    most: int
    messages: Messages


def below(
    problem: Problem, weights: Numbers, budgets: Mapping[int, int], prices: Numbers, value: int
) -> dict[str, int] | None:
    """The choice within budgets whose weighed sum is least, if it is less than a value.

    Args:
        problem: The choice.
        weights: Of every measure, not negative.
        budgets: Most of a measure, by its number.
        prices: Of every measure, those of budgets with which the bound is good.
        value: What is known already.

    Returns:
        A candidate of every node; None if no choice within the budgets is below the value.

    Raises:
        TooManyError: If it would take too long.
        UnsupportedError: If the network is too entangled for exact elimination.
    """
    cuts = {m: (np.eye(problem.measures, dtype=np.int64)[m], most) for m, most in budgets.items()}
    kept = {name: np.arange(len(of)) for name, of in problem.prices.items()}
    while True:
        # A budget that nothing left exceeds is of no account any more, and needs no price.
        cuts = {m: cut for m, cut in cuts.items() if _largest(problem, m) > cut[1]}
        weighed = weights + sum(row * int(prices[m]) for m, (row, _) in cuts.items())
        aim = value - 1 + sum(int(prices[m]) * most for m, (_, most) in cuts.items())
        program = Elimination(problem)
        found = [
            _Limit(row, most, messages)
            for row, most in [(weighed, aim), *cuts.values()]
            if (messages := program.messages(row)) is not None
        ]
        if len(found) <= len(cuts) or any(each.messages.total > each.most for each in found):
            return None
        stay = {
            name: np.all([each.messages.least[name] <= each.most for each in found], axis=0) for name in problem.prices
        }
        if all(of.all() for of in stay.values()):
            break
        kept = {name: of[stay[name]] for name, of in kept.items()}
        problem = restricted(problem, {name: np.flatnonzero(of) for name, of in stay.items()})
    # What decides is the value, and of the budgets those that are left: no more is counted.
    rows = np.stack([weights, *(row for row, _ in cuts.values())])
    counted = np.eye(len(rows), dtype=np.int64)
    counted[0, 1:] = [int(prices[m]) for m in cuts]
    limits = [_Limit(row, each.most, each.messages) for row, each in zip(counted, found, strict=True)]
    best = _Counted(_projected(problem, rows), program, limits).best(value)
    return None if best is None else {name: int(kept[name][at]) for name, at in best.items()}


def restricted(problem: Problem, kept: Mapping[str, Numbers]) -> Problem:
    """The problem with some candidates of every node."""
    prices = {name: of[kept[name]] for name, of in problem.prices.items()}
    edges = [
        dataclasses.replace(edge, rows=edge.rows[kept[edge.ends[0]]], columns=edge.columns[kept[edge.ends[1]]])
        for edge in problem.edges
    ]
    return Problem(prices, edges)


def _largest(problem: Problem, measure: int) -> int:
    """More than any choice takes of a measure."""
    nodes = sum(int(of[:, measure].max(initial=0)) for of in problem.prices.values())
    return nodes + sum(int(edge.prices[..., measure].max(initial=0)) for edge in problem.edges)


def _projected(problem: Problem, rows: Numbers) -> Problem:
    """The problem with other measures, each a weighed sum of what there are."""
    known: dict[int, Numbers] = {}
    for edge in problem.edges:
        if id(edge.prices) not in known:
            known[id(edge.prices)] = edge.prices @ rows.T
    return Problem(
        {name: of @ rows.T for name, of in problem.prices.items()},
        [dataclasses.replace(edge, prices=known[id(edge.prices)]) for edge in problem.edges],
    )


@dataclass(frozen=True)
class _Sums:
    """Sums of what is eliminated, for one state of what it is beside.

    Args:
        totals: A row each.
        origins: Of every row: the candidate as its neighbours see it, then of every table of the step the row in it.
    """

    totals: Numbers
    origins: Numbers


class _Counted:
    """Sums of the part of a problem that is eliminated, by what the rest sees of it."""

    def __init__(self, problem: Problem, program: Elimination, limits: list[_Limit]) -> None:
        self.problem, self.program, self.limits = problem, program, limits
        self.measures = len(limits)
        self.first = len(program.names) + len(problem.edges)
        self.tables: list[dict[tuple[int, ...], _Sums]] = []
        self._alike: dict[tuple[str, int], tuple[Numbers, Numbers]] = {}
        self.looked = 0

    def best(self, value: int) -> dict[str, int] | None:
        """The choice whose first measure is least, if it is below a value."""
        weights = np.stack([each.weights for each in self.limits])
        for number, step in enumerate(self.program.steps):
            axes = (*step.others, step.name)
            fits = np.ones(self.limits[0].messages.wholes[number].shape, dtype=np.bool_)
            for each in self.limits:
                both: Numbers = each.messages.wholes[number] + each.messages.outside[number][..., None]
                fits &= both <= each.most
            found: dict[tuple[int, ...], list[_Sums]] = {}
            for cell in map(tuple, np.argwhere(fits).tolist()):
                at = dict(zip(axes, cell, strict=True))
                least = [each.most - int(each.messages.outside[number][cell[:-1]]) for each in self.limits]
                parts = [self._part(table, at) for table, _, _ in step.tables]
                found.setdefault(cell[:-1], []).append(self._added(parts, cell[-1], weights, np.array(least)))
            self.tables.append({state: _best_of(sums) for state, sums in found.items()})
        ends = [i for i, step in enumerate(self.program.steps) if not step.others]
        if any(() not in self.tables[i] for i in ends):
            return None
        whole = self._added(
            [self.tables[i][()].totals for i in ends], 0, weights, np.array([e.most for e in self.limits])
        )
        allowed = whole.totals[:, 0] < value
        if not allowed.any():
            return None
        row = int(np.flatnonzero(allowed)[whole.totals[allowed, 0].argmin()])
        chosen: dict[str, int] = {}
        self._note(chosen, ends, whole.origins[row, 1:].tolist())
        return chosen

    def _note(self, chosen: dict[str, int], ends: list[int], rows: list[int]) -> None:
        """Follow the sums back to the candidates, from the last step to the first one."""
        seen: dict[str, int] = {}
        wanted = dict(zip(ends, rows, strict=True))
        for number in reversed(range(len(self.program.steps))):
            step = self.program.steps[number]
            sums = self.tables[number][tuple(seen[name] for name in step.others)]
            group, *parts = sums.origins[wanted[number]].tolist()
            seen[step.name] = group
            for (table, _, _), row in zip(step.tables, parts, strict=True):
                if table < len(self.program.names):
                    chosen[step.name] = int(self._candidates(step.name, group)[1][row])
                elif table >= self.first:
                    wanted[table - self.first] = row

    def _part(self, table: int, at: Mapping[str, int]) -> Numbers:
        """The sums of one of the tables of a step for candidates that neighbours see alike."""
        names = self.program.names
        if table < len(names):
            return self._candidates(names[table], at[names[table]])[0]
        if table < self.first:
            edge = self.problem.edges[table - len(names)]
            a, b = (self.program.alike(name, at[name])[0] for name in edge.ends)
            return np.asarray(edge.prices[edge.rows[a], edge.columns[b]][None])
        state = tuple(at[name] for name in self.program.steps[table - self.first].others)
        sums = self.tables[table - self.first].get(state)
        return np.zeros((0, self.measures), dtype=np.int64) if sums is None else sums.totals

    def _candidates(self, name: str, group: int) -> tuple[Numbers, Numbers]:
        """Sums of the candidates of a node that neighbours see alike, and their numbers."""
        if (name, group) not in self._alike:
            alike = self.program.alike(name, group)
            rows = self.problem.prices[name][alike]
            own = _best_of([_Sums(rows, np.arange(len(rows), dtype=np.int64)[:, None])])
            self._alike[name, group] = own.totals, alike[own.origins[:, 0]]
        return self._alike[name, group]

    def _added(self, parts: list[Numbers], group: int, weights: Numbers, most: Numbers) -> _Sums:
        """Every sum of a row of each part that some completion keeps within all limits."""
        totals = np.zeros((1, self.measures), dtype=np.int64)
        origins = np.full((1, 1), group, dtype=np.int64)
        for part in parts:
            self.looked += len(totals) * len(part)
            if self.looked > MOST:
                raise TooManyError
            totals = (totals[:, None] + part[None]).reshape(-1, self.measures)
            rows = np.tile(np.arange(len(part), dtype=np.int64), len(origins))
            origins = np.concatenate([np.repeat(origins, len(part), axis=0), rows[:, None]], axis=1)
        within = (totals @ weights.T <= most).all(axis=1)
        return _Sums(totals[within], origins[within])


def _best_of(sums: Sequence[_Sums]) -> _Sums:
    """Those sums that no other one dominates."""
    totals, origins = (np.concatenate([getattr(s, of) for s in sums]) for of in ("totals", "origins"))
    if len(totals) < 2:
        return _Sums(totals, origins)
    totals, first = np.unique(
        totals, axis=0, return_index=True
    )  # in rising order of the first measure, then the others
    kept = np.zeros(len(totals), dtype=np.bool_)
    left = np.arange(len(totals))
    while len(left):
        # The first one that is left is dominated by none; what it dominates is left out.
        kept[left[0]] = True
        left = left[1:][(totals[left[1:]] < totals[left[0]]).any(axis=1)]
    return _Sums(totals[kept], origins[first[kept]])
