"""What a manifest promises besides the bits: the latency, if it says that it is exact."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mase_hw.errors import SimulationError
from mase_hw.simulate.arguments import Arguments
from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult

SOURCE, SINK = "data_in_0", "data_out_0"
"""The ports between which the fill latency is promised."""


def kept(result: SimResult, timing: Mapping[str, Any], asked: Arguments) -> SimResult:
    """The same result; a failure if all bits are right, but the first of them came in another cycle than promised.

    The promise is one for inputs that always offer and outputs that always accept, so nothing is said of a run with
    stalls, resets, or a test that intervenes.

    Args:
        result: Of a run that passed.
        timing: ``fill`` of the manifest, in cycles, and whether it is ``exact``.
        asked: How it was run.
    """
    stalled = asked.stalls not in (None, Stalls.none()) or bool(asked.inner_stalls)
    at_full_rate = not stalled and not asked.reset_at and not asked.intervenes
    measured = result.timing(SOURCE, SINK)
    if not (timing["exact"] and at_full_rate) or measured is None or measured.fill == timing["fill"]:
        return result
    failure = SimulationError(
        "every bit is right, but the first result does not come when the manifest says",
        node=SINK,
        field="timing.fill",
        got=f"{measured.fill} cycles after the first input",
        expected=f"{timing['fill']} cycles, which the manifest calls exact",
        remedy="compile the model again; if nobody edited the manifest, please report this with the bundle",
    )
    return dataclasses.replace(result, failure=failure)
