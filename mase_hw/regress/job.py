"""Runs one regression job, in whatever process or machine it was sent to, and says what came of it.

Nothing is raised: a job that cannot be run is a result too. A worker may be killed at any time and its simulator live
on, so every attempt has a folder of its own, and what is shared is written beside its place and renamed.

An op case of the catalogue as a regression job: what to build, what to feed, what to expect.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mase_hw.catalogue import Arithmetic, Case, OpDef, default_catalogue, verilog_params
from mase_hw.design.promises import kept
from mase_hw.design.vectors import Played, Sides
from mase_hw.emit.render import render_generated
from mase_hw.errors import ConfigError, MaseHwError, SimulationError
from mase_hw.hardware.library import write_module
from mase_hw.host.disk import write_whole
from mase_hw.host.documents import Json
from mase_hw.host.locks import locked
from mase_hw.host.resources import rtl_root
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.regress.matrix import Job
from mase_hw.simulate.arguments import as_stalls
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.registry import engine as engine_of
from mase_hw.simulate.exercise import INNER, watched, with_inner_stalls
from mase_hw.simulate.plan import InnerStalls, Limits, SimulationOptions
from mase_hw.simulate.result import SimResult
from mase_hw.streams import IntArray, Stream

if TYPE_CHECKING:
    from mase_hw.design.design import Design


class OpCase:
    """One parameter set of one op.

    Args:
        op: Name of the op.
        case: Name of the case.

    Raises:
        ConfigError: If the catalogue has no such case.
    """

    def __init__(self, op: str, case: str) -> None:
        found = default_catalogue().get(op)
        cases = {c.name: c for c in found.hardware.cases()} if found is not None and found.hardware else {}
        if found is None or found.hardware is None or case not in cases:
            raise ConfigError("the catalogue has no such case", node=op, got=case, expected=sorted(cases))
        self.op: OpDef = found
        self.hardware = found.hardware
        self.case: Case = cases[case]
        self.streams: tuple[Stream, ...] = tuple(self.hardware.ports(self.case.params))
        self.source = next(s for s in self.streams if s.direction == "in" and s.name not in self.hardware.static)
        self.sinks = tuple(s for s in self.streams if s.direction == "out")

    @property
    def multipliers(self) -> int:
        """Multipliers of the module."""
        return int(self.hardware.multipliers(self.case.params))

    @property
    def arithmetic(self) -> Arithmetic:
        """What the golden computes: what stands in the parameters, and the attributes of the case that do not."""
        read = self.hardware.arithmetic(self.case.params)
        return dataclasses.replace(read, attributes={**read.attributes, **self.case.attributes})

    def dut(self, folder: Path) -> Dut:
        """The module, from exactly its declared files.

        Args:
            folder: Where the files of memories inside the module are written, and what templates render to.
        """
        sources = []
        for file in self.hardware.files:
            path = self.hardware.external(file) or rtl_root() / file
            sources.append(path if path.is_file() else write_module(path, folder / path.name))
        if self.hardware.generated is not None:
            made = self.hardware.generated(self.case.name, self.case.params, self.arithmetic)
            folder.mkdir(parents=True, exist_ok=True)
            source = folder / f"{made.module}.sv"
            source.write_text(render_generated(made), encoding="utf-8")
            return Dut(made.module, (*sources, source), verilog_params(self.case.params), self.streams)
        tied = self.hardware.tied(self.case.params)
        parameters = verilog_params(self.case.params)
        memories = self.hardware.memories(self.arithmetic)
        for name, memory in memories.items():
            digits = (memory.bits + 3) // 4
            target = folder / f"{name.lower()}.mem"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(f"{word:0{digits}x}\n" for word in memory.words), encoding="utf-8")
            parameters[name] = f"mem/{target.name}"
        memory_folder = folder if memories else None
        return Dut(self.hardware.module, tuple(sources), parameters, self.streams, memory_folder, tied)

    def stimulus(self, seed: int) -> dict[str, IntArray]:
        """Random frames, then one of all smallest and one of all largest mantissas; parameters change as well."""
        rng = np.random.default_rng([seed, *self.op.name.encode(), *self.case.name.encode()])
        tensors: dict[str, IntArray] = {}
        for stream in self.streams:
            if stream.direction == "in":
                low, high = stream.fmt.min_mantissa, stream.fmt.max_mantissa
                if stream.name in self.hardware.narrow(self.case.params):
                    low = -high  # of weights that share a multiplier, the lowest is promised not to occur
                shape = stream.tensor_shape
                frames = rng.integers(low, high, (self.case.frames, *shape), dtype=np.int64, endpoint=True)
                if stream.fmt.bipolar:
                    frames[frames == 0] = 1
                corners = np.stack([np.full(shape, value) for value in (low, high)])
                tensors[stream.name] = np.concatenate([frames, corners])
                if stream.name in self.case.given:
                    tensors[stream.name] = np.resize(self.case.given[stream.name], tensors[stream.name].shape)
        return tensors

    def expected(self, tensors: Mapping[str, IntArray]) -> dict[str, IntArray]:
        """What the golden says, frame by frame."""
        golden = self.op.golden
        if golden is None:
            raise ConfigError("the op has no golden", node=self.op.name)
        arithmetic = self.arithmetic
        formats = {s.name: s.fmt for s in self.streams}
        frames: dict[str, list[IntArray]] = {s.name: [] for s in self.sinks}
        past: dict[str, torch.Tensor] = {}
        for index in range(len(tensors[self.source.name])):
            mantissas = {
                name: as_carrier(torch.from_numpy(tensor[index]), carrier(magnitude(formats[name])))
                for name, tensor in tensors.items()
            }
            result = golden(arithmetic, mantissas | past)
            past = {BEFORE: result[AFTER]} if AFTER in result else {}
            for sink in self.sinks:
                frames[sink.name].append(result[sink.name].to(torch.int64).numpy().reshape(sink.tensor_shape))
        return {name: np.stack(tensors) for name, tensors in frames.items()}

    def played(self, seed: int) -> Played:
        """Frames for every port: those of :meth:`stimulus`, and what the golden makes of them."""
        tensors = self.stimulus(seed)
        return Played.of(tensors, self.expected(tensors), {stream.name: stream for stream in self.streams})

    def limits(self, frames: int, slowdown: float) -> Limits:
        """How long to wait for so many frames."""
        latency = self.hardware.latency(self.case.params)
        quiet = latency.interval + latency.fill
        return Limits(8 * quiet + 200, int(40 * (frames + 1) * quiet * slowdown) + 4000)


Result = Json
"""A job's result as JSON types: ``job``, ``status`` (passed, failed, error, lost), ``figures`` and the rest."""


@dataclass(frozen=True)
class Place:
    """Where jobs run.

    Args:
        out: Folder of the regression, the same path on every machine.
        token: Of this regression; results of another one are never taken for its own.
        sources: Hash of what is tested.
        waves: Whether to write FST.
    """

    out: str
    token: str
    sources: str = ""
    waves: bool = False


@dataclass(frozen=True)
class _Task:
    """A job made ready: what to simulate on what, and the figures known before."""

    dut: Dut
    played: Played
    options: SimulationOptions
    limits: Limits
    cycles: int
    figures: dict[str, int]
    kept: Callable[[SimResult], SimResult] = lambda result: result
    """The result of a run at full rate, held to what a manifest promises of it."""


def run_job(job: Job, place: Place) -> Result:
    """Build and simulate one job.

    Args:
        job: The job.
        place: Where.

    Returns:
        Its result, whatever happened; also written to ``runs/<job>/result.json``.
    """
    begin = time.perf_counter()
    home = Path(place.out) / "runs" / job.name
    attempt = home / f"{place.token}-{uuid.uuid4().hex[:8]}"
    result: Result = blank(job, place)
    result["folder"] = str(attempt.relative_to(place.out))
    try:
        attempt.mkdir(parents=True)
        (home / "result.json").unlink(missing_ok=True)
        for old in home.iterdir():
            if old.is_dir() and not old.name.startswith(place.token):
                shutil.rmtree(old, ignore_errors=True)
        _judge(result, _simulate(job, place, attempt, result), job)
    except MaseHwError as problem:
        result["status"] = "failed" if isinstance(problem, SimulationError) else "error"
        result["kind"], result["message"] = type(problem).__name__, str(problem)
    except Exception as problem:
        # A fault of ours or of the model's file must end one job, not the regression.
        result["status"], result["kind"] = "error", type(problem).__name__
        result["message"] = "".join(traceback.format_exception(problem))
    result["seconds"] = round(time.perf_counter() - begin, 3)
    try:
        write_json(home / "result.json", result)
    except OSError as problem:
        result["status"], result["kind"] = "error", type(problem).__name__
        result["message"] = f"the result cannot be written: {problem}"
    return result


def blank(job: Job, place: Place) -> Result:
    """The result of a job that has not been run."""
    return {
        "job": job.name,
        "build": job.build,
        "engine": job.engine,
        "seed": job.seed,
        "stalls": job.stalls,
        "inner_stalls": job.inner_stalls,
        "identity": job.identity,
        "token": place.token,
        "sources": place.sources,
        "status": "lost",
        "kind": "Lost",
        "message": "the job gave no result",
        "figures": {},
        "compared": 0,
        "seconds": 0.0,
        "folder": "",
        "waves": None,
        "exercised": None,
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that is either whole or not there."""
    write_whole(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def _simulate(job: Job, place: Place, attempt: Path, result: Result) -> SimResult:
    builds = Path(place.out) / "builds"
    home = builds / job.build
    options = SimulationOptions(job.engine, job.seed, as_stalls(job.stalls), waves=place.waves, timeout=job.timeout)
    if job.kind == "op":
        task = _op(job, home, options)
    else:
        design = _bundle(job) if job.kind == "bundle" else _network(job, home, place.token)
        task = _designed(job, home, options, *design)
    result["figures"].update(task.figures)
    engine, played = engine_of(job.engine), task.played
    folder = home / f"simulator{'-waves' if place.waves else ''}{'-inner' if task.options.inner else ''}"
    built = engine.build(task.dut, folder, task.options, cache_dir=builds / "runtime-cache", cycles=task.cycles)
    ran = engine.simulate(built, attempt, played.beats_in, played.beats_out, task.limits, task.options)
    return task.kept(ran) if task.options.at_full_rate and ran.failure is None else ran


def _op(job: Job, home: Path, options: SimulationOptions) -> _Task:
    case = OpCase(job.spec["op"], job.spec["case"])
    played = case.played(job.seed)
    limits = case.limits(played.frames, options.stalls.slowdown)
    figures = {"multipliers": case.multipliers}
    return _Task(case.dut(home / "mem"), played, options, limits, limits.max_cycles, figures)


def _network(job: Job, home: Path, token: str) -> tuple[Design, Sides]:
    from mase_hw.design.design import Design

    with locked(home / "compile.lock", "the build folder"):
        stamp = home / "stamp.json"
        # Compiled once in a regression, never taken from another one: what the model's file imports is not known.
        if not stamp.is_file() or json.loads(stamp.read_text(encoding="utf-8")) != token:
            stamp.unlink(missing_ok=True)
            _compile(job, home)
            write_json(stamp, token)
    design = Design(home / "bundle")
    sides: Sides = ({}, {})
    with np.load(home / f"vectors-{job.seed}.npz") as file:
        for name, stream in design.streams.items():
            sides[0 if stream.direction == "in" else 1][name] = file[name]
    return design, sides


def _bundle(job: Job) -> tuple[Design, Sides]:
    from mase_hw.design.design import Design

    design = Design(Path(job.spec["bundle"]))
    return design, design.vectors()


def _designed(job: Job, home: Path, options: SimulationOptions, design: Design, sides: Sides) -> _Task:
    """A design on what its ports carry."""
    played, dut = Played.of(*sides, design.streams), design.dut()
    figures = {
        "multipliers": sum(i.multipliers for i in design.record.instances),
        "memory_bits": sum(m.words * m.bits for m in design.record.memories),
    }
    if job.inner_stalls:
        dut = with_inner_stalls(dut, home / INNER)
        options = replace(options, inner=InnerStalls(job.inner_stalls, design.timing["interval"]))
    limits = Limits.of(design.timing, played.frames, options.stalls, options.inner)

    def held(result: SimResult) -> SimResult:
        return kept(result, design.record, played.frames)

    return _Task(
        watched(dut, home / INNER), played, options, limits, options.cycles(design.timing, played.frames), figures, held
    )


def _compile(job: Job, home: Path) -> None:
    from mase_hw.compiler.compile import compile
    from mase_hw.compiler.config import load_config
    from mase_hw.emit.reference import Reference
    from mase_hw.errors import ConfigError
    from mase_hw.model_spec import load_model

    model = load_model(job.spec["model"])
    # Only what was given: a key that is merely dumped would override the rules it refines.
    config = load_config(job.spec["config"]).model_dump(exclude_unset=True)
    config["hardware"] = config.get("hardware", {}) | job.spec["hardware"]
    design = compile(model.model, model.example_inputs, config, out=home / "bundle", calibration=model.calibration)
    if design.graph is None:
        raise ConfigError("the design has no model", node=job.build)
    reference = Reference(design.graph)
    for seed in job.spec["seeds"]:
        stimulus, expected = reference.run(model.vectors(job.spec["frames"], seed))
        np.savez(home / f"vectors-{seed}.npz", **stimulus, **expected)  # type: ignore[arg-type]


def _judge(result: Result, run: SimResult, job: Job) -> None:
    result["compared"] = run.beats_compared
    result["waves"] = str(run.waves.name) if run.waves else None
    result["simulation_seconds"] = round(run.seconds, 3)
    result["exercised"] = None if run.exercise is None else run.exercise.to_json()
    if run.failure is not None:
        result["status"], result["kind"], result["message"] = "failed", type(run.failure).__name__, str(run.failure)
        return
    result["status"], result["kind"], result["message"] = "passed", None, ""
    result["figures"]["cycles"] = run.cycles
    if job.stalls or job.inner_stalls:
        return
    # Outputs are counted from the first input that is data, which is the first port.
    source = next(name for name, port in run.ports.items() if port.stream.direction == "in")
    timings = [t for name in run.outputs if (t := run.timing(source, name)) is not None]
    intervals = [t.interval for t in timings if t.interval is not None]
    if timings:
        result["figures"]["fill"] = max(t.fill for t in timings)
    if intervals:
        result["figures"]["interval"] = max(intervals)


__all__ = ["Place", "Result", "blank", "run_job", "write_json"]
