"""The solver against greedy folding by divisors, layer by layer, on random networks: it is never worse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.config import CompileConfig
from mase_hw.cost.devices import RESOURCES
from mase_hw.errors import ConfigError
from mase_hw.fit.budget import Solution, solve
from mase_hw.fit.choose import Chooser
from mase_hw.fit.space import Candidates, Space
from mase_hw.fit.target import Goal
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.preflight.mapped import mapped_graph


class Network(nn.Module):
    """Linear layers one after the other, some of them beside their input or beside another one."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.kinds = [str(rng.choice(["plain", "residual", "branches"])) for _ in range(int(rng.integers(1, 4)))]
        sizes = [int(rng.choice([2, 3, 4, 6, 8, 10, 12]))]
        layers: list[nn.Module] = []
        for kind in self.kinds:
            sizes.append(sizes[-1] if kind == "residual" else int(rng.choice([1, 2, 4, 5, 6, 9, 12])))
            layers.append(nn.Linear(sizes[-2], sizes[-1]))
            layers.append(nn.Linear(sizes[-2], sizes[-1]) if kind == "branches" else nn.Identity())
        self.size, self.layers = sizes[0], nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for number, kind in enumerate(self.kinds):
            first, second = self.layers[2 * number], self.layers[2 * number + 1]
            y = torch.relu(first(x))
            x = y if kind == "plain" else y + (second(x) if kind == "branches" else x)
        return x


def graph_of(seed: int, family: str) -> MaseGraph:
    torch.manual_seed(seed)
    model = Network(np.random.default_rng(seed)).eval()
    settings = CompileConfig(hardware=HardwareArgs(family=family))
    return mapped_graph(model, torch.randn(1, 3, model.size), settings, None, lambda _: None)


def greedy(space: Space, candidates: Candidates, interval: int) -> dict[str, int] | None:
    """Of every layer the divisors of its sizes with the fewest multipliers that are fast enough, in order.

    Each layer is chosen alone, as folding tools do it: what stands between layers is not looked at.
    """
    chosen = {}
    for name, of in candidates.items():
        sizes = {**space.options[name].inside, **space.options[name].outside}
        found = [
            (each.multipliers, sum(each.lanes.values()), i)
            for i, each in enumerate(of)
            if each.cycles <= interval and all(sizes[port] % lanes == 0 for port, lanes in each.lanes.items())
        ]
        if not found:
            return None
        chosen[name] = min(found)[2]
    return chosen


def worth(total: np.ndarray, weights: np.ndarray) -> int:
    return sum(int(n) * int(w) for n, w in zip(total, weights, strict=True))


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_never_worse_than_greedy_folding_by_divisors(count: int) -> None:
    """For an interval, and within the budgets that greedy folding needs."""
    better, compared, within = 0, 0, 0
    for seed, family in zip(range(count), itertools.cycle(["xc7", "ecp5"]), strict=False):
        rng = np.random.default_rng(seed)
        graph = graph_of(seed, family)
        chooser = Chooser(graph, HardwareArgs(), Goal(None, {}, family, "interval", 100.0))
        fastest = chooser.fastest[0]
        interval = math.ceil(fastest * float(rng.choice([1, 2, 5, 20])))
        every = {name: options.within(interval) for name, options in chooser.space.options.items()}
        by_hand = greedy(chooser.space, every, interval)
        total = None if by_hand is None else chooser.space.problem(every, interval).total(by_hand)
        candidates, found = chooser._cheapest(interval, dict.fromkeys(RESOURCES, 0))
        assert isinstance(found, Solution) and found.proven, seed
        assert all(candidates[name][at].cycles <= interval for name, at in found.chosen.items()), seed
        if total is None:
            continue
        compared += 1
        theirs, ours = worth(total, chooser.weights), worth(found.total, chooser.weights)
        assert ours == found.value <= theirs, seed
        better += ours < theirs
        budgets = {m: int(total[m]) for m in range(len(RESOURCES))}
        tight = solve(chooser.space.problem(candidates, interval), chooser.weights, budgets)
        assert isinstance(tight, Solution) and tight.value <= theirs, seed
        assert all(int(tight.total[m]) <= most for m, most in budgets.items()), seed
        within += 1
        if within % 8 == 1:
            goal = Goal(None, dict(zip(RESOURCES, budgets.values(), strict=True)), family, "interval", 100.0)
            assert Chooser(graph, HardwareArgs(), goal)._least_interval(dict.fromkeys(RESOURCES, 0)) <= interval, seed
    assert compared > 0.6 * count and better > 0.4 * count, (compared, better)


def test_a_budget_below_anything_is_refused() -> None:
    graph = graph_of(0, "xc7")
    with pytest.raises(ConfigError, match="no design within the budgets"):
        Chooser(graph, HardwareArgs(), Goal(None, {"lut": 1}, "xc7", "interval", 100.0)).choose()
