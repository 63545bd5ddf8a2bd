"""Parts of a graph, from where each of its nodes runs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.formats import FixedFormat
from mase_hw.ir.evaluate import Values
from mase_hw.nn import Quantized, QuantizeInput

HARDWARE, HOST = "hardware", "host"


@dataclass(frozen=True)
class Part:
    """Nodes that run in one place, one after the other.

    Args:
        name: ``hardware_0``, ``host_1``, in order of execution.
        where: :data:`HARDWARE` or :data:`HOST`.
        nodes: Names of its nodes that compute.
        inputs: Names of the nodes of the whole graph whose values it takes, in order.
        outputs: Names of its nodes whose values others take, in order.
        module: What it computes; one tensor, or a tuple of several.
    """

    name: str
    where: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    module: fx.GraphModule


class PartModule(nn.Module):
    """A part as a layer of the graph that calls all of them.

    Args:
        module: What it computes; its layers are those of this module as well.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__()
        # Not a child: code that fx writes is taken for a replaced forward.
        self.__dict__["computed"] = module
        for name, child in module.named_children():
            self.add_module(name, child)

    def forward(self, *inputs: Tensor) -> Any:
        """One tensor, or a tuple of several."""
        return self.__dict__["computed"](*inputs)


def places(model: fx.GraphModule, values: Values, reasons: Mapping[str, str]) -> dict[str, str]:
    """Why each node of the host runs there, with those that must stay with others.

    Only tensors of floats cross between host and hardware: a node that gives anything else, and a node that takes it,
    run in one place.

    Args:
        model: The traced model.
        values: Of every node on an example, by name.
        reasons: Of the nodes that are on the host in any case.
    """
    host = dict(reasons)
    changed = True
    while changed:
        changed = False
        for node in _computing(model):
            value = values.get(node.name)
            if isinstance(value, Tensor) and value.is_floating_point():
                continue
            group = [node, *(user for user in node.users if user.op != "output")]
            there = [n.name for n in group if n.name in host]
            for each in group if there else []:
                if each.name not in host:
                    host[each.name] = f"{there[0]} is on the host, and what passes between them is no tensor of floats"
                    changed = True
        leaving = {n.name for n in _output(model).all_input_nodes}
        for node in _computing(model):
            value = values.get(node.name)
            floats = isinstance(value, Tensor) and value.is_floating_point()
            if node.name in leaving and not floats and node.name not in host:
                host[node.name] = "its result leaves the model and is no tensor of floats"
                changed = True
    return host


def split(
    model: fx.GraphModule, host: Mapping[str, str], free: frozenset[str], shared: frozenset[str] = frozenset()
) -> tuple[list[Part], dict[str, str]]:
    """Divide a model into parts that run one after the other.

    Args:
        model: The traced model.
        host: Nodes on the host.
        free: Nodes that compute nothing: a segment of nothing else stays on the host.
        shared: Nodes of one input that run in every part that reads them; no result of the model is one.

    Returns:
        The parts, and the nodes that were moved to the host because they are alone, with the reason.
    """
    moved: dict[str, str] = {}
    while True:
        groups = _levels(model, {*host, *moved}, shared)
        idle = [g for (_, where), g in groups.items() if where == HARDWARE and all(n.name in free for n in g)]
        if not idle:
            break
        moved |= {n.name: "nothing beside it is in hardware" for group in idle for n in group}
    parts = []
    for index, ((_, where), nodes) in enumerate(sorted(groups.items())):
        parts.append(part_of(model, f"{where}_{index}", where, nodes, shared))
    return parts, moved


def _levels(model: fx.GraphModule, host: set[str], shared: frozenset[str]) -> dict[tuple[int, str], list[fx.Node]]:
    """Nodes by how often a value has changed places on the way to them, and where they run."""
    level: dict[fx.Node, int] = {}
    groups: dict[tuple[int, str], list[fx.Node]] = {}
    for node in _computing(model):
        if node.name in shared:
            continue
        where = HOST if node.name in host else HARDWARE
        found = 0
        for source in sources(node, shared):
            if source in level:
                other = HOST if source.name in host else HARDWARE
                found = max(found, level[source] + (other != where))
        level[node] = found
        groups.setdefault((found, where), []).append(node)
    return groups


def sources(node: fx.Node, shared: frozenset[str]) -> list[fx.Node]:
    """What a node reads, seen through what every part has for itself."""
    found: list[fx.Node] = []
    for source in node.all_input_nodes:
        found += sources(source, shared) if source.name in shared else [source]
    return found


def part_of(model: fx.GraphModule, name: str, where: str, nodes: list[fx.Node], shared: frozenset[str]) -> Part:
    """The part of some nodes, in the order of the model; arguments as for :class:`Part` and :func:`split`."""
    graph = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    inputs: list[str] = []
    inside = set(nodes)
    read = {n for node in nodes for n in node.all_input_nodes if n.name in shared}
    nodes = [n for n in model.graph.nodes if n in inside or n in read]
    for node in nodes:
        for source in node.all_input_nodes:
            if source in inside or source in read or source in made:
                continue
            if source.op == "get_attr":
                made[source] = _again(graph, source, made)
            else:
                inputs.append(source.name)
    whole = {n.name: n for n in model.graph.nodes}
    inputs = list(dict.fromkeys(inputs))
    first = next(iter(graph.nodes), None)
    for source_name in inputs:
        source = whole[source_name]
        with graph.inserting_before(first) if first is not None else graph.inserting_after():
            made[source] = graph.create_node("placeholder", source.name, name=source.name)
    for node in nodes:
        made[node] = _again(graph, node, made)
    own = inside | {n for n in read if all(user in inside for user in n.users)}
    outputs = [n for n in nodes if n in inside and any(user not in own for user in n.users)]
    results = [made[n] for n in outputs]
    graph.output(results[0] if len(results) == 1 else tuple(results))
    module = fx.GraphModule(model, graph, name)
    module.delete_all_unused_submodules()
    named = (tuple(n.name for n in nodes if n in inside), tuple(inputs), tuple(n.name for n in outputs))
    return Part(name, where, *named, module.eval())


def _again(graph: fx.Graph, node: fx.Node, made: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """A node in another graph, of the same name: a copy of fx's own drops the number at its end."""
    args: Any = fx.node.map_arg(node.args, made.__getitem__)
    kwargs: Any = fx.node.map_arg(node.kwargs, made.__getitem__)
    found = graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
    found.meta = dict(node.meta)
    return found


def copied(model: fx.GraphModule, title: str) -> fx.GraphModule:
    """The same modules in a graph of its own, with the same names."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in model.graph.nodes:
        made[node] = _again(graph, node, made)
    return fx.GraphModule(model, graph, title).eval()


def _computing(model: fx.GraphModule) -> Iterator[fx.Node]:
    return (n for n in model.graph.nodes if n.op in ("call_module", "call_function", "call_method"))


def _output(model: fx.GraphModule) -> fx.Node:
    found: fx.Node = next(n for n in model.graph.nodes if n.op == "output")
    return found


def joined(model: fx.GraphModule, parts: list[Part]) -> fx.GraphModule:
    """A model that calls the parts one after the other; its inputs and results are those of the whole."""
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}
    for node in model.graph.nodes:
        if node.op in ("placeholder", "get_attr") and (node.op == "placeholder" or node in _output(model).args):
            made[node.name] = graph.node_copy(node)
    for part in parts:
        call = graph.call_module(part.name, tuple(made[name] for name in part.inputs))
        if len(part.outputs) == 1:
            made[part.outputs[0]] = call
            continue
        for index, name in enumerate(part.outputs):
            made[name] = graph.call_function(_taken, (call, index))
    graph.output(fx.node.map_arg(_output(model).args[0], lambda n: made[n.name]))
    root: dict[str, object] = {part.name: PartModule(part.module) for part in parts}
    return fx.GraphModule(root, graph, "Partitioned").eval()


def _taken(values: Any, index: int) -> Any:
    return values[index]


def formats_of(model: fx.GraphModule, free: Container[str] = ()) -> dict[str, FixedFormat | None]:
    """The format of what every node gives, by its name; None of floats.

    Args:
        model: Quantised.
        free: Modules that compute nothing, such as ``nn.Identity``.
    """
    modules, found = dict(model.named_modules()), dict[str, FixedFormat | None]()
    for node in model.graph.nodes:
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, Quantized | QuantizeInput):
            found[node.name] = module.arithmetic.formats["data_out_0"]
        elif (module is not None and node.name not in free) or not node.op.startswith("call_"):
            found[node.name] = None
        else:
            found[node.name] = next((found[n.name] for n in node.all_input_nodes), None)
    return found
