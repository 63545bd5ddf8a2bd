"""The stage that a report names is the true limiter: raising its lanes shortens the interval, and no other's does."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.quantised_graph import traced
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.emit.netlist import Netlist
from mase_hw.emit.schedule import Schedule
from mase_hw.errors import MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.passes.pipeline import Pipeline
from mase_hw.report.limits import HARDWARE_ARGS, limits, multipliers_of, rebuilt_with, slowest_nodes

Built = tuple[MaseGraph, Netlist, Schedule]


class Chain(nn.Module):
    """Linear layers and functions, some of them with a path around them; sizes from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        choose = random.Random(seed)
        self.sizes = [choose.choice((6, 8, 12, 16, 20, 24)) for _ in range(choose.randint(3, 5))]
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.kinds = [choose.choice(("relu", "around", "plain")) for _ in self.layers]

    def forward(self, x: Tensor) -> Tensor:
        for layer, kind in zip(self.layers, self.kinds, strict=True):
            y = layer(x)
            if kind == "relu":
                y = torch.relu(y)
            x = y + torch.relu(y) if kind == "around" else y
        return x


@functools.lru_cache
def design(seed: int) -> Built:
    """A random design with random lanes, up to its netlist; no test changes it."""
    return with_lanes(seed)


def with_lanes(seed: int, parallelism: Mapping[str, Any] | None = None) -> Built:
    """The same with these lanes."""
    torch.manual_seed(seed)
    model, choose = Chain(seed).eval(), random.Random(seed)
    lanes: dict[str, Any] = {}
    for index, (size_in, size_out) in enumerate(zip(model.sizes, model.sizes[1:], strict=False)):
        few = [n for n in (1, 2, 3, 4) if size_in % n == 0], [n for n in (1, 2, 3, 4) if size_out % n == 0]
        lanes[f"layers_{index}"] = {"data_in_0": choose.choice(few[0]), "data_out_0": choose.choice(few[1])}
    graph, example = traced(model, torch.randn(1, model.sizes[0]), None, lambda _: None)
    config = {"hardware": {"parallelism": parallelism or lanes}}
    steps = compile_pipeline(example, config, out=Path("nowhere"))
    graph = Pipeline(steps.steps[: steps.names.index("top") + 1], "random").run(graph).graph
    return graph, graph.meta["netlist"], graph.meta["schedule"]


def with_all_lanes(built: Built, names: list[str]) -> int:
    """The interval with as many lanes as there are elements, at both sides of some nodes."""
    graph, netlist, _ = built
    lanes = {}
    for name in names:
        meta = graph.meta_of(graph.node(name))
        tensors = {**meta.common.args.tensors, **meta.common.results.tensors}
        lanes[name] = {t: r.shape[-1] for t, r in tensors.items() if t.startswith("data_")}
    args = graph.meta[HARDWARE_ARGS]
    try:
        changed = args.model_copy(update={"parallelism": {**args.parallelism, **lanes}})
        return rebuilt_with(graph, changed, netlist.name)[2].interval
    except MaseHwError:  # a sum with inputs of two lengths of rows, and the like
        return 1 << 40


@pytest.mark.parametrize("designs", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_the_named_stage_is_the_limiter(designs: int) -> None:
    alone = 0
    for seed in range(designs):
        built = design(seed)
        graph, _, schedule = built
        named = slowest_nodes(*built)
        assert named, seed
        assert schedule.interval == max(t.interval for t in schedule.instances.values()), "stages wait for each other"
        assert with_all_lanes(built, named) < schedule.interval, (seed, named)
        others = [n.name for n in graph.nodes if graph.meta_of(n).hardware.module and n.name not in named]
        for other in others:
            assert with_all_lanes(built, [other]) >= schedule.interval, (seed, named, other)
        if len(named) > 1:
            for each in named:
                rest = [name for name in named if name != each]
                assert with_all_lanes(built, rest) <= schedule.interval
        alone += len(named) == 1
    assert alone >= designs // 2, "most of them have one limiter"


@pytest.mark.parametrize("seed", range(6))
def test_the_change_leads_to_what_is_said(seed: int) -> None:
    graph, netlist, schedule = design(seed)
    found = limits(graph, netlist, schedule)
    assert found.interval == schedule.interval and not found.by_waiting
    assert found.multipliers == multipliers_of(graph, netlist) > 0
    assert found.change is not None
    lanes = {**graph.meta[HARDWARE_ARGS].parallelism, **found.change.lanes}
    again_graph, again, timing = with_lanes(seed, lanes)
    assert timing.interval == found.change.interval < schedule.interval
    assert multipliers_of(again_graph, again) == found.change.multipliers
    assert timing.bottleneck == found.change.bottleneck


def test_the_graph_is_left_as_it_was() -> None:
    graph, netlist, schedule = design(3)
    before = {n.name: graph.meta_of(n).hardware.verilog_param for n in graph.nodes}
    kept = {name: dict(value) for name, value in before.items()}
    limits(graph, netlist, schedule)
    assert {n.name: dict(graph.meta_of(n).hardware.verilog_param) for n in graph.nodes} == kept
    assert graph.meta["netlist"] is netlist
