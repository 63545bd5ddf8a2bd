"""Names of a node's arguments, and the edges of the graph they stand for.

One rule serves the metadata passes and everything that asks later where a tensor comes from: tensors are
called ``data_in_0``, ``data_in_1``, ... in the order of the call's signature, except those the op declares as
parameters (``weight``, ``bias``), which keep their name; anything else keeps the name of the signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from mase_hw.catalogue import Catalogue, OpDef
from mase_hw.errors import GraphError
from mase_hw.ir.metadata import TensorMetadata
from mase_hw.ir.paths import module_at
from mase_hw.ir.trace.derived import computes_as
from mase_hw.ir.trace.signatures import Bound, bind, forward_of

Results = Mapping[fx.Node, Mapping[str, TensorMetadata]]
"""Results of every node evaluated so far."""


@dataclass(frozen=True)
class Slot:
    """One argument of a node.

    Args:
        name: Name in the metadata.
        source: Producer and its result, for a tensor that flows along an edge.
        value: The value, for anything else.
        parameter: The tensor is one of the op's parameters.
    """

    name: str
    source: tuple[fx.Node, str] | None = None
    value: Any = None
    parameter: bool = False


def op_of(catalogue: Catalogue, model: nn.Module, node: fx.Node) -> OpDef | None:
    """The op of a node.

    A module whose class overrides the forward of the catalogued base, or what that calls, is something else, unless it
    says ``mase_leaf`` or ``mase_op``.
    """
    if node.op in ("call_function", "call_method"):
        return catalogue.of_target(node.target)
    return op_of_module(catalogue, module_at(model, str(node.target))) if node.op == "call_module" else None


def op_of_module(catalogue: Catalogue, module: nn.Module) -> OpDef | None:
    """The op that a module is called as; see :func:`op_of`."""
    op = catalogue.of_module(module)
    if op is None or isinstance(getattr(module, "mase_op", None), str) or getattr(type(module), "mase_leaf", False):
        return op
    base = next(cls for cls in type(module).__mro__ if cls in op.modules)
    return op if computes_as(type(module), base) else None


def slots(op: OpDef | None, model: nn.Module, node: fx.Node, results: Results) -> list[Slot]:
    """The arguments of a node that arrive through the call, named.

    A module's own parameters are not among them.

    Args:
        op: The op of the node, if it has one.
        model: The model in which the node is.
        node: Any node; all its producers are in ``results``.
        results: Results of the producers.

    Raises:
        GraphError: If two arguments get the same name.
    """
    parameters = op.parameters if op is not None else ()
    found: list[Slot] = []
    counter = 0

    def tensors_of(n: fx.Node) -> list[str]:
        return [name for name, t in results[n].items() if t.is_tensor]

    def data(source: tuple[fx.Node, str]) -> str:
        nonlocal counter
        found.append(Slot(f"data_in_{counter}", source))
        counter += 1
        return found[-1].name

    def resolve(value: Any) -> Any:
        """Fill in the nodes inside a value; a tensor becomes an argument and leaves its name."""
        if isinstance(value, fx.Node):
            names = [data((value, name)) for name in tensors_of(value)]
            return tuple(names) if names else _python_value(results[value])
        if isinstance(value, list | tuple):
            return type(value)([_unwrap(resolve(v)) for v in value])
        if isinstance(value, dict):
            return {k: _unwrap(resolve(v)) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(*[_unwrap(resolve(v)) for v in (value.start, value.stop, value.step)])
        return value

    for name, value in arguments_of(model, node, results):
        before = counter
        if name in parameters and isinstance(value, fx.Node) and len(tensors_of(value)) == 1:
            found.append(Slot(name, (value, tensors_of(value)[0]), parameter=True))
            continue
        resolved = resolve(value)
        # A tensor, or a list of nothing but tensors, is fully described by its data_in arguments.
        if counter == before or not _only_tensors(value, tensors_of):
            found.append(Slot(name, value=resolved))
    names = [slot.name for slot in found]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise GraphError("two arguments of a node have the same name", node=node.name, got=", ".join(sorted(twice)))
    return found


def arguments_of(model: nn.Module, node: fx.Node, results: Results) -> Bound:
    """The arguments of a node by the names of the signature, tensors as the nodes that give them."""
    if node.op in ("placeholder", "get_attr"):
        return []
    if node.op == "output":
        return [("results", node.args[0])]
    target: Any = node.target
    if node.op == "call_module":
        target = forward_of(module_at(model, str(node.target)))

    def is_tensor(value: Any) -> bool:
        return isinstance(value, fx.Node) and any(t.is_tensor for t in results[value].values())

    def known(producer: fx.Node) -> Any:
        """Sizes, types and devices as themselves: the kind of an argument decides between overloads."""
        return producer if is_tensor(producer) or not results[producer] else _python_value(results[producer])

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), known)
    return bind(target, args, dict(kwargs), is_tensor)


def _only_tensors(value: Any, tensors_of: Any) -> bool:
    if isinstance(value, fx.Node):
        return bool(tensors_of(value))
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list | tuple) and bool(value) and all(_only_tensors(v, tensors_of) for v in value)


def _python_value(results: Mapping[str, TensorMetadata]) -> Any:
    return results["data_out_0"].value if "data_out_0" in results else None


def _unwrap(value: Any) -> Any:
    """The name of a single tensor, without the tuple around it."""
    single = isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], str)
    return value[0] if single else value
