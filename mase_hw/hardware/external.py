"""Parameters in external memory: how they lie there, when their blocks are asked for, and when their beats come.

A tensor lies in memory as *blocks*, each of whole words, in the order in which the stage takes its beats. A block is
asked for as soon as there is room for it, but ``PACE + EXTRA / OF`` cycles after the one before it at the earliest, and
its beats are offered ``DELAY`` cycles later. The paces are such that all tensors together ask for no more than one word
per cycle. So never more words are on their way than one block of every tensor has, and a memory that answers in order,
one word per cycle and ``latency`` cycles after a request, has brought a block by then. The cycle in which a beat is
offered therefore depends on its own tensor alone, whatever the others ask for. (It is the delay of a
first-come-first-served server with sources that keep to a rate and a burst: J.-Y. Le Boudec, P. Thiran, "Network
Calculus", ch. 1.)
``rtl_templates/lib/external_source.sv`` does what is written here.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mase_hw.hardware.beats import beats_of
from mase_hw.hardware.manifest import Manifest
from mase_hw.hardware.memories import places_of
from mase_hw.steps import Steps
from mase_hw.streams import Stream, ceil_div

FETCHED = "external_source"
"""The module that streams a parameter from external memory."""
IMAGE = "mem/external.mem"
"""The content of the memory, a word per line; that of a device with a number is :func:`image_of`."""
ROW_WORDS = 16
"""Words that a row has at most, unless a beat alone has more."""
SPARE = 2
"""Blocks that are held besides those on their way and the one whose beats leave."""


@dataclass(frozen=True)
class ExternalMemory:
    """A memory of stated behaviour.

    Args:
        bits: Of a word.
        latency: Cycles from a request to its first word, where none is on its way before it; then one word per cycle.
        burst: Words of a request at most.
        file: Of the bundle, with its content.
    """

    bits: int
    latency: int
    burst: int
    file: str = IMAGE


@dataclass(frozen=True)
class Tensor:
    """A tensor in external memory.

    Args:
        width: Bits of a beat.
        depth: Beats, of all its sets.
        sets: Of parameters, one after the other.
        repeats: How often each set is used before the next.
        buffered: Beats that its buffer holds, a set and as much of the next one; 0 if it is read for each use.
        row: Beats of a row.
        block: Rows of a block.
        base: Address of its first word.
        bus: Bits of a word.
    """

    width: int
    depth: int
    sets: int
    repeats: int
    buffered: int
    row: int
    block: int
    base: int
    bus: int

    @classmethod
    def of(cls, parameters: Mapping[str, int | str]) -> Tensor:
        """From the parameters of its source."""
        names = ("WIDTH", "DEPTH", "SETS", "REPEATS", "BUFFERED", "ROW", "BLOCK", "BASE", "BUS")
        width, depth, sets, repeats, buffered, row, block, base, bus = (int(parameters[name]) for name in names)
        return cls(width, depth, sets, repeats, buffered, row, block, base, bus)

    @property
    def words(self) -> int:
        """Words of a block."""
        return self.block * ceil_div(self.row * self.width, self.bus)

    @property
    def beats(self) -> int:
        """Beats of a block."""
        return self.row * self.block

    @property
    def blocks(self) -> int:
        """Blocks that are read in a frame."""
        return self.depth // self.beats * (1 if self.buffered else self.repeats)

    @property
    def size(self) -> int:
        """Words of the tensor."""
        return self.depth // self.beats * self.words

    def pack(self, text: str) -> list[int]:
        """The words of a memory file of its beats.

        Raises:
            ConfigError: If it has other beats.
        """
        beats = beats_of(text, self.depth, self.width)
        mask, words = (1 << self.bus) - 1, []
        for at in range(0, self.depth, self.row):
            row = sum(beat << self.width * i for i, beat in enumerate(beats[at : at + self.row]))
            words += [row >> self.bus * i & mask for i in range(self.words // self.block)]
        return words


def image_of(device: int) -> str:
    """The file with the content of the memory of a device; -1 for the default one."""
    return IMAGE if device < 0 else f"mem/external_{device}.mem"


def held_beats(beats: int, ahead: float) -> int:
    """Beats that a buffer holds of what is used several times: those of one use, and as much of the next."""
    return beats + math.ceil(ahead * beats)


def source_size(port: Stream, blocks: int, most: int | None, ahead: float) -> dict[str, int]:
    """What the parameters of a source say of its tensor: how many beats, and how many of them it keeps.

    Args:
        port: The stream of the tensor that a module takes.
        blocks: That share the module.
        most: Bits of a buffer at most, but that a part of a stream always has one; None for no limit.
        ahead: Of the next use, what is held while one lasts.
    """
    held = held_beats(port.beats // port.parts, ahead) if port.repeat > 1 else 0
    if most is not None and port.parts > 1:  # a tile, for which the frame is taken again so that it is read once
        most = max(most, held * port.bits)
    if most is not None and held * port.bits > most:
        held = 0
    if held:  # and as much of the next ones as there is room for
        places = min(places_of(held, port.bits), blocks * port.beats)
        held = max(held, places if most is None else min(places, most // port.bits))
    size = {"WIDTH": port.bits, "DEPTH": blocks * port.beats, "SETS": blocks * port.parts, "REPEATS": port.repeat}
    return {**size, "BUFFERED": held}


def arranged(
    sources: Sequence[Mapping[str, int | str]], passes: Sequence[int], memory: ExternalMemory
) -> list[dict[str, int]]:
    """What the sources of a design need besides the size and the sets of their tensors.

    Args:
        sources: The parameters of every source as far as they are known, in the order in which tensors are to lie.
        passes: Of every source, how often a frame passes by what it serves, with parameters of its own each time.
        memory: Where they lie.
    """
    base, tensors = 0, []
    for given, times in zip(sources, passes, strict=True):
        again = int(given["REPEATS"]) > 1 and not given["BUFFERED"]
        # A block has beats of one pass, and of one set where that is read again.
        row, block = _blocks(int(given["WIDTH"]), int(given["DEPTH"]) // int(given["SETS"] if again else times), memory)
        tensors.append(Tensor.of({**given, "ROW": row, "BLOCK": block, "BASE": base, "BUS": memory.bits}))
        base += tensors[-1].size
    interval, delay = sum(tensor.blocks * tensor.words for tensor in tensors), _delay(tensors, memory)
    found = []
    for tensor, times in zip(tensors, passes, strict=True):
        # The blocks of a pass come evenly, and passes take equal times: what is known of one holds for all.
        pace = Fraction(ceil_div(interval, times) * times, tensor.blocks)
        # Those on their way, the one whose beats leave while the next is used, and some for the phase between tensors.
        room = ceil_div(delay + tensor.beats, int(pace)) + SPARE
        # A request waits for one of each other tensor at most: no longer than until the next one, or others wait too.
        asks = 1 if int(pace) > len(tensors) else room
        found.append(
            {"BUS": memory.bits, "ROW": tensor.row, "BLOCK": tensor.block, "ROOM": room, "ASKS": asks}
            | {"PACE": int(pace), "EXTRA": pace.numerator % pace.denominator, "OF": pace.denominator}
            | {"DELAY": delay, "BASE": tensor.base}
        )
    return found


def _delay(tensors: Sequence[Tensor], memory: ExternalMemory) -> int:
    """Cycles from asking for a block to its beats, the same for all: the last of its words has come by then.

    Sources that ask at the same time have their turns one after the other, and as requests come closer together by
    that, and by the cycle to which the pace is rounded, more words may wait. Four registers are passed. Where several
    requests of a source wait, that is enough for all tensors, paces and phases that were drawn; it is not proven.
    """
    return memory.latency + sum(tensor.words for tensor in tensors) + 5 * len(tensors) + 4


def _blocks(width: int, beats: int, memory: ExternalMemory) -> tuple[int, int]:
    """Beats of a row and rows of a block: the fewest bits that only fill words, then the shortest row."""
    fits = max(ROW_WORDS, ceil_div(width, memory.bits))
    rows = [row for row in _divisors(beats) if ceil_div(row * width, memory.bits) <= fits]
    row = min(rows, key=lambda row: (Fraction(ceil_div(row * width, memory.bits), row), row))
    words = ceil_div(row * width, memory.bits)
    return row, max((n for n in _divisors(beats // row) if n * words <= memory.burst), default=1)


def _divisors(number: int) -> list[int]:
    """In rising order; a search over foldings asks for those of hundreds of thousands of beats."""
    low = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return [*low, *(number // n for n in reversed(low) if n * n < number)]


def image(tensors: Sequence[Tensor], texts: Sequence[str], design: str) -> list[int]:
    """The words of an image: those of the tensors, and its end.

    Args:
        tensors: In the order in which they lie there.
        texts: Their memory files.
        design: The number of the design, eight hexadecimal digits.
    """
    size = tensors[0].bus // 8
    words = [word for tensor, text in zip(tensors, texts, strict=True) for word in tensor.pack(text)]
    held = image_bytes(words, tensors[0].bus) + int(design, 16).to_bytes(max(size - 4, 4), "little")
    end = held + zlib.crc32(held).to_bytes(4, "little")
    return [int.from_bytes(end[at : at + size], "little") for at in range(0, len(end), size)]


def image_bytes(words: Sequence[int], bits: int) -> bytes:
    """An image as it lies in memory: words little-endian."""
    return b"".join(word.to_bytes(bits // 8, "little") for word in words)


def design_number(manifest: Manifest) -> str:
    """What an image says of the design that reads it; empty if none does."""
    return "" if manifest.external is None else manifest.external.design


def image_words(bits: int, words: int) -> int:
    """Words of an image with so many words of tensors."""
    return words + (2 if bits == 32 else 1)


def image_text(words: Sequence[int], bits: int) -> str:
    """They as a memory file."""
    return "".join(f"{word:0{bits // 4}x}\n" for word in words)


def outside(manifest: Manifest) -> dict[str, Tensor]:
    """The tensors of a design in external memory, in the order in which they lie there, by the files of their beats."""
    files = {entry.instance: entry.file for entry in manifest.memories}
    return {
        files[each.name]: Tensor.of(each.parameters)
        for each in manifest.instances
        if each.module.removeprefix(manifest.prefix) == FETCHED
    }


def source_stages(parameters: Mapping[str, int | str]) -> tuple[Steps, ...]:
    """The timing of a source: its input are blocks, which are there from the start."""
    room, pace, extra, of, delay = (int(parameters[name]) for name in ("ROOM", "PACE", "EXTRA", "OF", "DELAY"))
    tensor = Tensor.of(parameters)
    sent = (tensor.depth // tensor.sets, tensor.repeats, tensor.buffered) if tensor.buffered else None
    return _stages(tensor.beats, room, (pace * of + extra, of), delay, sent)


def held_blocks(parameters: Mapping[str, int | str]) -> int:
    """Blocks that a source holds, the last one perhaps in part."""
    tensor = Tensor.of(parameters)
    return int(parameters["ROOM"]) + ceil_div(tensor.buffered, tensor.beats) + 1


def fill_cycles(parameters: Mapping[str, int | str]) -> int:
    """Cycles in which a source from which nothing is taken has all that it holds, or a few less."""
    held, of = held_blocks(parameters), int(parameters["OF"])
    asking = fetch_interval(parameters, ceil_div(held, of) * of)
    return asking + held * (Tensor.of(parameters).beats + 1) + int(parameters["DELAY"])


def primed(sources: Sequence[Mapping[str, int | str]]) -> int:
    """Cycles after a reset in which all sources have what they hold, at the stated memory."""
    return max(fill_cycles(each) + int(each["DELAY"]) for each in sources)


def fetch_interval(parameters: Mapping[str, int | str], blocks: int) -> int:
    """Cycles in which a source asks for so many blocks, those of its sets."""
    pace, extra, of = (int(parameters[name]) for name in ("PACE", "EXTRA", "OF"))
    return blocks * (pace * of + extra) // of


@functools.lru_cache(maxsize=1024)
def _stages(
    beats: int, room: int, pace: tuple[int, int], delay: int, sent: tuple[int, int, int] | None
) -> tuple[Steps, ...]:
    """Kept, as a network knows long schedules by their identity."""
    cycles, blocks = pace
    once, at = np.zeros(1, np.int64), np.arange(blocks, dtype=np.int64) * cycles // blocks
    ask = Steps.at(
        cycles, needed=(at,), freed=(at,), emitted=at, delay=(0,), room=(0,), pipe=delay, queue=room, queue_lag=1
    )
    each = np.arange(beats, dtype=np.int64)
    give = Steps.at(beats, needed=(once,), freed=(each[-1:],), emitted=each, delay=(0,), room=(0,), pipe=0, queue=0)
    return (ask, give) if sent is None else (ask, give, Steps.replayed(*sent))


def with_parameters(stage: Steps, taken: Sequence[np.ndarray]) -> Steps:
    """A stage that waits for parameters as well, each beat of which it takes in the cycle of the step that needs it.

    Args:
        stage: Without them.
        taken: Of every parameter, the step of each beat.
    """
    none = (0,) * len(taken)
    return Steps.at(
        stage.steps,
        needed=(*stage.need_steps, *taken),
        freed=(*stage.free_steps, *taken),
        emitted=stage.emit_steps,
        delay=(*stage.delay, *none),
        room=(*stage.room, *none),
        pipe=stage.pipe,
        queue=stage.queue,
        room_lag=stage.room_lag,
        queue_lag=stage.queue_lag,
    )
