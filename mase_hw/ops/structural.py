"""Stream primitives that no model contains: the netlist puts them where streams need them.

They are catalogue entries so that the one catalogue test proves them too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.steps import Steps
from mase_hw.streams import Direction, IntArray, Stream, ceil_div

_CASE_BEATS = 23
"""Beats per frame in the test of a primitive that does not know frames; odd, to meet every counter state."""


@dataclass(frozen=True)
class BufferParams:
    """Parameters of ``skid_buffer`` and ``register_slice``: bits of a beat."""

    WIDTH: int


@dataclass(frozen=True)
class FifoParams:
    """Parameters of ``stream_fifo``: bits of a beat, beats held."""

    WIDTH: int
    DEPTH: int


@dataclass(frozen=True)
class RepackParams:
    """Parameters of ``stream_repack``: element bits, lanes and row length of both sides."""

    WIDTH: int
    IN_LANES: int
    OUT_LANES: int
    IN_SIZE: int
    OUT_SIZE: int


def _port(direction: Direction, shape: tuple[int, ...], width: int, lanes: int) -> Stream:
    name = f"{direction}_data"
    fmt = FixedFormat(width, 0, signed=False)
    return Stream(name, direction, shape, fmt, (lanes,), f"{direction}_valid", f"{direction}_ready")


def _plain_ports(p: BufferParams | FifoParams) -> tuple[Stream, ...]:
    return tuple(_port(d, (_CASE_BEATS, 1), p.WIDTH, 1) for d in ("in", "out"))


def repack_ports(p: RepackParams) -> tuple[Stream, ...]:
    """Both sides, for the smallest frame that has whole rows on both."""
    total = math.lcm(p.IN_SIZE, p.OUT_SIZE)
    return (
        _port("in", (total // p.IN_SIZE, p.IN_SIZE), p.WIDTH, p.IN_LANES),
        _port("out", (total // p.OUT_SIZE, p.OUT_SIZE), p.WIDTH, p.OUT_LANES),
    )


def _arithmetic(ports: Callable[..., tuple[Stream, ...]]) -> Callable[..., Arithmetic]:
    def read(p: object) -> Arithmetic:
        streams = ports(p)
        return Arithmetic({s.name: s.fmt for s in streams}, attributes={"out_shape": streams[-1].shape})

    return read


def _identity(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"out_data": t["in_data"].reshape(-1, *a.attributes["out_shape"])}


def _sliced(_: BufferParams) -> Latency:
    return Latency.from_steps(Steps.registered(_CASE_BEATS))


def _skid(_: BufferParams) -> Latency:
    return Latency.from_steps(Steps.queued(_CASE_BEATS, 2))


def _queued(p: FifoParams) -> Latency:
    return Latency.from_steps(Steps.queued(_CASE_BEATS, p.DEPTH))


def repack_latency(p: RepackParams) -> Latency:
    """The counters of ``stream_repack``: a step takes an output beat, as soon as its elements are there."""
    _, target = repack_ports(p)
    total = math.lcm(p.IN_SIZE, p.OUT_SIZE)
    arrived, given = (_elements(total, *side) for side in ((p.IN_SIZE, p.IN_LANES), (p.OUT_SIZE, p.OUT_LANES)))
    # A beat is accepted while no more elements than this are in the buffer.
    limit = 2 * p.OUT_LANES - 1 + (0 if p.IN_SIZE == p.OUT_SIZE else p.IN_LANES)
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


def _not_requested(r: Request) -> BufferParams:
    raise UnsupportedError("stream primitives are placed by the netlist, not by a model", node=r.node)


def _structural(
    name: str,
    module: str,
    params: type[object],
    ports: Callable[..., tuple[Stream, ...]],
    latency: Callable[..., Latency],
    cases: Callable[[], list[Case]],
    parts: tuple[str, ...] = (),
    **facets: Any,
) -> OpDef:
    return OpDef(
        name=name,
        golden=_identity,
        formats=(),
        hardware=Hardware(
            module=module,
            file=f"lib/{module}.sv",
            dependence_files=parts,
            params=params,
            build=_not_requested,
            ports=ports,
            arithmetic=_arithmetic(ports),
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
    ]
    return [Case(f"{i}to{o}_rows{a}to{b}", RepackParams(5, i, o, a, b), 5) for i, o, a, b in sides]


OPS = (
    _structural("skid_buffer", "skid_buffer", BufferParams, _plain_ports, _skid, _buffer_cases),
    _structural("register_slice", "register_slice", BufferParams, _plain_ports, _sliced, _buffer_cases),
    _structural("fifo", "stream_fifo", FifoParams, _plain_ports, _queued, _fifo_cases, tied=lambda _: {"count": ""}),
    _structural(
        "repack", "stream_repack", RepackParams, repack_ports, repack_latency, _repack_cases, ("lib/loop_counter.sv",)
    ),
)
