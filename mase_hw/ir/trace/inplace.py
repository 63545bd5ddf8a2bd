"""Operations that write their argument, in a graph whose edges are to carry the data.

In PyTorch ``x.relu_()`` changes what every later reader of ``x`` sees; in a dataflow graph nothing but an edge does.
So later readers are connected to the operation that wrote, which returns the same tensor: the graph computes what it
did before, and its edges say so.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

from torch import fx

from mase_hw.ir.paths import module_at
from mase_hw.ir.trace.signatures import bind
from mase_hw.ops.software import setitem

_RESHAPING = frozenset({"squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "t_"})
"""Methods that change the shape of a tensor and write no number."""


def follow_writes(graph: fx.Graph, root: Any) -> None:
    """Connect readers of a written tensor to the operation that wrote it last.

    Writes through another view of the tensor are not seen here, but refused when the graph is evaluated.

    Args:
        graph: A traced graph; it is changed.
        root: The module it belongs to.
    """
    position = {node: index for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        target = written(node, root)
        if target is None:
            continue
        if node.target is operator.setitem:
            node.target = setitem
        if node.target in _RESHAPING:
            node.target = str(node.target).removesuffix("_")
        for reader in [user for user in target.users if position[user] > position[node]]:
            reader.replace_input_with(target, node)


def written(node: fx.Node, root: Any) -> fx.Node | None:
    """The node whose tensor a node writes, or None."""
    first = next(iter(node.all_input_nodes), None)
    if first is None:
        return None
    if node.op == "call_module":
        return first if getattr(module_at(root, str(node.target)), "inplace", False) is True else None
    if node.op == "call_method":
        writes = str(node.target).endswith("_") and not str(node.target).endswith("__")
    elif node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        writes = node.target in (operator.setitem, setitem) or (
            name.endswith("_") and name not in ("and_", "or_", "not_")
        )
        writes = writes or _inplace_flag(node)
    else:
        writes = False
    return first if writes else None


def _inplace_flag(node: fx.Node) -> bool:
    if "inplace" in node.kwargs:
        return node.kwargs["inplace"] is True
    if not inspect.isfunction(node.target):
        return False
    return (
        dict(bind(node.target, node.args, dict(node.kwargs), lambda v: isinstance(v, fx.Node))).get("inplace") is True
    )
