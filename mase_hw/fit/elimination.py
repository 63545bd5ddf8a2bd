"""The cheapest choice, exactly: nodes are eliminated one by one, each by the minimum over its candidates.

This is non-serial dynamic programming (U. Bertele and F. Brioschi, "Nonserial Dynamic Programming", 1972): on a chain
it is the ordinary dynamic programme from one end to the other, and with reconvergent paths a table grows by one
dimension for each branch that is open. Prices are integers, so the minimum is exact.

What does not depend on the weights (which candidates all neighbours see alike, the order of the nodes) is found once;
a search over prices then asks many times.

The last gap between a choice and its bound, closed exactly.

Prices of budgets (:mod:`mase_hw.fit.budget`) leave a gap that dividing candidates closes slowly where many layers are
alike. Here every choice that could still be better is counted: nodes are eliminated as
above, but a table holds sets of sums in place of the least one, in which only those stay that
no other one dominates and that some completion keeps below every limit. How little a completion adds is known exactly,
from the same elimination run backwards. This is the labelling of shortest paths with resources (J. Desrosiers et al.,
"Time constrained routing and scheduling", 1995) with bounds of completions, on tables in place of a path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.errors import UnsupportedError
from mase_hw.fit.problem import INFEASIBLE, Numbers, Problem

LARGEST = 1 << 24
"""Entries of the largest table."""


@dataclass(frozen=True)
class _Step:
    """Puts the minimum over the candidates of a node in place of all tables with it.

    Args:
        name: The node.
        others: The other nodes of these tables.
        tables: Numbers of the tables, with the order of their dimensions and the shape in which they are added.
    """

    name: str
    others: tuple[str, ...]
    tables: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True)
class Messages:
    """What an elimination says of all choices, not only of the cheapest.

    Args:
        total: The least weighed sum.
        wholes: Of every step, the least sum of all that is eliminated by then, by its other nodes and its own.
        outside: Of every step, the least that the rest adds, by its other nodes.
        least: Of every node and candidate, the least sum of a choice with it.
    """

    total: int
    wholes: list[Numbers]
    outside: list[Numbers]
    least: dict[str, Numbers]


class Elimination:
    """Finds the cheapest choice of a problem, for any weights.

    Args:
        problem: The choice.

    Raises:
        UnsupportedError: If more branches are open at once than tables can hold.
    """

    def __init__(self, problem: Problem) -> None:
        self.names = list(problem.prices)
        signatures = _signatures(problem)
        self._possible = all(len(of) for of in problem.prices.values())
        if not self._possible:
            return
        # Of candidates with the same lanes only the cheapest one can be part of the best choice: they stand together.
        self._order: dict[str, Numbers] = {}
        self._starts: dict[str, Numbers] = {}
        rows: list[Numbers] = []
        sizes: dict[str, int] = {}
        first = 0
        self._groups: dict[str, slice] = {}
        begins: list[Numbers] = []
        for name, prices in problem.prices.items():
            order = np.argsort(signatures[name], kind="stable")
            starts = np.unique(signatures[name][order], return_index=True)[1]
            self._order[name], self._starts[name] = order, np.append(starts, len(order))
            rows.append(prices[order])
            begins.append(starts + first)
            sizes[name] = len(starts)
            first += len(order)
        self._prices, self._begins = np.concatenate(rows), np.concatenate(begins)
        ends = np.cumsum([0, *sizes.values()])
        self._groups = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(self.names)}
        self._edges = problem.edges
        self._sides: list[tuple[Numbers, ...]] = []
        for edge in problem.edges:
            sides: list[Numbers] = [
                of[self._order[name][self._starts[name][:-1]]]
                for name, of in zip(edge.ends, (edge.rows, edge.columns), strict=True)
            ]
            self._sides.append(np.ix_(*sides))
        self.steps = _steps([*((name,) for name in self.names), *(edge.ends for edge in problem.edges)], sizes)

    def cheapest(self, weights: Numbers) -> tuple[dict[str, int], int] | None:
        """The choice whose weighed sum is least.

        Args:
            weights: Of every measure.

        Returns:
            A candidate of every node, and the sum; None if no choice is possible.
        """
        if not self._possible:
            return None
        own = self._prices @ weights
        best = []

        def keep(whole: Numbers) -> None:
            best.append(np.asarray(whole.argmin(axis=-1)))

        total = self._forward(own, weights, keep)
        if total >= INFEASIBLE:
            return None
        at: dict[str, int] = {}
        for step, choice in zip(reversed(self.steps), reversed(best), strict=True):
            at[step.name] = int(choice[tuple(at[other] for other in step.others)])
        return {name: self._candidate(name, at[name], own) for name in self.names}, total

    def _forward(self, own: Numbers, weights: Numbers, keep: Callable[[Numbers], None]) -> int:
        """Eliminate all nodes, and keep the sums of every step; the least sum of all."""
        least = np.minimum.reduceat(own, self._begins)
        tables: list[Numbers | None] = [least[self._groups[name]] for name in self.names]
        known: dict[tuple[int, int], Numbers] = {}
        for edge, sides in zip(self._edges, self._sides, strict=True):
            # Pairs of alike layers share their prices.
            key = id(edge.prices), id(edge.possible)
            if key not in known:
                known[key] = edge.by_lanes(weights)
            tables.append(known[key][sides])
        for step in self.steps:
            whole: Numbers | None = None
            for number, axes, shape in step.tables:
                table = tables[number]
                assert table is not None
                part = table.transpose(axes).reshape(shape)
                whole = part if whole is None else whole + part
                tables[number] = None
            assert whole is not None
            keep(whole)
            tables.append(np.minimum(whole.min(axis=-1), INFEASIBLE))
        return sum(int(table) for table in tables if table is not None)

    def messages(self, weights: Numbers) -> Messages | None:
        """The least weighed sums of choices with each candidate, and of the two sides of every step.

        Args:
            weights: Of every measure.

        Returns:
            The sums; None if no choice is possible.
        """
        if not self._possible:
            return None
        own = self._prices @ weights
        wholes: list[Numbers] = []
        total = self._forward(own, weights, wholes.append)
        if total >= INFEASIBLE:
            return None
        first = len(self.names) + len(self._edges)
        readers = {table: number for number, step in enumerate(self.steps) for table, _, _ in step.tables}
        outside: list[Numbers] = [np.zeros((), dtype=np.int64)] * len(self.steps)
        least: dict[str, Numbers] = {}
        for number in reversed(range(len(self.steps))):
            step, inside = self.steps[number], wholes[number].min(axis=-1)
            reader = readers.get(first + number)
            if reader is None:
                rest: Numbers = np.asarray(total - inside)
            else:
                axes = (*self.steps[reader].others, self.steps[reader].name)
                both = wholes[reader] + outside[reader][..., None]
                both = both.min(axis=tuple(i for i, axis in enumerate(axes) if axis not in step.others))
                left = [axis for axis in axes if axis in step.others]
                both = both.transpose([left.index(axis) for axis in step.others])
                rest = np.where((both >= INFEASIBLE) | (inside >= INFEASIBLE), INFEASIBLE, both - inside)
            outside[number] = rest
            groups = (wholes[number] + rest[..., None]).min(axis=tuple(range(len(step.others))))
            least[step.name] = self._of_candidates(step.name, groups, own)
        return Messages(total, wholes, outside, least)

    def alike(self, name: str, group: int) -> Numbers:
        """The candidates of a node that all neighbours see as they see that one."""
        return self._order[name][self._starts[name][group] : self._starts[name][group + 1]]

    def _of_candidates(self, name: str, groups: Numbers, own: Numbers) -> Numbers:
        """Of every candidate, the sum of its group and what it takes more than the cheapest of it."""
        begins = self._begins[self._groups[name]]
        sizes = np.diff(self._starts[name])
        rows = own[begins[0] : begins[0] + int(sizes.sum())]
        found = np.empty(len(rows), dtype=np.int64)
        found[self._order[name]] = rows + np.repeat(groups - np.minimum.reduceat(rows, begins - begins[0]), sizes)
        return found

    def _candidate(self, name: str, group: int, own: Numbers) -> int:
        """The cheapest candidate of those that all neighbours see alike."""
        low, high = self._starts[name][group], self._starts[name][group + 1]
        start = int(self._begins[self._groups[name]][group])
        return int(self._order[name][low + int(own[start : start + high - low].argmin())])


def cheapest(problem: Problem, weights: Numbers) -> tuple[dict[str, int], int] | None:
    """The choice whose weighed sum is least; see :meth:`Elimination.cheapest`.

    Raises:
        UnsupportedError: If more branches are open at once than tables can hold.
    """
    return Elimination(problem).cheapest(weights)


def _signatures(problem: Problem) -> dict[str, Numbers]:
    """A number for every candidate, equal for those that all neighbours see alike."""
    seen: dict[str, list[Numbers]] = {name: [] for name in problem.prices}
    for edge in problem.edges:
        seen[edge.ends[0]].append(edge.rows)
        seen[edge.ends[1]].append(edge.columns)
    found = {}
    for name, prices in problem.prices.items():
        number = np.zeros(len(prices), dtype=np.int64)
        for lanes in seen[name]:
            number = number * (int(lanes.max(initial=0)) + 1) + lanes
            number = np.unique(number, return_inverse=True)[1].reshape(-1)
        found[name] = number
    return found


def _steps(tables: Sequence[tuple[str, ...]], sizes: dict[str, int]) -> list[_Step]:
    """The order in which nodes are eliminated: always the one whose table is smallest.

    Raises:
        UnsupportedError: If a table would be too large.
    """
    there = dict(enumerate(tables))
    entries = {name: _entries(_around(there.values(), name), name, sizes) for name in sizes}
    steps = []
    while entries:
        name = min(entries, key=lambda n: entries[n])
        if entries.pop(name) > LARGEST:
            others = _around(there.values(), name)
            raise UnsupportedError(
                "too many branches of the network are open at once for the exact solver",
                node=name,
                got=f"a table of {_entries(others, name, sizes)} entries",
                expected=f"at most {LARGEST}",
                remedy="install the extra 'fit' (ortools), or choose lanes of some nodes by hand",
            )
        others = _around(there.values(), name)
        axes = (*others, name)
        parts = []
        for number, names in list(there.items()):
            if name in names:
                source = tuple(names.index(axis) for axis in axes if axis in names)
                parts.append((number, source, tuple(sizes[axis] if axis in names else 1 for axis in axes)))
                del there[number]
        steps.append(_Step(name, others, tuple(parts)))
        there[len(tables) + len(steps) - 1] = others
        for other in others:
            entries[other] = _entries(_around(there.values(), other), other, sizes)
    return steps


def _around(tables: Iterable[tuple[str, ...]], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for names in tables if name in names for n in names if n != name))


def _entries(others: Sequence[str], name: str, sizes: dict[str, int]) -> int:
    """Entries of the table that eliminating a node needs."""
    entries = sizes[name]
    for other in others:
        entries *= sizes[other]
    return entries


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
