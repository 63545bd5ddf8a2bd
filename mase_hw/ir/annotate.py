"""Common metadata: what every node is, and the name, shape, type and value of all that flows through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import ConfigError
from mase_hw.ir import binding
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.evaluate import Values, evaluate
from mase_hw.ir.inputs import STRUCTURAL, check_inputs, refuse_unknown
from mase_hw.ir.metadata import CommonMetadata, MaseMetadata, TensorDict, TensorMetadata
from mase_hw.ir.paths import module_at
from mase_hw.ir.propagate import add_boundary, carry_formats


def describe(tensor: Tensor, value: Any = None) -> TensorMetadata:
    """Metadata of a tensor; integers are fixed-point without fraction, a boolean is one unsigned bit."""
    dtype = tensor.dtype
    if dtype.is_floating_point:
        kind, precision, signed = "float", [dtype.itemsize * 8], None
    elif dtype.is_complex:
        kind, precision, signed = "NA", [dtype.itemsize * 8], None
    elif dtype is torch.bool:
        kind, precision, signed = "fixed", [1, 0], False
    else:
        kind, precision, signed = "fixed", [torch.iinfo(dtype).bits, 0], torch.iinfo(dtype).min < 0
    return TensorMetadata(list(tensor.shape), kind, precision, dtype, signed, value)


def named_results(value: Any) -> list[tuple[str, Any]]:
    """The tensors in a node's value as ``data_out_k``; a value without tensors is ``data_out_0`` itself."""
    tensors: list[Tensor] = []

    def collect(item: Any) -> None:
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, list | tuple):
            for part in item:
                collect(part)
        elif isinstance(item, Mapping):
            collect(list(item.values()))

    collect(value)
    if tensors:
        return [(f"data_out_{i}", t) for i, t in enumerate(tensors)]
    return [] if value is None or value == () or value == {} else [("data_out_0", value)]


def add_common_metadata(
    graph: AnnotatedGraph, dummy_in: Values | None, add_value: bool | None, force_device_meta: bool
) -> None:
    """Evaluate the graph once and write the common metadata of all nodes; on an error nothing is written.

    Raises:
        ConfigError: If the inputs do not fit, or values are wanted of a symbolic evaluation.
    """
    if add_value and force_device_meta:
        raise ConfigError(
            "tensors on the device meta have no values to be kept",
            field="add_value",
            got="add_value = true with force_device_meta = true",
            remedy="leave out one of the two",
        )
    inputs = check_inputs(graph, dummy_in)
    refuse_unknown(graph)
    for node in graph.nodes:
        graph.meta_of(node)
    keep: Callable[[Tensor], Tensor | None] = _on_meta
    if not force_device_meta:
        keep = _Keeper(add_value is not False, {_storage(p) for p in graph.model.parameters()})
    found: dict[fx.Node, CommonMetadata] = {}
    results: dict[fx.Node, TensorDict] = {}

    def on_node(node: fx.Node, value: Any) -> None:
        results[node] = TensorDict()
        for name, result in named_results(value):
            if isinstance(result, Tensor):
                results[node][name] = describe(result, keep(result))
            else:
                results[node][name] = TensorMetadata([1], "NA", [], value=result)
        op = graph.op_of(node)
        kind, name = STRUCTURAL[node.op] if op is None else (op.mase_type, op.name)
        found[node] = CommonMetadata(kind, name, arguments(graph, node, results, keep), results[node])
        found[node].update(graph.meta_of(node).common.own)

    evaluate(graph.model, inputs, on_node, symbolic=force_device_meta)
    before = {node: graph.meta_of(node).common for node in found}
    try:
        for node, common in found.items():
            graph.meta_of(node).common = common
        carry_formats(graph)
        add_boundary(graph)
    except Exception:
        for node, common in before.items():
            graph.meta_of(node).common = common
        raise


def new_metadata(graph: AnnotatedGraph, node: fx.Node) -> MaseMetadata:
    """Metadata of a new node that says what it is, and nothing else yet."""
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    op = graph.op_of(node)
    meta.common.mase_type, meta.common.mase_op = STRUCTURAL[node.op] if op is None else (op.mase_type, op.name)
    return meta


def annotate_node(graph: AnnotatedGraph, node: fx.Node, value: Any) -> None:
    """Write the common metadata of one new node, whose producers have theirs, from its value."""
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    keep = _Keeper(False, set())
    results = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    results[node] = TensorDict()
    for name, result in named_results(value):
        is_tensor = isinstance(result, Tensor)
        results[node][name] = describe(result) if is_tensor else TensorMetadata([1], "NA", [], value=result)
    op = graph.op_of(node)
    kind, name = STRUCTURAL[node.op] if op is None else (op.mase_type, op.name)
    meta.common = CommonMetadata(kind, name, arguments(graph, node, results, keep), results[node])


def _on_meta(tensor: Tensor) -> Tensor:
    """Shape and type of a tensor as one on the device meta."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass
class _Keeper:
    """Values for the metadata: copies of activations (in-place operations may change them), or None.

    Parameters, and views of them such as ``weight.t()``, are not copied: that could double the memory of the model.
    """

    active: bool
    parameters: set[int]

    def __call__(self, tensor: Tensor) -> Tensor | None:
        if not self.active:
            return None
        return tensor.detach() if _storage(tensor) in self.parameters else tensor.detach().clone()


def arguments(
    graph: AnnotatedGraph, node: fx.Node, results: binding.Results, keep: Callable[[Tensor], Tensor | None]
) -> TensorDict:
    """What the common metadata says of a node's arguments.

    Args:
        graph: The graph.
        node: Any node of it.
        results: Results of its producers.
        keep: The value to record of a parameter of the node's module, if any.
    """
    args = TensorDict()
    for slot in binding.slots(graph.op_of(node), graph.model, node, results):
        if slot.source is None:
            args[slot.name] = slot.value
        else:
            producer, name = slot.source
            arg = results[producer][name]
            args[slot.name] = arg.as_parameter() if slot.parameter else arg.copy()
    op = graph.op_of(node)
    if op is None or node.op != "call_module":
        return args
    module = module_at(graph.model, str(node.target))
    for name in op.parameters:
        parameter = getattr(module, name, None)
        if isinstance(parameter, Tensor):
            args[name] = describe(parameter, keep(parameter)).as_parameter()
    arithmetic = getattr(module, "arithmetic", None)
    quantised = arithmetic.attributes if isinstance(arithmetic, Arithmetic) else {}
    for name in op.attributes:
        if hasattr(module, name) or name in quantised:
            args[name] = getattr(module, name, quantised.get(name))
    return args
