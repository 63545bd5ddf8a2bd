"""What a bench of a library module is: what is built, what is played, what must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mase_hw.formats import FixedFormat
from mase_hw.hardware.library import exists
from mase_hw.opdef import SUPPORT
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Reset, Stalls
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Direction, Stream
from tests.rtl import LIBRARY, bench

FOLDER = Path(__file__).parent / "rtl"
SEED, WATCHDOG, MAX_CYCLES = 9, 400, 30_000
"""Of every run of a bench."""
STALLS = {
    "full rate": Stalls.none(),
    "late inputs": Stalls(valid_low=0.5),
    "busy outputs": Stalls(ready_low=0.7),
    "both": Stalls.random(0.4, 0.4),
    "long stalls": Stalls(ready_burst=(11, 40), valid_burst=(17, 23)),
}
Beats = Mapping[str, npt.NDArray[np.int64]]
"""Mantissas ``(beats, lanes)`` of every stream."""
U8 = FixedFormat(8, 0, signed=False)


@dataclass(frozen=True)
class Play:
    """One run of a bench.

    Args:
        stalls: How unwilling the surroundings are.
        beats: What every stream carries.
        idle_cycles: Cycles between reset and the first beat.
        reset_at: Resets in the middle; what is recorded comes after the last one.
    """

    stalls: Stalls
    beats: Beats
    idle_cycles: int = 8
    reset_at: tuple[Reset, ...] = ()


@dataclass(frozen=True)
class Bench:
    """A library module under test.

    Args:
        dut: What is built; its last source may be a bench of this folder.
        plays: The runs, by name.
        holds: What must be true of a run besides equal bits, by its name.
        words: What the memory files hold, for a module that reads one.
    """

    dut: Dut
    plays: Mapping[str, Play]
    holds: Callable[[str, SimResult], None] = lambda name, result: None
    words: tuple[int, ...] = field(default=())


def port(name: str, direction: Direction, beats: int, fmt: FixedFormat, lanes: int = 1) -> Stream:
    """A port of a primitive; ``in_data`` and ``out_data`` have their handshake beside them."""
    side, _, rest = name.partition("_")
    stem = side if rest == "data" else name
    return Stream(name, direction, (beats, lanes), fmt, (lanes,), f"{stem}_valid", f"{stem}_ready")


def on_library(top: str, files: tuple[str, ...], streams: tuple[Stream, ...], **parameters: int | str) -> Dut:
    """A bench of this folder on library files, or a library module by itself."""
    own = (bench(FOLDER / f"{top}.sv"),) if exists(FOLDER / f"{top}.sv") else ()
    library = (*SUPPORT, *(f"lib/{file}" for file in files))
    return Dut(top, tuple(LIBRARY / file for file in library) + own, parameters, streams)


def noise(count: int, fmt: FixedFormat, lanes: int = 1, seed: int = 0) -> npt.NDArray[np.int64]:
    """Random beats over the whole range of a format."""
    rng = np.random.default_rng([seed, count, lanes])
    return rng.integers(fmt.min_mantissa, fmt.max_mantissa, (count, lanes), dtype=np.int64, endpoint=True)


def plays(beats: Beats, *names: str) -> dict[str, Play]:
    """The same beats in several surroundings: those named, or all; one is reset in the middle."""
    resets = {"both": (Reset(5), Reset(10, "out"), Reset(25, "in"))}
    return {name: Play(STALLS[name], beats, reset_at=resets.get(name, ())) for name in names or STALLS}


def placed(bench: Bench, memory: Path) -> Bench:
    """A bench whose memory files lie in a folder."""
    return replace(bench, dut=replace(bench.dut, memory=memory)) if bench.words else bench
