"""``scaled_dot_product_attention`` as the products, the masks and the softmax that it stands for."""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, LEAST
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.operands import (
    Expression,
    Formula,
    FormulaOfThree,
    expression_of,
    stored_tensor,
)

_NAMES = ("query", "key", "value")


class _FormulaOfFour(Formula):
    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:  # type: ignore[override]
        return self.function(self, a, b, c, d)


class _FormulaOfTwo(Formula):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]
        return self.function(self, a, b)


def fused_attention(graph: MaseGraph, node: fx.Node) -> list[str]:
    """Write a call out, and return why it cannot be."""
    e = expression_of(graph, node)
    if e is None:
        return ["its operands are no single tensors"]
    p = e.args.get("dropout_p", 0.0)
    if p:
        return [f"dropout_p = {p} drops in evaluation as well: give dropout_p=self.p if self.training else 0.0"]
    held = {name: v if isinstance(v := e.args[name], Tensor) else stored_tensor(graph, v) for name in _NAMES}
    tensors = {name: value for name, value in held.items() if value is not None}
    if len(tensors) == len(_NAMES):
        return ["a query, key and value that are all stored, not computed"]
    _write_out(graph, node, e, tensors)
    return []


def _write_out(graph: MaseGraph, node: fx.Node, e: Expression, tensors: dict[str, Tensor]) -> None:
    given = [e.args[name] for name in _NAMES if name not in tensors]
    shapes = {name: tuple(tensors[name].shape) if name in tensors else e.shapes[e.args[name]] for name in _NAMES}
    mask = e.args.get("attn_mask")
    (queries, size), keys = shapes["query"][-2:], shapes["key"][-2]
    repeats = shapes["query"][-3] // shapes["key"][-3] if e.args.get("enable_gqa") else 1
    for name in ("key", "value"):
        if name in tensors:
            tensors[name] = torch.repeat_interleave(tensors[name], repeats, -3) if repeats > 1 else tensors[name]
    scale = e.args.get("scale")
    factor = 1 / math.sqrt(size) if scale is None else float(scale)
    if e.args.get("is_causal"):
        # PyTorch counts from the first query and the first key.
        tensors["left_out"] = ~torch.ones(queries, keys, dtype=torch.bool).tril()
    if isinstance(mask, Tensor):
        out = ~mask if mask.dtype is torch.bool else mask <= FAR
        if bool(out.any()):
            tensors["left_out"] = tensors["left_out"] | out if "left_out" in tensors else out
        bias = None if mask.dtype is torch.bool else torch.where(out, torch.zeros_like(mask), mask)
        if bias is not None and bool(bias.any()):
            tensors["bias"] = bias
    data = isinstance(mask, fx.Node)
    truth = data and mask in e.truths

    def run(s: Formula, *inputs: Tensor) -> Tensor:
        left = iter(inputs)
        q, k, v = (getattr(s, name) if name in tensors else next(left) for name in _NAMES)
        m = next(left, None)
        if repeats > 1:
            k, v = (
                x if name in tensors else torch.repeat_interleave(x, repeats, -3)
                for name, x in (("key", k), ("value", v))
            )
        if "query" in tensors:  # what is stored comes second in a product
            scores = torch.matmul(k, q.transpose(-2, -1)).transpose(-2, -1) * factor
        else:
            scores = torch.matmul(q, k.transpose(-2, -1)) * factor
        if "bias" in tensors:
            scores = scores + s.bias  # type: ignore[operator]
        if m is not None:
            scores = torch.where(m, scores, LEAST) if truth else scores + m
        if "left_out" in tensors:
            scores = scores.masked_fill(s.left_out, LEAST)  # type: ignore[arg-type]
        return torch.matmul(torch.softmax(scores, -1), v)

    if data:
        given.append(mask)
    sources = list(dict.fromkeys(given))
    places = [sources.index(n) for n in given]

    def spread(s: Formula, *inputs: Tensor) -> Tensor:
        return run(s, *[inputs[place] for place in places])

    kind = (Formula, _FormulaOfTwo, FormulaOfThree, _FormulaOfFour)[len(sources) - 1]
    expand(graph, node, kind(spread, **tensors), sources)


def refuse(found: dict[str, list[str]]) -> None:
    """Refuse all calls at once.

    Raises:
        UnsupportedError: If there are any.
    """
    if found:
        raise UnsupportedError(
            "this attention is not in hardware",
            node=", ".join(found),
            got="; ".join(dict.fromkeys(reason for reasons in found.values() for reason in reasons)),
            remedy="change the call in the model, or compile only the part before or after it",
        )
