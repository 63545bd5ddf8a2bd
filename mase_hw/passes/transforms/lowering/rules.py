"""Which op is expressed by which rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from mase_hw.passes.transforms.lowering.call import Call
from mase_hw.passes.transforms.lowering.norms import instance, layer, rms, unit_length
from mase_hw.passes.transforms.lowering.statistics import norm, std, var
from mase_hw.passes.transforms.lowering.transposed import transposed

Rule = Callable[[Call], nn.Module | None]
"""What computes the same as a call, in layers and functions that hardware has; None if this call is none of that."""
RULES: Mapping[str, Rule] = {
    "conv_transpose1d": transposed,
    "conv_transpose2d": transposed,
    "instance_norm1d": instance,
    "instance_norm2d": instance,
    "instance_norm3d": instance,
    "layer_norm": layer,
    "normalize": unit_length,
    "rms_norm": rms,
    "norm": norm,
    "std": std,
    "var": var,
}
