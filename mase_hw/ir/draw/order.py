"""The order of nodes within the rows of a layered drawing, with few crossings."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence

Key = tuple[str, int]
"""A box ``(name, -1)``, or the bend ``(source, row)`` of the edges of a source."""
Rows = list[list[Key]]
Near = Mapping[Key, Sequence[Key]]
"""Neighbours of every key in the row above, or below."""


def fewest_crossings(rows: Rows, up: Near, down: Near, sweeps: int) -> Rows:
    """Order rows by the medians of their neighbours, sweeping down and up, and keep the best order that was met."""
    rows = [list(row) for row in rows]
    best, least = [list(row) for row in rows], count_crossings(rows, down)
    for sweep in range(sweeps):
        if least == 0:
            break
        if sweep % 2 == 0:
            for index in range(1, len(rows)):
                _order(rows[index], rows[index - 1], up)
        else:
            for index in range(len(rows) - 2, -1, -1):
                _order(rows[index], rows[index + 1], down)
        crossings = count_crossings(rows, down)
        if crossings < least:
            best, least = [list(row) for row in rows], crossings
    return best


def _order(row: list[Key], fixed: Sequence[Key], near: Near) -> None:
    place = {key: i for i, key in enumerate(fixed)}
    wanted = {}
    for position, key in enumerate(row):
        found = [place[n] for n in near.get(key, ())]
        # Without neighbours a node stays about where it is.
        wanted[key] = statistics.median(found) if found else position * len(fixed) / len(row)
    row.sort(key=wanted.__getitem__)


def count_crossings(rows: Rows, down: Near) -> int:
    """Crossings of all links, with a Fenwick tree of the lower ends that were met from the left."""
    total = 0
    for upper, lower in itertools.pairwise(rows):
        place = {key: i for i, key in enumerate(lower)}
        seen = [0] * (len(lower) + 1)
        count = 0
        for key in upper:
            ends = [place[target] + 1 for target in down.get(key, ())]
            for index in ends:
                before = 0
                while index:
                    before += seen[index]
                    index &= index - 1
                total += count - before
            for index in ends:
                while index <= len(lower):
                    seen[index] += 1
                    index += index & -index
            count += len(ends)
    return total
