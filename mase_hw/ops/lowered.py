"""Ops that a pass writes as others: they have no hardware of their own, and need none."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.opdef import OpDef

_TRANSPOSED = "kernel_size stride padding output_padding groups dilation padding_mode"


def _op(name: str, lowered: str, *targets: Any, attributes: str = "", parameters: str = "") -> OpDef:
    is_module = [isinstance(t, type) and issubclass(t, nn.Module) for t in targets]
    modules = tuple(t for t, module in zip(targets, is_module, strict=True) if module)
    methods = tuple(t for t in targets if isinstance(t, str))
    functions = tuple(t for t, m in zip(targets, is_module, strict=True) if not m and not isinstance(t, str))
    return OpDef(
        name=name,
        mase_type="module_related_func",
        modules=modules,
        functions=functions,
        methods=methods,
        attributes=tuple(attributes.split()),
        parameters=tuple(parameters.split()),
        lowered=tuple(lowered.split()),
    )


def _formula(name: str, lowered: str, *more: Any, refused: str = "") -> OpDef:
    """A formula that is a function of torch, and a method where tensors have it."""
    functions = [f for place in (torch, torch.special) if callable(f := getattr(place, name, None))]
    methods = [m for m in (name, f"{name}_") if callable(getattr(Tensor, m, None))]
    made = OpDef(
        name=name,
        mase_type="builtin_func",
        functions=tuple(dict.fromkeys([*functions, *more])),
        methods=tuple(methods),
        lowered=tuple(lowered.split()),
    )
    return dataclasses.replace(made, refused=refused) if refused else made


_WHOLE = (
    "only a remainder of a division by a power of two is exact in hardware; scale the input, so that the divisor is "
    "one, or write x - y * torch.floor(x / y), each part of which has a format"
)
_FORMULAS = (
    _formula("addcmul", "mul add"),
    _formula("addcdiv", "div mul add"),
    _formula("rsub", "mul sub"),
    _formula("lerp", "sub mul add"),
    _formula("frac", "trunc sub"),
    _formula("logaddexp", "maximum sub abs softplus add"),
    _formula("hypot", "mul add sqrt"),
    _formula("rad2deg", "mul"),
    _formula("deg2rad", "mul"),
    _formula("count_nonzero", "ne_number sum"),
    _formula("inner", "linear"),
    _formula("nan_to_num", "contiguous"),
    _formula("any", "amax"),
    _formula("all", "amin"),
    _formula("floor_divide", "floor_quotient", operator.floordiv),
    _formula("remainder", "mul floor sub", operator.mod, refused=_WHOLE),
    _formula("fmod", "mul trunc sub", refused=_WHOLE),
    _formula("var_mean", "var mean"),
    _formula("std_mean", "std mean"),
    _formula("aminmax", "amin amax"),
)


_POOL = "kernel_size stride padding dilation ceil_mode return_indices"
_MOMENTS = "weight bias running_mean running_var"
_CONV = "kernel_size stride padding dilation groups padding_mode"
_BLOCKS = "kernel_size dilation padding stride"

_ATTENTION, _NORMS = "linear grouped_matmul masked_softmax", "layer_norm add"

OPS = (
    _op("rnn", "linear recurrence slice cat", nn.RNN),
    _op("gru", "linear recurrence slice cat", nn.GRU),
    _op("lstm", "linear recurrence slice cat", nn.LSTM),
    dataclasses.replace(
        _op("embedding_bag", "embedding sum mean", nn.EmbeddingBag, F.embedding_bag,
            attributes="mode padding_idx max_norm", parameters="weight"),
        refused="bags of one size, ids (N, size) without offsets and without max_norm, have a sum, a mean or a "
        "maximum; one with a padding id or with a weight for each id has a sum",
    ),
    dataclasses.replace(
        _op("one_hot", "embedding", F.one_hot), refused="give num_classes, which the ids of the example do not say"
    ),
    _op("multihead_attention", _ATTENTION, nn.MultiheadAttention),
    _op("transformer_encoder_layer", f"{_ATTENTION} {_NORMS}", nn.TransformerEncoderLayer),
    _op("transformer_decoder_layer", f"{_ATTENTION} {_NORMS}", nn.TransformerDecoderLayer),
    _op("transformer_encoder", f"{_ATTENTION} {_NORMS}", nn.TransformerEncoder),
    _op("transformer_decoder", f"{_ATTENTION} {_NORMS}", nn.TransformerDecoder),
    _op("transformer", f"{_ATTENTION} {_NORMS}", nn.Transformer),
    _op("rnn_cell", "cat linear tanh relu", nn.RNNCell),
    _op("gru_cell", "cat linear slice sigmoid tanh mul add sub", nn.GRUCell),
    _op("lstm_cell", "cat linear slice sigmoid tanh mul add", nn.LSTMCell),
    _op("conv_transpose1d", "conv1d permute", nn.ConvTranspose1d, F.conv_transpose1d, attributes=_TRANSPOSED,
        parameters="weight bias"),
    _op("conv_transpose2d", "conv2d permute", nn.ConvTranspose2d, F.conv_transpose2d, attributes=_TRANSPOSED,
        parameters="weight bias"),
    _op("conv_transpose3d", "conv2d permute", nn.ConvTranspose3d, F.conv_transpose3d, attributes=_TRANSPOSED,
        parameters="weight bias"),
    _op("conv3d", "conv2d slice cat", nn.Conv3d, F.conv3d, attributes=_CONV, parameters="weight bias"),
    _op("max_pool3d", "max_pool2d", nn.MaxPool3d, F.max_pool3d, attributes=_POOL),
    _op("avg_pool3d", "avg_pool2d", nn.AvgPool3d, F.avg_pool3d,
        attributes="kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    _op("adaptive_max_pool3d", "adaptive_max_pool2d", nn.AdaptiveMaxPool3d, F.adaptive_max_pool3d,
        attributes="output_size return_indices"),
    _op("adaptive_avg_pool3d", "adaptive_avg_pool2d", nn.AdaptiveAvgPool3d, F.adaptive_avg_pool3d,
        attributes="output_size"),
    _op("batch_norm3d", "batch_norm2d", nn.BatchNorm3d, attributes="eps momentum", parameters=_MOMENTS),
    _op("sync_batch_norm", "batch_norm2d", nn.SyncBatchNorm, attributes="eps momentum", parameters=_MOMENTS),
    _op("constant_pad", "pad", nn.ConstantPad3d, nn.ZeroPad3d, attributes="padding value"),
    _op("reflection_pad", "slice cat", nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d,
        attributes="padding"),
    _op("replication_pad", "slice cat", nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d,
        attributes="padding"),
    _op("circular_pad", "slice cat", nn.CircularPad1d, nn.CircularPad2d, nn.CircularPad3d, attributes="padding"),
    _op("upsample_bilinear", "linear", nn.UpsamplingBilinear2d, attributes="size scale_factor mode align_corners"),
    _op("glu", "slice sigmoid mul", nn.GLU, F.glu, attributes="dim"),
    _op("rrelu", "leaky_relu", nn.RReLU, F.rrelu, F.rrelu_, attributes="lower upper"),
    _op("pixel_unshuffle", "permute", nn.PixelUnshuffle, F.pixel_unshuffle, attributes="downscale_factor"),
    _op("lp_pool1d", "mul avg_pool2d sqrt", nn.LPPool1d, F.lp_pool1d,
        attributes="norm_type kernel_size stride ceil_mode"),
    _op("lp_pool2d", "mul avg_pool2d sqrt", nn.LPPool2d, F.lp_pool2d,
        attributes="norm_type kernel_size stride ceil_mode"),
    _op("lp_pool3d", "mul avg_pool2d sqrt", nn.LPPool3d, F.lp_pool3d,
        attributes="norm_type kernel_size stride ceil_mode"),
    _op("conv_tbc", "conv1d", F.conv_tbc, parameters="weight bias"),
    _op("local_response_norm", "mul avg_pool2d inverse_power", nn.LocalResponseNorm, nn.CrossMapLRN2d,
        F.local_response_norm, attributes="size alpha beta k"),
    _op("bilinear", "mul linear", nn.Bilinear, F.bilinear, parameters="weight bias"),
    _op("fold", "conv2d permute", nn.Fold, F.fold, attributes=f"output_size {_BLOCKS}"),
    _op("logsumexp", "amax sub exp sum log add", torch.logsumexp, torch.special.logsumexp, "logsumexp",
        attributes="dim keepdim"),
    _op("cosine_similarity", "mul sum sqrt div", nn.CosineSimilarity, F.cosine_similarity, attributes="dim eps"),
    _op("pairwise_distance", "sub mul sum sqrt", nn.PairwiseDistance, F.pairwise_distance,
        attributes="norm eps keepdim"),
    *_FORMULAS,
)  # fmt: skip
