"""A call of a layer, as module or as function, in one form.

What rules share: parts of tensors one after the other, and volumes as images.

A call with its operands told apart: data, tensors that the model stores, and numbers.

Several nodes in the place of one: what they compute is written as a module in plain PyTorch, and traced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.formats.attributes import Attributes
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import arguments, describe, new_metadata
from mase_hw.ir.binding import arguments_of, slots
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.module_paths import put_inside
from mase_hw.ir.trace.tracer import MaseTracer
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize.operands import stored


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other."""
    return torch.cat(tuple(parts), dim) if len(parts) > 1 else parts[0]


def spaced(parts: Sequence[tuple[Tensor | None, int]], shape: Sequence[int], dim: int) -> Tensor:
    """Tensors one after the other, and zeros where there is none.

    Args:
        parts: Tensors and their sizes along the dimension.
        shape: Of the result, for one frame.
        dim: Not that of the frames.
    """
    made: list[Tensor] = []
    gap = 0
    last = max(k for k, (part, _) in enumerate(parts) if part is not None)
    after = sum(size for _, size in parts[last + 1 :])
    for place, (part, size) in enumerate(parts[: last + 1]):
        if part is None:
            gap += size
            continue
        own = (*shape[:dim], size, *shape[dim + 1 :])
        end = after if place == last else 0
        made.append(_between(part, own, dim, gap, end) if gap or end else part)
        gap = 0
    return joined(made, dim)


def _between(x: Tensor, shape: Sequence[int], dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after, along a dimension; where that is the channels, in the order in which they travel."""
    if len(shape) == 3 and dim == 1:
        return F.pad(x.transpose(1, 2), (before, after)).transpose(1, 2)
    if len(shape) == 2:
        return F.pad(x.unsqueeze(1), (before, after)).squeeze(1)
    if len(shape) > 3 and dim == 1:
        padded = F.pad(x.flatten(2).transpose(1, 2), (before, after)).transpose(1, 2)
        return padded.reshape(-1, before + shape[1] + after, *shape[2:])
    return F.pad(x, (0, 0) * (len(shape) - dim - 1) + (before, after))


def space_as_images(x: Tensor, channels: int, sizes: Sequence[int]) -> Tensor:
    """``(N, C, D, H, W)`` -> ``(N D, C, H, W)``: a volume is an image after the other, so nothing moves."""
    return x.permute(0, 2, 1, 3, 4).reshape(-1, channels, *sizes[1:])


def images_as_space(x: Tensor, depth: int, channels: int, sizes: Sequence[int]) -> Tensor:
    """``(N D, C, H, W)`` -> ``(N, C, D, H, W)``; ``sizes`` are rows and columns."""
    return x.reshape(-1, depth, channels, *sizes).permute(0, 2, 1, 3, 4)


def pair(sizes: Sequence[int]) -> tuple[int, int]:
    """Two sizes, as layers of images take them."""
    rows, columns = sizes
    return rows, columns


@dataclass(frozen=True)
class Call:
    """What a rule knows of a node.

    Args:
        name: Name of the node.
        op: Name of its op.
        inputs: Producers of the data, in order.
        shapes: Shape of each of them.
        shape: Shape of the result.
        attributes: Arguments that are no tensors, by name.
        parameters: Weights and the like, by name; without those that are None.
    """

    name: str
    op: str
    inputs: list[fx.Node]
    shapes: list[tuple[int, ...]]
    shape: tuple[int, ...]
    attributes: Attributes
    parameters: Mapping[str, Tensor]

    def each(self, name: str, dims: int, default: Any = None) -> tuple[int, ...]:
        """An attribute that is a number, or one a dimension of space."""
        value: Any = self.attributes.get(name, default)
        value = default if value is None or value in ((), []) else value
        return tuple(int(v) for v in value) if isinstance(value, list | tuple) else (int(value),) * dims


def call_of(graph: MaseGraph, node: fx.Node) -> Call | None:
    """The call of a node; None if it has several results, no data, or a parameter that is not stored in the model."""
    op, meta = graph.op_of(node), graph.meta_of(node)
    if op is None or list(meta.common.results.tensors) != ["data_out_0"]:
        return None
    results = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    data: list[fx.Node] = []
    parameters: dict[str, Tensor] = {}
    for slot in slots(op, graph.model, node, results):
        if slot.source is None:
            continue
        if slot.name.startswith("data_in_"):
            if slot.source[1] != "data_out_0":
                return None
            data.append(slot.source[0])
            continue
        value = stored(graph, slot.source[0], [])
        if value is None:
            return None
        parameters[slot.name] = value
    if meta.module is not None:
        found = {name: getattr(meta.module, name, None) for name in op.parameters}
        parameters = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    if not data or any(value.is_meta for value in parameters.values()):
        return None
    shapes = [tuple(graph.tensor(source, "data_out_0").shape) for source in data]
    shape = tuple(graph.tensor(node, "data_out_0").shape)
    return Call(node.name, op.name, data, shapes, shape, meta.common.args.attributes, parameters)


def copy_parameters(layer: nn.Module, parameters: Mapping[str, Tensor]) -> nn.Module:
    """Give a new layer the parameters of a call, by name."""
    for name, value in parameters.items():
        setattr(layer, name, parameter(value, value))
    return layer


def parameter(value: Tensor, like: Tensor) -> nn.Parameter:
    """A parameter of the type, and as trainable, as another tensor."""
    return nn.Parameter(value.detach().clone().to(like.dtype), requires_grad=like.requires_grad)


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


class Line(nn.Module):
    """A body from a function of the data, and the layers that it calls.

    The tracer looks for functions to record in the module in which ``forward`` is written, which is this one: a
    function that calls an op of the catalogue by itself says so with ``recorded``, or the op records itself with all
    of its defaults.
    """

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *data: Tensor) -> Any:
        """What the function gives, of the data in the order of the sources."""
        return self.function(*data)


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

    def forward(self, *data: Tensor) -> Tensor:
        """What the function gives, of the data in the order of the sources."""
        return self.function(self, *data)


class BodyTracer(MaseTracer):
    """Traces a body with an input for each of its sources, whatever its ``forward`` calls them."""

    sources = 1

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """The body, and as many inputs as there are sources."""
        names = [f"data_{k}" for k in range(self.sources)]
        return root_fn, [self.root, *(self.create_proxy("placeholder", name, (), {}) for name in names)]


def traced_body(
    graph: MaseGraph, body: nn.Module, sources: int, functions: Sequence[Callable[..., Any]] = ()
) -> fx.Graph:
    """The graph of a body; layers of the catalogue, and some functions, are calls in it."""
    leaves = [m for op in graph.catalogue for m in op.modules]
    tracer = BodyTracer(custom_leaf_functions=functions, leaf_types=leaves)
    tracer.sources = sources
    return tracer.trace(body)


def formula(function: Callable[..., Tensor], *sources: Operand, **tensors: Tensor) -> Body | None:
    """A body of tensors of data; None if one of the sources is no data."""
    data = [source for source in sources if isinstance(source, fx.Node)]
    return Body(Formula(function, **tensors), data) if len(data) == len(sources) else None


def tensor_of(value: Operand) -> Tensor:
    """An operand that is no node, as a tensor."""
    assert not isinstance(value, fx.Node)
    return value if isinstance(value, Tensor) else torch.tensor(float(value))


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
    constants = {n: stored_tensor(graph, n) for n, found in producers.items() if found.tensors}
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
    """A stored tensor; one that is expanded to the frames of a batch is one frame of them. None for data."""
    value = stored(graph, node, [])
    op = graph.op_of(node)
    if value is not None or op is None or op.name not in ("expand", "repeat", "tile", "expand_as"):
        return value
    shape = graph.tensor(node, "data_out_0").shape
    source = stored_tensor(graph, node.all_input_nodes[0])
    return source if source is not None and list(source.shape) in (list(shape), [1, *shape[1:]]) else None


def expand(graph: MaseGraph, node: fx.Node, body: nn.Module, sources: Sequence[fx.Node]) -> fx.Node:
    """Put what a module computes in the place of a node.

    The last of the new nodes that computes anything keeps the node's name. The modules take the place of the node's
    own, so that its path names all of them; the module of a node that others call as well stays.

    Args:
        graph: A float graph with common metadata.
        node: A node with one result.
        body: Takes the sources in order and returns that result; its submodules are layers of ``torch.nn``.
        sources: Producers, with one result each.

    Returns:
        The node that gives the result now; one of the sources, and no node more, where nothing is computed.
    """
    dtype = graph.tensor(sources[0], "data_out_0").torch_dtype
    if dtype is not None and dtype.is_floating_point:
        body.to(dtype)
    body.train(getattr(graph.meta_of(node).module, "training", graph.model.training))
    functions = [f for op in graph.catalogue for f in op.functions if inspect.isfunction(f)]
    traced = fx.GraphModule(body, traced_body(graph, body, len(sources), functions))
    traced.graph.eliminate_dead_code()
    inner = [n for n in traced.graph.nodes if n.op not in ("placeholder", "output")]
    if not inner:  # as of a resize to the same size
        (same,) = (s for n, s in zip(traced.graph.nodes, sources, strict=False) if n.users)
        edit.bypass(graph, node, same)
        return same
    values = _values(graph, traced, sources)
    path = _placed(graph, node, traced)
    computing = [n for n in inner if (op := _op_of(graph, traced, n)) is not None and op.golden is not None]
    kept = (computing or inner)[-1]
    env = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), sources, strict=True))
    users, last = list(node.users), node.prev
    for one in inner:
        args, kwargs = fx.node.map_arg((one.args, one.kwargs), lambda n: env[n])
        target = f"{path}.{one.target}" if one.op in ("call_module", "get_attr") else one.target
        if one is kept:
            env[one] = node
            node.op, node.target, node.args, node.kwargs = one.op, target, args, kwargs
        else:
            with graph.fx_graph.inserting_after(last):
                name = f"{node.name}_{one.name}"
                env[one] = graph.fx_graph.create_node(one.op, target, args, kwargs, name=name)
            put_inside(env[one], node, path, one)
        last = env[one]
    result: fx.Node
    (result,) = (env[n.all_input_nodes[0]] for n in traced.graph.nodes if n.op == "output")
    for user in users:
        user.replace_input_with(node, result)
    for one in inner:
        _describe(graph, env[one], values[one])
    return result


def _op_of(graph: MaseGraph, traced: fx.GraphModule, node: fx.Node) -> Any:
    if node.op == "call_module":
        return graph.catalogue.of_module(traced.get_submodule(str(node.target)))
    return graph.catalogue.of_target(node.target) if node.op in ("call_function", "call_method") else None


def _values(graph: MaseGraph, traced: fx.GraphModule, sources: Sequence[fx.Node]) -> dict[fx.Node, tuple[Any, bool]]:
    """What every new node gives, and whether that is data: the metadata of the sources may hold shapes alone."""
    given = [graph.tensor(source, "data_out_0") for source in sources]
    known = all(isinstance(tensor.value, Tensor) and not tensor.value.is_meta for tensor in given)
    names = [n.name for n in traced.graph.nodes if n.op == "placeholder"]
    # Zeros do for the shapes; fake tensors would cost seconds for their set-up.
    inputs = [t.value if known else torch.zeros(t.shape, dtype=t.torch_dtype) for t in given]
    found: dict[fx.Node, tuple[Any, bool]] = {}

    def keep(node: fx.Node, value: Any) -> None:
        found[node] = (value, known)

    evaluate(traced, dict(zip(names, inputs, strict=True)), keep)
    return found


def _placed(graph: MaseGraph, node: fx.Node, traced: fx.GraphModule) -> str:
    """Put the modules and tensors of a body into the model; returns their path."""
    holder = nn.Module()
    for name, module in traced.named_children():
        holder.add_module(name, module)
    for name, parameter in traced.named_parameters(recurse=False):
        holder.register_parameter(name, parameter)
    for name, buffer in traced.named_buffers(recurse=False):
        holder.register_buffer(name, buffer)
    path = str(node.target) if node.op == "call_module" else node.name
    shared = [n for n in graph.nodes if n is not node and n.op == "call_module" and n.target == path]
    if shared or node.op != "call_module":
        while graph.modules.get(path) is not None or hasattr(graph.model, path):
            path = f"{path}_".replace(".", "_")
    graph.model.add_submodule(path, holder)
    return path


def _describe(graph: MaseGraph, node: fx.Node, found: tuple[Any, bool]) -> None:
    """Common metadata of a new node."""
    value, known = found
    meta = new_metadata(graph, node)
    results = {producer: graph.meta_of(producer).common.results for producer in node.all_input_nodes}
    meta.common.args = arguments(graph, node, results, lambda tensor: tensor.detach() if known else None)
    parts = value if isinstance(value, list | tuple) else [value]
    for index, part in enumerate(p for p in parts if isinstance(p, Tensor)):
        meta.common.results[f"data_out_{index}"] = describe(part, part.detach().clone() if known else None)
