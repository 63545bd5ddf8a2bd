"""Ops that only rename the shape or the element type: elements keep order and value, so they cost no hardware."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.opdef import OpDef

DROPOUTS = (
    nn.functional.dropout,
    nn.functional.dropout1d,
    nn.functional.dropout2d,
    nn.functional.dropout3d,
    nn.functional.alpha_dropout,
    nn.functional.feature_alpha_dropout,
)


def as_number(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x`` in another element type that holds its values; truth values become 0 and 1."""
    if has_torch_function_unary(x):  # tracing records one call
        result: Tensor = handle_torch_function(as_number, (x,), x, dtype)
        return result
    return x.to(dtype)


def _inactive(node: str, attributes: Attributes) -> None:
    """Dropout is the identity unless a function is told, or left to its default, to drop in evaluation too."""
    if attributes.get("training", attributes.get("train", False)):
        raise UnsupportedError(
            "this dropout is active in evaluation, so its result is random",
            node=node,
            field="training",
            got=True,
            expected=False,
            remedy="write dropout(x, p, training=self.training), or use nn.Dropout",
        )


def _implicit(name: str, **targets: Any) -> OpDef:
    return OpDef(name=name, mase_type="implicit_func", implicit=True, **targets)


OPS = (
    _implicit(
        "flatten",
        modules=(nn.Flatten,),
        functions=(torch.flatten,),
        methods=("flatten",),
        attributes=("start_dim", "end_dim"),
    ),
    _implicit(
        "unflatten",
        modules=(nn.Unflatten,),
        functions=(torch.unflatten,),
        methods=("unflatten",),
        attributes=("dim", "unflattened_size"),
    ),
    _implicit("view", methods=("view",)),
    _implicit("reshape", functions=(torch.reshape,), methods=("reshape",)),
    _implicit("squeeze", functions=(torch.squeeze,), methods=("squeeze",)),
    _implicit("unsqueeze", functions=(torch.unsqueeze,), methods=("unsqueeze",)),
    _implicit("contiguous", methods=("contiguous",)),
    _implicit("clone", functions=(torch.clone,), methods=("clone",)),
    _implicit("detach", functions=(torch.detach,), methods=("detach",)),
    _implicit("identity", modules=(nn.Identity,)),
    _implicit(
        "dropout",
        modules=(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
        functions=(*DROPOUTS, torch.dropout),
        attributes=("p",),
        check=_inactive,
    ),
    _implicit("as_number", functions=(as_number,)),
    _implicit("size", methods=("size",)),
    # On a shape it is a number known at compile time; on a tensor it moves data and is refused.
    OpDef(name="getitem", mase_type="builtin_func", functions=(operator.getitem,)),
)
