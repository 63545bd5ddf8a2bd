"""Architectures that other people wrote, small, for the long regression of whole networks.

46 of Hugging Face from their configurations, if transformers is there, and the smallest model of each module of timm,
if timm and torchvision are, at the smallest of 64, 128 and 224 pixels that the model takes.
"""

import importlib
from typing import Any

import torch
from torch import Tensor, nn

TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
GROUPED = {**TEXT, "num_attention_heads": 4, "num_key_value_heads": 2, "use_cache": False}
HEADS = {**GROUPED, "head_dim": 8}
PATCHES = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
GPT = {"vocab_size": 50, "use_cache": False}
# name: configuration, model, size of the image (0 for ids), arguments of the configuration
HUGGING_FACE: dict[str, tuple[str, str, int | tuple[int, ...], dict[str, Any]]] = {
    "bert": ("BertConfig", "BertModel", 0, TEXT),
    "bert_classifier": ("BertConfig", "BertForSequenceClassification", 0, TEXT),
    "roberta": ("RobertaConfig", "RobertaModel", 0, TEXT),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        0,
        {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64, "vocab_size": 50, "max_position_embeddings": 32},
    ),
    "albert": ("AlbertConfig", "AlbertModel", 0, {**TEXT, "embedding_size": 16}),
    "electra": ("ElectraConfig", "ElectraModel", 0, {**TEXT, "embedding_size": 16}),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", 0, TEXT),
    "mobilebert": (
        "MobileBertConfig",
        "MobileBertModel",
        0,
        {**TEXT, "intra_bottleneck_size": 16, "embedding_size": 16},
    ),
    "squeezebert": ("SqueezeBertConfig", "SqueezeBertModel", 0, {**TEXT, "embedding_size": 32}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", 0, {**GPT, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32}),
    "gpt_neo": (
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        0,
        {
            **GPT,
            "hidden_size": 32,
            "num_layers": 1,
            "attention_types": [[["global"], 1]],
            "num_heads": 2,
            "max_position_embeddings": 32,
        },
    ),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", 0, {**TEXT, "use_cache": False}),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        0,
        {
            **GPT,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "ffn_dim": 64,
            "max_position_embeddings": 32,
            "word_embed_proj_dim": 32,
        },
    ),
    "bloom": ("BloomConfig", "BloomForCausalLM", 0, {**GPT, "hidden_size": 32, "n_layer": 1, "n_head": 2}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", 0, HEADS),
    "mistral": ("MistralConfig", "MistralForCausalLM", 0, HEADS),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", 0, GROUPED),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", 0, HEADS),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", 0, HEADS),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", 0, HEADS),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", 0, HEADS),
    "phi": ("PhiConfig", "PhiForCausalLM", 0, GROUPED),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", 0, {**GROUPED, "pad_token_id": 0}),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", 0, GROUPED),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", 0, {**GROUPED, "pad_token_id": 0}),
    "granite": ("GraniteConfig", "GraniteForCausalLM", 0, GROUPED),
    "mamba": (
        "MambaConfig",
        "MambaForCausalLM",
        0,
        {**GPT, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 4},
    ),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", 0, {**HEADS, "num_local_experts": 2}),
    "t5_encoder": (
        "T5Config",
        "T5EncoderModel",
        0,
        {**GPT, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2},
    ),
    "vit": ("ViTConfig", "ViTModel", 32, PATCHES),
    "vit_classifier": ("ViTConfig", "ViTForImageClassification", 32, PATCHES),
    "deit": ("DeiTConfig", "DeiTModel", 32, PATCHES),
    "beit": ("BeitConfig", "BeitModel", 32, PATCHES),
    "dinov2": ("Dinov2Config", "Dinov2Model", 32, {k: v for k, v in PATCHES.items() if k != "intermediate_size"}),
    "swin": (
        "SwinConfig",
        "SwinModel",
        32,
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
    ),
    "convnext": (
        "ConvNextConfig",
        "ConvNextModel",
        32,
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 32},
    ),
    "mobilevit": (
        "MobileViTConfig",
        "MobileViTModel",
        64,
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 64],
            "num_attention_heads": 2,
        },
    ),
    "mobilenet_v2": ("MobileNetV2Config", "MobileNetV2Model", 32, {"depth_multiplier": 0.35}),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        32,
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    ),
    "segformer": (
        "SegformerConfig",
        "SegformerModel",
        64,
        {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2]},
    ),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", 32, PATCHES),
    "clip_text": ("CLIPTextConfig", "CLIPTextModel", 0, TEXT),
    "siglip_vision": ("SiglipVisionConfig", "SiglipVisionModel", 32, PATCHES),
    "whisper_encoder": (
        "WhisperConfig",
        "whisper.modeling_whisper.WhisperEncoder",
        (1, 8, 16),
        {
            "d_model": 32,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 64,
            "num_mel_bins": 8,
            "max_source_positions": 8,
        },
    ),
    "wav2vec2": (
        "Wav2Vec2Config",
        "Wav2Vec2Model",
        (1, 320),
        {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "conv_dim": (8, 8),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
        },
    ),
    "patchtst": (
        "PatchTSTConfig",
        "PatchTSTForRegression",
        (1, 16, 2),
        {
            "num_input_channels": 2,
            "context_length": 16,
            "patch_length": 4,
            "patch_stride": 4,
            "d_model": 16,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "ffn_dim": 32,
            "num_targets": 1,
        },
    ),
    "bart_encoder": (
        "BartConfig",
        "bart.modeling_bart.BartEncoder",
        0,
        {
            "d_model": 32,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 64,
            "vocab_size": 50,
            "max_position_embeddings": 32,
        },
    ),
}
# the smallest of each module of timm 1.0.31 below 60 million parameters
TIMM = [
    "eca_botnext26ts_256",
    "mobileone_s1",
    "cait_xxs24_224",
    "coat_tiny",
    "convit_tiny",
    "convmixer_768_32",
    "convnext_atto",
    "cpubone_nano",
    "crossvit_tiny_240",
    "csatv2",
    "cs3darknet_focus_s",
    "cspnext_tiny",
    "davit_tiny",
    "deit_tiny_patch16_224",
    "densenet121",
    "dla46_c",
    "dpn48b",
    "edgenext_xx_small",
    "efficientformer_l1",
    "efficientformerv2_s0",
    "mobilenetv2_035",
    "efficientvim_m1",
    "efficientvit_b0",
    "efficientvit_m0",
    "eva02_tiny_patch14_224",
    "fasternet_t0",
    "fastvit_t8",
    "focalnet_tiny_srf",
    "gcvit_xxtiny",
    "ghostnet_050",
    "hardcorenas_b",
    "hgnetv2_b0",
    "hiera_tiny_224",
    "sam2_hiera_tiny",
    "hrnet_w18_small",
    "iformer_t",
    "inception_next_atto",
    "inception_resnet_v2",
    "inception_v3",
    "inception_v4",
    "lcnetv2_small",
    "levit_256",
    "lowformer_b0",
    "mambaout_femto",
    "maxvit_tiny_rw_256",
    "poolformerv2_s12",
    "gmlp_ti16_224",
    "mobilenetv3_small_050",
    "mobilevit_xxs",
    "mvitv2_tiny",
    "nest_tiny",
    "nextvit_small",
    "nf_regnet_b0",
    "pit_ti_224",
    "pvt_v2_b0",
    "rdnet_tiny",
    "regnetx_002",
    "repghostnet_050",
    "repvit_m1",
    "res2next50",
    "resnest14d",
    "resnet10t",
    "resnetv2_18",
    "rexnet_100",
    "selecsls42",
    "legacy_seresnet18",
    "sequencer2d_s",
    "shvit_s1",
    "skresnet18",
    "starnet_s050",
    "swiftformer_xs",
    "swin_tiny_patch4_window7_224",
    "swinv2_tiny_window8_256",
    "swinv2_cr_tiny_224",
    "tiny_vit_5m_224",
    "tnt_s_legacy_patch16_224",
    "tresnet_m",
    "twins_svt_small",
    "visformer_tiny",
    "vit_tiny_patch16_224",
    "vit_tiny_r_s16_p8_224",
    "test_vit_relpos",
    "vitamin_small_224",
    "volo_d1_224",
    "ese_vovnet19b_slim_dw",
    "legacy_xception",
    "xception41p",
    "xcit_tiny_12_p8_224",
]


def hugging_face(name: str) -> tuple[nn.Module, Tensor]:
    """A model of Hugging Face without weights of its own, and an example."""
    import transformers

    transformers.logging.set_verbosity_error()
    configuration, model, shape, arguments = HUGGING_FACE[name]
    config = getattr(transformers, configuration)(**arguments)
    config._attn_implementation = "eager"
    home, _, cls = model.rpartition(".")
    place = importlib.import_module(f"transformers.models.{home}" if home else "transformers")
    if isinstance(shape, tuple):
        example = torch.randn(shape)
    else:
        example = torch.randn(1, 3, shape, shape) if shape else torch.randint(0, 50, (1, 8))
    return getattr(place, cls or model)(config).eval(), example


def of_timm(name: str) -> tuple[nn.Module, Tensor]:
    """A model of timm for ten classes, and an example."""
    # torchvision beside a torch for CPUs alone lacks two operators that it registers fakes for
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import timm

    failure: Exception | None = None
    for pixels in (64, 128, 224, None):
        try:
            try:
                model = timm.create_model(name, num_classes=10, **({"img_size": pixels} if pixels else {}))
            except TypeError:
                model = timm.create_model(name, num_classes=10)
            size = pixels or model.default_cfg["input_size"][-1]
            with torch.no_grad():
                model.eval()(torch.randn(1, 3, size, size))
            return model, torch.randn(1, 3, size, size)
        except Exception as error:
            failure = error
    assert failure is not None
    raise failure
