"""cocotb bench of the shell with streams around a core that returns what it gets."""

from __future__ import annotations

import itertools
import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource
from shell_bench import (
    BYTES,
    CAMPAIGN,
    CLEAR,
    CONTROL,
    CORE,
    EARLY,
    ENABLE,
    ERRORS,
    FRAMES_FLAGGED,
    FRAMES_IN,
    FRAMES_OUT,
    IN_BEATS,
    INTERRUPT_STATUS,
    LATE,
    OCCUPIED,
    OUT_BEATS,
    REFUSED,
    RESETTING,
    SIZE,
    SOFT_RESET,
    STALLS,
    STALLS_OUT,
    START,
    STATUS,
    STEP,
    Bench,
    frame,
    result,
    rules,
)

ONE, OTHER = (IN_BEATS, OUT_BEATS, SIZE), (3, 3, 20)
"""Beats in and out, and elements of a frame."""


def guarded(beats: int, ends: list[int]) -> list[tuple[int, int, int]]:
    """First beat, beats and flag of every frame, of so many beats with TLAST at these places."""
    found = []
    start = 0
    for end in ends:
        length = end + 1 - start
        found.append((start, min(length, IN_BEATS), int(length != IN_BEATS)))
        start = end + 1
    assert start == beats
    return found


class Port:
    """A source and a sink, and the frames that go between them."""

    def __init__(self, bench: StreamBench, suffix: str, sizes: tuple[int, int, int]) -> None:
        dut, shell = bench.dut, bench.shell
        self.in_beats, self.out_beats, self.size = sizes
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, f"{shell}_s_axis{suffix}"), **bench.ends)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, f"{shell}_m_axis{suffix}"), **bench.ends)
        names = [f"{shell}_m_axis{suffix}_t{field}" for field in ("valid", "ready", "data", "keep", "last", "user")]
        cocotb.start_soon(rules(dut, names[0], names[1], names[2:]))

    def send(self, raw: bytes) -> None:
        self.source.send_nowait(AxiStreamFrame(raw))

    def frame(self, rng: random.Random) -> bytes:
        return rng.randbytes(self.in_beats * BYTES)

    def result(self, raw: bytes) -> bytes:
        """What the core makes of a frame; at the second port elements are bytes."""
        return result(raw) if self.size == SIZE else raw[: self.size].ljust(self.out_beats * BYTES, b"\0")

    async def receive(self) -> tuple[bytes, int]:
        """A result, which has all its beats, and whether it is flagged."""
        got = await with_timeout(self.sink.recv(compact=False), 800 if CORE else 200, "us")
        beats = [got.tkeep[i : i + BYTES] for i in range(0, len(got.tkeep), BYTES)]
        assert len(beats) == self.out_beats
        last = self.size - BYTES * (self.out_beats - 1)
        assert [sum(beat) for beat in beats] == [BYTES] * (self.out_beats - 1) + [last]
        return bytes(got.tdata), int(got.tuser[-1])


class StreamBench(Bench):
    """A shell with streams: of one port each way, or of two."""

    def __init__(self, dut: Any, shell: str = "str") -> None:
        super().__init__(dut, shell)
        kinds = {"": ONE} if shell == "str" else {"_a": ONE, "_b": OTHER}
        self.ports = [Port(self, suffix, sizes) for suffix, sizes in kinds.items()]
        self.port = self.ports[0]
        self.channels = [pair for port in self.ports for pair in ((port.source, True), (port.sink, False))]

    async def reset(self) -> None:
        await super().reset()
        for port in self.ports:
            port.sink.clear()  # what stood there before the first reset

    async def good(self, rng: random.Random, frames: int) -> None:
        """Frames of the right length have right results."""
        given = [[port.frame(rng) for port in self.ports] for _ in range(frames)]
        for record in given:
            for port, raw in zip(self.ports, record, strict=True):
                port.send(raw)
        for record in given:
            for port, raw in zip(self.ports, record, strict=True):
                assert await port.receive() == (port.result(raw), 0)

    async def drained(self) -> list[list[tuple[bytes, int]]]:
        """What has come at every port by the time at which the core is empty, which are whole frames."""
        for port in self.ports:
            await with_timeout(port.source.wait(), 800, "us")
        await self.settle()
        found = []
        for port in self.ports:
            found.append([])
            while not port.sink.empty():
                found[-1].append(await port.receive())
            assert port.sink.idle(), "half a result"
        return found


@cocotb.test()
async def stream_frames(dut: Any) -> None:
    """Every bit, TLAST, TKEEP and TUSER, at every mix of stalls."""
    bench, rng = StreamBench(dut), random.Random("frames")
    await bench.reset()
    for seed, (source, sink) in enumerate(STALLS):
        bench.pause(seed, source, sink)
        await bench.good(rng, 3)
    await bench.settle()
    assert [await bench.get(o) for o in (ERRORS, FRAMES_OUT, FRAMES_FLAGGED)] == [0, 3 * len(STALLS), 0]
    assert await bench.get(INTERRUPT_STATUS) == 1
    await bench.put(CONTROL, ENABLE | START)
    assert await bench.get(ERRORS) == REFUSED, "there are no jobs"


@cocotb.test()
async def stream_wrong_tlast(dut: Any) -> None:
    """Short frames are completed, of long ones the excess is dropped; both are flagged, the next one is right."""
    bench, rng = StreamBench(dut), random.Random("tlast")
    await bench.reset()
    for seed, (source, sink) in enumerate(STALLS):
        bench.pause(seed, source, sink)
        await bench.put(ERRORS, 63)
        await bench.put(CONTROL, ENABLE | CLEAR)
        lengths = [rng.choice((1, 3, IN_BEATS - 1, IN_BEATS, IN_BEATS + 1, 2 * IN_BEATS + 1)) for _ in range(5)]
        ends = [end - 1 for end in itertools.accumulate(lengths)]
        data = rng.randbytes(sum(lengths) * BYTES)
        for length, end in zip(lengths, ends, strict=True):
            bench.port.send(data[(end + 1 - length) * BYTES : (end + 1) * BYTES])
        frames = guarded(sum(lengths), ends)
        for start, beats, flag in frames:
            raw = data[start * BYTES : (start + beats) * BYTES].ljust(IN_BEATS * BYTES, b"\0")
            assert await bench.port.receive() == (result(raw), flag)
        await bench.settle()
        short, long = (int(any(f(n) for n in lengths)) for f in (lambda n: n < IN_BEATS, lambda n: n > IN_BEATS))
        assert await bench.get(ERRORS) == EARLY * short | LATE * long
        assert await bench.get(FRAMES_FLAGGED) == sum(flag for *_, flag in frames)
        await bench.good(rng, 2)


@cocotb.test()
async def stream_resets(dut: Any) -> None:
    """A soft reset at any time: results that were begun have all their beats, and the next frame is right."""
    bench, rng = StreamBench(dut), random.Random("resets")
    await bench.reset()
    for seed, cycles in enumerate(range(0, 130, STEP)):
        bench.pause(seed, 0.3, 0.3)
        given = [frame(rng) for _ in range(3)]
        for each in given:
            bench.port.send(each)
        await ClockCycles(dut.clk, cycles)
        await bench.put(CONTROL, ENABLE | SOFT_RESET)
        assert await bench.until(RESETTING, 0), "the reset does not end"
        # Of the frame that was cut off the rest is dropped, which is no short frame; those behind it come out whole.
        (found,) = await bench.drained()
        right = [raw for raw, flag in found if not flag]
        assert right == [result(each) for each in given if result(each) in right]
        assert await bench.get(ERRORS) == 0
        await bench.good(rng, 1)


@cocotb.test()
async def stream_campaign(dut: Any) -> None:
    """Random frames and stalls, resets at a random time, frames of any length in between."""
    bench, rng = StreamBench(dut), random.Random("stream campaign")
    await bench.reset()
    left, seed = CAMPAIGN, 0
    while left > 0:
        seed += 1
        bench.pause(seed, rng.choice((0.0, 0.1, 0.5, 0.8)), rng.choice((0.0, 0.1, 0.5, 0.8)))
        frames = min(left, rng.randrange(1, 6))
        if rng.random() < 0.3:
            for _ in range(frames):
                bench.port.send(rng.randbytes(rng.randrange(1, 3 * IN_BEATS) * BYTES))
            await ClockCycles(dut.clk, rng.randrange(300))
            await bench.put(CONTROL, ENABLE | SOFT_RESET)
            assert await bench.until(RESETTING, 0), "the reset does not end"
            await bench.drained()
        await bench.good(rng, frames)
        left -= frames


@cocotb.test()
async def stream_reader_that_never_reads(dut: Any) -> None:
    """Nothing is lost; a soft reset waits for the result that was begun, and the frame after that is right."""
    bench, rng = StreamBench(dut), random.Random("never")
    await bench.reset()
    bench.port.sink.pause = True
    given = [frame(rng) for _ in range(6)]
    for each in given:
        bench.port.send(each)
    await ClockCycles(dut.clk, 1000)
    assert await bench.get(STATUS) & OCCUPIED
    assert await bench.get(FRAMES_OUT) == (2 if CORE else 0) and await bench.get(STALLS_OUT) > 100
    bench.port.sink.pause = False
    for each in given:
        assert await bench.port.receive() == (result(each), 0)
    bench.port.sink.pause = True
    bench.port.send(given[0])
    await ClockCycles(dut.clk, 200)
    await bench.put(CONTROL, ENABLE | SOFT_RESET)
    assert not await bench.until(RESETTING, 0, 800)
    bench.port.sink.pause = False
    assert await bench.until(RESETTING, 0)
    assert (await bench.port.receive())[1] == 1, "a result that was cut off is flagged"
    await bench.good(rng, 2)


@cocotb.test()
async def streams_of_two_ports(dut: Any) -> None:
    """Frames that come at both inputs belong together: a wrong one flags both results, a reset cuts both off."""
    bench, rng = StreamBench(dut, "two"), random.Random("two")
    await bench.reset()
    for seed, (source, sink) in enumerate(STALLS):
        bench.pause(seed, source, sink)
        await bench.good(rng, 3)
        for wrong in range(2):
            for length in (-1, 1):
                raws = [port.frame(rng) for port in bench.ports]
                cut = len(raws[wrong]) + length * BYTES
                raws[wrong] = (raws[wrong] + bytes(BYTES))[:cut]
                for port, raw in zip(bench.ports, raws, strict=True):
                    port.send(raw)
                for port, raw in zip(bench.ports, raws, strict=True):
                    whole = raw.ljust(port.in_beats * BYTES, b"\0")
                    assert await port.receive() == (port.result(whole), 1)
                await bench.good(rng, 1)
                assert await bench.get(ERRORS) == (EARLY if length < 0 else LATE)
                await bench.put(ERRORS, EARLY | LATE)
    for cycles in range(0, 130, STEP):
        for port in bench.ports:
            port.send(port.frame(rng))
        await ClockCycles(dut.clk, cycles)
        await bench.put(CONTROL, ENABLE | SOFT_RESET)
        assert await bench.until(RESETTING, 0), "the reset does not end"
        for port in bench.ports:
            await with_timeout(port.source.wait(), 800, "us")
        # A frame that came at one of them only has no partner any more, and its result would wait for one.
        await bench.soft_reset()
        await bench.drained()
        assert await bench.get(ERRORS) == 0
        await bench.good(rng, 2)


@cocotb.test()
async def streams_that_are_disabled(dut: Any) -> None:
    """No frame is begun, but the other parts of those that were; then it goes on."""
    bench, rng = StreamBench(dut, "two"), random.Random("disabled")
    await bench.reset()
    for first in range(2):
        ahead, behind = bench.ports[first], bench.ports[1 - first]
        given = [[port.frame(rng) for port in (ahead, behind)] for _ in range(3)]
        ahead.send(given[0][0])
        await with_timeout(ahead.source.wait(), 800, "us")
        await bench.put(CONTROL, 0)
        ahead.send(given[1][0])
        behind.send(given[0][1])
        behind.send(given[1][1])
        for port, raw in zip((ahead, behind), given[0], strict=True):
            assert await port.receive() == (port.result(raw), 0)
        await ClockCycles(dut.clk, 600)
        assert all(port.sink.empty() for port in bench.ports) and await bench.get(FRAMES_IN) == 2 * first + 1
        await bench.put(CONTROL, ENABLE)
        for port, raw in zip((ahead, behind), given[1], strict=True):
            assert await port.receive() == (port.result(raw), 0)
