"""The schedule of designs that settle late."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn

import mase_hw
from mase_hw.emit.schedule import FRAMES, Timeline


def test_a_chain_with_a_slow_last_layer(tmp_path: Path) -> None:
    """Every layer takes 8 * 8 cycles, the last one 8 * 9. The buffers before it fill by 8 cycles of work a frame, so
    the design settles long after the frames that are followed; its prediction is exact all the same."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index in range(12):
        layers[f"fc{index}"], layers[f"relu{index}"] = nn.Linear(64, 64), nn.ReLU()
    layers["last"] = nn.Linear(64, 66)
    lanes = {name: {"data_in_0": 8, "data_out_0": 8} for name in layers if not name.startswith("relu")}
    design = mase_hw.compile(
        nn.Sequential(layers), torch.rand(1, 64), {"hardware": {"parallelism": lanes}}, out=tmp_path / "slow"
    )
    assert (design.timing["interval"], design.timing["exact"]) == (72, True)
    assert design.graph is not None
    network, _ = Timeline(design.graph.meta["netlist"], design.graph.catalogue).network()
    assert network.settle(FRAMES) is None
    while network.frames < 200:
        network.advance()
    offered = network.edges[-1].offered.reshape(200, -1)
    assert (offered[1:] - offered[:-1])[-20:].tolist() == [[72] * 9] * 20
    assert (offered[0, 0], offered[0, -1]) == (design.timing["fill"], design.timing["last"])
