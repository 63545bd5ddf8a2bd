"""Library modules that are no ops: behaviour behind small benches, and which paths their registers cut."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mase_hw.errors import SimulationError
from mase_hw.formats import FixedFormat
from mase_hw.host.lint import lint
from mase_hw.resources import rtl_root
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.batch.engine import simulate
from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Direction, Stream

from .conftest import Builder, Yosys

BENCHES = Path(__file__).parent / "rtl"
STALLS = {
    "full rate": Stalls.none(),
    "late inputs": Stalls(valid_low=0.5),
    "busy outputs": Stalls(ready_low=0.7),
    "both": Stalls.random(0.4, 0.4),
    "long stalls": Stalls(ready_burst=(11, 40), valid_burst=(17, 23)),
}
every_stall = pytest.mark.parametrize("stalls", STALLS.values(), ids=STALLS)
Beats = npt.NDArray[np.int64]


def port(name: str, direction: Direction, beats: int, fmt: FixedFormat, lanes: int = 1) -> Stream:
    """A port of a primitive; ``in_data`` and ``out_data`` have their handshake beside them."""
    side, _, rest = name.partition("_")
    stem = side if rest == "data" else name
    return Stream(name, direction, (beats, lanes), fmt, (lanes,), f"{stem}_valid", f"{stem}_ready")


def bench(top: str, files: tuple[str, ...], streams: tuple[Stream, ...], **parameters: int) -> Dut:
    """A bench of this folder on library files, or a library module by itself."""
    own = (BENCHES / f"{top}.sv",) if (BENCHES / f"{top}.sv").is_file() else ()
    return Dut(top, tuple(rtl_root() / "lib" / f for f in files) + own, parameters, streams)


def run(builder: Builder, dut: Dut, folder: Path, beats: dict[str, Beats], **options: Any) -> SimResult:
    """Build and play; every stream is named in ``beats``."""
    values = "_".join(str(v) for v in dut.parameters.values())
    built = builder(dut, f"{dut.top}_{values}")
    # The number of frames is that of the test, not of the build.
    stimulus = {s.name: beats[s.name] for s in dut.inputs}
    expected = {s.name: beats[s.name] for s in dut.outputs}
    return simulate(built, folder, stimulus, expected, watchdog=400, max_cycles=30_000, seed=9, **options)


def noise(count: int, fmt: FixedFormat, lanes: int = 1, seed: int = 0) -> Beats:
    """Random beats over the whole range of a format."""
    rng = np.random.default_rng([seed, count, lanes])
    return rng.integers(fmt.min_mantissa, fmt.max_mantissa, (count, lanes), dtype=np.int64, endpoint=True)


def test_benches_are_clean() -> None:
    complaints = lint(sorted(BENCHES.glob("*.sv")))
    assert not complaints, "\n".join(complaints)


U8 = FixedFormat(8, 0, signed=False)


@every_stall
def test_fork(builder: Builder, tmp_path: Path, stalls: Stalls) -> None:
    """Each of three consumers that stall by themselves gets every beat once."""
    outputs = [port(name, "out", 1, U8) for name in ("out_a", "out_b", "out_c")]
    dut = bench("fork_bench", ("stream_fork.sv",), (port("in_data", "in", 1, U8), *outputs), WIDTH=8)
    data = noise(150, U8)
    result = run(builder, dut, tmp_path, {s.name: data for s in dut.streams}, stalls=stalls).raise_on_failure()
    assert result.beats_compared == 3 * 150
    taken = np.stack([result.accepted[s.name] for s in outputs])
    # The input beat goes with its last consumer; the others had it as soon as they were ready.
    assert (taken.max(axis=0) == result.accepted["in_data"]).all()
    if stalls == Stalls.none():
        assert (np.diff(taken) == 1).all()
    if stalls.ready_low:
        assert (taken.min(axis=0) < taken.max(axis=0)).any(), "an eager fork lets consumers go ahead"


@every_stall
def test_join(builder: Builder, tmp_path: Path, stalls: Stalls) -> None:
    """A beat of each of three inputs makes one output beat, in the same cycle."""
    inputs = [port(name, "in", 1, U8) for name in ("in_a", "in_b", "in_c")]
    dut = bench("join_bench", ("stream_join.sv",), (*inputs, port("out_data", "out", 1, U8, 3)), WIDTH=8)
    data = {s.name: noise(120, U8, seed=i) for i, s in enumerate(inputs)}
    data["out_data"] = np.concatenate(list(data.values()), axis=1)
    result = run(builder, dut, tmp_path, data, stalls=stalls).raise_on_failure()
    for stream in inputs:
        assert (result.accepted[stream.name] == result.accepted["out_data"]).all()
    if stalls == Stalls.none():
        assert (np.diff(result.accepted["out_data"]) == 1).all()


def rom(depth: int, folder: Path) -> Dut:
    """A memory of ``depth`` words whose files lie in ``folder``."""
    streams = (port("in_data", "in", 1, U8), port("out_data", "out", 1, U8, 2))
    return replace(
        bench("rom_bench", ("rom_source.sv", "stream_join.sv"), streams, WIDTH=8, DEPTH=depth), memory=folder
    )


def rom_beats(words: list[int], count: int = 60) -> dict[str, Beats]:
    """Tokens, and each with the word that a memory of ``words`` gives it."""
    tokens = noise(count, U8)
    cyclic = np.resize(np.array(words), (count, 1))
    return {"in_data": tokens, "out_data": np.concatenate([tokens, cyclic], axis=1)}


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_rom(builder: Builder, tmp_path: Path, depth: int) -> None:
    """The memory over and over, a word per cycle, the first one in the second cycle after reset."""
    words = [0xA7, 0x01, 0xFE, 0x40, 0x33][:depth]
    (tmp_path / "rom.mem").write_text("".join(f"{word:02x}\n" for word in words))
    dut = rom(depth, tmp_path)
    for name, stalls in STALLS.items():
        run(builder, dut, tmp_path / name, rom_beats(words), stalls=stalls).raise_on_failure()
    result = run(builder, dut, tmp_path / "prompt", rom_beats(words), idle_cycles=0).raise_on_failure()
    assert result.presented["out_data"][0] == 2
    assert (np.diff(result.accepted["out_data"]) == 1).all()


def test_rom_without_its_file(builder: Builder, tmp_path: Path) -> None:
    """A file that is missing, or too short, ends the run, and is named."""
    (tmp_path / "empty").mkdir()
    result = run(builder, rom(5, tmp_path / "empty"), tmp_path / "run", rom_beats([0] * 5))
    with pytest.raises(SimulationError, match=r"cannot open the memory file 'mem/rom\.mem'"):
        result.raise_on_failure()
    (tmp_path / "empty" / "rom.mem").write_text("00\n00\n")
    result = run(builder, rom(5, tmp_path / "empty"), tmp_path / "run", rom_beats([0] * 5))
    with pytest.raises(SimulationError, match=r"(?s)memory file was not read as a whole.*rom\.mem"):
        result.raise_on_failure()


@pytest.mark.parametrize(("length", "repeats"), [(3, 4), (1, 2), (5, 2), (4, 1)])
def test_replay_buffer(builder: Builder, tmp_path: Path, length: int, repeats: int) -> None:
    """Each vector ``repeats`` times, without a gap."""
    streams = (port("in_data", "in", length, U8), port("out_data", "out", length * repeats, U8))
    dut = bench("replay_buffer", ("replay_buffer.sv",), streams, WIDTH=8, LEN=length, REPEATS=repeats)
    vectors = noise(30, U8, length)
    beats = {"in_data": vectors.reshape(-1, 1), "out_data": np.tile(vectors, (1, repeats)).reshape(-1, 1)}
    for name, stalls in STALLS.items():
        result = run(builder, dut, tmp_path / name, beats, stalls=stalls).raise_on_failure()
        if stalls == Stalls.none():
            timing = result.timing("in_data", "out_data")
            assert timing is not None
            assert timing.fill == (2 if repeats > 1 else 0)
            assert timing.interval == timing.input_intervals[-1] == length * repeats
            assert (np.diff(result.accepted["out_data"]) == 1).all()


def test_fifo_of_one(builder: Builder, tmp_path: Path) -> None:
    """The depth that cannot run at full rate: a beat every two cycles."""
    streams = (port("in_data", "in", 1, U8), port("out_data", "out", 1, U8))
    dut = bench("stream_fifo", ("stream_fifo.sv",), streams, WIDTH=8, DEPTH=1)
    data = noise(60, U8)
    for name, stalls in STALLS.items():
        beats = {"in_data": data, "out_data": data}
        result = run(builder, dut, tmp_path / name, beats, stalls=stalls).raise_on_failure()
        if stalls == Stalls.none():
            assert (np.diff(result.accepted["out_data"]) == 2).all()


def test_adder_tree(builder: Builder, tmp_path: Path) -> None:
    """Sums of 1 to 9 operands, odd counts included, each after exactly its own latency."""
    most, fmt = 9, FixedFormat(5, 0)
    streams = (port("in_data", "in", 1, fmt, most), port("out_data", "out", 1, FixedFormat(9, 0), most))
    dut = bench("tree_bench", ("fixed_adder_tree.sv",), streams, MAX=most, WIDTH=5)
    operands = noise(200, fmt, most)
    operands[0], operands[1] = fmt.min_mantissa, fmt.max_mantissa
    beats = {"in_data": operands, "out_data": operands.cumsum(axis=1)}
    for name in ("full rate", "late inputs"):
        run(builder, dut, tmp_path / name, beats, stalls=STALLS[name]).raise_on_failure()


def test_accumulator(builder: Builder, tmp_path: Path) -> None:
    """Runs of one value and more, back to back and with gaps, each from its own start."""
    value, total = FixedFormat(6, 0), FixedFormat(12, 0)
    rng = random.Random(3)
    words, sums = [], []
    for _ in range(80):
        length = rng.choice((1, 1, 2, 3, 9))
        start = rng.randrange(-1500, 1500)
        values = [rng.randint(value.min_mantissa, value.max_mantissa) for _ in range(length)]
        sums.append(start + sum(values))
        for at, item in enumerate(values):
            # The start is read with the first value only: later words carry garbage.
            init = start if at == 0 else rng.randrange(-2048, 2048)
            flags = (at == 0) | (at == length - 1) << 1
            words.append(flags << 18 | (init & 0xFFF) << 6 | item & 0x3F)
    word = FixedFormat(20, 0, signed=False)
    streams = (port("in_data", "in", 1, word), port("out_data", "out", 1, total))
    dut = bench("accumulator_bench", ("fixed_accumulator.sv",), streams, IN_WIDTH=6, ACC_WIDTH=12)
    beats = {"in_data": np.array(words).reshape(-1, 1), "out_data": np.array(sums).reshape(-1, 1)}
    for name in ("full rate", "late inputs"):
        result = run(builder, dut, tmp_path / name, beats, stalls=STALLS[name]).raise_on_failure()
        last = np.flatnonzero(np.array(words) >> 19)
        assert (result.presented["out_data"] == result.accepted["in_data"][last] + 1).all()


# Outputs that an input reaches without a register; clk and rst reach none.
PATHS: dict[str, dict[str, set[str]]] = {
    "skid_buffer": {},
    "stream_fifo": {},
    "replay_buffer -GLEN=3 -GREPEATS=2": {},
    "rom_source": {},
    "register_slice": {"out_ready": {"in_ready"}},
    "stream_repack -GOUT_LANES=2 -GIN_SIZE=5 -GOUT_SIZE=5": {},
    "stream_join": {"in_valid": {"in_ready", "out_valid"}, "out_ready": {"in_ready"}},
    "stream_fork": {"in_data": {"out_data"}, "in_valid": {"out_valid"}, "out_ready": {"in_ready"}},
}


@pytest.mark.parametrize("top", PATHS)
def test_registers_cut_paths(top: str, yosys: Yosys) -> None:
    asked, module = top, top.split()[0]
    if module == "rom_source":
        # Unlike simulators, synthesis reads the memory; below the folder that Yosys runs in.
        top += f' -GMEM_FILE="{(BENCHES / "one_word.mem").relative_to(rtl_root().parent)}"'
    read = f"read_slang -j 1 --ignore-assertions --top {top} {rtl_root().name}/lib/{module}.sv"
    cut = "proc; flatten; opt_clean; delete t:$*ff* t:$mem*"
    inputs = ["clk", "rst", "in_data", "in_valid", "out_ready"]
    queries = "; ".join(f"log <{name}>; select -list i:{name} %co* o:* %i; log </{name}>" for name in inputs)
    code, log = yosys(f"{read}; {cut}; {queries}")
    assert code == 0, log[-3000:]
    listed = dict(re.findall(r"^<(\w+)>\n(.*?)^</\1>$", log, re.DOTALL | re.MULTILINE))
    assert list(listed) == inputs
    found = {name: {line.removeprefix(f"{module}/") for line in text.split()} for name, text in listed.items()}
    assert {name: outputs for name, outputs in found.items() if outputs} == PATHS[asked]
