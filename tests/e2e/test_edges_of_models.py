"""Models whose data flow is easy to get wrong: writes in place, one tensor returned twice."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import mase_hw
from tests.e2e.conftest import Workshop


class ReadAfterwards(nn.Module):
    """What an in-place op wrote over is read again; PyTorch gives the reader the rectified values."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(6, 4), nn.ReLU(inplace=True)
        self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.fc(x)
        return self.a(self.relu(x)), self.b(x)


class Same(nn.Module):
    """One tensor is two results."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.fc(x)
        return y, y


def simulated(model: nn.Module, folder: Path, workshop: Workshop) -> tuple[list[Tensor], list[Tensor]]:
    """What the hardware computes, and what the float model does."""
    torch.manual_seed(5)
    x = torch.randn(24, 6)
    design = mase_hw.compile(model.eval(), x[:1], out=folder / "bundle", calibration=[x])
    work = workshop.work(design, folder, type(model).__name__)
    result = design.simulate(x, work_dir=work, waves=False, stalls=0.3)
    with torch.no_grad():
        return list(result.outputs.values()), list(model(x.clone()))


def test_in_place_op_with_another_reader(tmp_path: Path, workshop: Workshop) -> None:
    model = ReadAfterwards()
    found, wanted = simulated(model, tmp_path, workshop)
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max()) < 0.1  # 8 bits of noise; reading the unrectified values is off by more
    with torch.no_grad():
        torch.manual_seed(5)
        unrectified = model.b(model.fc(torch.randn(24, 6)))
    assert float((found[1] - unrectified).abs().max()) > 0.2


def test_the_same_result_twice(tmp_path: Path, workshop: Workshop) -> None:
    found, wanted = simulated(Same(), tmp_path, workshop)
    assert len(found) == 2 and torch.equal(found[0], found[1])
    assert float((found[0] - wanted[0]).abs().max()) < 0.1
