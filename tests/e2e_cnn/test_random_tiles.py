"""Networks nobody thought of, several positions a beat: random ops that take tiles, sizes, lanes and positions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from tests.unit.pipeline import OWN_FRAMES

Step = Callable[[Tensor], Tensor]


class Drawn(nn.Module):
    """Steps that follow each other, some of which are layers, or have some.

    Args:
        steps: They are drawn for the shape of what the one before gives.
        layers: All layers among them, and inside.
    """

    def __init__(self, steps: list[Step], layers: list[nn.Module]) -> None:
        super().__init__()
        self.steps, self.layers = steps, nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """What the steps make of an image, or of tokens."""
        for step in self.steps:
            x = step(x)
        return x


class Draw:
    """Draws a network from a seed.

    Args:
        seed: Of all choices.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([52, seed])
        self.layers: list[nn.Module] = []
        torch.manual_seed(seed)

    def pick(self, *values: Any) -> Any:
        """One of some values."""
        return values[int(self.rng.integers(len(values)))]

    def layer(self, made: nn.Module) -> nn.Module:
        """A layer of the network, whose numbers are as large as what they meet."""
        for name, parameter in made.named_parameters():
            if parameter.dim() < 2:
                nn.init.normal_(parameter, 0.5 if "weight" in name else 0.0)
        self.layers.append(made)
        return made

    def image(self, shape: tuple[int, ...]) -> Step:
        """A step of an image ``(1, channels, rows, columns)``."""
        channels, kind = (
            shape[1],
            self.pick("conv", "conv", "deep", "pool", "norm", "shares", "spread", "parts", "gate"),
        )
        if kind == "conv":
            kernel, stride = self.pick((1, 1), (3, 3), (1, 3), (3, 5)), (1, self.pick(1, 1, 2))
            padding = (kernel[0] // 2, kernel[1] // 2)
            return self.layer(nn.Conv2d(channels, self.pick(2, 4, 6), kernel, stride, padding))
        if kind == "deep":
            return self.layer(nn.Conv2d(channels, channels, 3, padding=1, groups=channels))
        if kind == "pool":
            return self.pick(nn.MaxPool2d((1, 2)), nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1))
        if kind == "norm":
            rows = self.layer(self.pick(nn.LayerNorm, nn.RMSNorm)(channels, eps=1e-3))
            groups = self.layer(nn.GroupNorm(self.pick(1, channels), channels))
            return self.pick(groups, lambda x: rows(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        if kind == "shares":
            return self.pick(lambda x: x.softmax(1), lambda x: F.log_softmax(x, 1), F.gelu, torch.tanh)
        if kind == "spread":
            return lambda x: torch.cat((x, x.amax(1, keepdim=True), x.mean(1, keepdim=True)), 1)
        if kind == "parts":
            return lambda x: torch.cat((x[:, : channels // 2], -x[:, channels // 2 :]), 1)
        weigh = self.layer(nn.Linear(channels, channels))
        return lambda x: x * torch.sigmoid(weigh(x.mean((2, 3))))[:, :, None, None]

    def tokens(self, shape: tuple[int, ...]) -> Step:
        """A step of tokens ``(1, tokens, size)``."""
        size, kind = (
            shape[2],
            self.pick("linear", "norm", "block", "shares", "gate", "attention", "attention", "rotary"),
        )
        if kind == "linear":
            return self.layer(nn.Linear(size, self.pick(4, 6, 8)))
        if kind == "norm":
            return self.layer(self.pick(nn.LayerNorm, nn.RMSNorm)(size, eps=1e-3))
        if kind == "shares":
            return self.pick(lambda x: x.softmax(-1), F.gelu, F.silu)
        if kind == "block":
            up, down = self.layer(nn.Linear(size, 2 * size)), self.layer(nn.Linear(2 * size, size))
            return lambda x: x + down(F.gelu(up(x)))
        if kind == "gate" or size % 4:
            both = self.layer(nn.Linear(size, 8))
            return lambda x: F.glu(both(x), -1)
        return self.attention(shape, kind == "rotary")

    def attention(self, shape: tuple[int, ...], rotary: bool) -> Step:
        """Tokens that look at each other: with heads, what they see, and where they stand."""
        _, count, size = shape
        heads, mask = size // 4, self.pick("all", "causal", "stored")
        every = self.layer(nn.Linear(size, 3 * size))
        stored = torch.ones(count, count, dtype=torch.bool).tril().triu(-2) if mask == "stored" else None
        angle = torch.arange(count)[:, None] / 10 ** (torch.arange(2) / 2)
        cos, sin = (torch.cat((f(angle), f(angle)), -1) for f in (torch.cos, torch.sin))

        def turned(x: Tensor) -> Tensor:
            return x * cos + torch.cat((-x[..., 2:], x[..., :2]), -1) * sin if rotary else x

        def run(x: Tensor) -> Tensor:
            q, k, v = every(x).unflatten(-1, (3, heads, 4)).permute(2, 0, 3, 1, 4).unbind(0)
            seen = F.scaled_dot_product_attention(turned(q), turned(k), v, stored, is_causal=mask == "causal")
            return x + seen.transpose(1, 2).flatten(2)

        return run

    def network(self) -> tuple[nn.Module, Tensor, int]:
        """A network, frames for it, and positions of a beat."""
        positions = self.pick(2, 3, 4, 5, 6, 8)
        pictures = self.rng.random() < 0.5
        shape = (self.pick(1, 2, 3), self.pick(2, 3), positions * self.pick(1, 2))
        x = torch.rand(4, *(shape if pictures else (shape[2], 8))) * 2 - 1
        steps: list[Step] = []
        now = x[:1]
        for _ in range(self.pick(2, 3)):
            steps.append(self.image(tuple(now.shape)) if now.dim() == 4 else self.tokens(tuple(now.shape)))
            now = steps[-1](now)
            if now.dim() == 4 and self.rng.random() < 0.3:
                steps.append(lambda x: x.flatten(2).transpose(1, 2))
                now = steps[-1](now)
        if self.rng.random() < 0.3:
            steps.append(lambda x: x.mean(1))
        return Drawn(steps, self.layers).eval(), x, positions


QUICK = (5, 6, 7)
"""Seeds of every run: norms and a residual block of tokens, norms and parts of an image, a gate."""


@pytest.mark.parametrize(
    "seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(24) if seed not in QUICK)]
)
def test_random_tiles(seed: int, tmp_path: Path) -> None:
    """Bits and cycles at full rate, bits under stalls."""
    draw = Draw(seed)
    model, x, positions = draw.network()
    hardware = {"max_parallelism": draw.pick(1, 2, 3, 4), "positions": positions}
    settings = {"hardware": hardware, **OWN_FRAMES}
    design = mase_hw.compile(model, x[:1], settings, out=tmp_path / "b", calibration=[x])
    with torch.no_grad():
        wanted = torch.cat([design.model(frame[None]) for frame in x]).double()
    assert len(wanted.unique()) > 2
    for stalls in (None, 0.4):
        found = design.simulate(x, engine="batch", stalls=stalls, seed=seed)
        assert found.passed and torch.equal(found.output, wanted)
        if stalls is None:
            assert design.timing["exact"]
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])
