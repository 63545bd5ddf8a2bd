"""Which groups of nodes to raise first: what the network loses by each, for what raising it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw.ir import MaseGraph
from mase_hw.passes.mixed_precision.cost import CostModel
from mase_hw.passes.quantize.noise.network import Method, network_noise
from mase_hw.passes.quantize.noise.noise import analyse_noise

MOST_MEASURED = 32
"""Groups up to which the loss of each is measured in a run of its own, and above which all are estimated at once."""


@dataclass(frozen=True)
class Ranked:
    """A group of nodes in the ranking.

    Args:
        nodes: Its nodes, in order of execution.
        noise: SQNR in dB at the network's outputs with this group low and everything else in float; the lower, the more
            is lost by it.
        loss: Power of the error at the outputs with this group low, over that of the outputs.
        saved: How much of that is saved by raising it; at least 0.
        price: What raising it adds to the cost.
    """

    nodes: tuple[str, ...]
    noise: float
    loss: float = 0.0
    saved: float = 0.0
    price: float = 0.0

    @property
    def worth(self) -> float:
        """What is saved for the price; infinite for a group that costs nothing to raise."""
        if self.price > 0:
            return self.saved / self.price
        return math.inf


def rank(
    exact: MaseGraph,
    made: Callable[[Sequence[str]], MaseGraph],
    groups: Mapping[str, list[str]],
    inputs: Iterable[Any],
    cost: CostModel,
    *,
    at_nodes: bool = False,
) -> list[Ranked]:
    """Groups by what raising them is worth, most first; of equal ones those by which more is lost, then the earlier.

    Args:
        exact: The float graph.
        made: The quantised graph with the groups of these names raised.
        groups: Nodes of every group.
        inputs: Batches for the losses, gone through twice.
        cost: What a graph costs.
        at_nodes: Rank by the noise of the worst node of a group at its own result instead.
    """
    method: Method = "measured" if len(groups) <= MOST_MEASURED else "estimated"
    low = made([])
    before, after = (
        network_noise(exact, graph, inputs, groups=groups, method=method) for graph in (low, made(list(groups)))
    )
    least = cost(low)
    ranked = []
    for name, members in groups.items():
        # A network that gives nothing but zeros has nothing to lose.
        loss, left = (found.noise[name] / found.signal if found.signal else 0.0 for found in (before, after))
        price = cost(made([name])) - least
        ranked.append(Ranked(tuple(members), before.sqnr_db(name), loss, max(0.0, loss - left), price))
    if at_nodes:
        local = {n: noise.local.sqnr_db for n, noise in analyse_noise(exact, low, inputs).nodes.items() if noise.local}
        return sorted(ranked, key=lambda group: min(local.get(name, math.inf) for name in group.nodes))
    return sorted(ranked, key=lambda group: (-group.worth, -group.loss))
