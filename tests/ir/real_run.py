"""A real run of a model, recorded without the code under test, and its comparison with the metadata of a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.ir import MaseGraph, TensorMetadata

KINDS = {
    torch.float32: ("float", [32]),
    torch.float64: ("float", [64]),
    torch.int64: ("fixed", [64, 0]),
    torch.bool: ("fixed", [1, 0]),
}


def tensors_in(value: Any) -> list[Tensor]:
    if hasattr(value, "items"):
        value = list(value.values())
    return [t for t in pytree.tree_leaves(value) if isinstance(t, Tensor)]


class RealRun(fx.Interpreter):
    """Arguments of every node before it runs, and what it returned; copies, since later nodes may write them."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.taken: dict[str, list[Tensor]] = {}
        self.given: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        self.taken[n.name] = [t.clone() for t in tensors_in((args, kwargs))]
        result = super().run_node(n)
        self.given[n.name] = pytree.tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, result)
        return result


def hooked_run(model: nn.Module, inputs: dict[str, Any]) -> tuple[dict[str, list[Tensor]], Any]:
    """What every call of every module of the original model returned, and the model itself."""
    seen: dict[str, list[Tensor]] = {}
    handles = []
    for name, module in model.eval().named_modules():

        def hook(_m: nn.Module, _i: Any, out: Any, name: str = name) -> None:
            if isinstance(out, Tensor):
                seen.setdefault(name, []).append(out.clone())

        handles.append(module.register_forward_hook(hook))
    with torch.no_grad():
        result = model(**inputs)
    for handle in handles:
        handle.remove()
    return seen, result


def assert_real(graph: MaseGraph, model: nn.Module, inputs: dict[str, Any], values: bool) -> None:
    """Every shape, type and value in the metadata of every node is that of a real run.

    Args:
        graph: The graph with common metadata from ``inputs``.
        model: The model it was made from.
        inputs: Inputs by name.
        values: Whether the metadata must have values, or none but shapes on the device meta.
    """
    calls, expected = hooked_run(model, inputs)
    run = RealRun(graph.model.eval())
    with torch.no_grad():
        result = run.run(*[inputs[str(n.target)] for n in graph.nodes if n.op == "placeholder"])
    for got, want in zip(tensors_in(result), tensors_in(expected), strict=True):
        torch.testing.assert_close(got, want)
    for node in graph.nodes:
        common = graph.meta_of(node).common
        assert common.mase_type and common.mase_op, node
        given = tensors_in(run.given[node.name])
        if given:
            assert list(common.results) == [f"data_out_{i}" for i in range(len(given))], node
            for metadata, tensor in zip(common.results.values(), given, strict=True):
                assert_same(metadata, tensor, values, f"result of {node}")
        elif run.given[node.name] is not None:
            assert common.results["data_out_0"].value == run.given[node.name], node
        assert_arguments(graph, node, run.taken[node.name], values)
        if node.op == "call_module" and node.name:
            real = calls[str(node.target)].pop(0)
            assert common.results["data_out_0"].shape == list(real.shape), node
            torch.testing.assert_close(run.given[node.name], real)


def assert_arguments(graph: MaseGraph, node: fx.Node, taken: list[Tensor], values: bool) -> None:
    args = graph.meta_of(node).common.args.tensors
    module = graph.meta_of(node).module
    for name, tensor in [] if module is None else [*module.named_parameters(), *module.named_buffers()]:
        if name != "num_batches_tracked":
            assert_same(args[name], tensor, values, f"{name} of {node}")
    flowing = [m for name, m in args.items() if module is None or not isinstance(getattr(module, name, None), Tensor)]
    assert len(flowing) == len(taken), f"{node}: {list(args)}"
    for tensor in taken:
        match = next((m for m in flowing if is_same(m, tensor, values)), None)
        assert match is not None, f"{node} has no argument {list(tensor.shape)} {tensor.dtype}: {flowing}"
        flowing.remove(match)


def is_same(metadata: TensorMetadata, tensor: Tensor, values: bool) -> bool:
    try:
        assert_same(metadata, tensor, values, "")
    except AssertionError:
        return False
    return True


def assert_same(metadata: TensorMetadata, tensor: Tensor, values: bool, where: str) -> None:
    assert metadata.shape == list(tensor.shape), where
    assert (metadata.type, metadata.precision) == KINDS[tensor.dtype], where
    assert metadata.torch_dtype in (tensor.dtype, None), where
    if values:
        assert isinstance(metadata.value, Tensor) and metadata.value.dtype == tensor.dtype, where
        assert torch.equal(metadata.value, tensor), where
    else:
        value = metadata.value
        assert value is None or (value.is_meta and value.dtype == tensor.dtype and value.shape == tensor.shape), where
