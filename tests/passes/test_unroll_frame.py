"""Networks with a whole frame per beat: bits and cycles of whole designs, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError

QUANTIZE = {"default": {"config": {"data_in_width": 4, "weight_width": 4, "bias_width": 6, "data_out_width": 6}}}


class Residual(nn.Module):
    """Convolutions with a window, a stride, groups and a border, one of them around a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.c, self.fc = nn.Conv2d(3, 2, 2, stride=2), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x))
        x = nn.functional.max_pool2d(torch.relu(x + self.b(x)), 2, 1)
        result: Tensor = self.fc(self.c(x).flatten(1))
        return result


class Interactions(nn.Module):
    """What every pair of particles says, summed at the receivers."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
        self.to, self.since = [i for i, _ in pairs], [j for _, j in pairs]
        self.count = count
        self.pair, self.own = nn.Linear(4, 3), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        said = torch.sigmoid(self.pair(torch.cat([x[:, self.to], x[:, self.since]], -1)))
        heard = said.reshape(-1, self.count, self.count - 1, 3).sum(2)
        return torch.relu(self.own(torch.cat([x, heard], -1))).mean(1)


def compiled(out: Path, net: nn.Module, shape: tuple[int, ...], **hardware: Any) -> mase_hw.Design:
    """A network with random weights and twelve frames of random data."""
    data = torch.rand(12, *shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
    config = {"hardware": hardware, "quantize": QUANTIZE}
    return mase_hw.compile(net.eval(), data[:1], config, out=out, calibration=[data], vectors=data)


@pytest.mark.parametrize(("kind", "shape", "levels"), [(Residual, (1, 5, 5), 4), (Interactions, (4, 2), 2)])
def test_a_frame_in_every_cycle(kind: type[nn.Module], shape: tuple[int, ...], levels: int, tmp_path: Path) -> None:
    """Bits, stalls and cycles; the same numbers as the folded design, which another arithmetic of hardware gives."""
    torch.manual_seed(0)
    net = kind()
    design = compiled(tmp_path / "b", net, shape, unroll="frame", unroll_levels=levels)
    manifest = design.manifest
    assert [entry["module"] for entry in manifest["instances"]] == ["fixed_frame_frame"]
    assert manifest["timing"]["interval"] == 1 and not manifest["memories"] and not manifest["fifos"]
    assert manifest["timing"]["fill"] == manifest["instances"][0]["parameters"]["STAGES"]
    assert [port["beats"] for port in manifest["ports"]] == [1, 1]
    assert manifest["ports"][0]["shape"] == [1, *shape]
    for result in (design.simulate(engine="batch"), design.simulate(stalls=0.4, engine="batch")):
        assert result.passed, result
    folded = compiled(tmp_path / "folded", net, shape)
    frames = torch.rand(40, *shape, generator=torch.Generator().manual_seed(2)) * 4 - 2
    assert torch.equal(design.graph.model(frames), folded.graph.model(frames))


class Two(nn.Module):
    """Two inputs."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x + y)


def test_refused(tmp_path: Path) -> None:
    """What has several inputs, or leaves something to choose; nothing is written."""
    x = torch.rand(1, 4)
    with pytest.raises(UnsupportedError, match="one input and one result") as caught:
        mase_hw.compile(Two(), (x, x), {"hardware": {"unroll": "frame"}}, out=tmp_path / "b")
    assert caught.value.field == "hardware.unroll" and "2 inputs" in str(caught.value.got)
    with pytest.raises(ConfigError, match="nothing to choose"):
        mase_hw.compile(
            nn.Linear(4, 2), x, {"hardware": {"unroll": "frame"}}, out=tmp_path / "b", target={"device": "xc7z020"}
        )
    with pytest.raises(ConfigError, match="no token to come alone"):
        mase_hw.compile(
            nn.Linear(4, 2), x, {"hardware": {"unroll": "frame"}, "decode": {"context": 4}}, out=tmp_path / "b"
        )
    with pytest.raises(MaseHwError, match="cannot take a whole frame") as softmax:
        mase_hw.compile(nn.Softmax(1), x, {"hardware": {"unroll": "frame"}}, out=tmp_path / "b")
    assert softmax.value.node is not None
    assert not (tmp_path / "b").exists()
