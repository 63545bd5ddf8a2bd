"""``scaled_dot_product_attention`` as the products, the masks and the softmax that it stands for."""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, LEAST
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.operands import Expression, Formula, FormulaOfThree, expression_of


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
    if not all(isinstance(e.args.get(name), fx.Node) for name in ("query", "key", "value")):
        return ["a query, key or value that is stored, not computed"]
    _write_out(graph, node, e)
    return []


def _write_out(graph: MaseGraph, node: fx.Node, e: Expression) -> None:
    given = [e.args[name] for name in ("query", "key", "value")]
    mask = e.args.get("attn_mask")
    queries, size = e.shapes[given[0]][-2:]
    keys = e.shapes[given[1]][-2]
    repeats = 1
    if e.args.get("enable_gqa"):
        repeats = e.shapes[given[0]][-3] // e.shapes[given[1]][-3]
    scale = e.args.get("scale")
    factor = 1 / math.sqrt(size) if scale is None else float(scale)
    tensors: dict[str, Tensor] = {}
    if e.args.get("is_causal"):
        # PyTorch counts from the first query and the first key.
        tensors["left_out"] = ~torch.ones(queries, keys, dtype=torch.bool).tril()
    if isinstance(mask, Tensor):
        out = ~mask if mask.dtype is torch.bool else mask <= FAR
        if bool(out.any()):
            tensors["left_out"] = tensors["left_out"] | out if tensors else out
        bias = None if mask.dtype is torch.bool else torch.where(out, torch.zeros_like(mask), mask)
        if bias is not None and bool(bias.any()):
            tensors["bias"] = bias
    data = isinstance(mask, fx.Node)
    truth = data and mask in e.truths

    def run(s: Formula, q: Tensor, k: Tensor, v: Tensor, m: Tensor | None = None) -> Tensor:
        if repeats > 1:
            k, v = torch.repeat_interleave(k, repeats, -3), torch.repeat_interleave(v, repeats, -3)
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
