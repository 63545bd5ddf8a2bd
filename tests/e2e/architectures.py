"""Small versions of architectures that other people wrote: narrow, one block a stage, small pictures, few tokens."""

from __future__ import annotations

from typing import Any

from regress.published import HUGGING_FACE as PUBLISHED
from tests.ir.huggingface_models import TOKENS

GPT = {"vocab_size": TOKENS, "use_cache": False}
ROWS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
TEXT = {**GPT, "max_position_embeddings": 32, **ROWS}
GROUPED = {**TEXT, "num_key_value_heads": 1}
HEADS = {**GROUPED, "head_dim": 8}
EMBEDDED = {**TEXT, "embedding_size": 8}
LAYERS = {"num_layers": 1, "num_heads": 2}
ENCODER = {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24}
PICTURE = {"image_size": 16, "patch_size": 4, **ROWS}
IMAGE = (3, 16, 16)
HUGGING_FACE: dict[str, tuple[str, str, tuple[int, ...], dict[str, Any]]] = {
    "bert": ("BertConfig", "BertModel", (), TEXT),
    "bert_classifier": ("BertConfig", "BertForSequenceClassification", (), TEXT),
    "roberta": ("RobertaConfig", "RobertaModel", (), TEXT),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        (),
        {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 24, "vocab_size": TOKENS, "max_position_embeddings": 32},
    ),
    "albert": ("AlbertConfig", "AlbertModel", (), EMBEDDED),
    "electra": ("ElectraConfig", "ElectraModel", (), EMBEDDED),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", (), TEXT),
    "mobilebert": ("MobileBertConfig", "MobileBertModel", (), {**EMBEDDED, "intra_bottleneck_size": 8}),
    "squeezebert": ("SqueezeBertConfig", "SqueezeBertModel", (), {**TEXT, "embedding_size": 16}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", (), {**GPT, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}),
    "gpt_neo": (
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        (),
        {
            **GPT,
            **LAYERS,
            "hidden_size": 16,
            "attention_types": [[["global"], 1]],
            "max_position_embeddings": 32,
        },
    ),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", (), TEXT),
    "opt": ("OPTConfig", "OPTForCausalLM", (), {**TEXT, "ffn_dim": 24, "word_embed_proj_dim": 16}),
    "bloom": ("BloomConfig", "BloomForCausalLM", (), {**GPT, "hidden_size": 16, "n_layer": 1, "n_head": 2}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", (), HEADS),
    "mistral": ("MistralConfig", "MistralForCausalLM", (), HEADS),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", (), GROUPED),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", (), HEADS),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", (), HEADS),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", (), HEADS),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", (), HEADS),
    "phi": ("PhiConfig", "PhiForCausalLM", (), GROUPED),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", (), {**GROUPED, "pad_token_id": 0}),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", (), GROUPED),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", (), {**GROUPED, "pad_token_id": 0}),
    "granite": ("GraniteConfig", "GraniteForCausalLM", (), GROUPED),
    "mamba": (
        "MambaConfig",
        "MambaForCausalLM",
        (),
        {**GPT, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 2},
    ),
    "t5": ("T5Config", "T5EncoderModel", (), {**GPT, **LAYERS, "d_model": 16, "d_kv": 8, "d_ff": 24}),
    "vit": ("ViTConfig", "ViTModel", IMAGE, PICTURE),
    "vit_classifier": ("ViTConfig", "ViTForImageClassification", IMAGE, PICTURE),
    "deit": ("DeiTConfig", "DeiTModel", IMAGE, PICTURE),
    "beit": ("BeitConfig", "BeitModel", IMAGE, PICTURE),
    "dinov2": ("Dinov2Config", "Dinov2Model", IMAGE, {**PICTURE, "mlp_ratio": 2}),
    "swin": (
        "SwinConfig",
        "SwinModel",
        IMAGE,
        {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4},
    ),
    "convnext": (
        "ConvNextConfig",
        "ConvNextModel",
        IMAGE,
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 16},
    ),
    "mobilevit": (
        "MobileViTConfig",
        "MobileViTModel",
        (3, 32, 32),
        {
            "image_size": 32,
            "hidden_sizes": [4, 8, 8],
            "neck_hidden_sizes": [4, 4, 4, 8, 8, 8, 8],
            "num_attention_heads": 2,
        },
    ),
    "mobilenet_v2": ("MobileNetV2Config", "MobileNetV2Model", (3, 32, 32), {"depth_multiplier": 0.1, "min_depth": 4}),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        IMAGE,
        {"embedding_size": 4, "hidden_sizes": [8, 8], "depths": [1, 1]},
    ),
    "segformer": (
        "SegformerConfig",
        "SegformerModel",
        (3, 32, 32),
        {"hidden_sizes": [4, 4, 8, 8], "depths": [1] * 4, "num_attention_heads": [1, 1, 2, 2], "mlp_ratios": [2] * 4},
    ),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", IMAGE, PICTURE),
    "clip_text": ("CLIPTextConfig", "CLIPTextModel", (), TEXT),
    "siglip_vision": ("SiglipVisionConfig", "SiglipVisionModel", IMAGE, PICTURE),
    "whisper_encoder": (
        "WhisperConfig",
        "whisper.modeling_whisper.WhisperEncoder",
        (8, 16),
        {**ENCODER, "num_mel_bins": 8, "max_source_positions": 8},
    ),
    "wav2vec2": (
        "Wav2Vec2Config",
        "Wav2Vec2Model",
        (80,),
        {**PUBLISHED["wav2vec2"][3], **ROWS, "conv_dim": (4, 4)},
    ),
    "patchtst": (
        "PatchTSTConfig",
        "PatchTSTForRegression",
        (16, 2),
        {**PUBLISHED["patchtst"][3], "d_model": 8, "ffn_dim": 16},
    ),
    "bart_encoder": (
        "BartConfig",
        "bart.modeling_bart.BartEncoder",
        (),
        {**ENCODER, "vocab_size": TOKENS, "max_position_embeddings": 32},
    ),
}
"""Configuration, model (with its module if it is none of the package), shape of a frame (none for ids), and what the
configuration says."""
