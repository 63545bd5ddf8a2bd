"""The cocotb test of the fast engine: sources, sinks and watchdog are in the harness, Python waits for the end.

It turns the records of the harness into the files that ``stream_testbench`` leaves behind, so one judge serves both.
``outcome.json`` is written last. A test may intervene while the harness plays; ``intervention.py`` says how.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import First
from intervention import Intervention
from records import Sink, Source, control

_PASS, _PROTOCOL, _HANG, _LIMIT = 1, 2, 3, 4


def _violation(sinks: list[Sink], cycle: int) -> str:
    """The sentence of ``stream_monitor`` for the rule that was broken first."""
    for sink in sinks:
        offered = f"(beat {sink.accepted}, first offered in cycle {sink.pending})"
        if sink.broken == 1:
            return f"{sink.name}_valid is high during reset"
        if sink.broken == 2:
            return (
                f"the data of {sink.name} changed in cycle {cycle} while valid was high and ready low "
                f"{offered}: 0x{sink.word:x} became 0x{sink.bad:x}"
            )
        if sink.broken == 3:
            return f"valid of {sink.name} fell in cycle {cycle} before its beat was accepted {offered}"
    raise ValueError("a rule was broken, but no sink says which")


def _verdict(end: int, cycle: int, idle: int, sinks: list[Sink]) -> tuple[str, str]:
    if end == _PROTOCOL:
        return "protocol", _violation(sinks, cycle)
    if end == _HANG:
        return "hang", f"no stream moved for {idle} cycles, half of them without any stall"
    if end == _LIMIT:
        return "limit", f"not finished after {cycle} cycles"
    if end != _PASS:
        raise ValueError(f"the harness ended with the unknown verdict {end}")
    for kind, verdict, word in (("mismatches", "mismatch", "wrong"), ("extra", "extra", "surplus")):
        for sink in sinks:
            if count := getattr(sink, kind):
                return verdict, f"{count} {word} beats on {sink.name}"
    return "pass", "every beat equals the reference"


def conclude(folder: Path, plan: dict[str, Any], begin: float, test: Intervention) -> tuple[str, str]:
    """Write the files of the run, the outcome last.

    Returns:
        Verdict and message.
    """
    end, cycle, idle, resets, requested = control(folder)
    sources = [Source(folder, port) for port in plan["inputs"]]
    sinks = [Sink(folder, port) for port in plan["outputs"]]
    streams = {end.name: end.write(folder) for end in (*sources, *sinks)}
    verdict, message = test.judge(*_verdict(end, cycle, idle, sinks))
    outcome = {"version": 1, "plan": plan["id"], "verdict": verdict, "message": message, "cycles": cycle}
    outcome |= {"resets": resets, "requested_resets": requested, "interventions": test.log}
    outcome |= {"seconds": time.perf_counter() - begin, "streams": streams, "complete": True}
    partial = folder / "outcome.json.partial"
    partial.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, folder / "outcome.json")
    return verdict, message


@cocotb.test()
async def fast_testbench(dut: Any) -> None:
    """Let the harness play the plan named by ``MASE_HW_PLAN``; fails unless every beat equals the reference."""
    path = Path(os.environ["MASE_HW_PLAN"])
    plan = json.loads(path.read_text(encoding="utf-8"))
    test = Intervention(dut, path.parent)
    test.start()
    progress = os.open(path.parent / "progress", os.O_WRONLY | os.O_CREAT, 0o644)
    begin, woken = time.perf_counter(), int(dut.wake.value)
    while True:
        await First(dut.done.rising_edge, dut.tick.value_change, dut.wake.value_change)
        # Looked at, whatever ended the wait: two of them may change at the same edge.
        if int(dut.wake.value) != woken:
            woken = 1 - woken
            test.woken()
        os.pwrite(progress, f"{int(dut.cycle.value):>19} {int(dut.beats.value):>19}\n".encode(), 0)
        if int(dut.done.value):
            break
    verdict, message = conclude(path.parent, plan, begin, test)
    if verdict != "pass":
        raise AssertionError(f"{verdict}: {message}")
