"""Whole models of Hugging Face, straight from their classes: RTL equal to the quantised model, in predicted time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw.errors import ConfigError, GraphError, MaseHwError
from tests.ir.huggingface_models import NETWORKS, TOKENS, Network, hf, needed
from tests.unit.pipeline import OWN_FRAMES

pytestmark = needed

SIZED = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
BERT = {"vocab_size": TOKENS, "max_position_embeddings": 64, **SIZED}
LARGE: dict[str, Network] = {
    "bert": Network("BertModel", lambda: hf.BertConfig(**BERT), ("input_ids", "attention_mask")),
    "bert-classifier": Network(
        "BertForSequenceClassification",
        lambda: hf.BertConfig(**BERT),
        ("input_ids", "attention_mask", "token_type_ids"),
    ),
    "vit": Network(
        "ViTForImageClassification", lambda: hf.ViTConfig(image_size=16, patch_size=4, **SIZED), ("pixel_values",)
    ),
    "gpt2": Network(
        "GPT2LMHeadModel",
        lambda: hf.GPT2Config(vocab_size=TOKENS, n_positions=64, n_embd=64, n_layer=2, n_head=4, n_inner=128),
        ("input_ids", "attention_mask"),
    ),
    "opt": Network(
        "OPTForCausalLM",
        lambda: hf.OPTConfig(
            vocab_size=TOKENS,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=128,
            word_embed_proj_dim=64,
            max_position_embeddings=64,
        ),
        ("input_ids", "attention_mask"),
    ),
    "llama": Network(
        "LlamaForCausalLM",
        lambda: hf.LlamaConfig(num_key_value_heads=2, **BERT),
        ("input_ids", "attention_mask"),
    ),
}


def compiled(network: Network, attention: str, tokens: int, path: Path, layers: int = 2) -> Any:
    batches = [network.example(4, tokens), network.example(8, tokens)]
    model = network.build(attention, layers)
    return mase_hw.compile(model, network.example(1, tokens), OWN_FRAMES, out=path, calibration=batches)


def assert_equal(design: Any, inputs: dict[str, Any]) -> None:
    """Every bit at full rate and under stalls, every prediction, and the interval to the cycle."""
    frames = len(next(iter(inputs.values())))
    for stalls in (None, 0.3):
        result = design.simulate(inputs, stalls=stalls, engine="batch")
        assert result.passed and result.frames == frames and result.result.mismatches == 0
        if stalls is None:
            assert result.interval == design.timing["interval"]
            with torch.no_grad():
                scores = design.model(**inputs)
            scores = scores[next(iter(scores))] if isinstance(scores, dict) else scores
            found = result.outputs["data_out_0"] if hasattr(result, "outputs") else result.output
            assert torch.equal(found.argmax(-1), scores.argmax(-1))


SMALL = [("bert-classifier", "sdpa"), ("vit", "sdpa"), ("gpt2", "eager"), ("opt", "sdpa"), ("llama", "eager")]


@pytest.mark.parametrize(
    ("name", "attention", "layers"),
    [
        *((name, attention, 2 if name == "gpt2" else 1) for name, attention in SMALL),
        *(pytest.param(*each, 2, marks=pytest.mark.slow) for each in (*SMALL, ("gpt2", "sdpa")) if each != SMALL[2]),
    ],
)
def test_a_small_model(name: str, attention: str, layers: int, tmp_path: Path) -> None:
    """Every kind of layer of each model; of one of them two layers, so that one follows another."""
    network = NETWORKS[name]
    design = compiled(network, attention, 8, tmp_path / "d", layers)
    masks = {s.name: str(s.fmt) for s in design.streams.values() if s.direction == "in"}
    if "attention_mask" in network.inputs and name != "opt":  # which counts its positions by it
        assert masks["data_in_1"] == "u1.0"
    assert_equal(design, network.example(4, 8))


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", LARGE)
def test_a_model_of_width_64(name: str, attention: str, tmp_path: Path) -> None:
    assert_equal(compiled(LARGE[name], attention, 16, tmp_path / "d"), LARGE[name].example(20, 16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "attention"), [("bert", "eager"), ("gpt2", "sdpa"), ("opt", "eager"), ("llama", "sdpa")]
)
def test_a_model_of_64_tokens(name: str, attention: str, tmp_path: Path) -> None:
    assert_equal(compiled(LARGE[name], attention, 64, tmp_path / "d"), LARGE[name].example(20, 64))


@pytest.mark.parametrize(
    ("change", "error", "texts"),
    [
        ({"past_key_values": torch.zeros(1, 2)}, MaseHwError, ["past_key_values", "leave it out"]),
        ({"use_cache": True}, ConfigError, ["use_cache"]),
        ({"input_ids": torch.full((1, 8), TOKENS)}, GraphError, ["index"]),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_written(
    change: dict[str, Any], error: type[MaseHwError], texts: list[str], tmp_path: Path
) -> None:
    network = NETWORKS["gpt2"]
    with pytest.raises(error) as caught:
        mase_hw.compile(network.build(), {**network.example(1, 8), **change}, out=tmp_path / "d")
    assert all(text in str(caught.value) for text in texts), str(caught.value)
    assert not (tmp_path / "d").exists()


def test_a_sequence_of_another_length_is_refused(tmp_path: Path) -> None:
    network = NETWORKS["gpt2-ids"]
    design = compiled(network, "sdpa", 8, tmp_path / "d", layers=1)
    with pytest.raises(MaseHwError, match="input_ids"):
        design.simulate(network.example(2, 9))
