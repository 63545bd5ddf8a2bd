"""Products of two streams, in whatever notation: as vectors of tokens and heads, and matrices of rows and groups."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from mase_hw.ops.products.matmul import grouped_matmul
from mase_hw.passes.transforms.lowering.operands import Expression
from mase_hw.passes.transforms.lowering.products import letters_of, terms_of
from mase_hw.passes.transforms.matrices._shared import Shared

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
    """

    left: str
    right: str
    out: str
    sizes: Mapping[str, int]
    stored: Mapping[str, int] = field(default_factory=dict)

    def with_shared(self, shared: Shared) -> Product | None:
        """The same with a second operand whose heads are stored once; None if that is not what is repeated."""
        letters = [self.right[dim] for dim in shared.dims]
        if self.right[shared.repeated] not in self.left or self.right[shared.repeated] not in self.out:
            return None
        kept = [(c, size) for c, size in zip(letters, shared.sizes, strict=True) if c != " "]
        right = "".join(sorted((c for c, _ in kept), key=lambda c: c != FRAMES))
        return dataclasses.replace(self, right=right, stored=dict(kept))


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
    frames = left[:1] if left[:1] == right[:1] == out[:1] and shape[:1] == (1,) else ""
    cut = [
        "".join(FRAMES if c == frames else " " if size == 1 else c for c, size in zip(term, dims, strict=True))
        for term, dims in zip(terms, (*shapes, shape), strict=True)
    ]
    return Product(cut[0], cut[1], cut[2], {**sizes, FRAMES: 1})


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
    shape = [-1 if c == FRAMES else p.sizes.get(c, 1) for c in p.out]
    given = [-1 if c == FRAMES else p.stored[c] for c in p.right] if p.stored else None

    def run(u: Tensor, v: Tensor) -> Tensor:
        v = v if given is None else torch.reshape(v, given)
        out = grouped_matmul(left.there(u), right.there(v), a.transposed)
        if last == list(range(len(made))):
            return torch.reshape(out, shape)
        out = torch.permute(torch.reshape(out, sizes), last)
        return out if len(wanted) == len(p.out) else torch.reshape(out, shape)

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
