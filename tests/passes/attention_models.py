"""Ways to write attention: each model takes tokens ``(1, 6, 8)``, and some a mask of truth values ``(1, 6)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TOKENS, WIDTH, HEADS = 6, 8, 2
SIZE = WIDTH // HEADS


class Attention(nn.Module):
    """Projections around a function of queries, keys and values ``(N, T, C)``."""

    def __init__(self, function: Callable[..., Tensor], groups: int = HEADS, masked: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, groups * SIZE), nn.Linear(WIDTH, groups * SIZE)
        self.function = function
        self.register_buffer("tril", torch.ones(TOKENS, TOKENS).tril())
        far = torch.zeros(TOKENS, TOKENS).masked_fill(torch.ones(TOKENS, TOKENS).triu(1) == 1, float("-inf"))
        self.register_buffer("far", far)
        self.register_buffer("bias", torch.randn(HEADS, TOKENS, TOKENS))
        angle = torch.arange(TOKENS)[:, None] / 10 ** (torch.arange(SIZE // 2) / 2)
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))
        self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), -1))
        self.register_buffer("window", (torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)).abs() <= 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.function(self, self.q(x), self.k(x), self.v(x)))


class Masked(Attention):
    """The same with a mask that is data."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.o(self.function(self, self.q(x), self.k(x), self.v(x), mask))


def heads(x: Tensor) -> Tensor:
    """``(N, T, C)`` -> ``(N, H, T, size)``."""
    return x.view(x.shape[0], x.shape[1], -1, SIZE).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """Back again."""
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


def plain(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = heads(q) @ heads(k).transpose(-2, -1) / math.sqrt(SIZE)
    return joined(torch.softmax(scores, -1) @ heads(v))


def scaled_queries(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """OPT: the queries are scaled, everything is merged into matrices."""
    q, k, v = (heads(t).reshape(HEADS, TOKENS, SIZE) for t in (q * SIZE**-0.5, k, v))
    weights = F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1)
    weights = F.dropout(weights, p=0.1, training=s.training)
    out = torch.bmm(weights, v).view(1, HEADS, TOKENS, SIZE)
    return out.transpose(1, 2).reshape(1, TOKENS, WIDTH)


def nano_gpt(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (heads(q) @ heads(k).transpose(-2, -1)) * (1.0 / math.sqrt(SIZE))
    scores = scores.masked_fill(s.tril[:TOKENS, :TOKENS] == 0, float("-inf"))
    return joined(F.softmax(scores, dim=-1) @ heads(v))


def added_mask(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(heads(q), heads(k).permute(0, 1, 3, 2)) * 0.5 + s.far[None, None]
    return joined(torch.matmul(F.softmax(scores, -1, dtype=v.dtype), heads(v)))


def gpt2(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(heads(q), heads(k).transpose(-1, -2)) / (SIZE**0.5)
    scores = torch.where(s.tril.bool(), scores, torch.finfo(torch.float32).min)
    return joined(torch.matmul(scores.softmax(dim=-1), heads(v)))


def sdpa(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v)))


def sdpa_causal(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True, scale=0.3))


def sdpa_mask(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=s.window))


def sdpa_bias(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=s.bias + s.far))


def sdpa_grouped(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True, enable_gqa=True))


def sdpa_transposed_last(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Fewer queries than keys."""
    return joined(F.scaled_dot_product_attention(heads(q)[:, :, 2:], heads(k), heads(v), is_causal=True))


def repeat_kv(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """LLaMA: keys are expanded to all heads."""

    def repeated(x: Tensor) -> Tensor:
        x = heads(x)
        n, groups, tokens, size = x.shape
        return x[:, :, None].expand(n, groups, HEADS, tokens, size).reshape(n, HEADS * groups, tokens, size)

    scores = heads(q) @ repeated(k).transpose(2, 3) * SIZE**-0.5
    return joined(F.softmax(scores, -1) @ repeated(v))


def multi_query(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One key for all heads, broadcast by the product."""
    scores = heads(q) @ heads(k).transpose(2, 3) * SIZE**-0.5
    return joined(F.softmax(scores, -1) @ heads(v))


def rotary(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    cos, sin = s.cos, s.sin

    def turned(x: Tensor) -> Tensor:
        half = torch.cat((-x[..., SIZE // 2 :], x[..., : SIZE // 2]), -1)
        return x * cos + half * sin

    return joined(F.scaled_dot_product_attention(turned(heads(q)), turned(heads(k)), heads(v), is_causal=True))


def einsum(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.reshape(1, TOKENS, HEADS, SIZE) for t in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * SIZE**-0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)


def einsum_heads(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhid,bhjd->bhij", heads(q), heads(k)).div(2.0)
    return joined(torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), heads(v)))


def one_head(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(1, 2) / WIDTH**0.5, -1) @ v


def position_bias(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = heads(q) @ heads(k).mT + s.bias
    return joined(scores.softmax(-1) @ heads(v))


def windows(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Swin: tokens in windows, which are matrices of their own; a mask for each window."""
    q, k, v = (t.reshape(2, 3, HEADS, SIZE).permute(0, 2, 1, 3) for t in (q, k, v))
    keep = torch.tensor([[[1, 1, 0], [1, 1, 1], [0, 1, 1]], [[1, 1, 1]] * 3])[:, None]
    scores = (q @ k.transpose(-2, -1) * 0.5).masked_fill(keep == 0, -1e5)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, TOKENS, WIDTH)


def column_softmax(s: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores that are used twice."""
    scores = heads(q) @ heads(k).transpose(-2, -1) * 0.5
    return joined(scores.softmax(-1) @ heads(v) + torch.relu(scores) @ heads(v))


def padding(s: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = heads(q) @ heads(k).transpose(-2, -1) * 0.5
    scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return joined(scores.softmax(-1) @ heads(v))


def padding_equals(s: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = heads(q) @ heads(k).transpose(-2, -1) * 0.5
    scores = scores.masked_fill(mask.unsqueeze(1).unsqueeze(2) == 0, -1e9)
    return joined(scores.softmax(-1) @ heads(v))


def bert(s: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    far = (1.0 - mask[:, None, None, :].to(q.dtype)) * torch.finfo(torch.float32).min
    scores = heads(q) @ heads(k).transpose(-1, -2) / 2.0 + far
    return joined(F.softmax(scores, -1) @ heads(v))


def sdpa_padding(s: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=mask[:, None, None]))


def padding_and_causal(s: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = heads(q) @ heads(k).transpose(-2, -1) * 0.5
    scores = scores.masked_fill(s.tril == 0, -1e9).masked_fill(~mask[:, None, None, :], -1e9)
    return joined(scores.softmax(-1) @ heads(v))


class Packed(nn.Module):
    """One projection for queries, keys and values."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.function(self.qkv(x)))


def timm(qkv: Tensor) -> Tensor:
    q, k, v = qkv.reshape(-1, TOKENS, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)
    out = ((q * SIZE**-0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
    return out.transpose(1, 2).reshape(-1, TOKENS, WIDTH)


def indexed(qkv: Tensor) -> Tensor:
    parts = qkv.reshape(-1, TOKENS, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
    out = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
    return out.transpose(1, 2).flatten(2)


def chunked(qkv: Tensor) -> Tensor:
    q, k, v = qkv.chunk(3, dim=-1)
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v)))


def split_by_head(qkv: Tensor) -> Tensor:
    """GPT-NeoX: the three parts of a head lie together."""
    q, k, v = qkv.view(-1, TOKENS, HEADS, 3 * SIZE).split(SIZE, -1)
    return joined(F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)))


class Tokens(nn.Module):
    """A class token in front, whose result is the model's; a register behind."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 2, WIDTH))
        self.attention, self.norm, self.head = multihead(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x, self.last.expand(x.shape[0], -1, -1)), dim=1)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.head(x[:, 0])


class Layer(nn.Module):
    """A layer of PyTorch and how it is called."""

    def __init__(self, layer: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.call = layer, call
        self.register_buffer("later", torch.ones(TOKENS, TOKENS).triu(1).bool())

    def forward(self, x: Tensor) -> Any:
        return self.call(self, x)


class MaskedLayer(Layer):
    """The same with a mask."""

    def forward(self, x: Tensor, mask: Tensor) -> Any:  # type: ignore[override]
        return self.call(self, x, mask)


def multihead(**more: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(WIDTH, HEADS, **{"batch_first": True, **more})


def encoder_layer(**more: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 12, **{"batch_first": True, **more})


def decoder_layer(**more: Any) -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(WIDTH, HEADS, 12, **{"batch_first": True, **more})


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{
        f.__name__: lambda f=f: Attention(f)  # type: ignore[misc]
        for f in (plain, scaled_queries, nano_gpt, added_mask, gpt2, sdpa, sdpa_causal, sdpa_mask, sdpa_bias, rotary,
                  sdpa_transposed_last, einsum, einsum_heads, one_head, position_bias, windows, column_softmax)
    },
    **{f.__name__: lambda f=f: Attention(f, 1) for f in (sdpa_grouped, repeat_kv, multi_query)},  # type: ignore[misc]
    **{f.__name__: lambda f=f: Packed(f) for f in (timm, indexed, chunked, split_by_head)},  # type: ignore[misc]
    "class_token": Tokens,
    "multihead": lambda: Layer(multihead(), lambda s, x: s.layer(x, x, x, need_weights=False)[0]),
    "multihead_weights": lambda: Layer(multihead(), lambda s, x: s.layer(x, x, x)),
    "multihead_each_head": lambda: Layer(multihead(), lambda s, x: s.layer(x, x, x, average_attn_weights=False)[1]),
    "multihead_turned": lambda: Layer(
        multihead(batch_first=False, bias=False),
        lambda s, x: s.layer(*[x.transpose(0, 1)] * 3, attn_mask=s.later)[0].transpose(0, 1),
    ),
    "multihead_cross": lambda: Layer(
        multihead(kdim=4, vdim=6), lambda s, x: s.layer(x, x[:, :4, :4], x[:, :4, 2:], need_weights=False)[0]
    ),
    "encoder_layer": lambda: Layer(encoder_layer(), lambda s, x: s.layer(x)),
    "encoder_layer_first": lambda: Layer(
        encoder_layer(norm_first=True, activation="gelu"), lambda s, x: s.layer(x, src_mask=s.later)
    ),
    "encoder_layer_function": lambda: Layer(encoder_layer(activation=torch.tanh), lambda s, x: s.layer(x)),
    "encoder": lambda: Layer(
        nn.TransformerEncoder(encoder_layer(), 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False),
        lambda s, x: s.layer(x, mask=s.later),
    ),
    "decoder_layer": lambda: Layer(decoder_layer(), lambda s, x: s.layer(x, torch.relu(x), tgt_mask=s.later)),
    "decoder_layer_first": lambda: Layer(decoder_layer(norm_first=True), lambda s, x: s.layer(x, x[:, :4])),
    "decoder": lambda: Layer(nn.TransformerDecoder(decoder_layer(), 2), lambda s, x: s.layer(x, x)),
    "transformer": lambda: Layer(
        nn.Transformer(WIDTH, HEADS, 1, 1, 12, batch_first=True), lambda s, x: s.layer(x, x[:, :4])
    ),
}  # fmt: skip
MASKED: dict[str, Callable[[], nn.Module]] = {
    **{
        f.__name__: lambda f=f: Masked(f)  # type: ignore[misc]
        for f in (padding, padding_equals, bert, sdpa_padding, padding_and_causal)
    },
    "multihead_padding": lambda: MaskedLayer(
        multihead(), lambda s, x, mask: s.layer(x, x, x, key_padding_mask=mask == 0, need_weights=False)[0]
    ),
    "encoder_layer_padding": lambda: MaskedLayer(
        encoder_layer(), lambda s, x, mask: s.layer(x, src_key_padding_mask=mask == 0)
    ),
}
