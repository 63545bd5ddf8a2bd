"""Relative energy of a frame from a manifest alone: what :mod:`mase_hw.synth.power` would count, about.

Three terms: flip-flops that are clocked in every cycle of a frame, look-up tables in the cycles in which their stage
works, and multiply-accumulates. What a unit of each takes was fitted to ten designs of one network on xc7;
``docs/power.md`` has them, with what each is wrong by if it is left out.
"""

from __future__ import annotations

from mase_hw.emit.estimate import FAMILY, Part, estimate
from mase_hw.hardware.manifest import Manifest

CLOCKED = 2.64
"""Units of a flip-flop in a cycle: two for its pin, and what of the clock goes to blocks."""
WORKING = 1.14
"""Of a look-up table in a cycle in which its stage works."""
MULTIPLIED = 71.9
"""Of a multiply-accumulate."""


def energy(manifest: Manifest, family: str = FAMILY) -> float:
    """Units of a frame in steady state.

    Args:
        manifest: Of a design.
        family: A family with a cost model, for what it takes.
    """
    interval = manifest.timing.interval
    own = {each.node: each.timing.interval for each in manifest.instances if each.timing and each.work}
    working = 0
    for each in manifest.instances:
        held = [memory for memory in manifest.memories if memory.instance == each.name]
        cycles = each.timing.interval if each.timing else own.get(each.node, interval)
        working += estimate(Part([each], held), family)["lut"] * min(cycles, interval)
    work = sum(each.work for each in manifest.instances)
    clocked = int(estimate(manifest, family)["ff"])
    return CLOCKED * clocked * interval + WORKING * working + MULTIPLIED * work
