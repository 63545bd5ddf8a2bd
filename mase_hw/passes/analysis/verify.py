"""The invariants of the software and the hardware branch of a node's metadata."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field
from torch import Tensor, fx

from mase_hw.catalogue import MASE_TYPES, Arithmetic, Hardware, verilog_params
from mase_hw.errors import GraphError, MaseHwError
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.metadata import HardwareMetadata, TensorMetadata
from mase_hw.ir.propagate import boundary
from mase_hw.ir.tensors import KNOWN_STORAGE
from mase_hw.ir.view import same
from mase_hw.passes.analysis.statistics import STATISTICS
from mase_hw.passes.base import Info, PassArgs, graph_pass


def broken(node: str, problem: str, got: Any = None, expected: Any = None) -> GraphError:
    """The error for an invariant that does not hold."""
    return GraphError(
        problem,
        node=node,
        got=got,
        expected=expected,
        remedy="the pass that ran last left the graph inconsistent",
    )


def check_software(graph: MaseGraph, node: fx.Node) -> None:
    """Statistics belong to tensors of the node, and those of MASE's tree have its keys.

    Raises:
        GraphError: Naming the tensor and the statistic.
    """
    meta, op = graph.meta_of(node), graph.op_of(node)
    inner = op.formats if op is not None and op.inner is not None else ()
    for side, branch, tensors in (
        ("args", meta.software.args, meta.common.args.tensors),
        ("results", meta.software.results, meta.common.results.tensors),
    ):
        for name, entry in branch.items():
            where = f"{node.name}.{name}"
            if name not in tensors and name not in inner:
                raise broken(where, f"software.{side} has a tensor that common.{side} has not", name, list(tensors))
            for kind, values in entry.get("stat", {}).items():
                if kind in STATISTICS and set(values) != set(STATISTICS[kind].keys):
                    raise broken(where, f"statistic {kind} is not whole", list(values), list(STATISTICS[kind].keys))
                if kind in STATISTICS and values["count"] < 1:
                    raise broken(where, f"statistic {kind} has seen nothing", values["count"], "1 or more")


def check_hardware(graph: MaseGraph, node: fx.Node) -> None:
    """The hardware branch after the hardware pass: nothing for implicit nodes, else the op's facets.

    Raises:
        GraphError: Naming the node and the key.
    """
    meta, op = graph.meta_of(node), graph.hardware_op(node)
    hardware, where = meta.hardware, f"{node.name}: hardware"
    implicit = op is None or graph.is_implicit(node) or not meta.common.results.tensors
    if hardware.is_implicit is not implicit:
        raise broken(f"{where}.is_implicit", "the op says otherwise", hardware.is_implicit, implicit)
    if not isinstance(hardware.device_id, int):
        raise broken(f"{where}.device_id", "not a number", hardware.device_id, "-1 or the number of a device")
    if implicit:
        for key in ("module", "toolchain", "verilog_param", "dependence_files", "interface", "latency"):
            if getattr(hardware, key):
                raise broken(f"{where}.{key}", "an implicit node has no hardware", getattr(hardware, key))
        return
    if op is None or op.hardware is None:
        raise broken(where, "the op is not in hardware", meta.common.mase_op)
    facts = {
        "module": op.hardware.module,
        "toolchain": op.hardware.toolchain,
        "dependence_files": list(op.hardware.files),
    }
    for key, expected in facts.items():
        if getattr(hardware, key) != expected:
            raise broken(f"{where}.{key}", "differs from the op's", getattr(hardware, key), expected)
    tensors = {**meta.common.args.tensors, **meta.common.results.tensors}
    _check_parameters(where, hardware, op.hardware, tensors)
    attributes = [name for name in meta.common.args if not name.startswith("data_in_")]
    _check_interface(where, hardware.interface, op.hardware, attributes)


def _check_parameters(where: str, hardware: HardwareMetadata, op: Hardware, tensors: dict[str, TensorMetadata]) -> None:
    """``verilog_param`` are parameters of the module, and its ports with them carry the node's tensors."""
    try:
        params = op.record(hardware.verilog_param)
    except (TypeError, MaseHwError) as error:
        raise broken(
            f"{where}.verilog_param", "these are no parameters of the module", str(error), op.module
        ) from error
    if list(verilog_params(params).items()) != list(hardware.verilog_param.items()):
        raise broken(f"{where}.verilog_param", "not in the order of the module", list(hardware.verilog_param))
    ports, arithmetic = op.ports(params), op.arithmetic(params)
    lanes = {port.name: list(port.lane_dims) for port in ports}
    if hardware.parallelism != lanes:
        raise broken(f"{where}.parallelism", "differs from verilog_param", hardware.parallelism, lanes)
    timing = op.latency(params)
    cycles = {"fill": timing.fill, "interval": timing.interval}
    if hardware.latency != cycles:
        raise broken(f"{where}.latency", "differs from that of verilog_param", hardware.latency, cycles)
    carried = {port.name for port in ports}
    missing = {name for name in tensors if name.startswith("data_")} - carried
    if missing:
        raise broken(f"{where}.verilog_param", "no port carries a tensor of the node", sorted(missing), sorted(carried))
    for port in ports:
        tensor = tensors.get(port.name)
        if tensor is None:
            if port.name.startswith("data_"):
                raise broken(f"{where}.verilog_param", "a port carries no tensor of the node", port.name, list(tensors))
            continue
        sizes = (math.prod(port.shape), math.prod(tensor.shape))
        repeated = port.name in op.broadcast and sizes[0] % sizes[1] == 0
        if sizes[0] != sizes[1] and not repeated:
            raise broken(f"{where}.verilog_param", f"port {port.name} has another size", list(port.shape), tensor.shape)
        for fmt in (port.fmt, arithmetic.formats.get(port.name, port.fmt)):
            if tensor.fmt is None or fmt.mantissas != tensor.fmt.mantissas:
                raise broken(f"{where}.verilog_param", f"port {port.name} has another format", fmt, tensor.fmt)


def _check_interface(where: str, interface: dict[str, Any], op: Hardware, attributes: list[str]) -> None:
    """Everything but activations is listed; what comes from a memory says which."""
    if sorted(interface) != sorted(attributes):
        raise broken(f"{where}.interface", "not the node's arguments", sorted(interface), sorted(attributes))
    for name, entry in interface.items():
        stored = entry.get("storage") in KNOWN_STORAGE and isinstance(entry.get("transpose"), bool)
        if stored is not (name in op.static):
            raise broken(
                f"{where}.interface.{name}",
                "storage does not fit the op",
                entry,
                f"storage ({', '.join(KNOWN_STORAGE)}) and transpose" if name in op.static else "nothing",
            )


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
    - After the hardware pass: implicit nodes have no module; all others have the module, parameters, files,
      parallelism and latency of their op, and its ports carry the node's tensors in their formats.

    Raises:
        GraphError: Names the node, and both sides where two things disagree.
    """
    try:
        graph.fx_graph.lint()
    except RuntimeError as error:
        raise broken("graph", "the fx graph is not well formed", str(error)) from error
    if graph.fx_graph.python_code("self").src != graph.model.code:
        raise broken("graph", "the model's code is not that of the graph; it was not recompiled")
    edges = 0
    for node in graph.nodes:
        _check_node(graph, node, args.formats)
        edges += _check_edges(graph, node, args.formats)
        _check_values(node, {**graph.meta_of(node).common.args.tensors, **graph.meta_of(node).common.results.tensors})
        check_software(graph, node)
        if HARDWARE_PASS in graph.completed:
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
