"""Positions of a beat as a choice, and a limit of the latency in nanoseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.fit.result import Fit
from mase_hw.preflight.fit import fit
from tests.unit.pipeline import seeded

SAMPLES = 16


def network() -> nn.Module:
    """Two convolutions of a sequence."""
    return seeded(lambda: nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 2, 3, padding=1)))


def chosen(**target: Any) -> Fit:
    data = [torch.rand(2, 2, SAMPLES, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    return fit(
        network(),
        torch.zeros(1, 2, SAMPLES),
        target={"unrolled": 0, "whole_frames": 0, **target},
        calibration=data,
        front=False,
    )


def test_several_positions_where_one_is_too_slow(tmp_path: Path) -> None:
    """A frame in half as many cycles as it has samples: impossible with one a beat, cheapest with two."""
    target = {"interval": SAMPLES // 2, "positions": [1, 2, 4], "unrolled": 0, "whole_frames": 0}
    found = chosen(**target)
    ways = {way.positions: way for way in found.choice.ways}
    assert ways[1].impossible and ways[1].interval is None
    assert found.choice.args.positions == 2 and found.proven and found.interval <= SAMPLES // 2
    assert ways[4].interval is not None and ways[4].use["dsp"] >= ways[2].use["dsp"]
    assert "  2 positions a beat takes 8 cycles per frame" in found.text() and "; chosen" in found.text()
    x = torch.rand(3, 2, SAMPLES)
    settings = {"target": target, "vectors": {"frames": 2}}
    design = mase_hw.compile(network(), x[:1], settings, out=tmp_path / "design", calibration=[x])
    result = design.simulate(x, engine="batch")
    assert result.passed and result.interval == design.timing["interval"] == found.interval


def test_one_position_where_it_is_enough() -> None:
    found = chosen(interval=4 * SAMPLES, positions=[2, 1])
    assert found.choice.args.positions == 1 and found.proven
    assert all(way.interval is not None for way in found.choice.ways)


def test_a_rate_that_no_number_of_positions_reaches() -> None:
    with pytest.raises(ConfigError, match="whatever positions a beat has") as caught:
        chosen(interval=2, positions=[1, 2])
    assert "nearest within the budgets is 8 cycles per frame" in str(caught.value.remedy)


def test_nanoseconds_of_a_frame() -> None:
    """The lowest latency, if it is within the limit; with more positions a beat it is lower."""
    found = chosen(latency_ns=2000.0, mhz=200.0, positions=[1, 2])
    last = found.choice.manifest.timing.last + 1
    assert last <= 400 and found.goal.minimise == "latency" and found.choice.args.positions == 2
    limit = (last - 1) * 5.0
    with pytest.raises(ConfigError, match=r"so low a latency|whatever positions") as caught:
        chosen(latency_ns=limit, mhz=200.0, positions=[1, 2])
    assert "cycles" in str(caught.value.got)


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"latency_ns": 5.0}, "target.latency_ns"),
        ({"latency_ns": float("nan")}, "target.latency_ns"),
        ({"latency_ns": 500.0, "minimise": "area"}, "target.minimise"),
        ({"interval": 20, "positions": [0]}, "positions.0"),
    ],
)
def test_what_no_target_is(target: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(**target)
    assert caught.value.field == field


@pytest.mark.slow
def test_attention_in_half_the_cycles_of_its_heads(tmp_path: Path) -> None:
    """Eight tokens of two heads: one token a beat takes a beat for each, whatever lanes there are."""

    def attention() -> nn.Module:
        return seeded(lambda: nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True))

    x = torch.rand(4, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    target = {"interval": 8, "positions": [1, 2], "unrolled": 0, "whole_frames": 0}
    found = fit(attention(), x[:1], target=target, calibration=[x], front=False)
    ways = {way.positions: way for way in found.choice.ways}
    assert ways[1].impossible and found.choice.args.positions == 2 and found.proven
    settings = {"target": target, "vectors": {"frames": 2}}
    design = mase_hw.compile(attention(), x[:1], settings, out=tmp_path / "design", calibration=[x])
    result = design.simulate(x, engine="batch")
    assert result.passed and result.interval == design.timing["interval"] == found.interval == 8
