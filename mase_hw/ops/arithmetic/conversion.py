"""Conversions between element types that change no value: a fixed-point number has none of these types."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from mase_hw.opdef import OpDef


def as_number(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x`` in another element type that holds its values; truth values become 0 and 1."""
    if has_torch_function_unary(x):  # tracing records one call
        result: Tensor = handle_torch_function(as_number, (x,), x, dtype)
        return result
    return x.to(dtype)


OPS = (OpDef(name="as_number", mase_type="implicit_func", functions=(as_number,), implicit=True),)
