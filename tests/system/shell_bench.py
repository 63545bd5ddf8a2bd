"""cocotb bench of the shell with a bus master around a core that returns what it gets, and what both benches need.

The bus models are cocotbext-axi's.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave

WIDTH, SIZE = 6, 70
IN_BEATS, OUT_BEATS, BYTES = 7, 9, 8
BURST, PAGE = 4, 4096
MAGIC, DIGEST_LOW, DIGEST_HIGH, CONTROL, STATUS = 0x00, 0x08, 0x0C, 0x10, 0x14
INTERRUPT_ENABLE, INTERRUPT_STATUS, ERRORS = 0x18, 0x1C, 0x20
SOURCE, TARGET, FRAMES = 0x24, 0x2C, 0x34
FRAMES_IN, FRAMES_OUT, FRAMES_FLAGGED, CYCLES_LAST, CYCLES_LEAST, CYCLES_MOST = 0x40, 0x44, 0x48, 0x4C, 0x50, 0x54
STALLS_OUT, BASE, LIMIT = 0x5C, 0x60, 0x68
START, ENABLE, SOFT_RESET, CLEAR = 1, 2, 4, 8
BUSY, RESETTING, OCCUPIED = 1, 2, 4
EARLY, LATE, READ, WRITE, OVERRUN, REFUSED = (1 << bit for bit in range(6))
STEP = int(os.environ["SHELL_STEP"])
"""Cycles from one place of a reset to the next."""
CAMPAIGN = int(os.environ["SHELL_FRAMES"])
"""Frames of a campaign."""
CORE = bool(int(os.environ["SHELL_CORE"]))
"""Whether the core has a clock of its own."""
SLOWEST, FASTEST = 20_000, 1_100
"""Half periods of that clock, in ps; the one of the bus has 5,000."""
STALLS = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3), (0.8, 0.2))


def pauses(seed: int, chance: float) -> Iterator[bool]:
    rng = random.Random(seed)
    return (rng.random() < chance for _ in itertools.count())


async def wander(clock: Any, rng: random.Random) -> None:
    """A clock of any period for a while, at rest or drifting, then of another one."""
    while True:
        half = rng.choice((rng.randrange(FASTEST, SLOWEST), 5000))
        drift = rng.choice((0, 0, 1, -1, 13, -13))
        for _ in range(rng.randrange(50, 400)):
            for level in (0, 1):
                clock.value = level
                await Timer(half, "ps")
            half = min(max(half + drift, FASTEST), SLOWEST)


def frame(rng: random.Random) -> bytes:
    """Random elements, packed; the padding is not zero, because nobody may read it."""
    word = rng.getrandbits(IN_BEATS * BYTES * 8)
    return word.to_bytes(IN_BEATS * BYTES, "little")


def result(raw: bytes) -> bytes:
    """What the core makes of a frame: its elements, a byte each with the sign, zeros at the end."""
    word = int.from_bytes(raw, "little")
    codes = [word >> (WIDTH * i) & (2**WIDTH - 1) for i in range(SIZE)]
    signed = [code - 2**WIDTH if code >> (WIDTH - 1) else code for code in codes]
    return bytes(value & 255 for value in signed).ljust(OUT_BEATS * BYTES, b"\0")


def bursts(address: int, frames: int, beats: int) -> list[tuple[int, int]]:
    """Address and beats of every burst of a job."""
    found = []
    for _ in range(frames):
        left = beats
        while left:
            length = min(left, BURST, (PAGE - address % PAGE) // BYTES)
            found.append((address, length))
            address += length * BYTES
            left -= length
    return found


class Memory:
    """What the slave model reads and writes; some addresses are answered with an error."""

    def __init__(self) -> None:
        self.data = bytearray(1 << 16)
        self.bad: set[int] = set()

    async def read(self, address: int, length: int) -> bytes:
        if address in self.bad:
            raise ValueError
        return bytes(self.data[address : address + length])

    async def write(self, address: int, data: bytes) -> None:
        assert len(data) == BYTES
        if address in self.bad:
            raise ValueError
        self.data[address : address + len(data)] = data


async def rules(dut: Any, valid: str, ready: str, payload: list[str]) -> None:
    """What is offered stays as it is until it is taken; a soft reset does not change that."""
    waiting = None
    while True:
        await RisingEdge(dut.clk)
        offered, taken, *values = (getattr(dut, s).value for s in (valid, ready, *payload))
        if not int(dut.rst_n.value):
            waiting = None
            continue
        assert waiting is None or (int(offered) and waiting == values), f"{valid}: what was offered has changed"
        waiting = values if int(offered) and not int(taken) else None


class Bench:
    """Clock, reset and the registers of one shell."""

    def __init__(self, dut: Any, shell: str) -> None:
        self.dut, self.shell = dut, shell
        cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
        self.core_clock = cocotb.start_soon(wander(dut.core_clk, random.Random(shell))) if CORE else None
        self.ends: dict[str, Any] = {"clock": dut.clk, "reset": dut.rst_n, "reset_active_level": False}
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{shell}_s_axil"), **self.ends)
        self.channels: list[Any] = []

    async def reset(self) -> None:
        self.dut.rst_n.value = 0
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst_n.value = 1
        await ClockCycles(self.dut.clk, 2)

    def pause(self, seed: int, source: float, sink: float) -> None:
        for index, (channel, drives) in enumerate(self.channels):
            chance = source if drives else sink
            channel.set_pause_generator(pauses(seed * 10 + index, chance) if chance else itertools.repeat(False))
        write, read = self.registers.write_if, self.registers.read_if
        ours = (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
        for index, channel in enumerate(ours):
            channel.set_pause_generator(pauses(seed * 10 + 50 + index, source / 2))

    async def get(self, offset: int) -> int:
        return int(await with_timeout(self.registers.read_dword(offset), 100, "us"))

    async def put(self, offset: int, value: int) -> None:
        await with_timeout(self.registers.write_dword(offset, value), 100, "us")

    async def until(self, bits: int, value: int, cycles: int = 16000 if CORE else 4000) -> bool:
        """Whether the bits of STATUS have that value in time."""
        for _ in range(cycles // 8):
            if await self.get(STATUS) & bits == value:
                return True
        return False

    async def settle(self) -> None:
        """Until the core is empty, and its counters have come."""
        cycles = 60 * (6 if CORE else 1)
        await ClockCycles(self.dut.clk, cycles)
        assert await self.until(OCCUPIED, 0)
        await ClockCycles(self.dut.clk, cycles)

    async def soft_reset(self) -> None:
        await self.put(CONTROL, ENABLE | SOFT_RESET)
        assert await self.until(RESETTING, 0), "the reset does not end"
        assert await self.get(STATUS) == 0


class MemoryBench(Bench):
    """The shell with the bus master."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, "mem")
        self.memory = Memory()
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "mem_m_axi"), target=self.memory, **self.ends)
        write, read = self.slave.write_if, self.slave.read_if
        self.channels = [(c, False) for c in (write.aw_channel, write.w_channel, read.ar_channel)]
        self.channels += [(c, True) for c in (write.b_channel, read.r_channel)]
        self.seen: dict[str, list[tuple[int, int]]] = {"ar": [], "aw": []}
        for name in self.seen:
            cocotb.start_soon(self.watch(name))
            names = [f"mem_m_axi_{name}{field}" for field in ("valid", "ready", "addr", "len")]
            cocotb.start_soon(rules(dut, names[0], names[1], names[2:]))
        cocotb.start_soon(rules(dut, *(f"mem_m_axi_w{f}" for f in ("valid", "ready")), ["mem_m_axi_wdata"]))

    async def watch(self, name: str) -> None:
        signals = [getattr(self.dut, f"mem_m_axi_{name}{field}") for field in ("valid", "ready", "addr", "len")]
        while True:
            await RisingEdge(self.dut.clk)
            valid, ready, address, length = (signal.value for signal in signals)
            if int(self.dut.rst_n.value) and int(valid) and int(ready):
                self.seen[name].append((int(address), int(length) + 1))

    async def address(self, offset: int, value: int) -> None:
        await self.put(offset, value & 0xFFFFFFFF)
        await self.put(offset + 4, value >> 32)

    async def start(self, source: int, target: int, frames: int) -> None:
        await self.address(SOURCE, source)
        await self.address(TARGET, target)
        await self.put(FRAMES, frames)
        await self.put(CONTROL, ENABLE | START)

    async def job(self, rng: random.Random, source: int, target: int, frames: int) -> None:
        """A job from its start to its end, every byte compared, and those before and behind the results."""
        given = [frame(rng) for _ in range(frames)]
        expected = b"\x5a" * BYTES + b"".join(result(each) for each in given) + b"\x5a" * BYTES
        self.memory.data[source : source + frames * IN_BEATS * BYTES] = b"".join(given)
        self.memory.data[target - BYTES : target - BYTES + len(expected)] = b"\x5a" * len(expected)
        for seen in self.seen.values():
            seen.clear()
        await self.put(INTERRUPT_STATUS, 3)
        await self.start(source, target, frames)
        assert await self.until(BUSY, 0), "the job does not end"
        assert await self.get(INTERRUPT_STATUS) & 1
        assert self.memory.data[target - BYTES : target - BYTES + len(expected)] == expected
        assert self.seen["ar"] == bursts(source, frames, IN_BEATS)
        assert self.seen["aw"] == bursts(target, frames, OUT_BEATS)


@cocotb.test()
async def memory_jobs(dut: Any) -> None:
    """Every bit and every burst, wherever the buffers lie, at every mix of stalls; counters and interrupt."""
    bench, rng = MemoryBench(dut), random.Random("jobs")
    await bench.reset()
    assert [await bench.get(offset) for offset in (MAGIC, DIGEST_LOW, DIGEST_HIGH)] == [
        0x4D415345,
        0x89ABCDEF,
        0x01234567,
    ]
    total = 0
    await bench.put(INTERRUPT_ENABLE, 1)
    for seed, (source, sink) in enumerate(STALLS):
        bench.pause(seed, source, sink)
        for frames in (1, 3):
            at = 0x1000 * rng.randrange(1, 4) - BYTES * rng.randrange(12)
            to = 0x1000 * rng.randrange(9, 12) - BYTES * rng.randrange(12)
            await bench.job(rng, at, to, frames)
            total += frames
            assert int(dut.mem_irq.value), "no interrupt"
            await bench.put(INTERRUPT_STATUS, 1)
            assert not int(dut.mem_irq.value), "the interrupt is not cleared"
    assert [await bench.get(o) for o in (FRAMES_IN, FRAMES_OUT, FRAMES_FLAGGED, ERRORS)] == [total, total, 0, 0]
    last, least, most = [await bench.get(o) for o in (CYCLES_LAST, CYCLES_LEAST, CYCLES_MOST)]
    assert 30 <= least <= last <= most
    await bench.put(CONTROL, ENABLE | CLEAR)
    assert [await bench.get(o) for o in (FRAMES_OUT, CYCLES_LEAST, CYCLES_MOST)] == [0, 0xFFFFFFFF, 0]


@cocotb.test()
async def memory_errors(dut: Any) -> None:
    """Errors in the middle of a burst, refused jobs, two starts: each has its bit, and the next job is right."""
    bench, rng = MemoryBench(dut), random.Random("errors")
    await bench.reset()
    flagged = 0
    for seed, (bad, bit) in enumerate(((0x2010, READ), (0x4018, WRITE))):
        bench.pause(seed, 0.3, 0.3)
        bench.memory.bad = {bad}
        await bench.start(0x2000, 0x4000, 2)
        assert await bench.until(BUSY, 0), "the job does not end"
        flagged += bit == READ
        assert [await bench.get(o) for o in (ERRORS, FRAMES_FLAGGED)] == [bit, flagged]
        bench.memory.bad = set()
        await bench.job(rng, 0x2000, 0x4000, 2)
        assert await bench.get(ERRORS) == bit, "it stays until it is cleared"
        await bench.put(ERRORS, bit)
        assert await bench.get(ERRORS) == 0
    await bench.put(INTERRUPT_STATUS, 3)
    for source, target, frames in (
        (1 << 32, 0x4000, 1),
        (0x2000, 1 << 40, 1),
        (0x2004, 0x4000, 1),
        (0x2000, 0x4000, 0),
    ):
        await bench.start(source, target, frames)
        assert [await bench.get(o) for o in (STATUS, ERRORS, INTERRUPT_STATUS)] == [0, REFUSED, 2]
        await bench.put(ERRORS, REFUSED)
        await bench.put(INTERRUPT_STATUS, 2)
    await bench.start(0x2000, 0x4000, 3)
    await bench.put(CONTROL, ENABLE | START)
    assert await bench.get(ERRORS) == OVERRUN
    assert await bench.until(BUSY, 0)
    await bench.job(rng, 0x2000, 0x4000, 1)


@cocotb.test()
async def memory_resets(dut: Any) -> None:
    """A soft reset at any time leaves nothing outstanding; memory that does not answer keeps it waiting."""
    bench, rng = MemoryBench(dut), random.Random("resets")
    await bench.reset()
    for seed, cycles in enumerate(range(0, 150, STEP)):
        bench.pause(seed, 0.2, 0.4)
        await bench.start(0x2000, 0x4000, 3)
        await ClockCycles(dut.clk, cycles)
        await bench.soft_reset()
        await bench.job(rng, 0x2000, 0x4000, 1 + seed % 2)
    bench.slave.write_if.b_channel.set_pause_generator(itertools.repeat(True))
    await bench.start(0x2000, 0x4000, 2)
    assert not await bench.until(BUSY, 0, 800), "the job ended without an acknowledge"
    await bench.put(CONTROL, ENABLE | SOFT_RESET)
    assert not await bench.until(RESETTING, 0, 800), "the reset ended without an acknowledge"
    bench.pause(0, 0, 0)
    assert await bench.until(RESETTING | BUSY, 0)
    await bench.job(rng, 0x2000, 0x4000, 2)


@cocotb.test()
async def memory_that_waits_for_data(dut: Any) -> None:
    """A slave may take an address only when it sees data, so data must not wait for the address."""
    bench, rng = MemoryBench(dut), random.Random("order")
    await bench.reset()

    async def after_data() -> None:
        while True:
            await RisingEdge(dut.clk)
            bench.slave.write_if.aw_channel.pause = not int(dut.mem_m_axi_wvalid.value)

    cocotb.start_soon(after_data())
    await bench.job(rng, 0x2FC8, 0x4FC8, 3)


@cocotb.test()
async def memory_window(dut: Any) -> None:
    """A buffer that ends with the window is taken, one byte further at either end is not; nor one without an end."""
    bench, rng = MemoryBench(dut), random.Random("window")
    await bench.reset()
    source, target, frames = 0x2000, 0x4000, 3
    ends = source + frames * IN_BEATS * BYTES - 1, target + frames * OUT_BEATS * BYTES - 1
    whole = (1 << 64) - 1
    for base, limit, taken in (
        (source, ends[1], True),
        (source + 1, ends[1], False),
        (source, ends[1] - 1, False),
        (1 << 40, whole, False),
        (0, 1 << 40, True),
    ):
        await bench.address(BASE, base)
        await bench.address(LIMIT, limit)
        if taken:
            await bench.job(rng, source, target, frames)
        else:
            await bench.start(source, target, frames)
            assert await bench.until(BUSY, 0, 400)
            assert await bench.get(ERRORS) == REFUSED
            await bench.put(ERRORS, REFUSED)
    # The target begins behind the source: what the window cuts off is tried at both.
    await bench.address(BASE, 0)
    for at, to, limit in ((target, source, ends[1]), (source, target, ends[0])):
        await bench.address(LIMIT, limit)
        await bench.start(at, to, 4 if at == target else frames)
        assert await bench.until(BUSY, 0, 400)
        assert await bench.get(ERRORS) == REFUSED
        await bench.put(ERRORS, REFUSED)
    await bench.address(LIMIT, whole)
    for count in (0xFFFFFFFF, (1 << 32) // (IN_BEATS * BYTES) + 1, 1 << 29):
        await bench.start(source, target, count)
        assert await bench.until(BUSY, 0, 400)
        assert await bench.get(ERRORS) == REFUSED
        await bench.put(ERRORS, REFUSED)
    # A reset while the window is checked: the job does not begin.
    await bench.start(source, target, frames)
    await bench.soft_reset()
    await bench.job(rng, source, target, 1)


@cocotb.test()
async def memory_campaign(dut: Any) -> None:
    """Random frames, places and stalls of every channel, jobs that are reset at a random time in between."""
    bench, rng = MemoryBench(dut), random.Random("campaign")
    await bench.reset()
    left, seed = CAMPAIGN, 0
    while left > 0:
        seed += 1
        bench.pause(seed, rng.choice((0.0, 0.1, 0.5, 0.8)), rng.choice((0.0, 0.1, 0.5, 0.8)))
        source, target = (page * 0x1000 - BYTES * rng.randrange(40) for page in (rng.randrange(1, 5), 9))
        frames = min(left, rng.randrange(1, 6))
        if rng.random() < 0.3:
            await bench.start(source, target, frames)
            await ClockCycles(dut.clk, rng.randrange(300))
            await bench.soft_reset()
        await bench.job(rng, source, target, frames)
        left -= frames
    assert await bench.get(ERRORS) == 0


@cocotb.test()
async def registers(dut: Any) -> None:
    """Bytes of a register can be written alone; what is read only or reserved does not change."""
    bench = MemoryBench(dut)
    await bench.reset()
    expected = {}
    rng = random.Random("registers")
    for offset in (SOURCE, SOURCE + 4, TARGET, TARGET + 4, FRAMES, INTERRUPT_ENABLE):
        value = rng.getrandbits(32)
        await bench.put(offset, value)
        byte = rng.randrange(4)
        await bench.registers.write(offset + byte, b"\xc3")
        raw = bytearray(value.to_bytes(4, "little"))
        raw[byte] = 0xC3
        expected[offset] = int.from_bytes(raw, "little") & (3 if offset == INTERRUPT_ENABLE else 0xFFFFFFFF)
    for offset in (MAGIC, DIGEST_LOW, STATUS, 0x38, 0x3C, FRAMES_OUT):
        before = await bench.get(offset)
        await bench.put(offset, 0xFFFFFFFF)
        assert await bench.get(offset) == before
    for offset, value in expected.items():
        assert await bench.get(offset) == value
    stored = 1  # a design that loads no parameters has them
    assert [await bench.get(o) for o in (CONTROL, 0x38, 0x3C, 0x70, 0x7C)] == [ENABLE, 0, 0, stored, 0]


@cocotb.test(skip=not CORE)
async def core_clock_that_stands_still(dut: Any) -> None:
    """The registers answer, a reset of either kind waits for the clock; a slow one has its counters when a job ends."""
    bench, rng = MemoryBench(dut), random.Random("still")
    await bench.reset()
    await bench.job(rng, 0x2000, 0x4000, 1)
    assert bench.core_clock is not None
    bench.core_clock.cancel()
    await bench.start(0x2000, 0x4000, 1)
    assert not await bench.until(BUSY, 0, 800)
    await bench.put(CONTROL, ENABLE | SOFT_RESET)
    assert not await bench.until(RESETTING, 0, 800)
    await bench.reset()
    assert not await bench.until(RESETTING, 0, 800)
    assert [await bench.get(o) for o in (MAGIC, FRAMES_OUT, CYCLES_LEAST)] == [0x4D415345, 0, 0xFFFFFFFF]
    cocotb.start_soon(Clock(dut.core_clk, 400, "ns").start())
    assert await bench.until(RESETTING | BUSY, 0)
    for count in range(1, 6):
        await bench.job(rng, 0x2000, 0x4000, 1)
        assert await bench.get(FRAMES_OUT) == count
