"""The cheapest choice, exactly: nodes are eliminated one by one, each by the minimum over its candidates.

This is non-serial dynamic programming (U. Bertele and F. Brioschi, "Nonserial Dynamic Programming", 1972): on a chain
it is the ordinary dynamic programme from one end to the other, and with reconvergent paths a table grows by one
dimension for each branch that is open. Prices are integers, so the minimum is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.errors import UnsupportedError
from mase_hw.fit.problem import INFEASIBLE, Numbers, Problem

LARGEST = 1 << 24
"""Entries of the largest table."""


@dataclass(frozen=True)
class _Table:
    """Prices by the candidates of some nodes, a dimension each."""

    names: tuple[str, ...]
    values: Numbers


@dataclass(frozen=True)
class _Eliminated:
    """The best candidate of a node by those of others."""

    name: str
    others: tuple[str, ...]
    best: Numbers


def cheapest(problem: Problem, weights: Numbers) -> tuple[dict[str, int], int] | None:
    """The choice whose weighed sum is least.

    Args:
        problem: The choice.
        weights: Of every measure.

    Returns:
        A candidate of every node, and the sum; None if no choice is possible.

    Raises:
        UnsupportedError: If more branches are open at once than tables can hold.
    """
    tables: list[_Table] = []
    kept: dict[str, Numbers] = {}
    signature = _signatures(problem)
    for name, prices in problem.prices.items():
        weighed = prices @ weights
        # Of candidates with the same lanes only the cheapest one can be part of the best choice.
        order = np.lexsort((weighed, signature[name]))
        kept[name] = order[np.unique(signature[name][order], return_index=True)[1]]
        tables.append(_Table((name,), weighed[kept[name]]))
    for edge in problem.edges:
        first, second = edge.ends
        tables.append(_Table(edge.ends, edge.weighed(weights)[np.ix_(kept[first], kept[second])]))
    sizes = {name: len(of) for name, of in kept.items()}
    if not all(sizes.values()):
        return None
    steps: list[_Eliminated] = []
    while sizes:
        name = min(sizes, key=lambda n: _size(tables, n, sizes))
        if _size(tables, name, sizes) > LARGEST:
            raise UnsupportedError(
                "too many branches of the network are open at once for the exact solver",
                node=name,
                got=f"a table of {_size(tables, name, sizes)} entries",
                expected=f"at most {LARGEST}",
                remedy="install the extra 'fit' (ortools), or choose lanes of some nodes by hand",
            )
        tables, step = _eliminate(tables, name)
        steps.append(step)
        del sizes[name]
    total = sum(int(table.values) for table in tables)
    if total >= INFEASIBLE:
        return None
    at: dict[str, int] = {}
    for step in reversed(steps):
        at[step.name] = int(step.best[tuple(at[other] for other in step.others)])
    return {name: int(kept[name][at[name]]) for name in problem.prices}, total


def _signatures(problem: Problem) -> dict[str, Numbers]:
    """A number for every candidate, equal for those that all neighbours see alike."""
    seen: dict[str, list[Numbers]] = {name: [] for name in problem.prices}
    for edge in problem.edges:
        seen[edge.ends[0]].append(edge.rows)
        seen[edge.ends[1]].append(edge.columns)
    found = {}
    for name, prices in problem.prices.items():
        columns = seen[name] or [np.zeros(len(prices), dtype=np.int64)]
        found[name] = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return found


def _around(tables: Sequence[_Table], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for table in tables if name in table.names for n in table.names if n != name))


def _size(tables: Sequence[_Table], name: str, sizes: dict[str, int]) -> int:
    """Entries of the table that eliminating a node needs."""
    entries = sizes[name]
    for other in _around(tables, name):
        entries *= sizes[other]
    return entries


def _eliminate(tables: Sequence[_Table], name: str) -> tuple[list[_Table], _Eliminated]:
    """Put the minimum over the candidates of a node in place of all tables with it."""
    others = _around(tables, name)
    axes = (*others, name)
    whole = np.zeros((1,) * len(axes), dtype=np.int64)
    for table in tables:
        if name in table.names:
            source = [table.names.index(axis) for axis in axes if axis in table.names]
            shape = [1] * len(axes)
            for i in source:
                shape[axes.index(table.names[i])] = table.values.shape[i]
            whole = whole + table.values.transpose(source).reshape(shape)
    best = np.asarray(whole.argmin(axis=-1), dtype=np.int64)
    values = np.minimum(whole.min(axis=-1), INFEASIBLE)
    rest = [table for table in tables if name not in table.names]
    return [*rest, _Table(others, values)], _Eliminated(name, others, best)
