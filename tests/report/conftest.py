"""Designs that reports are made of: compiled once, and simulated once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.design.design import Design


class Residual(nn.Module):
    """A fork, a join and a FIFO between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return self.last(x + torch.relu(self.second(x)))


def compiled(folder: Path, lanes: int = 4) -> Design:
    torch.manual_seed(0)
    model = Residual().eval()
    data = [torch.randn(16, 12) for _ in range(2)]
    config = {"hardware": {"max_parallelism": lanes}, "vectors": {"frames": 6}}
    return mase_hw.compile(model, data[0][:1], config, out=folder, calibration=data)


@pytest.fixture(scope="session")
def design(tmp_path_factory: pytest.TempPathFactory) -> Design:
    """With a passed simulation with stalls and coverage beside it."""
    made = compiled(tmp_path_factory.mktemp("reported") / "residual")
    made.simulate(engine="batch", stalls=0.2)
    made.simulate(engine="batch")
    return made


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Design:
    """The same network with half the lanes."""
    return compiled(tmp_path_factory.mktemp("other") / "narrow", lanes=2)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what a report says, or of where it is written: drawing takes most of the time it needs."""
    for picture in ("timeline", "noise", "histograms"):
        monkeypatch.setattr(f"mase_hw.report.page.{picture}", lambda *_: None)
