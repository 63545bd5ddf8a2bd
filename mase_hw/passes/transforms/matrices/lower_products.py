"""Products of two streams become the one function that hardware has."""

from __future__ import annotations

from torch import fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.operands import Body, expression_of
from mase_hw.passes.transforms.matrices._products import arrange, body_of, product_of
from mase_hw.passes.transforms.matrices.stream_order import Orders, places

PRODUCTS = frozenset({"matmul", "mm", "mv", "bmm", "einsum"})
"""Names of the ops that multiply two tensors."""


@graph_pass("lower_products_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_products_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Write products of two tensors of data as ``grouped_matmul``, with reshapes and permutations around it.

    ``matmul``, ``@``, ``bmm``, ``mm``, ``mv`` and ``einsum`` of two operands, batched, broadcast and transposed in any
    way. The node keeps its name. Of the ways in which a product can be computed, the one is taken that uses both
    operands in the order in which they travel: attention, whose heads come token by token, needs no other order, and
    neither does a batch that comes matrix by matrix. Where there is none, the netlist puts a reorder buffer.

    Args:
        graph: A float graph with common metadata, calibrated later. Products with stored tensors are lowered before.
        args: None.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> what it was.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "lowering")
    lowered: dict[str, str] = {}
    orders = Orders(graph)
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or op.name not in PRODUCTS or op.golden is not None or written(node, graph.model) is not None:
            continue
        body = _body(graph, node, op.name, orders)
        if body is not None:
            lowered[node.name] = op.name
            expand(graph, node, body.module, body.sources)
            # The node is the product now, and what follows it is another one.
            orders.known.pop(node, None)
    if lowered:
        edit.finish(graph)
    return graph, {"modified": bool(lowered), "lowered": lowered}


def _body(graph: MaseGraph, node: fx.Node, name: str, orders: Orders) -> Body | None:
    expression = expression_of(graph, node)
    product = None if expression is None else product_of(name, expression)
    if expression is None or product is None:
        return None
    x, y = _operands(expression.args.values())
    way = arrange(product, places(orders.of(x)), places(orders.of(y)))
    return body_of(product, way, x, y)


def _operands(values: object) -> list[fx.Node]:
    """The nodes among arguments, one for each place."""
    found: list[fx.Node] = []
    fx.node.map_arg(tuple(values), lambda n: found.append(n) or n)  # type: ignore[arg-type, func-returns-value]
    return found
