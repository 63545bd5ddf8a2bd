"""Products of two streams become the one function that hardware has.

Matrices that are repeated for several heads, as a model with grouped queries writes them: stored once.

Products of two streams, in whatever notation: as vectors of tokens and heads, and matrices of rows and groups.

In which order the elements of a result will travel, as far as a float graph tells.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.trace.inplace import written
from mase_hw.layouts import Layout
from mase_hw.ops.movement.rearrange import NOTHING, IntArray
from mase_hw.ops.products.matmul import grouped_matmul
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.causal import causal_products
from mase_hw.passes.lower.layers.call import Body, Expression, expand, expression_of, formula
from mase_hw.passes.lower.layers.products import flat, letters_of, terms_of
from mase_hw.passes.lower.movement._calls import drop, sequence_of


@dataclass(frozen=True)
class Shared:
    """A tensor whose elements are those of another one, some of them several times.

    Args:
        source: Producer of the other one.
        dims: Dimensions of the tensor, in the order in which the other one has them.
        sizes: Their sizes in the other one.
        repeated: The dimension along which elements in succession are the same.
        share: How many.
    """

    source: fx.Node
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    repeated: int
    share: int


def shared_of(graph: MaseGraph, node: fx.Node) -> Shared | None:
    """What a tensor repeats along one dimension; None if nothing, or not evenly."""
    way = _way(graph, node)
    if not way:
        return None
    source = way[0].all_input_nodes[0]
    index: IntArray | None = None
    for step in way:
        found = sequence_of(graph, step, step.all_input_nodes[0])
        if found is None or (found == NOTHING).any():
            return None
        index = found if index is None else index[found]
    assert index is not None  # there is a step
    shape = graph.tensor(node, "data_out_0").shape
    return _evenly(index.reshape(shape), source, int(np.prod(graph.tensor(source, "data_out_0").shape)))


def _way(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """The calls from a rearrangement to a node that only rename elements; empty if there is none."""
    way: list[fx.Node] = []
    while True:
        op, data = graph.op_of(node), [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
        repeats = op is not None and op.name == "rearrange"
        # The calls are run on the number of each element, so their first argument is the tensor.
        if op is None or not (op.implicit or repeats) or len(data) != 1 or node.all_input_nodes[0] is not data[0]:
            return []
        way.insert(0, node)
        if repeats:
            return way
        node = data[0]


def _evenly(index: IntArray, source: fx.Node, elements: int) -> Shared | None:
    strides, repeated, share = [0] * index.ndim, -1, 1
    rebuilt: IntArray = np.zeros((1,) * index.ndim, np.int64)
    for dim, size in enumerate(index.shape):
        line = np.moveaxis(index, dim, 0).reshape(size, -1)[:, 0] - index.flat[0]
        again = int(np.count_nonzero(line == 0))
        strides[dim] = int(line[again]) if again < size else 0
        if again > 1:
            if repeated >= 0:
                return None
            repeated, share = dim, again
        rebuilt = rebuilt + (np.arange(size) // again * strides[dim]).reshape((-1,) + (1,) * (index.ndim - dim - 1))
    if repeated < 0 or index.shape[repeated] % share or not np.array_equal(rebuilt, index):
        return None
    sizes = [size // (share if dim == repeated else 1) for dim, size in enumerate(index.shape)]
    # Dimensions of one element have no place of their own; the first stays that of the frames.
    order = sorted(range(index.ndim), key=lambda d: (sizes[d] > 1, -strides[d], d))
    return (
        Shared(source, tuple(order), tuple(sizes[d] for d in order), repeated, share)
        if _dense([(sizes[d], strides[d]) for d in order if sizes[d] > 1], elements)
        else None
    )


def _dense(dims: Sequence[tuple[int, int]], elements: int) -> bool:
    """Whether dimensions of these sizes and strides, the largest stride first, cover everything once."""
    for size, stride in dims:
        if size * stride != elements:
            return False
        elements = stride
    return elements == 1


FRAMES = "*"
"""The letter of a dimension 0 of size 1, along which frames may be stacked."""


@dataclass(frozen=True)
class Product:
    """A sum of products with letters for dimensions, as in ``einsum``.

    Args:
        left: Letters of the first operand's dimensions; a space for one of size 1 that means nothing.
        right: The same of the second.
        out: The same of the result.
        sizes: Of every letter.
        stored: Of every letter of the second operand, if it is stored with fewer heads than the product has.
        folded: The tensors have heads of every frame as their dimension 0: the letters begin with both.
    """

    left: str
    right: str
    out: str
    sizes: Mapping[str, int]
    stored: Mapping[str, int] = field(default_factory=dict)
    folded: bool = False

    def with_shared(self, shared: Shared) -> Product | None:
        """The same with a second operand whose heads are stored once; None if that is not what is repeated."""
        letters = [self.right[self.folded :][dim] for dim in shared.dims]
        if self.repeated(shared) not in self.left or self.repeated(shared) not in self.out:
            return None
        letters, sizes = [FRAMES] * self.folded + letters, (1,) * self.folded + shared.sizes
        kept = [(c, size) for c, size in zip(letters, sizes, strict=True) if c != " "]
        right = "".join(sorted((c for c, _ in kept), key=lambda c: c != FRAMES))
        return dataclasses.replace(self, right=right, stored=dict(kept))

    def repeated(self, shared: Shared) -> str:
        """The letter of the dimension along which the second operand repeats."""
        return self.right[self.folded + shared.repeated]


def product_of(e: Expression, x: fx.Node, y: fx.Node, equation: str = "") -> Product | None:
    """What a product of two tensors of data computes; None if it is no sum of products with one term."""
    shapes = [e.shapes[x], e.shapes[y]]
    ranks = [len(shape) for shape in shapes]
    terms = terms_of(equation, ranks, len(e.shape)) if equation else letters_of(*ranks)
    return None if terms is None else _product(terms, shapes, e.shape)


def _product(terms: Sequence[str], shapes: Sequence[Sequence[int]], shape: Sequence[int]) -> Product | None:
    if any(len(set(term)) != len(term) for term in terms):
        return None
    sizes: dict[str, int] = {}
    for term, dims in zip(terms, (*shapes, shape), strict=True):
        for letter, size in zip(term, dims, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    left, right, out = terms
    # A letter of one operand alone that is summed over would be summed before.
    if any(c not in out and not (c in left and c in right) for c in left + right) or any(not s for s in sizes.values()):
        return None
    together = left[:1] == right[:1] == out[:1] and all(dims[:1] == shape[:1] for dims in shapes)
    folded = together and shape[0] > 1
    frames = left[:1] if together and not folded else ""
    cut = [
        FRAMES * folded
        + "".join(FRAMES if c == frames else " " if size == 1 else c for c, size in zip(term, dims, strict=True))
        for term, dims in zip(terms, (*shapes, shape), strict=True)
    ]
    return Product(cut[0], cut[1], cut[2], {**sizes, FRAMES: 1}, folded=folded)


@dataclass(frozen=True)
class Arrangement:
    """How a product is computed.

    Args:
        outer: Letters of the batch.
        tokens: Letters of the first operand alone.
        heads: Letters that each token has.
        summed: Letters that are summed over.
        rows: Letters of the second operand alone.
        transposed: The second operand comes with ``summed`` innermost.
    """

    outer: str
    tokens: str
    heads: str
    summed: str
    rows: str
    transposed: bool


def arrange(p: Product, left: Sequence[int], right: Sequence[int]) -> Arrangement:
    """Choose what needs no other order than that in which the operands come.

    Args:
        p: The product.
        left: Where the dimensions of the first operand stand in its stream, the slowest first.
        right: The same of the second.
    """
    at_left = {c: place for c, place in zip(p.left, left, strict=True) if c != " "}
    at_right = {c: place for c, place in zip(p.right, right, strict=True) if c != " "}
    shared = [c for c in at_left if c in at_right]
    summed = sorted((c for c in shared if c not in p.out), key=lambda c: at_left[c])
    tokens = sorted((c for c in at_left if c not in at_right), key=lambda c: at_left[c])
    rows = sorted((c for c in at_right if c not in at_left), key=lambda c: at_right[c])
    inner = max(at_right, key=lambda c: at_right[c], default="")
    transposed = bool(summed) and inner in summed
    # A part of the batch that comes inside of tokens, or of rows, belongs to each of them.
    stored = rows if transposed else summed
    before, place = (tokens, at_left) if tokens else (stored, at_right)
    first = min((place[c] for c in before), default=0)
    batch = [c for c in shared if c in p.out]
    heads = [c for c in batch if before and c != FRAMES and place[c] > first]
    outer = [c for c in batch if c not in heads]

    def order(of: Sequence[str]) -> str:
        return "".join(sorted(of, key=lambda c: (c != FRAMES, place[c])))

    return Arrangement(order(outer), "".join(tokens), order(heads), "".join(summed), "".join(rows), transposed)


def run_of(p: Product, a: Arrangement) -> Callable[[Tensor, Tensor], Tensor]:
    """The product as one function of operands in that arrangement, which reshapes and permutations make."""
    left = _Way(p.left, p.sizes, (a.outer, a.tokens, a.heads, a.summed))
    parts = (a.outer, a.rows, a.heads, a.summed) if a.transposed else (a.outer, a.summed, a.heads, a.rows)
    right = _Way(p.right, {**p.sizes, **p.stored}, parts)
    made = a.outer + a.tokens + a.heads + a.rows
    sizes = [p.sizes[c] for c in made]
    if made[:1] == FRAMES:
        sizes[0] = -1
    wanted = [c for c in p.out if c != " "]
    last = [made.index(c) for c in wanted]
    apart = {term: [-1 if c == FRAMES else p.sizes.get(c, 1) for c in term] for term in (p.left, p.right, p.out)}
    shape = [-1, *apart[p.out][2:]] if p.folded else apart[p.out]
    given = [-1 if c == FRAMES else p.stored[c] for c in p.right] if p.stored else apart[p.right] if p.folded else None

    def run(u: Tensor, v: Tensor) -> Tensor:
        u = torch.reshape(u, apart[p.left]) if p.folded else u
        v = v if given is None else torch.reshape(v, given)
        out = grouped_matmul(left.there(u), right.there(v), a.transposed)
        if last == list(range(len(made))):
            return torch.reshape(out, shape)
        out = torch.permute(torch.reshape(out, sizes), last)
        return out if len(wanted) == len(shape) else torch.reshape(out, shape)

    return run


class _Way:
    """From an operand to its four dimensions."""

    def __init__(self, letters: str, sizes: Mapping[str, int], parts: Sequence[str]) -> None:
        together = "".join(parts)
        self.order = [letters.index(c) for c in together] + [i for i, c in enumerate(letters) if c == " "]
        self.shape = [math.prod(sizes[c] for c in part) for part in parts]
        if together[:1] == FRAMES:
            self.shape[0] = -1

    def there(self, value: Tensor) -> Tensor:
        """The operand, as :func:`grouped_matmul` takes it."""
        moved = value if self.order == sorted(self.order) else torch.permute(value, self.order)
        return torch.reshape(moved, self.shape)


class Orders:
    """The order of every result of a graph, as the hardware metadata pass will choose it.

    A guess where a later pass still writes an op as others: what is wrong costs a reorder buffer, and nothing else.

    Args:
        graph: A float graph with common metadata.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        self.known: dict[fx.Node, Layout] = {}

    def of(self, node: fx.Node) -> Layout:
        """The order of the elements of a node's only result."""
        # Producers come first in a graph: no recursion as deep as the graph is long.
        todo = [node]
        while todo:
            missing = [n for n in self._data(todo[-1]) if n not in self.known]
            if missing and todo[-1] not in self.known:
                todo += missing
            else:
                last = todo.pop()
                self.known.setdefault(last, self._made(last))
        return self.known[node]

    def _data(self, node: fx.Node) -> list[fx.Node]:
        results = {n: self.graph.meta_of(n).common.results for n in node.all_input_nodes}
        return [n for n, made in results.items() if list(made.tensors) == ["data_out_0"]]

    def _made(self, node: fx.Node) -> Layout:
        meta, op = self.graph.meta_of(node), self.graph.op_of(node)
        shape = tuple(self.graph.tensor(node, "data_out_0").shape)
        plain, sources = Layout.row_major(shape), self._data(node)
        if op is None or not sources:
            return plain
        first = self.known[sources[0]]
        if op.implicit or op.relayout is not None:
            attributes = meta.common.args.attributes
            made = op.relayout(first, shape, attributes) if op.relayout is not None else first.reshaped(shape)
            return plain if made is None else made
        if op.hardware is None or op.hardware.layout == "any":
            # Element by element, where the shape stays.
            return next((self.known[n] for n in sources if self.known[n].shape == shape), plain)
        return Layout.channels_last(shape) if op.hardware.layout == "channels_last" else plain


def places(layout: Layout) -> list[int]:
    """Of every dimension, where it stands in the stream, the slowest first; -1 for a dimension of size 1."""
    found = []
    for dim in range(len(layout.shape)):
        factors = layout.factors_of(dim)
        found.append(max((layout.order.index(f) for f in factors), default=-1))
    return found


SUMS = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}
"""Names of the ops that add a product to something, and of their operands."""
PRODUCTS = frozenset({"matmul", "mm", "mv", "bmm", "einsum", *SUMS})
"""Names of the ops that multiply two tensors."""


@edit.lowering("lower_products_transform_pass")
def lower_products_transform_pass(graph: MaseGraph) -> dict[str, str]:
    """Write products of two tensors of data as ``grouped_matmul``, with reshapes and permutations around it.

    ``matmul``, ``@``, ``bmm``, ``mm``, ``mv``, ``addmm``, ``baddbmm`` and ``einsum`` of two operands, batched,
    broadcast and transposed in any way. The node keeps its name. A matrix that is repeated for several heads is stored
    once. Of the ways in which a product can be computed, the one is taken that uses both
    operands in the order in which they travel: attention, whose heads come token by token, needs no other order, and
    neither does a batch that comes matrix by matrix. Where there is none, the netlist puts a reorder buffer. Products
    before and behind a causal softmax leave out what it masks. Products with stored tensors are lowered before.
    """
    lowered: dict[str, str] = {}
    orders = Orders(graph)
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or op.name not in PRODUCTS or op.golden is not None or written(node, graph.model) is not None:
            continue
        body = _body(graph, node, op.name, orders)
        if body is not None:
            lowered[node.name] = op.name
            before = node.all_input_nodes
            expand(graph, node, body.module, body.sources)
            drop(graph, [n for n in before if n not in body.sources])
            # The node is the product now, and what follows it is another one.
            orders.known.pop(node, None)
    if lowered:
        causal_products(graph)
    return lowered


def _body(graph: MaseGraph, node: fx.Node, name: str, orders: Orders) -> Body | None:
    expression = expression_of(graph, node)
    if expression is None:
        return None
    given = flat(list(expression.args.values()))
    if name in SUMS:
        return _with_sum(graph, expression, name, orders)
    operands = [v for v in given if isinstance(v, fx.Node | Tensor)]
    equation = next((v for v in given if isinstance(v, str)), "") if name == "einsum" else ""
    if len(operands) != 2 or bool(equation) != (name == "einsum"):
        return None
    x, y = operands
    found = _product_of_operands(graph, expression, x, y, orders, equation)
    return None if found is None else formula(lambda s, u, v: found[0](u, v), x, found[1])


def _product_of_operands(
    graph: MaseGraph, e: Expression, x: object, y: object, orders: Orders, equation: str = ""
) -> tuple[Callable[[Tensor, Tensor], Tensor], fx.Node, bool] | None:
    """The function of two operands, the second one, which may be another node, and whether dimension 0 is heads.

    None if this is no product.
    """
    if not isinstance(x, fx.Node) or not isinstance(y, fx.Node):
        return None
    product = product_of(e, x, y, equation)
    if product is None:
        return None
    left = [-1] * product.folded + places(orders.of(x))
    shared = shared_of(graph, y)
    if shared is not None:
        once = product.with_shared(shared)
        order = None if once is None else orders.of(shared.source).reshaped([once.stored[c] for c in once.right])
        if once is not None and order is not None:
            way = arrange(once, left, places(order))
            # Heads in succession share a part of a row: those of the innermost dimension of heads.
            if way.heads[-1:] == product.repeated(shared):
                return run_of(once, way), shared.source, product.folded
    right = [-1] * product.folded + places(orders.of(y))
    return run_of(product, arrange(product, left, right)), y, product.folded


def _with_sum(graph: MaseGraph, e: Expression, name: str, orders: Orders) -> Body | None:
    """``beta * input + alpha * (x @ y)``."""
    start, alpha, beta = e.args.get("input"), e.args.get("alpha", 1), e.args.get("beta", 1)
    x, y = (e.args.get(operand) for operand in SUMS[name])
    found = _product_of_operands(graph, e, x, y, orders)
    if found is None or not isinstance(x, fx.Node) or not all(isinstance(v, int | float) for v in (alpha, beta)):
        return None
    run, second, folded = found

    def apart(value: Tensor, factor: float) -> Tensor:
        # What is added to each head of a frame is added to those of all frames.
        value = torch.reshape(value, [-1, *e.shape]) if folded else value
        return value if factor == 1 else torch.mul(value, factor)

    def total(b: Tensor, u: Tensor, v: Tensor) -> Tensor:
        made = torch.add(b, apart(run(u, v), alpha))
        return torch.reshape(made, [-1, *e.shape[1:]]) if folded else made

    if isinstance(start, Tensor):
        return formula(lambda s, u, v: total(s.start, u, v), x, second, start=start * beta)
    if not isinstance(start, fx.Node) or e.shapes[start] != e.shape:
        return None
    return formula(lambda s, b, u, v: total(apart(b, beta), u, v), start, x, second)
