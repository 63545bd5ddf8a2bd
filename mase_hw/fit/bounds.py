"""What no design with a part as one expression stays below, from the folded ways of the nodes that are left.

A way that is bound to be worse than the best design so far is left out, and that is proven: its nodes outside the
expression take at least the cheapest of their own ways, and at least as many cycles as the fastest.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping

from mase_hw.cost.devices import RESOURCES
from mase_hw.fit.choose import ANY_RATE, Choice, Chooser
from mase_hw.fit.parts import Framed


class Bounds:
    """Bounds of the nodes of a graph of which all are folded.

    Args:
        folded: What chooses for it.
    """

    def __init__(self, folded: Chooser) -> None:
        self.goal, self.space, self.weights = folded.goal, folded.space, folded.weights
        self.fastest = {name: options.fastest() for name, options in self.space.options.items()}
        self._area: dict[int, Mapping[str, int]] = {}

    def interval(self, framed: Framed) -> int:
        """The fewest cycles per frame of a design with a part as one expression."""
        return max([framed.beats, *(cycles for name, cycles in self.fastest.items() if name not in framed.nodes)])

    def worse(self, framed: Framed, best: Choice | None, area: int = 0, fill: int = 1) -> str:
        """Why a design with a part as one expression is not better; empty if it may be.

        Args:
            framed: The part.
            best: The best design so far; None if there is none.
            area: What the expression takes by itself, weighed.
            fill: Cycles to its first result.
        """
        cycles = self.interval(framed)
        if self.goal.interval is not None and cycles > self.goal.interval:
            return f"it takes at least {cycles} cycles per frame"
        if best is None:
            return ""
        timing = best.manifest.timing
        if self.goal.minimise == "latency":
            late = self._longest(framed, fill)
            return f"its latency is at least {late + 1} cycles" if late > timing.last else ""
        if self.goal.minimise == "interval" and cycles > timing.interval:
            return f"it takes at least {cycles} cycles per frame"
        if self.goal.minimise == "interval" and cycles < timing.interval:
            return ""
        most = timing.interval if self.goal.minimise == "interval" else self.goal.interval or ANY_RATE
        rest = sum(least for name, least in self._least(most).items() if name not in framed.nodes)
        taken = float(self.weights[: len(RESOURCES)] @ [best.use[name] for name in RESOURCES])
        return "it takes more" if rest + area > taken else ""

    def _least(self, interval: int) -> Mapping[str, int]:
        """Of every node the least weighed area for so many cycles per frame."""
        if interval not in self._area:
            self._area[interval] = {
                name: min((int(each.use @ self.weights) for each in options.within(interval)), default=0)
                for name, options in self.space.options.items()
            }
        return self._area[interval]

    @functools.cached_property
    def _fills(self) -> Mapping[str, int]:
        """Of every node the fewest cycles to its first result."""
        most = self.goal.interval or ANY_RATE
        found = {name: options.within(most) for name, options in self.space.options.items()}
        return {name: min((each.latency.fill for each in of), default=0) for name, of in found.items()}

    def _longest(self, framed: Framed, fill: int) -> int:
        """Cycles to the first result at least: of the longest path."""
        times: dict[str, int] = {}
        readers: dict[str, list[str]] = {}
        for (giver, _), (reader, _) in self.space.links:
            readers.setdefault(reader, []).append(giver)
        inside: Collection[str] = framed.nodes
        entered = 0
        for name in self.space.options:
            before = max((times.get(giver, 0) for giver in readers.get(name, ())), default=0)
            if name not in inside:
                times[name] = before + self._fills[name]
                continue
            if name == framed.nodes[0]:
                entered = before
            times[name] = entered + fill
        return max(times.values(), default=0)
