"""In which order the elements of a result will travel, as far as a float graph tells."""

from __future__ import annotations

from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.layouts import Layout


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
            attributes = {k: v for k, v in meta.common.args.items() if k not in meta.common.args.tensors}
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
