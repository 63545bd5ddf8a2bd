"""The invariants of the software and the hardware branch of a node's metadata."""

from __future__ import annotations

import math
from typing import Any

from torch import fx

from mase_hw.catalogue import Hardware
from mase_hw.errors import GraphError, MaseHwError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.ir.graph import MaseGraph
from mase_hw.ir.metadata import HardwareMetadata, TensorMetadata
from mase_hw.passes.analysis.statistics import STATISTICS


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
    """The hardware branch after the hardware pass: a module where the op has one, whose ports carry the tensors.

    Raises:
        GraphError: Naming the node and the key.
    """
    meta, op = graph.meta_of(node), graph.hardware_op(node)
    hardware, where = meta.hardware, f"{node.name}: hardware"
    implicit = op is None or graph.is_implicit(node) or not meta.common.results.tensors
    if hardware.is_implicit is not implicit:
        raise broken(f"{where}.is_implicit", "the op says otherwise", hardware.is_implicit, implicit)
    if implicit or op is None:
        return
    if op.hardware is None or op.hardware.module != hardware.module:
        raise broken(f"{where}.module", "differs from the op's", hardware.module, op.hardware and op.hardware.module)
    tensors = {**meta.common.args.tensors, **meta.common.results.tensors}
    _check_parameters(where, hardware, op.hardware, tensors)


def _check_parameters(where: str, hardware: HardwareMetadata, op: Hardware, tensors: dict[str, TensorMetadata]) -> None:
    """``verilog_param`` are parameters of the module, and its ports with them carry the node's tensors."""
    try:
        params = op.record(hardware.verilog_param)
    except (TypeError, MaseHwError) as error:
        raise broken(
            f"{where}.verilog_param", "these are no parameters of the module", str(error), op.module
        ) from error
    ports, arithmetic = op.ports(params), op.arithmetic(params)
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
            if tensor.fmt is None or not _same_mantissas(fmt, tensor.fmt):
                raise broken(f"{where}.verilog_param", f"port {port.name} has another format", fmt, tensor.fmt)


def _same_mantissas(port: FixedFormat, tensor: FixedFormat) -> bool:
    """Whether a port carries the mantissas of a tensor; where the point of scaled integers is, only the op knows."""
    if isinstance(tensor, ScaledFormat):
        return (port.width, port.signed) == (tensor.width, tensor.signed)
    return port.mantissas == tensor.mantissas
