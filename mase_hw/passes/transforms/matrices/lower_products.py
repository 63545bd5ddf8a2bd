"""Products of two streams become the one function that hardware has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.trace.inplace import written
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit
from mase_hw.passes.transforms.lowering.expand import expand
from mase_hw.passes.transforms.lowering.operands import Body, Expression, expression_of, formula
from mase_hw.passes.transforms.matrices._products import arrange, product_of, run_of
from mase_hw.passes.transforms.matrices._shared import shared_of
from mase_hw.passes.transforms.matrices.stream_order import Orders, places
from mase_hw.passes.transforms.movement._calls import drop

SUMS = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}
"""Names of the ops that add a product to something, and of their operands."""
PRODUCTS = frozenset({"matmul", "mm", "mv", "bmm", "einsum", *SUMS})
"""Names of the ops that multiply two tensors."""


@graph_pass("lower_products_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_products_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Write products of two tensors of data as ``grouped_matmul``, with reshapes and permutations around it.

    ``matmul``, ``@``, ``bmm``, ``mm``, ``mv``, ``addmm``, ``baddbmm`` and ``einsum`` of two operands, batched,
    broadcast and transposed in any way. The node keeps its name. A matrix that is repeated for several heads is stored
    once. Of the ways in which a product can be computed, the one is taken that uses both
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
            before = node.all_input_nodes
            expand(graph, node, body.module, body.sources)
            drop(graph, [n for n in before if n not in body.sources])
            # The node is the product now, and what follows it is another one.
            orders.known.pop(node, None)
    if lowered:
        edit.finish(graph)
    return graph, {"modified": bool(lowered), "lowered": lowered}


def _body(graph: MaseGraph, node: fx.Node, name: str, orders: Orders) -> Body | None:
    expression = expression_of(graph, node)
    if expression is None:
        return None
    given = _flat(list(expression.args.values()))
    if name in SUMS:
        return _with_sum(graph, expression, name, orders)
    operands = [v for v in given if isinstance(v, fx.Node | Tensor)]
    equation = next((v for v in given if isinstance(v, str)), "") if name == "einsum" else ""
    if len(operands) != 2 or bool(equation) != (name == "einsum"):
        return None
    x, y = operands
    found = _product(graph, expression, x, y, orders, equation)
    return None if found is None else formula(lambda s, u, v: found[0](u, v), x, found[1])


def _product(
    graph: MaseGraph, e: Expression, x: object, y: object, orders: Orders, equation: str = ""
) -> tuple[Callable[[Tensor, Tensor], Tensor], fx.Node] | None:
    """The function of two operands, and the second one, which may be another node; None if this is no product."""
    if not isinstance(x, fx.Node) or not isinstance(y, fx.Node):
        return None
    product = product_of(e, x, y, equation)
    if product is None:
        return None
    left = places(orders.of(x))
    shared = shared_of(graph, y)
    if shared is not None:
        once = product.with_shared(shared)
        order = None if once is None else orders.of(shared.source).reshaped([once.stored[c] for c in once.right])
        if once is not None and order is not None:
            way = arrange(once, left, places(order))
            # Heads in succession share a part of a row: those of the innermost dimension of heads.
            if way.heads[-1:] == product.right[shared.repeated]:
                return run_of(once, way), shared.source
    return run_of(product, arrange(product, left, places(orders.of(y)))), y


def _with_sum(graph: MaseGraph, e: Expression, name: str, orders: Orders) -> Body | None:
    """``beta * input + alpha * (x @ y)``."""
    start, alpha, beta = e.args.get("input"), e.args.get("alpha", 1), e.args.get("beta", 1)
    x, y = (e.args.get(operand) for operand in SUMS[name])
    found = _product(graph, e, x, y, orders)
    if found is None or not isinstance(x, fx.Node) or not all(isinstance(v, int | float) for v in (alpha, beta)):
        return None
    run, second = found

    def scaled(value: Tensor, factor: float) -> Tensor:
        return value if factor == 1 else torch.mul(value, factor)

    if isinstance(start, Tensor):
        return formula(lambda s, u, v: torch.add(scaled(run(u, v), alpha), s.start), x, second, start=start * beta)
    if not isinstance(start, fx.Node) or e.shapes[start] != e.shape:
        return None
    return formula(lambda s, b, u, v: torch.add(scaled(b, beta), scaled(run(u, v), alpha)), start, x, second)


def _flat(values: Sequence[object]) -> list[object]:
    """The values, and what is in lists among them."""
    return [v for value in values for v in (_flat(value) if isinstance(value, tuple | list) else [value])]
