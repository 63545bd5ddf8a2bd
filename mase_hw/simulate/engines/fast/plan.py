"""Writes the plan once more in the words of the SystemVerilog sources and sinks, beside the beats."""

from __future__ import annotations

import json
import random

import numpy as np

from mase_hw.host.disk import not_written
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.batch.plan import stream_seed
from mase_hw.simulate.intervene import Intervention
from mase_hw.simulate.plan import RESET_UNITS, Plan

_GARBAGE_WORDS = 61


def write_fast_plan(dut: Dut, plan: Plan, test: Intervention | None = None) -> None:
    """Add the files that the harness, and the test around it, read.

    Args:
        dut: What is simulated.
        plan: What to play.
        test: A test that intervenes.

    Raises:
        EmitError: If they cannot be written.
    """
    streams = {
        s.name: {"index": index, "direction": s.direction, "frame": s.frame_beats}
        for index, s in enumerate(dut.streams)
    }
    harness = {
        "streams": streams,
        "test": None if test is None else {"file": str(test.file), "function": test.function},
    }
    content = json.loads(plan.path.read_text(encoding="utf-8"))
    seed, beats = int(content["seed"]), plan.folder / "beats"
    try:
        names = ("reset_cycles", "idle_cycles", "watchdog", "max_cycles", "tail_cycles")
        (beats / "control.fast").write_text(" ".join(str(content[name]) for name in names) + "\n", encoding="ascii")
        (beats / "harness.json").write_text(json.dumps(harness) + "\n", encoding="utf-8")
        resets = (f"{RESET_UNITS.index(r['unit'])} {r['at']} {r['length']}\n" for r in content["reset_at"])
        (beats / "resets.fast").write_text("".join(resets), encoding="ascii")
        for port in (*content["inputs"], *content["outputs"]):
            name, size = port["name"], (port["bits"] + 7) // 8
            words = np.frombuffer(plan.raw[name], dtype=np.uint8).reshape(-1, size)[:, ::-1]
            (beats / f"{name}.words").write_bytes(words.tobytes())
            (beats / f"{name}.count").write_text(f"{port['beats']}\n", encoding="ascii")
            go, stop = port["stalls"]["burst"]
            threshold = int(float(port["stalls"]["probability"]) * (1 << 32))
            state = stream_seed(seed, name)
            stalls = f"{threshold:x} {state:x} {go} {go + stop}\n"
            (beats / f"{name}.stalls").write_text(stalls, encoding="ascii")
            if port in content["inputs"]:
                # The same words as sim/stream_driver.py draws.
                noise = random.Random(stream_seed(seed, name + "/garbage"))
                garbage = (f"{noise.getrandbits(port['bits']):x}\n" for _ in range(_GARBAGE_WORDS))
                (beats / f"{name}.garbage").write_text("".join(garbage), encoding="ascii")
    except OSError as problem:
        raise not_written("the plan", plan.folder, problem) from problem
