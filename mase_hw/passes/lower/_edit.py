"""What transforms of float graphs share: taking nodes out, exchanging parameters, keeping metadata true."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize

from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import describe
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.paths import attribute_at
from mase_hw.ir.trace.inplace import written
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes.base import GraphPass, Info, NoArgs, graph_pass

OUTDATED = (
    "calibrate_analysis_pass",
    "profile_statistics_analysis_pass",
    "add_software_metadata_analysis_pass",
    "add_hardware_metadata_analysis_pass",
)
"""Passes whose results do not hold once weights or nodes of a float graph have changed."""
Lowering = Callable[[MaseGraph], Mapping[str, str | int]]
_OF_LOWERING = """
    Args:
        graph: A float graph with common metadata, calibrated later.
        args: None.

    Returns:
        The graph, ``modified``, and ``lowered``: node -> what it was.

    Raises:
        GraphError: If the graph is quantised already.
    """
Sharing = Mapping[int, Collection[str]]
"""Names of the nodes that read a parameter or buffer, by its identity."""


def refuse_quantised(graph: MaseGraph, what: str) -> None:
    """Transforms of float arithmetic belong before quantisation.

    Raises:
        GraphError: If a node is quantised already.
    """
    for node in graph.nodes:
        if isinstance(graph.meta_of(node).module, Quantized | QuantizeInput):
            raise GraphError(
                f"{what} works on a float graph, and this one is quantised",
                node=node.name,
                remedy="run it before quantize_transform_pass",
            )


def sharing(graph: MaseGraph) -> dict[int, set[str]]:
    """Who reads every parameter and buffer: identity of the tensor -> names of nodes."""
    readers: dict[int, set[str]] = {}
    for node in graph.nodes:
        module = graph.meta_of(node).module
        tensors: Iterable[Tensor] = _tensors(module) if module is not None else []
        if node.op == "get_attr":
            value = attribute_at(graph.model, str(node.target))
            tensors = [value] if isinstance(value, Tensor) else []
        for tensor in tensors:
            readers.setdefault(id(tensor), set()).add(node.name)
    return readers


def _tensors(module: nn.Module) -> list[Tensor]:
    """Parameters and buffers of a module; most have no others inside, which need not be looked for."""
    if module._modules:
        return [*module.parameters(), *module.buffers()]
    return [t for table in (module._parameters, module._buffers) for t in table.values() if t is not None]


def not_changeable(graph: MaseGraph, node: fx.Node, shared: Sharing) -> str | None:
    """Why the parameters of a node's module must not be changed; None if they may."""
    module = graph.meta_of(node).module
    if module is None:
        return f"{node.name} is a function; only layers that are modules can be changed"
    if parametrize.is_parametrized(module):
        return f"the parameters of {node.name} are computed (parametrization)"
    tensors = [t for t in (getattr(module, "weight", None), getattr(module, "bias", None)) if isinstance(t, Tensor)]
    if any(t.is_meta for t in tensors):
        return f"{node.name} is on the meta device and has no values"
    others = sorted(set().union(*[shared.get(id(t), set()) for t in tensors]) - {node.name})
    if others:
        return f"{node.name} shares its parameters with {', '.join(others)}"
    return None


def set_parameter(graph: MaseGraph, node: fx.Node, name: str, value: Tensor) -> None:
    """Give a node's module a new parameter (of the dtype and device of its weight) and record it."""
    module = graph.meta_of(node).module
    assert module is not None  # the caller has asked not_changeable()
    old, weight = getattr(module, name, None), module.get_parameter("weight")
    like = old if isinstance(old, Tensor) else weight
    made = nn.Parameter(value.detach().to(like.dtype).to(like.device), requires_grad=like.requires_grad)
    module.register_parameter(name, made)
    meta = graph.meta_of(node)
    args = meta.common.args
    before = args.tensors.get(name)
    kept = made.detach() if before is not None and before.value is not None else None
    described = describe(made, kept).as_parameter()
    args[name] = described
    meta.software.args.pop(name, None)


def changed(graph: MaseGraph, nodes: Iterable[fx.Node]) -> None:
    """Drop what is known about the values of nodes' results and of what reads them: they are other ones now."""
    for node in nodes:
        meta = graph.meta_of(node)
        for name, tensor in meta.common.results.tensors.items():
            tensor.value = None
            meta.software.results.pop(name, None)
            for user, arg in graph.consumers(node, name):
                graph.tensor(user, arg).value = None
                graph.meta_of(user).software.args.pop(arg, None)


def bypass(graph: MaseGraph, node: fx.Node, source: fx.Node) -> None:
    """Take a node out: its readers read ``source``, a tensor of the same shape, dtype and (now) values."""
    node.replace_all_uses_with(source)
    graph.fx_graph.erase_node(node)


def takes_result_of(graph: MaseGraph, node: fx.Node, later: fx.Node) -> None:
    """Record that a node now gives what a later one gave."""
    mine, theirs = graph.meta_of(node), graph.meta_of(later)
    mine.common.results = theirs.common.results
    mine.software.results = theirs.software.results


def carry_type(graph: MaseGraph, node: fx.Node) -> None:
    """Record with what reads a result, at once or in another shape, that its elements have another type now."""
    made = graph.tensor(node, "data_out_0")
    for user, arg in graph.consumers(node, "data_out_0"):
        taken = [graph.tensor(user, arg)]
        onward = graph.is_implicit(user) and taken[0].torch_dtype != made.torch_dtype
        if user.op == "output":
            taken.append(graph.tensor(user, arg.replace("in", "out")))
        elif onward and graph.tensor(user, "data_out_0").torch_dtype == taken[0].torch_dtype:
            taken.append(graph.tensor(user, "data_out_0"))
        for tensor in taken:
            tensor.type, tensor.precision, tensor.signed = made.type, list(made.precision), made.signed
            tensor.torch_dtype = made.torch_dtype
        if len(taken) == 2 and user.op != "output":
            carry_type(graph, user)


def may_alias(graph: MaseGraph, node: fx.Node, source: fx.Node) -> bool:
    """Whether taking ``node`` out could let an operation in place write what another node still reads."""
    writes = any(written(user, graph.model) is node for user in node.users)
    return writes and set(source.users) != {node}


def prune(graph: MaseGraph, nodes: list[fx.Node]) -> None:
    """Take out what nobody reads any more, and what only that read."""
    while nodes:
        node = nodes.pop()
        if node.users or node.op in ("placeholder", "output") or not graph.holds(node):
            continue
        if written(node, graph.model) is not None:
            continue
        nodes += node.all_input_nodes
        graph.fx_graph.erase_node(node)


def finish(graph: MaseGraph, spent: Collection[fx.Node] = ()) -> None:
    """Bring code, modules and the boundary in line after a change; nodes that are spent go if nobody reads them."""
    for node in reversed(graph.nodes):
        if (node.op == "get_attr" or node in spent) and not node.users:
            graph.fx_graph.erase_node(node)
    graph.fx_graph.lint()
    graph.model.delete_all_unused_submodules()
    graph.model.recompile()
    graph.refresh()


def lowering(name: str, what: str = "lowering") -> Callable[[Lowering], GraphPass[NoArgs]]:
    """Make a pass of a function that rewrites a float graph and says of every node what it was before.

    Args:
        name: Of the pass.
        what: Names it in the error for a graph that is quantised.
    """

    def decorate(rewrite: Lowering) -> GraphPass[NoArgs]:
        @functools.wraps(rewrite)
        def run(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
            refuse_quantised(graph, what)
            lowered = rewrite(graph)
            if lowered:
                finish(graph)
            return graph, {"modified": bool(lowered), "lowered": dict(lowered)}

        run.__doc__ = f"{rewrite.__doc__}{_OF_LOWERING}"
        return graph_pass(name, args=NoArgs, needs=(COMMON_PASS,), invalidates=OUTDATED)(run)

    return decorate


def wide(tensor: Tensor) -> Tensor:
    """A detached copy in float64."""
    return tensor.detach().to(torch.float64)
