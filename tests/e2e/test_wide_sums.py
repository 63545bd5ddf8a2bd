"""Small models whose exact sums have more than 64 bits, from plain PyTorch to Verilator: every bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import FormatError
from tests.unit.pipeline import OWN_FRAMES


class Product(nn.Module):
    """Of two streams, with a length for every row."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x @ x.transpose(1, 2)
        return y, torch.linalg.vector_norm(x, dim=-1)


class Sequence(nn.Module):
    """The states of a recurrent layer."""

    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.layer = kind(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.layer(x)[0]
        return states


def normalised() -> nn.Module:
    """A norm with weights and a bias, in front of a softplus."""
    norm = nn.LayerNorm(6)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    return nn.Sequential(norm, nn.Softplus())


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "linear": (lambda: nn.Linear(12, 5), (1, 12), 32, 19),
    "conv": (lambda: nn.Conv2d(3, 4, 3, padding=1), (1, 3, 4, 5), 32, 18),
    "product": (Product, (1, 3, 5), 32, 22),
    "normalised": (normalised, (1, 3, 6), 32, 20),
    "gru": (lambda: Sequence(nn.GRU), (1, 3, 4), 24, 8),
    "lstm": (lambda: Sequence(nn.LSTM), (1, 3, 4), 32, 8),
}
"""What makes a model, the shape of a frame, bits of all formats, and those behind the point that a result has right."""


def formats(width: int, **more: int) -> dict[str, object]:
    keys = ("data_in", "weight", "bias", "data_out")
    rule = {f"{key}_width": width for key in keys} | {f"{key}_frac_width": width - 8 for key in keys}
    return {"quantize": {"default": {"config": rule | more}}, "hardware": {"max_parallelism": 2}, **OWN_FRAMES}


@pytest.mark.parametrize("name", MODELS)
def test_every_bit(name: str, tmp_path: Path) -> None:
    make, shape, width, right = MODELS[name]
    torch.manual_seed(5)
    model, x = make().eval(), torch.rand(6, *shape[1:]) * 6 - 3
    design = mase_hw.compile(model, x[:1], formats(width), out=tmp_path / name, calibration=[x])
    for stalls in (0.0, 0.4):
        simulation = design.simulate(x, engine="batch", stalls=stalls, seed=3)
        assert simulation.passed and simulation.result.mismatches == 0
    with torch.no_grad():
        real = copy.deepcopy(model).double()(x.double())
    for output, wanted in zip(simulation.outputs.values(), [real] if isinstance(real, Tensor) else real, strict=True):
        assert float((output - wanted).abs().max()) < 2.0**-right


def test_beyond_126_bits_is_refused(tmp_path: Path) -> None:
    """A bias far below the LSB of the products, which all are aligned to."""
    with pytest.raises(FormatError, match=r"(?s)widest carrier.*126 bits"):
        mase_hw.compile(nn.Linear(4, 3), torch.rand(1, 4), formats(40, bias_frac_width=120), out=tmp_path / "refused")
