"""The invariants of the graph and its metadata, checked after every pass in tests."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, fx

from mase_hw.catalogue import MASE_TYPES, Arithmetic
from mase_hw.errors import MaseHwError
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.metadata import TensorMetadata
from mase_hw.ir.propagate import boundary
from mase_hw.ir.records import same
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.mapping.add_hardware_metadata import map_what_was_set
from mase_hw.passes.verify_branches import broken, check_hardware, check_software

HARDWARE_PASS = "add_hardware_metadata_analysis_pass"


class VerifyArgs(PassArgs):
    """Arguments of :func:`verify_analysis_pass`."""

    formats: bool = Field(default=True, description="also compare types and precisions along the edges")


@graph_pass("verify_analysis_pass", args=VerifyArgs, needs=(COMMON_PASS,))
def verify_analysis_pass(graph: MaseGraph, args: VerifyArgs) -> tuple[MaseGraph, Info]:
    """Check that the metadata of every node is complete and agrees with its neighbours and its module.

    - The fx graph is well formed, and the model's code is that of the graph.
    - Every node has its own metadata, the op the catalogue gives it, results ``data_out_0``, ``data_out_1``, ...; its
      tensors have shapes, precisions, types and values that fit each other; parameters and attributes are those of
      the module, formats those of its arithmetic.
    - Arguments and edges correspond, and both ends of an edge agree in shape and format. A quantised module may read
      floats, for it quantises what enters. Implicit nodes and the output pass formats on.
    - What the graph records of its inputs and outputs is so.
    - Statistics belong to tensors that exist and are whole.
    - After the hardware pass: nodes whose op has hardware have its module, with parameters it takes, and its ports
      carry the node's tensors in their formats. What was set there since is mapped first, or refused as by the pass.

    Raises:
        GraphError: Names the node, and both sides where two things disagree.
    """
    try:
        graph.fx_graph.lint()
    except RuntimeError as error:
        raise broken("graph", "the fx graph is not well formed", str(error)) from error
    if graph.fx_graph.python_code("self").src != graph.model.code:
        raise broken("graph", "the model's code is not that of the graph; it was not recompiled")
    if HARDWARE_PASS in graph.completed:
        map_what_was_set(graph)
    edges, mapped = 0, HARDWARE_PASS in graph.completed
    for node in graph.nodes:
        _check_node(graph, node, args.formats)
        edges += _check_edges(graph, node, args.formats)
        _check_values(node, {**graph.meta_of(node).common.args.tensors, **graph.meta_of(node).common.results.tensors})
        check_software(graph, node)
        if mapped:
            check_hardware(graph, node)
    _check_boundary(graph)
    return graph, {"nodes": len(graph.nodes), "edges": edges}


def _check_node(graph: MaseGraph, node: fx.Node, formats: bool) -> None:
    meta = graph.meta_of(node)
    if meta.node is not node or meta.model is not graph.model:
        raise broken(node.name, "metadata belongs to another node or model")
    common, op = meta.common, graph.op_of(node)
    if op is not None:
        expected = (op.mase_type or common.mase_type, op.name)
    elif node.op in STRUCTURAL:
        expected = STRUCTURAL[node.op]
    else:
        raise broken(node.name, "the node is no op of the catalogue", node.target)
    if (common.mase_type, common.mase_op) != expected or common.mase_type not in MASE_TYPES:
        raise broken(node.name, "wrong mase_type or mase_op", (common.mase_type, common.mase_op), expected)
    if node.users and not common.results:
        raise broken(node.name, "the node is read, but no result of it is recorded")
    names = [f"data_out_{i}" for i in range(len(common.results))]
    if list(common.results) != names:
        raise broken(node.name, "results are not named in order", list(common.results), names)
    for name, tensor in {**common.args, **common.results}.items():
        if isinstance(tensor, TensorMetadata):
            _check_tensor(f"{node.name}.{name}", tensor)
    _check_module(graph, node)
    if formats:
        _check_passed_on(graph, node)


def _check_module(graph: MaseGraph, node: fx.Node) -> None:
    """Parameters, attributes and formats are those of the node's module."""
    meta, op = graph.meta_of(node), graph.op_of(node)
    args, module = meta.common.args, meta.module
    for name in op.parameters if op is not None else ():
        parameter = getattr(module, name, None)
        if not isinstance(parameter, Tensor):
            continue
        where, recorded = f"{node.name}.{name}", args.get(name)
        if not isinstance(recorded, TensorMetadata) or list(parameter.shape) != recorded.shape:
            raise broken(where, "metadata and module disagree", recorded, list(parameter.shape))
        if recorded.type == "float" and recorded.precision != [parameter.dtype.itemsize * 8]:
            raise broken(where, "metadata and module disagree", recorded.precision, str(parameter.dtype))
    arithmetic = getattr(module, "arithmetic", None)
    attributes = arithmetic.attributes if isinstance(arithmetic, Arithmetic) else {}
    for name in op.attributes if op is not None and module is not None else ():
        if hasattr(module, name) or name in attributes:
            value = getattr(module, name, attributes.get(name))
            if name not in args or not same(args[name], value):
                raise broken(f"{node.name}.{name}", "metadata and module disagree", args.get(name), value)
    if isinstance(arithmetic, Arithmetic):
        for name, tensor in {**args.tensors, **meta.common.results.tensors}.items():
            fmt = arithmetic.formats.get(name)
            if fmt is not None and tensor.fmt != fmt:
                raise broken(f"{node.name}.{name}", "format differs from that of the module", tensor.fmt, fmt)


def _check_tensor(where: str, tensor: TensorMetadata) -> None:
    if not all(isinstance(size, int) and size >= 0 for size in tensor.shape):
        raise broken(where, "a shape has a size that is not a number", tensor.shape)
    lengths = {"float": (1,), "integer": (1,), "NA": (0, 1)}.get(tensor.type, (2,))
    if len(tensor.precision) not in lengths or not all(isinstance(p, int) for p in tensor.precision):
        raise broken(where, f"precision of type {tensor.type!r} is malformed", tensor.precision)
    try:
        _ = tensor.fmt
    except MaseHwError as error:
        raise broken(where, "precision is no fixed-point format", error.message) from error
    dtype = tensor.torch_dtype
    if tensor.type == "float" and dtype is not None and tensor.precision != [dtype.itemsize * 8]:
        raise broken(where, "precision and torch_dtype disagree", tensor.precision, str(dtype))


def _check_values(node: fx.Node, tensors: dict[str, TensorMetadata]) -> None:
    """A tensor that is kept has the shape and type that are recorded."""
    for name, tensor in tensors.items():
        where, value = f"{node.name}.{name}", tensor.value
        if isinstance(value, Tensor) and list(value.shape) != tensor.shape:
            raise broken(where, "shape differs from that of the value", tensor.shape, list(value.shape))
        if isinstance(value, Tensor) and tensor.torch_dtype not in (None, value.dtype):
            raise broken(where, "torch_dtype differs from that of the value", str(tensor.torch_dtype), str(value.dtype))


def _check_passed_on(graph: MaseGraph, node: fx.Node) -> None:
    """The output gives what it gets; an implicit node of one tensor keeps its format."""
    common = graph.meta_of(node).common
    args, results = common.args.tensors, common.results.tensors
    if node.op == "output":
        pairs = [*zip(args.items(), results.items(), strict=False)]
        if len(args) != len(results) or any(a.shape != r.shape for (_, a), (_, r) in pairs):
            shapes = [[t.shape for t in side.values()] for side in (args, results)]
            raise broken(node.name, "results of the output are not its arguments", shapes[1], shapes[0])
    elif graph.is_implicit(node) and list(args) == ["data_in_0"] and not _quantises(graph, node, "data_out_0"):
        same_type = [r for r in results.items() if r[1].torch_dtype is args["data_in_0"].torch_dtype]
        pairs = [(("data_in_0", args["data_in_0"]), result) for result in same_type]
    else:
        return
    for (name, arg), (result, given) in pairs:
        if (arg.type, arg.precision, arg.fmt) != (given.type, given.precision, given.fmt):
            raise broken(
                f"{node.name}.{result}",
                f"format differs from {name}, which is passed on",
                f"{given.type} {given.precision}",
                f"{arg.type} {arg.precision}",
            )


def _quantises(graph: MaseGraph, node: fx.Node, name: str) -> bool:
    """Whether the node's module brings a tensor into a format of its own."""
    arithmetic = getattr(graph.meta_of(node).module, "arithmetic", None)
    return isinstance(arithmetic, Arithmetic) and name in arithmetic.formats


def _check_edges(graph: MaseGraph, node: fx.Node, formats: bool) -> int:
    args = graph.meta_of(node).common.args.tensors
    sources = graph.sources(node)
    module = graph.meta_of(node).module
    own = {n for n in args if n not in sources and isinstance(getattr(module, n, None), Tensor)}
    if set(args) != set(sources) | own:
        raise broken(node.name, "tensor arguments and edges disagree", sorted(args), sorted(set(sources) | own))
    for name, (producer, result) in sources.items():
        arg, source = args[name], graph.tensor(producer, result)
        where, other = f"{node.name}.{name}", f"{producer.name}.{result}"
        if arg.shape != source.shape:
            raise broken(where, f"shape differs from {other}", arg.shape, f"{source.shape} of {other}")
        mine, theirs = ((t.type, t.precision, t.fmt) for t in (arg, source))
        entered = source.type == "float" and _quantises(graph, node, name)
        if formats and mine != theirs and not entered:
            raise broken(
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
            raise broken("graph", f"{side} is out of date", getattr(recorded, side), getattr(actual, side))
    for side in ("args", "results"):
        mine, theirs = getattr(recorded, side), getattr(actual, side)
        shapes = [[(k, t.shape, t.type, t.precision, t.fmt) for k, t in d.items()] for d in (mine, theirs)]
        if shapes[0] != shapes[1]:
            raise broken("graph", f"{side} of the graph are out of date", *shapes)
