"""The choice within budgets whose first frame is done soonest.

The last result of a frame comes as late as the longest path through the design says (:mod:`mase_hw.fit.frame`). Of a
path that is known, the cycles in every layer follow from its candidate alone, so the choice that makes a mean of paths
shortest is found exactly as the one of least area is. Each answer has a longest path of its own, which joins the mean:
fictitious play (J. Robinson, "An iterative method of solving a game", Annals of Mathematics 1951), in which choices
play against paths. The best choice then is improved by exchanges: a layer becomes faster, where needed another slower.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mase_hw.fit.budget import Solution, solve
from mase_hw.fit.candidates import Candidate
from mase_hw.fit.frame import Frame, Visit
from mase_hw.fit.problem import Edge, Numbers, Problem
from mase_hw.fit.space import Candidates, Space

Mean = npt.NDArray[np.float64]
"""Cycles of the candidates of a node, a mean over paths."""
STEP, CAPS = 1.08, 8
"""From one interval that no layer exceeds to the next, and their number."""
PLAYS = 8
"""Choices that are found by the mean of paths."""
STARTS = 4
"""The best choices of these, which exchanges make better."""
TRIES = 30
"""Choices that are followed for each of them."""
GAIN = 1 / 2000
"""The least share of the latency by which an exchange is to be better."""
NEAR = 400
"""Faster and cheaper candidates that are looked at in pairs, the best first."""
SHOWN = 100
PATHS = 64
"""The latest paths, by which exchanges are judged."""
ROUNDS = 1000
"""In which the mean of paths is found."""
GRAIN = 64
"""Parts of a cycle that means are counted in."""


@dataclass
class _Known:
    """Choices that were followed, and the paths that decided them.

    Args:
        paths: By path, the cycles of every candidate of every node on it.
        within: Choices within the budgets, and when the last result of each comes.
        chosen: The best of them.
        last: When its last result comes.
    """

    paths: list[dict[str, Numbers]] = field(default_factory=list)
    within: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    chosen: dict[str, int] | None = None
    last: int = 1 << 60


class Latency:
    """Seeks the choice of least latency.

    Args:
        space: Every choice.
        candidates: Those that are chosen among.
        interval: Most cycles per frame.
        budgets: Most of a resource, by its number.
        area: Weights of resources.
        least: The shortest interval within the budgets.
        tokens: Of a frame, as for :class:`~mase_hw.fit.frame.Frame`.
    """

    def __init__(
        self,
        space: Space,
        candidates: Candidates,
        interval: int,
        budgets: Mapping[int, int],
        area: Numbers,
        least: int,
        tokens: int = 0,
    ) -> None:
        self.candidates, self.budgets, self.area, self.least = candidates, dict(budgets), area, least
        self._givers: dict[str, list[str]] = {}
        for (giver, _), (reader, _) in space.links:
            self._givers.setdefault(reader, []).append(giver)
        self.problem = space.problem(candidates, interval)
        self.frame = Frame(list(candidates), list(space.links), tokens)
        self._cycles: dict[tuple[int, Visit], Numbers] = {}
        self.known = _Known()
        self._edges: dict[str, list[Edge]] = {name: [] for name in candidates}
        for edge in self.problem.edges:
            for end in edge.ends:
                self._edges[end].append(edge)

    def sought(self, first: Sequence[Mapping[str, int]]) -> Solution | None:
        """The best choice that was found, beginning with some that need not be within the budgets."""
        played, bound = [dict(each) for each in first], 0
        for each in played:
            self._follow(each)
        for cap in self._caps():
            found = self._shortest(self._drains(played[0], cap), area=True)
            if found is not None and found.chosen not in played:
                played.append(dict(found.chosen))
                self._follow(played[-1])
        for _ in range(PLAYS):
            found = self._shortest(self._mean(played))
            if found is None:
                break
            bound = max(bound, found.bound // GRAIN)
            if found.chosen in played:
                break
            played.append(dict(found.chosen))
            self._follow(played[-1])
        for _, chosen in sorted(self.known.within, key=lambda each: each[0])[:STARTS]:
            self._exchange(chosen)
        if self.known.chosen is None:
            return None
        total = self.problem.total(self.known.chosen)
        assert total is not None
        return Solution(self.known.chosen, total, self.known.last, min(bound, self.known.last - 1))

    def _mean(self, played: Sequence[Mapping[str, int]]) -> dict[str, Mean]:
        """The mean of paths that is longest for the best mixture of the choices that were played."""
        paths = self.known.paths
        game = np.array([[sum(int(p[n][c[n]]) for n in p) for c in played] for p in paths], dtype=np.float64)
        weights = _mixture(game)
        mean: dict[str, Mean] = {name: np.zeros(len(of)) for name, of in self.candidates.items()}
        for weight, path in zip(weights, paths, strict=True):
            for name, cycles in path.items():
                mean[name] += weight * cycles
        return mean

    def _caps(self) -> list[int]:
        """Cycles per frame that no layer is to exceed, one after the other."""
        least = max(min(each.cycles for each in of) for of in self.candidates.values())
        low = max(least, self.least)
        return [int(low * STEP**k) for k in range(CAPS)]

    def _drains(self, chosen: Mapping[str, int], cap: int) -> dict[str, Numbers]:
        """Cycles that every candidate takes after the rest of the design is done with the frame.

        The last rows go through the layers one after the other: a layer with a window has some of its own to give when
        the last beat of its input has come, and what follows has to work these off.
        """
        open_: dict[str, float] = {}
        found = {}
        for name, of in self.candidates.items():
            each = of[chosen[name]]
            before = max((open_.get(giver, 0.0) for giver in self._givers.get(name, ())), default=0.0)
            argument, result = next(p for p in each.ports if p.startswith("data_in_")), "data_out_0"
            own = _after(each)
            came = 1.0 if own >= before else 1.0 - before
            open_[name] = max(own, before)
            late = np.array([int(c.cycles > cap) for c in of], dtype=np.int64)
            found[name] = self._of_all(Visit(name, argument, result, came, 1.0)) + (late << 24)
        return found

    def _shortest(self, mean: Mapping[str, Numbers | Mean], *, area: bool = False) -> Solution | None:
        """The choice whose mean over paths is shortest; of those about as short, one of little area if asked."""
        prices = {
            name: np.concatenate([of, np.rint(mean[name] * GRAIN).astype(np.int64)[:, None]], axis=1)
            for name, of in self.problem.prices.items()
        }
        weights = np.append(self.area >> 8 if area else np.zeros_like(self.area), 1)
        found = solve(Problem(prices, self._widened), weights, self.budgets, 0)
        return found if isinstance(found, Solution) else None

    @functools.cached_property
    def _widened(self) -> list[Edge]:
        """The edges, which take no cycles."""
        known: dict[int, Numbers] = {}
        for edge in self.problem.edges:
            if id(edge.prices) not in known:
                none = np.zeros((*edge.prices.shape[:2], 1), dtype=np.int64)
                known[id(edge.prices)] = np.concatenate([edge.prices, none], axis=2)
        return [dataclasses.replace(edge, prices=known[id(edge.prices)]) for edge in self.problem.edges]

    def _follow(self, chosen: dict[str, int]) -> int:
        """When the last result of a choice comes; its path is kept, and the choice if it is the best within budgets."""
        of = {name: self.candidates[name][at] for name, at in chosen.items()}
        last, path = self.frame.last(of)
        cycles: dict[str, Numbers] = {}
        for visit in path:
            spent = self._of_all(visit)
            cycles[visit.node] = cycles.get(visit.node, 0) + spent
        self.known.paths.append(cycles)
        total = self.problem.total(chosen)
        if total is not None and all(total[m] <= n for m, n in self.budgets.items()):
            self.known.within.append((last, chosen))
            if last < self.known.last:
                self.known.chosen, self.known.last = chosen, last
        return last

    def _of_all(self, visit: Visit) -> Numbers:
        """Cycles of every candidate of a node on a part of a path."""
        of = self.candidates[visit.node]
        key = id(of), Visit("", visit.argument, visit.result, visit.came, visit.gone)
        if key not in self._cycles:
            self._cycles[key] = np.array([visit.cycles(each) for each in of], dtype=np.int64)
        return self._cycles[key]

    def _exchange(self, chosen: dict[str, int]) -> None:
        """Make a choice better, layer by layer or with two layers at once, as long as that is possible."""
        last = self._follow(chosen)
        tries = TRIES
        while tries:
            for changed in self._promising(chosen, last):
                tries -= 1
                then = self._follow(changed)
                if then < last:
                    chosen, last = changed, then
                    break
                if not tries:
                    return
                if then >= last + last * GAIN:
                    break  # a path that was not known: what is promising has changed
            else:
                return

    def _promising(self, chosen: dict[str, int], last: int) -> list[dict[str, int]]:
        """Changes of one or two layers that would be within the budgets and shorter on all paths that are known."""
        paths = self.known.paths[-PATHS:]
        now = np.zeros(len(paths), dtype=np.int64)
        total = self.problem.total(chosen)
        assert total is not None
        moves: list[tuple[str, int]] = []
        times, uses = [], []
        for name, of in self.candidates.items():
            table = np.stack([path.get(name, np.zeros(len(of), dtype=np.int64)) for path in paths], axis=1)
            now += table[chosen[name]]
            moves += [(name, i) for i in range(len(of))]
            times.append(table - table[chosen[name]])
            uses.append(self._use(name, chosen))
        measures = sorted(self.budgets)
        time, use = np.concatenate(times), np.concatenate(uses)[:, measures]
        left = np.array([self.budgets[m] - total[m] for m in measures])
        most = int(last * (1 - GAIN))
        alone = (now + time).max(axis=1)
        fits = (use <= left).all(axis=1)
        found: list[tuple[int, tuple[int, ...]]] = [
            (int(alone[i]), (int(i),)) for i in np.flatnonzero(fits & (alone <= most))
        ]
        faster = np.flatnonzero((time[:, now > most] < 0).all(axis=1) & ~fits)
        faster = faster[np.argsort(alone[faster], kind="stable")][:NEAR]
        cheaper = np.flatnonzero((use <= 0).all(axis=1) & (use < 0).any(axis=1))
        cheaper = cheaper[np.argsort(alone[cheaper], kind="stable")][:NEAR]
        for i in faster:
            pairs = (now + time[i] + time[cheaper]).max(axis=1)
            enough = (use[i] + use[cheaper] <= left).all(axis=1) & (pairs <= most)
            found += [(int(pairs[k]), (int(i), int(cheaper[k]))) for k in np.flatnonzero(enough)]
        best = []
        for _, numbers in sorted(found)[:SHOWN]:
            picked_ = [moves[i] for i in numbers]
            if len({name for name, _ in picked_}) == len(picked_):
                best.append({**chosen, **dict(picked_)})
        return best

    def _use(self, name: str, chosen: Mapping[str, int]) -> Numbers:
        """What every candidate of a node takes more than the chosen one, with what connects it."""
        use = self.problem.prices[name].copy()
        for edge in self._edges[name]:
            if name == edge.ends[0]:
                rows, columns = edge.rows, np.full_like(edge.rows, edge.columns[chosen[edge.ends[1]]])
            else:
                rows, columns = np.full_like(edge.columns, edge.rows[chosen[edge.ends[0]]]), edge.columns
            use += edge.prices[rows, columns] + np.where(edge.possible[rows, columns], 0, 1 << 40)[:, None]
        return np.asarray(use - use[chosen[name]])


def _after(each: Candidate) -> float:
    """The share of the results that are still to come when the last beat of the input has come."""
    stages = each.latency.steps
    if not stages:
        return 1.0
    first = stages[0]
    needed = first.need_steps[0]
    if not len(needed):
        return 1.0
    repeat = each.ports["data_out_0"].beats / max(len(stages[-1].emit_steps[0]), 1)
    emitted = first.emit_steps[0]
    return float((emitted >= needed[-1]).mean()) / max(repeat, 1.0)


def _mixture(game: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Shares of the rows whose sum is largest for the column that is least: multiplicative weights on both sides."""
    rows, columns = np.zeros(game.shape[0]), np.zeros(game.shape[1])
    mean = np.zeros(game.shape[0])
    scaled = game / max(float(game.max()), 1.0)
    for round_ in range(ROUNDS):
        rate = 8 / np.sqrt(round_ + 1)
        row, column = np.exp(rate * (rows - rows.max())), np.exp(-rate * (columns - columns.min()))
        row, column = row / row.sum(), column / column.sum()
        rows += scaled @ column
        columns += row @ scaled
        mean += row * (round_ >= ROUNDS // 2)
    return np.asarray(mean / mean.sum())


def picked(candidates: Candidates, chosen: Mapping[str, int]) -> dict[str, Candidate]:
    """The candidates of a choice."""
    return {name: candidates[name][at] for name, at in chosen.items()}
