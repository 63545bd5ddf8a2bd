"""Small models, one layer each, and two whole networks: every bit, every cycle, at full rate and under stalls.

Several of them are outputs of one design, which saves building simulators.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from tests.e2e.test_joins import check_every_beat
from tests.unit.pipeline import OWN_FRAMES


class Layers(nn.Module):
    """Every layer reads the input and is an output."""

    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: layer(x) for name, layer in self.layers.items()}


class Values(nn.Module):
    """A pooling that also returns indices, which nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2, return_indices=True)

    def forward(self, x: Tensor) -> Any:
        return self.pool(x)[0]


class UNet(nn.Module):
    """Two levels; one goes up with a kernel of whole strides, one with phases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = self.block(2, 4), self.block(4, 6)
        self.middle = self.block(6, 6)
        self.up2, self.join2 = nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1), self.block(10, 4)
        self.up1, self.join1 = nn.ConvTranspose2d(4, 4, 2, 2), self.block(8, 4)
        self.last = nn.Conv2d(4, 2, 1)

    def block(self, inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.join2(torch.cat((b, self.up2(c)), 1))
        return {"mask": self.last(self.join1(torch.cat((a, self.up1(b)), 1)))}


class Inception(nn.Module):
    """Five branches, one of them an enlarged mean of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(3, 2, 1)
        self.three = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 3, 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 2, 5, padding=2, padding_mode="reflect"))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(3, 2, 1))
        self.mean = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(3, 1, 1))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        parts = [self.one(x), self.three(x), self.five(x), self.pool(x), self.mean(x)]
        return {"all": torch.relu(torch.cat(parts, 1))}


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "images": (
        lambda: Layers(
            up=nn.ConvTranspose2d(3, 2, 3, 2, 1),
            circular=nn.Conv2d(3, 2, 3, padding=(1, 2), padding_mode="circular"),
            bilinear=nn.Upsample(scale_factor=2, mode="bilinear"),
            glu=nn.GLU(2),
            response=nn.LocalResponseNorm(2, 0.5, 0.6, 1.5),
            maxima=Values(),
        ),
        (3, 4, 5),
        8,
        2,
    ),
    "sequences": (
        lambda: Layers(
            up=nn.ConvTranspose1d(4, 3, 4, 2, 1),
            same=nn.Upsample(size=9, mode="linear", align_corners=True),
            each=nn.ConvTranspose1d(4, 4, 5, 3, groups=4),
            linear=nn.Upsample(scale_factor=4, mode="linear"),
            corners=nn.Upsample(size=7, mode="linear", align_corners=True),
            reflect=nn.Conv1d(4, 2, 4, padding="same", padding_mode="reflect"),
            length=nn.LPPool1d(2, 3, 1),
        ),
        (4, 9),
        16,
        4,
    ),
    "volumes": (
        lambda: Layers(
            conv=nn.Conv3d(2, 3, (3, 2, 3), (2, 1, 1), (1, 1, 0)),
            each=nn.Conv3d(2, 2, 2, groups=2, padding="same"),
            up=nn.ConvTranspose3d(2, 3, (1, 2, 2), (1, 2, 2)),
            most=nn.MaxPool3d((2, 2, 1)),
            mean=nn.AdaptiveAvgPool3d(1),
            edge=nn.ReplicationPad3d((1, 0, 0, 1, 1, 0)),
        ),
        (2, 5, 3, 3),
        5,
        3,
    ),
    "u_net": (UNet, (2, 8, 12), 6, 2),
    "inception": (Inception, (3, 5, 7), 2, 3),
}
"""Model, shape of a frame, bits, lanes."""


@pytest.mark.parametrize("name", MODELS)
def test_layers(name: str, tmp_path: Path) -> None:
    make, shape, width, lanes = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = make().eval()
    x = torch.randn(16, *shape, generator=torch.Generator().manual_seed(1))
    keys = ("data_in_width", "weight_width", "bias_width", "data_out_width")
    config = {
        "quantize": {"default": {"config": dict.fromkeys(keys, width)}},
        "hardware": {"max_parallelism": lanes},
        **OWN_FRAMES,
    }
    design = mase_hw.compile(model, x[:1], config, out=tmp_path / "bundle", calibration=[x])
    with torch.no_grad():
        wanted, real = design.model(x), model(x)
    for stalls in (None, 0.3):
        simulation = design.simulate(x, engine="batch", stalls=stalls, seed=3, work_dir=tmp_path / "work")
        assert simulation.passed
        for key, output in zip(wanted, simulation.outputs.values(), strict=True):
            assert torch.equal(output, wanted[key].double()), key
            assert len(output.unique()) > 1, key
            error, signal = (real[key].double() - output).square().mean(), real[key].double().square().mean()
            # What it computes is what the model says, up to its few bits (two say little); the bits are held above.
            assert error < 0.2 * signal or width == 2, (key, float(error / signal))
        if stalls is None:
            assert design.timing["exact"]
            assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])
            check_every_beat(design, simulation.result, 16)
