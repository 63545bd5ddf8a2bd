"""Parameters are loaded at random moments: every frame is computed with one set, and a bad image changes nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.weights import Weights
from mase_hw.model_spec import load_model
from tests.handoff.designs import CONFIG, EXAMPLE, VECTORS, Pair
from tests.parameters.designs import build_bench, in_ram, loaded, play, weights_of
from tests.unit.pipeline import seeded

BLOCK = {"family": "xc7", "memory": {"fc.weight": "block", "fc.bias": "lut"}}
WAYS: dict[str, dict[str, Any]] = {
    "one bank": {},
    "two banks": {"parameter_banks": 2},
    "one bank in blocks": BLOCK,
    "two banks in blocks": {**BLOCK, "parameter_banks": 2},
}
KINDS = ("plain", "faults", "resets")


def swapped(design: mase_hw.Design, sets: list[Weights], folder: Path, make: str = "") -> None:
    """Change the parameters 200 times: without faults, with images that are refused, and with resets besides."""
    changed(build_bench(design, sets, folder, make), design)


def changed(bench: Path, design: mase_hw.Design) -> None:
    """The same of a bench that is compiled."""
    for seed, kind in enumerate(KINDS):
        said = play(bench, design, kind, seed=seed, stalls=30, packets=200)
        found = re.fullmatch(
            r"PASS: 200 packets, (\d+) refused, (\d+) read back, (\d+) resets, (\d+) and (\d+) frames, \d+ beats", said
        )
        assert found is not None, said
        refused, asked, resets, *frames = map(int, found.groups())
        assert (refused > 20 and (asked > 5 or design.record.image is None)) == (kind != "plain")
        assert (resets > 20) == (kind == "resets")
        assert min(frames) > 20


def pair(way: dict[str, Any], folder: Path) -> tuple[mase_hw.Design, list[Weights]]:
    """A design with two inputs and two outputs, and two sets of its parameters."""
    return loaded(seeded(Pair), EXAMPLE, in_ram(CONFIG, **way), folder, vectors=VECTORS)


def wide(folder: Path) -> tuple[mase_hw.Design, list[Weights]]:
    """A layer whose weights and biases are several words of the load bus a beat."""
    example = torch.randn(1, 16, generator=torch.Generator().manual_seed(0))
    config = in_ram({"vectors": {"frames": 8}}, max_parallelism=4)
    return loaded(seeded(lambda: nn.Linear(16, 6)), example, config, folder)


def test_wide_beats(tmp_path: Path, tiny: str) -> None:
    """Beats of four words and of two, which end in the middle of the last one."""
    design, sets = wide(tmp_path / "bundle")
    entries = [each["parameters"] for each in design.manifest["instances"] if each["module"] == "ram_source"]
    assert [each["WIDTH"] for each in entries] == [128, 52]
    swapped(design, sets, tmp_path / "bench", tiny)


@pytest.mark.parametrize("way", WAYS)
def test_every_frame_is_of_one_set(way: str, tmp_path: Path, tiny: str) -> None:
    """Two inputs and two outputs that stall by themselves; images that are incomplete, changed or of another design."""
    design, sets = pair(WAYS[way], tmp_path / "bundle")
    swapped(design, sets, tmp_path / "bench", tiny)


@pytest.mark.parametrize("size", [8, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 16))])
def test_images_in_memory(size: int, tmp_path: Path, tiny: str) -> None:
    """As above, where the design reads its parameters from memory, whose words and requests wait at random."""
    design, sets = pair({"parameters": "external", "external_bytes": size}, tmp_path / "bundle")
    swapped(design, sets, tmp_path / "bench", tiny)


def test_loaded_beside_parameters_in_memory(tmp_path: Path, tiny: str) -> None:
    """The reset after an image leaves what was read ahead of memory: it is the begin of the next frame."""
    config = in_ram(CONFIG, parameters="external", parameters_at={"fc.bias": "ram"})
    design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    other = seeded(Pair)
    with torch.no_grad():
        other.fc.bias.mul_(-0.5)
    sets = [weights_of(design, model, EXAMPLE, config) for model in (seeded(Pair), other)]
    assert sets[0].outside == sets[1].outside and sets[0].image != sets[1].image
    swapped(design, sets, tmp_path / "bench", tiny)


class Recurrent(nn.Module):
    """A GRU, whose cell reads its weights once a step."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.fc(self.gru(x)[0])
        return result


@pytest.mark.parametrize("place", [{"parameter_banks": 2}, {"parameters": "external"}], ids=["ram", "external"])
def test_a_recurrent_layer(place: dict[str, Any], tmp_path: Path, tiny: str) -> None:
    """All its parameters are loaded; outside are those of the layers, and those of the cell stay in ROM."""
    example = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
    design, sets = loaded(seeded(Recurrent), example, in_ram({"vectors": {"frames": 8}}, **place), tmp_path / "bundle")
    assert design.simulate(engine="batch", waves=False).passed
    swapped(design, sets, tmp_path / "bench", tiny)


def test_cycles_as_in_rom(tmp_path: Path) -> None:
    """Bits, latency and interval, as simulated, of the same design with ROMs."""
    for name, config in (("rom", CONFIG), ("ram", in_ram(CONFIG))):
        design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / name, vectors=VECTORS)
        found = design.simulate(engine="batch")
        assert found.passed and (found.fill, found.interval) == (design.timing["fill"], design.timing["interval"])
    assert mase_hw.load_design(tmp_path / "rom").timing == design.timing


@pytest.mark.slow
@pytest.mark.parametrize("place", [{}, {"parameter_banks": 2}, {"parameters": "external"}], ids=["1", "2", "external"])
@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "digits_vit"])
def test_digits(name: str, place: dict[str, Any], tmp_path: Path, root: Path) -> None:
    """The examples: their own bits, with loaded parameters cycles as in ROM, and 200 changes of the parameters."""
    spec = load_model(f"{root / 'examples' / name}.py:model")
    config = load_config(root / "examples" / f"{name}.toml").model_dump(exclude_unset=True)
    fixed = mase_hw.compile(spec.model, spec.example_inputs, config, out=tmp_path / "rom", calibration=spec.calibration)
    design, sets = loaded(
        spec.model,
        spec.example_inputs,
        in_ram(config, **place),
        tmp_path / "bundle",
        calibration=spec.calibration,
    )
    assert "parameters" in place or {**design.timing} == {**fixed.timing}
    assert design.simulate(engine="batch").passed
    swapped(design, sets, tmp_path / "bench")
