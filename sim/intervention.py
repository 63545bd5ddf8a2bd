"""How a test intervenes in a run of the fast engine: Python is entered only when something comes that it waits for.

A test is a function ``async def intervene(bench)`` in a file of its own; ``bench`` is an :class:`Intervention`. It runs
beside the harness, which plays and records everything. Cycles and beats count from the last reset, cycle 0 is the first
after it. After a wait the coroutine runs between two edges of the clock: that before the cycle it waited for is over,
and what it does holds from that cycle on.

The run must last until the coroutine has returned, and an exception in it fails the run.
"""

from __future__ import annotations

import json
import traceback
import types
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import Event

_CYCLE = ""
"""What a wait counts if it is not the beats of a stream."""


class Intervention:
    """What a test can see and do.

    Args:
        dut: The cocotb handle of the harness.
        folder: The run folder.
    """

    def __init__(self, dut: Any, folder: Path) -> None:
        self.dut = dut
        """For cocotb's own triggers, such as ``Timer``."""
        self.log: list[str] = []
        """What was done, and when."""
        self._folder = folder
        self._plan: dict[str, Any] = json.loads((folder / "beats" / "harness.json").read_text(encoding="utf-8"))
        self._streams: dict[str, dict[str, Any]] = self._plan["streams"]
        self._waiting: list[tuple[str, int, Event]] = []
        self._task: Any = None

    # What a test waits for.

    async def cycle(self, number: int) -> None:
        """Wait for cycle ``number``; returns at once if it has begun."""
        await self._until(_CYCLE, number)

    async def cycles(self, count: int) -> None:
        """Wait for so many cycles."""
        await self._until(_CYCLE, self.now + count)

    async def beats(self, stream: str, count: int) -> None:
        """Wait until so many beats of a stream were accepted."""
        await self._until(self._named(stream), count)

    async def frames(self, stream: str, count: int) -> None:
        """Wait until so many frames of a stream were accepted."""
        await self._until(self._named(stream), count * int(self._streams[stream]["frame"]))

    # What it sees.

    @property
    def now(self) -> int:
        """The cycle that comes next."""
        return int(self.dut.cycle.value)

    def accepted(self, stream: str) -> int:
        """Beats of a stream that were accepted."""
        return int(self._port("count", stream).value)

    def valid(self, stream: str) -> bool:
        """Whether a stream has a beat."""
        return bool(int(self._port("valid", stream).value))

    def ready(self, stream: str) -> bool:
        """Whether a stream would be accepted."""
        return bool(int(self._port("ready", stream).value))

    def data(self, stream: str) -> int:
        """The bits on a stream, valid or not, lane 0 in the low ones."""
        return int(self._port("data", stream).value)

    # What it does.

    def hold(self, stream: str, on: bool = True) -> None:
        """Stall a stream until told otherwise; the watchdog lifts this as it lifts every stall."""
        self._port("hold", stream).value = int(on)
        self._did(f"{'hold' if on else 'release'} {stream}")

    async def stall(self, stream: str, cycles: int) -> None:
        """Stall a stream for so many cycles."""
        self.hold(stream)
        await self.cycles(cycles)
        self.hold(stream, False)

    def pattern(self, stream: str, probability: float = 0.0, burst: tuple[int, int] = (0, 0)) -> None:
        """Change the stall pattern of a stream, also for what comes after a reset.

        Raises:
            ValueError: If the probability is not in ``[0, 0.99]``, or a burst ``(go, stop)`` never lets a beat pass.
        """
        go, stop = burst
        if not 0.0 <= probability <= 0.99 or go < 0 or stop < 0 or (stop and not go):
            raise ValueError(f"no stall pattern: {probability}, {burst}")
        path = self._folder / "beats" / f"{self._named(stream)}.stalls"
        seed = path.read_text(encoding="ascii").split()[1]
        path.write_text(f"{int(probability * (1 << 32)):x} {seed} {go} {go + stop}\n", encoding="ascii")
        entry = self._streams[stream]
        entry["reload"] = 1 - int(entry.get("reload", 0))
        self._port("reload", stream).value = entry["reload"]
        self._did(f"pattern of {stream}: {probability}, {burst}")

    def corrupt(self, stream: str, beat: int, mask: int = 1) -> None:
        """Flip the bits of ``mask`` in a beat that an input has not offered yet, counted from 0; one at a time.

        Raises:
            ValueError: If the stream is an output, or the beat was offered.
        """
        if self._streams[self._named(stream)]["direction"] != "in":
            raise ValueError(f"{stream} is an output: what the design says cannot be changed")
        if beat < self.accepted(stream) + int(self.valid(stream)):
            raise ValueError(f"beat {beat} of {stream} was offered already")
        self._port("flip_at", stream).value = beat
        self._port("flip", stream).value = mask
        self._did(f"flip {mask:#x} in beat {beat} of {stream}")

    async def reset(self, length: int = 1) -> None:
        """Reset for so many cycles from now on. Everything is played again, and only what comes then is judged.

        Returns in the first cycle of the reset.

        Raises:
            ValueError: If there is no such reset.
        """
        if length < 1:
            raise ValueError(f"a reset of {length} cycles")
        self._did(f"reset for {length} cycles")
        before = int(self.dut.requested.value)
        self.dut.reset_length.value = length
        self.dut.reset_request.value = 1 - int(self.dut.reset_request.value)
        event = Event()
        self._waiting.append(("requested", before + 1, event))
        await event.wait()

    # What the bench does with it.

    def start(self) -> None:
        """Let the harness begin, and the test if there is one. Nothing has happened yet."""
        for name in ("reset_request", "reset_length", "wake_cycle"):
            getattr(self.dut, name).value = 0
        for stream, entry in self._streams.items():
            for name in ("hold", "reload", "wake_at", *(("flip_at", "flip") if entry["direction"] == "in" else ())):
                self._port(name, stream).value = 0
        if self._plan["test"] is not None:
            self._task = cocotb.start_soon(self._run(self._plan["test"]))

    async def _run(self, test: dict[str, str]) -> str | None:
        """Run the test; return what is wrong with it."""
        try:
            await _load(test)(self)
        except Exception as problem:  # a test may raise anything; cocotb would end the run, and nothing were recorded
            traceback.print_exc()  # into the log
            text = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
            return f"{text} ({_place(problem, test['file'])}, in cycle {self.now})"
        return None

    def woken(self) -> None:
        """Something came that was waited for."""
        due = [wait for wait in self._waiting if self._reached(wait[0]) >= wait[1]]
        self._waiting = [wait for wait in self._waiting if wait not in due]
        for _, _, event in due:
            event.set()
        self._arm()

    def judge(self, verdict: str, message: str) -> tuple[str, str]:
        """The verdict on the run, with that on the test."""
        if self._task is None:
            return verdict, message
        if not self._task.done():
            self._task.cancel()
            waits = ", ".join(f"{what or 'cycle'} {target}" for what, target, _ in self._waiting)
            kind, problem = "unfinished", f"it still waits for {waits or 'something else'}"
        else:
            kind, problem = "test", self._task.result()
        if problem is None:
            return verdict, message
        return (kind, problem) if verdict == "pass" else (verdict, f"{message}; the test that intervenes: {problem}")

    async def _until(self, what: str, target: int) -> None:
        if self._reached(what) < target:
            event = Event()
            self._waiting.append((what, target, event))
            self._arm()
            await event.wait()

    def _reached(self, what: str) -> int:
        if what == "requested":
            return int(self.dut.requested.value)
        return self.now if what == _CYCLE else self.accepted(what)

    def _arm(self) -> None:
        """Tell the harness the next thing of every kind that is waited for; 0 is none."""
        for what in {what for what, _, _ in self._waiting if what != "requested"}:
            port = self.dut.wake_cycle if what == _CYCLE else self._port("wake_at", what)
            port.value = min(target for other, target, _ in self._waiting if other == what)

    def _named(self, stream: str) -> str:
        if stream not in self._streams:
            raise ValueError(f"no stream {stream!r}, there are {', '.join(self._streams)}")
        return stream

    def _port(self, name: str, stream: str) -> Any:
        return getattr(self.dut, f"{name}_{self._streams[self._named(stream)]['index']}")

    def _did(self, what: str) -> None:
        self.log.append(f"cycle {self.now}: {what}")


def _place(problem: BaseException, file: str) -> str:
    """The innermost line of the test's own file that the exception went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == file]
    return f"{file}:{lines[-1]}" if lines else file


def _load(test: dict[str, str]) -> Callable[[Intervention], Coroutine[Any, Any, None]]:
    # From its text: compiled bytecode is found by the time and the size of a file, which an edit need not change.
    module = types.ModuleType("mase_hw_intervention")
    module.__file__ = test["file"]
    text = Path(test["file"]).read_text(encoding="utf-8")
    exec(compile(text, test["file"], "exec", dont_inherit=True, optimize=0), module.__dict__)
    function: Callable[[Intervention], Coroutine[Any, Any, None]] = getattr(module, test["function"])
    return function
