"""One FIFO before a fork in place of several behind it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.beat_times.solver import Solver
from mase_hw.emit import delays, fifos
from mase_hw.emit.build import NetlistBuilder
from mase_hw.emit.netlist import Netlist, Pin
from mase_hw.emit.render import render_top
from mase_hw.emit.rewire import delayed
from mase_hw.emit.schedule import Schedule, Timeline
from tests.unit.test_beat_networks import evaluations

TOKENS, WIDTH = 32, 32  # products are as slow as projections: queries cannot be late


class Block(nn.Module):
    """Attention with one head and a residual; with a norm before it, or before the residual as well."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if norm else nn.Identity()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + nn.functional.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))


class Shared(nn.Module):
    """Queries and keys are the same projection."""

    def __init__(self) -> None:
        super().__init__()
        self.qk, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        both = self.qk(x)
        return x + nn.functional.scaled_dot_product_attention(both, both, self.v(x))


def compiled(net: nn.Module, out: Path, **hardware: Any) -> mase_hw.Design:
    torch.manual_seed(3)
    frames = torch.randn(4, TOKENS, WIDTH)
    settings = {"hardware": {"max_parallelism": 2, **hardware}, "vectors": {"frames": 1, "faults": 8}}
    return mase_hw.compile(net.eval(), frames[:1], settings, out=out, calibration=[frames])


def queues(design: mase_hw.Design) -> dict[str, int]:
    """Depth by instance of the FIFOs that take a block RAM."""
    found = design.manifest["fifos"]
    return {f["instance"]: f["depth"] for f in found if delays.block_rams(f["depth"], f["bits"])}


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
def test_queries_and_residual_wait_once(norm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a norm in between, which keys and values read at once, the norm is copied if that is worth it."""
    net = Block(norm)
    with monkeypatch.context() as patch:
        patch.setattr(fifos, "find_delays", lambda *_: [])
        apart = compiled(net, tmp_path / "apart")
    if norm:
        assert queues(compiled(net, tmp_path / "dear")) == queues(apart)
        monkeypatch.setattr(delays, "COPY", 0)
    together = compiled(net, tmp_path / "together")
    assert len(queues(apart)) == 2 and list(queues(together)) == ["u_data_in_0_fork_late_in_data_fifo"]
    assert together.timing == apart.timing and together.timing["exact"]
    modules = [Counter(i["module"] for i in d.manifest["instances"]) for d in (apart, together)]
    assert modules[1]["fixed_normalize"] - modules[0]["fixed_normalize"] == norm
    assert modules[1]["fixed_linear"] == modules[0]["fixed_linear"]
    frames = torch.randn(5, TOKENS, WIDTH)
    for stalls in (None, 0.3):
        simulation = together.simulate(frames, engine="batch", stalls=stalls)
        assert simulation.passed and simulation.frames == len(frames)
        if stalls is None:
            found = simulation.fill, simulation.interval
            assert found == (together.timing["fill"], together.timing["interval"])


def test_what_multiplies_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "COPY", 0)
    design = compiled(Shared(), tmp_path / "design")
    assert len(queues(design)) == 2
    assert sum(i["module"] == "fixed_linear" for i in design.manifest["instances"]) == 2


def test_given_depths_stay_where_they_are(tmp_path: Path) -> None:
    """Who gives a depth names a data input, so no FIFO moves."""
    design = compiled(Block(False), tmp_path / "design", fifo_depth={"add.data_in_0": 900})
    assert {f["before"]: f["depth"] for f in design.manifest["fifos"]}["add.data_in_0"] == 900
    assert "u_data_in_0_fork_late" not in {i["name"] for i in design.manifest["instances"]}


def plain(design: mase_hw.Design) -> Netlist:
    """The netlist without FIFOs."""
    assert design.graph is not None
    return NetlistBuilder(design.graph, "top").build()


def readers(netlist: Netlist, source: str) -> list[str]:
    return sorted(n.sink.instance for n in netlist.nets if n.source.instance == source)


@pytest.mark.parametrize("seed", range(20))
def test_reconvergent_paths(seed: int) -> None:
    """An input of a join lies on a cycle if its ends are connected without it, whatever the directions."""
    random = np.random.default_rng(seed)
    sources: dict[Pin, Pin] = {}
    parts: dict[str, Any] = {}
    for number in range(12):
        drivers = [f"u{n}" for n in range(number)] + ["data_in_0", "data_in_1"]
        inputs = [str(random.choice(drivers)) for _ in range(int(random.integers(1, 3)))]
        parts[f"u{number}"] = SimpleNamespace(inputs=inputs)
        for port, driver in enumerate(inputs):
            top = driver.startswith("data")
            sources[Pin(f"u{number}", f"data_in_{port}")] = Pin("" if top else driver, driver if top else "data_out_0")
    expected = []
    for pin, source in sources.items():
        start = source.instance or source.port
        together = {start}
        for _ in parts:
            for other, driver in sources.items():
                ends = {other.instance, driver.instance or driver.port}
                if other != pin and ends & together:
                    together |= ends
        if len(parts[pin.instance].inputs) > 1 and pin.instance in together:
            expected.append(pin)
    assert delays.reconvergent(cast(Any, SimpleNamespace(data_pins=lambda: sources, parts=parts))) == expected


def test_rewired(tmp_path: Path) -> None:
    """What only delayed inputs read moves; what others read too is copied, with its memories."""
    netlist = plain(design := compiled(Block(True), tmp_path / "design"))
    before = [list(netlist.instances), list(netlist.nets), dict(netlist.memories)]
    add, scores = Pin("u_add", "data_in_0"), Pin("u_scaled_dot_product_attention_matmul", "data_in_0")
    rewired = delayed(netlist, "u_data_in_0_fork", [add, scores])
    assert rewired is not None and [netlist.instances, netlist.nets, netlist.memories] == before
    made, queue, _ = rewired
    assert queue == Pin("u_data_in_0_fork_late", "in_data")
    new = {i.name for i in made.instances} - {i.name for i in netlist.instances}
    assert new == {"u_data_in_0_fork_late", "u_norm_late", "u_norm_weight_late", "u_norm_bias_late"}
    assert made.memories["u_norm_weight_late"] == netlist.memories["u_norm_weight"]
    assert readers(made, "u_norm_late") == ["u_q"] and readers(made, "u_norm_fork") == ["u_k", "u_v"]
    assert readers(made, "u_data_in_0_fork_late") == ["u_add", "u_norm_late"]
    assert readers(made, "u_data_in_0_fork") == ["u_data_in_0_fork_late", "u_norm"]
    places = {i.name: n for n, i in enumerate(made.instances)}
    assert all(
        places[n.source.instance] < places[n.sink.instance] for n in made.nets if n.source.instance and n.sink.instance
    )
    everything = [n.sink for n in netlist.nets if n.source.instance == "u_data_in_0_fork"]
    assert delayed(netlist, "u_data_in_0_fork", everything) is None
    # What is copied counts; where nothing is left of the fork there is no price.
    assert design.graph is not None
    timeline = Timeline(netlist, design.graph.catalogue)
    read = {
        instance.name: [n.sink for n in netlist.nets if n.source.instance == instance.name]
        for instance in netlist.instances
    }
    prices = [
        delays._price(timeline, read, "u_data_in_0_fork", pins, design.graph.catalogue)
        for pins in ([add, scores], [add], everything)
    ]
    assert prices == [delays.COPY * netlist.instance("u_norm").ports[0].lanes, 0, None]
    # Branches of a fork share the data of its first one, in whatever order the nets stand.
    turned = dataclasses.replace(made, nets=made.nets[::-1])
    first, second = (
        next(n.name for n in made.nets if n.source == Pin("u_norm_fork", "out_data", branch)) for branch in (0, 1)
    )
    for each in (made, turned):
        text = render_top(each, Schedule(1, 1, 1, "u_q", {}), ())
        assert f".out_data({first})" in text and f"assign {second} = {first};" in text


class Selected(nn.Module):
    """Kernels of two sizes, weighed by a softmax over them (SKNet), and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.paths = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=d, dilation=d) for d in (1, 2)])
        self.reduce, self.select, self.last = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 8, 1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.stack([torch.relu(path(x)) for path in self.paths], 1)
        weights = self.select(torch.relu(self.reduce(y.sum(1).mean((2, 3), keepdim=True))))
        return torch.relu(self.last((y * weights.view(1, 2, 4, 1, 1).softmax(1)).sum(1)) + x)


def test_forks_of_forks(tmp_path: Path) -> None:
    """A fork that waits late may go when another fork is divided: what it drove waits in its place."""
    torch.manual_seed(0)
    net, x = nn.Sequential(Selected(), Selected()).eval(), torch.randn(2, 4, 24, 24)
    settings = {"hardware": {"max_parallelism": 1}, "vectors": {"frames": 1, "faults": 1}}
    design = mase_hw.compile(net, x[:1], settings, out=tmp_path / "design", calibration=[x[:1]])
    found = design.simulate(x, engine="batch")
    assert found.passed and found.fill == design.timing["fill"]


def test_no_beat_is_later(tmp_path: Path) -> None:
    """Products that are faster than the projection of the queries would have to wait for it."""
    lanes = {"data_in_0": 4, "data_out_0": 4}
    fast = dict.fromkeys([f"scaled_dot_product_attention_matmul{end}" for end in ("", "_1")], lanes)
    design = compiled(Block(False), tmp_path / "design", parallelism=fast)
    assert len(queues(design)) == 2


def test_the_first_frame_may_be_later(tmp_path: Path) -> None:
    """By a share of its cycles; a cycle alone saves nothing."""
    fast = {f"scaled_dot_product_attention_matmul{end}": {"data_in_0": 4, "data_out_0": 4} for end in ("", "_1")}
    cycle, waits = (
        compiled(Block(False), tmp_path / name, parallelism=fast, fifo_slack=slack)
        for name, slack in (("cycle", 1e-4), ("waits", 1.0))
    )
    assert (len(queues(cycle)), len(queues(waits))) == (2, 1)
    assert cycle.timing["last"] * 1e-4 >= 1 and waits.timing["interval"] == cycle.timing["interval"]
    assert cycle.timing["last"] < waits.timing["last"] <= 2 * cycle.timing["last"]
    simulation = waits.simulate(torch.randn(3, TOKENS, WIDTH), engine="batch")
    assert simulation.passed and simulation.fill == waits.timing["fill"]


class Dense(nn.Module):
    """Every layer takes what all layers before it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4 * before, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
            for before in range(1, 9)
        )

    def forward(self, x: Tensor) -> Tensor:
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


@pytest.mark.slow
def test_concatenations_of_all_layers_take_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of blocks of beats, for all depths and the schedule: a few for each block, however often it is looked at."""
    sizes: list[int] = []
    made = Solver.__init__

    def counted(self: Solver, *args: Any) -> None:
        made(self, *args)
        sizes.append(len(self.places))

    monkeypatch.setattr(Solver, "__init__", counted)
    evaluated = evaluations(monkeypatch)
    found = mase_hw.check(Dense().eval(), torch.randn(1, 1, 16, 16), {"hardware": {"max_parallelism": 4}})
    assert found.passed
    assert len(evaluated) < 12 * max(sizes)
