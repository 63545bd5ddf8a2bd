"""Keys and values in external memory: the words of every step of a causal product, and the cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mase_hw.beat_times import BeatNetwork
from mase_hw.formats import FixedFormat
from mase_hw.hardware.external import ExternalMemory
from mase_hw.hardware.library import with_dependences
from mase_hw.opdef import SUPPORT
from mase_hw.ops.products._cache import Cache, delay_of, parameters, reading, stage_of, turns, unit_beats
from mase_hw.ops.products._schedule import Schedule
from mase_hw.simulate.result import SimResult

from .benches import Bench, noise, on_library, plays, port

MODULES = ("external_cache", "cache_reader", "cache_writer", "external_memory")
LATENCY, SEQUENCES = 7, 3


@dataclass(frozen=True)
class Sizes:
    """Of a bench.

    Args:
        rows: Of a sequence.
        heads: Vectors of a token.
        groups: Parts of a row, each for as many heads.
        block: Rows of a block.
        bus: Bits of a word of memory.
        keys: Bits of a beat, beats of a part of a row, rows of a tile.
        values: The same.
    """

    rows: int
    heads: int
    groups: int
    block: int
    bus: int
    keys: tuple[int, int, int]
    values: tuple[int, int, int]


SIZES = {
    # Several words in one of memory, of three tiles; a last block of two rows.
    "packed": Sizes(14, 4, 2, 4, 32, (8, 3, 2), (8, 2, 1)),
    # A word takes two of memory, and its last bits are padding; a last tile of one row.
    "wide": Sizes(13, 3, 1, 4, 32, (20, 2, 2), (10, 3, 4)),
    # Blocks of one row.
    "single": Sizes(5, 4, 1, 1, 32, (8, 4, 1), (8, 4, 1)),
    # Blocks of a number of rows that is no power of two.
    "odd": Sizes(11, 6, 1, 3, 32, (8, 2, 1), (8, 2, 3)),
}


def expected(rows: np.ndarray, sizes: Sizes, of: tuple[int, int, int], transposed: bool) -> list[list[int]]:
    """The words of a sequence by the order in which heads, tiles and parts of rows are met, in plain loops."""
    _, words, banks = of
    found = []
    for token in range(sizes.rows):
        tiles = range(token // banks + 1)
        for head in range(sizes.heads):
            first = head // (sizes.heads // sizes.groups) * words
            order = [(tile, w) for tile in tiles for w in range(words)]
            order = order if transposed else sorted(order, key=lambda at: at[1])
            for tile, word in order:
                seen = [tile * banks + bank for bank in range(banks)]
                found.append([int(rows[row, first + word]) if row <= token else 0 for row in seen])
    return found


def caches(name: str, stalls: int = 0) -> Bench:
    """Sequences of random rows, one behind the other, at the stated memory or a slower one."""
    sizes = SIZES[name]
    made = []
    for transposed, (width, words, banks) in ((True, sizes.keys), (False, sizes.values)):
        schedule = Schedule(transposed, True, 1, sizes.rows, sizes.heads, sizes.groups, sizes.rows, banks, words, 0)
        made.append(Cache(schedule, width, sizes.block // banks, sizes.bus))
    keys, values = made[0], replace(made[1], base=made[0].size)
    delay = delay_of(made, ExternalMemory(sizes.bus, LATENCY, 0))
    given: dict[str, int] = {"ROWS": sizes.rows, "HEADS": sizes.heads, "GROUPS": sizes.groups, "BLOCK": sizes.block}
    given |= {"BUS": sizes.bus, "DELAY": delay, "LATENCY": LATENCY, "STALLS": stalls, "DEPTH": keys.size + values.size}
    given |= {"VALUES_BASE": values.base}
    rooms, streams, beats = [], [], {}
    for number, (cache, of) in enumerate(((keys, sizes.keys), (values, sizes.values))):
        width, words, banks = of
        own, told = parameters(cache, delay), turns(cache)
        rooms.append(own["ROOM"])
        prefix = ("KEYS", "VALUES")[number]
        given |= {f"{prefix}_{key}": own[key] for key in ("WIDTH", "WORDS", "BANKS", "ROW", "ROOM")}
        given[f"{prefix}_UNIT"] = told["UNITS"]
        fmt = FixedFormat(width, 0, signed=False)
        into, out = ("keys", "key_words") if cache.schedule.transposed else ("values", "value_words")
        rows = noise(SEQUENCES * sizes.rows * sizes.groups * words, fmt, seed=number)
        sequences = rows.reshape(SEQUENCES, sizes.rows, sizes.groups * words)
        beats[into] = rows
        beats[out] = np.concatenate([expected(each, sizes, of, cache.schedule.transposed) for each in sequences])
        streams.append(port(into, "in", len(rows) // SEQUENCES, fmt))
        streams.append(port(out, "out", len(beats[out]) // SEQUENCES, fmt, banks))
    streams = [streams[0], streams[2], streams[1], streams[3]]
    files = with_dependences(f"lib/{name}.sv" for name in MODULES)
    own_files = tuple(file.removeprefix("lib/") for file in files if file not in SUPPORT)
    dut = on_library("cache_bench", own_files, tuple(streams), **given)

    def holds(run: str, result: SimResult) -> None:
        if run != "full rate" or stalls:
            return
        network = BeatNetwork()
        *units, tokens = network.stage(reading([keys, values], rooms, delay), [network.source(1)])
        edges = {}
        for cache, unit in zip((keys, values), units, strict=True):
            (words,) = network.stage(unit_beats(cache.beats), [unit])
            rows = network.source(sizes.rows * sizes.groups * cache.schedule.words)
            last = [] if cache.schedule.transposed else [tokens]
            stage = stage_of(cache, bool(last))
            (edges["key_words" if cache.schedule.transposed else "value_words"],) = network.stage(
                stage, [rows, words, *last]
            )
        for edge in edges.values():
            network.sink(edge)
        for _ in range(SEQUENCES):
            network.advance()
        for name, edge in edges.items():
            offered = network.edges[edge].offered
            assert (result.presented[name] - result.accepted["keys"][0] == offered).all(), name

    return Bench(dut, plays(beats), holds)
