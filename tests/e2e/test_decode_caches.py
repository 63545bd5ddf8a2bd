"""Models with caches of their own cannot decode: each way to write one is refused with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.prompts import refuse_caches
from mase_hw.errors import ConfigError, GraphError, MaseHwError
from tests.ir.huggingface_models import hf, needed

CONTEXT, WIDTH, IDS = 6, 8, 11
SETTINGS = {"decode": {"context": CONTEXT}, "vectors": {"faults": 2, "frames": 1}}


class Block(nn.Module):
    """What all of them share."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.ids, self.qkv, self.out = nn.Embedding(IDS, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, IDS)
        self.keys, self.values = torch.zeros(1, 0, WIDTH), torch.zeros(1, 0, WIDTH)
        self.at = 0
        self.register_buffer("rows", torch.zeros(2, 1, CONTEXT, WIDTH))

    def step(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One token, which sees those before it and itself."""
        x = self.ids(ids)
        query, key, value = self.qkv(x).chunk(3, -1)
        keys, values = torch.cat([keys, key], -2), torch.cat([values, value], -2)
        return self.out(x + F.scaled_dot_product_attention(query, keys, values)), keys, values


class PassedOn(Block):
    """Caches go in and come out."""

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.step(ids, keys, values)


class PassedOnAsPairs(Block):
    """So they do in a tuple."""

    def forward(self, ids: Tensor, past: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        scores, keys, values = self.step(ids, *past)
        return scores, (keys, values)


class OfOneHead(Block):
    """With a dimension for heads, of which there is one."""

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores, keys, values = self.step(ids, keys[:, 0], values[:, 0])
        return scores, keys.unsqueeze(1), values.unsqueeze(1)


class Kept(Block):
    """Caches are attributes, which grow."""

    def forward(self, ids: Tensor) -> Tensor:
        scores, self.keys, self.values = self.step(ids, self.keys, self.values)
        return scores


class Written(Block):
    """Caches are buffers, written at a place that is counted."""

    def forward(self, ids: Tensor) -> Tensor:
        scores, keys, values = self.step(ids, *self.rows[:, :, : self.at])
        self.rows[0, :, self.at], self.rows[1, :, self.at] = keys[:, -1], values[:, -1]
        self.at += 1
        return scores


class Loop(Block):
    """A whole sequence, token by token."""

    def forward(self, ids: Tensor) -> Tensor:
        keys = values = torch.zeros(1, 0, WIDTH)
        found = []
        for at in range(ids.shape[1]):
            scores, keys, values = self.step(ids[:, at : at + 1], keys, values)
            found.append(scores)
        return torch.cat(found, 1)


class Whole(Block):
    """What to write instead."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.ids(ids)
        return self.out(x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), is_causal=True))


PROMPT, ROWS = torch.tensor([[3]]), torch.zeros(1, 2, WIDTH)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (PassedOn, (PROMPT, ROWS, ROWS), "different numbers of tokens"),
        (PassedOn, (PROMPT, ROWS[:, :0], ROWS[:, :0]), "different numbers of tokens"),
        (PassedOn, {"ids": PROMPT, "keys": ROWS[:, :1], "values": ROWS[:, :1]}, "as an input, and gives it back"),
        (PassedOnAsPairs, (PROMPT, (ROWS, ROWS)), "different numbers of tokens"),
        (OfOneHead, (PROMPT, ROWS[:, None], ROWS[:, None]), "as an input, and gives it back"),
        (Kept, PROMPT, "keeps something of a token"),
        (Written, PROMPT, "keeps something of a token"),
        (Loop, torch.tensor([[3, 1]]), "does not carry one token after the other"),
    ],
)
def test_caches_of_ones_own(kind: type[nn.Module], given: Any, message: str, tmp_path: Path) -> None:
    model = kind().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(MaseHwError, match=message) as error:
        mase_hw.compile(model, given, SETTINGS, out=tmp_path / "design")
    assert isinstance(error.value, ConfigError | GraphError)
    assert "let forward take whole sequences" in str(error.value) and "is_causal=True" in str(error.value)
    assert not (tmp_path / "design").exists()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "a copy ran"


def test_what_to_write_instead(tmp_path: Path) -> None:
    """The same numbers, and a design that keeps keys and values itself."""
    ids = torch.tensor([[3, 1, 4, 1, 5, 9]])
    whole, loop, kept = (kind().eval() for kind in (Whole, Loop, Kept))
    with torch.no_grad():
        one_by_one = torch.cat([kept(ids[:, at : at + 1]) for at in range(CONTEXT)], 1)
        assert torch.allclose(whole(ids), loop(ids), atol=1e-5) and torch.allclose(whole(ids), one_by_one, atol=1e-5)
    design = mase_hw.compile(whole, ids[:, :2], SETTINGS, out=tmp_path / "design", calibration=[ids])
    found = design.generate([[3, 1, 4], [9]], 3)
    assert found.measured == found.predicted and found.result is not None and found.result.mismatches == 0


class Two(Block):
    """Two inputs for each token, and two results: none is a cache."""

    def forward(self, ids: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
        x = self.ids(ids) + more
        y = x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), is_causal=True)
        return self.out(y), torch.relu(y)


def test_inputs_that_are_no_caches(tmp_path: Path) -> None:
    """They need a prompt of several tokens, as the error says of one."""
    ids, more = torch.tensor([[3, 1]]), torch.randn(1, 2, WIDTH)
    with pytest.raises(GraphError, match="if they are none, a prompt of several tokens"):
        mase_hw.compile(Two().eval(), (ids[:, :1], more[:, :1]), SETTINGS, out=tmp_path / "one")
    design = mase_hw.compile(Two().eval(), (ids, more), SETTINGS, out=tmp_path / "two")
    assert len(design.manifest["decode"]["cycles"]) == CONTEXT


@needed
def test_results_without_paths() -> None:
    """PyTorch knows the results of Hugging Face as containers whose parts have no names."""
    sizes = {"vocab_size": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 4}
    refuse_caches(hf.GPT2LMHeadModel(hf.GPT2Config(**sizes)).eval(), {"input_ids": torch.tensor([[3, 1]])})
