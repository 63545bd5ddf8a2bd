"""Every op and case in Verilator against its golden: every bit at any rate, every cycle of the latency facet."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from .checks import CHECKS, Check, all_compared
from .groups import Place
from .harness import ITEMS, Item, expected, play, stimulus
from .often import every_case

Places = Callable[[Item], Place]
whatever_case = pytest.mark.parametrize("it", ITEMS, ids=lambda it: it.id)

UNDER_COCOTB = 1
"""Cases of a module that are played under cocotb as well."""


def _place(it: Item) -> int:
    return [other.id for other in ITEMS if other.hardware.module == it.hardware.module].index(it.id)


def run(check: Check, it: Item, place: Place, folder: Path, **options: Any) -> None:
    """Play everything of a check."""
    for seed, stalls in check.runs(it):
        more = {"seed": seed, "stall_static": check.stall_static, "reset_at": check.resets(it)} | options
        found = play(place.seen(it), it, folder / str(seed), stalls, **more)
        check.holds(it, all_compared(it, place.result(found)))


@every_case
def test_full_rate(it: Item, place: Places, tmp_path: Path) -> None:
    """Bits, fill latency, interval, the departures of the first frame, the cycle of every beat of all frames."""
    run(CHECKS["full_rate"], it, place(it), tmp_path)


@pytest.mark.parametrize("it", [it for it in ITEMS if _place(it) < UNDER_COCOTB], ids=lambda it: it.id)
def test_under_cocotb(it: Item, cocotb_place: Places, tmp_path: Path) -> None:
    """The engine with a Python driver says the same of a module of each kind, to the bit and the cycle."""
    for name in ("full_rate", "back_pressure"):
        run(CHECKS[name], it, cocotb_place(it), tmp_path / name, engine="cocotb")


@every_case
def test_late_inputs(it: Item, place: Places, tmp_path: Path) -> None:
    """The latency model holds for any arrival of the data, not only for one beat per cycle."""
    run(CHECKS["late_inputs"], it, place(it), tmp_path)


@every_case
def test_random_stalls(it: Item, place: Places, tmp_path: Path) -> None:
    """The same bits when every stream stalls at random, after resets of one cycle in the middle of frames."""
    run(CHECKS["random_stalls"], it, place(it), tmp_path)


@every_case
def test_back_pressure(it: Item, place: Places, tmp_path: Path) -> None:
    """Every beat in the cycle that the latency model says when the data comes and goes at random."""
    run(CHECKS["back_pressure"], it, place(it), tmp_path)


@every_case
def test_long_stalls(it: Item, place: Places, tmp_path: Path) -> None:
    """The same bits when the output stops until everything behind it is full, and runs until it is empty."""
    run(CHECKS["long_stalls"], it, place(it), tmp_path)


@whatever_case
def test_interval_is_the_work(it: Item) -> None:
    """The interval facet follows from work and multipliers, not from what the module happens to do."""
    work, multipliers = (f(it.case.params) for f in (it.hardware.work, it.hardware.multipliers))
    latency = it.hardware.latency(it.case.params)
    # No stream moves more than a beat per cycle.
    assert latency.interval >= max(s.frame_beats for s in it.streams)
    weight = next((s for s in it.streams if s.name == "weight"), None)
    if weight is not None:
        # The positions of a beat share the weights, and have multipliers of their own.
        multipliers, rest = divmod(multipliers, beside := getattr(it.case.params, "columns", (1, 1))[1])
        assert not rest
        work //= beside
    if weight is not None and (packed := getattr(it.case.params, "PACKED", 1)) > 1:
        # Lanes that share a multiplier have a product each.
        outputs = it.sink.lanes // beside
        assert multipliers == weight.lanes // outputs * -(-outputs // packed)
        multipliers = weight.lanes
    if it.hardware.idle is not None and weight is None:
        # Element by element, waiting for its own results.
        assert multipliers == it.source.lanes and it.source.beats * multipliers >= work > 0
        assert latency.interval == it.source.beats + it.hardware.idle(it.case.params)
    elif it.hardware.idle is not None:
        # What computes with its own results multiplies what its weights are tiled into, or waits for them.
        assert weight is not None and multipliers == weight.lanes and weight.frame_beats * multipliers >= work > 0
        assert latency.interval == weight.frame_beats + it.hardware.idle(it.case.params)
    elif work and weight is not None and len(weight.shape) == 4:
        # A convolution multiplies what its weights are tiled into, unless the image takes longer to arrive.
        assert multipliers == weight.lanes
        assert weight.frame_beats * multipliers >= work
        assert latency.interval == max(weight.frame_beats, it.source.beats)
    elif work and getattr(it.case.params, "causal", False):
        # Tiles of rows that no token sees cost nothing; short vectors take their beats to come or to go.
        schedule = latency.steps[0]
        assert schedule.steps * multipliers >= work
        p = it.case.params
        whole = it.hardware.latency(msgspec.structs.replace(p, causal=False, capacity=3 * p.rows))
        assert schedule.steps <= latency.interval <= whole.interval
    elif work:
        # Lanes that do not divide cost the multipliers of the pad lanes, and nothing else.
        padded = math.prod(s * p for s, p in zip(it.source.tiles, it.source.lane_dims, strict=True))
        if not it.hardware.follows_input:
            tokens, _ = getattr(it.case.params, "beside", (1, 1))  # of a beat, which are on both sides
            padded *= it.sink.tiles[0] * it.sink.lane_dims[0] // tokens
        else:  # element by element every lane has its multiplier, of several blocks where it multiplies by wide numbers
            blocks, rest = divmod(multipliers, it.source.lanes)
            assert not rest and (blocks == 1 or it.op.name in ("add", "sub", "requantize"))
            padded *= blocks
        assert padded % multipliers == 0 and padded >= work
        # A matrix that serves few vectors may take longer to arrive.
        assert latency.interval == max(padded // multipliers, *(s.frame_beats for s in it.streams))
    else:
        assert multipliers == 0


@every_case
def test_the_case_is_not_vacuous(it: Item) -> None:
    """Random frames mostly miss the ends of the output range; saturated outputs all look alike."""
    fmt, outputs = it.sink.fmt, expected(it, stimulus(it))[it.sink.name][: it.case.frames]
    if fmt.width > 1:
        inside = np.mean((outputs > fmt.min_mantissa) & (outputs < fmt.max_mantissa))
        assert inside >= 0.2, f"only {inside:.0%} of the outputs are inside the range of {fmt}"
    assert np.unique(outputs).size > 1


def test_exhaustive_cases_have_every_code() -> None:
    found = [it for it in ITEMS if it.case.exhaustive]
    assert {it.op.name for it in found} >= {"cast", "relu"}
    for it in found:
        fmt = it.source.fmt
        codes = np.unique(stimulus(it)[it.source.name][: it.case.frames])
        assert codes.tolist() == list(range(fmt.min_mantissa, fmt.max_mantissa + 1)), it.id
