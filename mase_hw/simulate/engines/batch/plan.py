"""What the batch driver reads besides the beat files: the plan as words, and the garbage of idle inputs.

Seeds, thresholds and garbage are computed here exactly as ``sim/stall_pattern.py`` and ``sim/stream_driver.py`` do,
so both engines see the same surroundings for the same seed.
"""

from __future__ import annotations

import json
import random
from typing import Any

from mase_hw.host.disk import not_written
from mase_hw.simulate.plan import RESET_UNITS, Plan

GARBAGE_WORDS = 61
_MASK64 = (1 << 64) - 1
_HEAD = ("id", "reset_cycles", "idle_cycles", "watchdog", "max_cycles", "tail_cycles")


def stream_seed(seed: int, name: str) -> int:
    """Mix the run's seed and a name into 64 bits (FNV-1a), as ``sim/stall_pattern.py``."""
    state = 0xCBF29CE484222325
    for byte in f"{seed}:{name}".encode():
        state = ((state ^ byte) * 0x100000001B3) & _MASK64
    return state


def write_batch_plan(plan: Plan) -> None:
    """Write ``beats/batch.txt`` and a garbage file for every input.

    Raises:
        EmitError: If the folder cannot be written.
    """
    tree: dict[str, Any] = json.loads(plan.path.read_text(encoding="utf-8"))
    beats, seed = plan.folder / "beats", int(tree["seed"])
    resets = [f"{RESET_UNITS.index(r['unit'])} {r['at']} {r['length']}" for r in tree["reset_at"]]
    lines = [" ".join(str(tree[key]) for key in _HEAD), " ".join([str(len(resets)), *resets])]
    lines += [str(len(tree["inputs"]) + len(tree["outputs"]))]
    try:
        for direction, ports in (("in", tree["inputs"]), ("out", tree["outputs"])):
            for port in ports:
                name, bits, (go, stop) = port["name"], port["bits"], port["stalls"]["burst"]
                threshold = int(float(port["stalls"]["probability"]) * (1 << 32))
                words = (direction, name, bits, port["beats"], GARBAGE_WORDS, threshold, go, go + stop)
                lines.append(" ".join(map(str, (*words, stream_seed(seed, name)))))
                if direction == "in":
                    noise = random.Random(stream_seed(seed, name + "/garbage"))
                    size = (bits + 7) // 8
                    garbage = (noise.getrandbits(bits).to_bytes(size, "little") for _ in range(GARBAGE_WORDS))
                    (beats / f"{name}.garbage.bin").write_bytes(b"".join(garbage))
        (beats / "batch.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
    except OSError as problem:
        raise not_written("the plan", plan.folder, problem) from problem
