"""Ops that a pass writes as others: they have no hardware of their own, and need none."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn

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


OPS = (
    _op("rnn", "linear recurrence slice concat", nn.RNN),
    _op("gru", "linear recurrence slice concat", nn.GRU),
    _op("lstm", "linear recurrence slice concat", nn.LSTM),
    _op("rnn_cell", "concat linear tanh relu", nn.RNNCell),
    _op("gru_cell", "concat linear slice sigmoid tanh mul add sub", nn.GRUCell),
    _op("lstm_cell", "concat linear slice sigmoid tanh mul add", nn.LSTMCell),
    _op("conv_transpose1d", "conv1d permute", nn.ConvTranspose1d, F.conv_transpose1d, attributes=_TRANSPOSED,
        parameters="weight bias"),
    _op("conv_transpose2d", "conv2d permute", nn.ConvTranspose2d, F.conv_transpose2d, attributes=_TRANSPOSED,
        parameters="weight bias"),
)  # fmt: skip
