"""The cuts that are chosen: the best of all contiguous ones, within budgets and links, and built as they say."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.cost.links import receiving, sending
from mase_hw.devices import beyond, compile_devices, fit_built, fit_devices, taken
from mase_hw.emit.estimate import estimate
from mase_hw.errors import ConfigError
from mase_hw.synth.targets import TARGETS, cells_of
from mase_hw.synth.tools import run_yosys
from tests.rtl import LIBRARY

from .test_devices import exact, residual

ROOM = {"lut": 20_000, "ff": 40_000, "dsp": 20, "bram": 40}
"""Of a device that holds some of the layers."""
IMAGE = torch.rand(1, 3, 8, 8)


def fitted(devices: int, links: dict[str, Any] | None = None, interval: int = 2304, **room: int) -> Any:
    config = {"links": {"bits": 16, "latency": 4, **(links or {})}}
    return fit_devices(residual(), IMAGE, [{**ROOM, **room}] * devices, config, interval=interval)


def searched(**room: int) -> Any:
    """The search for three devices, to be asked for single runs."""
    from mase_hw.compiler.config import load_config
    from mase_hw.devices.fit import _Search
    from mase_hw.fit.target import goal
    from mase_hw.preflight.mapped import mapped_graph

    settings = load_config({"links": {"bits": 16, "latency": 4}, "hardware": {"family": "xc7"}})
    graph = mapped_graph(residual(), IMAGE, settings, None, lambda _: None, None)
    return _Search(graph, settings, [goal({**ROOM, **room, "interval": 2304}, "")] * 3, 2304)


def test_no_other_cuts_are_better() -> None:
    """All cuts are tried, one by one, with the solver of each run."""
    from mase_hw.fit.budget import Solution
    from mase_hw.fit.problem import SHARE

    found = fitted(3)
    assert found.proven and [bool(run.nodes) for run in found.runs]
    assert all(number <= ROOM[name] for run in found.runs for name, number in run.use.items())
    search = searched()
    count, sums = len(search.order), []
    for a, b in itertools.combinations_with_replacement(range(count + 1), 2):
        runs = [run for run in enumerate([(0, a), (a, b), (b, count)]) if run[1][0] < run[1][1]]
        if all(search.allowed(*run, number) for number, run in runs):
            solved = [search.run(*run, 0) for _, run in runs]
            if all(isinstance(each, Solution) for each in solved):
                sums.append(sum(each.value for each in solved if isinstance(each, Solution)))
    assert min(sums) / SHARE == found.value


def test_it_is_built_as_it_says(tmp_path: Path) -> None:
    found = fitted(3)
    design = compile_devices(residual(), IMAGE, found.config, out=tmp_path / "made")
    assert design.timing["interval"] <= 2304
    used = [run for run in found.runs if run.nodes]
    for run, each in zip(used, design.designs.values(), strict=True):
        names = {entry.node for entry in each.record.instances}
        assert names.issuperset(set(run.nodes))
        assert estimate(each.record, "xc7")["dsp"] == run.use["dsp"]


def test_what_is_built_takes_more(tmp_path: Path) -> None:
    """FIFOs and ends of links are known once it is built, and what is then too much for a device is said."""
    found = fitted(3)
    design = compile_devices(residual(), IMAGE, found.config, out=tmp_path / "made")
    use = taken(design, "xc7")
    assert not beyond(found, design)
    for number, run in enumerate(found.runs):
        links = [link for link in design.record.links if number in (link.source, link.sink)]
        alone = estimate(design.designs[number].record, "xc7")["lut"]
        assert links and use[number].lut >= alone + 10 * len(links) and use[number].lut > run.use["lut"]
        less = dataclasses.replace(run.goal, budgets={**run.goal.budgets, "lut": alone})
        runs = [*found.runs[:number], dataclasses.replace(run, goal=less), *found.runs[number + 1 :]]
        assert beyond(dataclasses.replace(found, runs=runs), design) == {number: {"lut": use[number].lut - alone}}


def test_what_fits_as_it_is_built(tmp_path: Path) -> None:
    """Look-up tables are short: the best choice fits by the estimates alone, and the one that is built fits whole."""
    devices, links = [{**ROOM, "lut": 1150}] * 3, {"links": {"bits": 16, "latency": 4}}
    first, told = fit_devices(residual(), IMAGE, devices, links, interval=2304), list[str]()
    found, built = fit_built(
        residual(), IMAGE, devices, links, interval=2304, out=tmp_path / "made", progress=told.append
    )
    assert any("built, it takes too much: {1: {'lut': " in line for line in told)
    assert all(each.lut <= 1150 for each in taken(built, "xc7").values()) and not beyond(found, built)
    assert built.timing["interval"] <= 2304 and [run.goal for run in found.runs] == [run.goal for run in first.runs]
    # What nothing is kept back for is what no choice is better than, whether it fits or not.
    assert found.bound == first.bound < found.value and not found.proven


def test_what_does_not_fit_as_it_is_built(tmp_path: Path) -> None:
    """There is a choice by the estimates, and none with what stands between its layers: how much is missing is said."""
    devices, links = [{**ROOM, "lut": 1330}] * 2, {"links": {"bits": 16, "latency": 4}}
    with pytest.raises(ConfigError, match="no choice was found that fits with its FIFOs") as error:
        fit_built(residual(), IMAGE, devices, links, interval=2304, out=tmp_path / "made")
    assert "lut too many" in str(error.value)


COUNTED = {(8, 64, 1, 44): (20, 25, 59, 36), (64, 16, 1, 44): (72, 91, 85, 103), (24, 8, 2, 14): (32, 39, 37, 35)}
"""Of bits of a beat and of a word, cycles per word and credits: LUTs and flip-flops of both ends, by Yosys for xc7."""


@pytest.mark.parametrize("sizes", COUNTED)
def test_ends_of_links(sizes: tuple[int, int, int, int]) -> None:
    """Within one of the sending end, and a fifth and two of the receiving one, which is a FIFO for the most part."""
    width, word, pace, credits = sizes
    lut, ff, more_lut, more_ff = COUNTED[sizes]
    sends, receives = sending(width, word, pace, credits), receiving(width, word, credits, "xc7")
    assert abs(sends.lut - lut) <= 1 and abs(sends.ff - ff) <= 1
    assert abs(receives.lut - more_lut) <= 2 + more_lut / 5 and abs(receives.ff - more_ff) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("sizes", COUNTED)
def test_ends_of_links_as_they_are_mapped(sizes: tuple[int, int, int, int], tmp_path: Path) -> None:
    """The counts above are what Yosys makes of either module by itself."""
    width, word, pace, credits = sizes
    values = {"WIDTH": width, "WORD": word, "CREDITS": credits}
    found: list[int] = []
    for top, more in (("link_send", {"PACE": pace}), ("link_receive", {})):
        given = " ".join(f"-G{name}={value}" for name, value in {**values, **more}.items())
        files = " ".join(str(path) for path in sorted((LIBRARY / "lib").glob("*.sv")))
        read = f"read_slang -j 1 --ignore-assertions --top {top} {given} {files}"
        target = TARGETS["xc7"]
        script = [read, *target.mapper.script(top, pads=False), "tee -q -o statistics.json stat -json"]
        run_yosys(script, tmp_path, "map.log", lambda _: None)
        (module,) = json.loads((tmp_path / "statistics.json").read_text())["modules"].values()
        counts, _ = target.count(cells_of(module))
        found += [counts["lut"], counts["ff"]]
    assert tuple(found) == COUNTED[sizes]


def test_beats_are_whole_words(tmp_path: Path) -> None:
    """A word of 64 bits every eight cycles: 512 elements of a lane each take 4,096, of two lanes 2,048."""
    found = fitted(3, links={"bits": 64, "clock_ratio": 8})
    design = compile_devices(residual(), IMAGE, found.config, out=tmp_path / "made")
    assert found.links and found.links == {link.tensor: link.interval for link in design.record.links}
    assert max(found.links.values()) > 512 * 8 // 64 * 8 and design.timing["interval"] <= 2304


def test_what_does_not_fit() -> None:
    with pytest.raises(ConfigError, match="no contiguous cuts for these devices meet the rate"):
        fitted(1, dsp=4)
    with pytest.raises(ConfigError, match="no contiguous cuts for these devices meet the rate"):
        fitted(3, links={"bits": 1})
    with pytest.raises(ConfigError, match="no design is that fast"):
        fitted(3, interval=10)
    with pytest.raises(ConfigError, match="there are no devices"):
        fitted(0)


def test_how_far_the_devices_reach() -> None:
    """What is said of two that are too small, against every run on the first of them."""
    from mase_hw.fit.budget import Solution

    search = searched(dsp=12)
    runs = range(1, len(search.order))
    reached = max(n for n in runs if search.allowed(0, n, 0) and isinstance(search.run(0, n, 0), Solution))
    said = f"before the last one take the first {reached} of {len(search.order)} layers at most"
    with pytest.raises(ConfigError, match=said) as error:
        fitted(2, dsp=12)
    assert reached > 0 and f"room on the last one for {search.order[reached]} " in str(error.value)


def test_weights_outside() -> None:
    """Block RAM is short: weights are read from outside, no more words than cycles, only where there is a memory."""

    def fitted(*outside: bool, interval: int = 20_000) -> Any:
        devices = [{**ROOM, "bram": 1, "external": each, "unrolled": 0} for each in outside]
        return fit_devices(residual(), IMAGE, devices, {"links": {"bits": 16, "latency": 4}}, interval=interval)

    with pytest.raises(ConfigError, match="no contiguous cuts"):
        fitted(False)
    found = fitted(True)
    (run,) = found.runs
    moved = {place.partition(".")[0] for place in found.config.hardware.parameters_at}
    assert found.proven and moved and moved.issubset(run.nodes)
    assert run.use["bram"] <= 1 and 0 < run.words <= 20_000
    assert f"{run.words:,} words of external memory a frame" in found.text()
    _, second = fitted(True, False).runs
    assert second.nodes and not second.words
    # Words are no more than cycles, whatever the multipliers could do.
    with pytest.raises(ConfigError, match="no contiguous cuts"):
        fitted(True, interval=2304)


@pytest.mark.slow
def test_weights_outside_are_built(tmp_path: Path) -> None:
    """The words of the choice are those of the memory of its device, and all devices are simulated."""
    devices = [{**ROOM, "bram": 1, "external": each, "unrolled": 0} for each in (True, False)]
    links = {"links": {"bits": 16, "latency": 4}}
    found = fit_devices(residual(), IMAGE, devices, links, interval=20_000)
    design = compile_devices(residual(), IMAGE, found.config, out=tmp_path / "made")
    (external,) = design.whole.record.outside
    assert external.words_per_frame == found.runs[0].words and design.timing["interval"] <= 20_000
    exact(design, torch.rand(4, 3, 8, 8))


def test_cuts_that_are_named() -> None:
    """The best of all cuts is among those that are named; a worse one, if only that may be."""
    runs = [run.nodes for run in fitted(3).runs]

    def named(*cuts: str) -> Any:
        return fit_devices(
            residual(), IMAGE, [ROOM] * 3, {"links": {"bits": 16, "latency": 4}}, interval=2304, cuts=cuts
        )

    same, other = named(*(nodes[0] for nodes in runs if nodes)), named("relu", "d")
    assert same.proven and [run.nodes for run in same.runs] == runs
    assert other.proven and {run.nodes[0] for run in other.runs if run.nodes} <= {"a", "relu", "d"}
    assert other.value > same.value
    with pytest.raises(ConfigError, match="no layer in hardware is in the module"):
        named("nothing")


class Gate(nn.Module):
    """A module of functions alone."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) * 0.5


class Stacked(nn.Module):
    """An encoder of PyTorch, modules of functions, and one that only gives elements other names."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.gate, self.flat, self.fc = Gate(), nn.Flatten(), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.flat(self.gate(self.encoder(x))))


def test_a_cut_is_named_by_any_module() -> None:
    """In front of the first node that is inside, or that reads what a module without hardware gives."""
    from mase_hw.compiler.config import load_config
    from mase_hw.devices.fit import _Search
    from mase_hw.fit.target import goal
    from mase_hw.preflight.mapped import mapped_graph

    torch.manual_seed(0)
    settings = load_config({"hardware": {"family": "xc7"}})
    graph = mapped_graph(Stacked().eval(), torch.rand(1, 4, 8), settings, None, lambda _: None, None)
    cuts = ["encoder.layers.0", "encoder.layers.1", "encoder.layers.1.linear1", "gate", "flat", "fc"]
    search = _Search(graph, settings, [goal({**ROOM, "interval": 4096}, "xc7")], 4096, cuts=cuts)
    firsts = [search.order[place] for place in search.places[:-1]]
    assert firsts == ["encoder_layers_0_norm1", "encoder_layers_1_norm1", "encoder_layers_1_linear1", "relu", "fc"]


@pytest.mark.slow
def test_a_vision_transformer_over_three() -> None:
    """DeiT-tiny with three blocks, its weights outside: exit code 0 if every bit and cycle is right."""
    sizes = "--image 64 --depth 3 --narrower 4 --smaller 12 --devices 3 --interval 60000 --gap 0.05"
    command = [sys.executable, "-m", "benchmarks.devices", "deit_tiny", *sizes.split(), "--lint", "--simulate", "2"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "beyond what devices have, less what was kept: nothing" in done.stdout
