"""Finds out where a failing design goes wrong: runs it again with a probe on every edge.

After a mismatch the edges are compared with the quantised model from the inputs on, so the first one that differs
names the node that computes wrongly. After a hang the handshakes say which instance waits for which.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from mase_hw.beats import decode
from mase_hw.emit.netlist import CONNECTORS, TOP, Netlist
from mase_hw.emit.reference import Inputs, Reference
from mase_hw.emit.render import unused_name
from mase_hw.errors import ConfigError, ResultsError
from mase_hw.ir import MaseGraph
from mase_hw.nn.streaming import streaming
from mase_hw.simulate.diagnose.divergence import Divergence, Driver, Neighbour
from mase_hw.simulate.diagnose.edges import Edge, expected_beats, find_edges
from mase_hw.simulate.diagnose.failure import WINDOW
from mase_hw.simulate.diagnose.inputs import InputValues, input_values
from mase_hw.simulate.diagnose.report import Diagnosis, EdgeState, FifoState, Gap, losses, waiting
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.batch.engine import BATCH
from mase_hw.simulate.exercise.inner import INNER, with_inner_stalls
from mase_hw.simulate.inner_stalls import InnerStalls
from mase_hw.simulate.plan import Limits, Reset, Stalls
from mase_hw.simulate.result import SimResult, find_first_mismatch
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
    *,
    watchdog: int,
    max_cycles: int,
    tail_cycles: int = Limits.tail_cycles,
    frames: int | None = None,
    first: int = 0,
    seed: int = 0,
    stalls: Stalls | None = None,
    waves: bool = False,
    work_dir: Path | None = None,
    cache_dir: Path | None = None,
    reset_at: Sequence[Reset] = (),
    inner: InnerStalls | None = None,
) -> Diagnosis:
    """Run a design with a probe on every edge and say where it first differs, or which instance waits for which.

    Args:
        design: A compiled design, with its graph.
        inputs: As given to the simulation that failed.
        watchdog: Of that simulation.
        max_cycles: Of that simulation.
        tail_cycles: Of that simulation.
        frames: Only the first so many frames: up to the one that failed is enough.
        first: Number in the run of the first frame of ``inputs``, for the report.
        seed: Of that simulation.
        stalls: Of that simulation.
        waves: If something is wrong, write an FST of a window around it, in a second run.
        work_dir: Where the probed simulator is built and run; ``<bundle>.work`` beside the bundle by default.
        cache_dir: The build cache; ``runtime-cache`` beside ``work_dir`` by default.
        reset_at: Of that simulation.
        inner: Of that simulation.

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
    work = work_dir or design.path.with_name(f"{design.path.name}.work")
    netlist: Netlist = graph.meta["netlist"]
    kind = "probes" if inner is None else "probes-inner"

    def run(window: tuple[int, int] | None) -> SimResult:
        suffix = "-waves" if window else ""
        built = BATCH.build(
            design.dut() if inner is None else with_inner_stalls(design.dut(), work / INNER),
            work / f"build-{kind}{suffix}",
            waves=window is not None,
            cache_dir=cache_dir or work.parent / "runtime-cache",
            probes=[edge.stream for edge in edges],
            levels={fifo.instance: unused_name(fifo.instance, "count") for fifo in netlist.fifos},
            cycles=max_cycles,
        )
        return BATCH.simulate(
            built,
            work / f"run-{kind}{suffix}",
            {name: design.streams[name].pack(values) for name, values in stimulus.items()},
            {name: design.streams[name].pack(values) for name, values in results.items()},
            watchdog=watchdog,
            max_cycles=max_cycles,
            tail_cycles=tail_cycles,
            seed=seed,
            stalls=stalls,
            waves=window is not None,
            reset_at=reset_at,
            window=window,
            inner=inner,
        )

    result = run(None)
    if not result.ports:
        return Diagnosis(result, (), None, (), first_frame=first)
    states, divergence = [], None
    outcome = json.loads((result.run_dir / "outcome.json").read_text(encoding="utf-8"))
    for edge in edges:
        state, found, accepted = _read(result.run_dir, edge, outcome["probes"], expected[edge.net.name])
        states.append(state)
        if divergence is None:
            divergence = _compare(edge, expected[edge.net.name], found, accepted)
            if divergence is not None:
                divergence = _with_causes(graph, edge, divergence, named)
    levels = outcome["levels"]
    fifos = [FifoState(f.instance, f.before, f.depth, **levels[f.instance]) for f in netlist.fifos]
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
    window = _window(found_out) if waves else None
    if window is not None:
        again = run(window)
        found_out = dataclasses.replace(found_out, result=dataclasses.replace(result, waves=again.waves))
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


def _read(folder: Path, edge: Edge, probes: dict[str, Any], expected: IntArray) -> tuple[EdgeState, IntArray, IntArray]:
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
        node=edge.node,
        parameter=edge.parameter,
        source=edge.net.source.instance or edge.net.source.port,
        sink=edge.net.sink.instance or edge.net.sink.port,
        mismatch=first,
        neighbours=tuple(Neighbour(i, _lanes(expected[i]), _lanes(found[i])) for i in near),
        cycle=int(accepted[at]),
    )


def _with_causes(graph: MaseGraph, edge: Edge, found: Divergence, inputs: Mapping[str, Tensor]) -> Divergence:
    """With the module that drives the net, and what the element was computed from."""
    netlist: Netlist = graph.meta["netlist"]
    if edge.net.source.instance == TOP:
        return found
    instance, first = netlist.instance(edge.net.source.instance), found.mismatch
    file = next(f"rtl/{file}" for file in netlist.files if Path(file).stem == instance.module)
    if edge.parameter is not None:
        memory = netlist.memories.get(instance.name)
        line = first.beat_index % edge.stream.beats + 1
        driver = Driver(instance.module, file, *((f"mem/{memory}", line) if memory else ()))
        return dataclasses.replace(found, driver=driver)
    driver = Driver(instance.module, file)
    if first.index is None:
        return dataclasses.replace(found, driver=driver)
    if instance.op in CONNECTORS:
        # It only passes on, and what it took was right.
        fmt = edge.stream.fmt
        value = InputValues("in_data", edge.node, (first.index,), (first.expected,), fmt.scale, fmt.zero_point)
        taken: tuple[InputValues, ...] = (value,)
    else:
        element = int(np.ravel_multi_index(first.index, edge.stream.tensor_shape)) if first.index else 0
        begin, reference = 0 if streaming(graph.model) else first.frame, Reference(graph)
        frames = [reference.frame(inputs, number) for number in range(begin, first.frame + 1)]
        taken = input_values(graph, edge.node, element, frames[-1], frames[:-1])
    return dataclasses.replace(found, driver=driver, inputs=taken)


def _lanes(beat: Sequence[Any] | IntArray) -> tuple[int, ...]:
    return tuple(int(value) for value in beat)
