"""Tensors that are written part by part: zeros of which rows are set, data of which a slice is replaced."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ops.movement.rearrange import NOTHING, Places, rearrange
from mase_hw.passes.lower.attention.places import recorded
from mase_hw.passes.lower.layers.call import Body, expression_of, formula, joined, spaced, stored_tensor

SCATTERS = frozenset({"slice_scatter", "select_scatter", "index_copy"})
"""Ops that give their first tensor with rows of their second one, by name."""
Row = tuple[int, int]
"""Where a row comes from: the number of a source, and the row of that."""


class _Write(NamedTuple):
    """A call that gives a tensor with other rows at some places; ``single``: one that lacks their dimension."""

    base: fx.Node | Tensor
    source: fx.Node | Tensor
    dim: int
    places: list[int]
    single: bool


def written_rows(graph: MaseGraph, node: fx.Node) -> tuple[Body, str] | None:
    """``y[:, 1:] = x[:, :-1]`` and the like, several in succession: the rows of the result one after the other.

    Rows in succession are slices, which are concatenated, with zeros where the rows are stored; to those they are
    added. Every second row and the like is a rearrangement. What is stored in the midst of data is chosen.
    """
    chain = _chain(graph, node)
    if not chain:
        return None
    shape, dim = tuple(graph.tensor(node, "data_out_0").shape), chain[0].dim
    sources = [chain[0].base, *(one.source for one in chain)]
    single = [False, *(one.single for one in chain)]
    sizes = [shape[dim], *(len(one.places) for one in chain)]
    rows: list[Row] = [(0, row) for row in range(shape[dim])]
    for number, one in enumerate(chain, 1):
        for row, place in enumerate(one.places):
            rows[place] = (number, row)
    known = [stored_tensor(graph, source) if isinstance(source, fx.Node) else source for source in sources]
    used = sorted({source for source, _ in rows})
    data = [k for k in used if known[k] is None]
    if not data or (dim == 0 and len(_runs(rows)) > 1):
        return None
    constant = torch.zeros(shape, dtype=graph.tensor(node, "data_out_0").torch_dtype)
    for place, (k, row) in enumerate(rows):
        value = known[k]
        if value is not None:
            whole = torch.broadcast_to(value.detach(), (*shape[:dim], *[sizes[k]] * (not single[k]), *shape[dim + 1 :]))
            constant.select(dim, place).copy_(whole if single[k] else whole.select(dim, row))
    constant.requires_grad_(any(v is not None and v.requires_grad for k, v in enumerate(known) if k in used))
    filled = _continued([row if row[0] in data else None for row in rows], sizes)
    midst = None not in filled and len(data) < len(used)
    apart = any(one.places != list(range(one.places[0], one.places[-1] + 1)) for one in chain)
    tensors = {"constant": constant} if midst or constant.requires_grad or bool(constant.any()) else {}
    if midst:
        flags = torch.tensor([known[k] is not None for k, _ in rows])
        tensors["stored"] = flags.reshape(-1, *[1] * (len(shape) - 1 - dim)).expand(shape)

    def run(s: Any, *given: Tensor) -> Tensor:
        x = {k: t.unsqueeze(dim) if single[k] else t for k, t in zip(data, given, strict=True)}
        if apart:
            made = _rearranged(x, filled, sizes, shape, dim)
        else:
            parts = [(None if a is None else _slice(x[a[0]], a[1], n, sizes[a[0]], dim), n) for a, n in _runs(filled)]
            made = spaced(parts, shape, dim)
        if midst:
            return torch.where(s.stored, s.constant, made)
        return made + s.constant if tensors else made.contiguous()

    body = formula(run, *(sources[k] for k in data), **tensors)
    return None if body is None else (body, "rows one after the other")


def _chain(graph: MaseGraph, node: Any) -> list[_Write]:
    """The writes along one dimension that end with a node, the first one first."""
    chain: list[_Write] = []
    while (one := _write(graph, node)) is not None and (not chain or one.dim == chain[0].dim):
        chain, node = [one, *chain], one.base
    return chain


def _write(graph: MaseGraph, node: Any) -> _Write | None:
    op = graph.op_of(node) if isinstance(node, fx.Node) else None
    e = expression_of(graph, node) if op is not None and op.name in SCATTERS else None
    if op is None or e is None:
        return None
    base, source = e.args.get("input"), e.args.get("src", e.args.get("source"))
    dim = int(e.args.get("dim", 0)) % len(e.shape)
    size, index = e.shape[dim], e.args.get("index")
    if op.name == "slice_scatter":
        places = list(range(size)[slice(e.args.get("start"), e.args.get("end"), e.args.get("step", 1))])
    else:
        given: list[Any] = index.tolist() if isinstance(index, Tensor) else [index]
        if not all(isinstance(place, int) for place in given):
            return None
        places = [int(place) % size for place in given]
    if not (isinstance(base, fx.Node | Tensor) and isinstance(source, fx.Node | Tensor)):
        return None
    if not places or len(set(places)) < len(places):
        return None
    return _Write(base, source, dim, places, isinstance(index, int))


def _runs(rows: Sequence[Row | None]) -> list[tuple[Row | None, int]]:
    """Where rows in succession begin, and how many they are."""
    runs: list[tuple[Row | None, int]] = []
    for row in rows:
        first, count = runs[-1] if runs else (None, 0)
        follows = row is None if first is None else row == (first[0], first[1] + count)
        if runs and follows:
            runs[-1] = (first, count + 1)
        else:
            runs.append((row, 1))
    return runs


def _continued(rows: Sequence[Row | None], sizes: Sequence[int]) -> list[Row | None]:
    """Rows of data in the place of stored ones, which others stand for, where they continue what is beside them."""
    made = list(rows)
    for order, step in ((range(1, len(made)), 1), (range(len(made) - 2, -1, -1), -1)):
        for place in order:
            beside = made[place - step]
            if made[place] is None and beside is not None and 0 <= beside[1] + step < sizes[beside[0]]:
                made[place] = (beside[0], beside[1] + step)
    return made if None not in made else list(rows)


def _slice(x: Tensor, begin: int, count: int, size: int, dim: int) -> Tensor:
    return x if count == size else x.narrow(dim, begin, count)


def _rearranged(
    x: Mapping[int, Tensor], rows: Sequence[Row | None], sizes: Sequence[int], shape: tuple[int, ...], dim: int
) -> Tensor:
    """Rows of several tensors, in any order."""
    starts, total = {}, 0
    for k in x:
        starts[k], total = total, total + sizes[k]
    given = (*shape[:dim], total, *shape[dim + 1 :])
    numbers = torch.arange(math.prod(given)).reshape(given)
    nothing = torch.full_like(numbers.select(dim, 0), NOTHING)
    found = [nothing if row is None else numbers.select(dim, starts[row[0]] + row[1]) for row in rows]
    places = Places.of(torch.stack(found, dim).reshape(-1).numpy(), math.prod(given))
    return recorded(rearrange, joined(list(x.values()), dim), shape=shape, **places.to_dict())
