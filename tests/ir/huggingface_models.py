"""Small models of transformers, built from their configurations; nothing is downloaded."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn


class _Late:
    """Transformers when a test needs them: importing them takes longer than collecting a thousand tests."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("transformers"), name)


hf: Any = _Late()
needed = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the extra hf: pip install 'mase-hw[hf]'"
)

TOKENS = 40
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}


@dataclass(frozen=True)
class Network:
    """The name of a model class, its configuration and the inputs it is traced with."""

    model: str
    config: Callable[[], Any]
    inputs: tuple[str, ...]

    def build(self, attention: str = "eager", layers: int = 2) -> nn.Module:
        torch.manual_seed(5)
        config = self.config()
        config.num_hidden_layers = layers
        config._attn_implementation = attention
        model: nn.Module = getattr(hf, self.model)(config)
        return model.eval()

    def example(self, batch: int, length: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(batch * 100 + length)
        ids = torch.randint(2, TOKENS, (batch, length), generator=generator)
        mask = torch.ones_like(ids)
        mask[0, -2:] = 0
        known = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": ids % 2,
            "pixel_values": torch.randn(batch, 3, 16, 16, generator=generator),
        }
        return {name: known[name] for name in self.inputs}


def bert() -> Any:
    return hf.BertConfig(vocab_size=TOKENS, max_position_embeddings=32, **SMALL)


def vit() -> Any:
    return hf.ViTConfig(image_size=16, patch_size=4, **SMALL)


def gpt2() -> Any:
    return hf.GPT2Config(vocab_size=TOKENS, n_positions=32, n_embd=16, n_layer=2, n_head=4, n_inner=24)


def opt() -> Any:
    sizes = {k: v for k, v in SMALL.items() if k != "intermediate_size"}
    return hf.OPTConfig(vocab_size=TOKENS, ffn_dim=24, word_embed_proj_dim=16, max_position_embeddings=32, **sizes)


def llama() -> Any:
    return hf.LlamaConfig(vocab_size=TOKENS, num_key_value_heads=2, max_position_embeddings=32, **SMALL)


TEXT = ("input_ids", "attention_mask")
NETWORKS = {
    "bert": Network("BertModel", bert, TEXT),
    "bert-classifier": Network("BertForSequenceClassification", bert, (*TEXT, "token_type_ids")),
    "vit": Network("ViTForImageClassification", vit, ("pixel_values",)),
    "gpt2": Network("GPT2LMHeadModel", gpt2, TEXT),
    "gpt2-ids": Network("GPT2LMHeadModel", gpt2, ("input_ids",)),
    "opt": Network("OPTForCausalLM", opt, TEXT),
    "llama": Network("LlamaForCausalLM", llama, TEXT),
    "llama-ids": Network("LlamaForCausalLM", llama, ("input_ids",)),
}
