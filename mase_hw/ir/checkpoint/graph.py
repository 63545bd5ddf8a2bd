"""The traced model as part of a document, and back: nodes, the modules they call, and the tensors of those."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.catalogue import Catalogue
from mase_hw.errors import CheckpointError
from mase_hw.ir.checkpoint.document import Document, ModuleDocument, NodeDocument, StateDocument
from mase_hw.ir.checkpoint.modules import LeftOut, build_module, class_name, describe_module, is_own, refuse_hooks
from mase_hw.ir.checkpoint.notes import Keep
from mase_hw.ir.checkpoint.tensors import TensorTable
from mase_hw.ir.checkpoint.values import ValueReader, ValueWriter

_INPUT = re.compile(r"\*{0,2}[A-Za-z_][A-Za-z0-9_]*")


def known_functions(catalogue: Catalogue) -> dict[str, Callable[..., Any]]:
    """The functions a document may name, as ``op:module.function``."""
    found: dict[str, Callable[..., Any]] = {}
    for op in catalogue:
        for function in op.functions:
            module = getattr(function, "__module__", None) or "builtins"
            name = f"{op.name}:{module}.{getattr(function, '__qualname__', function.__name__)}"
            while name in found:
                name += "'"
            found[name] = function
    return found


def describe_nodes(model: fx.GraphModule, catalogue: Catalogue, write: ValueWriter) -> list[NodeDocument]:
    """Every node.

    Raises:
        CheckpointError: If an argument is of a kind that a checkpoint does not hold, or the graph takes nested inputs.
    """
    if type(model.graph._codegen) is not fx.graph.CodeGen:
        raise CheckpointError(
            "a checkpoint cannot hold a graph whose inputs are nested",
            node=type(model).__name__,
            got=type(model.graph._codegen).__name__,
            remedy="wrap the model in one whose forward takes every tensor as an argument of its own",
        )
    names = {function: name for name, function in known_functions(catalogue).items()}
    nodes = []
    for node in model.graph.nodes:
        target = names[node.target] if node.op == "call_function" else str(node.target)
        args = [write(value, f"{node.name}: argument {i}") for i, value in enumerate(node.args)]
        kwargs = {key: write(value, f"{node.name}: argument {key}") for key, value in node.kwargs.items()}
        nodes.append(NodeDocument(name=node.name, op=node.op, target=target, args=args, kwargs=kwargs))
    return nodes


def describe_modules(
    model: fx.GraphModule, catalogue: Catalogue, write: ValueWriter, keep: Keep
) -> list[ModuleDocument]:
    """Every module that nodes call.

    Args:
        model: The traced model.
        catalogue: The classes that can be rebuilt.
        write: Writes arguments.
        keep: Notes modules of a user's own that cannot be rebuilt; the document has no arguments of theirs.

    Raises:
        CheckpointError: If another one cannot be rebuilt from its description, or one has hooks.
    """
    refuse_hooks(model, "")
    found: dict[int, str] = {}
    documents = []
    for path in _called(model.graph):
        module = model.get_submodule(path)
        if id(module) in found:
            documents.append(ModuleDocument(path=path, same_as=found[id(module)]))
            continue
        found[id(module)] = path
        try:
            kind, arguments = describe_module(module, path, catalogue)
            encoded = {key: write(value, f"{path}.{key}") for key, value in arguments.items()}
        except CheckpointError as error:
            if not is_own(module):
                raise
            keep.lose(f"module {path}", error)
            kind, encoded = module.kind if isinstance(module, LeftOut) else class_name(type(module)), None
        documents.append(ModuleDocument(path=path, kind=kind, arguments=encoded))
    return documents


def _called(graph: fx.Graph) -> list[str]:
    """Paths of the called modules that are in no other of them, sorted."""
    paths = sorted({str(node.target) for node in graph.nodes if node.op == "call_module"})
    return [path for path in paths if not any(path.startswith(f"{outer}.") for outer in paths)]


def describe_state(model: fx.GraphModule, table: TensorTable, prefix: str = "") -> list[StateDocument]:
    """Parameters and buffers of the called modules, and those that nodes read.

    Args:
        model: The traced model.
        table: Where the tensors go.
        prefix: Of their keys there; a path of the model has no slash.

    Raises:
        CheckpointError: If a node reads something else than a parameter or buffer.
    """
    read = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    prefixes = tuple(f"{path}." for path in _called(model.graph))
    found: dict[int, str] = {}
    documents = []
    # By name: the order in which modules were added is not the same after loading.
    for name, kind, tensor in sorted(_state(model), key=lambda item: item[0]):
        if name not in read and not name.startswith(prefixes):
            continue
        read.discard(name)
        first = found.setdefault(id(tensor), name)
        documents.append(
            StateDocument(
                name=name,
                kind=kind,  # type: ignore[arg-type]
                tensor=table.add(f"{prefix}{name}", tensor, name),
                requires_grad=tensor.requires_grad,
                same_as=first if first != name else None,
            )
        )
    if read:
        raise CheckpointError(
            "a node reads something that is no parameter or buffer", node=", ".join(sorted(read)), expected="a tensor"
        )
    return documents


def describe_training(model: fx.GraphModule, state: list[StateDocument]) -> list[str]:
    """Paths of the modules in training mode, of those that a checkpoint keeps."""
    called = _called(model.graph)
    kept = {""}
    for path in (*called, *(s.name.rpartition(".")[0] for s in state)):
        parts = path.split(".")
        kept |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
    inside = tuple(f"{path}." for path in called)
    modules = model.named_modules(remove_duplicate=False)
    return sorted(p for p, module in modules if module.training and (p in kept or p.startswith(inside)))


def _state(model: nn.Module) -> Iterator[tuple[str, str, Tensor]]:
    for path, module in model.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield prefix + name, "parameter", parameter
        for name, buffer in module._buffers.items():
            if buffer is not None:
                lasting = name not in module._non_persistent_buffers_set
                yield prefix + name, "buffer" if lasting else "transient buffer", buffer


def build_model(document: Document, tensors: Mapping[str, Tensor], catalogue: Catalogue) -> fx.GraphModule:
    """Build the traced model of a document.

    Raises:
        CheckpointError: If the document contradicts itself or the catalogue.
    """
    root = nn.Module()
    read = ValueReader(tensors, {})
    for module in document.modules:
        if module.same_as is not None:
            built = root.get_submodule(module.same_as)
        elif module.arguments is None:
            built = LeftOut(module.path, module.kind or "")
        else:
            prefix = f"{module.path}."
            own = {s.name.removeprefix(prefix): tensors[s.tensor] for s in document.state if s.name.startswith(prefix)}
            arguments = {key: read(value) for key, value in module.arguments.items()}
            built = build_module(module.kind or "", arguments, own, catalogue)
        owner, name = _owner(root, module.path)
        owner.add_module(name, built)
    _set_state(root, document, tensors)
    training = set(document.training)
    model = fx.GraphModule(root, _build_graph(document, tensors, catalogue, root), document.model)
    for path, part in model.named_modules(remove_duplicate=False):
        part.training = path in training
    return model


def _owner(root: nn.Module, path: str) -> tuple[nn.Module, str]:
    """The module that holds a path, containers on the way made, and the last part of the path."""
    *way, name = path.split(".")
    for step in way:
        if step not in root._modules:
            root.add_module(step, nn.Module())
        root = root.get_submodule(step)
    return root, name


def _set_state(root: nn.Module, document: Document, tensors: Mapping[str, Tensor]) -> None:
    made: dict[str, Tensor] = {}
    for state in document.state:
        tensor = tensors[state.tensor]
        if state.same_as is not None:
            value = made[state.same_as]
        elif state.kind == "parameter":
            value = nn.Parameter(tensor, requires_grad=state.requires_grad)
        else:
            value = tensor.detach().requires_grad_(state.requires_grad)
        made[state.name] = value
        owner, name = _owner(root, state.name)
        own = {**owner._parameters, **owner._buffers}.get(name)
        if own is not None and own.shape != value.shape:
            raise CheckpointError(
                "a tensor does not fit its module", node=state.name, got=list(value.shape), expected=list(own.shape)
            )
        if isinstance(value, nn.Parameter):
            owner.register_parameter(name, value)
        else:
            owner.register_buffer(name, value, persistent=state.kind == "buffer")
    empty = [name for name, _, tensor in _state(root) if name not in made]
    if empty:
        raise CheckpointError("the checkpoint lacks tensors of its modules", node=", ".join(empty))


def _build_graph(document: Document, tensors: Mapping[str, Tensor], catalogue: Catalogue, root: nn.Module) -> fx.Graph:
    functions = known_functions(catalogue)
    modules, attributes = set(dict(root.named_modules(remove_duplicate=False))), {s.name for s in document.state}
    graph, nodes = fx.Graph(), dict[str, fx.Node]()
    read = ValueReader(tensors, nodes)
    for entry in document.nodes:
        allowed: Any = {
            "placeholder": _INPUT.fullmatch(entry.target),
            "output": entry.target == "output",
            "get_attr": entry.target in attributes,
            "call_module": entry.target in modules and entry.target,
            "call_method": catalogue.of_target(entry.target),
            "call_function": functions.get(entry.target),
        }[entry.op]
        if not allowed:
            raise CheckpointError(
                "a node of the checkpoint calls something that is not in the catalogue",
                node=entry.name,
                got=f"{entry.op} {entry.target!r}",
                remedy="pass the custom_ops (or the catalogue) with which the graph was made",
            )
        target = functions[entry.target] if entry.op == "call_function" else entry.target
        args, kwargs = tuple(read(entry.args)), {key: read(value) for key, value in entry.kwargs.items()}
        if target is getattr and (len(args) < 2 or not isinstance(args[1], str) or args[1].startswith("_")):
            raise CheckpointError("a node reads a private attribute", node=entry.name, got=repr(args[1:])[:80])
        node = graph.create_node(entry.op, target, args, kwargs, name=entry.name)
        if node.name != entry.name or entry.name in nodes:
            raise CheckpointError("two nodes have the same name, or a name is not allowed", node=entry.name)
        nodes[entry.name] = node
    graph.lint()
    if not document.nodes or document.nodes[-1].op != "output":
        raise CheckpointError("the graph has no output at its end", node=document.model)
    return graph
