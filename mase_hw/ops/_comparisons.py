"""Comparisons of a tensor with a number, as functions of their own: hardware compares codes with a constant."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary


def _compare(function: Callable[..., Tensor], itself: Callable[..., Tensor], x: Tensor, number: float) -> Tensor:
    """A comparison that tracing records as one call."""
    if has_torch_function_unary(x):
        result: Tensor = handle_torch_function(itself, (x,), x, number)
        return result
    return function(x, number)


def lt_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is below the number; a boolean tensor of the same shape."""
    return _compare(torch.lt, lt_number, x, number)


def le_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is at most the number; a boolean tensor of the same shape."""
    return _compare(torch.le, le_number, x, number)


def gt_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is above the number; a boolean tensor of the same shape."""
    return _compare(torch.gt, gt_number, x, number)


def ge_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is at least the number; a boolean tensor of the same shape."""
    return _compare(torch.ge, ge_number, x, number)


def eq_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is the number; a boolean tensor of the same shape."""
    return _compare(torch.eq, eq_number, x, number)


def ne_number(x: Tensor, number: float) -> Tensor:
    """Whether each element of ``x`` is another number; a boolean tensor of the same shape."""
    return _compare(torch.ne, ne_number, x, number)


BY_NAME = {
    f.__name__.removesuffix("_number"): f for f in (lt_number, le_number, gt_number, ge_number, eq_number, ne_number)
}
"""The name of the comparison of two tensors -> the function."""
