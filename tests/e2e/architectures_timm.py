"""Small versions of the architectures of timm: what its builders are given, and what is narrowed in what they build."""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from dataclasses import replace as replaced
from typing import Any
from unittest import mock

from torch import nn

CLASSES = 4


@dataclass(frozen=True)
class Small:
    """An architecture: the arguments that make it small, and what arguments cannot say.

    Args:
        arguments: Of the builder.
        pixels: Height and width of a frame.
        divisor: Of the widths of all convolutions, norms and linear layers but the first input and the classes.
        kept: By a pattern of paths, which blocks of a container stay: the first so many, or those named.
        skipped: Paths of blocks that are left out.
        config: Divisor of the widths in the configuration, which has one block a stage then (0: as it is).
        fields: Fields of the configuration.
        make: Makes the model with what its module has, where the builder fixes what has to be small.
        together: Whether a batch gives for each frame what the frame alone gives.
        settled: Batch norms have the statistics of frames, without which the biases of many layers hide the frame.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    pixels: int = 32
    divisor: int = 1
    kept: dict[str, int | tuple[int, ...]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    config: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    make: Callable[[Any], nn.Module] | None = None
    together: bool = True
    settled: bool = False


def of(pixels: int = 32, **arguments: Any) -> Small:
    """An architecture whose builder takes all that makes it small."""
    return Small(arguments, pixels)


ONE = (1, 1, 1, 1)
TINY = (4, 4, 8, 8)
HEADS = (1, 1, 2, 2)
WIDTHS = {
    "c",
    "out_chs",
    "gs",
    "stem_chs",
    "num_features",
    "channels",
    "stem_width",
    "transformer_dim",
    "num_channels",
} | {
    "embed_dim",
    "dim_head",
    "rel_pos_dim",
    "group_size",
    "key_dim",
    "head_hidden_size",
}
DEPTHS = {"d", "depths", "depth", "num_blocks", "transformer_depth", "num_heads"}
TIMM: dict[str, Small] = {
    "eca_botnext26ts_256": Small({"img_size": 64}, 64, config=16),
    "mobileone_s1": Small(divisor=16, kept={"stages.?": 2}),
    "cait_xxs24_224": of(16, img_size=16, patch_size=4, embed_dim=16, depth=1, num_heads=2),
    "coat_tiny": of(
        img_size=32,
        embed_dims=(8, 8, 8, 8),
        serial_depths=ONE,
        parallel_depth=1,
        num_heads=2,
        crpe_window={3: 1, 5: 1},
        mlp_ratios=(2, 2, 2, 2),
    ),
    "convit_tiny": of(16, img_size=16, patch_size=4, embed_dim=8, depth=2, num_heads=2, local_up_to_layer=1),
    "convmixer_768_32": Small(
        pixels=16, make=lambda home: home.ConvMixer(8, 1, kernel_size=3, patch_size=2, num_classes=CLASSES)
    ),
    "convnext_atto": of(dims=TINY, depths=ONE),
    "cpubone_nano": of(64, width_list=[4, 4, 4, 8, 8], depth_list=[0, 1, 1, 1, 1], head_widths=(8, 8)),
    "crossvit_tiny_240": of(
        img_size=32, img_scale=(1.0, 0.75), patch_size=[8, 12], embed_dim=[8, 16], depth=[[1, 1, 0]], num_heads=[2, 2]
    ),
    # Its spatial attention multiplies all frames of a batch with each other.
    "csatv2": Small({"dims": (8, 8, 8, 8), "depths": ONE, "transformer_depths": (0, 0, 1, 1)}, 64, together=False),
    "cs3darknet_focus_s": Small(config=16),
    "cspnext_tiny": of(depths=ONE, channels=(8, 8, 16, 16), deepen_factor=1.0, widen_factor=1.0),
    "davit_tiny": of(embed_dims=TINY, depths=ONE, num_heads=HEADS, window_size=2),
    "deit_tiny_patch16_224": of(16, img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2),
    "densenet121": of(growth_rate=4, block_config=(2, 5)),
    "dla46_c": of(levels=[1, 1, 1, 2, 1, 1], channels=[4, 4, 8, 8, 8, 8]),
    "dpn48b": of(groups=2, k_r=2, k_sec=ONE, inc_sec=(4, 4, 4, 4), num_init_features=8),
    "edgenext_xx_small": of(
        64, dims=(8, 8, 16, 16), depths=(1, 2, 1, 1), heads=(1, 2, 2, 2), global_block_counts=(0, 1, 0, 0)
    ),
    "efficientformer_l1": of(
        56, embed_dims=(8, 8, 8, 8), depths=ONE, downsamples=(False, False, False, True), mlp_ratios=2
    ),
    "efficientformerv2_s0": of(64, embed_dims=TINY, depths=(1, 1, 1, 2), num_vit=1, mlp_ratios=2, img_size=64),
    "mobilenetv2_035": Small(divisor=4, kept={"blocks.?": 1}),
    "efficientvim_m1": of(embed_dim=(8, 8, 8), depths=(1, 1, 1), state_dim=(4, 4, 1)),
    "efficientvit_b0": of(widths=(4, 4, 4, 8, 8), depths=(1, 1, 1, 1, 1), head_dim=4, head_widths=(8, 8)),
    "efficientvit_m0": of(
        64,
        img_size=64,
        embed_dim=[8, 8, 8],
        depth=[1, 1, 1],
        num_heads=[2, 2, 2],
        key_dim=[4, 4, 4],
        window_size=[2, 2, 2],
    ),
    "eva02_tiny_patch14_224": of(
        16, img_size=16, patch_size=4, embed_dim=16, depth=1, num_heads=2, ref_feat_shape=(4, 4)
    ),
    "fasternet_t0": of(embed_dim=8, depths=ONE, feature_dim=8),
    "fastvit_t8": of(embed_dims=TINY, layers=ONE, mlp_ratios=(2, 2, 2, 2)),
    "focalnet_tiny_srf": Small(
        make=lambda home: home.FocalNet(embed_dim=4, depths=ONE, mlp_ratio=2.0, num_classes=CLASSES)
    ),
    "gcvit_xxtiny": Small(
        make=lambda home: home.GlobalContextVit(
            img_size=32,
            embed_dim=8,
            window_ratio=(8, 8, 16, 32),
            depths=ONE,
            num_heads=HEADS,
            mlp_ratio=2.0,
            num_classes=CLASSES,
        )
    ),
    "ghostnet_050": Small(
        make=lambda home: home.GhostNet(
            [[[3, 8, 8, 0, 1]], [[3, 16, 8, 0, 2], [5, 16, 8, 0.25, 2]]], width=0.5, num_classes=CLASSES
        )
    ),
    "hardcorenas_b": Small(divisor=8, kept={"blocks.?": 1}),
    "hgnetv2_b0": Small(divisor=16, settled=True),
    "hiera_tiny_224": of(64, img_size=(64, 64), embed_dim=4, stages=ONE),
    "sam2_hiera_tiny": of(
        embed_dim=4, stages=(1, 1, 2, 1), global_att_blocks=(3,), window_spec=(4, 2, 2, 2), global_pos_size=(2, 2)
    ),
    "hrnet_w18_small": Small(divisor=8, config=1),
    "iformer_t": of(
        64, dims=TINY, depths=(1, 1, 4, 4), attn_groups=(0, 0, 1, 1), attn_head_dim_reduction=(0, 0, 2, 2), conv_ratio=2
    ),
    "inception_next_atto": of(dims=(16, 16, 16, 16), depths=ONE),
    "inception_resnet_v2": Small(divisor=16, pixels=75, kept={"repeat": 1, "repeat_1": 1, "repeat_2": 1}),
    "inception_v3": Small(pixels=75, divisor=16, skipped=("Mixed_5d", "Mixed_6c", "Mixed_6d", "Mixed_6e", "Mixed_7c")),
    "inception_v4": Small(pixels=75, divisor=16, kept={"features": (0, 1, 2, 3, 4, 5, 6, 10, 11, 18, 19)}),
    "lcnetv2_small": of(depths=ONE, scale=0.125, head_hidden_size=8),
    "levit_256": Small({"img_size": 64}, 64, config=32),
    "lowformer_b0": of(64, width_list=[4, 4, 4, 8, 8], depth_list=[0, 1, 1, 1, 1], head_widths=(8, 8)),
    "mambaout_femto": of(dims=TINY, depths=ONE),
    "maxvit_tiny_rw_256": Small({"img_size": 32}, config=16),
    "poolformerv2_s12": Small(
        make=lambda home: home.MetaFormer(
            depths=ONE, dims=TINY, norm_layers=home.GroupNorm1NoBias, use_mlp_head=False, num_classes=CLASSES
        )
    ),
    "gmlp_ti16_224": Small(
        pixels=16,
        make=lambda home: home.MlpMixer(
            img_size=16,
            patch_size=4,
            embed_dim=8,
            num_blocks=1,
            mlp_ratio=2,
            block_layer=home.SpatialGatingBlock,
            mlp_layer=home.GatedMlp,
            num_classes=CLASSES,
        ),
    ),
    "mobilenetv3_small_050": Small(divisor=4, kept={"blocks.?": 1}),
    "mobilevit_xxs": Small(pixels=64, config=16),
    "mvitv2_tiny": Small({"img_size": (32, 32)}, fields={"depths": ONE, "embed_dim": TINY, "num_heads": HEADS}),
    "nest_tiny": Small(
        make=lambda home: home.Nest(
            img_size=32, embed_dims=(8, 8, 8), num_heads=(1, 2, 2), depths=ONE[:3], mlp_ratio=2.0, num_classes=CLASSES
        )
    ),
    "nextvit_small": Small(
        pixels=16,
        make=lambda home: nn.Sequential(
            home.ConvNormAct(3, 16, kernel_size=3, stride=2),
            home.NextConvBlock(16, 16, head_dim=8, mlp_ratio=2.0, norm_layer=nn.BatchNorm2d, act_layer=nn.ReLU),
            home.NextTransformerBlock(
                16,
                40,
                drop_path=0.0,
                stride=2,
                sr_ratio=2,
                head_dim=8,
                mlp_ratio=1.0,
                norm_layer=nn.BatchNorm2d,
                act_layer=nn.ReLU,
            ),
        ),
    ),
    "nf_regnet_b0": Small(config=8),
    "pit_ti_224": of(
        img_size=32, patch_size=8, stride=4, base_dims=[4, 4, 4], depth=[1, 1, 1], heads=[1, 2, 4], mlp_ratio=2
    ),
    "pvt_v2_b0": of(embed_dims=TINY, depths=ONE, num_heads=HEADS, mlp_ratios=(2, 2, 2, 2)),
    "rdnet_tiny": of(
        num_init_features=8,
        growth_rates=[8, 8, 8],
        num_blocks_list=[1, 1, 2],
        is_downsample_block=(None, True, True),
        block_type=["Block", "Block", "BlockESE"],
    ),
    "regnetx_002": Small(divisor=8, kept={"s?": 1}),
    "repghostnet_050": Small(
        make=lambda home: home.RepGhostNet(
            [[[3, 8, 8, 0, 1]], [[3, 16, 8, 0, 2], [5, 16, 8, 0.25, 2]]], width=0.5, num_classes=CLASSES
        )
    ),
    "repvit_m1": of(64, embed_dim=TINY, depth=ONE),
    "res2next50": of(
        layers=ONE, base_width=4, cardinality=2, channels=(16, 16, 16, 16), stem_type="deep", stem_width=8
    ),
    "resnest14d": of(channels=(8, 8, 8, 8), stem_width=8),
    "resnet10t": of(channels=(8, 8, 8, 8), stem_width=8),
    "resnetv2_18": of(layers=ONE, channels=(8, 8, 8, 8), stem_chs=8),
    "rexnet_100": of(width_mult=0.25, depth_mult=0.2, initial_chs=8, final_chs=32),
    "selecsls42": Small(divisor=8),
    "legacy_seresnet18": Small({"layers": ONE}, divisor=8),
    "sequencer2d_s": of(
        img_size=32, layers=[1, 1], patch_sizes=[8, 2], embed_dims=[8, 8], hidden_sizes=[4, 4], mlp_ratios=[2.0, 2.0]
    ),
    "shvit_s1": of(64, embed_dim=(8, 8, 8), depth=(1, 1, 1), partial_dim=(4, 4, 4), qk_dim=(4, 4, 4)),
    "skresnet18": of(layers=ONE, channels=(8, 8, 8, 8), stem_type="deep", stem_width=4),
    "starnet_s050": of(base_dim=4, depths=ONE),
    "swiftformer_xs": of(embed_dims=TINY, layers=ONE, mlp_ratios=2),
    "swin_tiny_patch4_window7_224": of(
        16, img_size=16, patch_size=2, window_size=4, embed_dim=8, depths=(2, 1), num_heads=(1, 2)
    ),
    "swinv2_tiny_window8_256": of(
        16, img_size=16, patch_size=2, window_size=4, embed_dim=8, depths=(2, 1), num_heads=(1, 2)
    ),
    "swinv2_cr_tiny_224": of(
        16, img_size=16, patch_size=2, window_size=4, embed_dim=8, depths=(2, 1), num_heads=(1, 2)
    ),
    "tiny_vit_5m_224": of(
        embed_dims=TINY, depths=ONE, num_heads=HEADS, window_sizes=(2, 2, 2, 1), mlp_ratio=2.0, mbconv_expand_ratio=2.0
    ),
    "tnt_s_legacy_patch16_224": of(
        16,
        img_size=16,
        patch_size=8,
        embed_dim=8,
        inner_dim=8,
        depth=1,
        num_heads_inner=2,
        num_heads_outer=2,
        mlp_ratio=2.0,
    ),
    "tresnet_m": Small({"layers": ONE, "width_factor": 0.125}),
    "twins_svt_small": of(
        embed_dims=TINY,
        depths=(2, 2, 2, 2),
        num_heads=HEADS,
        mlp_ratios=(2, 2, 2, 2),
        wss=(2, 2, 2, 2),
        img_size=32,
        sr_ratios=(2, 2, 1, 1),
    ),
    "visformer_tiny": of(
        img_size=32, init_channels=4, embed_dim=16, depth=(1, 1, 1), num_heads=2, mlp_ratio=2.0, group=2
    ),
    "vit_tiny_patch16_224": of(16, img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2),
    "vit_tiny_r_s16_p8_224": of(16, img_size=16, patch_size=2, embed_dim=8, depth=1, num_heads=2),
    "test_vit_relpos": of(16, img_size=16, patch_size=4, embed_dim=8, depth=1, num_heads=2),
    "vitamin_small_224": Small(
        make=lambda home: home._create_vitamin(
            "vitamin_small_224",
            img_size=32,
            embed_dim=8,
            depth=1,
            num_heads=2,
            mlp_layer=home.GeGluMlp,
            mlp_ratio=2.0,
            class_token=False,
            global_pool="avg",
            embed_cfg=home.VitCfg(
                embed_dim=(4, 4, 8),
                depths=(1, 1, 1),
                stem_width=4,
                conv_cfg=home.VitConvCfg(norm_layer="layernorm2d"),
                head_type="1d",
            ),
            num_classes=CLASSES,
        )
    ),
    "volo_d1_224": Small(
        make=lambda home: home.VOLO(
            img_size=32,
            layers=(1, 1),
            embed_dims=(8, 8),
            num_heads=(2, 2),
            stem_hidden_dim=8,
            mlp_ratio=2.0,
            post_layers=("ca",),
            downsamples=(True, False),
            outlook_attention=(True, False),
            num_classes=CLASSES,
        )
    ),
    "ese_vovnet19b_slim_dw": Small(divisor=16),
    "legacy_xception": Small(divisor=64),
    "xception41p": Small(divisor=64),
    "xcit_tiny_12_p8_224": of(img_size=32, patch_size=8, embed_dim=8, depth=1, num_heads=2, cls_attn_layers=1),
}


def divided(value: int, divisor: int) -> int:
    return max(1, round(value / divisor))


@contextlib.contextmanager
def narrowed(divisor: int) -> Iterator[None]:
    """Convolutions, norms and linear layers are made narrower than asked for."""
    convolution, norm, linear = nn.Conv2d.__init__, nn.BatchNorm2d.__init__, nn.Linear.__init__

    def width(value: int) -> int:
        return value if value in (3, CLASSES) else divided(value, divisor)

    def conv(self: Any, *args: Any, **kwargs: Any) -> None:
        asked = inspect.signature(convolution).bind(self, *args, **kwargs).arguments
        inner, outer = width(asked["in_channels"]), width(asked["out_channels"])
        groups = (
            inner if asked.get("groups") == asked["in_channels"] else math.gcd(asked.get("groups", 1), inner, outer)
        )
        convolution(**{**asked, "in_channels": inner, "out_channels": outer, "groups": groups})

    def batch_norm(self: Any, features: int, *args: Any, **kwargs: Any) -> None:
        norm(self, width(features), *args, **kwargs)

    def dense(self: Any, inner: int, outer: int, *args: Any, **kwargs: Any) -> None:
        linear(self, width(inner), width(outer), *args, **kwargs)

    with (
        mock.patch.object(nn.Conv2d, "__init__", conv),
        mock.patch.object(nn.BatchNorm2d, "__init__", batch_norm),
        mock.patch.object(nn.Linear, "__init__", dense),
    ):
        yield


def smaller(value: Any, divisor: int, name: str = "") -> Any:
    """A configuration with widths that are divided and one block a stage."""
    if isinstance(value, (tuple, list)):
        return type(value)(smaller(one, divisor, name) for one in value)
    if isinstance(value, dict):
        return {key: smaller(one, divisor, key) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replaced(value, **{f.name: smaller(getattr(value, f.name), divisor, f.name) for f in fields(value)})
    if isinstance(value, int) and name in DEPTHS:
        return min(value, 1)
    return 4 * math.ceil(value / divisor / 4) if isinstance(value, int) and value > 1 and name in WIDTHS else value


def build(name: str) -> nn.Module:
    """A small version of an architecture of timm."""
    timm = importlib.import_module("timm")
    small = TIMM[name]
    home = importlib.import_module(timm.models.model_entrypoint(name).__module__)
    with contextlib.ExitStack() as stack:
        if small.divisor > 1:
            stack.enter_context(narrowed(small.divisor))
        if small.config or small.fields:
            known = next(getattr(home, key) for key in ("model_cfgs", "cfg_cls") if hasattr(home, key))
            key = name if name in known else name.rpartition("_")[0]
            config = smaller(known[key], small.config) if small.config else known[key]
            config = {**config, **small.fields} if isinstance(config, dict) else replaced(config, **small.fields)
            stack.enter_context(mock.patch.dict(known, {key: config}))
        model = small.make(home) if small.make else timm.create_model(name, num_classes=CLASSES, **small.arguments)
    for pattern, kept in small.kept.items():
        chosen = range(kept) if isinstance(kept, int) else kept
        for path, blocks in model.named_modules():
            if fnmatch.fnmatchcase(path, pattern) and path.count(".") == pattern.count("."):
                for at, child in enumerate(list(blocks._modules)):
                    if at not in chosen:
                        del blocks._modules[child]
    for path in small.skipped:
        model.set_submodule(path, nn.Identity())
    return model.eval()
