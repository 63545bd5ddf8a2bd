"""How a convolution is folded: lanes that fit by themselves, lanes that are refused, a whole window a cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError


def compiled(model: nn.Module, shape: tuple[int, ...], out: Path, **hardware: Any) -> mase_hw.Design:
    torch.manual_seed(0)
    x = torch.rand(4, *shape) * 2 - 1
    return mase_hw.compile(model.eval(), x[:1], {"hardware": hardware}, out=out, calibration=[x])


def instance(design: mase_hw.Design, node: str) -> dict[str, Any]:
    found: dict[str, Any] = next(i for i in design.manifest["instances"] if i["name"] == f"u_{node}")
    return found


def test_default_lanes_divide_the_channels_of_a_group(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(6, 9, 3, groups=3), nn.Conv2d(9, 18, 1, groups=9))
    design = compiled(model, (6, 5, 5), tmp_path / "d", max_parallelism=4)
    grouped, depthwise = (instance(design, f"_{i}")["parameters"] for i in range(2))
    assert (grouped["DATA_IN_0_PARALLELISM_DIM_0"], grouped["DATA_OUT_0_PARALLELISM_DIM_0"]) == (2, 3)
    assert depthwise["DATA_IN_0_PARALLELISM_DIM_0"] == 1 and depthwise["DATA_OUT_0_PARALLELISM_DIM_0"] == 2


def test_one_side_of_a_depthwise_convolution_sets_both(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6))
    design = compiled(model, (6, 5, 5), tmp_path / "d", parallelism={"_0": {"data_out_0": 6}})
    assert instance(design, "_0")["parameters"]["DATA_IN_0_PARALLELISM_DIM_0"] == 6


@pytest.mark.parametrize(
    ("lanes", "kind", "text"),
    [
        ({"data_in_0": 4}, UnsupportedError, "must divide the channels of a group"),
        ({"kernel": [3, 1]}, UnsupportedError, "element by element or all at once"),
        ({"kernel": [1, 2, 3]}, ConfigError, "a height and a width"),
        ({"window": 3}, ConfigError, "a tensor the node does not have"),
    ],
)
def test_lanes_that_were_asked_for_are_not_changed(
    tmp_path: Path, lanes: dict[str, Any], kind: type[MaseHwError], text: str
) -> None:
    model = nn.Sequential(nn.Conv2d(6, 9, 3, groups=3))
    with pytest.raises(kind, match=text):
        compiled(model, (6, 5, 5), tmp_path / "d", parallelism={"_0": lanes})
    assert not (tmp_path / "d").exists()


def test_a_linear_has_no_window(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a tensor the node does not have"):
        compiled(nn.Sequential(nn.Linear(4, 3)), (4,), tmp_path / "d", parallelism={"_0": {"kernel": [1, 1]}})


def test_a_whole_window_a_cycle(tmp_path: Path) -> None:
    """All 3 x 3 x 2 x 4 products of an output position at once: one position a cycle."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
    lanes = {"_0": {"data_in_0": 2, "data_out_0": 4, "kernel": [3, 3]}}
    design = compiled(model, (2, 6, 5), tmp_path / "d", parallelism=lanes)
    assert instance(design, "_0")["multipliers"] == 72 and instance(design, "_0")["timing"]["interval"] == 30
    x = torch.rand(5, 2, 6, 5) * 2 - 1
    simulation = design.simulate(x, engine="batch")
    assert simulation.passed and torch.equal(simulation.output, design.model(x).double())
    assert (simulation.interval, simulation.fill) == (30, design.timing["fill"])
