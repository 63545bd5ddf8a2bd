"""A file that is quantised, with nodes that hardware does not have: the graph is settled around them.

What is refused of a graph is for the host; the segments between are settled each by itself, and what is refused there
is for the host as well, until nothing is. Then all of it is one graph again: quantised nodes, and
:class:`~mase_hw.nn.on_host.HostGraph` for what the host computes in float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.errors import MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat, Rounding
from mase_hw.importers.graph import Marker, Writer
from mase_hw.importers.problems import NodesRefused
from mase_hw.importers.settle import settle
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import values_of
from mase_hw.ir.inputs import unknown_nodes
from mase_hw.ir.parts import HARDWARE, Part, copied, formats_of, places, split
from mase_hw.nn import QuantizeInput
from mase_hw.nn.on_host import HostGraph
from mase_hw.ops.cast import passed_on


def settle_around(graph: MaseGraph, example: Mapping[str, Tensor], writer: Writer) -> MaseGraph:
    """Quantise a graph as its markers say, and leave to the host what cannot be.

    Args:
        graph: A float graph; nodes that are markers pass their input on.
        example: One frame, by name of the input.
        writer: What wrote it, with the markers.

    Returns:
        A graph of quantised nodes and of nodes for the host, which say why they are there.

    Raises:
        UnsupportedError: If nothing is left for the hardware, or a result of the host is rounded as it does not round.
    """
    return _Around(graph, example, writer).run()


class _Around:
    def __init__(self, graph: MaseGraph, example: Mapping[str, Tensor], writer: Writer) -> None:
        self.model, self.writer = graph.model, writer
        self.values = values_of(graph.model, example)
        computing = [n for n in graph.nodes if n.op.startswith("call_")]
        self.free = frozenset(n.name for n in computing if n.name in writer.markers or graph.is_implicit(n))
        self.reasons = {n.name: "it is no op of the catalogue" for n in unknown_nodes(graph)}

    def run(self) -> MaseGraph:
        while True:
            host = places(self.model, self.values, self.reasons)
            parts, moved = split(self.model, host, self.free)
            if not any(part.where == HARDWARE for part in parts):
                lines = [f"{self.writer.sources.get(n, n):.120}: {why}" for n, why in self.reasons.items()]
                raise UnsupportedError(
                    "nothing of the model is left for the hardware:\n  " + "\n  ".join(lines[:40]),
                    node=", ".join(self.reasons)[:400],
                    remedy="run the model where it was made",
                )
            refused, settled = self._settled(parts)
            if refused is None:
                return self._whole(parts, settled, {**host, **moved})
            new = {name: why for name, why in _places(refused, self.model).items() if name not in host}
            for name in [n for n, why in new.items() if why.endswith("before that is quantised")]:
                new[name] = "it reads what the host gives, or the model is given, and nothing quantises that"
            if not new:
                raise refused
            self.reasons |= new

    def _settled(self, parts: list[Part]) -> tuple[MaseHwError | None, dict[str, MaseGraph]]:
        """The segments, as far as one after the other can be settled, and the first error."""
        found: dict[str, MaseGraph] = {}
        formats: dict[str, FixedFormat] = {}
        for part in parts:
            if part.where != HARDWARE:
                continue
            markers = dict(self.writer.markers)
            module = copied(part.module, "Segment")
            for node in [n for n in module.graph.nodes if n.op == "placeholder" and n.name in formats]:
                with module.graph.inserting_after(node):
                    again = module.graph.create_node("call_function", passed_on, (node,), name=f"{node.name}_again")
                node.replace_all_uses_with(again, lambda user, own=again: user is not own)
                markers[again.name] = Marker(formats[node.name], Rounding.HALF_EVEN)
            module.recompile()
            example = {name: self.values[name] for name in part.inputs}
            try:
                graph = MaseGraph(module, share_weights=True)
                made = settle(graph, example, markers, self.writer.weights, self.writer.sources, self.writer.integers)
            except MaseHwError as error:
                return error, found
            found[part.name] = made
            known = formats_of(made.model)
            for name, node in zip(part.outputs, _results(made.fx_graph), strict=True):
                fmt = known[node.name]
                if fmt is not None:
                    formats[name] = fmt
        return None, found

    def _whole(self, parts: list[Part], settled: Mapping[str, MaseGraph], host: Mapping[str, str]) -> MaseGraph:
        """One graph of segments and of what the host computes."""
        root, graph = nn.Module(), fx.Graph()
        made: dict[str, fx.Node] = {}
        for node in self.model.graph.nodes:
            if node.op == "placeholder":
                made[node.name] = graph.node_copy(node)

        def added(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> fx.Node:
            while hasattr(root, name):
                name += "_"
            root.add_module(name, module)
            return graph.create_node("call_module", name, inputs, name=name)

        for part in parts:
            if part.where == HARDWARE:
                inner = settled[part.name]
                value: dict[fx.Node, fx.Node] = {}
                for node in inner.fx_graph.nodes:
                    if node.op == "placeholder":
                        value[node] = made[str(node.target)]
                    elif node.op == "call_module":
                        module = inner.model.get_submodule(str(node.target))
                        value[node] = added(node.name, module, tuple(value[n] for n in node.all_input_nodes))
                    elif node.op != "output":
                        value[node] = graph.node_copy(node, value.__getitem__)
                made |= {n: value[out] for n, out in zip(part.outputs, _results(inner.fx_graph), strict=True)}
                continue
            for node in [n for n in part.module.graph.nodes if n.name in part.nodes]:
                module = self._on_host(part.module, node, host[node.name])
                inputs = tuple(made[n.name] for n in node.all_input_nodes if n.op != "get_attr")
                made[node.name] = added(node.name, module, inputs)
        (last,) = (n for n in self.model.graph.nodes if n.op == "output")
        graph.output(fx.node.map_arg(last.args[0], lambda n: made[n.name]))
        return MaseGraph(fx.GraphModule(root, graph, "Imported").eval(), share_weights=True)

    def _on_host(self, module: fx.GraphModule, node: fx.Node, reason: str) -> nn.Module:
        """A node as the host computes it."""
        marker = self.writer.markers.get(node.name)
        if marker is None:
            return HostGraph(_alone(module, node), f"{reason}; PyTorch computes it on the host, in float32")
        if marker.requantizing.rounding is not Rounding.HALF_EVEN or not marker.tied:
            raise UnsupportedError(
                "what the host computes is rounded otherwise than half to even",
                node=self.writer.sources.get(node.name, node.name),
                remedy="use the rounding mode ROUND and an even zero point",
            )
        return QuantizeInput(marker.fmt, node.name)


def _places(error: MaseHwError, model: fx.GraphModule) -> dict[str, str]:
    """The nodes that an error names, and why."""
    if isinstance(error, NodesRefused):
        return error.places
    named = set(re.split(r"[^\w]+", error.node or ""))
    return {n.name: error.message.splitlines()[0] for n in model.graph.nodes if n.name in named}


def _results(graph: fx.Graph) -> list[fx.Node]:
    """What a graph gives, in order."""
    (last,) = (n for n in graph.nodes if n.op == "output")
    given = last.args[0]
    return [given] if isinstance(given, fx.Node) else list(given)


def _alone(module: fx.GraphModule, node: fx.Node) -> fx.GraphModule:
    """A node as a model of its own."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for source in sorted(node.all_input_nodes, key=lambda n: n.op == "get_attr"):
        made[source] = (
            graph.node_copy(source)
            if source.op == "get_attr"
            else graph.create_node("placeholder", source.name, name=source.name)
        )
    graph.output(graph.node_copy(node, lambda n: made[n]))
    found = fx.GraphModule(module, graph, "OnHost")
    found.delete_all_unused_submodules()
    return found.eval()
