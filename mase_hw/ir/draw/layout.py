"""A layered layout for dataflow graphs: rows from top to bottom, few crossings, long edges straight.

The method is that of Sugiyama, Tagawa and Toda (1981): rows by longest path, order within a row by medians of the
neighbours, keeping the order with the fewest crossings. Positions within a row are the least-squares solution under the
least distances (isotonic regression by pooling adjacent violators), swept up and down. Edges of one source that
pass a row share one bend there, so that a fan-out looks like a bus. Deterministic; sizes and positions in pixels.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mase_hw.ir.draw.order import Key, fewest_crossings

GAP_X = 36.0
GAP_BEND = 18.0
GAP_Y = 54.0
_SWEEPS = 12


@dataclass(frozen=True)
class Box:
    """Size of a node, and whether it belongs in the first row."""

    width: float
    height: float
    first: bool = False


@dataclass(frozen=True)
class Link:
    """A piece of an edge between two rows.

    Args:
        source: Node whose result it carries.
        target: Node it ends at; None at a bend.
        start: Where it begins.
        end: Where it ends.
        through: How far it goes straight down from there, for a bend beside the boxes of a row.
    """

    source: str
    target: str | None
    start: tuple[float, float]
    end: tuple[float, float]
    through: float = 0.0


@dataclass
class Layout:
    """Where everything is: centres of the boxes' upper edges by name, links, and the size of the whole."""

    boxes: dict[str, tuple[float, float]] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


def lay_out(boxes: Mapping[str, Box], edges: Iterable[tuple[str, str]]) -> Layout:
    """Lay out a graph.

    Args:
        boxes: Nodes in an order in which every edge goes forward.
        edges: Pairs of names; repeated ones count once.
    """
    pairs = list(dict.fromkeys(edges))
    rows = _rows(boxes, pairs)
    down: dict[Key, list[Key]] = defaultdict(list)
    keys: dict[Key, int] = {(name, -1): row for name, row in rows.items()}
    for source, target in pairs:
        above: Key = (source, -1)
        for row in range(rows[source] + 1, rows[target]):
            bend = (source, row)
            if bend not in keys:
                keys[bend] = row
                down[above].append(bend)
            above = bend
        down[above].append((target, -1))
    grid = _Grid(boxes, keys, down)
    grid.rows = fewest_crossings(grid.rows, grid.up, grid.down, _SWEEPS)
    grid.place()
    return grid.layout()


def _rows(boxes: Mapping[str, Box], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Row of every node: one below its lowest source; what has no source stands right above its first reader."""
    after: dict[str, list[str]] = defaultdict(list)
    rows = dict.fromkeys(boxes, 0)
    has_source = {target for _, target in pairs}
    for source, target in pairs:
        after[source].append(target)
    for name in boxes:
        for target in after[name]:
            rows[target] = max(rows[target], rows[name] + 1)
    for name in reversed(list(boxes)):
        if name not in has_source and not boxes[name].first and after[name]:
            rows[name] = min(rows[target] for target in after[name]) - 1
    return rows


class _Grid:
    def __init__(self, boxes: Mapping[str, Box], keys: Mapping[Key, int], down: Mapping[Key, list[Key]]) -> None:
        self.boxes = boxes
        self.down = down
        self.up: dict[Key, list[Key]] = defaultdict(list)
        for key, targets in down.items():
            for target in targets:
                self.up[target].append(key)
        self.rows: list[list[Key]] = [[] for _ in range(max(keys.values(), default=-1) + 1)]
        for key, row in keys.items():
            self.rows[row].append(key)
        self.x: dict[Key, float] = {}

    def _width(self, key: Key) -> float:
        return self.boxes[key[0]].width if key[1] < 0 else 0.0

    def place(self) -> None:
        """Choose x for every key: as near to the neighbours as the order allows."""
        for row in self.rows:
            self._settle(row, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            near = self.up if sweep % 2 == 0 else self.down
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                self._settle(row, [self._wanted(key, near.get(key, ())) for key in row])
        for row in self.rows:
            for key in row:
                if key[1] >= 0 and self.up[key][0][1] < 0:
                    self._straighten(key)

    def _wanted(self, key: Key, around: Sequence[Key]) -> float:
        """The middle of the neighbours; of the boxes among them, so that what computes stands in one line."""
        boxes = [n for n in around if n[1] < 0]
        return statistics.median([self.x[n] for n in boxes or around]) if around else self.x[key]

    def _straighten(self, first: Key) -> None:
        """Make the bends of one edge, from the first on, as straight as the boxes beside them allow."""
        run: list[Key] = []
        low, high = -math.inf, math.inf
        key: Key | None = first
        while key is not None:
            left, right = self._room(key)
            if run and max(low, left) > min(high, right):
                self._align(run, low, high)
                run, low, high = [], -math.inf, math.inf
            run.append(key)
            low, high = max(low, left), min(high, right)
            key = next((t for t in self.down.get(key, ()) if t[1] >= 0), None)
        self._align(run, low, high)

    def _room(self, key: Key) -> tuple[float, float]:
        """Between what a bend can lie."""
        row = self.rows[key[1]]
        index = row.index(key)
        left, right = -math.inf, math.inf
        if index:
            left = self.x[row[index - 1]] + self._width(row[index - 1]) / 2 + GAP_BEND
        if index + 1 < len(row):
            right = self.x[row[index + 1]] - self._width(row[index + 1]) / 2 - GAP_BEND
        return left, right

    def _align(self, run: Sequence[Key], low: float, high: float) -> None:
        middle = statistics.median([self.x[key] for key in run])
        for key in run:
            self.x[key] = min(max(middle, low), high)

    def _settle(self, row: Sequence[Key], wanted: Sequence[float]) -> None:
        """Least squares to the wanted positions, at the least distances: pooling of adjacent violators."""
        offsets, total = [], 0.0
        for index, key in enumerate(row):
            if index:
                gap = GAP_BEND if key[1] >= 0 or row[index - 1][1] >= 0 else GAP_X
                total += (self._width(row[index - 1]) + self._width(key)) / 2 + gap
            offsets.append(total)
        pools: list[tuple[float, float, int]] = []  # weighted sum, weight, members
        for key, want, offset in zip(row, wanted, offsets, strict=True):
            # A bend gives way to a box; it is made straight afterwards.
            weight = 0.001 if key[1] >= 0 else 1.0
            pool = (weight * (want - offset), weight, 1)
            while pools and pools[-1][0] / pools[-1][1] >= pool[0] / pool[1]:
                last = pools.pop()
                pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
            pools.append(pool)
        values = [s / w for s, w, members in pools for _ in range(members)]
        for key, value, offset in zip(row, values, offsets, strict=True):
            self.x[key] = value + offset

    def layout(self) -> Layout:
        """Shift everything to the origin and route the links."""
        result = Layout()
        left = min((self.x[k] - self._width(k) / 2 for row in self.rows for k in row), default=0.0)
        tops, heights = [], []
        y = 0.0
        for row in self.rows:
            heights.append(max((self.boxes[n].height for n, bend in row if bend < 0), default=0.0))
            tops.append(y)
            y += heights[-1] + GAP_Y
        for index, row in enumerate(self.rows):
            for key in row:
                self.x[key] -= left
                if key[1] < 0:
                    result.boxes[key[0]] = (self.x[key], tops[index])
        for index, row in enumerate(self.rows[:-1]):
            for key in row:
                bottom = tops[index] + (self.boxes[key[0]].height if key[1] < 0 else heights[index])
                for target in self.down.get(key, ()):
                    end = (self._port(target, key), tops[index + 1])
                    bend = target[1] >= 0
                    through = heights[index + 1] if bend else 0.0
                    result.links.append(Link(key[0], None if bend else target[0], (self.x[key], bottom), end, through))
        result.width = max((self.x[k] + self._width(k) / 2 for row in self.rows for k in row), default=0.0)
        result.height = max(0.0, y - GAP_Y)
        return result

    def _port(self, target: Key, source: Key) -> float:
        """Where on the upper edge of a box a link arrives: one place each, from left to right."""
        if target[1] >= 0:
            return self.x[target]
        order = sorted(self.up[target], key=lambda key: self.x[key])
        spread = min(28.0, self._width(target) / (len(order) + 1))
        return self.x[target] + (order.index(source) - (len(order) - 1) / 2) * spread
