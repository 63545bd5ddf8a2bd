"""Several inputs and outputs, a tensor used in four places, a layer called twice, FIFOs that are too small."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from tests.unit.pipeline import OWN_FRAMES

from . import nets

SIZE = (3, 5, 4)
FRAMES = 5


class Crossing(nn.Module):
    """Two images, three results; one convolution with the same weights in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Conv2d(3, 3, 3, padding=1)
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``a`` is read by a sum, a concatenation, a difference, and leaves."""
        a = torch.relu(self.shared(x))
        b = self.shared(a + y)
        scores = self.fc(torch.cat([a, b], 1).mean([2, 3]))
        return scores, b - a, a


def images() -> tuple[Tensor, Tensor]:
    """Seeded frames for both inputs, the extremes last."""
    torch.manual_seed(5)
    x, y = torch.rand(2, FRAMES, *SIZE) * 2 - 1
    x[-1], y[-1] = torch.sign(x[-1]), torch.sign(y[-1])
    return x, y


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> tuple[mase_hw.Design, nn.Module]:
    """The compiled network, and the float one."""
    x, y = images()
    model = nets.ready(Crossing())
    config = {"hardware": {"max_parallelism": 3, "parallelism": {"shared_1": {"data_out_0": 2}}}, **OWN_FRAMES}
    out = tmp_path_factory.mktemp("branches") / "crossing"
    return mase_hw.compile(model, (x[:1], y[:1]), config, out=out, calibration=[(x, y)]), model


def test_every_use_has_its_hardware(crossing: tuple[mase_hw.Design, nn.Module]) -> None:
    """The layer that is called twice stands there twice, folded differently, with the same numbers."""
    design, _ = crossing
    ports = {(s.name, s.direction): tuple(s.tensor_shape) for s in design.streams.values()}
    assert ports == {
        ("data_in_0", "in"): (1, *SIZE),
        ("data_in_1", "in"): (1, *SIZE),
        ("data_out_0", "out"): (1, 4),
        ("data_out_1", "out"): (1, *SIZE),
        ("data_out_2", "out"): (1, *SIZE),
    }
    by_name = {i["name"]: i for i in design.manifest["instances"]}
    assert [n for n, i in by_name.items() if i["module"] == "fixed_conv2d"] == ["u_shared", "u_shared_1"]
    assert by_name["u_relu_fork"]["parameters"]["N"] == 4
    graph = design.graph
    assert graph is not None
    first, second = (graph.meta_of(graph.node(n)).module for n in ("shared", "shared_1"))
    assert first is not second and torch.equal(first.weight, second.weight) and torch.equal(first.bias, second.bias)


def test_every_output(crossing: tuple[mase_hw.Design, nn.Module]) -> None:
    """Overlapping frames at full rate: bits and cycles, and every result is the one the float model gives."""
    design, model = crossing
    inputs = images()
    simulation = design.simulate(inputs, engine="batch")
    with torch.no_grad():
        frames = [design.model(x[None], y[None]) for x, y in zip(*inputs, strict=True)]
        floats = model(*inputs)
    assert simulation.passed and list(simulation.outputs) == ["data_out_0", "data_out_1", "data_out_2"]
    for k, got in enumerate(simulation.outputs.values()):
        wanted = torch.cat([frame[k] for frame in frames])
        assert torch.equal(got, wanted.double()) and len(wanted.unique()) > 5
        noise = (floats[k] - wanted).square().sum()
        assert 10 * torch.log10(floats[k].square().sum() / noise) > 20
    assert design.timing["exact"]
    assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])


def test_inputs_that_come_when_they_like(crossing: tuple[mase_hw.Design, nn.Module]) -> None:
    """Both inputs and all three outputs stall, each by itself."""
    design, _ = crossing
    simulation = design.simulate(images(), engine="batch", stalls=0.5, seed=4)
    assert simulation.passed and simulation.result.mismatches == 0


class Shuffled(nn.Module):
    """ShuffleNet's shuffle of channels, which asks the tensor for its size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 1)
        self.second = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Two groups of channels, interleaved."""
        x = self.first(x)
        n, c, h, w = x.size()
        return self.second(x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(x.size(0), c, h, w))


def test_a_question_about_the_shape_moves_nothing(tmp_path: Path) -> None:
    """Only the shuffle changes the order of elements; the sizes are numbers."""
    x = torch.linspace(-1, 1, 24).reshape(1, 2, 3, 4)
    design = mase_hw.compile(nets.ready(Shuffled()), x, out=tmp_path / "shuffled", calibration=[x])
    found = [i["module"] for i in design.manifest["instances"] if i["module"] != "rom_source"]
    assert found.count("stream_reorder") <= 1 and not set(found) - {
        "fixed_conv2d",
        "stream_reorder",
        "stream_repack",
        "fixed_cast",
    }


def block(out: Path, depth: int | None) -> mase_hw.Design:
    """A residual block with a FIFO of a given depth on the short way."""
    torch.manual_seed(2)
    x = torch.rand(FRAMES, 4, 5, 5) * 2 - 1
    config = {"hardware": {"fifo_depth": {} if depth is None else {"add.data_in_1": depth}}}
    model = nets.ready(nets.BasicBlock(4, 4))
    return mase_hw.compile(model, x[:1], config, out=out, calibration=[x], vectors=x)


def test_a_queue_that_would_stop_the_design(tmp_path: Path) -> None:
    """Refused with the FIFO's name and the least depth, before anything is written; with that depth it runs."""
    with pytest.raises(ConfigError, match="would deadlock") as caught:
        block(tmp_path / "none", 0)
    assert caught.value.node == "add.data_in_1" and not (tmp_path / "none").exists()
    least = int(str(caught.value.expected).split()[2].rstrip(";"))
    with pytest.raises(ConfigError, match="would deadlock"):
        block(tmp_path / "below", least - 1)
    assert not (tmp_path / "below").exists()
    chosen = block(tmp_path / "chosen", None)
    found = {fifo["before"]: fifo["depth"] for fifo in chosen.manifest["fifos"]}
    assert found["add.data_in_1"] >= least > 0
    design = block(tmp_path / "least", least)
    simulation = design.simulate(engine="batch")
    assert simulation.passed and simulation.interval == design.timing["interval"]
    assert design.simulate(engine="batch", stalls=0.4, seed=1).passed
