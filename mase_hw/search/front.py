"""Points of a search, and those that no other point beats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mase_hw.errors import SearchError
from mase_hw.host.documents import Json
from mase_hw.passes.analysis.report_tables import Table
from mase_hw.passes.mixed_precision.plan import Fact, Plan
from mase_hw.search.history import nondominated
from mase_hw.search.study import Option

MOST_COLUMNS = 6
"""Variables beside which a table of the front has room for all else."""


@dataclass(frozen=True)
class Point:
    """One configuration that was tried.

    Args:
        chosen: Options by variable (``fc1.weight``, ``image.data_in``, ``interval``).
        score: The criterion; NaN if it was pruned.
        measures: What was measured, by name.
        number: Of the first trial that tried it.
        digest: By which it is known.
        reason: Why it was pruned; empty if it was not.
    """

    chosen: Mapping[str, Option]
    score: float
    measures: Mapping[str, float]
    number: int = 0
    digest: str = ""
    reason: str = ""

    def to_json(self) -> Json:
        """As JSON types."""
        found = {"number": self.number, "digest": self.digest, "chosen": dict(self.chosen)}
        return {**found, "score": self.score, "measures": dict(self.measures)}


def pareto_front(points: Sequence[Point], against: Sequence[str], higher_is_better: bool = True) -> list[Point]:
    """The points that no other point beats: at least as good in score and every measure, and better in one.

    Of points that are equal in all of them the first stays; a score of NaN is no point.

    Args:
        points: All points.
        against: Measures that are to be least.
        higher_is_better: Whether a larger score is better.

    Returns:
        Those with the least of the first measure first.
    """
    sign = -1.0 if higher_is_better else 1.0
    real = [p for p in points if p.score == p.score]
    values = [(sign * p.score, *(float(p.measures[name]) for name in against)) for p in real]
    found = nondominated(values)
    return [real[i] for i in sorted(found, key=lambda i: (*values[i][1:], values[i][0]))]


@dataclass(frozen=True)
class Found:
    """What a search found.

    Args:
        points: Everything that was scored, in order, without repetitions.
        front: The Pareto front, in rising order of the first measure.
        pruned: What was not scored, with the reason, without repetitions.
        trials: Trials made, repetitions included.
        criterion: Name of the criterion.
        against: Names of the measures that are to be least.
        higher_is_better: Whether a larger score is better.
        plans: The configuration of every point of the front, in its order: arguments of ``quantize_transform_pass``,
            and the other tables.
        seconds: Of all trials together, as their workers took them.
    """

    points: tuple[Point, ...]
    front: tuple[Point, ...]
    pruned: tuple[Point, ...]
    trials: int
    criterion: str
    against: tuple[str, ...]
    higher_is_better: bool
    plans: tuple[tuple[Json, Json], ...]
    seconds: float = field(default=0.0, compare=False)

    def choose(self, target: float | None = None, limits: Mapping[str, float] | None = None) -> Plan:
        """The plan of the point with the least of the first measure that meets a target; or of the best score.

        Args:
            target: What the score has to reach; None for the best score within the limits.
            limits: Most of some measures, by name.

        Raises:
            SearchError: If no point does; has the nearest one.
        """
        fits = [p for p in self.front if (target is None or self._meets(p, target)) and _within(p, limits or {})]
        if not fits:
            asked = [] if target is None else [f"{self.criterion} {'>=' if self.higher_is_better else '<='} {target}"]
            asked += [f"{name} <= {most}" for name, most in (limits or {}).items()]
            ends = [f"{p.score:.6g} at {p.measures[self.against[0]]:.6g}" for p in self._ends()]
            raise SearchError(
                "no configuration that was tried is good enough",
                field="target, limits",
                got=f"front from {' to '.join(ends)}" if ends else f"an empty front; {self._why()}",
                expected=" and ".join(asked) or "any point",
                remedy="make more trials, allow wider tensors, or ask for less",
            )
        return self.plan(fits[0] if target is not None else self._best(fits))

    def plan(self, point: Point) -> Plan:
        """The plan of a point of the front.

        Raises:
            SearchError: If the point is not on the front.
        """
        if point not in self.front:
            raise SearchError("this point is not on the front", got=f"{point.score:.6g}, {dict(point.measures)}")
        quantize, more = self.plans[self.front.index(point)]
        measures: dict[str, Fact] = {name: point.measures[name] for name in self.against}
        facts: dict[str, Fact] = {"found by": "search", "trial": point.digest, self.criterion: point.score, **measures}
        return Plan(quantize, facts, more)

    def table(self) -> Table:
        """The front as a table; with what was chosen, as far as that fits beside it."""
        names = list(self.front[0].chosen) if self.front else []
        names = names if len(names) <= MOST_COLUMNS else []
        rows = [
            [
                *(f"{p.measures[n]:,.6g}" for n in self.against),
                f"{p.score:.6g}",
                p.digest,
                *(str(p.chosen[n]) for n in names),
            ]
            for p in self.front
        ]
        heads = [f">{n}" for n in (*self.against, self.criterion)]
        return Table("Pareto front", [*heads, "trial", *(f">{n}" for n in names)], rows)

    def document(self) -> Json:
        """Points and front, as JSON types."""
        head = {"criterion": self.criterion, "against": list(self.against), "higher_is_better": self.higher_is_better}
        return {
            **head,
            "trials": self.trials,
            "points": [p.to_json() for p in self.points],
            "front": [p.to_json() for p in self.front],
            "pruned": [{"number": p.number, "digest": p.digest, "reason": p.reason} for p in self.pruned],
        }

    def to_json(self) -> str:
        """Points and front, for other programs."""
        return json.dumps(self.document(), indent=1)

    def _best(self, points: Sequence[Point]) -> Point:
        """The best score, of equal ones the first."""
        return max(points, key=lambda p: p.score) if self.higher_is_better else min(points, key=lambda p: p.score)

    def _meets(self, point: Point, target: float) -> bool:
        return point.score >= target if self.higher_is_better else point.score <= target

    def _ends(self) -> list[Point]:
        return [*self.front[:1], *self.front[1:][-1:]]

    def _why(self) -> str:
        return f"all trials were pruned, the first one: {self.pruned[0].reason}" if self.pruned else "no trial was made"


def _within(point: Point, limits: Mapping[str, float]) -> bool:
    return all(point.measures[name] <= most for name, most in limits.items())
