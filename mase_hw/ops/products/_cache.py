"""Keys and values of causal products in external memory: how they lie there, and when they come back.

Rows that tokens see are kept in blocks. The block that comes and the one before it are in block RAM; every block but
the last two of a sequence is written to memory when it is whole, and read again for every token behind the next block.
All reads have one fixed order, that of the products that a token meets, token by token: no cache waits for a token
behind its own, and the cycle of every word follows from that order, from the room that caches have and from the memory,
as if the reader were one module with a static schedule. Writes have a channel of their own. A block is written while
the next one comes, so nothing waits for it at a memory of the stated behaviour.
``rtl_templates/lib/external_cache.sv`` and ``cache_reader.sv`` do what is written here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.hardware.external import SPARE, ExternalMemory, with_parameters
from mase_hw.ops.products._schedule import Schedule
from mase_hw.steps import Counts, Steps
from mase_hw.streams import ceil_div

READER = "cache_reader"
"""The module that reads external memory for all caches."""
AHEAD = 2
"""Tokens by which the reader may be ahead of the last product."""
CACHE = "external_cache"
"""The module, and what stands in its place for the name of an op."""


@dataclass(frozen=True)
class Cache:
    """The rows of one product in external memory.

    Args:
        schedule: Of the product.
        width: Bits of a beat of its rows.
        block: Tiles of a block.
        bus: Bits of a word of memory.
        base: Address of its first word.
    """

    schedule: Schedule
    width: int
    block: int
    bus: int
    base: int = 0

    @classmethod
    def of(cls, p: Mapping[str, int | str]) -> Cache:
        """From the parameters of an ``external_cache``."""
        transposed, rows, heads, groups, words, banks = (
            int(p[name]) for name in ("TRANSPOSED", "ROWS", "HEADS", "GROUPS", "WORDS", "BANKS")
        )
        schedule = Schedule(bool(transposed), True, 1, rows, heads, groups, rows, banks, words, 0)
        return cls(schedule, *(int(p[name]) for name in ("WIDTH", "BLOCK", "BUS", "BASE")))

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.block * self.schedule.banks

    @property
    def blocks(self) -> int:
        """Blocks of a sequence."""
        return ceil_div(self.schedule.rows, self.rows)

    @property
    def span(self) -> int:
        """Words of a tile that lie one behind the other."""
        return self.schedule.words if self.schedule.transposed else 1

    @property
    def row(self) -> int:
        """Words of the product in a word of memory, where it has more than one."""
        return most_in_a_word(self.schedule.banks * self.width, self.bus, self.block * self.span)

    @property
    def beats(self) -> int:
        """Words of the product in a unit, which is read with one request."""
        return self.block * self.span

    @property
    def unit(self) -> int:
        """Words of memory of a unit."""
        return self.beats // self.row * ceil_div(self.row * self.schedule.banks * self.width, self.bus)

    @property
    def sections(self) -> int:
        """Units of a block."""
        return self.schedule.groups * self.schedule.words // self.span

    @property
    def pieces(self) -> int:
        """Pieces of memory that a token reads, each a unit of every block that it reads."""
        return self.schedule.heads * self.schedule.words // self.span

    @property
    def size(self) -> int:
        """Words of memory of a sequence."""
        return self.sections * self.blocks * self.unit

    @property
    def written(self) -> int:
        """Cycles in which a block is written."""
        return self.sections * max(self.beats, self.unit)

    @property
    def read(self) -> Counts:
        """Words of memory that every token reads."""
        return self.pieces * self.unit * self.far

    @property
    def far(self) -> Counts:
        """Blocks that every token reads from memory."""
        return np.maximum(np.arange(self.schedule.rows) // self.rows - 1, 0)

    @property
    def words(self) -> Counts:
        """Words of the product that every token meets."""
        return self.schedule.heads * self.schedule.words * -(-self.schedule.limits // self.schedule.banks)

    def steps(self) -> Steps:
        """What the module does: a step reads a word of the product; what comes from memory is no input here."""
        schedule, beats = self.schedule, self.schedule.groups * self.schedule.words
        tiles = np.repeat(-(-schedule.limits // schedule.banks), schedule.heads)
        ends = np.cumsum(tiles * schedule.words)
        own = schedule.own(ends - tiles * schedule.words, tiles)
        # A block is given back with the last token of the next one, the last two with the sequence.
        row = np.arange(schedule.rows)
        last = np.where(row // self.rows < self.blocks - 2, (row // self.rows + 2) * self.rows, schedule.rows)
        freed = np.repeat(ends[last * schedule.heads - 1] - 1, beats)
        return Steps.at(
            int(ends[-1]),
            needed=(own,),
            freed=(freed,),
            emitted=np.arange(ends[-1]),
            delay=(1,),
            room=(2 * self.rows * beats,),
            pipe=1,
            queue=1,
            queue_lag=0,
        )

    def taken(self) -> Counts:
        """The steps that take a word from memory."""
        schedule = self.schedule
        tiles = np.repeat(-(-schedule.limits // schedule.banks), schedule.heads)
        far = np.repeat(self.far * self.block, schedule.heads)
        starts = np.cumsum(tiles * schedule.words) - tiles * schedule.words
        found = []
        for start, tile, many in zip(starts.tolist(), tiles.tolist(), far.tolist(), strict=True):
            if not many:
                continue
            if schedule.transposed:
                found.append(np.arange(start, start + many * schedule.words))
            else:
                found += [np.arange(at, at + many) for at in range(start, start + tile * schedule.words, tile)]
        return np.concatenate(found)


def most_in_a_word(bits: int, bus: int, beats: int) -> int:
    """The most words of so many bits that fill a word of memory evenly in a unit; 1 if it holds none."""
    return max((n for n in range(1, bus // bits + 1) if beats % n == 0), default=1)


def room(cache: Cache, delay: int) -> int:
    """Units that a cache holds: those on their way, the one whose words leave and some besides."""
    return ceil_div(delay + cache.beats, cache.unit) + SPARE


def delay_of(caches: Sequence[Cache], memory: ExternalMemory) -> int:
    """Cycles from asking for a unit to its first word, the same for all: the last one has come by then."""
    return memory.latency + max(cache.unit for cache in caches) + 2


def begins(cache: Cache) -> Counts:
    """The steps in which the last cache begins with tokens whose number the reader knows."""
    return (np.cumsum(cache.words) - cache.words)[2 * cache.rows - AHEAD :]


def reading(caches: Sequence[Cache], rooms: Sequence[int], delay: int) -> Steps:
    """The reader of a design with these caches: one output of units for each, and no input but that it may begin.

    One more output has a beat for each token, which the last cache takes when it begins with that, and for the AHEAD
    tokens before the first one: the reader is no further ahead.
    """
    turns = [cache.pieces * cache.far for cache in caches]
    at: list[list[Counts]] = [[] for _ in caches]
    now, marks = AHEAD, list(range(AHEAD))
    for token in range(caches[0].schedule.rows):
        marks += [now] if any(turn[token] for turn in turns) else []
        for number, (cache, turn) in enumerate(zip(caches, turns, strict=True)):
            units = int(turn[token])
            at[number].append(now + cache.unit * np.arange(units))
            now += cache.unit * units
    once = np.zeros(1, np.int64)
    emitted = (*(np.concatenate(each) for each in at), np.array(marks))
    return Steps.at(
        now,
        needed=(once,),
        freed=(once,),
        emitted=emitted,
        delay=(0,),
        room=(0,),
        pipe=(*(delay,) * len(caches), 1),
        queue=(*rooms, AHEAD),
        queue_lag=1,
    )


@functools.lru_cache(maxsize=64)
def reader_of(caches: tuple[Cache, ...], rooms: tuple[int, ...], delay: int) -> Steps:
    """The same of :func:`reading`; kept, as a network knows long schedules by their identity."""
    return reading(caches, rooms, delay)


@functools.lru_cache(maxsize=256)
def stage_of(cache: Cache, last: bool) -> Steps:
    """Its steps with what comes from memory and, of the last cache, with the beats of tokens; kept likewise."""
    return with_parameters(cache.steps(), [cache.taken(), *([begins(cache)] if last else [])])


@functools.lru_cache(maxsize=64)
def unit_beats(beats: int) -> Steps:
    """A unit, as the words of a product: its place is free when the last one has left."""
    each = np.arange(beats, dtype=np.int64)
    return Steps.at(beats, needed=(each[:1],), freed=(each[-1:],), emitted=each, delay=(0,), room=(0,), pipe=0, queue=0)


def parameters(cache: Cache, delay: int) -> dict[str, int]:
    """Those of its ``external_cache``."""
    schedule = cache.schedule
    return {
        "WIDTH": cache.width,
        "TRANSPOSED": int(schedule.transposed),
        "ROWS": schedule.rows,
        "HEADS": schedule.heads,
        "GROUPS": schedule.groups,
        "WORDS": schedule.words,
        "BANKS": schedule.banks,
        "BLOCK": cache.block,
        "BUS": cache.bus,
        "ROW": cache.row,
        "ROOM": room(cache, delay),
        "DELAY": delay,
        "BASE": cache.base,
    }


def turns(cache: Cache) -> dict[str, int]:
    """What ``cache_reader`` is told of a cache."""
    schedule = cache.schedule
    share = schedule.heads // schedule.groups
    parts = cache.sections // schedule.groups
    return {"BASES": cache.base, "UNITS": cache.unit, "GROUPS": schedule.groups, "SHARES": share, "PARTS": parts}


def smallest_block(schedules: Sequence[Schedule]) -> int:
    """Rows that all caches can have whole tiles of."""
    return math.lcm(*(schedule.banks for schedule in schedules))
