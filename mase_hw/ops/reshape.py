"""Ops that only rename the shape: the elements keep their order, so they cost no hardware."""

from __future__ import annotations

import operator

import torch
from torch import nn

from mase_hw.catalogue import OpDef


def _implicit(name: str, **targets: tuple[object, ...]) -> OpDef:
    return OpDef(name=name, mase_type="implicit_func", implicit=True, **targets)  # type: ignore[arg-type]


OPS = (
    _implicit(
        "flatten",
        modules=(nn.Flatten,),
        functions=(torch.flatten,),
        methods=("flatten",),
        attributes=("start_dim", "end_dim"),
    ),
    _implicit("unflatten", modules=(nn.Unflatten,), methods=("unflatten",), attributes=("dim", "unflattened_size")),
    _implicit("view", methods=("view",)),
    _implicit("reshape", functions=(torch.reshape,), methods=("reshape",)),
    _implicit("squeeze", functions=(torch.squeeze,), methods=("squeeze",)),
    _implicit("unsqueeze", functions=(torch.unsqueeze,), methods=("unsqueeze",)),
    _implicit("contiguous", methods=("contiguous",)),
    _implicit("identity", modules=(nn.Identity,)),
    _implicit(
        "dropout",
        modules=(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout),
        functions=(nn.functional.dropout, torch.dropout),
        attributes=("p",),
    ),
    _implicit("size", methods=("size", "dim"), functions=(getattr,)),
    # On a shape it is a number known at compile time; on a tensor it moves data and is refused.
    OpDef(name="getitem", mase_type="builtin_func", functions=(operator.getitem,)),
)
