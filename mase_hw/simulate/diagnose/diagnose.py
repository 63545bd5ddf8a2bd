"""Finds out where a failing design goes wrong: runs it again with a probe on every edge.

After a mismatch the edges are compared with the quantised model from the inputs on, so the first one that differs
names the node that computes wrongly. After a hang the handshakes say which instance waits for which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.emit.constants import stored_values
from mase_hw.emit.netlist import CONNECTORS, LOOP_ENTRY, LOOP_EXIT, TOP, Net, Netlist, Pin
from mase_hw.emit.reference import Inputs, Reference
from mase_hw.emit.render import unused_name
from mase_hw.errors import ConfigError, MaseHwError, ResultsError
from mase_hw.hardware.beats import decode
from mase_hw.hardware.prefix import renamed
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.nn.streaming import continuing, streaming
from mase_hw.numerics import quantize
from mase_hw.ops.products._cache import CACHE
from mase_hw.simulate.diagnose.failure import WINDOW, Replay
from mase_hw.simulate.diagnose.inputs import InputValues, input_values
from mase_hw.simulate.diagnose.report import (
    Diagnosis,
    Divergence,
    Driver,
    EdgeState,
    FifoState,
    Gap,
    Neighbour,
    losses,
    waiting,
)
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines import batch
from mase_hw.simulate.engines.batch import Probes
from mase_hw.simulate.exercise import INNER, with_inner_stalls
from mase_hw.simulate.plan import Limits, SimulationOptions
from mase_hw.simulate.result import Mismatch, SimResult, find_first_mismatch
from mase_hw.streams import IntArray, Stream

NEIGHBOURS = 2
"""Beats shown before and after the first difference."""


class Diagnosable(Protocol):
    """What is needed of a design; :class:`mase_hw.design.design.Design` has it."""

    graph: MaseGraph | None
    path: Path
    streams: dict[str, Stream]

    def dut(self) -> Dut:
        """The top level."""


def diagnose(
    design: Diagnosable,
    inputs: Inputs,
    limits: Limits,
    options: SimulationOptions,
    *,
    frames: int | None = None,
    first: int = 0,
    cache_dir: Path | None = None,
) -> Diagnosis:
    """Run a design with a probe on every edge and say where it first differs, or which instance waits for which.

    Args:
        design: A compiled design, with its graph.
        inputs: As given to the simulation that failed.
        limits: Of that simulation.
        options: Of that simulation: seed, stalls and resets. With waves, if something is wrong, an FST of a window
            around it is written in a second run. The probed simulator is built and run in ``options.work``.
        frames: Only the first so many frames: up to the one that failed is enough.
        first: Number in the run of the first frame of ``inputs``, for the report.
        cache_dir: The build cache; ``runtime-cache`` beside the work folder by default.

    Returns:
        What was found, also if nothing was.

    Raises:
        ConfigError: If the design was loaded from disk, so that there is no model to compare with.
        SimulationError: If the design cannot be built with probes.
    """
    graph = design.graph
    if graph is None:
        raise ConfigError(
            "this design was loaded from disk and has no model, so its edges cannot be compared",
            node=str(design.path),
            remedy="compile the model again",
        )
    reference = Reference(graph)
    named = reference.named(inputs)
    if frames is not None:
        steps = {p.name: p.shape[0] if p.shape else 1 for p in reference.inputs}
        named = {name: tensor[: frames * steps[name]] for name, tensor in named.items()}
    stimulus, results = reference.run(named)
    edges = find_edges(graph)
    expected = expected_beats(graph, edges, named)
    work, inner = options.work, options.inner
    netlist: Netlist = graph.meta["netlist"]
    kind = "probes" if inner is None else "probes-inner"
    levels = {fifo.instance: unused_name(fifo.instance, "count") for fifo in netlist.fifos}

    def run(window: tuple[int, int] | None) -> SimResult:
        probing = replace(options, waves=window is not None, window=window, coverage=False, jobs=1, threads=1)
        suffix = "-waves" if window else ""
        built = batch.build(
            design.dut() if inner is None else with_inner_stalls(design.dut(), work / INNER),
            work / f"build-{kind}{suffix}",
            probing,
            cache_dir=cache_dir or work.parent / "runtime-cache",
            cycles=limits.max_cycles,
            probes=Probes([edge.stream for edge in edges], levels),
        )
        return batch.simulate(
            built,
            work / f"run-{kind}{suffix}",
            {name: design.streams[name].pack(values) for name, values in stimulus.items()},
            {name: design.streams[name].pack(values) for name, values in results.items()},
            limits,
            probing,
        )

    result = run(None)
    if not result.ports:
        return Diagnosis(result, (), None, (), first_frame=first)
    states: list[EdgeState] = []
    differ: list[tuple[Edge, Divergence]] = []
    outcome = json.loads((result.run_dir / "outcome.json").read_text(encoding="utf-8"))
    for edge in edges:
        state, found, accepted = _read(result.run_dir, edge, outcome["probes"], expected[edge.net.name])
        states.append(state)
        if not differ or netlist.twins:
            other = _compare(edge, expected[edge.net.name], found, accepted)
            differ += [(edge, other)] if other is not None else []
    divergence = None
    if differ:
        # In a loop what comes later in a frame stands before as well as behind what it follows from.
        edge, first_found = min(differ, key=lambda at: (at[1].mismatch.frame, at[1].cycle))
        divergence = _with_causes(graph, edge, first_found, named, design.dut().prefix)
    fifos = [FifoState(f.instance, f.before, f.depth, **outcome["levels"][f.instance]) for f in netlist.fifos]
    lost = losses(states, {edge.net.name: edge.stream.frame_beats for edge in edges})
    found_out = Diagnosis(
        result,
        tuple(states),
        divergence,
        tuple(waiting(states)),
        tuple(fifos),
        first,
        tuple(lost),
        tuple(_gaps(edges, states, result, divergence)),
    )
    window = _window(found_out) if options.waves else None
    if window is not None:
        again = run(window)
        found_out = replace(found_out, result=replace(result, waves=again.waves))
    return found_out


def _gaps(
    edges: Sequence[Edge], states: Sequence[EdgeState], result: SimResult, divergence: Divergence | None
) -> list[Gap]:
    """Ports at which something else is seen than on the edges behind them."""
    found = []
    for edge, state in zip(edges, states, strict=True):
        for pin in (edge.net.source, edge.net.sink):
            if pin.instance != TOP:
                continue
            port = result.ports[pin.port]
            wrong = port.mismatches > 0 and divergence is None
            if port.beats != state.beats or wrong:
                found.append(Gap(pin.port, edge.net.name, port.beats, state.beats))
    return found


def _window(found: Diagnosis) -> tuple[int, int] | None:
    """The cycles worth looking at: from the cause to where it shows, or where everything came to rest."""
    if found.divergence is not None:
        first = found.result.first_mismatch
        at = found.divergence.cycle
        shows = at if first is None else int(found.result.presented[first.stream][first.beat_index])
        return max(0, at - WINDOW), max(at, shows) + WINDOW
    if found.hangs and found.last_progress is not None:
        return max(0, found.last_progress - WINDOW), found.last_progress + WINDOW
    return None


def _read(folder: Path, edge: Edge, probes: Json, expected: IntArray) -> tuple[EdgeState, IntArray, IntArray]:
    name = edge.net.name
    try:
        seen = probes[name]
        found = decode(edge.stream, (folder / "found" / f"{name}.bin").read_bytes())
        accepted = np.frombuffer((folder / "cycles" / f"{name}.accepted.bin").read_bytes(), dtype=np.int64)
        if not found.shape[0] == accepted.size == int(seen["beats"]):
            raise ValueError(f"{found.shape[0]} beats, {accepted.size} cycles, {seen['beats']} reported")
    except (OSError, KeyError, ValueError) as problem:
        raise ResultsError("the records of a probe are missing", node=name, got=str(problem)) from problem
    state = EdgeState(
        net=name,
        source=edge.net.source.instance or edge.net.source.port,
        sink=edge.net.sink.instance or edge.net.sink.port,
        tensor=edge.what,
        valid=int(seen["valid"]),
        ready=int(seen["ready"]),
        beats=found.shape[0],
        expected=None if edge.parameter else expected.shape[0],
        last=int(accepted[-1]) if accepted.size else None,
    )
    return state, found, accepted


def _compare(edge: Edge, expected: IntArray, found: IntArray, accepted: IntArray) -> Divergence | None:
    if edge.parameter is not None:
        # A memory is read over and over; how often depends on how far its reader came.
        expected = expected[np.arange(found.shape[0]) % expected.shape[0]]
    _, first = find_first_mismatch(edge.stream, expected, found)
    if first is None:
        return None
    at, count = first.beat_index, min(expected.shape[0], found.shape[0])
    near = range(max(0, at - NEIGHBOURS), min(count, at + NEIGHBOURS + 1))
    return Divergence(
        net=edge.net.name,
        node=edge.nodes[edge.turn(first)],
        parameter=edge.parameter,
        source=edge.net.source.instance or edge.net.source.port,
        sink=edge.net.sink.instance or edge.net.sink.port,
        mismatch=first,
        neighbours=tuple(Neighbour(i, _lanes(expected[i]), _lanes(found[i])) for i in near),
        cycle=int(accepted[at]),
    )


def _with_causes(
    graph: MaseGraph, edge: Edge, found: Divergence, inputs: Mapping[str, Tensor], prefix: str
) -> Divergence:
    """With the module that drives the net, and what the element was computed from."""
    netlist: Netlist = graph.meta["netlist"]
    if edge.net.source.instance == TOP:
        return found
    instance, first = netlist.instance(edge.net.source.instance), found.mismatch
    file = renamed(next(f"rtl/{file}" for file in netlist.files if Path(file).stem == instance.module), prefix)
    if edge.parameter is not None:
        memory = netlist.memories.get(instance.name)
        line = edge.turn(first) * edge.stream.beats + first.beat_index % edge.stream.beats + 1
        driver = Driver(instance.module, file, *((renamed(f"mem/{memory}", prefix), line) if memory else ()))
        return replace(found, driver=driver)
    driver = Driver(instance.module, file)
    if first.index is None:
        return replace(found, driver=driver)
    if instance.op in CONNECTORS:
        # It only passes on, and what it took was right.
        fmt = edge.stream.fmt
        value = InputValues("in_data", found.node, (first.index,), (first.expected,), fmt.scale, fmt.zero_point)
        taken: tuple[InputValues, ...] = (value,)
    else:
        element = int(np.ravel_multi_index(first.index, edge.stream.tensor_shape)) if first.index else 0
        begin, reference = 0 if streaming(graph.model) else first.frame, Reference(graph)
        frames = [reference.frame(inputs, number) for number in range(begin, first.frame + 1)]
        taken = input_values(graph, found.node, element, frames[-1], frames[:-1])
    return replace(found, driver=driver, inputs=taken)


def _lanes(beat: Sequence[Any] | IntArray) -> tuple[int, ...]:
    return tuple(int(value) for value in beat)


@dataclass(frozen=True)
class Edge:
    """A net of the top level.

    Args:
        net: The net.
        stream: What it carries, under the names of its signals.
        nodes: The graph node that computes it, or several that share an instance, in turn.
        parameter: Name of the parameter, if a memory drives the net; such a source repeats without end.
    """

    net: Net
    stream: Stream
    nodes: tuple[str, ...]
    parameter: str | None = None

    @property
    def node(self) -> str:
        """The first of the nodes."""
        return self.nodes[0]

    def turn(self, at: Mismatch) -> int:
        """Which of the nodes a beat is of."""
        return at.beat * len(self.nodes) // self.stream.frame_beats

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
        origin = root
        while origin.source.instance != TOP and netlist.instance(origin.source.instance).op == LOOP_ENTRY:
            origin = _root(netlist, netlist.net_into(origin.source.instance, "in_data"))
        if netlist.slot is not None and origin.source == Pin(TOP, netlist.slot.name):
            continue  # whose token it is, which no node gives
        if origin.source.instance != TOP and netlist.instance(origin.source.instance).op == CACHE:
            continue  # words in the order of a product, which no node gives either
        if origin.source.instance == TOP:
            node = entries[[s.name for s in netlist.inputs].index(origin.source.port)]
        else:
            node = netlist.instance(origin.source.instance).node
        if root.source.instance in netlist.memories:
            sink = netlist.instance(root.sink.instance)
            node, parameter = sink.node, root.sink.port
            port = next(p for p in sink.ports if p.name == parameter)
            passes = len(netlist.twins.get(node, (node,)))
            stream = replace(port, repeat=passes * port.repeat if passes > 1 else 1)
        stream = replace(stream, name=net.name, direction="out", valid=f"{net.name}_valid", ready=f"{net.name}_ready")
        edges.append(Edge(net, stream, _in_turn(netlist, root, node), parameter))
    return edges


def _in_turn(netlist: Netlist, root: Net, node: str) -> tuple[str, ...]:
    """The nodes whose results an instance gives, in the order of passes."""
    nodes = netlist.twins.get(node, (node,))
    op = "" if root.source.instance == TOP else netlist.instance(root.source.instance).op
    if op == LOOP_EXIT:
        return nodes[:-1] if root.source.port == "back_data" else nodes[-1:]
    if op == LOOP_ENTRY:
        back = _root(netlist, netlist.net_into(root.source.instance, "back_data"))
        return (node, *_in_turn(netlist, back, netlist.instance(back.source.instance).node))
    return nodes


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
    wanted = {node for edge in edges if edge.parameter is None for node in edge.nodes}
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
        sets: list[IntArray] = []
        if edge.parameter is not None:
            port = replace(edge.stream, name=edge.parameter)
            sets = [stored_values(graph, graph.node(node), port) for node in edge.nodes]
        else:
            for of_frame in zip(*(frames[node] for node in edge.nodes), strict=True):
                sets += [quantize(v, edge.stream.fmt, name=edge.node).cpu().long().numpy()[None] for v in of_frame]
        stream = replace(edge.stream, repeat=edge.stream.repeat // len(edge.nodes))
        beats[edge.net.name] = stream.pack(np.concatenate(sets).reshape(-1, *edge.stream.tensor_shape))
    return beats


FILE = "diagnosis.json"


def explain(
    design: Diagnosable,
    result: SimResult,
    inputs: Inputs | None,
    again: Replay,
    limits: Limits,
    options: SimulationOptions,
) -> SimResult:
    """The same result with a diagnosis, which is also attached to the failure and written beside the records.

    Args:
        design: What was simulated; it has its graph.
        result: How it failed.
        inputs: What it was given; None for the mantissas of ``again``.
        again: What reproduces the failure.
        limits: Of the simulation.
        options: Of the simulation.

    A run with probes that fails by itself explains nothing and hides nothing: the failure says so in a note.
    """
    failure, graph = result.failure, design.graph
    assert failure is not None and graph is not None  # the caller looked
    try:
        if inputs is None:
            inputs = floats(graph, design.streams, again.stimulus)
        found = diagnose(design, inputs, limits, options, frames=again.frames, first=again.first)
        (result.run_dir / FILE).write_text(json.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
    except (MaseHwError, OSError) as problem:
        failure.add_note(f"no diagnosis, the run with probes failed: {problem}")
        return result
    failure.diagnosis = found
    failure.add_note(found.report())
    return replace(result, diagnosis=found)


def floats(graph: MaseGraph, streams: Mapping[str, Stream], stimulus: Mapping[str, IntArray]) -> dict[str, Tensor]:
    """Inputs of the model whose mantissas are the given ones, by name of the model's input."""
    values = {}
    for port in Reference(graph).inputs:
        exact = streams[port.port].fmt.values(torch.from_numpy(np.asarray(stimulus[port.port]).astype(np.float64)))
        values[port.name] = exact.reshape(-1, *port.shape[1:])
    return values
