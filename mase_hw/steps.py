"""When a module consumes and produces: the issue model behind exact timing.

A module with a static schedule does its frame in *steps*, at most one a cycle and always in the same order. What a step
waits for does not depend on the data, so the cycle of every beat follows from counts: which beats of the inputs a step
needs, which places it frees, which output beats it completes. :mod:`mase_hw.beat_times` solves networks of them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NotRequired, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from mase_hw.errors import CatalogueError

Counts = npt.NDArray[np.int64]
"""Numbers of beats, or of steps."""


class Buffers(TypedDict):
    """What a module holds at its inputs and outputs, and how fast it notices.

    Attributes:
        delay: Of every input: cycles from accepting a beat to the first step that can use it.
        pipe: Cycles from a step to its output beat being valid; one for all outputs, or one each.
        room: Of every input: beats the module holds, accepted and not yet freed. 0 means wires: a beat is
            accepted in the very cycle of the step that frees it.
        queue: Output beats that may be complete and not yet taken, those in the pipeline included: the step that
            completes beat ``j`` waits until beat ``j - queue`` was taken. 0 means wires: the step happens in the very
            cycle in which its beat is taken, and ``pipe`` is 0. One for all outputs, or one each.
        room_lag: Cycles from the step that frees a place to the first in which a beat is accepted for it: 1 if ready
            comes from registers, 0 if it is combinational.
        queue_lag: The same for outputs: cycles from taking beat ``j - queue`` to the step that completes ``j``; 1 for
            credits and counters in registers, 0 for a chain of register slices.
    """

    delay: Sequence[int]
    pipe: int | Sequence[int]
    room: Sequence[int]
    queue: int | Sequence[int]
    room_lag: NotRequired[int]
    queue_lag: NotRequired[int]


class Steps:
    """One frame of a module (or of one stage of it), step by step.

    Kept as the steps at which something happens, so its size is that of the beats, not of the steps.

    Args:
        needs: Of every data input: beats of the frame that must be usable before step ``k``; non-decreasing, length
            ``K``. The last one may be below the number of beats: the others are dropped.
        frees: Of every data input: beats of the frame whose place is free again once step ``k`` is done. The last one
            is the number of beats of the frame.
        emits: Output beats of the frame complete with step ``k``, rising by 0 or 1; a tuple for several outputs. The
            last one is the number of beats of the frame.
        **buffers: Fields of :class:`Buffers`.

    The first step of a frame should need a beat: one that needs none may happen at any time before.

    Raises:
        CatalogueError: If lengths or counts do not fit each other, or the module waits for a beat it has no room for.
    """

    def __init__(
        self,
        needs: Sequence[Counts],
        frees: Sequence[Counts],
        emits: Counts | tuple[Counts, ...],
        **buffers: Unpack[Buffers],
    ) -> None:
        outs = emits if isinstance(emits, tuple) else (emits,)
        counts = (*needs, *frees, *outs)
        if len({len(c) for c in counts}) != 1 or not len(counts[0]):
            _fail("every count needs one entry a step", [len(c) for c in counts])
        if any(c[0] < 0 or (np.diff(c) < 0).any() for c in counts):
            _fail("counts of beats must not fall", "a falling count")
        if any(c[0] > 1 or (np.diff(c) > 1).any() for c in outs):
            _fail("a step completes one output beat at most", "a jump in emits")
        self._set(len(counts[0]), *([_firsts(c) for c in of] for of in (needs, frees, outs)))
        self._hold(**buffers)

    @classmethod
    def at(
        cls,
        steps: int,
        *,
        needed: Sequence[Counts],
        freed: Sequence[Counts],
        emitted: Counts | tuple[Counts, ...],
        **buffers: Unpack[Buffers],
    ) -> Steps:
        """The same from the steps at which something happens, for frames of very many steps.

        Args:
            steps: Steps per frame.
            needed: Of every data input: the first step that needs beat ``n``, for the beats that are needed at all.
            freed: Of every data input: the step that frees beat ``n``.
            emitted: The step that completes output beat ``j``; a tuple for several outputs.
            **buffers: Fields of :class:`Buffers`.
        """
        self = cls.__new__(cls)
        self._set(steps, needed, freed, emitted if isinstance(emitted, tuple) else (emitted,))
        self._hold(**buffers)
        return self

    def _set(self, steps: int, needed: Sequence[Counts], freed: Sequence[Counts], emitted: Sequence[Counts]) -> None:
        self.steps = int(steps)
        self.need_steps, self.free_steps, self.emit_steps = (
            tuple(np.asarray(of, dtype=np.int64) for of in many) for many in (needed, freed, emitted)
        )

    def _hold(self, **buffers: Unpack[Buffers]) -> None:
        outs, pipe, queue = len(self.emit_steps), buffers["pipe"], buffers["queue"]
        self.delay, self.room = tuple(buffers["delay"]), tuple(buffers["room"])
        self.pipe = (pipe,) * outs if isinstance(pipe, int) else tuple(pipe)
        self.queue = (queue,) * outs if isinstance(queue, int) else tuple(queue)
        self.room_lag, self.queue_lag = buffers.get("room_lag", 1), buffers.get("queue_lag", 1)
        self._check()

    def _check(self) -> None:
        sides = [len(of) for of in (self.need_steps, self.free_steps, self.delay, self.room)]
        if len(set(sides)) != 1 or len({len(of) for of in (self.emit_steps, self.pipe, self.queue)}) != 1:
            _fail("one entry an input, and one an output, is needed", sides)
        if not all(len(of) for of in (*self.free_steps, *self.emit_steps)):
            _fail("a frame has beats", "no beat")
        for at in (*self.need_steps, *self.free_steps, *self.emit_steps):
            if len(at) and (at[0] < 0 or at[-1] >= self.steps or (np.diff(at) < 0).any()):
                _fail("steps must be in order, and within the frame", at[:8].tolist())
        if any((np.diff(at) == 0).any() for at in self.emit_steps):
            _fail("a step completes one output beat at most", "two in a step")
        if any(p for p, q in zip(self.pipe, self.queue, strict=True) if q == 0):
            _fail("an output without a FIFO has no pipeline", self.pipe)
        for index, (need, free, room) in enumerate(zip(self.need_steps, self.free_steps, self.room, strict=True)):
            if len(need) > len(free):
                _fail("more beats are needed than a frame has", f"input {index}: {len(need)} of {len(free)}")
            # Beat n comes when beat n - room has gone, in a step before the one that needs it.
            late = free[: max(len(need) - room, 0)] >= need[room:] if room else free[: len(need)] < need
            if late.any():
                _fail("a step waits for a beat that finds no room", f"input {index}, beat {np.argmax(late) + room}")

    @property
    def beats_in(self) -> tuple[int, ...]:
        """Beats of a frame of every input."""
        return tuple(len(of) for of in self.free_steps)

    @property
    def beats_out(self) -> tuple[int, ...]:
        """Beats of a frame of every output."""
        return tuple(len(of) for of in self.emit_steps)

    def with_room(self, room: int) -> Steps:
        """The same with that much room on every input that holds beats at all."""
        other = copy.copy(self)
        other.room = tuple(r and room for r in self.room)
        return other

    @classmethod
    def registered(cls, beats: int, inputs: int = 1, pipe: int = 1, *, skid: bool = False) -> Steps:
        """Beat by beat through ``pipe`` register slices, all inputs together (``stream_join`` before the first).

        Args:
            beats: Beats per frame, of every input and of the output.
            inputs: Data inputs.
            pipe: Registers.
            skid: The last one is a ``skid_buffer``.
        """
        each = (np.arange(beats, dtype=np.int64),) * inputs
        none = (0,) * inputs
        return cls.at(
            beats,
            needed=each,
            freed=each,
            emitted=each[0],
            delay=none,
            room=none,
            pipe=pipe,
            queue=pipe + int(skid),
            queue_lag=int(skid),
        )

    @classmethod
    def queued(cls, beats: int, depth: int, delay: int = 1) -> Steps:
        """A FIFO (``stream_fifo``, ``skid_buffer`` for 2): a step takes a beat out.

        Args:
            beats: Beats per frame.
            depth: Places.
            delay: Cycles from a beat entering to the first in which it can leave.
        """
        each = np.arange(beats, dtype=np.int64)
        return cls.at(
            beats, needed=(each,), freed=(each,), emitted=each, delay=(delay,), room=(depth,), pipe=0, queue=0
        )

    @classmethod
    def replayed(cls, length: int, repeats: int, depth: int) -> Steps:
        """A ``replay_buffer`` of so many beats, which are sent more than once: a step sends a beat.

        Args:
            length: Beats of a frame.
            repeats: Times that it is sent, two or more.
            depth: Beats that find room.

        The memory is read into the output register one step ahead.
        """
        place = np.arange(length, dtype=np.int64)
        return cls.at(
            length * repeats,
            needed=(place,),
            freed=(np.maximum(place + length * (repeats - 1) - 1, 0),),
            emitted=np.arange(length * repeats, dtype=np.int64),
            delay=(2,),
            room=(depth,),
            pipe=0,
            queue=0,
        )


def _firsts(counts: Counts) -> Counts:
    """The first step at which a count has reached 1, 2, ..."""
    return np.searchsorted(counts, np.arange(1, int(counts[-1]) + 1))


def _fail(problem: str, got: object) -> None:
    raise CatalogueError(problem, field="steps", got=got)
