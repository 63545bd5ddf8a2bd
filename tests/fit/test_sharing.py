"""How many blocks of hardware equal blocks of a network have, as a choice: its price is that of the design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cost.model import cost_of
from mase_hw.errors import ConfigError
from mase_hw.fit.result import Fit
from mase_hw.preflight.fit import fit
from tests.parameters.test_shared_blocks import Blocks, Transformer, compiled, holds, linear
from tests.unit.pipeline import seeded

FRAMES = {"row": (1, 16), "linear": (3, 16), "transformer": (3, 6, 16)}
"""The shape of a frame, by model."""


def made(kind: str) -> nn.Module:
    """Four equal blocks between a layer before and one after them."""
    if kind != "transformer":
        return linear(4)
    return seeded(lambda: Blocks(Transformer, 4, nn.Linear(16, 16), nn.Linear(16, 4)))


def chosen(kind: str, target: dict[str, Any], hardware: dict[str, Any] | None = None) -> Fit:
    torch.manual_seed(1)
    example, data = torch.randn(FRAMES[kind]), [torch.randn(FRAMES[kind]) for _ in range(8)]
    return fit(made(kind), example, {"hardware": hardware or {}}, target=target, calibration=data, front=False)


def built(kind: str, found: Fit, target: dict[str, Any], out: Path, hardware: dict[str, Any] | None = None) -> None:
    """The design of a target is the one that was chosen, and every bit and cycle of it holds."""
    config = {"hardware": hardware or {}, "target": target, "vectors": {"frames": 2, "faults": 2}}
    design = compiled(made(kind), FRAMES[kind], out, config)
    assert design.timing["interval"] == found.interval
    holds(design, 4)


def ways(found: Fit) -> dict[int, int | None]:
    """Cycles per frame by blocks of hardware of four."""
    return {way.shared.get("layers", 4): way.interval for way in found.choice.ways}


def priced(found: Fit) -> None:
    """What the candidates of a choice cost is what its design is estimated to take, with all of its memories."""
    instances = found.choice.manifest.instances
    for node, each in found.choice.chosen.items():
        own = [i for i in instances if i.node == node and not i.module.startswith(("stream_", "loop_"))]
        parts = [list(cost_of(i.module, i.parameters, found.goal.family).as_dict().values()) for i in own]
        assert [*map(sum, zip(*parts, strict=True))] == each.use.tolist()[:-1], node


def test_what_fits_only_shared(tmp_path: Path) -> None:
    """A budget that hardware of every block exceeds, and two of four."""
    target = {"lut": 6000, "dsp": 60, "shared": ["layers"]}
    found = chosen("transformer", target)
    assert [(way.shared, way.impossible) for way in found.choice.ways[:2]] == [({}, True), ({"layers": 2}, True)]
    assert found.choice.args.shared == {"layers": 1} and found.choice.use["lut"] <= 6000
    assert not found.proven, "frames wait to come back, which only the design knows"
    for alone in ({}, {"shared": {"layers": 2}}):
        with pytest.raises(ConfigError, match="no design within the budgets meets the target"):
            chosen("transformer", {"lut": 6000, "dsp": 60}, alone)
    priced(found)
    built("transformer", found, target, tmp_path)


def test_what_is_better_with_hardware_of_every_block(tmp_path: Path) -> None:
    """The same multipliers are at work all the time, and no frame waits for itself."""
    target = {"lut": 20_000, "dsp": 64, "shared": ["layers"]}
    found = chosen("linear", target)
    intervals = ways(found)
    assert found.choice.args.shared == {} and found.proven
    assert found.interval == intervals[4] and all(
        n is not None and n > found.interval for n in (intervals[2], intervals[1])
    )
    built("linear", found, target, tmp_path)


def test_the_least_area_at_a_rate(tmp_path: Path) -> None:
    """One block where it is fast enough, proven against both other ways; each way is what it is by itself."""
    target = {"interval": 4000, "device": "xc7a35t", "shared": ["layers"]}
    found = chosen("linear", target)
    assert found.choice.args.shared == {"layers": 1} and found.proven
    priced(found)
    built("linear", found, target, tmp_path)
    # Formats are those of blocks that share hardware in every way.
    by_hand = chosen("linear", {"interval": 4000, "device": "xc7a35t"}, {"shared": {"layers": 2}})
    (two,) = (way for way in found.choice.ways if way.shared == {"layers": 2})
    assert (two.interval, two.use) == (by_hand.interval, by_hand.choice.use)
    area = [sum(found.goal.share(name, number) for name, number in way.use.items()) for way in found.choice.ways]
    assert area == sorted(area, reverse=True)
    said = found.text()
    assert "1 block of hardware for layers takes" in said and "; chosen" in said
    assert [way["chosen"] for way in found.to_json()["ways"]] == [False, False, True]


@pytest.mark.slow
def test_two_of_four(tmp_path: Path) -> None:
    target = {"lut": 14_000, "dsp": 100, "shared": ["layers"]}
    found = chosen("transformer", target)
    assert found.choice.args.shared == {"layers": 2}
    priced(found)
    built("transformer", found, target, tmp_path)


@pytest.mark.slow
def test_frames_that_come_back_late_are_made_faster(tmp_path: Path) -> None:
    """The slowest stage keeps the rate that was asked for, but frames wait; what is chosen keeps it."""
    target = {"interval": 8000, "device": "xc7a100t"}
    found = chosen("transformer", target, {"shared": ["layers"]})
    slowest = max(each.cycles for each in found.choice.chosen.values())
    assert slowest < found.interval <= 8000 and not found.proven
    built("transformer", found, target, tmp_path, {"shared": ["layers"]})


def test_a_rate_at_which_no_frame_is_back() -> None:
    """One row passes four layers one after the other, however many multipliers they have."""
    with pytest.raises(ConfigError, match="wait for a frame to come back"):
        chosen("row", {"interval": 20, "lut": 100_000}, {"shared": ["layers"]})


@pytest.mark.parametrize("place", ["ram", "external"])
def test_parameters_of_all_blocks_in_one_place(place: str, tmp_path: Path) -> None:
    target = {"interval": 4000, "device": "xc7a35t", "shared": ["layers"]}
    found = chosen("linear", target, {"parameters": place})
    assert found.choice.args.shared == {"layers": 1} and found.proven
    if place == "ram":
        priced(found)
    built("linear", found, target, tmp_path, {"parameters": place})


@pytest.mark.parametrize(
    "target, hardware, says",
    [
        ({"dsp": 64, "minimise": "latency", "shared": ["layers"]}, {}, r"(?s)how late frames come back.*target.shared"),
        ({"dsp": 64, "minimise": "latency"}, {"shared": ["layers"]}, r"(?s)how late frames come back.*hardware.shared"),
        ({"dsp": 64, "shared": ["layers"]}, {"shared": ["layers"]}, "is said already"),
        ({"dsp": 64, "shared": ["layer"]}, {}, r"(?s)no blocks.*did you mean 'layers'"),
        ({"shared": ["layers"]}, {}, "neither how fast"),
        ({"dsp": 64}, {"shared": {"layers": 3}}, r"(?s)cannot be dealt out.*one of 1, 2"),
    ],
    ids=["latency", "by hand", "twice", "path", "nothing asked", "number"],
)
def test_refused(target: dict[str, Any], hardware: dict[str, Any], says: str) -> None:
    with pytest.raises(mase_hw.errors.MaseHwError, match=says):
        chosen("linear", target, hardware)
