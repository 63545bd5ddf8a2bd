"""Names of arguments, for every way in which PyTorch hides a signature."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from mase_hw.ir.trace import signatures
from mase_hw.ir.trace.signatures import bind

X = fx.Graph().placeholder("x")
Y = fx.Graph().placeholder("y")


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "want"),
    [
        (torch.flatten, (X, 1), {}, {"input": X, "start_dim": 1, "end_dim": -1}),
        (F.linear, (X, Y), {"bias": X}, {"input": X, "weight": Y, "bias": X}),
        (F.linear, (X, Y, None), {}, {"input": X, "weight": Y}),
        (F.relu, (X,), {"inplace": True}, {"input": X, "inplace": True}),
        (F.softmax, (X,), {"dim": 1, "_stacklevel": 3}, {"input": X, "dim": 1}),
        (torch.add, (X, 2), {}, {"input": X, "other": 2, "alpha": 1}),
        (torch.add, (X, Y), {}, {"input": X, "other": Y, "alpha": 1}),
        (operator.add, (2, X), {}, {"a": 2, "b": X}),
        (getattr, (X, "shape"), {}, {"object": X, "name": "shape"}),
        (torch.cat, ([X, Y], 1), {}, {"tensors": [X, Y], "dim": 1}),
        ("view", (X, 2, -1), {}, {"self": X, "size": [2, -1]}),
        ("view", (X, (2, -1)), {}, {"self": X, "size": (2, -1)}),
        ("view", (X, torch.int32), {}, {"self": X, "dtype": torch.int32}),
        ("reshape", (X, -1), {}, {"self": X, "shape": [-1]}),
        ("permute", (X, 0, 2, 1), {}, {"self": X, "dims": [0, 2, 1]}),
        ("flatten", (X,), {"start_dim": 2}, {"self": X, "start_dim": 2, "end_dim": -1}),
        ("size", (X, 0), {}, {"self": X, "dim": 0}),
        ("transpose", (X, 1, 2), {}, {"self": X, "dim0": 1, "dim1": 2}),
        (
            "to",
            (X, torch.device("cpu")),
            {},
            {"self": X, "device": torch.device("cpu"), "non_blocking": False, "copy": False},
        ),
        ("to", (X, torch.bool), {}, {"self": X, "dtype": torch.bool, "non_blocking": False, "copy": False}),
        ("to", (X, "cpu"), {}, {"self": X, "device": "cpu", "non_blocking": False, "copy": False}),
        ("to", (X, Y), {}, {"self": X, "other": Y, "non_blocking": False, "copy": False}),
        ("type", (X, torch.int8), {}, {"self": X, "dtype": torch.int8}),
        ("contiguous", (X,), {}, {"self": X}),
        ("expand", (X, 2, -1), {}, {"self": X, "size": [2, -1]}),
        ("mean", (X, [2, 3]), {}, {"self": X, "dim": [2, 3], "keepdim": False}),
        ("var", (X, 1), {}, {"self": X, "dim": 1, "unbiased": True, "keepdim": False}),
        ("var", (X, False), {}, {"self": X, "unbiased": False}),
        ("std", (X, (1, 2), False, True), {}, {"self": X, "dim": (1, 2), "unbiased": False, "keepdim": True}),
        ("sum", (X, 1), {}, {"self": X, "dim": 1, "keepdim": False}),
        ("roll", (X, 1, 2), {}, {"self": X, "shifts": 1, "dims": [2]}),
        ("amax", (X, -1), {}, {"self": X, "dim": -1, "keepdim": False}),
        (torch.var, (X, 1), {}, {"input": X, "dim": 1, "unbiased": True, "keepdim": False}),
        (torch.var, (X, True), {}, {"input": X, "unbiased": True}),
        (torch.finfo, (torch.float16,), {}, {"dtype": torch.float16}),
        (torch.tensor, (2.0,), {"dtype": torch.float16}, {"data": 2.0, "dtype": torch.float16}),
        ("no_such_method", (X, 3), {"k": 1}, {"self": X, "arg_1": 3, "k": 1}),
    ],
)
def test_bind(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], want: dict[str, Any]) -> None:
    assert dict(bind(target, args, kwargs, lambda v: isinstance(v, fx.Node))) == want


def test_dispatched_function() -> None:
    found = dict(bind(F.max_pool2d, (X, 2), {"stride": 2}, lambda v: isinstance(v, fx.Node)))
    assert found["input"] is X and found["kernel_size"] == 2 and found["stride"] == 2


def test_convolution_overload() -> None:
    found = dict(bind(F.conv2d, (X, Y), {"padding": "same"}, lambda v: isinstance(v, fx.Node)))
    assert found["padding"] == "same" and found["weight"] is Y and found["groups"] == 1


def test_what_is_remembered_is_what_would_be_found() -> None:
    """Also of builtins that are equal to each other, as ``mm`` and ``dsmm`` are, and bound or not."""
    targets = [torch.mm, torch.dsmm, torch.hsmm, torch.hspmm, operator.add, operator.mul, F.softmax, F.max_pool2d]
    for layer in (torch.nn.Linear(2, 3), torch.nn.Linear(4, 5), torch.nn.MultiheadAttention(4, 2)):
        targets += [layer.forward, type(layer).forward]
    for target in [*targets, *reversed(targets)]:
        assert signatures.signatures_of(target) == signatures._found(target), target
