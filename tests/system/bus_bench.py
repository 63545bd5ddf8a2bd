"""cocotb bench of how much of the bus long frames use, against a memory that is ready in every cycle."""

from __future__ import annotations

import os
import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge
from shell_bench import BUSY, BYTES, MemoryBench

LONG, FRAMES = int(os.environ["SHELL_LONG"]), 4
SOURCE, TARGET = 0x0000, 0x8000
CHANNELS = ("r", "w")


async def beats(dut: Any, channel: str, at: list[int]) -> None:
    """When data is handed over, in cycles."""
    valid, ready = (getattr(dut, f"mem_m_axi_{channel}{name}") for name in ("valid", "ready"))
    cycle = 0
    while True:
        await RisingEdge(dut.clk)
        cycle += 1
        if int(valid.value) and int(ready.value):
            at.append(cycle)


@cocotb.test()
async def long_frames(dut: Any) -> None:
    """Every cycle from the first beat of data to the last, in either direction; 95 % were asked for."""
    bench = MemoryBench(dut)
    await bench.reset()
    raw = random.Random("long").randbytes(FRAMES * LONG)
    bench.memory.data[SOURCE : SOURCE + len(raw)] = raw
    seen: dict[str, list[int]] = {channel: [] for channel in CHANNELS}
    for channel, at in seen.items():
        cocotb.start_soon(beats(dut, channel, at))
    await bench.start(SOURCE, TARGET, FRAMES)
    assert await bench.until(BUSY, 0, 100000)
    assert bench.memory.data[TARGET : TARGET + len(raw)] == raw
    for channel, at in seen.items():
        cycles = at[-1] - at[0] + 1
        assert len(at) == FRAMES * LONG // BYTES
        assert len(at) == cycles, f"{channel}: {len(at)} beats in {cycles} cycles"
