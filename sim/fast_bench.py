"""The cocotb test of the fast engine: sources, sinks and watchdog are in the harness, Python waits for the end.

It turns the records of the harness (``cycles/*.txt``) into the files that ``stream_bench`` leaves behind, so one judge
serves both. ``outcome.json`` is written last.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import First

_PASS, _PROTOCOL, _HANG, _LIMIT = 1, 2, 3, 4


class Records:
    """What the source or sink of one stream wrote.

    Args:
        folder: The run folder.
        port: The stream's entry in the plan.

    Raises:
        ValueError: If the file is cut short.
    """

    def __init__(self, folder: Path, port: dict[str, Any]) -> None:
        lines = (folder / "cycles" / f"{port['name']}.txt").read_text(encoding="ascii").splitlines()
        if not lines or not lines[-1].startswith("end "):
            raise ValueError(f"the records of {port['name']} are cut short")
        self.name, self.port = port["name"], port
        self.end = lines[-1].split()[1:]
        """The state at the end."""
        self.rows = [line.split() for line in lines[:-1]]
        """A row for every beat."""

    def write(self, folder: Path, presented: array[int], accepted: array[int]) -> None:
        """Write the cycles of the beats."""
        for kind, cycles in (("accepted", accepted), ("presented", presented)):
            (folder / "cycles" / f"{self.name}.{kind}.bin").write_bytes(cycles.tobytes())


def _input(folder: Path, records: Records) -> dict[str, Any]:
    presented = array("q", (int(row[0]) for row in records.rows))
    accepted = array("q", (int(row[1]) for row in records.rows if row[1] != "-1"))
    records.write(folder, presented, accepted)
    valid, ready = (int(word) for word in records.end[1:3])
    state = {"direction": "in", "beats": len(accepted), "expected": records.port["beats"]}
    return {**state, "valid": valid, "ready": ready}


def _output(folder: Path, records: Records) -> dict[str, Any]:
    presented = array("q", (int(row[1]) for row in records.rows))
    accepted = array("q", (int(row[2]) for row in records.rows))
    _, valid, ready, compared, mismatches, first, _, pending = (int(word) for word in records.end[:8])
    if pending >= 0:
        presented.append(pending)
    records.write(folder, presented, accepted)
    found = b"".join(bytes.fromhex(row[0])[::-1] for row in records.rows)
    (folder / "found" / f"{records.name}.bin").write_bytes(found)
    state = {"direction": "out", "beats": len(accepted), "expected": records.port["beats"]}
    state |= {"valid": valid, "ready": ready, "compared": compared, "extra": len(accepted) - compared}
    return {**state, "mismatches": mismatches, "first": first if mismatches else None}


def _violation(sinks: list[Records], cycle: int) -> str:
    """The sentence of ``stream_monitor`` for the rule that was broken first."""
    for sink in sinks:
        broken, pending = int(sink.end[6]), sink.end[7]
        offered = f"(beat {sink.end[0]}, first offered in cycle {pending})"
        if broken == 1:
            return f"{sink.name}_valid is high during reset"
        if broken == 2:
            before, after = (int(word, 16) for word in sink.end[8:10])
            return (
                f"the data of {sink.name} changed in cycle {cycle} while valid was high and ready low "
                f"{offered}: 0x{before:x} became 0x{after:x}"
            )
        if broken == 3:
            return f"valid of {sink.name} fell in cycle {cycle} before its beat was accepted {offered}"
    raise ValueError("a rule was broken, but no sink says which")


def _verdict(end: int, cycle: int, idle: int, sinks: list[Records], streams: dict[str, Any]) -> tuple[str, str]:
    if end == _PROTOCOL:
        return "protocol", _violation(sinks, cycle)
    if end == _HANG:
        return "hang", f"no stream moved for {idle} cycles, half of them without any stall"
    if end == _LIMIT:
        return "limit", f"not finished after {cycle} cycles"
    for kind, verdict, word in (("mismatches", "mismatch", "wrong"), ("extra", "extra", "surplus")):
        for sink in sinks:
            if count := streams[sink.name][kind]:
                return verdict, f"{count} {word} beats on {sink.name}"
    return "pass", "every beat equals the reference"


def conclude(folder: Path, plan: dict[str, Any], seconds: float) -> tuple[str, str]:
    """Write the files of the run, the outcome last.

    Returns:
        Verdict and message.
    """
    end, cycle, idle = (int(word) for word in (folder / "cycles" / "control.txt").read_text(encoding="ascii").split())
    sinks = [Records(folder, port) for port in plan["outputs"]]
    streams = {port["name"]: _input(folder, Records(folder, port)) for port in plan["inputs"]}
    streams |= {sink.name: _output(folder, sink) for sink in sinks}
    verdict, message = _verdict(end, cycle, idle, sinks, streams)
    outcome = {"version": 1, "plan": plan["id"], "verdict": verdict, "message": message, "cycles": cycle}
    outcome |= {"seconds": seconds, "streams": streams, "complete": True}
    partial = folder / "outcome.json.partial"
    partial.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, folder / "outcome.json")
    return verdict, message


@cocotb.test()
async def fast_bench(dut: Any) -> None:
    """Let the harness play the plan named by ``MASE_HW_PLAN``; fails unless every beat equals the reference."""
    path = Path(os.environ["MASE_HW_PLAN"])
    plan = json.loads(path.read_text(encoding="utf-8"))
    progress = os.open(path.parent / "progress", os.O_WRONLY | os.O_CREAT, 0o644)
    begin = time.perf_counter()
    while True:
        # Before the first event the outputs have random values.
        await First(dut.done.rising_edge, dut.tick.value_change)
        os.pwrite(progress, f"{int(dut.cycle.value):>19} {int(dut.beats.value):>19}\n".encode(), 0)
        if int(dut.done.value):
            break
    verdict, message = conclude(path.parent, plan, time.perf_counter() - begin)
    if verdict != "pass":
        raise AssertionError(f"{verdict}: {message}")
