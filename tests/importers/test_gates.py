"""Gates of torchlogix as tables: against a layer of this shape in plain Python, and itself where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.importers import from_gates
from mase_hw.nn.tables import GroupSum as Votes


class Connections(nn.Module):
    """Which inputs a gate reads, ``(fan_in, gates)``; perhaps half of the next one as well."""

    def __init__(self, indices: Tensor, mixed: bool) -> None:
        super().__init__()
        self.indices, self.mixed = indices, mixed

    def forward(self, x: Tensor) -> Tensor:
        read = x[:, self.indices]
        return (read + x[:, (self.indices + 1) % x.shape[1]]) / 2 if self.mixed else read


class Parametrization(nn.Module):
    """The first input has the highest bit of the address."""

    def forward(self, x: Tensor, weight: Tensor, training: bool, contraction: str) -> Tensor:
        address = sum(x[:, place].long() << (x.shape[1] - 1 - place) for place in range(x.shape[1]))
        assert isinstance(address, Tensor) and not training and contraction == "n,bn->bn"
        return (weight.T.gather(0, address) > 0).to(x.dtype)


class LogicDense(nn.Module):
    """What of torchlogix's layer is asked for."""

    def __init__(self, in_dim: int, gates: int, fan_in: int, seed: int, mixed: bool = False) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.in_dim, self.lut_rank = in_dim, fan_in
        self.weight = nn.Parameter(torch.randn(gates, 1 << fan_in, generator=draw))
        self.connections = Connections(torch.randint(in_dim, (fan_in, gates), generator=draw), mixed)
        self.parametrization = Parametrization()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.parametrization(self.connections(x), self.weight, self.training, contraction="n,bn->bn")
        return found


class GroupSum(nn.Module):
    """The same of the votes."""

    def __init__(self, k: int, tau: float) -> None:
        super().__init__()
        self.k, self.tau = k, tau

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.k, -1).sum(-1) / self.tau


def bits(count: int, width: int) -> Tensor:
    return torch.randint(0, 2, (count, width), generator=torch.Generator().manual_seed(0)).float()


def test_layers_of_gates(tmp_path: Path) -> None:
    """Two layers and votes: the numbers of the layers themselves, and a design."""
    net = nn.Sequential(nn.Flatten(), LogicDense(10, 18, 2, 1), LogicDense(18, 12, 4, 2), GroupSum(3, 2.0)).eval()
    x = bits(80, 10)
    made = from_gates(net)
    wanted = net(x) * 2
    assert torch.equal(made(x), wanted) and wanted.unique().numel() > 3
    given = {"data_in_width": 1, "data_in_frac_width": 0, "data_in_signed": False, "data_out_width": 4}
    config: dict[str, Any] = {"hardware": {"unroll": "frame"}, "quantize": {"default": {"config": given}}}
    design = mase_hw.compile(made, x[:1], config, out=tmp_path / "b", calibration=[x], vectors=x)
    assert torch.equal(design.graph.model(x), wanted) and design.simulate(engine="batch").passed


def test_torchlogix() -> None:
    """Its own layers, of every parametrization."""
    dense, group = pytest.importorskip("torchlogix.layers.dense"), pytest.importorskip("torchlogix.layers.groupsum")
    torch.manual_seed(0)
    for how in ({}, {"parametrization": "warp"}, {"parametrization": "light", "lut_rank": 4}):
        kind: dict[str, Any] = {"parametrization_kwargs": {"weight_init": "random"}, **how}
        net = nn.Sequential(dense.LogicDense(16, 40, **kind), dense.LogicDense(40, 24, **kind), group.GroupSum(4, 3.0))
        for layer in (net[0], net[1]):
            nn.init.normal_(layer.weight)
        x = bits(200, 16)
        made = from_gates(net)
        assert torch.equal(made(x), torch.round(net(x) * 3)) and made(x).unique().numel() > 2
        assert isinstance(made[2], Votes)


def test_refused() -> None:
    """Other layers, and gates whose inputs are still mixed."""
    with pytest.raises(UnsupportedError, match="no layer of gates") as caught:
        from_gates(nn.Sequential(LogicDense(4, 4, 2, 0), nn.Linear(4, 2)))
    assert caught.value.node == "1"
    with pytest.raises(ConfigError, match="what its tables say"):
        from_gates(LogicDense(8, 6, 2, 0, mixed=True))
