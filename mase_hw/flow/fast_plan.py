"""Writes the plan once more in the words of the SystemVerilog sources and sinks, beside the beats."""

from __future__ import annotations

import json
import random

import numpy as np

from mase_hw.errors import EmitError
from mase_hw.flow.batch_plan import stream_seed
from mase_hw.flow.plan import Plan

_GARBAGE_WORDS = 61


def write_fast_plan(plan: Plan) -> None:
    """Add the files that the harness reads.

    Raises:
        EmitError: If they cannot be written.
    """
    content = json.loads(plan.path.read_text(encoding="utf-8"))
    seed, beats = int(content["seed"]), plan.folder / "beats"
    try:
        names = ("reset_cycles", "idle_cycles", "watchdog", "max_cycles", "tail_cycles")
        (beats / "control.fast").write_text(" ".join(str(content[name]) for name in names) + "\n", encoding="ascii")
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
        raise EmitError("the plan cannot be written", node=str(plan.folder), got=str(problem)) from problem
