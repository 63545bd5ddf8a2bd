"""A call with its operands told apart: data, tensors that the model stores, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.binding import arguments_of
from mase_hw.passes.transforms.quantize_operands import stored

Operand = fx.Node | Tensor | float
"""Data that flows through the model, a tensor that the model stores, or a number."""


@dataclass(frozen=True)
class Expression:
    """What a rule knows of a node.

    Args:
        node: The node.
        args: Its arguments by the names of the signature, the first one of a method as that of the function, "input":
            data as nodes, stored tensors and numbers as themselves.
        shapes: Shape of every producer of data.
        dtypes: Element type of every producer of data.
        truths: Producers of data that are true or false.
        truth: Whether the result is true or false.
        shape: Shape of the result.
        dtype: Element type of the result.
    """

    node: fx.Node
    args: Mapping[str, Any]
    shapes: Mapping[fx.Node, tuple[int, ...]]
    dtypes: Mapping[fx.Node, torch.dtype | None]
    truths: frozenset[fx.Node]
    truth: bool
    shape: tuple[int, ...]
    dtype: torch.dtype | None

    @property
    def operands(self) -> list[Operand]:
        """The operands of the call in order, whatever they are called; settings such as ``alpha`` are none."""
        named = ("input", "other", "a", "b", "exponent", "tensor1", "tensor2", "mat2", "vec")
        return [self.args[name] for name in self.args if name in named]


@dataclass(frozen=True)
class Body:
    """What stands for a node: a module in plain PyTorch, and the producers of what it takes."""

    module: nn.Module
    sources: Sequence[fx.Node]


Rule = Callable[[Expression], Body | None]
"""What computes the same as a call, in ops that hardware has; None if this call is none of that."""


class Formula(nn.Module):
    """A body from a function of the data; tensors that it needs are its buffers or parameters.

    Args:
        function: Takes this module, for its tensors, and the data in order.
        tensors: By name; those that are trained become parameters.
    """

    def __init__(self, function: Callable[..., Tensor], **tensors: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in tensors.items():
            if value.requires_grad:
                self.register_parameter(name, nn.Parameter(value.detach().clone()))
            else:
                self.register_buffer(name, value.detach().clone())

    def forward(self, a: Tensor) -> Tensor:
        """One tensor of data."""
        return self.function(self, a)


class FormulaOfTwo(Formula):
    """A body of two tensors of data."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # type: ignore[override]
        """Both in the order of the sources."""
        return self.function(self, a, b)


class FormulaOfThree(Formula):
    """A body of three tensors of data."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:  # type: ignore[override]
        """All in the order of the sources."""
        return self.function(self, a, b, c)


def formula(function: Callable[..., Tensor], *sources: Operand, **tensors: Tensor) -> Body | None:
    """A body of tensors of data; None if one of the sources is no data."""
    data = [source for source in sources if isinstance(source, fx.Node)]
    if len(data) != len(sources):
        return None
    if len(data) > 3:
        return Body(_of_many(function, len(data), tensors), data)
    return Body((Formula, FormulaOfTwo, FormulaOfThree)[len(data) - 1](function, **tensors), data)


def _of_many(function: Callable[..., Tensor], count: int, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A formula of more tensors than a signature is written for."""
    made = Formula(function, **tensors)
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    given = [fx.Proxy(graph.placeholder(f"data_{k}"), tracer) for k in range(count)]
    stored = SimpleNamespace(**{name: fx.Proxy(graph.create_node("get_attr", name), tracer) for name in tensors})
    result: Any = function(stored, *given)
    graph.output(result.node)
    return fx.GraphModule(made, graph)


def number_of(value: Operand) -> float | None:
    """A number, also one that is stored as a tensor of one element; None for anything else."""
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 and value.dim() == 0 else None
    return None if isinstance(value, fx.Node) or not isinstance(value, int | float) else float(value)


def expression_of(graph: MaseGraph, node: fx.Node) -> Expression | None:
    """The call of a function or method with one result; None for anything else."""
    if node.op not in ("call_function", "call_method"):
        return None
    result = graph.meta_of(node).common.results.tensors
    if list(result) != ["data_out_0"]:
        return None
    producers = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    if any(list(found.tensors) not in ([], ["data_out_0"]) for found in producers.values()):
        return None
    constants = {n: stored(graph, n, []) for n, found in producers.items() if found.tensors}
    known: Any = lambda n: n if constants.get(n) is None else constants[n]  # noqa: E731
    given = arguments_of(graph.model, node, producers)
    args = {"input" if name == "self" else name: fx.node.map_arg(value, known) for name, value in given}
    data = {n: producers[n].tensors["data_out_0"] for n, value in constants.items() if value is None}
    mine = result["data_out_0"]
    return Expression(
        node,
        args,
        {n: tuple(tensor.shape) for n, tensor in data.items()},
        {n: tensor.torch_dtype for n, tensor in data.items()},
        frozenset(n for n, tensor in data.items() if tensor.torch_dtype is torch.bool),
        mine.torch_dtype is torch.bool,
        tuple(mine.shape),
        mine.torch_dtype,
    )


def stored_tensor(graph: MaseGraph, node: fx.Node) -> Tensor | None:
    """A stored tensor, also one that is expanded to the size of a batch; None for data."""
    value = stored(graph, node, [])
    op = graph.op_of(node)
    if value is not None or op is None or op.name not in ("expand", "repeat", "tile", "expand_as"):
        return value
    shape = graph.tensor(node, "data_out_0").shape
    source = stored_tensor(graph, node.all_input_nodes[0])
    return source if source is not None and list(source.shape) == list(shape) else None
