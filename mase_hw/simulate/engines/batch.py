"""The batch engine: the same plan, stalls and judge as cocotb, without Python in the loop.

For whole data sets. Every file the driver leaves has the meaning of its namesake from the cocotb bench, so verdicts,
beats and cycle numbers of the two engines can be compared directly; ``tests/engines`` does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from mase_hw.errors import ConfigError, MismatchError, ResultsError, SimulationError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build import simulator as simulators
from mase_hw.simulate.build.simulator import Built, Flavour, Place
from mase_hw.simulate.coverage import FILE, read_coverage
from mase_hw.simulate.coverage import FLAGS as COVERAGE_FLAGS
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.exercise import ADDED, Exercise
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import DEFAULTS, MEMORY, Limits, Plan, SimulationOptions, write_plan
from mase_hw.simulate.result import Part, SimResult
from mase_hw.simulate.run import HOST, Call, Run, run_simulators
from mase_hw.streams import Beats, IntArray, Stream


def simulate(
    built: Built, run_dir: Path, stimulus: Beats, expected: Beats, limits: Limits, options: SimulationOptions = DEFAULTS
) -> SimResult:
    """Play stimulus and judge what comes out; arguments as :func:`mase_hw.simulate.engines.cocotb.simulate`.

    Raises:
        ConfigError: If the beats do not fit the design's streams, or cannot be cut into frames for several processes.
        EmitError: If the run folder cannot be written.
        ToolError: If the simulator cannot be started.
    """
    run_dir = run_dir.resolve()
    whole = write_plan(built.dut, run_dir, stimulus, expected, limits, options)
    clean_parts(run_dir)
    shares = cut(built.dut, stimulus, expected, 1 if options.waves else options.jobs)
    if len(shares) == 1:
        (found,) = run(built, [whole], options)
        return _covered(built, judge(built.dut, whole, found, results_xml=False), [whole])
    # All read the memory files of the whole run, which were checked once.
    memory = run_dir / MEMORY if built.dut.memory is not None else None
    sharing = dataclasses.replace(built.dut, memory=memory, digests={})
    plans = [
        write_plan(
            sharing,
            run_dir / "parts" / str(number),
            share.stimulus,
            share.expected,
            limits,
            dataclasses.replace(options, seed=options.seed + number),
        )
        for number, share in enumerate(shares)
    ]
    return _covered(built, join(built.dut, whole, shares, plans, run(built, plans, options)), plans)


def run(built: Built, plans: Sequence[Plan], options: SimulationOptions = DEFAULTS) -> list[Run]:
    """Run a process for every plan until all have ended; the seed of each is one more than that of the one before.

    Raises:
        EmitError: If what the driver reads cannot be written.
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    for plan in plans:
        write_batch_plan(plan)
    window = options.window if options.waves else None
    arguments = () if window is None else (f"--window={max(0, window[0])},{window[1]}",)
    env = os.environ | {HOST: str(os.getpid())}
    calls = [Call(plan, options.seed + number, env, arguments) for number, plan in enumerate(plans)]
    return run_simulators(built, calls, options, _PERIOD)


def _covered(built: Built, result: SimResult, plans: Sequence[Plan]) -> SimResult:
    """With what was reached, if the simulator counts it; a run that proves nothing has no coverage."""
    if not built.coverage or isinstance(result.failure, ResultsError):
        return result
    try:
        return dataclasses.replace(result, coverage=read_coverage(plan.folder / FILE for plan in plans))
    except ResultsError as problem:
        return dataclasses.replace(result, failure=result.failure or problem)


@dataclass(frozen=True)
class Probes:
    """What of a top level the driver records besides its ports.

    Args:
        nets: Nets, named as the signals are.
        levels: Signals that hold the fill level of a FIFO, of at most 32 bits, by its name.
    """

    nets: Sequence[Stream] = ()
    levels: Mapping[str, str] = field(default_factory=dict)


NO_PROBES = Probes()


def build(
    dut: Dut,
    build_dir: Path,
    options: SimulationOptions = DEFAULTS,
    *,
    probes: Probes = NO_PROBES,
    models: Path | None = None,
    **place: Unpack[Place],
) -> Built:
    """Build the model, a glue file, and the C++ driver of ``sim/batch``.

    Arguments as of :func:`mase_hw.simulate.engines.cocotb.build`; coverage and threads are those of the options.
    Nothing is public and there is no VPI, so Verilator may optimise everything but the ports. ``probes`` are exposed to
    the driver, which then records their handshakes. Instead of waves a simulator with ``models``, the file with the
    models of a netlist's cells, writes how often each net outside of that file changes (:data:`ACTIVITY`).

    Raises:
        ConfigError: If there is less than one thread.
        ToolError: If a tool is missing or the C++ compiler fails.
        SimulationError: If Verilator refuses the design; a warning is a refusal.
        EmitError: If a folder cannot be written, or a source cannot be read.
    """
    coverage, threads = options.coverage, options.threads
    if threads < 1:
        raise ConfigError("a simulator needs at least one thread", field="threads", got=threads, expected="1 or more")
    public = [*(name for s in probes.nets for name in (s.name, s.valid, s.ready)), *probes.levels.values()]

    def rules(dut: Dut) -> str:
        lines = [f'public_flat_rd -module "{dut.top}" -var "{name}"' for name in public]
        lines += [f'lint_off -rule {rule} -file "*/{file.name}"' for rule in dut.foreign for file in dut.sources]
        # Said of no line of a source: a design with too little to do for all threads, which computes the same.
        lines += ['lint_off -rule UNOPTTHREADS -file "*"'] if threads > 1 else []
        # The monitors and connectors of a simulation are no part of the design.
        lines += [f'tracing_off -file "*/{models.name}"'] if models else []
        lines += [f'coverage_off -file "*/{name}.sv"' for name in ADDED] if coverage else []
        return "".join(f"{line}\n" for line in lines)

    home = sim_root() / "batch"
    trace = "saif" if models else "fst"
    flavour = Flavour(
        "activity" if models else "batch",
        "-O2",  # this engine is for long runs
        main=lambda tools: (),
        bench=(home / "testbench.cpp", *sorted(home.glob("*.h")), sim_root() / "end_with_parent.h"),
        flags=(*(COVERAGE_FLAGS if coverage else ()), *(("--threads", str(threads)) if threads > 1 else ())),
        rules=rules,
        generated=(("glue.cpp", _glue(dut, probes, threads, trace)),),
        unit_bytes=800_000,
        coverage=coverage,
        trace=trace,
    )
    waves = bool(options.waves or models)
    return simulators.build(dut, build_dir, waves=waves, flavour=flavour, **place)


def _glue(dut: Dut, probes: Probes, threads: int, trace: str) -> str:
    """The only C++ that depends on the design: where its ports, and the probed nets, lie."""

    def entry(place: str, stream: Stream) -> str:
        signals = ", ".join(f"&top->{place}{_mangled(name)}" for name in (stream.name, stream.valid, stream.ready))
        return f'    {{"{stream.name}", {signals}, {stream.bits}}},\n'

    inner = f"rootp->{_mangled(dut.top)}__DOT__"
    reads = {name: f"static_cast<unsigned long long>(top->{inner}{_mangled(s)})" for name, s in probes.levels.items()}
    # Verilator begins with random values, also at inputs that nothing drives.
    idle = "".join(f"  std::memset(&top->{_mangled(n)}, 0, sizeof top->{_mangled(n)});\n" for n in dut.idle)
    fifos = "".join(f'    {{"{name}", [] {{ return {read}; }}}},\n' for name, read in reads.items())
    return f"""\
#include <cstring>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "model.h"
#if VM_TRACE
#include "verilated_{trace}_c.h"
#endif

namespace batch {{
namespace {{
Vtop *top;
#if VM_TRACE
Verilated{trace.capitalize()}C *waves;
#endif
}}  // namespace

Model open_model(VerilatedContext *context) {{
#if VM_TRACE
  context->traceEverOn(true);
#endif
  // Else there are as many as cores, used or not. The system places them, since other processes have threads as well.
  context->threads({threads});
  context->useNumaAssign(false);
  top = new Vtop{{context, ""}};
{idle}  return {{&top->clk, &top->rst, {{
{"".join(entry("", stream) for stream in dut.streams)}  }}, {{
{"".join(entry(inner, stream) for stream in probes.nets)}  }}, {{
{fifos}  }}}};
}}
void eval_model() {{ top->eval(); }}
{_WAVES if trace == "fst" else _CHANGES}#else
void trace_model(const char *) {{}}
#endif
void close_model() {{
  top->final();
#if VM_TRACE
  if (waves) waves->close();
#endif
}}
}}  // namespace batch
"""


_WAVES = """\
#if VM_TRACE
void trace_model(const char *file) {
  waves = new VerilatedFstC;
  top->trace(waves, 99);
  waves->open(file);
}
void dump_model(unsigned long long time) { waves->dump(static_cast<uint64_t>(time)); }
"""
ACTIVITY, INITIAL = "activity.saif", "initial.saif"
"""How often each net changed in a window, and the same of a window of no time: Verilator begins with zeros, so that
each net that is 1 in the beginning counts as one that has changed."""
_CHANGES = f"""\
#if VM_TRACE
void trace_model(const char *) {{
  waves = new VerilatedSaifC;
  top->trace(waves, 99);
}}
void dump_model(unsigned long long time) {{
  // A window begins and ends with a falling edge, so that it holds whole cycles.
  if (!waves->isOpen()) {{
    if (top->clk) return;
    VerilatedSaifC initial;  // one writes all nets only once
    top->trace(&initial, 99);
    initial.open("{INITIAL}");
    initial.dump(static_cast<uint64_t>(time));
    initial.close();
    waves->open("{ACTIVITY}");
  }}
  waves->dump(static_cast<uint64_t>(time));
}}
"""


def _mangled(name: str) -> str:
    """A SystemVerilog name as Verilator spells it in C++: a double underscore is its own separator."""
    return name.replace("__", "___05F")


_PERIOD = 10
"""As ``PERIOD`` of ``sim/batch/testbench.cpp``."""
_HEAD = ("id", "reset_cycles", "idle_cycles", "watchdog", "max_cycles", "tail_cycles")


def write_batch_plan(plan: Plan) -> None:
    """Write ``beats/batch.txt`` and a garbage file for every input.

    Raises:
        EmitError: If the folder cannot be written.
    """
    content, beats = plan.content, plan.folder / "beats"
    numbers: list[Sequence[Any]] = [[content[key] for key in _HEAD]]
    numbers += [[plan.resets, *itertools.chain(*plan.times_of_resets())]]
    numbers += [[len(content["inputs"]) + len(content["outputs"]), len(content["turns"])]]
    numbers += content["turns"]
    with writing("the plan", plan.folder):
        for direction, ports in (("in", content["inputs"]), ("out", content["outputs"])):
            for port in ports:
                garbage = plan.garbage(port) if direction == "in" else ()
                numbers += [(direction, port["name"], port["bits"], port["beats"], len(garbage), *plan.stalls(port))]
                if garbage:
                    words = (word.to_bytes((port["bits"] + 7) // 8, "little") for word in garbage)
                    (beats / f"{port['name']}.garbage.bin").write_bytes(b"".join(words))
        text = "".join(" ".join(map(str, line)) + "\n" for line in numbers)
        (beats / "batch.txt").write_text(text, encoding="ascii")


@dataclass(frozen=True)
class Share:
    """What one process plays.

    Args:
        first: Number of its first frame.
        frames: How many frames it has.
        stimulus: Beats of the inputs.
        expected: Beats of the outputs.
    """

    first: int
    frames: int
    stimulus: Beats
    expected: Beats


def clean_parts(run_dir: Path) -> None:
    """Remove the shares of an earlier run."""
    with writing("the run folder", run_dir), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(run_dir / "parts")


def cut(dut: Dut, stimulus: Beats, expected: Beats, jobs: int) -> list[Share]:
    """Cut a run into at most ``jobs`` shares of whole frames, of two at least so that each shows an interval.

    Raises:
        ConfigError: If ``jobs`` is not positive, or the streams do not hold the same number of whole frames.
    """
    if jobs < 1:
        raise ConfigError("a simulation needs at least one process", field="jobs", got=jobs, expected="1 or more")
    if jobs == 1:
        return [Share(0, 0, stimulus, expected)]
    beats = {**stimulus, **expected}
    counts = {s.name: divmod(beats[s.name].shape[0], s.frame_beats) for s in dut.streams}
    frames = {whole for whole, _ in counts.values()}
    if len(frames) != 1 or any(rest for _, rest in counts.values()):
        raise ConfigError(
            "only whole frames can be shared between processes",
            field="jobs",
            got={name: f"{whole} frames and {rest} beats" for name, (whole, rest) in counts.items()},
            remedy="give every stream the same number of frames, or jobs=1",
        )
    (total,) = frames
    jobs = max(1, min(jobs, total // 2))
    edges = [total * i // jobs for i in range(jobs + 1)]

    def part(side: Beats, begin: int, end: int) -> dict[str, IntArray]:
        size = {s.name: s.frame_beats for s in dut.streams}
        return {name: data[begin * size[name] : end * size[name]] for name, data in side.items()}

    return [Share(a, b - a, part(stimulus, a, b), part(expected, a, b)) for a, b in itertools.pairwise(edges)]


def join(dut: Dut, whole: Plan, shares: Sequence[Share], plans: Sequence[Plan], runs: Sequence[Run]) -> SimResult:
    """Judge every share, then all of them as one run.

    A share that did not move exactly the beats it should is itself the verdict: beats after a gap could not be told
    from others, so nothing is merged.
    """
    results = [judge(dut, plan, run, results_xml=False) for plan, run in zip(plans, runs, strict=True)]
    seconds = max(run.seconds for run in runs)
    for number, (share, result) in enumerate(zip(shares, results, strict=True)):
        if not _exact(result):
            assert result.failure is not None
            place = f"frames {share.first} to {share.first + share.frames - 1} of the run, counted from 0"
            part = Part(number, share.first, share.frames, 0, own=True)
            return dataclasses.replace(result, seconds=seconds, failure=_placed(result.failure, place), part=part)
    log = whole.folder / "sim.log"
    with writing("the merged results", whole.folder):
        _merge(dut, whole, results)
        log.write_text("".join(f"see {run.log}\n" for run in runs), encoding="utf-8")
    names = dict.fromkeys(name for share in results for name in share.edges)
    edges = {name: [share.edges.get(name, (0, 0)) for share in results] for name in names}
    sums = {name: (sum(f for f, _ in seen), sum(b for _, b in seen)) for name, seen in edges.items()}
    result = judge(dut, whole, Run(0, False, log, seconds, _PERIOD), results_xml=False, edges=sums)
    exercise = Exercise.merged([share.exercise for share in results])
    return dataclasses.replace(result, exercise=exercise, part=_failing(result, shares, results))


def _failing(whole: SimResult, shares: Sequence[Share], results: Sequence[SimResult]) -> Part | None:
    """The share in which the first difference is."""
    first = whole.first_mismatch
    for number, share in enumerate(shares):
        if first is not None and share.first <= first.frame < share.first + share.frames:
            return Part(number, share.first, share.frames, sum(r.cycles for r in results[:number]), own=False)
    return None


def _exact(result: SimResult) -> bool:
    if result.failure is not None and type(result.failure) is not MismatchError:
        return False
    return bool(result.ports) and all(port.beats == port.expected for port in result.ports.values())


def _placed(failure: SimulationError, place: str) -> SimulationError:
    """The same failure, saying which share it speaks of."""
    return type(failure)(
        f"{failure.message} ({place})",
        node=failure.node,
        field=failure.field,
        got=failure.got,
        expected=failure.expected,
        remedy=failure.remedy,
    )


def _merge(dut: Dut, whole: Plan, results: Sequence[SimResult]) -> None:
    """Write the records of all shares as those of one run, the outcome last."""
    streams: Json = {}
    starts = [sum(r.cycles for r in results[:i]) for i in range(len(results))]
    for stream in dut.streams:
        name, ports = stream.name, [r.ports[stream.name] for r in results]
        for kind in ("presented", "accepted"):
            data = b"".join(
                # A beat offered in the tail of a share but never expected is not part of the whole.
                (getattr(port.cycles, kind)[: port.beats] + start).tobytes()
                for port, start in zip(ports, starts, strict=True)
            )
            (whole.folder / "cycles" / f"{name}.{kind}.bin").write_bytes(data)
        if stream.direction == "out":
            found = b"".join((r.run_dir / "found" / f"{name}.bin").read_bytes() for r in results)
            (whole.folder / "found" / f"{name}.bin").write_bytes(found)
        streams[name] = {
            "direction": stream.direction,
            **{k: sum(getattr(p, k) for p in ports) for k in ("beats", "expected", "compared", "mismatches", "extra")},
            "valid": ports[-1].valid,
            "ready": ports[-1].ready,
        }
    wrong = sum(state["mismatches"] for state in streams.values())
    outcome = {
        "version": 1,
        "plan": whole.identity,
        "verdict": "mismatch" if wrong else "pass",
        "message": f"{wrong} wrong beats" if wrong else "every beat equals the reference",
        "cycles": sum(r.cycles for r in results),
        "resets": whole.resets,
        "streams": streams,
        "complete": True,
    }
    write_whole(whole.folder / "outcome.json", json.dumps(outcome, indent=1) + "\n")
