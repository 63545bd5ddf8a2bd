"""What depends on the id of a token and its position alone, computed once for all of them: a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.positioned import positioned
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.fold_constants import compute
from mase_hw.passes.lower.layers.call import Line, call_of, expand, stored_tensor
from mase_hw.passes.lower.patterns.lower_patterns import ELEMENTS, KNOWN

BY_TOKEN = ELEMENTS | KNOWN.keys() | {"linear", "layer_norm", "rms_norm"}
"""Ops of a token's own elements: element by element, or along the last dimension."""
MOVED = frozenset({"reshape", "view", "flatten", "unflatten", "contiguous", "slice"})
"""Ops that move elements, each token's own where the dimensions of frame and tokens stay."""


class TabulateArgs(PassArgs):
    """Arguments of ``tabulate_transform_pass``."""

    most: NonNegativeInt = Field(default=0, description="elements of a table at most; 0: no tables are made")


@dataclass(frozen=True)
class _Tokens:
    """What a tensor ``(1, tokens, ...)`` depends on.

    Args:
        ids: The input, ``(1, tokens)``.
        rows: Ids that there are.
        placed: Whether it depends on the position as well.
    """

    ids: fx.Node
    rows: int
    placed: bool

    def entries(self, tokens: int) -> int:
        """Rows of its table: where positions count, of every position as many as the bits of an id can name."""
        return tokens << (self.rows - 1).bit_length() if self.placed else self.rows


def _table(values: Tensor, rows: int = 0) -> Line:
    """Rows by number, ``(1, tokens)`` -> ``(1, tokens, *shape)``.

    With ``rows``, by id: so many for every position, those of the first position first.
    """
    shape = tuple(values.shape[1:])
    table = nn.Embedding(len(values), values[0].numel(), _weight=values.flatten(1), _freeze=True)

    def run(numbers: Tensor) -> Tensor:
        found: Tensor = table(positioned(numbers, rows) if rows else numbers)
        return found if len(shape) == 1 else torch.unflatten(found, 2, shape)

    return Line(run, table=table)


@graph_pass("tabulate_transform_pass", args=TabulateArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def tabulate_transform_pass(graph: MaseGraph, args: TabulateArgs) -> tuple[MaseGraph, Info]:
    """Put tables in the place of what depends on the id of a token, or on its id and its position, alone.

    Partial evaluation (N. Jones, C. Gomard, P. Sestoft, 1993) over inputs that have few values: an embedding, stored
    positions that are added, norms, layers and activations of each token by itself, up to what meets other tokens, such
    as an attention. Its queries, keys and values are then rows of tables in the first block of a language model. Each
    table has a row for every id; or, where positions count, for every position as many as the bits of an id can name,
    those of ids that are none like the last one. Results of the model are the same up to the order in which floats are
    added.

    Args:
        graph: A float graph with common metadata, lowered, calibrated later, of one frame: ids are an input of it,
            ``(1, tokens)``.
        args: What is allowed.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> rows of its table.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "tabulating")
    found = _of_tokens(graph, args.most)
    lowered: dict[str, int] = {}
    numbers: dict[fx.Node, fx.Node] = {}
    values: dict[fx.Node, Tensor] = {}
    for ids, rows, placed in {(t.ids, t.rows, t.placed) for t in found.values()}:
        values |= _values(graph, [n for n, t in found.items() if t == _Tokens(ids, rows, placed)], found, ids, rows)
    for node, of in found.items():
        if all(user in found for user in node.users) or not _computes(graph, node, found):
            continue
        tokens, before = graph.tensor(of.ids, "data_out_0").shape[1], list(node.all_input_nodes)
        if not of.placed:
            expand(graph, node, _table(values[node]), [of.ids])
        elif of.ids in numbers:
            expand(graph, node, _table(values[node]), [numbers[of.ids]])
        else:
            at = expand(graph, node, _table(values[node], len(values[node]) // tokens), [of.ids])
            while at.target is not positioned:
                (at,) = at.all_input_nodes
            numbers[of.ids] = at
        lowered[node.name] = len(values[node])
        edit.prune(graph, before)
    if lowered:
        edit.finish(graph)
    return graph, {"modified": bool(lowered), "lowered": lowered}


def _computes(graph: MaseGraph, node: fx.Node, found: Mapping[fx.Node, _Tokens]) -> bool:
    """Whether a result is anything but elements of rows of an embedding."""
    op = graph.op_of(node)
    while op is not None and op.name in MOVED:
        (node,) = (source for source in node.all_input_nodes if source in found)
        op = graph.op_of(node)
    return op is not None and op.name != "embedding"


def _of_tokens(graph: MaseGraph, most: int) -> dict[fx.Node, _Tokens]:
    """Nodes whose tokens depend on their ids and positions alone, and whose tables are no larger, in order."""
    found: dict[fx.Node, _Tokens] = {}
    for node in graph.nodes:
        of = _embedded(graph, node) or _by_token(graph, node, found)
        if of is None or written(node, graph.model) is not None:
            continue
        shape = graph.tensor(node, "data_out_0").shape
        if of.entries(shape[1]) * math.prod(shape[2:]) <= most:
            found[node] = of
    return found


def _embedded(graph: MaseGraph, node: fx.Node) -> _Tokens | None:
    """Rows of a stored table for ids that are an input of one frame."""
    op = graph.op_of(node)
    call = call_of(graph, node) if op is not None and op.name == "embedding" else None
    if call is None or len(call.inputs) != 1 or "weight" not in call.parameters:
        return None
    (ids,), (shape,) = call.inputs, call.shapes
    one = ids.op == "placeholder" and len(shape) == 2 and shape[0] == 1
    return _Tokens(ids, len(call.parameters["weight"]), placed=False) if one else None


def _by_token(graph: MaseGraph, node: fx.Node, found: dict[fx.Node, _Tokens]) -> _Tokens | None:
    """What works on each token of such tensors by itself."""
    op = graph.op_of(node)
    results = graph.meta_of(node).common.results.tensors
    data = [n for n in node.all_input_nodes if n in found]
    if op is None or not data or list(results) != ["data_out_0"] or op.name not in BY_TOKEN | MOVED:
        return None
    first, shape = found[data[0]], tuple(results["data_out_0"].shape)
    tokens = graph.tensor(first.ids, "data_out_0").shape[1]
    ranks = {len(graph.tensor(n, "data_out_0").shape) for n in data}
    if shape[:2] != (1, tokens) or len(shape) < 3 or (op.name not in MOVED and ranks != {len(shape)}):
        return None
    placed = first.placed
    for other in node.all_input_nodes:
        if other in found:
            if (found[other].ids, found[other].rows) != (first.ids, first.rows):
                return None
            placed |= found[other].placed
            continue
        constant = stored_tensor(graph, other)
        if constant is None:
            return None
        along = constant.dim() - (len(shape) - 1)  # the dimension of the tokens
        placed |= along >= 0 and constant.shape[along] > 1
    return _Tokens(first.ids, first.rows, placed)


def _values(
    graph: MaseGraph, nodes: list[fx.Node], found: dict[fx.Node, _Tokens], ids: fx.Node, rows: int
) -> dict[fx.Node, Tensor]:
    """The tables of nodes that depend on the same ids and, all or none of them, on positions."""
    if not nodes:
        return {}
    tokens, placed = graph.tensor(ids, "data_out_0").shape[1], found[nodes[0]].placed
    shown = torch.arange(rows)
    if placed:
        frames = shown[:, None].expand(rows, tokens)
    else:
        frames = torch.cat([shown, shown[-1:].expand(-rows % tokens)]).reshape(-1, tokens)
    needed = [n for n, t in found.items() if (t.ids, t.rows) == (ids, rows)]
    given: dict[fx.Node, list[Tensor]] = {node: [] for node in nodes}
    for frame in frames:
        values: dict[fx.Node, Tensor] = {ids: frame[None]}
        for node in needed:
            for source in node.all_input_nodes:
                constant = None if source in values else stored_tensor(graph, source)
                if constant is not None:
                    values[source] = constant
            values[node] = compute(graph, node, values)
        for node in nodes:
            given[node].append(values[node][0])
    tables: dict[fx.Node, Tensor] = {}
    for node, parts in given.items():
        if placed:
            entries = 1 << (rows - 1).bit_length()
            made = torch.stack(parts, 1)  # (tokens, ids, ...)
            made = torch.cat([made, made[:, -1:].expand(-1, entries - rows, *made.shape[2:])], 1).flatten(0, 1)
        else:
            made = torch.cat(parts)[:rows]
        tables[node] = made.contiguous()
    return tables
