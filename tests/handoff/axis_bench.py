"""cocotb bench of the AXI4-Stream wrapper; runs inside the simulator, drivers and monitors are cocotbext-axi's.

The frames come from a file that the test writes (``AXIS_FRAMES``): TDATA of every beat as bytes, by interface.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

FRAMES: dict[str, list[list[list[int]]]] = json.loads(Path(os.environ["AXIS_FRAMES"]).read_text())
SOURCES = [name for name in FRAMES if name.startswith("s_axis")]
SINKS = [name for name in FRAMES if name.startswith("m_axis")]


def pauses(seed: int, chance: float) -> Any:
    rng = random.Random(seed)
    return (rng.random() < chance for _ in itertools.count())


def flat(beats: list[list[int]]) -> bytes:
    return bytes(byte for beat in beats for byte in beat)


class Bench:
    """The wrapper between cocotbext-axi's sources and sinks."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
        ends = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        self.sources = {n: AxiStreamSource(AxiStreamBus.from_prefix(dut, n), **ends) for n in SOURCES}
        self.sinks = {n: AxiStreamSink(AxiStreamBus.from_prefix(dut, n), **ends) for n in SINKS}

    def error(self, source: str) -> int:
        return int(getattr(self.dut, source.removeprefix("s_axis_") + "_tlast_error").value)

    async def reset(self, cycles: int = 3) -> None:
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, cycles)
        self.dut.aresetn.value = 1
        for end in (*self.sources.values(), *self.sinks.values()):
            end.clear()

    def pause(self, seed: int, source: float, sink: float) -> None:
        for index, end in enumerate(self.sources.values()):
            end.set_pause_generator(pauses(seed + index, source) if source else itertools.repeat(False))
        for index, end in enumerate(self.sinks.values()):
            end.set_pause_generator(pauses(seed + 50 + index, sink) if sink else itertools.repeat(False))

    def send(self, name: str, cut: tuple[int, ...] = ()) -> None:
        """Send all frames of an input; ``cut`` are the beats of the whole after which TLAST is (all, if empty)."""
        beats = [beat for frame in FRAMES[name] for beat in frame]
        length = len(FRAMES[name][0])
        ends = cut or tuple(range(length, len(beats) + 1, length))
        for start, end in itertools.pairwise((0, *ends)):
            self.sources[name].send_nowait(AxiStreamFrame(flat(beats[start:end])))

    async def receive(self) -> None:
        """Every frame of every output, each ended by TLAST, and nothing after the last."""
        for name, sink in self.sinks.items():
            for index, expected in enumerate(FRAMES[name]):
                got = await with_timeout(sink.recv(compact=False), 20, "us")
                assert bytes(got.tdata) == flat(expected), f"{name}, frame {index}"
        await ClockCycles(self.dut.aclk, 40)
        assert all(sink.empty() for sink in self.sinks.values()), "surplus beats"


async def rules(dut: Any, name: str) -> None:
    """AXI4-Stream: once TVALID is high, it and its payload stay until TREADY."""
    signals = [getattr(dut, f"{name}_{s}") for s in ("tvalid", "tready", "tdata", "tlast", "tvalid")]
    waiting = None
    while True:
        await RisingEdge(dut.aclk)
        valid, ready, *payload = (int(s.value) for s in signals)
        if not int(dut.aresetn.value):
            waiting = None
            continue
        assert waiting is None or waiting == payload, f"{name} changed while it waited"
        waiting = payload if valid and not ready else None


@cocotb.test()
async def frames_and_stalls(dut: Any) -> None:
    """Bits, frame boundaries and the rules, at every mix of stalls."""
    bench = Bench(dut)
    monitors = [cocotb.start_soon(rules(dut, name)) for name in SINKS]
    await bench.reset()
    for seed, (source, sink) in enumerate([(0, 0), (0.5, 0), (0, 0.6), (0.4, 0.4), (0.1, 0.9)]):
        bench.pause(seed, source, sink)
        for name in SOURCES:
            bench.send(name)
        await bench.receive()
        assert [bench.error(name) for name in SOURCES] == [0] * len(SOURCES)
    assert not any(monitor.done() for monitor in monitors)


@cocotb.test()
async def wrong_tlast(dut: Any) -> None:
    """Early, missing, both: the bit is set and kept, only on the input concerned; the data are not disturbed."""
    bench = Bench(dut)
    for victim in SOURCES:
        frame, total = len(FRAMES[victim][0]), len(FRAMES[victim]) * len(FRAMES[victim][0])
        good = tuple(range(frame, total + 1, frame))
        cases = {1: (1, *good), 2: good[1:], 3: (1, *good[1:])}
        for bits, cut in cases.items():
            await bench.reset()
            assert bench.error(victim) == 0, "reset clears it"
            for name in SOURCES:
                bench.send(name, cut if name == victim else ())
            await bench.receive()
            assert {n: bench.error(n) for n in SOURCES} == {n: bits * (n == victim) for n in SOURCES}


@cocotb.test()
async def reset_in_mid_frame(dut: Any) -> None:
    """Whenever the reset comes, the next frames are whole."""
    bench = Bench(dut)
    await bench.reset()
    for cycles in (1, 4, 7, 12, 15, 23):
        for name in SOURCES:
            bench.send(name)
        await ClockCycles(dut.aclk, cycles)
        await bench.reset(1 + cycles % 3)
        for name in SOURCES:
            bench.send(name)
        await bench.receive()


@cocotb.test()
async def registered_outputs(dut: Any) -> None:
    """With registers at the boundaries no output moves between clock edges, whatever the inputs do."""
    if os.environ["AXIS_REGISTERED"] != "1":
        return
    bench = Bench(dut)
    await bench.reset()
    for name in SOURCES:
        bench.send(name)
    outputs = [getattr(dut, f"{n}_tready") for n in SOURCES]
    outputs += [getattr(dut, f"{n}_{s}") for n in SINKS for s in ("tvalid", "tdata", "tlast")]
    for _ in range(60):
        await RisingEdge(dut.aclk)
        await Timer(1, "ns")
        before = [str(o.value) for o in outputs]
        await Timer(3, "ns")
        for name in SINKS:
            ready = getattr(dut, f"{name}_tready")
            ready.value = 1 - int(ready.value)
        await Timer(3, "ns")
        assert [str(o.value) for o in outputs] == before, "a ready goes through to an output"
