"""Looking for a cheaper set than pruning left, by the losses of the groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from mase_hw.passes.mixed_precision.prune import Pruned, Trials
from mase_hw.passes.mixed_precision.rank import Ranked

ALL_SETS = 12
"""Groups up to which every set is considered; above, only those that differ from the best in a few groups."""

Key = frozenset[tuple[str, ...]]


def exchange(
    found: Pruned, rules: Trials, ranking: Sequence[Ranked], *, scores: dict[Key, float], trials: int
) -> Pruned:
    """Try sets that cost less than the best, those first that are expected to lose least.

    Pruning only ever lowers, so that it ends with whatever the ranking raised first. What a set is expected to lose is
    the sum of what the network loses by its groups one at a time, and what it is expected to cost the sum of their
    prices; the score decides, and the cost of the graph.

    Args:
        found: What pruning left.
        rules: How sets are made and judged.
        ranking: All groups.
        scores: Scores that are known, by raised groups; filled.
        trials: Graphs to score at most.

    Returns:
        The best set; ``complete`` if every set that was considered and costs less is known to be too bad.
    """
    made, cost, complete = rules.made, rules.cost, found.complete
    best, price = list(found.groups), cost(made(found.groups))
    reached = found.score
    while True:
        untried = (s for s in _sets(ranking, best) if _key(s) not in scores)
        cheaper = [s for s in untried if _price(s) < _price(best)]
        cheaper.sort(key=lambda s: (_loss(ranking, s), _price(s)))
        improved = False
        for groups in cheaper:
            candidate = made(groups)
            amount = cost(candidate)
            if not amount < price:
                continue
            if trials == 0:
                return Pruned(best, reached, False)
            trials -= 1
            value = scores[_key(groups)] = rules.score(candidate)
            enough = rules.good_enough(value)
            names = ", ".join(name for group in groups for name in group.nodes) or "nothing"
            rules.tell(f"raising {names} instead: {'good enough and cheaper' if enough else 'not good enough'}")
            if enough:
                best, price, reached, improved = groups, amount, value, True
                break
        if not improved:
            return Pruned(best, reached, complete)


def _sets(ranking: Sequence[Ranked], best: Sequence[Ranked]) -> Iterator[list[Ranked]]:
    """Sets to consider, in the order of the ranking."""
    if len(ranking) <= ALL_SETS:
        for picked in itertools.product((False, True), repeat=len(ranking)):
            yield [group for group, one in zip(ranking, picked, strict=True) if one]
        return
    # One or two groups out, none or one in.
    inside, outside = set(best), [group for group in ranking if group not in best]
    for count in (1, 2):
        for out in itertools.combinations(best, count):
            for extra in [[], *([group] for group in outside)]:
                kept = (inside - set(out)) | set(extra)
                yield [group for group in ranking if group in kept]


def _price(groups: Sequence[Ranked]) -> float:
    return sum(group.price for group in groups)


def _loss(ranking: Sequence[Ranked], raised: Sequence[Ranked]) -> float:
    return sum(group.loss for group in ranking) - sum(group.saved for group in raised)


def _key(groups: Sequence[Ranked]) -> Key:
    return frozenset(group.nodes for group in groups)
