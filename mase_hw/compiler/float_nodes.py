"""The nodes of a float graph, kept while quantisation replaces them, so that each can be asked again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import named_results
from mase_hw.ir.evaluate import Values
from mase_hw.ir.faithful.same_function import in_evaluation
from mase_hw.ir.paths import attribute_at, module_at


@dataclass(frozen=True)
class Named:
    """A node as an argument."""

    name: str


def filled(item: Any, value: Callable[[str], Any]) -> Any:
    """Arguments with a value in the place of every node, which it is given by its name."""
    if isinstance(item, Named):
        return value(item.name)
    if isinstance(item, list | tuple):
        return type(item)([filled(part, value) for part in item])
    if isinstance(item, dict):
        return {key: filled(part, value) for key, part in item.items()}
    return slice(*(filled(p, value) for p in (item.start, item.stop, item.step))) if isinstance(item, slice) else item


@dataclass(frozen=True)
class FloatNode:
    """A node of a float graph.

    Args:
        name: Its name, which quantisation keeps.
        call: What it calls; None for a stored tensor.
        value: The stored tensor.
        args: Arguments, nodes by their names.
        kwargs: Arguments by name.
        dtype: Element type of its result.
        module: The module it calls, if it is one.
    """

    name: str
    call: Callable[..., Any] | None
    value: Any
    args: tuple[Any, ...]
    kwargs: Values
    dtype: torch.dtype | None
    module: nn.Module | None

    @classmethod
    def of(cls, graph: MaseGraph, node: fx.Node) -> FloatNode:
        """Keep a node of a graph with common metadata, as it is now."""
        name: Any = lambda n: Named(n.name)  # noqa: E731
        args, kwargs = fx.node.map_arg(node.args, name), fx.node.map_arg(node.kwargs, name)
        results = graph.meta_of(node).common.results.tensors
        dtype = results["data_out_0"].torch_dtype if "data_out_0" in results else None
        call: Any = None
        module = value = None
        if node.op == "call_module":
            call = module = module_at(graph.model, str(node.target))
        elif node.op == "call_method":
            call = getattr(Tensor, str(node.target))
        elif node.op == "get_attr":
            value = attribute_at(graph.model, str(node.target))
        else:
            call = node.target
        return cls(node.name, call, value, args, kwargs, dtype, module)

    def run(self, values: Values) -> Any:
        """Its result, in evaluation mode, for values of its arguments by name; floats are brought into its type."""
        if self.call is None:
            return self.value

        args, kwargs = filled((self.args, dict(self.kwargs)), lambda name: self._given(values[name]))
        with torch.no_grad(), in_evaluation(self.module) if self.module is not None else contextlib.nullcontext():
            return self.call(*args, **kwargs)

    def _given(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        own = value.detach().clone()  # an operation in place may write it
        floats = own.dtype.is_floating_point and self.dtype is not None and self.dtype.is_floating_point
        return own.to(self.dtype) if floats else own


def first_tensor(value: Any) -> Tensor | None:
    """The first tensor of a result; None if there is none."""
    found = [result for _, result in named_results(value) if isinstance(result, Tensor)]
    return found[0].detach() if found else None
