"""Reads what a run left behind and decides whether anything was proven.

Nothing is assumed: the exit code, ``results.xml``, the outcome and the recorded beats must all be there, belong to
this plan and agree. The beats are compared again here, independently of the scoreboard inside the simulator.
"""

from __future__ import annotations

import json
import re
import signal
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mase_hw.errors import ConfigError, HangError, MismatchError, ResultsError, SimulationError
from mase_hw.hardware.beats import decode
from mase_hw.host.disk import is_full
from mase_hw.host.documents import Json
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.exercise import Exercise
from mase_hw.simulate.plan import Plan
from mase_hw.simulate.result import PortResult, SimResult, StreamCycles, find_first_mismatch
from mase_hw.simulate.run import Run
from mase_hw.streams import IntArray

_TAIL_LINES = 12
_OUTCOME = {"plan": str, "verdict": str, "message": str, "cycles": int, "streams": dict}


def judge(dut: Dut, plan: Plan, run: Run, *, results_xml: bool = True, edges: Edges | None = None) -> SimResult:
    """Judge a run; never raises for what the simulator did or did not do, see :attr:`SimResult.failure`.

    Args:
        dut: What was simulated.
        plan: What it was to do.
        run: How its process ended.
        results_xml: Whether the engine must have left cocotb's ``results.xml`` as well.
        edges: What the monitors inside the design counted, if it is not in the log of this run.
    """
    waves = plan.folder / "dump.fst"
    ports: dict[str, PortResult] = {}
    outputs: dict[str, IntArray] = {}
    cycles, failure = 0, None
    edges = read_edges(run.log) if edges is None else edges
    try:
        lines = _check_process(plan, run)
        if lines:
            failure, cycle = assertion_message(dut, plan, run, lines, _tail(run))
            cycles = cycle or 0
            raise failure
        unit = _check_results_xml(plan.folder / "results.xml", run) if results_xml else None
        outcome = _read_outcome(plan, unit, run)
        cycles = outcome["cycles"]
        _read_ports(dut, plan, outcome, ports, outputs, run)
        _check_resets(plan, outcome, ports)
        _check_verdict(outcome, unit, ports, run)
        if plan.content["turns"]:  # sequences may end within a frame, and edges count from the last reset on
            check_reports(dut, edges, _tail(run))
        else:
            check_edges(dut, edges, ports, _tail(run))
    except SimulationError as problem:
        failure = problem
    return SimResult(
        ports=ports,
        outputs=outputs,
        cycles=cycles,
        seconds=run.seconds,
        run_dir=plan.folder,
        failure=failure,
        waves=waves if waves.is_file() else None,
        identity=plan.identity,
        edges=edges,
        exercise=Exercise.read(run.log, dut.inside, run.period),
        period=run.period,
    )


def _tail(run: Run) -> str:
    """Where the log is and how it ends."""
    try:
        lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as problem:
        return f"the log {run.log} cannot be read: {problem}"
    end = "\n    ".join(line for line in lines[-_TAIL_LINES:] if line.strip())
    full = (
        f"the disk of {run.log.parent} is full: free space, or choose another work folder; "
        if is_full(run.log.parent)
        else ""
    )
    return f"{full}the log is {run.log} and ends with\n    {end or '(nothing)'}"


def _check_process(plan: Plan, run: Run) -> list[str]:
    """How the process ended; the lines in which the design says why, if it was the design that ended it."""
    if run.timed_out:
        raise ResultsError(
            f"the simulator was killed because it did not end within its time ({run.seconds:.0f} s)",
            remedy=_tail(run),
        )
    try:
        lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    # Verilator only warns when a memory file is missing or too short, and goes on with random contents.
    memory = [line.strip() for line in lines if "%Warning" in line and "$readmem" in line]
    if memory:
        node, got = memory_line(plan, memory[0])
        raise SimulationError(
            "a memory file was not read as a whole, so the design ran on random contents",
            node=node,
            got=got,
            remedy="emit the memories again",
        )
    if run.exit_code == 0:
        return []
    errors = [line.strip() for line in lines if "%Error" in line or "%Fatal" in line]
    if errors:
        return errors
    if run.exit_code < 0:
        try:
            name = signal.Signals(-run.exit_code).name
        except ValueError:
            name = f"signal {-run.exit_code}"
        raise ResultsError(f"the simulator was killed by {name}, so nothing was proven", remedy=_tail(run))
    raise ResultsError(f"the simulator ended with exit code {run.exit_code}", expected="exit code 0", remedy=_tail(run))


def _check_results_xml(path: Path, run: Run) -> str | None:
    """Return the failure message of the one test, None if it passed."""
    if not path.is_file():
        raise ResultsError(
            "the simulator wrote no results.xml, so no test ran to its end", node=str(path), remedy=_tail(run)
        )
    try:
        cases = list(ET.parse(path).iter("testcase"))
    except (ET.ParseError, OSError) as problem:
        raise ResultsError(
            "results.xml is not readable", node=str(path), got=str(problem), remedy=_tail(run)
        ) from problem
    if not cases:
        raise ResultsError("results.xml has no test case: no test ran", node=str(path), remedy=_tail(run))
    if len(cases) != 1:
        raise ResultsError("results.xml has another number of tests", node=str(path), got=len(cases), expected=1)
    if cases[0].find("skipped") is not None:
        raise ResultsError("the test was skipped, so nothing was proven", node=str(path), remedy=_tail(run))
    for kind in ("failure", "error"):
        found = cases[0].find(kind)
        if found is not None:
            return found.get("error_msg") or found.get("message") or (found.text or "").strip() or kind
    return None


def _read_outcome(plan: Plan, unit: str | None, run: Run) -> Json:
    path = plan.folder / "outcome.json"
    try:
        outcome: Json = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(
            "the bench ended without an outcome" + (f": {unit}" if unit else ""),
            node=str(path),
            remedy=_tail(run),
        ) from None
    except (OSError, ValueError) as problem:
        raise ResultsError("outcome.json is cut short or damaged", node=str(path), got=str(problem)) from problem
    whole = isinstance(outcome, dict) and outcome.get("complete") is True
    if not whole or any(not isinstance(outcome.get(key), kind) for key, kind in _OUTCOME.items()):
        raise ResultsError("outcome.json is incomplete", node=str(path), expected=sorted(_OUTCOME))
    if outcome["plan"] != plan.identity:
        raise ResultsError(
            "outcome.json belongs to another run", node=str(path), got=outcome["plan"], expected=plan.identity
        )
    return outcome


def _read_ports(
    dut: Dut,
    plan: Plan,
    outcome: Json,
    ports: dict[str, PortResult],
    outputs: dict[str, IntArray],
    run: Run,
) -> None:
    for stream in dut.streams:
        try:
            state = outcome["streams"][stream.name]
            cycles = StreamCycles(
                *(_cycles(plan.folder / "cycles" / f"{stream.name}.{k}.bin") for k in ("presented", "accepted"))
            )
            beats, expected = int(state["beats"]), int(state["expected"])
            if cycles.accepted.size != beats or cycles.presented.size < beats:
                raise ValueError(f"{cycles.accepted.size} handshakes recorded, {beats} beats reported")
            compared = mismatches = extra = 0
            first = None
            if stream.direction == "out":
                found = decode(stream, (plan.folder / "found" / f"{stream.name}.bin").read_bytes())
                if found.shape[0] != beats:
                    raise ValueError(f"{found.shape[0]} beats recorded, {beats} reported")
                reference = decode(stream, plan.raw[stream.name])
                outputs[stream.name] = found
                compared, extra = min(beats, reference.shape[0]), max(0, beats - reference.shape[0])
                mismatches, first = find_first_mismatch(stream, reference, found)
                if (compared, mismatches) != (state["compared"], state["mismatches"]):
                    raise ValueError(f"{mismatches} mismatches recorded, {state['mismatches']} reported")
        except (OSError, KeyError, TypeError, ValueError, ConfigError) as problem:
            raise ResultsError(
                f"the records of {stream.name} are missing or contradict the outcome",
                got=str(problem),
                remedy=_tail(run),
            ) from problem
        ports[stream.name] = PortResult(
            stream,
            expected,
            beats,
            compared,
            mismatches,
            extra,
            first,
            cycles,
            state.get("valid"),
            state.get("ready"),
        )


def _cycles(path: Path) -> Any:
    return np.frombuffer(path.read_bytes(), dtype=np.int64)


def _check_resets(plan: Plan, outcome: Json, ports: dict[str, PortResult]) -> None:
    """Refuse a run that ended before its last reset, and say when it ended, so that an earlier one can be chosen."""
    if outcome.get("resets", 0) == plan.resets or outcome["verdict"] != "pass":
        return
    moved = {side: sum(p.beats for p in ports.values() if p.stream.direction == side) for side in ("in", "out")}
    raise ResultsError(
        "the run ended before a reset that was to happen in it, so nothing was proven about recovery",
        got=f"{outcome.get('resets', 0)} resets; the run ended {outcome['cycles']} cycles, {moved['in']} input beats "
        f"and {moved['out']} output beats after its last reset",
        expected=plan.resets,
        remedy="let the reset come earlier, or give more frames",
    )


def _check_verdict(outcome: Json, unit: str | None, ports: dict[str, PortResult], run: Run) -> None:
    verdict, message = outcome["verdict"], outcome["message"]
    states = "\n    ".join(["", *(port.state() for port in ports.values())])
    wrong = [port for port in ports.values() if port.first is not None]
    if verdict == "protocol":
        raise SimulationError(f"the design broke the stream protocol: {message}", got=f"at the end{states}")
    if wrong:
        wrong.sort(key=lambda port: int(port.cycles.presented[port.first.beat_index]) if port.first else 0)
        total = sum(port.mismatches for port in wrong)
        note = f"; then {message}" if verdict in ("hang", "limit") else ""
        raise MismatchError(
            f"hardware and reference differ in {total} of {sum(p.compared for p in ports.values())} beats{note}",
            node=wrong[0].stream.name,
            got=f"first difference: {wrong[0].first}",
        )
    if verdict in ("hang", "limit"):
        raise HangError(
            f"the design {'hangs' if verdict == 'hang' else 'takes too long'}: {message}",
            got=f"cycle {outcome['cycles']}{states}",
            expected="every beat of every stream",
        )
    surplus = [port for port in ports.values() if port.extra]
    if surplus:
        raise MismatchError(
            f"{surplus[0].stream.name} produced {surplus[0].extra} beats more than expected",
            node=surplus[0].stream.name,
            got=surplus[0].beats,
            expected=surplus[0].expected,
        )
    if verdict == "test":
        raise SimulationError("every beat is right, but the test that intervenes in the run failed", got=message)
    if verdict == "unfinished":
        raise ResultsError(
            "the run ended before the test that intervenes in it, so nothing was proven about it",
            got=message,
            remedy="let it act earlier, or give more frames",
        )
    for port in ports.values():
        if port.stream.direction == "out" and not port.compared:
            raise ResultsError(
                f"no beat of {port.stream.name} was compared, so nothing was proven",
                node=port.stream.name,
                remedy="give at least one frame of stimulus",
            )
        if port.beats != port.expected:
            raise ResultsError(
                f"{port.stream.name} moved fewer beats than expected", got=port.beats, expected=port.expected
            )
    if verdict != "pass" or unit is not None:
        raise ResultsError(
            "outcome and results.xml contradict each other",
            got=f"{verdict}; {unit or 'test passed'}",
            remedy=_tail(run),
        )


_SAID = re.compile(r"\[(\d+)\] %(?:Error|Fatal): (\S+:\d+): Assertion failed in ([^:]+): (.*)")
_BROKEN = re.compile(r"stream (.+?): (valid dropped|data changed)(.*)")
_MEMORY = re.compile(r"%(?:Warning|Error)[^:]*: ([^:]+):\d*: ?(.*\$readmem.*)")


def assertion_message(
    dut: Dut, plan: Plan, run: Run, lines: Sequence[str], tail: str
) -> tuple[SimulationError, int | None]:
    """Why the design stopped the simulation, from the lines that its assertions printed.

    Args:
        dut: What was simulated.
        plan: What was played.
        run: How it ended.
        lines: The lines of errors in the log, the first one first.
        tail: Where the log is and how it ends.

    Returns:
        The error, and the cycle in which it was, as the testbench counts them; None if that is not certain.
    """
    message = "the design stopped the simulation with an error of its own"
    said = _SAID.search(lines[0])
    if said is None:
        node, got = memory_line(plan, lines[0])
        return SimulationError(message, node=node, got=got, remedy=tail), None
    time, place, path, text = int(said[1]), said[2], said[3].strip(), said[4]
    when, cycle = _when(plan, run, time)
    # A message may begin with the instance once more (%m).
    text = text.removeprefix(f"{path}: ")
    place = place.removeprefix(dut.prefix)
    if place.startswith("frame_check.sv:"):
        error = SimulationError(
            "a frame leaves the design before what it is made of came in", node=text.partition(" ")[0],
            got=f"{when}: {text}", expected="as many frames as came, each after its own input", remedy=tail,
        )  # fmt: skip
        return error, cycle
    edge = _BROKEN.fullmatch(text) if place.startswith("stream_check.sv:") else None
    if edge is None:
        if place.startswith("invariant.sv:"):
            # The module at fault is the one around it, and says what must hold by the name of this instance.
            path, _, place = path.rpartition(".")
        node = path.removeprefix(dut.inside)
        return SimulationError(message, node=node, got=f"{when}: {text} ({place})", remedy=tail), cycle
    error = SimulationError(
        f"the design broke the stream protocol {when}: {edge[2]}{edge[3]}",
        node=edge[1],
        expected="valid stays high, with the same data, until ready",
        remedy=f"the module that drives this stream is at fault; {tail}",
    )
    return error, cycle


def memory_line(plan: Plan, line: str) -> tuple[str | None, str]:
    """The memory file that a line of Verilator is about, and what it says of it; None and the line if it is not."""
    found = _MEMORY.search(line)
    if found is None:
        return None, line
    return str((plan.folder / found[1].strip()).resolve()), found[2]


def _when(plan: Plan, run: Run, time: int) -> tuple[str, int | None]:
    """In words when it was, and the cycle if it is certain: if nothing but the first reset came before."""
    edge, rest = divmod(time - run.period // 2, run.period)
    if rest:  # not a rising edge of the testbench's clock, so none of its cycles
        return (f"at time {time} of the simulator" if time else "at its start"), None
    reset = int(plan.content["reset_cycles"])
    if plan.resets or plan.content["intervenes"]:  # a test may reset whenever it likes
        return f"at rising edge {edge} of the clock, counted from 0 over all resets", None
    return (f"in cycle {edge - reset}", edge - reset) if edge >= reset else ("during the reset at its start", None)


Edges = Mapping[str, tuple[int, int]]
"""Whole frames, and beats beyond them, by edge."""
_EDGE = re.compile(r"stream_check: (\d+) frames and (\d+) of \d+ beats on (.+)")


def read_edges(log: Path) -> Edges:
    """The counts of the monitors, as they print them when the simulation ends; empty if there is no log."""
    try:
        found = _EDGE.findall(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}
    return {name.strip(): (int(frames), int(beats)) for frames, beats, name in found}


def check_edges(dut: Dut, edges: Edges, ports: Mapping[str, PortResult], tail: str) -> None:
    """Check that every edge reported, and carried whole frames; what is left over would spoil the next frame.

    Args:
        dut: What was simulated. If its edges are known, all of them must report, and all streams must play as many
            whole frames; of another module nothing is known, and what reports is checked if whole frames were played.
        edges: From :func:`read_edges`.
        ports: What moved at the ports.
        tail: Where the log is and how it ends.

    Raises:
        ResultsError: If an edge did not report, or the streams did not play the same number of whole frames.
        SimulationError: If an edge carried something else.
    """
    check_reports(dut, edges, tail)
    played = {divmod(port.expected, port.stream.frame_beats) for port in ports.values()}
    if len(played) != 1 or next(iter(played))[1]:
        if dut.edges is None:
            return
        counts = (f"{p.stream.name}: {p.expected} beats, {p.stream.frame_beats} a frame" for p in ports.values())
        raise ResultsError(
            "the streams of the design did not play the same number of whole frames, so not all of them were compared",
            got="\n    ".join(["", *counts]),
            expected="as many whole frames on every stream",
        )
    (wanted,) = played
    wrong = {name: seen for name, seen in edges.items() if seen != wanted}
    if wrong:
        raise SimulationError(
            "the results are right, but an edge inside the design did not carry a whole number of frames",
            node=next(iter(wrong)),
            got="\n    ".join(["", *(f"{name}: {a} frames and {b} beats" for name, (a, b) in wrong.items())]),
            expected=f"{wanted[0]} frames on every edge",
        )


def check_reports(dut: Dut, edges: Edges, tail: str) -> None:
    """Check that the edges that reported are those of which it is known that they must.

    Arguments and errors are those of :func:`check_edges`.
    """
    if dut.edges is None or set(dut.edges) == set(edges):
        return
    silent, unknown = sorted(set(dut.edges) - set(edges)), sorted(set(edges) - set(dut.edges))
    lists = (("said nothing", silent), ("not in the manifest", unknown))
    raise ResultsError(
        "the edges inside the design that reported are not those that it has, so nothing was proven about them",
        node=(silent or unknown)[0],
        got="".join(f"\n    {what}: {', '.join(names)}" for what, names in lists if names),
        expected=f"a report of each of the {len(dut.edges)} edges that the manifest names",
        remedy=f"emit the bundle again; its checks are compiled unless SYNTHESIS is defined; {tail}",
    )
