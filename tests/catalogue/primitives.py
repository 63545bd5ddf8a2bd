"""Library modules that are no ops, each behind a bench.

A table, so that the tests and the mutated copies of ``tests/mutation`` are judged by the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mase_hw.formats import FixedFormat
from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult

from .any_pieces import any_pieces
from .benches import STALLS, U8, Bench, Play, noise, on_library, plays, port
from .cached_rows import SIZES, caches
from .dividers import DIVIDERS, divider
from .short_rows import short_rows
from .slot_rows import slot_rom, slot_rows


def fork() -> Bench:
    """Each of three consumers that stall by themselves gets every beat once."""
    outputs = [port(name, "out", 1, U8) for name in ("out_a", "out_b", "out_c")]
    dut = on_library("fork_bench", ("stream_fork.sv",), (port("in_data", "in", 1, U8), *outputs), WIDTH=8)
    data = noise(150, U8)

    def holds(name: str, result: SimResult) -> None:
        assert result.beats_compared == 3 * 150
        taken = np.stack([result.accepted[s.name] for s in outputs])
        # The input beat goes with its last consumer; the others had it as soon as they were ready.
        assert (taken.max(axis=0) == result.accepted["in_data"]).all()
        if name == "full rate":
            assert (np.diff(taken) == 1).all()
        if STALLS[name].ready_low:
            assert (taken.min(axis=0) < taken.max(axis=0)).any(), "an eager fork lets consumers go ahead"

    return Bench(dut, plays({s.name: data for s in dut.streams}), holds)


def join() -> Bench:
    """A beat of each of three inputs makes one output beat, in the same cycle."""
    inputs = [port(name, "in", 1, U8) for name in ("in_a", "in_b", "in_c")]
    dut = on_library("join_bench", ("stream_join.sv",), (*inputs, port("out_data", "out", 1, U8, 3)), WIDTH=8)
    data = {s.name: noise(120, U8, seed=i) for i, s in enumerate(inputs)}
    data["out_data"] = np.concatenate(list(data.values()), axis=1)

    def holds(name: str, result: SimResult) -> None:
        for stream in inputs:
            assert (result.accepted[stream.name] == result.accepted["out_data"]).all()
        if name == "full rate":
            assert (np.diff(result.accepted["out_data"]) == 1).all()

    return Bench(dut, plays(data), holds)


def rom(depth: int, sets: int = 1, repeats: int = 1, registers: int = 2, source: str = "rom") -> Bench:
    """The memory over and over, a word per cycle, the first one in the second cycle after reset.

    Of several sets each comes so many times before the next. A memory that can be loaded is streamed as it was at
    power-up.
    """
    words = [0xA7, 0x01, 0xFE, 0x40, 0x33, 0x5C, 0x10, 0xE9][:depth]
    size = depth // sets
    order = [word for at in range(0, depth, size) for _ in range(repeats) for word in words[at : at + size]]
    streams = (port("in_data", "in", 1, U8), port("out_data", "out", 1, U8, 2))
    loads = ("ram_load.sv",) if source == "ram" else ()
    files = ("loop_counter.sv", "set_repeat.sv", *loads, f"{source}_source.sv", "stream_join.sv")
    given = {"WIDTH": 8, "DEPTH": depth, "REGISTERS": registers, "SETS": sets, "REPEATS": repeats}
    dut = on_library(f"{source}_bench", files, streams, **given)
    tokens = noise(60, U8)
    # Each token with the word that it meets.
    beats = {"in_data": tokens, "out_data": np.concatenate([tokens, np.resize(np.array(order), (60, 1))], axis=1)}

    def holds(name: str, result: SimResult) -> None:
        if name == "prompt":
            assert result.presented["out_data"][0] == max(registers, 1)
            assert (np.diff(result.accepted["out_data"]) == 1).all()

    prompt = {"prompt": Play(Stalls.none(), beats, idle_cycles=0)}
    return Bench(dut, plays(beats) | prompt, holds, tuple(words))


def replay_buffer(length: int, repeats: int) -> Bench:
    """Each vector ``repeats`` times, without a gap."""
    streams = (port("in_data", "in", length, U8), port("out_data", "out", length * repeats, U8))
    dut = on_library("replay_buffer", ("replay_buffer.sv",), streams, WIDTH=8, LEN=length, REPEATS=repeats)
    vectors = noise(30, U8, length)
    beats = {"in_data": vectors.reshape(-1, 1), "out_data": np.tile(vectors, (1, repeats)).reshape(-1, 1)}

    def holds(name: str, result: SimResult) -> None:
        if name == "full rate":
            timing = result.timing("in_data", "out_data")
            assert timing is not None
            assert timing.fill == (2 if repeats > 1 else 0)
            assert timing.interval == timing.input_intervals[-1] == length * repeats
            assert (np.diff(result.accepted["out_data"]) == 1).all()

    return Bench(dut, plays(beats), holds)


def fifo_of_one() -> Bench:
    """The depth that cannot run at full rate: a beat every two cycles."""
    streams = (port("in_data", "in", 1, U8), port("out_data", "out", 1, U8))
    data = noise(60, U8)

    def holds(name: str, result: SimResult) -> None:
        if name == "full rate":
            assert (np.diff(result.accepted["out_data"]) == 2).all()

    dut = replace(on_library("stream_fifo", ("stream_fifo.sv",), streams, WIDTH=8, DEPTH=1), tied={"count": ""})
    return Bench(dut, plays({"in_data": data, "out_data": data}), holds)


def adder_tree() -> Bench:
    """Sums of 1 to 9 operands, odd counts included, each after exactly its own latency."""
    most, fmt = 9, FixedFormat(5, 0)
    streams = (port("in_data", "in", 1, fmt, most), port("out_data", "out", 1, FixedFormat(9, 0), most))
    dut = on_library("tree_bench", ("fixed_adder_tree.sv",), streams, MAX=most, WIDTH=5)
    operands = noise(200, fmt, most)
    operands[0], operands[1] = fmt.min_mantissa, fmt.max_mantissa
    beats = {"in_data": operands, "out_data": operands.cumsum(axis=1)}
    return Bench(dut, plays(beats, "full rate", "late inputs"))


def accumulator() -> Bench:
    """Runs of one value and more, back to back and with gaps, each from its own start."""
    value, total = FixedFormat(6, 0), FixedFormat(12, 0)
    rng = np.random.default_rng(3)
    words, sums = [], []
    for _ in range(80):
        length = int(rng.choice((1, 1, 2, 3, 9)))
        start = int(rng.integers(-1500, 1500))
        values = rng.integers(value.min_mantissa, value.max_mantissa, length, endpoint=True).tolist()
        sums.append(start + sum(values))
        for at, item in enumerate(values):
            # The start is read with the first value only: later words carry garbage.
            init = start if at == 0 else int(rng.integers(-2048, 2048))
            flags = (at == 0) | (at == length - 1) << 1
            words.append(flags << 18 | (init & 0xFFF) << 6 | item & 0x3F)
    streams = (port("in_data", "in", 1, FixedFormat(20, 0, signed=False)), port("out_data", "out", 1, total))
    dut = on_library("accumulator_bench", ("fixed_accumulator.sv",), streams, IN_WIDTH=6, ACC_WIDTH=12)
    beats = {"in_data": np.array(words).reshape(-1, 1), "out_data": np.array(sums).reshape(-1, 1)}
    last = np.flatnonzero(np.array(words) >> 19)

    def holds(name: str, result: SimResult) -> None:
        assert (result.presented["out_data"] == result.accepted["in_data"][last] + 1).all()

    return Bench(dut, plays(beats, "full rate", "late inputs"), holds)


def partial_sums(count: int) -> Bench:
    """Each beat is added to the sum that was given so many beats before."""
    streams = (port("in_data", "in", 1, U8), port("out_data", "out", 1, U8))
    dut = on_library("partial_sums_bench", ("partial_sums.sv",), streams, WIDTH=8, COUNT=count)
    data = noise(20 * count, U8)
    # Sums that take turns stand beside each other.
    sums = data.reshape(-1, count).cumsum(axis=0) % 256
    return Bench(dut, plays({"in_data": data, "out_data": sums.reshape(-1, 1)}, "full rate", "both"))


def windows_beyond() -> Bench:
    """Windows of one pixel of an image of 1x2, every other one, and as many beyond it on the right and below it.

    The next image is let in before the last windows of this one, of which nothing is kept.
    """
    streams = (port("in_data", "in", 2, U8), port("out_data", "out", 4, U8))
    sizes = {"IN_H": 1, "IN_W": 2, "OUT_H": 2, "OUT_W": 2, "STRIDE_W": 2, "DEPTH": 2}
    names = ("window_rise", "window_control", "loop_counter", "window_steps", "ring_add", "sliding_window")
    files = tuple(f"{name}.sv" for name in names)
    dut = replace(on_library("sliding_window", files, streams, **sizes), tied={"out_pad": "", "out_last": ""})
    pixels = noise(60, U8)
    seen = np.zeros((30, 4), dtype=np.int64)
    seen[:, 0] = pixels[::2, 0]
    return Bench(dut, plays({"in_data": pixels, "out_data": seen.reshape(-1, 1)}))


BENCHES: dict[str, Callable[[], Bench]] = {
    "fork": fork,
    "join": join,
    **{f"rom_{depth}": functools.partial(rom, depth) for depth in (1, 2, 5)},
    **{f"rom_{'_'.join(map(str, of))}": functools.partial(rom, *of) for of in ((6, 3, 2), (8, 2, 3, 0), (4, 4, 3, 1))},
    "ram_direct": functools.partial(rom, 8, 2, 3, 0, "ram"),
    "ram_one_register": functools.partial(rom, 6, 3, 2, 1, "ram"),
    **{f"partial_sums_{count}": functools.partial(partial_sums, count) for count in (2, 4)},
    **{f"replay_{a}x{b}": functools.partial(replay_buffer, a, b) for a, b in ((3, 4), (1, 2), (5, 2), (4, 1))},
    "fifo_of_one": fifo_of_one,
    "adder_tree": adder_tree,
    "accumulator": accumulator,
    **{f"divide_{name}": functools.partial(divider, name) for name in DIVIDERS},
    "slot_rows": functools.partial(slot_rows, 4, 2, 2, 2),
    "slot_rows_of_four": functools.partial(slot_rows, 3, 3, 4, 3),
    **{f"slot_rom_{a}_{b}": functools.partial(slot_rom, a, b, c) for a, b, c in ((3, 2, 2), (1, 3, 4), (1, 1, 2))},
    "windows_beyond": windows_beyond,
    "short_rows": short_rows,
    "any_pieces": any_pieces,
    **{f"caches_{name}": functools.partial(caches, name) for name in SIZES},
    "caches_slow": functools.partial(caches, "packed", 100),
}
"""By name. Made when it is asked for: some compute many expected values."""
