"""What a design said when it stopped the simulation itself: which stream or instance, and in which cycle."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mase_hw.errors import SimulationError
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Plan
from mase_hw.simulate.run import Run

_SAID = re.compile(r"\[(\d+)\] %(?:Error|Fatal): (\S+:\d+): Assertion failed in ([^:]+): (.*)")
_EDGE = re.compile(r"stream (.+?): (valid dropped|data changed)(.*)")
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
    if place.startswith("frame_check.sv:"):
        error = SimulationError(
            "a frame leaves the design before what it is made of came in", node=text.partition(" ")[0],
            got=f"{when}: {text}", expected="as many frames as came, each after its own input", remedy=tail,
        )  # fmt: skip
        return error, cycle
    edge = _EDGE.fullmatch(text) if place.startswith("stream_check.sv:") else None
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
    try:
        content = json.loads(plan.path.read_text(encoding="utf-8"))
        reset = int(content["reset_cycles"])
        again = bool(content["reset_at"]) or _may_reset(plan)
    except (OSError, ValueError, KeyError, TypeError):
        again, reset = True, 0
    if again:
        return f"at rising edge {edge} of the clock, counted from 0 over all resets", None
    return (f"in cycle {edge - reset}", edge - reset) if edge >= reset else ("during the reset at its start", None)


def _may_reset(plan: Plan) -> bool:
    """Whether a test intervenes, which may reset whenever it likes."""
    try:
        harness = json.loads((plan.folder / "beats" / "harness.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return harness["test"] is not None
