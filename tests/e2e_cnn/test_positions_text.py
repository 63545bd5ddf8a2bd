"""Text models with several tokens in a beat, from their ids on: the same bits, in a part of the cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.unit.pipeline import OWN_FRAMES

ROWS, SIZE, TOKENS = 13, 8, 8


class Gpt(nn.Module):
    """Ids, learned positions, a layer in which a token sees those before it, a number for every id."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(ROWS, SIZE), nn.Embedding(TOKENS, SIZE)
        self.layer = nn.TransformerEncoderLayer(SIZE, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(SIZE), nn.Linear(SIZE, ROWS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to as many rows of numbers."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        later = torch.ones(TOKENS, TOKENS).triu(1).bool()
        return self.head(self.norm(self.layer(x, src_mask=later, is_causal=True)))


class Words(nn.Module):
    """Ids, learned positions, and a layer of each token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(ROWS, SIZE), nn.Embedding(TOKENS, SIZE)
        self.head = nn.Linear(SIZE, ROWS)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to as many rows of numbers."""
        return self.head(self.words(ids) + self.places(torch.arange(ids.shape[1])))


class Beside(nn.Module):
    """Ids, and two layers of each token whose results lie behind each other, parts of them in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.first, self.second = nn.Embedding(ROWS, SIZE), nn.Linear(SIZE, 4), nn.Linear(SIZE, SIZE)
        self.head = nn.Linear(12, 5)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to as many rows of numbers."""
        x = self.words(ids)
        y = self.second(x)
        return self.head(torch.cat((y[..., 4:], self.first(x), y[..., :4]), -1))


class Registers(nn.Module):
    """Ids behind a learned token and before three others: 12 tokens, where a token alone would make 9."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(ROWS, SIZE), nn.Linear(SIZE, 16)
        self.first, self.last = nn.Parameter(torch.randn(1, 1, SIZE)), nn.Parameter(torch.randn(1, 3, SIZE))

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to rows of numbers of all tokens."""
        first, last = (x.expand(ids.shape[0], -1, -1) for x in (self.first, self.last))
        return self.head(torch.cat((first, self.words(ids), last), 1))


class Llama(nn.Module):
    """Ids, a block with rotary positions whose heads share keys, and a gate of what it computes for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.after = nn.Embedding(ROWS, SIZE), nn.RMSNorm(SIZE), nn.RMSNorm(SIZE)
        self.q, self.k, self.v = nn.Linear(SIZE, 16), nn.Linear(SIZE, 8), nn.Linear(SIZE, 8)
        self.leave, self.gate, self.up = nn.Linear(16, SIZE), nn.Linear(SIZE, 16), nn.Linear(SIZE, 16)
        self.down, self.head = nn.Linear(16, SIZE), nn.Linear(SIZE, ROWS, bias=False)
        angle = torch.arange(TOKENS)[:, None] / 10 ** (torch.arange(2) / 2)
        self.cos, self.sin = (torch.cat((f(angle), f(angle)), -1) for f in (torch.cos, torch.sin))

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to as many rows of numbers."""
        x = self.words(ids)
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = (z * self.cos + torch.cat((-z[..., 2:], z[..., :2]), -1) * self.sin for z in (q, k))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.leave(found.transpose(1, 2).flatten(2))
        y = self.after(x)
        return self.head(x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)))


def compiled(make: type[nn.Module], out: Path, positions: int | dict[str, int]) -> tuple[Any, Tensor]:
    """A design, and frames for it."""
    torch.manual_seed(5)
    model, ids = make().eval(), torch.randint(0, ROWS, (4, TOKENS))
    settings = {"hardware": {"max_parallelism": 8, "positions": positions}, **OWN_FRAMES}
    return mase_hw.compile(model, ids[:1], settings, out=out, calibration=[ids]), ids


BEATS = {Words: 2, Beside: 3, Registers: 3, Gpt: 2, Llama: 8}
"""Of a token: 13 numbers leave in beats of 8, 12 are read in beats of 4, 12 tokens give 2 beats for 8 ids,
and halves of 4 heads are put together."""


@pytest.mark.parametrize(
    ("make", "positions"),
    [
        (Words, 4),
        (Beside, 2),
        *(pytest.param(make, n, marks=pytest.mark.slow) for make in (Gpt, Llama, Registers) for n in (1, 2, 4)),
        *(pytest.param(Beside, n, marks=pytest.mark.slow) for n in (1, 8)),
    ],
)
def test_bits_and_cycles(make: type[nn.Module], positions: int, tmp_path: Path) -> None:
    design, x = compiled(make, tmp_path / "b", positions)
    with torch.no_grad():
        wanted = torch.cat([design.model(frame[None]) for frame in x]).double()
    assert len(wanted.unique()) > 10
    assert design.timing["exact"] and design.timing["interval"] == BEATS[make] * TOKENS // positions
    instances = design.manifest["instances"]
    assert not {i["module"] for i in instances} & {"beat_turn", "stream_reorder"}
    (table,) = (i["parameters"] for i in instances if i["module"] == "fixed_embedding")
    assert (table["DATA_IN_0_PARALLELISM_DIM_0"], table["DATA_OUT_0_PARALLELISM_DIM_1"]) == (positions, positions)
    for stalls in (None, 0.4):
        found = design.simulate(x, engine="batch", stalls=stalls)
        assert found.passed and torch.equal(found.output, wanted)
        if stalls is None:
            assert (found.interval, found.fill) == (design.timing["interval"], design.timing["fill"])


def test_by_node(tmp_path: Path) -> None:
    """Asked for by name, the table gives two tokens a beat, and what follows takes them so."""
    design, x = compiled(Words, tmp_path / "b", {"words": 2})
    (table,) = (i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_embedding")
    assert table["DATA_OUT_0_PARALLELISM_DIM_1"] == 2
    assert design.simulate(x, engine="batch").passed
