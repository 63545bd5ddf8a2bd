"""Small models of ops along rows, from plain PyTorch to Verilator: every bit, at the predicted speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from mase_hw.errors import UnsupportedError


class Softmaxes(nn.Module):
    """Along channels, which travel innermost, along columns, along everything, and of a single element."""

    def __init__(self) -> None:
        super().__init__()
        self.over, self.conv = nn.Softmax(dim=1), nn.Conv2d(3, 5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.conv(x)
        alone = torch.softmax(y[:, :1], 1)
        return self.over(y), F.log_softmax(y, dim=1), y.softmax(-1), F.softmin(y.flatten(1)), alone


@dataclass(frozen=True)
class Small:
    """A model, the shape of a frame, and modules that must be in the design."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    modules: dict[str, int]
    config: dict[str, Any] = field(default_factory=dict)


MODELS = {"softmaxes": Small(Softmaxes, (1, 3, 3, 4), {"fixed_softmax": 5, "stream_reorder": 2})}


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("name", MODELS)
def test_every_bit(name: str, tmp_path: Path) -> None:
    """Overlapping frames at full rate and with stalls: as the quantised model says, near the float one."""
    small = MODELS[name]
    torch.manual_seed(5)
    x = torch.randn(12, *small.shape[1:]) * 2
    model = small.make().eval()
    config = {"hardware": {"max_parallelism": 2}, **small.config}
    design = mase_hw.compile(model, x[:1], config, out=tmp_path / name, calibration=[x], vectors=x[:2])
    found = [i["module"] for i in design.manifest["instances"]]
    assert {module: found.count(module) for module in small.modules} == small.modules
    for stalls in (0.0, 0.4):
        simulation = design.simulate(x[:5], engine="batch", stalls=stalls, seed=3)
        assert simulation.passed and simulation.result.mismatches == 0
        if not stalls:
            assert design.timing["exact"]
            assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])
    with torch.no_grad():
        real = model(x[:5])
    for output, wanted in zip(simulation.outputs.values(), [real] if isinstance(real, Tensor) else real, strict=True):
        assert output.shape == wanted.shape
        noise = (output - wanted).square().sum()
        assert 10 * torch.log10(wanted.square().sum() / noise.clamp(min=1e-12)) > 15


class Frames(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, 0)


def test_rows_across_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="along dimension 0 would mix frames"):
        mase_hw.compile(Frames(), torch.rand(1, 4), out=tmp_path / "frames")
