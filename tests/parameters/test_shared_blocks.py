"""Equal blocks that share hardware: every bit of the model with all of its layers, in the cycles that are predicted."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import default_catalogue
from mase_hw.emit.estimate import estimate
from mase_hw.emit.schedule import predict
from mase_hw.errors import ConfigError, MaseHwError, MismatchError, SimulationError, UnsupportedError
from mase_hw.report.stages import agrees, rebuilt
from mase_hw.simulate.plan import Reset
from tests.parameters.designs import build_bench, in_ram, loaded, play
from tests.unit.pipeline import seeded

SHARED: dict[str, Any] = {"hardware": {"shared": ["layers"]}, "vectors": {"frames": 4, "faults": 4}}


class Linear(nn.Module):
    """A linear layer and a relu that is a function, without a path of its own."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.fc(x))


class Residual(nn.Module):
    """Two convolutions, a norm that is folded, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


class Transformer(nn.Module):
    """A layer with norms before attention and before two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Blocks(nn.Module):
    """Something before the blocks, and after them."""

    def __init__(self, block: type[nn.Module], count: int, head: nn.Module, tail: nn.Module) -> None:
        super().__init__()
        self.head, self.tail = head, tail
        self.layers = nn.ModuleList(block() for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        for layer in self.layers:
            x = layer(x)
        return self.tail(x)


def linear(count: int) -> nn.Module:
    return seeded(lambda: Blocks(Linear, count, nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 4)))


def compiled(model: nn.Module, shape: tuple[int, ...], out: Path, config: Mapping[str, Any] = SHARED) -> mase_hw.Design:
    torch.manual_seed(1)
    return mase_hw.compile(
        model, torch.randn(shape), config, out=out, calibration=[torch.randn(shape) for _ in range(8)]
    )


def holds(design: mase_hw.Design, frames: int = 5) -> None:
    """Every bit at full rate and with stalls, and the cycles that the manifest promises."""
    assert design.timing["exact"] and design.timing["steady"] is not None
    torch.manual_seed(2)
    (port,) = (stream for stream in design.streams.values() if stream.direction == "in")
    data = torch.randn(frames * port.tensor_shape[0], *port.tensor_shape[1:])
    for stalls in (None, 0.3):
        simulation = design.simulate(data, engine="batch", stalls=stalls, waves=False)
        assert simulation.passed and simulation.frames == frames
        if stalls is None:
            assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    """Four linear blocks, three rows at a time."""
    return compiled(linear(4), (3, 16), tmp_path_factory.mktemp("shared") / "three")


def test_rows_fill_the_block(three: mase_hw.Design) -> None:
    """Three rows keep one layer at work: 4 passes of 3 rows of 16 x 16 products with 16 multipliers."""
    holds(three)
    assert three.timing["interval"] == 4 * 3 * 16
    modules = [entry["module"] for entry in three.manifest["instances"]]
    assert modules.count("fixed_linear") == 3 and modules.count("loop_entry") == modules.count("loop_exit") == 1
    netlist = rebuilt(three.record, default_catalogue())
    assert netlist is not None and agrees(predict(netlist, default_catalogue()), three.record), "as a report sees it"
    for reset in (Reset(50), Reset(130), Reset(1, "out")):
        assert three.simulate(engine="batch", waves=False, reset_at=(reset,)).passed


def test_one_row(tmp_path: Path) -> None:
    """A row waits for itself; it passes four layers as it would in a row of them, but for a cycle on each way back."""
    shared = compiled(linear(4), (1, 16), tmp_path / "shared")
    holds(shared)
    apart = compiled(linear(4), (1, 16), tmp_path / "apart", {**SHARED, "hardware": {}})
    assert shared.timing["fill"] == apart.timing["fill"] + 3


@pytest.mark.parametrize("images", [1, 3])
def test_residual_blocks(images: int, tmp_path: Path) -> None:
    def made() -> nn.Module:
        return Blocks(Residual, 3, nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), nn.Conv2d(4, 2, 1))

    holds(compiled(seeded(made), (images, 1, 5, 5), tmp_path / "bundle"))


def test_transformer(tmp_path: Path) -> None:
    holds(compiled(seeded(lambda: Blocks(Transformer, 3, nn.Linear(16, 16), nn.Linear(16, 4))), (2, 6, 16), tmp_path))


@pytest.mark.parametrize("images", [1, 3])
def test_two_blocks_of_hardware(images: int, tmp_path: Path) -> None:
    """Each for two of four layers: a frame is in one while the next is in the other."""
    hardware = {"hardware": {"shared": {"layers": 2}}}
    design = compiled(linear(4), (images, 16), tmp_path, {**SHARED, **hardware})
    holds(design)
    modules = [entry["module"] for entry in design.manifest["instances"]]
    assert modules.count("fixed_linear") == 4 and modules.count("loop_entry") == modules.count("loop_exit") == 2
    if images == 3:
        assert design.timing["interval"] == 2 * images * 16


def test_a_block_that_ends_with_other_lanes(tmp_path: Path) -> None:
    """The norm that begins it has the lanes of what comes before the first one, in every block."""
    lanes = {f"layers.{block}.down": {"data_out_0": 8} for block in range(2)}
    model = seeded(lambda: Blocks(Transformer, 2, nn.Linear(16, 16), nn.Linear(16, 4)))
    holds(
        compiled(model, (2, 3, 16), tmp_path, {**SHARED, "hardware": {"shared": ["layers"], "parallelism": lanes}}), 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", ["rom", "external"])
def test_twelve_layers(place: str, tmp_path: Path) -> None:
    """Area of one layer, parameters in block RAM or outside; the interval of twelve, as four sequences fill them."""
    hardware = {"family": "xc7", "block_cost": 1, "parameters": place}
    found = []
    for count in (1, 12):
        model = seeded(lambda n=count: Blocks(Transformer, n, nn.Linear(16, 16), nn.Linear(16, 4)))  # type: ignore[misc]
        shared = {"shared": ["layers"]} if count > 1 else {}
        config = {**SHARED, "hardware": {**hardware, **shared}}
        design = compiled(model, (4, 6, 16), tmp_path / str(count), config)
        found.append((design.timing["interval"], estimate(design.record, "xc7")))
    holds(design, 3)
    (interval, area), (shared_interval, shared_area) = found
    assert shared_interval <= 12.2 * interval
    assert not shared_area["not_estimated"]
    for resource in ("lut", "ff", "dsp", "bram"):
        assert shared_area[resource] <= 1.3 * area[resource]


@pytest.mark.parametrize("banks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_loaded(banks: int, tmp_path: Path, tiny: str) -> None:
    """All layers of a retrained model in one image, at random moments; what is read back is what was loaded."""
    torch.manual_seed(1)
    example, vectors = torch.randn(2, 16), torch.randn(8, 16)
    config = in_ram(SHARED, parameter_banks=banks)
    design, sets = loaded(linear(2), example, config, tmp_path / "bundle", vectors=vectors)
    assert design.simulate(engine="batch", waves=False).passed
    bench = build_bench(design, sets, tmp_path / "bench", tiny)
    for seed, kind in enumerate(("plain", "faults", "resets")):
        assert play(bench, design, kind, seed=seed, stalls=30, packets=50).startswith("PASS: 50 packets")


def broken(design: mase_hw.Design, folder: Path, file: str, old: str, new: str) -> mase_hw.Design:
    shutil.copytree(design.path, folder)
    path = folder / file
    text = path.read_text()
    assert re.search(old, text) is not None
    path.write_text(re.sub(old, new, text, count=1))
    return mase_hw.Design(folder, design.graph, verify=False)


def test_layers_in_another_order(three: mase_hw.Design, tmp_path: Path) -> None:
    """Found in the bits, and in the pass and the line of the memory."""
    words = (three.path / "mem/layers_0_fc_weight.mem").read_text().split()
    size = len(words) // 4
    swapped = [*words[:size], *words[2 * size : 3 * size], *words[size : 2 * size], *words[3 * size :]]
    wrong = broken(three, tmp_path / "bundle", "mem/layers_0_fc_weight.mem", r"(?s).+", "\n".join(swapped) + "\n")
    result = wrong.simulate(engine="batch", check=False, waves=False, work_dir=tmp_path / "work").result
    assert isinstance(result.failure, MismatchError)
    assert result.diagnosis is not None and (found := result.diagnosis.divergence) is not None
    assert (found.node, found.parameter, found.mismatch.frame) == ("layers_1_fc", "weight", 0)
    assert found.driver is not None and found.driver.line == size + 1


def test_too_little_room_on_the_way_back(three: mase_hw.Design, tmp_path: Path) -> None:
    """The rows of a pass find no room outside the block, so that the next one cannot begin."""
    full = r"count != CountW'\(DEPTH\)"
    wrong = broken(
        three, tmp_path / "bundle", "rtl/lib/stream_fifo.sv", full, "count != CountW'(DEPTH == 12 ? 2 : DEPTH)"
    )
    result = wrong.simulate(engine="batch", check=False, waves=False, work_dir=tmp_path / "work").result
    assert isinstance(result.failure, SimulationError) and "hang" in str(result.failure)


class Apart(nn.Module):
    """Blocks that are not quite equal, or that read more than the block before."""

    def __init__(self, last: nn.Module, skip: bool) -> None:
        super().__init__()
        self.head, self.skip = nn.Linear(16, 16), skip
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(2)])
        self.layers.append(nn.Sequential(nn.Linear(16, 16), last))

    def forward(self, x: Tensor) -> Tensor:
        x = y = torch.relu(self.head(x))
        for layer in self.layers:
            x = layer(x) + y if self.skip else layer(x)
        return x


@pytest.mark.parametrize(
    "model, config, kind, message",
    [
        (Apart(nn.ReLU(), True), {}, UnsupportedError, "a value goes past blocks"),
        (Apart(nn.GELU(), False), {}, UnsupportedError, r"(?s)not equal.*layers_2_1.*gelu in place of relu"),
        (Apart(nn.Identity(), False), {}, UnsupportedError, "not equal"),
        (Apart(nn.ReLU(), False), {"shared": ["layer"]}, ConfigError, r"(?s)no blocks.*did you mean 'layers'"),
        (Apart(nn.ReLU(), False), {"implementation": {"layers.0.0": "unrolled"}}, UnsupportedError, "not equal"),
        (Apart(nn.ReLU(), False), {"shared": {"layers": 2}}, ConfigError, r"(?s)cannot be dealt out.*one of 1"),
    ],
    ids=["skip", "op", "nodes", "path", "implementation", "number"],
)
def test_refused(
    model: nn.Module, config: Mapping[str, Any], kind: type[MaseHwError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        compiled(model, (1, 16), tmp_path / "bundle", {**SHARED, "hardware": {**SHARED["hardware"], **config}})
