"""Every op and case of the catalogue as a design under test: what to build, what to feed, what to expect."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from mase_hw.beat_times import BeatNetwork
from mase_hw.catalogue import Arithmetic, Case, Hardware, OpDef, default_catalogue, verilog_params
from mase_hw.emit.render import render_generated
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.ops._slots import slots_of
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines import batch, cocotb
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import Limits, Plan, Reset, SimulationOptions, Stalls, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Stream
from tests.rtl import LIBRARY

from .memories import file_of, folder_of, write_memories

Tensors = dict[str, npt.NDArray[np.int64]]
"""Mantissas of shape ``(frames, *shape)`` by stream."""


def hardware_of(op: OpDef) -> Hardware:
    """The hardware facets of an op that has them."""
    assert op.hardware is not None, f"{op.name} has no hardware"
    return op.hardware


IN_HARDWARE = [op for op in default_catalogue() if op.hardware is not None]
HARDWARE_OPS = [op for op in IN_HARDWARE if hardware_of(op).generated is None]


def files_of(op: OpDef) -> list[str]:
    """The declared files of an op below ``rtl_templates``, dependencies first."""
    return list(hardware_of(op).files)


@dataclass(frozen=True)
class Item:
    """One case of one op."""

    op: OpDef
    case: Case

    @property
    def id(self) -> str:
        """What the test is called, and its build folder."""
        return f"{self.op.name}-{self.case.name}"

    @property
    def slots(self) -> int:
        """Sequences in turn."""
        slots: int = slots_of(self.case.params.slot.fmt) if getattr(self.case.params, "has_slot", False) else 1
        return slots

    @property
    def hardware(self) -> Hardware:
        """The facets under test."""
        return hardware_of(self.op)

    @property
    def arithmetic(self) -> Arithmetic:
        """What fixes the bits."""
        read = self.hardware.arithmetic(self.case.params)
        return dataclasses.replace(read, attributes={**read.attributes, **self.case.attributes})

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All ports with streams."""
        return tuple(self.hardware.ports(self.case.params))

    @property
    def sources(self) -> list[Stream]:
        """The data inputs, in order of ports."""
        return [s for s in self.streams if s.direction == "in" and s.name not in self.hardware.static]

    @property
    def sinks(self) -> list[Stream]:
        """The outputs, in order of ports."""
        return [s for s in self.streams if s.direction == "out"]

    @property
    def source(self) -> Stream:
        """The activation that the latency facet is counted from."""
        return self.sources[0]

    @property
    def sink(self) -> Stream:
        """The output that the latency facet is counted to."""
        return self.sinks[0]

    def dut(self, root: Path | None = None) -> Dut:
        """The module from exactly its declared files, which may lie elsewhere (mutated copies)."""
        root = root or LIBRARY
        sources = tuple(root / file for file in files_of(self.op))
        if self.hardware.generated is not None:
            made = self.hardware.generated(self.case.name, self.case.params, self.arithmetic)
            source = folder_of(self.id) / f"{made.module}.sv"
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(render_generated(made))
            return Dut(made.module, (*sources, source), verilog_params(self.case.params), self.streams)
        folder = self.memory_folder
        names = self.hardware.memories(self.arithmetic) if folder else {}
        parameters = verilog_params(self.case.params) | {name: f"mem/{file_of(name)}" for name in names}
        tied = self.hardware.tied(self.case.params)
        return Dut(self.hardware.module, sources, parameters, self.streams, folder, tied)

    @property
    def implementation(self) -> str:
        """Which of several implementations the parameters are of; empty where there is one."""
        if not self.hardware.implementations:
            return ""
        if not hasattr(self.case.params, "multiplication"):
            return "in_turn" if self.case.params.in_turn else "shared" if self.case.params.block else "parallel"
        p = self.case.params.multiplication
        return "packed" if p.packed > 1 else "chain" if p.chain else "logic" if p.logic else "tree"

    @property
    def family(self) -> str:
        """A family for which the parameters are, if they are not those of no family in particular."""
        m = getattr(self.case.params, "multiplication", None)
        return "ecp5" if m is not None and m.logic == 1 else ""

    @property
    def order(self) -> str:
        """In which of several orders the module works; empty where there is one."""
        if not self.hardware.orders:
            return ""
        return "inputs_first" if self.case.params.inputs_first else "outputs_first"

    @property
    def fast(self) -> bool:
        """Whether the module has registers for a fast clock."""
        p = self.case.params
        exponent = getattr(p, "exponent", None)
        ahead = getattr(p, "ahead", exponent is not None and exponent.exp_stages > 3)
        return bool(ahead) or getattr(p, "in_turn", 0) == 2

    @property
    def memory_folder(self) -> Path | None:
        """Where the files of the memories inside the module are; None if there are none."""
        memories = self.hardware.memories(self.arithmetic)
        return write_memories(self.id, memories) if memories else None


ITEMS = [Item(op, case) for op in HARDWARE_OPS for case in hardware_of(op).cases()]
MADE = [Item(op, case) for op in IN_HARDWARE if op not in HARDWARE_OPS for case in hardware_of(op).cases()]
"""Cases of modules that are made for their constants; ``test_unrolled.py`` has their tests."""


def item(name: str) -> Item:
    """The item of that id."""
    return next(i for i in ITEMS if i.id == name)


def stimulus(it: Item, seed: int = 0) -> Tensors:
    """Mantissas for every input: ``case.frames`` random frames, then four of extremes.

    Parameters (weights) change from frame to frame like the data. The extremes: all smallest; all largest; the first
    input smallest and the others largest, which is the most negative sum; alternating element by element. An
    exhaustive case has every input code among its random frames.
    """
    rng = np.random.default_rng([seed, *it.id.encode()])
    inputs = [s for s in it.streams if s.direction == "in"]
    tensors: Tensors = {}
    for stream in inputs:
        low, high = stream.fmt.min_mantissa, stream.fmt.max_mantissa
        if stream.name in it.hardware.narrow(it.case.params):
            low = -high
        shape = stream.tensor_shape
        frames = rng.integers(low, high, (it.case.frames, *shape), dtype=np.int64, endpoint=True)
        if stream.fmt.bipolar:
            frames[frames == 0] = 1
        if it.case.exhaustive:
            _plant_every_code(it, stream, frames, rng)
        checks = np.indices(shape).sum(axis=0) % 2
        first = stream == inputs[0]
        corners = [np.full(shape, v) for v in (low, high, low if first else high)]
        tensors[stream.name] = np.concatenate([frames, np.stack([*corners, np.where(checks, high, low)])])
        if stream.name in it.case.given:
            tensors[stream.name] = np.resize(it.case.given[stream.name], tensors[stream.name].shape)
    return tensors


def _plant_every_code(it: Item, stream: Stream, frames: npt.NDArray[np.int64], rng: np.random.Generator) -> None:
    codes = np.arange(stream.fmt.min_mantissa, stream.fmt.max_mantissa + 1, dtype=np.int64)
    assert stream == it.source and len(it.streams) == 2, f"{it.id}: only an op of one input can be exhaustive"
    assert frames.size >= codes.size, f"{it.id}: {frames.size} elements do not hold all {codes.size} codes"
    frames.reshape(-1)[rng.permutation(frames.size)[: codes.size]] = codes


def expected(it: Item, tensors: Tensors) -> Tensors:
    """What the golden says, frame by frame: the parameters of an op are those of its frame, which follows the last."""
    formats = {s.name: s.fmt for s in it.streams}
    assert it.op.golden is not None
    frames: dict[str, list[npt.NDArray[np.int64]]] = {s.name: [] for s in it.sinks}
    past: dict[str, torch.Tensor] = {}
    for index in range(len(tensors[it.source.name])):
        mantissas = {
            name: as_carrier(torch.from_numpy(tensor[index]), carrier(magnitude(formats[name])))
            for name, tensor in tensors.items()
        }
        result = it.op.golden(it.arithmetic, mantissas | past)
        past = {BEFORE: result.pop(AFTER)} if AFTER in result else {}
        assert set(result) == set(frames)
        for sink in it.sinks:
            frames[sink.name].append(result[sink.name].to(torch.int64).numpy().reshape(sink.tensor_shape))
    return {name: np.stack(tensors) for name, tensors in frames.items()}


def play(
    built: Built,
    it: Item,
    run_dir: Path,
    stalls: Stalls | None = None,
    *,
    seed: int = 1,
    stall_static: bool = True,
    engine: str = "batch",
    reset_at: Sequence[Reset] = (),
) -> SimResult:
    """Stream the stimulus of an item through a build of it.

    Args:
        built: The simulator.
        it: What was built.
        run_dir: Folder of the run.
        stalls: How unwilling the surroundings are; full rate by default.
        seed: Of data, stalls and initial values.
        stall_static: Whether parameter streams stall like the others; the latency model knows only data.
        engine: What it was built for. The batch engine needs no Python in the simulator, which costs half a second
            a run under cocotb; ``tests/engines`` holds the two equal to the cycle.
        reset_at: Resets in the middle; what is recorded comes after the last one.
    """
    plan = plan_of(built.dut, it, run_dir, stalls or Stalls.none(), seed, stall_static, reset_at)
    if engine == "cocotb":
        return judge(built.dut, plan, cocotb.run(built, plan, SimulationOptions(seed=seed)))
    (run,) = batch.run(built, [plan], SimulationOptions(seed=seed))
    return judge(built.dut, plan, run, results_xml=False)


def plan_of(
    dut: Dut, it: Item, run_dir: Path, stalls: Stalls, seed: int, stall_static: bool, reset_at: Sequence[Reset]
) -> Plan:
    """Write what :func:`play` plays: arguments as there."""
    tensors = stimulus(it, seed)
    wanted = expected(it, tensors)
    ports = {s.name: port for s, port in zip(it.streams, dut.streams, strict=True)}
    beats = {name: ports[name].pack(tensor) for name, tensor in (tensors | wanted).items()}
    latency = it.hardware.latency(it.case.params)
    quiet = latency.interval + latency.fill + max(*stalls.ready_burst, *stalls.valid_burst)
    longest = 40 * (len(tensors[it.source.name]) + 1) * quiet + 4000
    plan = write_plan(
        dut,
        run_dir,
        {ports[name].name: beats[name] for name in tensors},
        {ports[name].name: beats[name] for name in wanted},
        Limits(watchdog=8 * quiet + 200, max_cycles=longest),
        SimulationOptions(seed=seed, stalls=stalls, reset_at=tuple(reset_at)),
    )
    if not stall_static:
        for port in plan.content["inputs"]:
            if port["name"] in {ports[s.name].name for s in it.streams if s.name in it.hardware.static}:
                port["stalls"] = Stalls.none().entry("in")
        plan.path.write_text(json.dumps(plan.content))
    return plan


def multiply_steps(it: Item) -> int:
    """Steps in which the multipliers of an op do its work: one for every beat of weights, if it has weights.

    An image with a stride may take longer to arrive than to be multiplied, and a matrix that serves few vectors.
    """
    schedule = it.hardware.latency(it.case.params).steps[0]
    return next((s.frame_beats for s in it.streams if s.name == "weight"), schedule.steps)


def check_timing(it: Item, result: SimResult) -> None:
    """Compare a full-rate run with the latency facet, to the cycle.

    Raises:
        AssertionError: Says what differs.
    """
    latency = it.hardware.latency(it.case.params)
    timing = result.timing(it.source.name, it.sink.name)
    assert timing is not None
    assert timing.fill == latency.fill, f"fill: measured {timing.fill}, facet {latency.fill}"
    for source in it.sources:
        for sink in it.sinks:
            timing = result.timing(source.name, sink.name)
            assert timing is not None
            assert len(timing.output_intervals) >= 2, "too few frames for a steady interval"
            for side, intervals in (("output", timing.output_intervals), ("input", timing.input_intervals)):
                assert intervals[-1] == latency.interval, f"{side} intervals {intervals}, facet {latency.interval}"

    emits = latency.steps[0].emit_steps[0]
    # Of a triangle each row is longer than the one before it, or beats of zeros follow it; partial sums that are kept
    # are all complete at the end of a row.
    round_again = np.append(emits, emits[0] + latency.steps[0].steps)
    evenly = len(emits) == it.sink.beats and len(set(np.diff(round_again))) < 2
    if it.hardware.work(it.case.params) and latency.interval == multiply_steps(it) and evenly:
        # A compute op never pauses: its output beats are equally far apart across tiles, rows and frames.
        gap, rest = divmod(latency.interval, it.sink.beats)
        assert rest == 0
        gaps = np.diff(result.accepted[it.sink.name])
        assert (gaps == gap).all(), f"output beats should be {gap} cycles apart, got {sorted(set(gaps.tolist()))}"


def check_departures(it: Item, result: SimResult) -> None:
    """Compare the first frame with the latency model: accepted input beats in, first valid output cycles out.

    Raises:
        AssertionError: Shows both.
    """
    latency = it.hardware.latency(it.case.params)
    assert latency.beats == it.source.beats
    predicted = np.asarray(latency.departures(*(result.accepted[s.name][: s.beats] for s in it.sources)))
    measured = result.presented[it.sink.name][: it.sink.beats]
    assert predicted.shape == measured.shape
    assert (predicted == measured).all(), f"predicted {predicted.tolist()}, measured {measured.tolist()}"


def check_steps(it: Item, result: SimResult) -> None:
    """Compare every beat of every frame with the steps: from when inputs were offered and outputs taken in the run to
    when the module takes its inputs and offers its outputs. Parameter streams must not have stalled.

    Raises:
        AssertionError: Shows the first beats that differ.
    """
    stages = it.hardware.latency(it.case.params).steps
    assert stages, f"{it.id}: the latency facet has no steps"
    network = BeatNetwork()
    inputs = [network.source(s.beats, result.presented[s.name]) for s in it.sources]
    edges = inputs
    for stage in stages:
        edges = network.stage(stage, edges)
    for sink, edge in zip(it.sinks, edges, strict=True):
        network.sink(edge, result.accepted[sink.name])
    while network.frames < it.case.frames + 4:
        network.advance()
    pairs = [(s.name, network.edges[e].taken, result.accepted[s.name]) for s, e in zip(it.sources, inputs, strict=True)]
    pairs += [
        (s.name, network.edges[e].offered, result.presented[s.name]) for s, e in zip(it.sinks, edges, strict=True)
    ]
    for name, predicted, measured in pairs:
        measured = measured[: len(predicted)]
        assert predicted.shape == measured.shape
        if (wrong := np.flatnonzero(predicted != measured)).size:
            near = slice(max(int(wrong[0]) - 2, 0), int(wrong[0]) + 6)
            raise AssertionError(
                f"{name}: {wrong.size} of {len(predicted)} beats, the first is {wrong[0]} (of {it.id}); "
                f"predicted from there {predicted[near].tolist()}, measured {measured[near].tolist()}"
            )
