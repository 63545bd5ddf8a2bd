"""Stream primitives that no model contains: the netlist puts them where streams need them.

They are catalogue entries so that the one catalogue test proves them too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Params
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.steps import Steps
from mase_hw.streams import SIDES, Direction, IntArray, Stream, ceil_div, plain_stream

_CASE_BEATS = 23
"""Beats per frame in the test of a primitive that does not know frames; odd, to meet every counter state."""


class BufferParams(Params, frozen=True):
    """Parameters of ``skid_buffer`` and ``register_slice``: bits of a beat."""

    width: int

    def streams(self) -> tuple[Stream, ...]:
        """One in, one out; a beat is one element."""
        return tuple(plain_stream(d, (_CASE_BEATS, 1), FixedFormat(self.width, 0, signed=False)) for d in SIDES)

    def attributes(self) -> Attributes:
        """What the golden gives."""
        return {"out_shape": self.streams()[-1].shape}


class FifoParams(BufferParams, frozen=True):
    """Parameters of ``stream_fifo``: bits of a beat, beats held."""

    depth: int


class ReplayParams(BufferParams, frozen=True):
    """Parameters of ``replay_buffer``: bits of a beat, beats of a frame, how often it is sent, beats held."""

    len: int
    repeats: int
    depth: int

    def streams(self) -> tuple[Stream, ...]:
        """A frame, and so many of it one after the other; a beat is one element."""
        fmt = FixedFormat(self.width, 0, signed=False)
        sizes = (self.len, self.len * self.repeats)
        return tuple(plain_stream(side, (size, 1), fmt) for side, size in zip(SIDES, sizes, strict=True))

    def attributes(self) -> Attributes:
        """What the golden gives."""
        return {"repeats": self.repeats}


class RepackParams(BufferParams, frozen=True):
    """Parameters of ``stream_repack``: element bits, lanes and row length of both sides."""

    in_lanes: int
    out_lanes: int
    in_size: int
    out_size: int

    def streams(self) -> tuple[Stream, ...]:
        """Both sides, for the smallest frame that has whole rows on both."""
        total, fmt = math.lcm(self.in_size, self.out_size), FixedFormat(self.width, 0, signed=False)
        rows = ((self.in_size, self.in_lanes), (self.out_size, self.out_lanes))
        return tuple(
            plain_stream(side, (total // size, size), fmt, lanes)
            for side, (size, lanes) in zip(SIDES, rows, strict=True)
        )


class LinkParams(BufferParams, frozen=True):
    """Parameters of ``stream_link``: bits of a beat and of a word, cycles per word, cycles on the way, words held."""

    word: int
    pace: int = 1
    latency: int = 0
    credits: int = 4

    def streams(self) -> tuple[Stream, ...]:
        """One in, one out; every beat is handled like the others, so a frame is one."""
        return tuple(plain_stream(side, (1, 1), FixedFormat(self.width, 0, signed=False)) for side in SIDES)

    @property
    def words(self) -> int:
        """Words of a beat."""
        return ceil_div(self.width, self.word)


class LoopParams(BufferParams, frozen=True):
    """Parameters of ``loop_entry`` and ``loop_exit``: bits of a beat, beats per pass, passes per frame."""

    beats: int
    passes: int

    def attributes(self) -> Attributes:
        """Beats of the passes before the last one, and of the last one."""
        return {"split": [(self.passes - 1) * self.beats, self.beats]}

    def port(self, name: str, direction: Direction, passes: int) -> Stream:
        """A port with the beats of so many passes per frame; a beat is one element."""
        shape, fmt = (passes * self.beats, 1), FixedFormat(self.width, 0, signed=False)
        stem = name.removesuffix("_data")
        return Stream(name, direction, shape, fmt, (1,), f"{stem}_valid", f"{stem}_ready")


class EntryParams(LoopParams, frozen=True):
    """Of ``loop_entry``."""

    def streams(self) -> tuple[Stream, ...]:
        """The first pass, the passes after it, and all of them."""
        return (
            self.port("in_data", "in", 1),
            self.port("back_data", "in", self.passes - 1),
            self.port("out_data", "out", self.passes),
        )


class ExitParams(LoopParams, frozen=True):
    """Of ``loop_exit``."""

    def streams(self) -> tuple[Stream, ...]:
        """All passes, the last one, and those before it."""
        return (
            self.port("in_data", "in", self.passes),
            self.port("out_data", "out", 1),
            self.port("back_data", "out", self.passes - 1),
        )


def _enter(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"out_data": torch.cat([t["in_data"], t["back_data"]], dim=-2)}


def _leave(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    back, out = torch.split(t["in_data"], a.attributes["split"], dim=-2)
    return {"out_data": out, "back_data": back}


def _entering(p: EntryParams) -> Latency:
    every = np.arange(p.passes * p.beats, dtype=np.int64)
    given = every[: p.beats], every[p.beats :]
    return Latency.from_steps(
        Steps.at(len(every), needed=given, freed=given, emitted=every, delay=(0, 0), room=(0, 0), pipe=0, queue=0)
    )


def _leaving(p: ExitParams) -> Latency:
    every = np.arange(p.passes * p.beats, dtype=np.int64)
    given = every[-p.beats :], every[: -p.beats]
    return Latency.from_steps(
        Steps.at(len(every), needed=(every,), freed=(every,), emitted=given, delay=(0,), room=(0,), pipe=0, queue=0)
    )


def _replay(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"out_data": torch.cat([t["in_data"]] * a.attributes["repeats"], dim=-2)}


def _identity(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"out_data": t["in_data"].reshape(-1, *a.attributes["out_shape"])}


def _sliced(_: BufferParams) -> Latency:
    return Latency.from_steps(Steps.registered(_CASE_BEATS))


def _skid(_: BufferParams) -> Latency:
    return Latency.from_steps(Steps.queued(_CASE_BEATS, 2))


def _queued(p: FifoParams) -> Latency:
    return Latency.from_steps(Steps.queued(_CASE_BEATS, p.depth))


def _replayed(p: ReplayParams) -> Latency:
    return Latency.from_steps(Steps.replayed(p.len, p.repeats, p.depth))


def link_steps(p: LinkParams) -> tuple[Steps, ...]:
    """A beat of a link: sending its words as far as there are credits, and making a beat of them again.

    A word that is sent in a cycle is at the head of an empty FIFO ``latency + 2`` cycles later (``link_send`` and the
    FIFO have a register each); one that is taken there lets the next be sent after as many.
    """
    sends = np.arange(p.words, dtype=np.int64) * p.pace
    send = Steps.at(
        p.words * p.pace,
        needed=(sends[:1],),
        freed=(sends[-1:],),
        emitted=sends,
        delay=(1,),
        room=(1,),
        pipe=p.latency + 2,
        queue=p.credits,
        room_lag=0,
        queue_lag=p.latency + 2,
    )
    if p.words == 1:
        return (send,)
    every = np.arange(p.words, dtype=np.int64)
    join = Steps.at(
        p.words, needed=(every,), freed=(every,), emitted=every[-1:], delay=(0,), room=(0,), pipe=0, queue=0
    )
    return (send, join)


def round_trip(latency: int, pace: int) -> int:
    """Words that are on their way, or whose credits are, while a word is sent as often as can be."""
    return ceil_div(2 * latency + 4, pace)


def repack_latency(p: RepackParams) -> Latency:
    """The counters of ``stream_repack``: a step takes an output beat, as soon as its elements are there."""
    target = p.streams()[1]
    total = math.lcm(p.in_size, p.out_size)
    arrived, given = (_elements(total, *side) for side in ((p.in_size, p.in_lanes), (p.out_size, p.out_lanes)))
    # A beat is accepted while no more elements than this are in the buffer.
    limit = 2 * p.out_lanes - 1 + (0 if p.in_size == p.out_size else p.in_lanes)
    # Elements before every input beat of this frame and of the ones after it, as far as the buffer can hold them.
    frames = 2 + limit // total
    before = np.concatenate([[0], *(arrived + f * total for f in range(frames))])[:-1]
    admitted = np.searchsorted(before, limit + np.concatenate([[0], given]), "right")
    return Latency.from_steps(
        Steps(
            needs=(np.searchsorted(arrived, given) + 1,),
            frees=(admitted[1:] - admitted[0],),
            emits=np.arange(1, target.beats + 1),
            delay=(1,),
            pipe=0,
            room=(int(admitted[0]),),
            queue=0,
        )
    )


def _elements(total: int, size: int, lanes: int) -> IntArray:
    """Elements up to and with every beat of a frame of rows of ``size``."""
    row = np.minimum(np.arange(1, ceil_div(size, lanes) + 1) * lanes, size)
    return (np.arange(total // size)[:, None] * size + row).reshape(-1)


def not_requested(r: Request) -> NoReturn:
    """Of primitives that no model contains.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError("stream primitives are placed by the netlist, not by a model", node=r.node)


def _structural(
    name: str,
    module: str,
    params: type[object],
    latency: Callable[..., Latency],
    cases: Callable[[], list[Case]],
    golden: Callable[[Arithmetic, Mapping[str, Tensor]], dict[str, Tensor]] = _identity,
    **facets: Any,
) -> OpDef:
    return OpDef(
        name=name,
        golden=golden,
        formats=(),
        hardware=Hardware(
            module=module,
            file=f"lib/{module}.sv",
            params=params,
            build=not_requested,
            latency=latency,
            cases=cases,
            **facets,
        ),
    )


def _buffer_cases() -> list[Case]:
    return [Case(f"w{width}", BufferParams(width), 3) for width in (1, 13)]


def _fifo_cases() -> list[Case]:
    return [Case(f"w{w}_d{d}", FifoParams(w, d), 3) for w, d in ((8, 2), (5, 3), (1, 4), (9, 17), (6, 33))]


def _repack_cases() -> list[Case]:
    sides = [(1, 4, 8, 8), (4, 1, 8, 8), (4, 2, 10, 10), (2, 4, 10, 10), (4, 3, 10, 10), (3, 4, 10, 10)]
    sides += [
        (5, 3, 16, 16),
        (3, 3, 16, 64),
        (4, 4, 10, 30),
        (7, 2, 7, 7),
        (1, 1, 3, 3),
        (8, 3, 8, 24),
        (2, 7, 6, 21),
        (14, 7, 15, 21),
        (4, 5, 3, 3),
        (4, 2, 8, 16),
        (4, 2, 10, 20),
        (2, 4, 8, 16),
        (2, 4, 8, 8),
    ]
    return [Case(f"{i}to{o}_rows{a}to{b}", RepackParams(5, i, o, a, b), 5) for i, o, a, b in sides]


def _replay_cases() -> list[Case]:
    sizes = ((1, 2, 2), (1, 5, 2), (4, 2, 8), (5, 3, 10), (6, 4, 12), (1, 3, 1), (5, 3, 5), (3, 2, 8), (6, 4, 9))
    return [Case(f"l{n}_r{r}_d{d}", ReplayParams(7, n, r, d), 4) for n, r, d in sizes]


def _link_cases() -> list[Case]:
    sizes = ((8, 8, 1, 0, 4), (13, 4, 1, 3, 10), (5, 8, 3, 2, 3), (6, 3, 2, 1, 2), (6, 2, 1, 2, 3), (8, 8, 1, 5, 40))
    return [
        Case(f"w{w}_in{n}_p{p}_l{far}_c{c}", LinkParams(w, n, p, far, c), 3 * _CASE_BEATS) for w, n, p, far, c in sizes
    ]


def _loop_cases(params: type[LoopParams]) -> Callable[[], list[Case]]:
    return lambda: [Case(f"w{w}_b{b}_p{p}", params(w, b, p), 3) for w, b, p in ((8, 5, 2), (3, 1, 4), (5, 7, 3))]


OPS = (
    _structural("skid_buffer", "skid_buffer", BufferParams, _skid, _buffer_cases),
    _structural("register_slice", "register_slice", BufferParams, _sliced, _buffer_cases),
    _structural("fifo", "stream_fifo", FifoParams, _queued, _fifo_cases, tied=lambda _: {"count": ""}),
    _structural("repack", "stream_repack", RepackParams, repack_latency, _repack_cases),
    _structural("replay", "replay_buffer", ReplayParams, _replayed, _replay_cases, _replay),
    _structural("link", "stream_link", LinkParams, lambda p: Latency.from_steps(*link_steps(p)), _link_cases),
    _structural("loop_entry", "loop_entry", EntryParams, _entering, _loop_cases(EntryParams), _enter),
    _structural("loop_exit", "loop_exit", ExitParams, _leaving, _loop_cases(ExitParams), _leave),
)
