"""What limits the rate of a design, and the change of lanes that would pay, found by building the design again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from mase_hw.emit.build import build_followed
from mase_hw.emit.netlist import Netlist
from mase_hw.emit.schedule import Schedule, predict
from mase_hw.errors import MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.passes.mapping.add_hardware_metadata import (
    HARDWARE_ARGS,
    HardwareArgs,
    add_hardware_metadata_analysis_pass,
    mapped,
)
from mase_hw.passes.mapping.args import KERNEL

Lanes = dict[str, Any]
MOST_BUILT = 16
"""Designs that are built to make what stands between layers faster, at most."""
MOST_TIED = 64
"""Stages that are raised together, at most."""


@dataclass(frozen=True)
class Change:
    """Other lanes of some nodes, and what the design would be with them.

    Args:
        lanes: Of every node, the lanes by tensor, as ``hardware.parallelism`` takes them.
        interval: Cycles per frame of the whole design.
        multipliers: Of the whole design.
        bottleneck: What would be slowest then.
    """

    lanes: Mapping[str, Lanes]
    interval: int
    multipliers: int
    bottleneck: str


@dataclass(frozen=True)
class Limits:
    """What limits the rate.

    Args:
        interval: Cycles per frame of the design.
        multipliers: Of the design.
        slowest: Nodes that need as many cycles as the slowest stage; the design is faster only if all of them are.
        by_waiting: Whether the design is slower than its slowest stage, because stages wait for each other.
        change: The cheapest change of their lanes that makes the design faster; None if none of those tried does.
        tried: Whether any were tried.
        between: If no node is the slowest: the ports and connectors that need most cycles.
        shortfall: What larger FIFOs would give, in words; empty where none would.
    """

    interval: int
    multipliers: int
    slowest: tuple[str, ...]
    by_waiting: bool
    change: Change | None
    tried: bool = True
    between: tuple[str, ...] = ()
    shortfall: str = ""


def limits(graph: MaseGraph, netlist: Netlist, schedule: Schedule) -> Limits:
    """Name what limits a design, and look for lanes that make it faster.

    Lanes are tried as the next larger ones: of the input, the output, both, and the kernel. The modules are built with
    them, and the cheapest that is fast enough decides; then the whole design is built again and followed beat by beat.

    Args:
        graph: With hardware metadata of this process.
        netlist: Of the design.
        schedule: Of the design.
    """
    slowest = slowest_nodes(graph, netlist, schedule)
    own = max((timing.interval for timing in schedule.instances.values()), default=0)
    multipliers = multipliers_of(graph, netlist)
    waiting = schedule.interval > max(own, *(s.beats for s in (*netlist.inputs, *netlist.outputs)))
    between, beside = ((), []) if slowest else _between(graph, netlist, schedule)
    change = None
    tried = HARDWARE_ARGS in graph.meta and len(slowest) <= MOST_TIED and bool(slowest or beside)
    if tried:
        search = _Search(graph, netlist.name, schedule.interval)
        change = search.change(slowest) if slowest else search.change_beside(beside)
    rest = change, tried, between, str(netlist.shortfall or "")
    return Limits(schedule.interval, multipliers, tuple(slowest), waiting, *rest)


def _between(graph: MaseGraph, netlist: Netlist, schedule: Schedule) -> tuple[tuple[str, ...], list[str]]:
    """The ports and connectors that need most cycles, and the nodes in hardware beside them."""
    cycles = {name: timing.interval for name, timing in schedule.instances.items()}
    cycles |= {stream.name: stream.beats for stream in (*netlist.inputs, *netlist.outputs)}
    most = max(cycles.values(), default=0)
    limiting = tuple(name for name, need in cycles.items() if need == most)
    mapped_nodes = [node for node in graph.nodes if graph.meta_of(node).hardware.module]
    beside: dict[str, None] = {}

    def near(node: Any, forward: bool) -> None:
        """The next nodes in hardware, in one direction."""
        for other in node.users if forward else node.all_input_nodes:
            if other in mapped_nodes and graph.meta_of(other).hardware.parallelism:
                beside.setdefault(other.name)
            else:
                near(other, forward)

    if any(stream.name in limiting for stream in netlist.inputs):
        for node in graph.nodes:
            if node.op == "placeholder":
                near(node, True)
    if any(stream.name in limiting for stream in netlist.outputs):
        for node in graph.nodes:
            if node.op == "output":
                near(node, False)
    owners = {instance.node for instance in netlist.instances if instance.name in limiting}
    for node in graph.nodes:
        if node.name in owners:
            beside.setdefault(node.name)
            near(node, False)
            near(node, True)
    return limiting, list(beside)


def slowest_nodes(graph: MaseGraph, netlist: Netlist, schedule: Schedule) -> list[str]:
    """The nodes whose own modules need most cycles; none if it is something between them that does."""
    nodes = {node.name for node in graph.nodes if graph.meta_of(node).hardware.module}
    own: dict[str, int] = {}
    for instance in netlist.instances:
        timing = schedule.instances.get(instance.name)
        op = graph.catalogue.get(instance.op)
        if timing is not None and instance.node in nodes and op is not None and op.mase_type:
            own[instance.node] = max(own.get(instance.node, 0), timing.interval)
    most = max(
        (*(t.interval for t in schedule.instances.values()), *(s.beats for s in (*netlist.inputs, *netlist.outputs))),
        default=0,
    )
    return [name for name, interval in own.items() if interval == most]


def multipliers_of(graph: MaseGraph, netlist: Netlist) -> int:
    """Multipliers of all modules."""
    total = 0
    for instance in netlist.instances:
        op = graph.catalogue.get(instance.op)
        if op is not None and op.hardware is not None and op.mase_type:
            total += op.hardware.multipliers(op.hardware.record(instance.parameters))
    return total


def rebuilt_with(graph: MaseGraph, args: HardwareArgs, name: str) -> tuple[MaseGraph, Netlist, Schedule]:
    """The design with other lanes: modules, connectors and FIFOs anew, and its timing.

    Args:
        graph: The quantised graph; not changed.
        args: As for ``add_hardware_metadata_analysis_pass``.
        name: Of the top level.
    """
    made = copy_graph(graph)
    add_hardware_metadata_analysis_pass(made, args)
    netlist, followed = build_followed(made, name)
    return made, netlist, predict(netlist, made.catalogue, followed)


class _Search:
    def __init__(self, graph: MaseGraph, name: str, interval: int) -> None:
        self.graph, self.name, self.interval = graph, name, interval
        self.args = graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()

    def change(self, slowest: list[str]) -> Change | None:
        """The cheapest lanes of all the slowest nodes with which the design is faster."""
        options = [self._options(name) for name in slowest]
        if not all(options):
            return None
        # Of one node all that may do, the cheapest first; of several the cheapest of each.
        tried = [{slowest[0]: each} for each in options[0]] if len(slowest) == 1 else [_first(slowest, options)]
        for lanes in tried:
            found = self._built(lanes)
            if found is not None and found.interval < self.interval:
                return found
        return None

    def change_beside(self, nodes: list[str]) -> Change | None:
        """The cheapest of larger lanes of nodes with which the design is faster; of one node, or of all of them."""
        ways = {name: self._ways(name) for name in nodes if self.graph.meta_of(self.graph.node(name)).hardware.module}
        tried: list[dict[str, Lanes]] = [{name: way} for name, listed in ways.items() for way in listed]
        if len(ways) > 1:
            tried.append({name: listed[-1] for name, listed in ways.items() if listed})
        found = [made for lanes in tried[:MOST_BUILT] if (made := self._built(lanes)) is not None]
        faster = [made for made in found if made.interval < self.interval]
        return min(faster, key=lambda made: (made.multipliers, made.interval), default=None)

    def _options(self, name: str) -> list[Lanes]:
        """Larger lanes of a node that its module takes, and with which it is faster; fewest multipliers first."""
        before = self.graph.meta_of(self.graph.node(name)).hardware
        faster: list[tuple[int, int, Lanes]] = []
        for way in self._ways(name):
            found = self._mapped({name: way})
            if found is None or found[name]["latency"]["interval"] >= before.latency["interval"]:
                continue
            faster.append((self._multipliers(name, found[name]), found[name]["latency"]["interval"], way))
        return [way for _, _, way in sorted(faster, key=lambda each: each[:2])]

    def _ways(self, name: str) -> list[Lanes]:
        """Larger lanes of a node: of its input, its output, both, and the kernel."""
        before = self.graph.meta_of(self.graph.node(name)).hardware
        sizes = self._sizes(name)
        lanes = {t: dims[0] for t, dims in before.parallelism.items() if t in sizes and t.startswith("data_")}
        ways: list[Lanes] = []
        steps = {t: _larger(lanes[t], sizes[t]) for t in lanes}
        names = list(lanes)
        for chosen in product((False, True), repeat=len(names)):
            grown = [t for t, yes in zip(names, chosen, strict=True) if yes and steps[t]]
            if len(grown) == sum(chosen) and grown:
                ways.append({t: steps[t] if t in grown else lanes[t] for t in names})
        given = self.args.parallelism.get(name, {})
        if KERNEL in given:
            ways = [{**way, KERNEL: given[KERNEL]} for way in ways]
        else:
            ways += [{**lanes, KERNEL: kernel} for kernel in self._kernels(name)]
        return ways

    def _multipliers(self, name: str, found: Mapping[str, Any]) -> int:
        op = self.graph.hardware_op(self.graph.node(name))
        assert op is not None and op.hardware is not None  # it was mapped
        return op.hardware.multipliers(op.hardware.record(found["verilog_param"]))

    def _kernels(self, name: str) -> list[list[int]]:
        """A row of the kernel at once, and all of it, if the module can."""
        op, given = self.graph.op_of(self.graph.node(name)), self.graph.meta_of(self.graph.node(name)).hardware
        if op is None or op.hardware is None or not op.hardware.unrolls:
            return []
        width, height = (int(given.verilog_param.get(f"KERNEL_SIZE_DIM_{i}", 1)) for i in (0, 1))
        return [each for each in ([1, width], [height, width]) if each != [1, 1]]

    def _sizes(self, name: str) -> dict[str, int]:
        """The length of a row of every tensor, as it is streamed."""
        meta = self.graph.meta_of(self.graph.node(name))
        sizes = {}
        for tensor, record in {**meta.common.args.tensors, **meta.common.results.tensors}.items():
            dimension = meta.hardware.verilog_param.get(f"{tensor.upper()}_TENSOR_SIZE_DIM_0")
            sizes[tensor] = int(dimension) if dimension is not None else (record.shape or [1])[-1]
        return sizes

    def _with(self, lanes: Mapping[str, Lanes]) -> HardwareArgs:
        return self.args.model_copy(update={"parallelism": {**self.args.parallelism, **lanes}})

    def _mapped(self, lanes: Mapping[str, Lanes]) -> dict[str, dict[str, Any]] | None:
        try:
            return mapped(self.graph, self._with(lanes))
        except MaseHwError:  # impossible lanes
            return None

    def _built(self, lanes: Mapping[str, Lanes]) -> Change | None:
        try:
            graph, netlist, schedule = rebuilt_with(self.graph, self._with(lanes), self.name)
        except MaseHwError:
            return None
        return Change(dict(lanes), schedule.interval, multipliers_of(graph, netlist), schedule.bottleneck)


def _first(slowest: Sequence[str], options: Sequence[Sequence[Lanes]]) -> dict[str, Lanes]:
    return {name: each[0] for name, each in zip(slowest, options, strict=True)}


def _larger(lanes: int, size: int) -> int:
    """The next larger number of lanes: one that divides the size, else twice as many; 0 if there is none."""
    dividing = [n for n in range(lanes + 1, min(4 * lanes, size) + 1) if size % n == 0]
    return dividing[0] if dividing else min(2 * lanes, size) * (lanes < size)
