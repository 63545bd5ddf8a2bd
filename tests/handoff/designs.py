"""One small design for all tests of the handoff: two inputs, two outputs, beats that fill no bytes, padded rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mase_hw
from tests.unit.pipeline import inputs, rule, seeded


class Pair(nn.Module):
    """A layer on rows of five, and a ReLU on four elements."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(5, 3), nn.ReLU()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.fc(x), self.relu(y)


FRAMES = 5
WIDTH = 7
EXAMPLE = (inputs(2, 5), inputs(1, 4))
VECTORS = (inputs(2 * FRAMES, 5), inputs(FRAMES, 4))
CONFIG: dict[str, Any] = {
    "top": "pair",
    "quantize": {
        "default": rule(
            data_in_width=WIDTH,
            data_in_frac_width=4,
            weight_width=6,
            weight_frac_width=5,
            bias_width=6,
            bias_frac_width=4,
            data_out_width=WIDTH,
            data_out_frac_width=3,
        )
    },
    "hardware": {"parallelism": {"fc": {"data_in_0": 2, "data_out_0": 3}, "relu": {"data_in_0": 3}}},
}


def emit(out: Path, **handoff: Any) -> mase_hw.Design:
    """The design's bundle; ``handoff`` is that table of the configuration."""
    return mase_hw.compile(seeded(Pair), EXAMPLE, {**CONFIG, "handoff": handoff}, out=out, vectors=VECTORS)


def words(tensor: Tensor, scale: float, lanes: int) -> list[list[int]]:
    """Frames of quantised values ``(frames, rows, columns)`` as integers, one a beat; no code of mase_hw in it."""
    frames = []
    for frame in tensor:
        beats = []
        for row in frame:
            integers = [round(float(value) / scale) for value in row]
            integers += [0] * (-len(integers) % lanes)
            for start in range(0, len(integers), lanes):
                beat = integers[start : start + lanes]
                beats.append(sum((v & (2**WIDTH - 1)) << (WIDTH * i) for i, v in enumerate(beat)))
        frames.append(beats)
    return frames


def quantised(tensor: Tensor, frac_width: int) -> Tensor:
    """Values as the hardware gets them: half to even, saturated."""
    scaled = torch.round(tensor.double() * 2**frac_width)
    return scaled.clamp(-(2 ** (WIDTH - 1)), 2 ** (WIDTH - 1) - 1) / 2**frac_width


def beats(design: mase_hw.Design) -> dict[str, list[list[int]]]:
    """Stimulus and expected beats by port, from the model alone."""
    model: Any = design.model
    x, y = VECTORS[0].view(FRAMES, 2, 5), VECTORS[1].view(FRAMES, 1, 4)
    with torch.no_grad():
        results = [model(*frame) for frame in zip(x, y, strict=True)]
    out = [torch.stack([r[i] for r in results]) for i in range(2)]
    ports = {p["name"]: p for p in design.manifest["ports"]}
    found = {}
    for name, tensor in {"data_in_0": x, "data_in_1": y, "data_out_0": out[0], "data_out_1": out[1]}.items():
        fmt = ports[name]["format"]
        values = quantised(tensor, fmt["frac_width"]) if name.startswith("data_in") else tensor
        found[name] = words(values, fmt["scale"], ports[name]["lanes"])
    return found
