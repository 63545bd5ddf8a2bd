"""Constants that the model computes at every call, computed once."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.annotate import describe
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.module_paths import vanished
from mase_hw.ir.trace.inplace import written
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.transforms import _edit as edit
from mase_hw.passes.transforms.movement._stored_results import constant_results

DROPOUTS = (
    nn.functional.dropout,
    nn.functional.dropout1d,
    nn.functional.dropout2d,
    nn.functional.dropout3d,
    nn.functional.alpha_dropout,
    nn.functional.feature_alpha_dropout,
)


MADE = frozenset({"arange", "full", "ones", "zeros", "eye", "tensor"})
"""Ops that make a tensor of numbers."""
LIKE = {torch.zeros_like: 0, torch.ones_like: 1, torch.full_like: None}
"""Functions that take nothing of data but the shape, and the number that they fill it with; None if it is given."""
BROADCAST = frozenset({"where", "masked_fill", "add", "sub", "mul", "div", "maximum", "minimum"})
"""Ops to which one number is as good as a tensor of it."""


@graph_pass("fold_constants_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED[-1:])
def fold_constants_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Compute once what depends on no data: ``self.table[1]``, ``self.weight * self.mask``, ``arange(x.shape[1])``.

    That is what depends on parameters, buffers and numbers alone, and on the sizes of a frame (not on the number of
    frames); an embedding of such ids as well. ``zeros_like`` and its relatives are one number, where that is broadcast.

    The result is stored as ``<node>_folded``: a parameter if one of its parts is trained, else a buffer. Training then
    changes the result and no longer its parts. Random operations are never computed here, and no tensor that an
    operation in place writes is touched. Every result is the same, bit for bit.

    Args:
        graph: A float graph with common metadata.
        args: None.

    Returns:
        The graph, ``modified``, ``constants``: node -> new parameter or buffer, and ``results``: nodes that give a
        stored tensor as a result of the model, one frame of it for each frame of another stream.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "folding constants")
    constants = fold_constants(graph)
    results = constant_results(graph)
    if constants or results:
        edit.finish(graph)
    return graph, {"modified": bool(constants or results), "constants": constants, "results": results}


def fold_constants(graph: MaseGraph) -> dict[str, str]:
    """Compute nodes whose inputs are all constant, and store what remains of them; node -> parameter or buffer."""
    writes = {target for n in graph.nodes if (target := written(n, graph.model)) is not None}
    values: dict[fx.Node, Any] = {}
    trained: dict[fx.Node, bool] = {}
    data = _of_data(graph)
    for node in graph.nodes:
        if node in writes:
            continue
        if node.op == "get_attr":
            value = _attribute(graph.model, str(node.target))
            if isinstance(value, Tensor) and not value.is_meta:
                values[node], trained[node] = value, value.requires_grad
        elif (known := _of_shapes(graph, node)) is not None or (known := _filled(graph, node, data)) is not None:
            values[node], trained[node] = known, False
        elif node.op.startswith("call_") and _constant(graph, node, values):
            result = compute(graph, node, values)
            if result is not None:
                values[node] = result
                module = graph.meta_of(node).module
                own = [] if module is None else [p.requires_grad for p in module.parameters()]
                trained[node] = any(own) or any(trained[source] for source in node.all_input_nodes)
    made: dict[str, str] = {}
    for node in [n for n in values if n.op != "get_attr"]:
        # Inner steps disappear with the last one; several tensors at once are only ever inner.
        if isinstance(values[node], Tensor) and any(user not in values for user in node.users):
            made[node.name] = _store(graph, node, values[node], trained[node])
    for node in reversed([n for n in values if n.op != "get_attr"]):
        if not node.users:
            stored = f"and stored as {made[node.name]} " if node.name in made else ""
            vanished(graph, node, f"was computed once {stored}by fold_constants_transform_pass: it is a constant")
            graph.fx_graph.erase_node(node)
    return made


def _constant(graph: MaseGraph, node: fx.Node, values: dict[fx.Node, Any]) -> bool:
    sources, op = node.all_input_nodes, graph.op_of(node)
    if op is None or not all(source in values for source in sources) or (not sources and op.name not in MADE):
        return False
    if node.op == "call_module" and not isinstance(graph.meta_of(node).module, nn.Embedding):
        return False
    random = node.op == "call_function" and node.target in DROPOUTS
    return not random and written(node, graph.model) is None


def _of_shapes(graph: MaseGraph, node: fx.Node) -> Any:
    """What a question about a tensor of data is answered by, if that is the same for any number of frames."""
    if not node.all_input_nodes or node.op not in ("call_function", "call_method"):
        return None
    source, given = node.args[0], node.args[1:]
    if not isinstance(source, fx.Node):
        return None
    if node.target is getattr and given and given[0] == "device":
        tensors = graph.meta_of(source).common.results.tensors
        return torch.device("cpu") if tensors else None
    if node.op == "call_method" and node.target == "size" and given:
        return _size(graph, source, given[0])
    asked = source.target is getattr and source.args[1:] == ("shape",)
    whole = source.op == "call_method" and source.target == "size" and len(source.args) == 1
    if node.target is operator.getitem and (asked or whole) and isinstance(source.args[0], fx.Node):
        return _size(graph, source.args[0], given[0])
    return None


def _filled(graph: MaseGraph, node: fx.Node, data: set[fx.Node]) -> Tensor | None:
    """The number that fills a tensor as large as one of data, if all that read it broadcast."""
    if node.op != "call_function" or node.target not in LIKE or not _broadcast(graph, node, data):
        return None
    number: Any = LIKE[node.target]
    if number is None:
        number = node.args[1] if len(node.args) > 1 else node.kwargs["fill_value"]
    dtype = graph.tensor(node, "data_out_0").torch_dtype
    return torch.full((), number, dtype=dtype) if isinstance(number, int | float) else None


def _broadcast(graph: MaseGraph, node: fx.Node, data: set[fx.Node]) -> bool:
    """Whether what reads a node has the same shape if the node is one number, or is read by such."""
    for user in node.users:
        op = graph.op_of(user)
        if op is None or op.name not in BROADCAST or written(user, graph.model) is not None:
            return False
        shape = graph.tensor(user, "data_out_0").shape
        whole = (graph.tensor(n, "data_out_0").shape == shape for n in user.all_input_nodes if n in data)
        if not any(whole) and not _broadcast(graph, user, data):
            return False
    return bool(node.users)


def _of_data(graph: MaseGraph) -> set[fx.Node]:
    """Tensors whose numbers depend on data, not only their shape."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        read = any(source in found for source in node.all_input_nodes) and node.target not in LIKE
        if (node.op == "placeholder" or read) and graph.meta_of(node).common.results.tensors:
            found.add(node)
    return found


def _size(graph: MaseGraph, node: fx.Node, dim: Any) -> int | None:
    tensors = graph.meta_of(node).common.results.tensors
    if list(tensors) != ["data_out_0"] or not isinstance(dim, int):
        return None
    shape = tensors["data_out_0"].shape
    return int(shape[dim]) if len(shape) and dim % len(shape) else None


def compute(graph: MaseGraph, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """The value of a node, or None if it is no tensor or tuple of them, or depends on chance."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])

    def run() -> Any:
        module = graph.meta_of(node).module
        if module is not None:
            return module(*args, **kwargs)
        if callable(node.target):
            return node.target(*args, **kwargs)
        return getattr(args[0], node.target)(*args[1:], **kwargs)

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before = torch.random.get_rng_state()
        result = run()
        drawn = not torch.equal(before, torch.random.get_rng_state())
    if isinstance(result, int) and not isinstance(result, bool):
        return result
    parts = result if isinstance(result, tuple | list) else (result,)
    if drawn or not all(isinstance(part, Tensor) for part in parts):
        return None
    return result.clone() if isinstance(result, Tensor) else [part.clone() for part in parts]


def _store(graph: MaseGraph, node: fx.Node, value: Tensor, trained: bool) -> str:
    """Put a tensor of the model in the place of a computed constant."""
    name = f"{node.name}_folded"
    while hasattr(graph.model, name):
        name += "_"
    if trained:
        graph.model.register_parameter(name, nn.Parameter(value))
    else:
        graph.model.register_buffer(name, value)
    with graph.fx_graph.inserting_before(node):
        constant = graph.fx_graph.create_node("get_attr", name, name=name)
    meta = constant.meta["mase"] = MaseMetadata(constant, graph.model)
    kept = graph.meta_of(node).common.results.tensors
    stored = _attribute(graph.model, name)
    keep = any(tensor.value is not None for tensor in kept.values())
    meta.common.mase_type, meta.common.mase_op = "get_attr", "constant"
    meta.common.results["data_out_0"] = describe(stored, stored.detach() if keep else None)
    node.replace_all_uses_with(constant)
    for user, argument in graph.consumers(constant, "data_out_0"):
        args = graph.meta_of(user).common.args
        if args.tensors[argument].shape != meta.common.results["data_out_0"].shape:  # one number for a whole tensor
            args[argument] = describe(stored, stored.detach() if keep else None)
    return name


def _attribute(model: nn.Module, path: str) -> Any:
    value: Any = model
    for part in path.split("."):
        value = getattr(value, part)
    return value
