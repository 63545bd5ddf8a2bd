"""Attention over several tokens in a beat: the same bits, in a part of the cycles, and nothing turned in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.ops.products.matmul import grouped_matmul
from tests.unit.pipeline import OWN_FRAMES

Shape = tuple[int, ...]


class Crossed(nn.Module):
    """Tokens that look at others, with heads of their own and weights that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Queries and what they look at to as many tokens."""
        found: Tensor = self.attention(x, y, y, need_weights=False)[0]
        return found


class Shared(nn.Module):
    """Four heads of queries that share two of keys and values, of fewer elements than a beat has lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 12), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens to as many."""
        q, k, v = ((y.unflatten(-1, (-1, 3))).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        return nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).flatten(2)


class Fused(nn.Module):
    """Queries, keys and values of one layer, which are parts of its result."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.leave = nn.Linear(8, 24), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens to as many."""
        q, k, v = self.all(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.leave(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Plain(nn.Module):
    """Queries, keys and values of the input of the model, head by head."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Tokens of two heads to as many."""
        return nn.functional.scaled_dot_product_attention(q, k, v)


class ByToken(nn.Module):
    """The same token by token, as projections give them."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Tokens of two heads to as many."""
        return grouped_matmul(torch.softmax(grouped_matmul(q, k, True), -1), v, False)


class Masked(nn.Module):
    """Tokens that see those before them, and not all of these; what they see is counted, or stored."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.causal, self.stored = causal, torch.ones(8, 8, dtype=torch.bool).tril().triu(-4)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens to as many."""
        q, k, v = (y(x).unflatten(-1, (2, 4)).transpose(1, 2) for y in (self.q, self.k, self.v))
        mask = None if self.causal else self.stored
        found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return found.transpose(1, 2).flatten(2)


def encoder(**how: Any) -> nn.Module:
    """A layer of a transformer."""
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **how)


class Patches(nn.Module):
    """A transformer for images: patches by a convolution, a layer, a class by the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.layer, self.leave = nn.Conv2d(2, 8, 2, 2), encoder(norm_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        """An image to five numbers."""
        return self.leave(self.layer(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


CASES: dict[str, tuple[Callable[[], nn.Module], Sequence[Shape], int]] = {
    "crossed": (Crossed, [(8, 8), (4, 8)], 16),
    "encoder": (encoder, [(8, 8)], 16),
    "shared": (Shared, [(8, 6)], 32),
    "causal": (lambda: Masked(True), [(8, 8)], 16),
    "window": (lambda: Masked(False), [(8, 8)], 16),
    "plain": (Plain, [(2, 8, 4)] * 3, 16),
    "by_token": (ByToken, [(8, 2, 4)] * 3, 16),
    "fused": (Fused, [(8, 8)], 24),
    "patches": (Patches, [(2, 4, 16)], 64),
}
"""A model, the shapes of its inputs, and cycles per frame times positions."""


def compiled(name: str, out: Path, positions: int | dict[str, int]) -> tuple[Any, tuple[Tensor, ...]]:
    """A design, and frames for it."""
    torch.manual_seed(5)
    make, shapes, _ = CASES[name]
    x = tuple(torch.rand(4, *shape) * 2 - 1 for shape in shapes)
    settings = {"hardware": {"max_parallelism": 8, "positions": positions}, **OWN_FRAMES}
    return mase_hw.compile(make().eval(), tuple(y[:1] for y in x), settings, out=out, calibration=[x]), x


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("encoder", 4),
        ("shared", 2),
        ("fused", 2),
        ("causal", 2),
        ("window", 4),
        ("plain", 2),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in CASES),
        *(
            pytest.param(name, 4, marks=pytest.mark.slow)
            for name in ("crossed", "shared", "fused", "causal", "by_token")
        ),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in ("crossed", "encoder", "patches")),
    ],
)
def test_bits_and_cycles(name: str, positions: int, tmp_path: Path) -> None:
    design, x = compiled(name, tmp_path / "b", positions)
    with torch.no_grad():
        wanted = torch.cat([design.model(*(y[i : i + 1] for y in x)) for i in range(len(x[0]))]).double()
    assert len(wanted.unique()) > 10
    assert design.timing["exact"] and design.timing["interval"] == CASES[name][2] // positions
    instances = design.manifest["instances"]
    assert not {i["module"] for i in instances} & {"beat_turn", "stream_reorder"}
    tokens = [i["parameters"]["DATA_IN_0_PARALLELISM_DIM_2"] for i in instances if i["module"] == "fixed_matmul"]
    assert tokens == [positions] * 2
    for stalls in (None, 0.4):
        found = design.simulate(x if len(x) > 1 else x[0], engine="batch", stalls=stalls)
        assert found.passed and torch.equal(found.output, wanted)
        if stalls is None:
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])


@pytest.mark.slow
def test_by_node(tmp_path: Path) -> None:
    """One product has several tokens in a beat, what comes before and behind it has one."""
    design, x = compiled("shared", tmp_path / "b", {"scaled_dot_product_attention_matmul": 4})
    tokens = [
        i["parameters"]["DATA_IN_0_PARALLELISM_DIM_2"]
        for i in design.manifest["instances"]
        if i["module"] == "fixed_matmul"
    ]
    assert tokens == [4, 4]
    assert design.simulate(x[0], engine="batch").passed


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled("shared", tmp_path / "b", {"scaled_dot_product_attention_matmul": 3})
    assert "hardware.positions.scaled_dot_product_attention_matmul" in str(caught.value)
    assert "a divisor of the 8 tokens" in str(caught.value)
