"""Pruning of mixed precision by itself: which group is lowered again, in which order, and what is not tried twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mase_hw.passes.mixed_precision import Ranked
from mase_hw.passes.mixed_precision.prune import Pruned, Trials, lower_again


def ranked(*names: str) -> list[Ranked]:
    return [Ranked((name,), float(noise)) for noise, name in enumerate(names)]


class Imagined:
    """Groups with a cost each, and what they are worth together."""

    def __init__(self, price: dict[str, float], worth: dict[str, float]) -> None:
        self.price, self.worth = price, worth
        self.scored: list[str] = []
        self.said: list[str] = []

    def prune(self, target: float, trials: int = 99, known: tuple[str, ...] = ()) -> Pruned:
        def made(groups: Sequence[Ranked]) -> Any:
            return [group.nodes[0] for group in groups]

        def score(names: Any) -> float:
            self.scored.append("".join(names))
            return sum(self.worth[name] for name in names)

        groups = ranked(*self.price)
        scores = {tuple(g for g in groups if g.nodes[0] in names): sum(self.worth[n] for n in names) for names in known}
        rules = Trials(
            made=made,
            cost=lambda names: sum(self.price[name] for name in names),  # type: ignore[attr-defined]
            score=score,
            good_enough=lambda value: value >= target,
            tell=self.said.append,
        )
        return lower_again(groups, rules, scores={tuple(groups): sum(self.worth.values()), **scores}, trials=trials)


def names(pruned: Pruned) -> str:
    return "".join(group.nodes[0] for group in pruned.groups)


def test_the_order_of_pruning_and_its_limit() -> None:
    def net() -> Imagined:
        return Imagined({"a": 2.0, "b": 9.0, "c": 4.0, "d": 0.0, "e": 4.0}, {"a": 1, "b": 5, "c": 2, "d": 1, "e": 2})

    # 11 in all. The most expensive first, but it is worth too much; of equals the least noisy; d saves nothing.
    full, costly = net(), "acde"
    found = full.prune(8.0)
    assert full.scored == [costly, "abcd", "abd", "bcd"] and names(found) == "bcd"
    assert found.score == 8.0 and found.complete
    assert full.said[:2] == ["lowering b: not good enough", "lowering e: still good enough"]
    for trials, left, complete in ((0, "abcde", False), (1, "abcde", False), (2, "abcd", False), (4, "bcd", True)):
        limited = net()
        found = limited.prune(8.0, trials)
        assert (names(found), found.complete, len(limited.scored)) == (left, complete, trials)
    told = net()
    assert names(told.prune(8.0, known=(costly, "abcd"))) == "bcd" and told.scored == ["abd", "bcd"]
    assert names(net().prune(-1.0)) == "d"
