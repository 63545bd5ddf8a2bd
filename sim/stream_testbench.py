"""The cocotb test: plays a plan against any module whose ports are valid/ready streams.

The host writes ``plan.json`` and the beat files, this test drives every input, monitors every output and writes
``outcome.json`` last, so an outcome that exists is whole. Nothing here knows about formats or tensors: the host turns
the raw beats back into numbers.

Cycle numbers count rising edges of ``clk`` from the first one after reset. A beat is *presented* in the first cycle in
which it is valid and *accepted* in the cycle in which both valid and ready are high; a module without registers
presents a result in the cycle in which it accepts its operand.
"""

from __future__ import annotations

import json
import math
import os
import time
from array import array
from pathlib import Path
from typing import Any

import cocotb
from beat_file import BeatFile
from cocotb.clock import Clock
from pins import Bit, Bus
from scoreboard import Scoreboard
from stall_pattern import StallPattern
from stream_driver import StreamDriver
from stream_monitor import ProtocolViolation, StreamMonitor

_PROGRESS_CYCLES = 1024
_TAIL_CYCLES = 256


class Bench:
    """Everything of one run.

    Args:
        dut: The cocotb handle of the top level.
        plan: The plan as read from ``plan.json``.
        folder: The run folder.
    """

    def __init__(self, dut: Any, plan: dict[str, Any], folder: Path) -> None:
        self.dut, self.plan, self.folder = dut, plan, folder
        self.resets = 0
        for name in plan["idle"]:  # else they begin with random values
            getattr(dut, name).value = 0
        self.restart()
        self._progress = os.open(folder / "progress", os.O_WRONLY | os.O_CREAT, 0o644)
        self._reported = -math.inf  # the first report comes at once, however short the run

    def restart(self) -> None:
        """Forget what was seen: play everything from the first beat."""
        self.cycle = 0
        self.drivers = [self._driver(port) for port in self.plan["inputs"]]
        self.monitors = [self._monitor(port) for port in self.plan["outputs"]]

    def _driver(self, port: dict[str, Any]) -> StreamDriver:
        seed, name = int(self.plan["seed"]), port["name"]
        beats = BeatFile(self.folder / port["file"], port["bits"], port["beats"])
        return StreamDriver(name, *self._pins(port), beats, StallPattern.of(port["stalls"], seed, name), seed)

    def _monitor(self, port: dict[str, Any]) -> StreamMonitor:
        seed, name = int(self.plan["seed"]), port["name"]
        score = Scoreboard(BeatFile(self.folder / port["file"], port["bits"], port["beats"]))
        return StreamMonitor(name, *self._pins(port), score, StallPattern.of(port["stalls"], seed, name))

    def _pins(self, port: dict[str, Any]) -> tuple[Bus, Bit, Bit]:
        data, valid, ready = (getattr(self.dut, port[key]) for key in ("name", "valid", "ready"))
        return Bus(data, port["bits"]), Bit(valid), Bit(ready)

    async def reset(self, length: int, *, first: bool) -> None:
        """Hold reset with idle inputs for so many cycles, then release it."""
        edge, rst = self.dut.clk.rising_edge, Bit(self.dut.rst)
        rst.write(1)
        for driver in self.drivers:
            driver.idle()
        for monitor in self.monitors:
            monitor.idle()
        for _ in range(length):
            await edge
        # At the first edge of reset a register still shows what it held before.
        if first or length > 1:
            for monitor in self.monitors:
                monitor.check_reset()
        rst.write(0)

    async def play(self, until: dict[str, Any] | None = None) -> tuple[str, str] | None:
        """Stream until everything has come, plus a tail in which nothing more may come.

        Args:
            until: A reset of the plan that ends it earlier.

        Returns:
            The verdict (``pass``, ``mismatch``, ``extra``, ``hang`` or ``limit``) and a sentence; None if ``until``
            is due.
        """
        edge, drivers, monitors = self.dut.clk.rising_edge, self.drivers, self.monitors
        watchdog, limit, start = (int(self.plan[key]) for key in ("watchdog", "max_cycles", "idle_cycles"))
        cycle, last, longest, calm, end = 0, start, 0, False, -1
        while True:
            await edge
            moved = False
            for monitor in monitors:
                moved |= monitor.clock(cycle, calm)
            if cycle >= start:
                for driver in drivers:
                    moved |= driver.clock(cycle, calm)
            if until is not None and self._due(until, cycle + 1):
                return None
            if moved:
                longest, last, calm = max(longest, cycle - last), cycle, end >= 0
            if end < 0 and (moved or cycle == start) and self._all_done():
                # As long as the design has ever been silent, a beat too many may still be on its way. What was promised
                # counts only as far as the run itself shows it: it took a frame through, and the next one behind it.
                tail = min(int(self.plan["tail_cycles"]), 2 * cycle + _TAIL_CYCLES)
                end, calm = cycle + max(tail, longest + 16), True
            elif end < 0 and not moved and cycle - last >= watchdog:
                if calm and cycle - last >= 2 * watchdog:
                    return (
                        "hang",
                        f"no stream moved for {cycle - last} cycles, half of them without any stall",
                    )
                calm = True
            cycle += 1
            self.cycle = cycle
            if 0 <= end <= cycle:
                return self._verdict()
            if end < 0 and cycle >= limit:
                return "limit", f"not finished after {cycle} cycles"
            if cycle % _PROGRESS_CYCLES == 0:
                self._report()

    def _due(self, reset: dict[str, Any], cycles: int) -> bool:
        if reset["unit"] == "cycles":
            return cycles >= int(reset["at"])
        side = self.drivers if reset["unit"] == "in" else self.monitors
        return sum(len(end.accepted) for end in side) >= int(reset["at"])

    def _all_done(self) -> bool:
        return all(d.done for d in self.drivers) and all(m.done for m in self.monitors)

    def _verdict(self) -> tuple[str, str]:
        for kind in ("mismatches", "extra"):
            for monitor in self.monitors:
                count = monitor.scoreboard.summary()[kind]
                if count:
                    verdict = "mismatch" if kind == "mismatches" else "extra"
                    return (
                        verdict,
                        f"{count} {'wrong' if kind == 'mismatches' else 'surplus'} beats on {monitor.name}",
                    )
        return "pass", "every beat equals the reference"

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported >= 0.2:
            self._reported = now
            done = sum(len(m.accepted) for m in self.monitors)
            os.pwrite(self._progress, f"{self.cycle:>19} {done:>19}\n".encode(), 0)

    def write(self, verdict: str, message: str, seconds: float) -> None:
        """Write what was seen, and the outcome last."""
        streams: dict[str, Any] = {}
        for driver in self.drivers:
            self._write_cycles(driver.name, driver.accepted, driver.presented)
            streams[driver.name] = {
                "direction": "in",
                "beats": len(driver.accepted),
                "expected": driver.total,
                "valid": driver.valid,
                "ready": driver.ready_now(),
            }
        for monitor in self.monitors:
            self._write_cycles(monitor.name, monitor.accepted, monitor.presented)
            (self.folder / "found" / f"{monitor.name}.bin").write_bytes(monitor.scoreboard.found)
            streams[monitor.name] = {
                "direction": "out",
                "beats": len(monitor.accepted),
                "expected": monitor.scoreboard.total,
                "valid": monitor.valid_now(),
                "ready": monitor.ready,
                **monitor.scoreboard.summary(),
            }
        outcome = {
            "version": 1,
            "plan": self.plan["id"],
            "verdict": verdict,
            "message": message,
            "cycles": self.cycle,
            "resets": self.resets,
            "seconds": seconds,
            "streams": streams,
            "complete": True,
        }
        partial = self.folder / "outcome.json.partial"
        partial.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.folder / "outcome.json")

    def _write_cycles(self, name: str, accepted: array[int], presented: array[int]) -> None:
        for kind, cycles in (("accepted", accepted), ("presented", presented)):
            (self.folder / "cycles" / f"{name}.{kind}.bin").write_bytes(cycles.tobytes())


@cocotb.test()
async def stream_testbench(dut: Any) -> None:
    """Play the plan named by ``MASE_HW_PLAN``; fails unless every beat equals the reference."""
    path = Path(os.environ["MASE_HW_PLAN"])
    plan = json.loads(path.read_text(encoding="utf-8"))
    bench = Bench(dut, plan, path.parent)
    Clock(dut.clk, 10, unit="ns", impl="gpi").start(start_high=False)
    begin = time.perf_counter()
    try:
        await bench.reset(int(plan["reset_cycles"]), first=True)
        for until in (*plan["reset_at"], None):
            ended = await bench.play(until)
            if until is None or ended is not None:
                break
            bench.restart()
            bench.resets += 1
            await bench.reset(int(until["length"]), first=False)
        assert ended is not None  # the last one has no reset to end it
        verdict, message = ended
    except ProtocolViolation as problem:
        verdict, message = "protocol", str(problem)
    bench.write(verdict, message, time.perf_counter() - begin)
    if verdict != "pass":
        raise AssertionError(f"{verdict}: {message}")
