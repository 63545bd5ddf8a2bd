"""Which op is expressed by which rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from mase_hw.passes.lower.layers import plain, tables, volumes
from mase_hw.passes.lower.layers.call import Call
from mase_hw.passes.lower.layers.enlarge import adaptive, interpolate, transposed
from mase_hw.passes.lower.layers.norms import instance, layer, logsumexp, norm, rms, std, unit_length, var
from mase_hw.passes.lower.layers.volumes import pad, padded_conv

Rule = Callable[[Call], nn.Module | None]
"""What computes the same as a call, in layers and functions that hardware has; None if this call is none of that."""
RULES: Mapping[str, Rule] = {
    "conv_transpose1d": transposed,
    "conv_transpose2d": transposed,
    "conv_transpose3d": transposed,
    "conv1d": padded_conv,
    "conv2d": padded_conv,
    "conv3d": volumes.conv3d,
    "max_pool3d": volumes.pool3d,
    "avg_pool3d": volumes.pool3d,
    "adaptive_max_pool3d": volumes.pool3d,
    "adaptive_avg_pool3d": volumes.pool3d,
    "batch_norm3d": volumes.batch_norm,
    "sync_batch_norm": volumes.batch_norm,
    "pad": pad,
    "constant_pad": pad,
    "reflection_pad": pad,
    "replication_pad": pad,
    "circular_pad": pad,
    "interpolate": interpolate,
    "upsample_bilinear": interpolate,
    "adaptive_avg_pool1d": adaptive,
    "adaptive_avg_pool2d": adaptive,
    "adaptive_max_pool1d": adaptive,
    "adaptive_max_pool2d": adaptive,
    "glu": plain.glu,
    "diff": plain.difference,
    "rrelu": plain.rrelu,
    "pixel_unshuffle": plain.pixel_unshuffle,
    "lp_pool1d": plain.lp_pool,
    "lp_pool2d": plain.lp_pool,
    "lp_pool3d": plain.lp_pool,
    "conv_tbc": plain.conv_tbc,
    "local_response_norm": plain.local_response_norm,
    "bilinear": plain.bilinear,
    "embedding_bag": tables.embedding_bag,
    "one_hot": tables.one_hot,
    "fold": plain.fold,
    "cosine_similarity": plain.cosine_similarity,
    "pairwise_distance": plain.pairwise_distance,
    "instance_norm1d": instance,
    "instance_norm2d": instance,
    "instance_norm3d": instance,
    "layer_norm": layer,
    "normalize": unit_length,
    "rms_norm": rms,
    "logsumexp": logsumexp,
    "norm": norm,
    "std": std,
    "var": var,
}
"""By the name of the op."""
