"""Products of two streams as vectors and matrices of heads, in the order in which tokens come.

``scaled_dot_product_attention`` as the products, the masks and the softmax that it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, LEAST
from mase_hw.ops.products.matmul import grouped_matmul
from mase_hw.passes.lower.attention.places import Source, sources_of
from mase_hw.passes.lower.layers.call import Expression, Formula, Line, expand, expression_of, stored_tensor
from mase_hw.passes.lower.layers.products import terms_of
from mase_hw.passes.lower.movement._calls import drop

PRODUCTS = ("matmul", "bmm", "einsum")
"""Ops that may be products of two streams."""
_ELEMENTS = frozenset(
    {"add", "sub", "mul", "div", "neg", "sum_of_products", "cat", "where", "dropout", "to", "float"}
    | {"relu", "gelu", "silu", "sigmoid", "tanh", "layer_norm", "rms_norm", "normalize"}
)
"""Ops whose result comes in the order of their data."""


@dataclass(frozen=True)
class Product:
    """``a (*lead, rows, inner) @ b (*lead, inner, columns)``.

    Args:
        a: Producer of the vectors.
        b: Producer of the matrices.
        lead: Dimensions before those.
        sizes: Rows, inner and columns.
        first: What the one gives, as above.
        second: What the other one gives, as above.
        back: The result, ``(*lead, rows, columns)``, as the call gives it.
    """

    a: fx.Node
    b: fx.Node
    lead: tuple[int, ...]
    sizes: tuple[int, int, int]
    first: Callable[[Tensor], Tensor]
    second: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]


def product_of(graph: MaseGraph, node: fx.Node) -> Product | None:
    """A call as product of two streams; None if it is none, or a product of frames with each other."""
    op = graph.op_of(node)
    e = expression_of(graph, node) if op is not None and op.name in PRODUCTS else None
    if op is None or e is None:
        return None
    if op.name == "einsum":
        return _einsum(e)
    data = [v for v in e.args.values() if isinstance(v, fx.Node) and v in e.shapes]
    if len(data) != 2 or len(e.operands) != 2:
        return None
    a, b = data
    lead, shapes = e.shape[:-2], (e.shapes[a], e.shapes[b])
    if min(map(len, shapes)) < 2 or len(e.shape) < 3:
        return None

    def whole(size: Sequence[int]) -> Callable[[Tensor], Tensor]:
        own = len(size) == len(e.shape) and size[0] == lead[0]
        return lambda x: x.expand(-1 if own else lead[0], *lead[1:], *size[-2:])

    sizes = (e.shape[-2], shapes[0][-1], e.shape[-1])
    return Product(a, b, lead, sizes, whole(shapes[0]), whole(shapes[1]), lambda x: x)


def _einsum(e: Expression) -> Product | None:
    values = list(e.args.values())
    flat = [v for value in values for v in (value if isinstance(value, list | tuple) else [value])]
    call = next((v for v in flat if isinstance(v, str)), None)
    data = [v for v in flat if isinstance(v, fx.Node)]
    if call is None or len(data) != 2 or any(isinstance(v, Tensor) for v in flat):
        return None
    a, b = data
    terms = terms_of(call, [len(e.shapes[a]), len(e.shapes[b])], len(e.shape))
    if terms is None or any(len(set(term)) != len(term) for term in terms):
        return None
    first, second, out = terms
    sizes = dict(zip(first + second, e.shapes[a] + e.shapes[b], strict=True))
    lead = [c for c in out if c in first and c in second]
    rows, columns = [c for c in out if c not in second], [c for c in out if c not in first]
    inner = [c for c in first if c in second and c not in out]
    if len(rows) != 1 or len(columns) != 1 or len(inner) != 1 or not lead:
        return None
    if set(first) != {*lead, *rows, *inner} or set(second) != {*lead, *columns, *inner}:
        return None

    def ordered(have: str | Sequence[str], want: Sequence[str]) -> Callable[[Tensor], Tensor]:
        return lambda x: x.permute([list(have).index(c) for c in want])

    return Product(
        a,
        b,
        tuple(sizes[c] for c in lead),
        (sizes[rows[0]], sizes[inner[0]], sizes[columns[0]]),
        ordered(first, [*lead, *rows, *inner]),
        ordered(second, [*lead, *inner, *columns]),
        ordered([*lead, *rows, *columns], out),
    )


@dataclass(frozen=True)
class _Form:
    """How both operands are taken."""

    a: Source
    b: Source
    transposed: bool
    heads: int


def lower_product(graph: MaseGraph, node: fx.Node) -> bool:
    """Write a product of two streams as ``grouped_matmul``, if it is one of heads."""
    product = product_of(graph, node)
    form = None if product is None else _form(graph, product)
    if product is None or form is None:
        return False
    lead, rows, columns = product.lead, product.sizes[0], product.sizes[2]

    def run(x: Tensor, y: Tensor) -> Tensor:
        sums = grouped_matmul(form.a.make(x), form.b.make(y), form.transposed)
        return product.back(arranged(sums, lead, form.heads, rows, columns))

    if form.a.node is form.b.node:
        expand(graph, node, Line(lambda x: run(x, x)), [form.a.node])
    else:
        expand(graph, node, Line(run), [form.a.node, form.b.node])
    return True


def arranged(x: Tensor, lead: Sequence[int], heads: int, rows: int, columns: int) -> Tensor:
    """``(batch, rows, heads, columns)`` as ``(*lead, rows, columns)``."""
    x = x.transpose(1, 2)
    return x if len(lead) == 2 and lead[1] == heads else x.reshape(-1, *lead[1:], rows, columns)


def interpretations(lead: Sequence[int]) -> list[tuple[int, int]]:
    """Batch and heads that leading dimensions can be: the last one are heads, or all of them are matrices."""
    whole = math.prod(lead)
    return [(whole // lead[-1], lead[-1]), (whole, 1)] if lead and lead[-1] > 1 else [(whole, 1)]


def _form(graph: MaseGraph, product: Product) -> _Form | None:
    """With heads, if tokens come with all of theirs or heads share a matrix; None for any other product."""
    (rows, inner, columns), (batch, heads) = product.sizes, interpretations(product.lead)[0]
    if heads == 1:
        return None

    def as_heads(view: Callable[[Tensor], Tensor], turned: bool = False) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            x = view(x)
            x = x.reshape(-1, heads, *x.shape[-2:])
            return x.transpose(-1, -2) if turned else x

        return run

    first = best(sources_of(graph, product.a, as_heads(product.first), (batch, heads, rows, inner)), heads)
    direct = best(sources_of(graph, product.b, as_heads(product.second), (batch, heads, inner, columns)))
    turned = best(sources_of(graph, product.b, as_heads(product.second, True), (batch, heads, columns, inner)))
    second = _further(graph, direct, turned)
    if first is None or second is None:
        return None
    by_token = any(s.tokens or comes_by_token(graph, s.node) for s in (first, second))
    return _Form(first, second, second is turned, heads) if by_token or second.groups < heads else None


def best(sources: Iterable[Source], groups: int | None = None) -> Source | None:
    """The source furthest back that comes token by token, else the one furthest back."""
    fitting = [s for s in sources if groups in (None, s.groups)]
    return next((s for s in fitting if s.tokens), fitting[0] if fitting else None)


def _further(graph: MaseGraph, direct: Source | None, turned: Source | None) -> Source | None:
    """That which comes token by token, or lies further back."""
    if direct is None or turned is None:
        return direct or turned
    if direct.tokens != turned.tokens:
        return direct if direct.tokens else turned
    order = {node: place for place, node in enumerate(graph.nodes)}
    return turned if order[turned.node] < order[direct.node] else direct


def comes_by_token(graph: MaseGraph, node: fx.Node, seen: set[fx.Node] | None = None) -> bool:
    """Whether ``(batch, heads, tokens, size)`` is computed, element by element, from what comes token by token."""
    seen = set() if seen is None else seen
    shape = graph.tensor(node, "data_out_0").shape
    if len(shape) != 4 or shape[1] == 1 or node in seen:
        return False
    seen.add(node)
    size = (shape[0], shape[1], shape[2], shape[3])
    if any(s.tokens for s in sources_of(graph, node, lambda x: x, size)):
        return True
    op = graph.op_of(node)
    if op is None or (op.name not in _ELEMENTS and not graph.is_implicit(node) and op.name != "getitem"):
        return False
    data = [n for n in node.all_input_nodes if list(graph.meta_of(n).common.results.tensors) == ["data_out_0"]]
    return any(comes_by_token(graph, n, seen) for n in data)


_NAMES = ("query", "key", "value")


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
    unread = [source for source in node.all_input_nodes if stored_tensor(graph, source) is not None]
    _write_out(graph, node, e, tensors)
    drop(graph, unread)
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

    expand(graph, node, Formula(spread, **tensors), sources)


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
