"""Layers of attention in plain PyTorch: projections, heads, scores, masks; and the layers of a transformer."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from mase_hw.ir import MaseGraph
from mase_hw.ir.binding import arguments_of
from mase_hw.ops.arithmetic.where import LEAST
from mase_hw.passes.lower.layers.call import Line, stored_tensor
from mase_hw.passes.lower.layers.recurrent import annotated, indexed, inlined
from mase_hw.passes.lower.movement._calls import drop
from mase_hw.passes.quantize.operands import stored

ATTENTION = (
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.Transformer,
)
"""Layers that are written out."""


def lower_attention_layer(graph: MaseGraph, node: fx.Node, module: nn.Module) -> None:
    """Write a layer of attention, or of a transformer, as the layers and functions that it is made of.

    Args:
        graph: A float graph with common metadata.
        node: A call of it.
        module: The layer.
    """
    results = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    given = {name: value for name, value in arguments_of(graph.model, node, results) if value is not None}
    tensors = [name for name, value in given.items() if isinstance(value, fx.Node)]
    # A tensor that comes in several places is one stream.
    sources = list(dict.fromkeys(given[name] for name in tensors))
    places = {name: sources.index(given[name]) for name in tensors}
    rest = {name: value for name, value in given.items() if name not in places}
    if isinstance(module, nn.MultiheadAttention):
        function, layers = _multihead(graph, node, module, {name: given[name] for name in tensors}, rest)
    else:
        function, layers = next(make for kind, make in _BODIES.items() if isinstance(module, kind))(module)

    def run(*inputs: Tensor) -> Any:
        return function(**{name: inputs[place] for name, place in places.items()})

    body = Line(run, **layers)
    body.train(module.training)
    found = inlined(graph, node, sources, body)
    _connect(node, found if isinstance(found, tuple | list) else (found,), isinstance(module, nn.MultiheadAttention))
    graph.fx_graph.erase_node(node)
    annotated(graph, sources)
    drop(graph, [source for source in sources if stored_tensor(graph, source) is not None])


def _connect(node: fx.Node, found: Sequence[fx.Node], several: bool) -> None:
    """Let everything that read the result, or a part of it, read the nodes that stand for it."""
    if not several:
        node.replace_all_uses_with(found[0])
        return
    for user in list(node.users):
        index = indexed(user, node)
        if index in (0, 1, -1, -2) and index % 2 < len(found):
            user.replace_all_uses_with(found[index % 2])
            node.graph.erase_node(user)
        else:
            user.args = fx.node.map_arg(user.args, lambda n: tuple(found) if n is node else n)


Parts = tuple[Callable[..., Any], dict[str, nn.Module]]


def _multihead(
    graph: MaseGraph, node: fx.Node, module: nn.MultiheadAttention, tensors: dict[str, fx.Node], rest: dict[str, object]
) -> Parts:
    """``nn.MultiheadAttention``: the result, and the weights where they are read."""
    layers: dict[str, nn.Module] = dict(projections(module))
    q_proj, k_proj, v_proj, out_proj = layers.values()
    extra = _Extra(module)
    layers["extra"] = extra
    heads, size = module.num_heads, module.head_dim
    rank = len(graph.tensor(tensors["query"], "data_out_0").shape)
    turned = rank == 3 and not module.batch_first
    average = bool(rest.get("average_attn_weights", True))
    weights_read = any(indexed(user, node) in (1, -1) or indexed(user, node) is None for user in node.users)
    weights_read = weights_read and bool(rest.get("need_weights", True))
    truth = {name: graph.tensor(n, "data_out_0").torch_dtype is torch.bool for name, n in tensors.items()}
    sizes = {name: tuple(graph.tensor(n, "data_out_0").shape) for name, n in tensors.items()}
    tokens, keys = (sizes[name][0 if turned or rank == 2 else 1] for name in ("query", "key"))
    mask_rank = len(sizes.get("attn_mask", ()))

    def batch(x: Tensor) -> Tensor:
        return x.unsqueeze(0) if rank == 2 else (x.transpose(0, 1) if turned else x)

    all_keys = keys + extra.count
    learned = stored_tensor(graph, tensors["query"])
    if learned is not None:
        made = q_proj(batch(learned)).detach().reshape(-1, tokens, heads, size)
        extra.register_buffer("query", made.transpose(1, 2))
    for name in ("attn_mask", "key_padding_mask"):
        held = stored(graph, tensors[name], []) if extra.count and name in tensors else None
        if held is not None:
            extra.register_buffer(name, functional.pad(held.detach(), (0, extra.count)))

    def run(query: Tensor, key: Tensor, value: Tensor, **masks: Tensor) -> Any:
        k = extra.behind(k_proj(batch(key)), "bias_k").reshape(-1, all_keys, heads, size).transpose(1, 2)
        v = extra.behind(v_proj(batch(value)), "bias_v").reshape(-1, all_keys, heads, size).transpose(1, 2)
        if learned is None:
            q = q_proj(batch(query)).reshape(-1, tokens, heads, size).transpose(1, 2)
            scores = torch.matmul(q, k.transpose(-2, -1))
        else:  # what is stored comes second in a product
            scores = torch.matmul(k, extra.get_buffer("query").transpose(-2, -1)).transpose(-2, -1)
        scores = scores * (1 / math.sqrt(size))
        for name, mask in masks.items():
            mask = extra.mask(name, mask)
            if name == "attn_mask":
                mask = mask.reshape(-1, heads, tokens, all_keys) if mask_rank == 3 else mask
            else:
                mask = mask.reshape(-1, 1, 1, all_keys)
            scores = scores.masked_fill(mask, LEAST) if truth[name] else scores + mask
        weights = torch.softmax(scores, -1)
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(-1, tokens, heads * size)
        out = out_proj(mixed)
        out = out.squeeze(0) if rank == 2 else (out.transpose(0, 1) if turned else out)
        if not weights_read:
            return (out,)
        weights = weights.mean(1) if average else weights
        return out, weights.squeeze(0) if rank == 2 else weights

    return run, layers


class _Extra(nn.Module):
    """Keys and values behind those of the tokens: ones that are learned (``add_bias_kv``), and zeros."""

    def __init__(self, module: nn.MultiheadAttention) -> None:
        super().__init__()
        self.zero = module.add_zero_attn
        self.bias_k, self.bias_v = module.bias_k, module.bias_v
        self.count = int(self.zero) + int(self.bias_k is not None)

    def behind(self, x: Tensor, name: str) -> Tensor:
        """``(N, keys, embed)`` -> ``(N, keys + count, embed)``."""
        bias = getattr(self, name)
        x = x if bias is None else torch.cat([x, bias.expand(x.shape[0], -1, -1)], 1)
        return functional.pad(x, (0, 0, 0, 1)) if self.zero else x

    def mask(self, name: str, given: Tensor) -> Tensor:
        """A mask that leaves none of them out."""
        held = getattr(self, name, None)
        return held if held is not None else functional.pad(given, (0, self.count)) if self.count else given


def projections(module: nn.MultiheadAttention) -> dict[str, nn.Linear]:
    """The linear layers of queries, keys, values and of the result, each of its own."""
    embed = module.embed_dim
    weight: Tensor | None = getattr(module, "in_proj_weight", None)
    if weight is not None:
        weights = [weight[i * embed : (i + 1) * embed] for i in range(3)]
    else:
        weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    bias = module.in_proj_bias
    biases = [None] * 3 if bias is None else [bias[i * embed : (i + 1) * embed] for i in range(3)]
    made = {f"{n}_proj": _linear(w, b) for n, w, b in zip("qkv", weights, biases, strict=True)}
    return {**made, "out_proj": _linear(module.out_proj.weight, module.out_proj.bias)}


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=weight.dtype, device=weight.device)
    made.weight = nn.Parameter(weight.detach().clone(), requires_grad=weight.requires_grad)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return made


def _layers_of(module: nn.Module) -> dict[str, nn.Module]:
    found = {name: copy.copy(child) for name, child in module.named_children()}
    activation: Any = module.activation
    if not isinstance(activation, nn.Module):
        found["activation"] = Line(activation)
    return found


def _feed_forward(layers: dict[str, nn.Module], last: str) -> Callable[[Tensor], Tensor]:
    def feed(x: Tensor) -> Tensor:
        hidden = layers["dropout"](layers["activation"](layers["linear1"](x)))
        return layers[last](layers["linear2"](hidden))  # type: ignore[no-any-return]

    return feed


def _attend(
    layers: dict[str, nn.Module], name: str, x: Tensor, other: Tensor, mask: Tensor | None, padding: Tensor | None
) -> Tensor:
    out, _ = layers[name](x, other, other, attn_mask=mask, key_padding_mask=padding, need_weights=False)
    return out  # type: ignore[no-any-return]


def _encoder(module: nn.TransformerEncoderLayer) -> Parts:
    """``nn.TransformerEncoderLayer``."""
    layers = _layers_of(module)
    feed = _feed_forward(layers, "dropout2")

    def run(src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            found = _attend(layers, "self_attn", x, x, src_mask, src_key_padding_mask)
            return layers["dropout1"](found)  # type: ignore[no-any-return]

        norm1, norm2 = layers["norm1"], layers["norm2"]
        if module.norm_first:
            src = src + attend(norm1(src))
            return src + feed(norm2(src))
        src = norm1(src + attend(src))
        return norm2(src + feed(src))  # type: ignore[no-any-return]

    return run, layers


def _decoder(module: nn.TransformerDecoderLayer) -> Parts:
    """``nn.TransformerDecoderLayer``."""
    layers = _layers_of(module)
    feed = _feed_forward(layers, "dropout3")

    def run(tgt: Tensor, memory: Tensor, **masks: Tensor) -> Tensor:
        def itself(x: Tensor) -> Tensor:
            found = _attend(layers, "self_attn", x, x, masks.get("tgt_mask"), masks.get("tgt_key_padding_mask"))
            return layers["dropout1"](found)  # type: ignore[no-any-return]

        def across(x: Tensor) -> Tensor:
            mask, padding = masks.get("memory_mask"), masks.get("memory_key_padding_mask")
            return layers["dropout2"](_attend(layers, "multihead_attn", x, memory, mask, padding))  # type: ignore[no-any-return]

        norm1, norm2, norm3 = layers["norm1"], layers["norm2"], layers["norm3"]
        if module.norm_first:
            tgt = tgt + itself(norm1(tgt))
            tgt = tgt + across(norm2(tgt))
            return tgt + feed(norm3(tgt))
        tgt = norm1(tgt + itself(tgt))
        tgt = norm2(tgt + across(tgt))
        return norm3(tgt + feed(tgt))  # type: ignore[no-any-return]

    return run, layers


def _stacked(first: str, module: nn.Module) -> Parts:
    """``nn.TransformerEncoder`` and ``nn.TransformerDecoder``: every layer takes what comes ``first`` from the last."""
    assert isinstance(module.layers, nn.ModuleList)  # of either class
    stack = nn.ModuleList([copy.copy(layer) for layer in module.layers])
    layers: dict[str, nn.Module] = {"layers": stack}
    norm = module.norm
    if isinstance(norm, nn.Module):
        layers["norm"] = copy.copy(norm)

    def run(**given: Tensor) -> Tensor:
        x = given.pop(first)
        named = {"src_mask" if name == "mask" else name: value for name, value in given.items()}
        for layer in stack:
            x = layer(x, **named)
        return layers["norm"](x) if "norm" in layers else x

    return run, layers


def _transformer(module: nn.Transformer) -> Parts:
    """``nn.Transformer``."""
    layers: dict[str, nn.Module] = {"encoder": copy.copy(module.encoder), "decoder": copy.copy(module.decoder)}

    def run(src: Tensor, tgt: Tensor, **masks: Tensor) -> Tensor:
        own = {"mask": masks.pop("src_mask", None), "src_key_padding_mask": masks.pop("src_key_padding_mask", None)}
        return layers["decoder"](tgt, layers["encoder"](src, **own), **masks)  # type: ignore[no-any-return]

    return run, layers


_BODIES: dict[type[nn.Module], Callable[..., Parts]] = {
    nn.TransformerEncoderLayer: _encoder,
    nn.TransformerDecoderLayer: _decoder,
    nn.TransformerEncoder: functools.partial(_stacked, "src"),
    nn.TransformerDecoder: functools.partial(_stacked, "tgt"),
    nn.Transformer: _transformer,
}
