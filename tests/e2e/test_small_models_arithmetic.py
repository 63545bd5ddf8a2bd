"""Small models, one piece of arithmetic each: every bit, every cycle, at full rate and under stalls.

Several of them are outputs of one design, which saves building simulators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from tests.e2e.test_joins import check_every_beat
from tests.unit.pipeline import OWN_FRAMES

Piece = Callable[[Any, Tensor, Tensor], Tensor]


class Pieces(nn.Module):
    """Two inputs ``(N, 3, 5)``; every piece of arithmetic is an output."""

    def __init__(self, pieces: Mapping[str, Piece]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.pieces = dict(pieces)
        self.w = nn.Parameter(torch.randn(5, 4, generator=generator))
        self.left = nn.Parameter(torch.randn(2, 3, generator=generator))
        self.core = nn.Parameter(torch.randn(3, 4, 5, generator=generator))
        self.bias = nn.Parameter(torch.randn(4, generator=generator))
        self.register_buffer("scale", torch.rand(5, generator=generator) + 0.5)
        self.register_buffer("powers", torch.tensor([1.0, 2.0, 0.5, -4.0, 1.0]))

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {name: piece(self, x, y) for name, piece in self.pieces.items()}


PRODUCTS: dict[str, Piece] = {
    "matmul": lambda s, x, y: x @ s.w,
    "from_left": lambda s, x, y: s.left @ x,
    "einsum": lambda s, x, y: torch.einsum("nti,toi->no", x, s.core),
    "einsum_dots": lambda s, x, y: torch.einsum("...i,io->...o", y, s.w),
    "addmm": lambda s, x, y: torch.addmm(s.bias, x[:, 0], s.w),
    "baddbmm": lambda s, x, y: torch.baddbmm(s.bias[None, None], x, s.w[None], alpha=0.5),
}
SUMS: dict[str, Piece] = {
    "square": lambda s, x, y: x.square(),
    "power": lambda s, x, y: y**3,
    "root": lambda s, x, y: (x * x) ** 0.5,
    "alpha": lambda s, x, y: torch.add(x, y, alpha=2),
    "minus": lambda s, x, y: torch.add(x, y, alpha=-1),
    "minus_minus": lambda s, x, y: y.sub(x, alpha=-1),
    "sub_alpha": lambda s, x, y: x.sub(y, alpha=0.3),
    "half": lambda s, x, y: x / 2,
    "by_powers": lambda s, x, y: y / s.powers,
    "floor": lambda s, x, y: torch.floor(x * 2),
    "ceil": lambda s, x, y: y.ceil(),
    "round": lambda s, x, y: x.round(),
    "trunc": lambda s, x, y: torch.trunc(y),
    "sin": lambda s, x, y: torch.sin(x),
    "cos": lambda s, x, y: y.cos(),
    "at_least": lambda s, x, y: x.clamp_min(0.2),
    "at_most": lambda s, x, y: torch.clamp_max(y, -0.4),
    "between": lambda s, x, y: x.clamp(-s.scale, s.scale),
}
TRUTHS: dict[str, Piece] = {
    "sign": lambda s, x, y: torch.sign(x),
    "less": lambda s, x, y: x < y,
    "greater": lambda s, x, y: (x > 0.3) * x,
    "at_most": lambda s, x, y: y.le(0.25).float(),
    "equal": lambda s, x, y: x.eq(y).float(),
    "other": lambda s, x, y: torch.ne(x, 0.0),
    "channels": lambda s, x, y: x >= s.scale,
    "turned": lambda s, x, y: s.scale > y,
    "turned_less": lambda s, x, y: torch.lt(s.powers, x),
    "turned_at_most": lambda s, x, y: torch.le(s.powers, y),
    "turned_at_least": lambda s, x, y: torch.ge(s.powers, x),
    "logic": lambda s, x, y: (torch.logical_and(x > 0, y > 0) | (x < -1)).float(),
    "odd": lambda s, x, y: (x > 0) ^ (y > 0),
    "mask": lambda s, x, y: (~(y > 0)).float() * x + (y > 0) * (x > 1),
}
QUOTIENTS: dict[str, Piece] = {
    "by_number": lambda s, x, y: x / 3,
    "by_channels": lambda s, x, y: y / s.scale,
    "of_number": lambda s, x, y: 1.5 / (x * x + 1),
    "of_data": lambda s, x, y: x / (y.abs() + 0.5),
    "where": lambda s, x, y: torch.where(x > y, x, y * 2),
    "else_number": lambda s, x, y: torch.where(x > 0, x, 0.25),
    "then_channels": lambda s, x, y: torch.where(y < 0, s.scale, x),
    "numbers": lambda s, x, y: torch.where(x > 0, 0.5, -0.75),
    "filled": lambda s, x, y: y.masked_fill(y < -1, -1.0),
    "filled_by_function": lambda s, x, y: torch.masked_fill(y, y < -1, -1.0),
    "stored_mask": lambda s, x, y: x.masked_fill(s.scale > 1, 0.5),
}

FORMULAS: dict[str, Piece] = {
    "addcmul": lambda s, x, y: torch.addcmul(x, y, x, value=0.5),
    "addcdiv": lambda s, x, y: x.addcdiv(y, s.scale, value=-2),
    "turned": lambda s, x, y: torch.rsub(x, y, alpha=2),
    "turned_number": lambda s, x, y: torch.rsub(y, 1.5),
    "lerp": lambda s, x, y: torch.lerp(x, y, 0.3),
    "lerp_by_channels": lambda s, x, y: torch.lerp(x, y, s.scale),
    "frac": lambda s, x, y: x.frac(),
    "logaddexp": lambda s, x, y: torch.logaddexp(x, y),
    "hypot": lambda s, x, y: x.hypot(y),
    "degrees": lambda s, x, y: torch.rad2deg(x),
    "inner": lambda s, x, y: torch.inner(x, s.left.new_ones(2, 5)),
    "down": lambda s, x, y: torch.div(x, 0.75, rounding_mode="floor"),
    "cut": lambda s, x, y: x.div(y.abs() + 0.3, rounding_mode="trunc"),
    "whole": lambda s, x, y: y // 0.5,
    "whole_by_channels": lambda s, x, y: torch.floor_divide(x, s.scale),
    "of_number": lambda s, x, y: 4 // (y.abs() + 0.5),
    "remainder": lambda s, x, y: x % 0.5,
    "negative_remainder": lambda s, x, y: torch.remainder(y, -2),
    "fmod": lambda s, x, y: torch.fmod(y, 1),
    "in_place": lambda s, x, y: F.rrelu_(x - 1).add_(y, alpha=-0.5).masked_fill_(y > 1, 0.25),
    "difference": lambda s, x, y: torch.subtract(x, y).multiply(2),
    "neighbours": lambda s, x, y: x.diff(dim=-1),
    "length": lambda s, x, y: y.norm(3, -1),
    "share": lambda s, x, y: (x > 0).float().mean(1),
    "bytes": lambda s, x, y: (1 - (x > 0).to(torch.uint8)).float() * y,
}


def bits(width: int) -> dict[str, Any]:
    keys = ("data_in_width", "weight_width", "data_out_width")
    return {"quantize": {"default": {"config": dict.fromkeys(keys, width)}}}


@pytest.mark.parametrize(
    ("pieces", "width", "lanes"),
    [(PRODUCTS, 8, 2), (SUMS, 6, 3), (TRUTHS, 4, 4), (QUOTIENTS, 7, 3), (FORMULAS, 9, 2)],
    ids=["products", "sums", "truths", "quotients", "formulas"],
)
def test_arithmetic(pieces: Mapping[str, Piece], width: int, lanes: int, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(24, 3, 5, generator=generator) for _ in range(2))
    if pieces is TRUTHS:  # numbers of the format, so that the model decides as the hardware does
        x, y = (((v * 4).round() / 4).clamp(-2, 1.75) for v in (x, y))
    config = {**bits(width), "hardware": {"max_parallelism": lanes}, **OWN_FRAMES}
    frames = list(zip(x.split(1), y.split(1), strict=True))  # some models take one frame at a time
    design = mase_hw.compile(Pieces(pieces), frames[0], config, out=tmp_path / "bundle", calibration=frames)
    with torch.no_grad():
        wanted = design.model(x, y)
        each = [Pieces(pieces)(*frame) for frame in frames]
    real = {name: torch.cat([frame[name] for frame in each]) for name in pieces}
    for stalls in (None, 0.3):
        simulation = design.simulate((x, y), engine="batch", stalls=stalls, seed=3, work_dir=tmp_path / "work")
        assert simulation.passed
        for name, output in zip(pieces, simulation.outputs.values(), strict=True):
            assert torch.equal(output, wanted[name].double()), name
            assert len(output.unique()) > 1, name
            error, signal = (real[name].double() - output).square().mean(), real[name].double().square().mean()
            assert error < 0.3 * signal, name  # what it computes is what the model says; the bits are held above
        if stalls is None:
            assert design.timing["exact"]
            check_every_beat(design, simulation.result, 24)
