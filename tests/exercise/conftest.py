"""One small network with two ways that meet, and its bundle, for every test of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw

EIGHT = {
    "calibrate": {"method": "min_max", "weight_method": "min_max"},
    "quantize": {"output_width": 8, "default": {"config": {"bias_width": 8}}},
}
"""Every tensor has 8 bits, so that the last layer rounds as the others do."""
CONFIG = {**EIGHT, "hardware": {"max_parallelism": 4}}


class TwoWays(nn.Module):
    """Two convolutions, the second one beside a wire, then pooling and a linear layer.

    Nothing below zero comes out of a ReLU, so ties below zero show in the last layer only.
    """

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.fc = nn.MaxPool2d(2), nn.Linear(36, 5)

    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(self.c1(x))
        return self.fc(torch.flatten(self.pool(a + torch.relu(self.c2(a))), 1))


def images(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exercise")


@pytest.fixture(scope="session")
def cnn(work: Path) -> mase_hw.Design:
    torch.manual_seed(0)
    x = images(16)
    return mase_hw.compile(TwoWays().eval(), x[:1], CONFIG, out=work / "cnn", calibration=[x])
