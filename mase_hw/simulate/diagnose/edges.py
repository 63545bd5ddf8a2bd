"""The edges of a design: what each net carries, and what it should carry for given inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.emit.netlist import CONNECTORS, TOP, Net, Netlist
from mase_hw.emit.reference import Reference
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.nn.quantized import Quantized
from mase_hw.nn.streaming import continuing
from mase_hw.numerics import quantize
from mase_hw.streams import IntArray, Stream


@dataclass(frozen=True)
class Edge:
    """A net of the top level.

    Args:
        net: The net.
        stream: What it carries, under the names of its signals.
        node: Graph node that computes it.
        parameter: Name of the parameter, if a memory drives the net; such a source repeats without end.
    """

    net: Net
    stream: Stream
    node: str
    parameter: str | None = None

    @property
    def what(self) -> str:
        """The tensor in words."""
        return f"{self.node}.{self.parameter}" if self.parameter else self.node


def find_edges(graph: MaseGraph) -> list[Edge]:
    """Every net that carries a tensor, sources before what depends on them.

    Args:
        graph: A graph whose top level was emitted.
    """
    netlist: Netlist = graph.meta["netlist"]
    entries = [n.name for n in graph.nodes if graph.meta_of(n).common.mase_op == "quantize"]
    order = {TOP: -1} | {instance.name: i for i, instance in enumerate(netlist.instances)}
    edges = []
    for net in sorted(netlist.nets, key=lambda net: order[net.source.instance]):
        root = _root(netlist, net)
        stream, parameter = net.stream, None
        if root.source.instance == TOP:
            node = entries[[s.name for s in netlist.inputs].index(root.source.port)]
        else:
            node = netlist.instance(root.source.instance).node
        if root.source.instance in netlist.memories:
            sink = netlist.instance(root.sink.instance)
            node, parameter = sink.node, root.sink.port
            stream = dataclasses.replace(next(p for p in sink.ports if p.name == parameter), repeat=1)
        stream = dataclasses.replace(
            stream, name=net.name, direction="out", valid=f"{net.name}_valid", ready=f"{net.name}_ready"
        )
        edges.append(Edge(net, stream, node, parameter))
    return edges


def _root(netlist: Netlist, net: Net) -> Net:
    """The net on which the tensor leaves the module that computes it: back through forks and re-packers."""
    while net.source.instance != TOP and netlist.instance(net.source.instance).op in CONNECTORS[:3]:
        net = netlist.net_into(net.source.instance, "in_data")
    return net


def expected_beats(graph: MaseGraph, edges: list[Edge], inputs: Mapping[str, Tensor]) -> dict[str, IntArray]:
    """What every edge should carry: beats by name of the net; one pass over the memory for a parameter.

    Args:
        graph: The quantised graph.
        edges: From :func:`find_edges`.
        inputs: Floats by name of the model's input, frames along the first dimension.
    """
    reference = Reference(graph)
    named = reference.named(dict(inputs))
    wanted = {edge.node for edge in edges if edge.parameter is None}
    frames: dict[str, list[Tensor]] = {name: [] for name in wanted}

    def keep(node: fx.Node, value: object) -> None:
        if node.name in wanted and isinstance(value, Tensor):
            frames[node.name].append(value.detach())

    first = reference.inputs[0]
    steps = {p.name: p.shape[0] if p.shape else 1 for p in reference.inputs}
    with torch.no_grad(), continuing(graph.model):
        for frame in range(named[first.name].shape[0] // steps[first.name]):
            slices = {name: t[frame * steps[name] : (frame + 1) * steps[name]] for name, t in named.items()}
            by_node = {n.name: slices[str(n.target)] for n in graph.nodes if str(n.target) in slices}
            evaluate(graph.model, by_node, keep)
    beats = {}
    for edge in edges:
        if edge.parameter is not None:
            module = graph.meta_of(graph.node(edge.node)).module
            assert isinstance(module, Quantized)  # only quantised modules have parameters in hardware
            values = module.mantissa(edge.parameter).cpu().long().numpy()[None]
        else:
            values = np.stack(
                [quantize(v, edge.stream.fmt, name=edge.node).cpu().long().numpy() for v in frames[edge.node]]
            )
        beats[edge.net.name] = edge.stream.pack(values.reshape(-1, *edge.stream.tensor_shape))
    return beats
