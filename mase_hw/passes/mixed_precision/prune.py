"""Lowering again what a search has raised without need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mase_hw.ir import MaseGraph
from mase_hw.passes.mixed_precision.cost import CostModel
from mase_hw.passes.mixed_precision.rank import Ranked
from mase_hw.passes.mixed_precision.search import Tell


@dataclass(frozen=True)
class Trials:
    """How sets of raised groups are made and judged.

    Args:
        made: The quantised graph with some groups raised.
        cost: What a graph costs.
        score: The criterion of a graph.
        good_enough: Whether a score is.
        tell: Told what was tried.
    """

    made: Callable[[Sequence[Ranked]], MaseGraph]
    cost: CostModel
    score: Callable[[MaseGraph], float]
    good_enough: Callable[[float], bool]
    tell: Tell


@dataclass(frozen=True)
class Pruned:
    """What is left raised.

    Args:
        groups: The raised groups, in the order in which they were given.
        score: The criterion with them raised.
        complete: Everything was tried; False if the trials ran out.
        trials: Graphs that were scored.
        scores: Their scores by raised groups, and those that were known before.
    """

    groups: Sequence[Ranked]
    score: float
    complete: bool
    trials: int = 0
    scores: Mapping[tuple[Ranked, ...], float] = field(default_factory=dict)


def lower_again(
    raised: Sequence[Ranked], rules: Trials, *, scores: Mapping[tuple[Ranked, ...], float], trials: int
) -> Pruned:
    """Lower every group that need not be raised, each tried once: the one that saves most first.

    A group stays raised if lowering it costs no less. Of groups that save the same, the one that is least worth it is
    tried first.
    What is lowered stays so; if lowering more is never better, no group that is left could be lowered in the end.

    Args:
        raised: Groups that are good enough when raised, those most worth it first.
        rules: How sets are made and judged.
        scores: Scores that are known, by raised groups; that of ``raised`` among them.
        trials: Graphs to score at most.
    """
    known, left, made, cost = dict(scores), trials, rules.made, rules.cost
    kept, best = list(raised), cost(made(raised))
    saved = {group: best - cost(made([g for g in raised if g is not group])) for group in raised}
    for group in sorted(reversed(raised), key=lambda g: -saved[g]):
        without = [g for g in kept if g is not group]
        candidate = made(without)
        price = cost(candidate)
        if not price < best:
            continue
        if tuple(without) not in known:
            if left == 0:
                return Pruned(kept, known[tuple(kept)], False, trials - left, known)
            left -= 1
            known[tuple(without)] = rules.score(candidate)
        enough = rules.good_enough(known[tuple(without)])
        rules.tell(f"lowering {', '.join(group.nodes)}: {'still good enough' if enough else 'not good enough'}")
        if enough:
            kept, best = without, price
    return Pruned(kept, known[tuple(kept)], True, trials - left, known)
