"""The invariants of the graph and its metadata, checked after every pass in tests."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor, fx

from mase_hw.catalogue import MASE_TYPES
from mase_hw.errors import GraphError, MaseHwError
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.metadata import TensorMetadata
from mase_hw.ir.propagate import boundary
from mase_hw.passes.base import Info, PassArgs, graph_pass


class VerifyArgs(PassArgs):
    """Arguments of :func:`verify_analysis_pass`."""

    formats: bool = Field(default=True, description="also compare types and precisions along the edges")


@graph_pass("verify_analysis_pass", args=VerifyArgs, needs=(COMMON_PASS,))
def verify_analysis_pass(graph: MaseGraph, args: VerifyArgs) -> tuple[MaseGraph, Info]:
    """Check that the metadata of every node is complete and agrees with its neighbours and its module.

    Raises:
        GraphError: Names the node, and both sides where two things disagree.
    """
    try:
        graph.fx_graph.lint()
    except RuntimeError as error:
        raise _broken("graph", "the fx graph is not well formed", str(error)) from error
    edges = 0
    for node in graph.nodes:
        _check_node(graph, node)
        edges += _check_edges(graph, node, args.formats)
    _check_boundary(graph)
    return graph, {"nodes": len(graph.nodes), "edges": edges}


def _broken(node: str, problem: str, got: Any = None, expected: Any = None) -> GraphError:
    return GraphError(
        problem,
        node=node,
        got=got,
        expected=expected,
        remedy="the pass that ran last left the graph inconsistent",
    )


def _check_node(graph: MaseGraph, node: fx.Node) -> None:
    meta = graph.meta_of(node)
    if meta.node is not node or meta.model is not graph.model:
        raise _broken(node.name, "metadata belongs to another node or model")
    common, op = meta.common, graph.op_of(node)
    if op is not None:
        expected = (op.mase_type or common.mase_type, op.name)
    elif node.op in STRUCTURAL:
        expected = STRUCTURAL[node.op]
    else:
        raise _broken(node.name, "the node is no op of the catalogue", node.target)
    if (common.mase_type, common.mase_op) != expected or common.mase_type not in MASE_TYPES:
        raise _broken(node.name, "wrong mase_type or mase_op", (common.mase_type, common.mase_op), expected)
    if node.users and not common.results:
        raise _broken(node.name, "the node is read, but no result of it is recorded")
    for name, tensor in {**common.args, **common.results}.items():
        if isinstance(tensor, TensorMetadata):
            _check_tensor(f"{node.name}.{name}", tensor)
    for name in op.parameters if op is not None else ():
        parameter = getattr(meta.module, name, None)
        if isinstance(parameter, Tensor) and list(parameter.shape) != getattr(common.args.get(name), "shape", None):
            raise _broken(
                f"{node.name}.{name}",
                "metadata and module disagree",
                common.args.get(name),
                list(parameter.shape),
            )


def _check_tensor(where: str, tensor: TensorMetadata) -> None:
    if not all(isinstance(size, int) and size >= 0 for size in tensor.shape):
        raise _broken(where, "a shape has a size that is not a number", tensor.shape)
    lengths = {"float": (1,), "fixed": (2,), "NA": (0, 1)}[tensor.type]
    if len(tensor.precision) not in lengths or not all(isinstance(p, int) for p in tensor.precision):
        raise _broken(where, f"precision of type {tensor.type!r} is malformed", tensor.precision)
    try:
        _ = tensor.fmt
    except MaseHwError as error:
        raise _broken(where, "precision is no fixed-point format", error.message) from error


def _check_edges(graph: MaseGraph, node: fx.Node, formats: bool) -> int:
    args = graph.meta_of(node).common.args.tensors
    sources = graph.sources(node)
    module = graph.meta_of(node).module
    own = {n for n in args if n not in sources and isinstance(getattr(module, n, None), Tensor)}
    if set(args) != set(sources) | own:
        raise _broken(node.name, "tensor arguments and edges disagree", sorted(args), sorted(set(sources) | own))
    for name, (producer, result) in sources.items():
        arg, source = args[name], graph.tensor(producer, result)
        where, other = f"{node.name}.{name}", f"{producer.name}.{result}"
        if arg.shape != source.shape:
            raise _broken(where, f"shape differs from {other}", arg.shape, f"{source.shape} of {other}")
        mine, theirs = ((t.type, t.precision, t.fmt) for t in (arg, source))
        if formats and mine != theirs:
            raise _broken(
                where,
                f"format differs from {other}",
                f"{arg.type} {arg.precision}",
                f"{source.type} {source.precision} of {other}; a cast belongs between them",
            )
    return len(sources)


def _check_boundary(graph: MaseGraph) -> None:
    recorded, actual = graph.metadata.common, boundary(graph)
    for side in ("nodes_in", "nodes_out"):
        if getattr(recorded, side) != getattr(actual, side):
            raise _broken("graph", f"{side} is out of date", getattr(recorded, side), getattr(actual, side))
    for side in ("args", "results"):
        mine, theirs = getattr(recorded, side), getattr(actual, side)
        shapes = [{k: (t.shape, t.type, t.precision) for k, t in d.items()} for d in (mine, theirs)]
        if shapes[0] != shapes[1]:
            raise _broken("graph", f"{side} of the graph are out of date", *shapes)
