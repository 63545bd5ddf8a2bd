"""FIFOs on plain streams: the interval of a design is that of its slowest stage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.netlist import Netlist
from mase_hw.emit.schedule import Timeline

HEIGHT, WIDTH = 8, 64


def chain(height: int = HEIGHT, width: int = WIDTH, act: bool = False) -> tuple[nn.Module, torch.Tensor]:
    """Pairs of convolutions as slow as each other, with a max pool in between that gives its rows in bursts."""
    torch.manual_seed(1)
    between = [nn.ReLU()] if act else []
    pair = nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1), *between, nn.MaxPool2d(2)
    net = nn.Sequential(*pair, nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1))
    return net.eval(), torch.rand(1, 1, height, width)


def compiled(out: Path, net: tuple[nn.Module, torch.Tensor], **hardware: Any) -> mase_hw.Design:
    settings = {"hardware": {"max_parallelism": 1, **hardware}, "vectors": {"frames": 1, "faults": 8}}
    return mase_hw.compile(*net, settings, out=out)


def slowest(design: mase_hw.Design) -> int:
    """Cycles per frame of the slowest stage by itself."""
    assert design.graph is not None
    netlist: Netlist = design.graph.meta["netlist"]
    return max(Timeline(netlist, design.graph.catalogue).intervals().values())


def rate(manifest: dict[str, Any]) -> dict[str, int]:
    return {fifo["before"]: fifo["depth"] for fifo in manifest["fifos"] if fifo["rate"]}


def test_a_chain_has_the_interval_of_its_slowest_stage(tmp_path: Path) -> None:
    """Predicted and simulated; without the FIFO, or with one of a beat less, it is slower."""
    design = compiled(tmp_path / "design", chain())
    ((place, depth),) = rate(design.manifest).items()
    assert design.timing["exact"] and design.timing["interval"] == slowest(design)
    simulation = design.simulate(torch.rand(5, 1, HEIGHT, WIDTH), engine="batch")
    found = simulation.fill, simulation.interval
    assert simulation.passed and found == (design.timing["fill"], design.timing["interval"])
    for other in ({"rate_fifos": False}, {"fifo_depth": {place: depth - 1}}):
        without = compiled(tmp_path / f"{len(other)}_{next(iter(other))}", chain(), **other)
        assert without.timing["exact"] and without.timing["interval"] > design.timing["interval"]
        assert not rate(without.manifest)


def test_bits_are_limited(tmp_path: Path) -> None:
    """What a limit costs is said, with what would do."""
    said: list[str] = []
    settings = {"hardware": {"max_parallelism": 1, "rate_fifo_bits": 7}, "vectors": {"frames": 1, "faults": 8}}
    design = mase_hw.compile(*chain(), settings, out=tmp_path / "design", progress=lambda step: said.append(str(step)))
    missing = design.manifest["shortfall"]
    assert not rate(design.manifest) and missing["most"] == 7 and missing["interval"] == slowest(design)
    assert design.timing["interval"] > missing["interval"]
    assert any(f"FIFOs of {missing['bits']:,} bits" in line and "hardware.rate_fifo_bits" in line for line in said)
    enough = compiled(tmp_path / "enough", chain(), rate_fifo_bits=missing["bits"])
    assert "shortfall" not in enough.manifest and enough.timing["interval"] == missing["interval"]
    assert sum(f["depth"] * f["bits"] for f in enough.manifest["fifos"]) == missing["bits"]


def test_what_is_fast_enough_gets_none(tmp_path: Path) -> None:
    """Shorter rows wait in the stages themselves."""
    design = compiled(tmp_path / "design", chain(8, 16))
    assert design.manifest["fifos"] == [] and design.timing["interval"] == slowest(design)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_chains(seed: int, tmp_path: Path) -> None:
    """Simulated: with the FIFOs the interval is that of the slowest stage, with a beat less it is not."""
    draw = random.Random(seed)
    net = chain(draw.choice([8, 12, 16]), draw.choice([48, 56, 64, 80]), draw.random() < 0.5)
    frames = torch.rand(6, *net[1].shape[1:])
    design = compiled(tmp_path / "design", net)
    simulation = design.simulate(frames, engine="batch")
    assert simulation.passed and simulation.interval == design.timing["interval"] == slowest(design)
    for place, depth in rate(design.manifest).items():
        depths = rate(design.manifest) | {place: depth - 1}
        shorter = compiled(tmp_path / place, net, fifo_depth=depths)
        simulation = shorter.simulate(frames, engine="batch")
        assert simulation.passed and simulation.interval == shorter.timing["interval"] > design.timing["interval"]
