"""Points of a width search, and those that no other point beats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mase_hw.errors import SearchError
from mase_hw.host.documents import Json
from mase_hw.passes.analysis.report_tables import Table
from mase_hw.passes.mixed_precision.plan import Fact, Plan


@dataclass(frozen=True)
class Point:
    """One configuration that was tried.

    Args:
        widths: Bits by variable (``fc1.weight``, ``fc1.data_out``, ``image.data_in``).
        score: The criterion.
        cost: The hardware cost.
    """

    widths: Mapping[str, int]
    score: float
    cost: float


def pareto_front(points: Iterable[Point], higher_is_better: bool = True) -> list[Point]:
    """The points that no other point beats: at least as good in both score and cost, and better in one.

    Of points with equal score and cost the first stays; a score of NaN is no point.

    Args:
        points: All points.
        higher_is_better: Whether a larger score is better; a smaller cost always is.

    Returns:
        Cheapest first; scores improve strictly with the cost.
    """
    sign = 1.0 if higher_is_better else -1.0
    front: list[Point] = []
    real = [p for p in points if p.score == p.score]
    # Sorting is stable: of equal points the first comes first, and the others do not improve on it.
    for point in sorted(real, key=lambda p: (p.cost, -sign * p.score)):
        if not front or sign * point.score > sign * front[-1].score:
            front.append(point)
    return front


@dataclass(frozen=True)
class WidthSearch:
    """What a width search found.

    Args:
        points: Everything that was tried, in order, without repetitions.
        front: The Pareto front, cheapest first.
        trials: Trials made, repetitions included.
        criterion: Name of the criterion.
        cost: Name of the cost model.
        higher_is_better: Whether a larger score is better.
        plans: The configuration of every point of the front, in its order.
    """

    points: tuple[Point, ...]
    front: tuple[Point, ...]
    trials: int
    criterion: str
    cost: str
    higher_is_better: bool
    plans: tuple[Json, ...]

    def choose(self, target: float | None = None, max_cost: float | None = None) -> Plan:
        """The plan of the cheapest point that meets a target; or of the best one, if only a cost is given.

        Raises:
            SearchError: If no point does; has the nearest one.
        """
        fits = [p for p in self.front if (target is None or self._meets(p, target)) and _within(p, max_cost)]
        if not fits:
            asked = [] if target is None else [f"{self.criterion} {'>=' if self.higher_is_better else '<='} {target}"]
            asked += [] if max_cost is None else [f"{self.cost} <= {max_cost}"]
            ends = [f"{p.score:.6g} at {p.cost:.6g}" for p in self._ends()]
            raise SearchError(
                "no configuration that was tried is good enough",
                field="target, max_cost",
                got=f"front from {' to '.join(ends)}" if ends else "an empty front",
                expected=" and ".join(asked) or "any point",
                remedy="make more trials, allow wider tensors, or ask for less",
            )
        return self.plan(fits[-1] if target is None else fits[0])

    def plan(self, point: Point) -> Plan:
        """The plan of a point of the front.

        Raises:
            SearchError: If the point is not on the front.
        """
        if point not in self.front:
            raise SearchError("this point is not on the front", got=f"{point.score:.6g} at {point.cost:.6g}")
        facts: dict[str, Fact] = {"found by": "search_widths", self.criterion: point.score, self.cost: point.cost}
        return Plan(self.plans[self.front.index(point)], facts)

    def table(self) -> Table:
        """The front as a table."""
        names = list(self.front[0].widths) if self.front else []
        rows = [[f"{p.cost:,.6g}", f"{p.score:.6g}", *(str(p.widths[n]) for n in names)] for p in self.front]
        return Table("Pareto front", [f">{self.cost}", f">{self.criterion}", *(f">{n}" for n in names)], rows)

    def to_json(self) -> str:
        """Points and front, for other programs."""
        listed = {"points": self.points, "front": self.front}
        document: Json = {"criterion": self.criterion, "cost": self.cost, "trials": self.trials}
        for key, points in listed.items():
            document[key] = [{"widths": dict(p.widths), "score": p.score, "cost": p.cost} for p in points]
        return json.dumps(document, indent=1)

    def _meets(self, point: Point, target: float) -> bool:
        return point.score >= target if self.higher_is_better else point.score <= target

    def _ends(self) -> list[Point]:
        return [*self.front[:1], *self.front[1:][-1:]]


def _within(point: Point, max_cost: float | None) -> bool:
    return max_cost is None or point.cost <= max_cost
