"""Attention of opset 23, what stands around it, and its relatives."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.step import Step


def _heads(s: Step, index: int, name: str) -> Ref:
    """Queries, keys or values as ``(N, heads, tokens, size)``."""
    x, shape = s.data(index), s.shape(index)
    if len(shape) == 4:
        return x
    count = s.node.get(name, None)
    if len(shape) != 3 or not count or shape[2] % count:
        raise Refused(f"{count} heads of data {list(shape)}")
    split = s.writer.reshape(x, (*shape[:2], count, shape[2] // count))
    return s.call(torch.permute, split, (0, 2, 1, 3))


def attention(s: Step) -> Ref | list[Ref]:
    """``Attention``; keys and values of earlier calls stand before those of this one."""
    if s.has(6):
        raise Refused("a number of keys that is data", "give all keys, and a mask")
    cap, scale = s.node.get("softcap", 0.0), s.node.get("scale", None)
    s.node.get("softmax_precision", 1)
    s.node.get("qk_matmul_output_mode", 0)
    q, k, v = (_heads(s, i, f"{'kv' if i else 'q'}_num_heads") for i in range(3))
    past = s.shape(4)[2] if s.has(4) else 0
    if past:
        k, v = (s.call(torch.cat, s.writer.in_every_frame([s.any(i), x]), 2) for i, x in ((4, k), (5, v)))
    present: list[Ref] = [k, v] if len(s.node.outputs) > 1 else []
    shapes = [s.writer.shape(x) for x in (q, k, v)]
    groups, rest = divmod(shapes[0][1], shapes[1][1])
    if rest:
        raise Refused(f"{shapes[0][1]} heads that share {shapes[1][1]}")
    if groups > 1:
        k, v = (s.call(torch.repeat_interleave, x, groups, 1) for x in (k, v))
    mask, causal = (s.any(3) if s.has(3) else None), bool(s.node.get("is_causal", 0))
    if mask is not None and s.shape(3)[-1] != shapes[1][2]:
        raise Refused(f"a mask of the shape {list(s.shape(3))} for {shapes[1][2]} keys")
    seen = torch.ones(shapes[0][2], shapes[1][2], dtype=torch.bool).tril(past)
    if mask is None and causal and (past or cap):
        mask, causal = seen, False
    elif mask is not None and causal:
        if s.writer.like(mask).dtype == torch.bool:
            mask = s.call(torch.logical_and, mask, seen)
        else:
            mask = s.call(torch.where, seen, mask, float("-inf"))
        causal = False
    if cap:
        made = s.call(torch.matmul, _capped(s, q, k, mask, scale or shapes[0][3] ** -0.5, cap), v)
    else:
        made = s.call(F.scaled_dot_product_attention, q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
    if len(s.shape()) != 4:
        shape = s.writer.shape(made)
        made = s.writer.reshape(s.call(torch.permute, made, (0, 2, 1, 3)), (shape[0], shape[2], shape[1] * shape[3]))
    return [made, *present] if present else made


def _capped(s: Step, q: Ref, k: Ref, mask: Ref | None, scale: float, cap: float) -> Ref:
    """The weights of scores that a tanh keeps within ``cap``, before they are masked."""
    scores = s.call(torch.mul, s.call(torch.matmul, q, s.call(torch.transpose, k, 2, 3)), scale / cap)
    scores = s.call(torch.mul, s.call(torch.tanh, scores), cap)
    if mask is not None and s.writer.like(mask).dtype == torch.bool:
        scores = s.call(torch.where, mask, scores, float("-inf"))
    elif mask is not None:
        scores = s.call(torch.add, scores, mask)
    return s.call(F.softmax, scores, -1)


def rms_norm(s: Step) -> Ref:
    """``RMSNormalization`` over the last dimensions."""
    s.node.fixed("stash_type", 1)
    shape = s.shape()
    over = list(shape[s.axis(s.node.get("axis", -1), len(shape)) :])
    scale = s.known(1, "the scale")
    if list(scale.shape) != over:
        scale = scale.broadcast_to(over).contiguous()
    return s.layer(nn.RMSNorm(over, s.node.get("epsilon", 1e-5), device="meta"), weight=scale)


def rotary(s: Step) -> Ref:
    """``RotaryEmbedding`` at positions that are known."""
    x, shape = _heads(s, 0, "num_heads"), s.shape()
    tokens, size = s.writer.shape(x)[2:]
    cos, sin = s.known(1, "the cosines"), s.known(2, "the sines")
    if s.has(3):
        places = s.known(3, "the positions").long()
        cos, sin = cos[places], sin[places]
    turned = s.node.get("rotary_embedding_dim", 0) or size
    half = turned // 2
    if cos.dim() != 3 or tuple(cos.shape) != (1, tokens, half) or sin.shape != cos.shape or turned > size:
        raise Refused(f"cosines of the shape {list(cos.shape)} for {tokens} tokens and {turned} values")
    mixed = bool(s.node.get("interleaved", 0))
    both: list[Tensor] = [
        torch.stack((v, v), -1).flatten(-2) if mixed else torch.cat((v, v), -1) for v in (cos, sin)
    ]  # fmt: skip
    cosines, sines = (v.reshape(1, 1, tokens, turned) for v in both)
    part = x if turned == size else s.call(operator.getitem, x, (..., slice(0, turned)))
    if mixed:
        order = torch.arange(turned).reshape(-1, 2).flip(1).reshape(-1)
        sines = sines * torch.tensor([-1.0, 1.0]).repeat(half)
        other = s.call(torch.index_select, part, 3, order)
    else:
        first, second = (s.call(operator.getitem, part, (..., slice(*at))) for at in ((0, half), (half, turned)))
        other = s.call(torch.cat, [s.call(torch.neg, second), first], 3)
    made = s.call(torch.add, s.call(torch.mul, part, cosines), s.call(torch.mul, other, sines))
    if turned != size:
        made = s.call(torch.cat, [made, s.call(operator.getitem, x, (..., slice(turned, size)))], 3)
    if len(shape) == 4:
        return made
    return s.writer.reshape(s.call(torch.permute, made, (0, 2, 1, 3)), shape)


def swish(s: Step) -> Ref:
    """``Swish``: ``x * sigmoid(alpha x)``."""
    alpha = s.node.get("alpha", 1.0)
    if alpha == 1.0:
        return s.call(F.silu, s.data())
    return s.call(torch.mul, s.data(), s.call(torch.sigmoid, s.call(torch.mul, s.data(), alpha)))


def is_nan(s: Step) -> Any:
    """``IsNaN``: no value of hardware is one, but for a softmax of nothing, which has to be there in float."""
    x = s.any(0)
    if not isinstance(x, fx.Node):
        return torch.isnan(x)
    scores = x.args[0] if x.target is F.softmax else None
    masks = [v for v in getattr(scores, "args", ()) if isinstance(v, fx.Node) and v.op == "get_attr"]
    for mask in masks:
        stored = s.writer.root.get_buffer(str(mask.target))
        if stored.dim() and stored.dtype.is_floating_point and bool(torch.isneginf(stored).all(-1).any()):
            raise Refused("a row of its softmax is masked as a whole", "let every row see at least one value")
    return torch.zeros([1] * len(s.shape()), dtype=torch.bool)


RULES = {
    "Attention": attention,
    "RMSNormalization": rms_norm,
    "RotaryEmbedding": rotary,
    "Swish": swish,
    "IsNaN": is_nan,
}
"""Operation -> what writes it."""
