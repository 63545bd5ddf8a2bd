"""Language models of Hugging Face, token by token until their context is full: no bit and no cycle differs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.ir.trace.huggingface import states_at_once
from tests.e2e.test_architectures import lively
from tests.ir.huggingface_models import hf, needed

pytestmark = [needed, pytest.mark.slow]

CONTEXT, IDS = 33, 24
SIZES: dict[str, Any] = {
    "vocab_size": IDS,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
OPT: dict[str, Any] = {"ffn_dim": 24, "word_embed_proj_dim": 16}
GPT2: dict[str, Any] = {"vocab_size": IDS, "n_positions": CONTEXT, "n_embd": 16, "n_layer": 2, "n_head": 2}
MAMBA: dict[str, Any] = {"vocab_size": IDS, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}
HEADS = {"num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4}
# What they have: learned positions; shared keys, rotary positions; norms of queries and keys; windows; states.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "opt": ("OPTForCausalLM", "OPTConfig", SIZES | OPT),
    "phi": ("PhiForCausalLM", "PhiConfig", SIZES),
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIZES),
    "mistral": ("MistralForCausalLM", "MistralConfig", SIZES | {"sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", SIZES),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", SIZES | {"head_dim": 8}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", SIZES | {"head_dim": 8}),
    "mamba": ("MambaForCausalLM", "MambaConfig", MAMBA),
    "falcon_mamba": ("FalconMambaForCausalLM", "FalconMambaConfig", MAMBA | {"num_hidden_layers": 1}),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", MAMBA | HEADS | {"num_hidden_layers": 1}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", SIZES | {"head_dim": 8, "sliding_window": 6}),
}


def test_a_loop_keeps_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mamba's own loop over tokens: its state waits for the next token in a FIFO that is too short for all of it."""
    monkeypatch.setattr("mase_hw.ir.export.by_export.states_at_once", contextlib.nullcontext)
    model = hf.MambaForCausalLM(hf.MambaConfig(**MAMBA | {"num_hidden_layers": 1})).eval()
    ids, settings = {"input_ids": torch.zeros(1, 3, dtype=torch.int64)}, {"decode": {"context": 3}}
    with pytest.raises(GraphError, match="stays in the design until the next one comes") as error:
        mase_hw.compile(model, ids, settings, out=tmp_path / "loop", calibration=[ids])
    assert error.value.node is not None and error.value.node.endswith("_fifo")


@pytest.mark.parametrize("name", [name for name in MODELS if "mamba" in name])
def test_states_at_once_are_those_of_the_loop(name: str) -> None:
    """What takes the place of a loop over tokens, or of one over chunks of them, computes the same."""
    kind, config, sizes = MODELS[name]
    torch.manual_seed(0)
    model = getattr(hf, kind)(getattr(hf, config)(**sizes)).eval()
    lively(model)
    ids = torch.randint(IDS, (2, 11))
    with torch.no_grad():
        loop = model(ids, use_cache=False).logits
        with states_at_once():
            found = model(ids, use_cache=False).logits
        assert torch.equal(loop, model(ids, use_cache=False).logits), "what took its place has left"
    assert not torch.equal(loop[0], loop[1]) and torch.allclose(loop, found, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_every_bit_and_cycle(name: str, tmp_path: Path) -> None:
    kind, config, sizes = MODELS[name]
    torch.manual_seed(0)
    model = getattr(hf, kind)(getattr(hf, config)(**sizes)).eval()
    if "mamba" in name:  # its first parameters leave next to nothing in the states
        lively(model)
    ids = torch.randint(IDS, (16, CONTEXT))
    settings: dict[str, Any] = {"decode": {"context": CONTEXT}, "vectors": {"faults": 8, "frames": 2}}

    def compiled(out: Path) -> mase_hw.Design:
        given = {"input_ids": ids[:1, :5]}
        return mase_hw.compile(model, given, settings, out=out, calibration=[{"input_ids": ids}])

    design = compiled(tmp_path / name)
    prompts = [[1, 2], [5]]
    for asked in ({}, {"stalls": 0.3, "abort": 20}):
        found = design.generate(prompts, 32, **asked)
        assert found.result is not None and found.result.mismatches == 0
        assert [len(row) for row in found.tokens] == [32, 32]
        if not asked:
            assert found.measured == found.predicted
            assert found.measured[1] == design.manifest["decode"]["cycles"][:32]
    # The same sequences in turn, each between the tokens of the others.
    settings["decode"]["slots"] = 2
    if "mamba" in name:
        with pytest.raises(UnsupportedError, match="from one token on to the next"):
            compiled(tmp_path / f"{name}_slots")
        return
    in_turn = compiled(tmp_path / f"{name}_slots").generate([*prompts, [7, 7, 7], [5]], 20)
    assert in_turn.result is not None and in_turn.result.mismatches == 0
    assert in_turn.measured == in_turn.predicted and len(in_turn.measured) == 4
