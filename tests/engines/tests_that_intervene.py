"""Tests that intervene in a run of the fast engine; they run inside the simulator, see ``test_intervene.py``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

IN, OUT = "data_in_0", "data_out_0"


def tell(**seen: Any) -> None:
    """Leave what was seen to the test outside; the run folder is the current one."""
    Path("seen.json").write_text(json.dumps(seen))


async def intervene(bench: Any) -> None:
    """Look, and touch nothing."""
    await bench.cycle(20)
    first = bench.now
    await bench.beats(IN, 13)
    second, inputs = bench.now, bench.accepted(IN)
    await bench.frames(OUT, 3)
    third, outputs = bench.now, bench.accepted(OUT)
    await bench.cycles(2)
    tell(
        first=first, second=second, inputs=inputs, third=third, outputs=outputs, fourth=bench.now,
        data=bench.data(OUT), valid=bench.valid(OUT), ready=bench.ready(OUT), pytest="_pytest.raises" in sys.modules,
    )  # fmt: skip


async def stall_output(bench: Any) -> None:
    await bench.beats(OUT, 7)
    await bench.stall(OUT, 25)


async def stall_input(bench: Any) -> None:
    await bench.cycle(21)
    await bench.stall(IN, 30)


async def hold_for_ever(bench: Any) -> None:
    bench.hold(OUT)


async def change_pattern(bench: Any) -> None:
    await bench.frames(OUT, 1)
    bench.pattern(OUT, burst=(1, 9))


async def corrupt(bench: Any) -> None:
    await bench.cycle(3)
    bench.corrupt(IN, beat=15, mask=0x8001)


async def reset_in_mid_frame(bench: Any) -> None:
    await bench.beats(OUT, 9)
    bench.corrupt(IN, beat=15, mask=1)
    await bench.beats(OUT, 16)
    # The beat was wrong; the flip is taken back, or it would be wrong again.
    bench.corrupt(IN, beat=29, mask=0)
    await bench.reset(length=3)
    await bench.frames(OUT, 2)


async def two_at_a_time(bench: Any) -> None:
    import cocotb

    times = []

    async def other(stream: str, beats: int) -> None:
        await bench.beats(stream, beats)
        times.append((stream, beats, bench.accepted(stream)))

    tasks = [cocotb.start_soon(other(stream, beats)) for stream in (IN, OUT) for beats in (4, 4, 11)]
    await bench.cycle(15)
    for task in tasks:
        await task
    tell(times=times)


async def too_late(bench: Any) -> None:
    await bench.beats(IN, 5)
    bench.corrupt(IN, beat=2)


async def never_over(bench: Any) -> None:
    await bench.frames(OUT, 6)


async def wrong_claim(bench: Any) -> None:
    await bench.frames(OUT, 1)
    assert bench.now == 0, f"a frame took {bench.now} cycles"


async def wrong_name(bench: Any) -> None:
    await bench.beats("data_out_1", 1)


async def stall_an_input_of_no_range(bench: Any) -> None:
    bench.pattern(IN, probability=1.0)


async def change_an_output(bench: Any) -> None:
    bench.corrupt(OUT, beat=20)


async def assertions_count(bench: Any) -> None:
    """One that fails."""
    await bench.cycle(3)
    assert bench.now < 0, "this assertion was made"
