"""Running a graph node by node, on real tensors or symbolically, without leaving a trace in the model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils import _pytree as pytree

from mase_hw.errors import GraphError, MaseHwError
from mase_hw.host.user_code import first_line, place, reason
from mase_hw.ir.paths import attribute_at, called, module_at

OnNode = Callable[[fx.Node, Any], None]
Values = Mapping[str, object]
"""By the name of an input, an argument or a node: tensors, and what else models take and give."""


def evaluate(model: fx.GraphModule, inputs: Values, on_node: OnNode, symbolic: bool = False) -> None:
    """Run a model in evaluation mode and show every node's value to ``on_node``, in order of execution.

    Training flags, buffers and random states are as before afterwards, and ``inputs`` are never written. A
    value is freed after its last use.

    Args:
        model: The traced model.
        inputs: A value for every placeholder, by node name.
        on_node: Called with the node and its value (for ``output``, the model's result).
        symbolic: Compute shapes and types only: no weight is copied, moved or read.

    Raises:
        GraphError: If a node cannot be evaluated; names the node and the shapes of its arguments. If a tensor is
            written through a view before it is read, because no edge of the graph shows that.
    """
    last_use: dict[fx.Node, fx.Node] = {n: user for user in model.graph.nodes for n in user.all_input_nodes}
    env: dict[fx.Node, Any] = {}
    versions: dict[fx.Node, list[int]] = {}
    with undisturbed(model), contextlib.ExitStack() as stack:
        shadow = _Shadow() if symbolic else None
        if shadow is not None:
            stack.enter_context(shadow.mode)
            stack.enter_context(torch.device("cpu"))  # where the shadows are, whatever the caller's default is
        for node in model.graph.nodes:
            for used in node.all_input_nodes:
                if _versions(env[used]) != versions[used]:
                    raise _overwritten(used, node)
            try:
                env[node] = _value(model, node, env, inputs, shadow)
            except MaseHwError as error:  # of a golden
                error.node = error.node or node.name
                raise
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # the model's own code may raise anything
                raise _failed(node, env, inputs, error, symbolic) from error
            versions[node] = _versions(env[node])
            on_node(node, env[node])
            for used in node.all_input_nodes:
                if last_use[used] is node:
                    del env[used]
            if node not in last_use:
                del env[node]


def outputs(model: fx.GraphModule, inputs: Values) -> list[Tensor]:
    """The tensors that a model gives, in float64, in the order of its output's leaves.

    Args:
        model: The traced model.
        inputs: A value for every placeholder, by node name.

    Raises:
        GraphError: As :func:`evaluate`.
    """
    found: list[Tensor] = []

    def keep(node: fx.Node, value: Any) -> None:
        if node.op == "output":
            leaves = pytree.tree_leaves(value)
            found.extend(t.detach().double() for t in leaves if isinstance(t, Tensor))

    evaluate(model, inputs, keep)
    return found


class _Shadow:
    """Fake tensors: shape and type without data, all on one (fake) device; equal tensors share one."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._made: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._made:
            fake = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
            self._made[id(value)] = (value, fake)  # keeps the key's tensor alive, so the id stays unique
        return self._made[id(value)][1]


def _value(
    model: fx.GraphModule,
    node: fx.Node,
    env: dict[fx.Node, Any],
    inputs: Values,
    shadow: _Shadow | None,
) -> Any:
    def private(value: Any) -> Any:
        """A tensor that in-place operations of the graph may write."""
        if shadow is not None:
            return pytree.tree_map(shadow, value)
        return pytree.tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, value)

    if node.op == "placeholder":
        return private(inputs[node.name])
    if node.op == "get_attr":
        value = attribute_at(model, str(node.target))
        if shadow is None and isinstance(value, nn.Parameter):
            return value  # not cloned: a second copy of the weights would double the memory
        return private(value)
    if node.op == "output":
        return fx.node.map_arg(node.args[0], lambda n: env[n])
    if shadow is None or node.op != "call_module":
        return called(model, node, lambda n: env[n])
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
    module = module_at(model, str(node.target))
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return functional_call(module, {name: shadow(t) for name, t in state.items()}, args, kwargs)


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; training flags and random states are as before afterwards."""
    training = [(m, m.training) for m in model.modules()]
    devices = {t.device.index or 0 for t in model.parameters() if t.device.type == "cuda"}
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=sorted(devices)):
            yield
    finally:
        for module, flag in training:
            if module.training is not flag:
                module.training = flag


def _versions(value: Any) -> list[int]:
    """How often each tensor of a value was written; tensors of ``torch.inference_mode`` do not count."""
    tensors = [t for t in pytree.tree_leaves(value) if isinstance(t, Tensor)]
    return [t._version for t in tensors if not t.is_inference()]


def _overwritten(node: fx.Node, reader: fx.Node) -> GraphError:
    return GraphError(
        f"the result of node {node.name!r} is overwritten through a view before {reader.name!r} reads it",
        node=node.name,
        got="an operation that writes its argument",
        expected="a graph in which all data flows along edges",
        remedy="use operations that return a new tensor: add for add_, inplace=False",
    )


def _failed(node: fx.Node, env: dict[fx.Node, Any], inputs: Values, error: BaseException, symbolic: bool) -> GraphError:
    operands = {n.name: env[n] for n in node.all_input_nodes}
    stored = {n.name: env[n] for n in node.all_input_nodes if n.op == "get_attr"}
    module = node.graph.owning_module
    if node.op == "call_module" and module is not None:
        stored = dict(module.get_submodule(str(node.target)).named_parameters())
        operands |= stored
    types = {value.dtype for value in operands.values() if isinstance(value, Tensor)}
    shapes = [f"{name} {_shape(value, len(types) > 1)}" for name, value in operands.items()]
    said = reason(error) if isinstance(error, SystemExit) else first_line(error) or type(error).__name__
    line = place(error)
    hint = " or set force_device_meta to false if the node needs real values" if symbolic else ""
    return GraphError(
        f"node {node.name!r} cannot be evaluated: {said}",
        node=f"{node.name} ({node.op} {node._pretty_print_target(node.target)}){f', {line}' if line else ''}",
        got=", ".join(shapes) or "no arguments",
        expected="shapes, types and devices that fit each other",
        remedy=_other_type(types, stored, inputs)
        or f"check the shapes of dummy_in and of the layers in front of this node{hint}",
    )


def _other_type(types: set[torch.dtype], stored: Values, inputs: Values) -> str | None:
    """What to do about inputs whose type is not that of the parameters of a node that failed; None if none is so."""
    wanted = {value.dtype for value in stored.values() if isinstance(value, Tensor)}
    for name, value in inputs.items():
        if len(wanted) == 1 and isinstance(value, Tensor) and value.dtype in types - wanted:
            (dtype,) = wanted
            return f"give the input {name!r} as {dtype}, which the parameters are, instead of {value.dtype}"
    return None


def _shape(value: Any, typed: bool = False) -> str:
    if isinstance(value, Tensor):
        return f"{list(value.shape)}{f' of {value.dtype}' if typed else ''}"
    if isinstance(value, list | tuple):
        return f"({', '.join(_shape(v, typed) for v in value)})"
    return repr(value)


def has_rows(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a tensor with a dimension."""
    return isinstance(value, Tensor) and value.dim() > 0


def rows_of(inputs: Values) -> int:
    """Length of the first dimension of inputs."""
    return max([len(v) for v in inputs.values() if has_rows(v)], default=1)


def values_of(model: fx.GraphModule, example: Values) -> dict[str, object]:
    """The value of every node on an example, by its name.

    Raises:
        GraphError: If a node cannot be evaluated.
    """
    inputs = {node.name: example[str(node.target)] for node in model.graph.nodes if node.op == "placeholder"}
    return every_value(model, inputs)


def every_value(model: fx.GraphModule, inputs: Values) -> dict[str, object]:
    """The value of every node, by its name.

    Args:
        model: The traced model.
        inputs: A value for every placeholder, by node name.

    Raises:
        GraphError: If a node cannot be evaluated.
    """
    found: dict[str, object] = {}

    def keep(node: fx.Node, value: Any) -> None:
        # A copy, since an operation in place may write the tensor later.
        found[node.name] = value.detach().clone() if isinstance(value, Tensor) else value

    evaluate(model, inputs, keep)
    return found
