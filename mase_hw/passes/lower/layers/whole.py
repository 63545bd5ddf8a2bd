"""What a pass looks at before its rules: several results of one call, and reductions of all that a frame has.

Images and sequences without a dimension of frames, which PyTorch takes and hardware does not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import arguments, new_metadata
from mase_hw.ops.rows.statistics import correction_of, dims_of
from mase_hw.passes.lower.layers.call import Call
from mase_hw.passes.lower.movement._calls import become, fields_of, insert, replaced

_KINDS = ("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "lp_pool")
SPATIAL = {f"{kind}{dims}d": dims for kind in _KINDS for dims in (1, 2, 3)}
"""Dimensions of space that a layer works on, by the name of the op."""
_PADS = {"reflection_pad", "replication_pad", "circular_pad"}


def refuse_unbatched(call: Call) -> None:
    """Refuse a layer of images whose first input has no dimension for frames.

    Raises:
        UnsupportedError: Says which shape there should be.
    """
    spatial = SPATIAL.get(call.op)
    if call.op in _PADS or (call.op == "pad" and call.attributes.get("mode", "constant") != "constant"):
        given = call.attributes.get("pad", call.attributes.get("padding"))
        spatial = len(given) // 2 if isinstance(given, list | tuple) else None
    if spatial is None or len(call.shapes[0]) != spatial + 1:
        return
    raise UnsupportedError(
        "the batch dimension is missing",
        node=call.name,
        field="data_in_0",
        got=list(call.shapes[0]),
        expected=f"(N, C, {', '.join('DHW'[3 - spatial :] if spatial > 1 else 'L')}): the first dimension is that of "
        "frames",
        remedy="give the model an example with a first dimension of 1: x.unsqueeze(0)",
    )


Given = Attributes
"""Arguments of a call that are no tensors, by name."""


def _moment(function: Callable[..., Any]) -> Callable[[Given], tuple[Any, list[Any]]]:
    return lambda given: (function, [1, bool(correction_of(given))])


def _plain(function: Callable[..., Any]) -> Callable[[Given], tuple[Any, list[Any]]]:
    return lambda given: (function, [1])


_OF_ROW: Mapping[str, Callable[[Given], tuple[Any, list[Any]]]] = {
    "sum": _plain(torch.sum),
    "mean": _plain(torch.mean),
    "amax": _plain(torch.amax),
    "amin": _plain(torch.amin),
    "max": _plain(torch.amax),
    "min": _plain(torch.amin),
    "argmax": _plain(torch.argmax),
    "argmin": _plain(torch.argmin),
    "any": _plain(torch.any),
    "all": _plain(torch.all),
    "count_nonzero": _plain(torch.count_nonzero),
    "logsumexp": _plain(torch.logsumexp),
    "var": _moment(torch.var),
    "std": _moment(torch.std),
    "norm": lambda given: (torch.norm, [given.get("p", given.get("ord", 2)), 1]),
}
"""The same reduction of the last dimension of a matrix: function, and what follows the tensor."""


def whole_frames(graph: MaseGraph) -> dict[str, str]:
    """Reductions over all dimensions of one frame, as those of its elements in a row; node -> what it was.

    ``x.mean()`` of an example ``(1, ...)`` is one number for each frame. Where the example has several rows along
    dimension 0, it would mix them, and is left as it is.
    """
    lowered: dict[str, str] = {}
    for node in graph.nodes:
        meta = graph.meta_of(node)
        name, args = str(meta.common.mase_op), meta.common.args
        row = _OF_ROW.get(name)
        if row is None or list(args.tensors) != ["data_in_0"] or list(meta.common.results.tensors) != ["data_out_0"]:
            continue
        source = graph.sources(node)["data_in_0"][0]
        shape = tuple(graph.tensor(source, "data_out_0").shape)
        if len(shape) < 2 or shape[0] != 1 or args.get("dtype") is not None:
            continue
        given = args.attributes
        if correction_of(given) not in (0, 1) or dims_of(given, len(shape)) != tuple(range(len(shape))):
            continue
        made = tuple(graph.tensor(node, "data_out_0").shape)
        flat = insert(graph, node, torch.reshape, [source], [(1, math.prod(shape))], f"{node.name}_row")
        function, more = row(given)
        become(graph, node, function, [flat], more)
        _shaped(graph, node, made)
        lowered[node.name] = name
    return lowered


def behind_frames(graph: MaseGraph) -> dict[str, str]:
    """Reductions of a dimension 0 in front of that of the frames (of a stack, or moved there); node -> what it was."""
    lowered: dict[str, str] = {}
    for node in graph.nodes:
        meta = graph.meta_of(node)
        name, args = str(meta.common.mase_op), meta.common.args
        if name not in _OF_ROW or list(args.tensors) != ["data_in_0"]:
            continue
        source = graph.sources(node)["data_in_0"][0]
        shape = graph.tensor(source, "data_out_0").shape
        given = args.attributes
        if len(shape) < 2 or given.get("dim") is None or dims_of(given, len(shape)) != (0,) or shape[1] != 1:
            continue
        if _moved_to_front(graph, source):
            turned = insert(graph, node, torch.transpose, [source], [0, 1], f"{node.name}_turned")
            node.replace_input_with(source, turned)
            node.args = (turned, *((1,) if len(node.args) > 1 else ()), *node.args[2:])
            node.kwargs = {key: 1 if key in ("dim", "axis") else value for key, value in node.kwargs.items()}
            args["dim"], args["data_in_0"] = 1, graph.tensor(turned, "data_out_0").copy()
            lowered[node.name] = name
    return lowered


def _moved_to_front(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether dimension 0 of a tensor is one of each frame, and not that of the frames."""
    name, shape = str(graph.meta_of(node).common.mase_op), graph.tensor(node, "data_out_0").shape
    if shape[0] == 1:
        return False
    if name == "stack":
        return (graph.meta_of(node).common.args.get("dim") or 0) in (0, -len(shape))
    args = graph.meta_of(node).common.args
    if name == "cat":
        return not args.get("dim", 0) and all(_has_new_front(graph, part) for part in node.all_input_nodes)
    if name in ("permute", "transpose", "swapaxes"):
        order: Any = args.get("dims") or (args.get("dim0", args.get("axis0")), args.get("dim1", args.get("axis1")))
        if name == "permute":
            return bool(order[1] % len(shape) == 0)
        return {d % len(shape) for d in order} == {0, 1}
    before = [n for n in node.all_input_nodes if list(graph.meta_of(n).common.results.tensors) == ["data_out_0"]]
    op = graph.op_of(node)
    each = op is not None and op.hardware is not None and op.hardware.layout == "any"
    return each and any(graph.tensor(n, "data_out_0").shape == shape and _moved_to_front(graph, n) for n in before)


def _has_new_front(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether a tensor is another one with a dimension of 1 in front."""
    name, args = str(graph.meta_of(node).common.mase_op), graph.meta_of(node).common.args
    if name == "getitem":
        index = node.args[1]
        return index is None or (isinstance(index, tuple) and index[:1] == (None,))
    return name == "unsqueeze" and args.get("dim") in (0, -len(graph.tensor(node, "data_out_0").shape))


def _shaped(graph: MaseGraph, node: fx.Node, shape: tuple[int, ...]) -> None:
    """Give a result its shape back, for its readers."""
    users = list(node.users)
    back = insert(graph, node.next, torch.reshape, [node], [shape], f"{node.name}_back")
    for user in users:
        user.replace_input_with(node, back)


_PAIRS: Mapping[str, tuple[Any, Any]] = {
    "var_mean": (torch.var, torch.mean),
    "std_mean": (torch.std, torch.mean),
    "aminmax": (torch.amin, torch.amax),
}
_BOTH = ("max", "min", "topk", "sort", "kthvalue", "median")
"""Values and their places."""


def results_apart(graph: MaseGraph) -> dict[str, str]:
    """Calls of several results that leave the model as one, each result by itself; and two statistics of one call.

    Returns:
        Node -> what it was.
    """
    (output,) = (node for node in graph.nodes if node.op == "output")
    changed: dict[str, str] = {}
    for node in graph.nodes:
        meta = graph.meta_of(node)
        name = str(meta.common.mase_op)
        if name not in (*_PAIRS, *_BOTH) or len(meta.common.results.tensors) < 2:
            continue
        if output in node.users:
            _returned(graph, node, output)
            changed[node.name] = name
        if name in _PAIRS and _each_by_itself(graph, node, _PAIRS[name]):
            changed[node.name] = name
    return changed


def _returned(graph: MaseGraph, node: fx.Node, output: fx.Node) -> None:
    """Let the output read the results one by one."""
    parts = []
    for index, tensor in enumerate(graph.meta_of(node).common.results.tensors.values()):
        with graph.fx_graph.inserting_before(output):
            part = graph.fx_graph.create_node(
                "call_function", operator.getitem, (node, index), {}, name=f"{node.name}_{index}"
            )
        meta = new_metadata(graph, part)
        results = {node: graph.meta_of(node).common.results}
        meta.common.args = arguments(graph, part, results, lambda value: value.detach().clone())
        meta.common.results["data_out_0"] = tensor.copy()
        parts.append(part)
    output.args = fx.node.map_arg(output.args, lambda n: tuple(parts) if n is node else n)


def _each_by_itself(graph: MaseGraph, node: fx.Node, functions: tuple[Any, Any]) -> bool:
    """Two statistics as a call each, for those that are read."""
    found = fields_of(node)
    args = graph.meta_of(node).common.args
    given = args.attributes
    if correction_of(given) not in (0, 1) or list(args.tensors) != ["data_in_0"]:
        return False
    source = graph.sources(node)["data_in_0"][0]
    rank = len(graph.tensor(source, "data_out_0").shape)
    dims, keep = dims_of(given, rank), bool(given.get("keepdim", False))
    for user, index in found:
        function = functions[index]
        moment = function in (torch.var, torch.std)
        become(graph, user, function, [source], [dims, bool(correction_of(given)), keep] if moment else [dims, keep])
    return replaced(graph, node, found)
