"""The cheapest choice, exactly: nodes are eliminated one by one, each by the minimum over its candidates.

This is non-serial dynamic programming (U. Bertele and F. Brioschi, "Nonserial Dynamic Programming", 1972): on a chain
it is the ordinary dynamic programme from one end to the other, and with reconvergent paths a table grows by one
dimension for each branch that is open. Prices are integers, so the minimum is exact.

What does not depend on the weights (which candidates all neighbours see alike, the order of the nodes) is found once;
a search over prices then asks many times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
