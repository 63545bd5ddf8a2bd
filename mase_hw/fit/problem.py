"""The choice as numbers: candidates of every node, and what connects lanes of neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
INFEASIBLE = np.int64(1) << 52
"""A price that nothing pays; sums of many of them stay within 63 bits."""


@dataclass(frozen=True)
class Edge:
    """What two neighbours cost together.

    Args:
        ends: Names of the nodes.
        rows: For every candidate of the first one, its row in ``prices``.
        columns: For every candidate of the second one, its column.
        prices: Of every pair of lanes, measures along the last dimension.
        possible: Whether a pair may be chosen.
    """

    ends: tuple[str, str]
    rows: Numbers
    columns: Numbers
    prices: Numbers
    possible: npt.NDArray[np.bool_]

    def by_lanes(self, weights: Numbers) -> Numbers:
        """Prices of pairs of lanes as one number each."""
        return np.asarray(np.where(self.possible, self.prices @ weights, INFEASIBLE), dtype=np.int64)


@dataclass(frozen=True)
class Problem:
    """Choose a candidate of every node.

    Args:
        prices: Of every node, ``(candidates, measures)``.
        edges: What neighbours cost together.
    """

    prices: Mapping[str, Numbers]
    edges: Sequence[Edge]

    @property
    def measures(self) -> int:
        """Numbers of every candidate."""
        return int(next(iter(self.prices.values())).shape[1])

    def total(self, chosen: Mapping[str, int]) -> Numbers | None:
        """What a choice takes of every measure; None if it is impossible."""
        found = np.zeros(self.measures, dtype=np.int64)
        for name, at in chosen.items():
            found = found + self.prices[name][at]
        for edge in self.edges:
            row, column = edge.rows[chosen[edge.ends[0]]], edge.columns[chosen[edge.ends[1]]]
            if not edge.possible[row, column]:
                return None
            found = found + edge.prices[row, column]
        return found
