"""Parameters that are read from external memory: every bit, and the cycles that are predicted for a stated memory."""

from __future__ import annotations

import dataclasses
import math
import random
import re
import shutil
import subprocess
import zlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.catalogue import default_catalogue
from mase_hw.compiler.config import load_config
from mase_hw.compiler.weights import OUTSIDE
from mase_hw.emit.schedule import predict
from mase_hw.errors import UnsupportedError
from mase_hw.hardware.external import ExternalMemory, Tensor, arranged, image
from mase_hw.hardware.manifest import typed
from mase_hw.model_spec import load_model
from mase_hw.report.stages import agrees, rebuilt
from mase_hw.simulate.build.tools import find_build_tools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Reset
from tests.handoff.designs import CONFIG, EXAMPLE, VECTORS, Pair
from tests.parameters.designs import shrunk, weights_of
from tests.parameters.test_shared_blocks import SHARED, Blocks, Residual, Transformer, compiled, holds, linear
from tests.unit.pipeline import seeded

OUTSIDE_HERE: dict[str, Any] = {"parameters": "external"}


def outside(config: Mapping[str, Any], **hardware: Any) -> dict[str, Any]:
    """A configuration whose parameters are read from external memory."""
    return {**config, "hardware": {**config.get("hardware", {}), **OUTSIDE_HERE, **hardware}}


class Slow(mase_hw.Design):
    """A design at a memory that is slower than was said, of which no cycles are promised."""

    def __init__(self, design: mase_hw.Design, folder: Path | None = None) -> None:
        super().__init__(folder or design.path, design.graph, verify=False)

    def reopen(self) -> None:
        super().reopen()
        self.manifest["timing"] |= {"exact": False, "steady": None}
        self.record = typed(self.manifest, str(self.path))

    def dut(self) -> Dut:
        return dataclasses.replace(super().dut(), parameters={"MEMORY_MODEL": 1, "MEMORY_STALLS": 100})


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    """A linear layer of 64 x 64 weights with 8 x 8 multipliers, one vector per frame."""
    torch.manual_seed(0)
    config = outside(SHARED, shared=[], max_parallelism=8)
    return compiled(nn.Linear(64, 64), (1, 64), tmp_path_factory.mktemp("external") / "layer", config)


def test_a_layer_takes_what_its_weights_take(layer: mase_hw.Design) -> None:
    """64 x 64 bytes are 512 words, and the bias fills its own; in ROM it would be 64 cycles."""
    holds(layer)
    (bias,) = (each for each in layer.manifest["memories"] if each["file"] == "mem/linear_bias.mem")
    words = 512 + -(-bias["bits"] * bias["words"] // 64)
    assert layer.manifest["external"]["words_per_frame"] == layer.timing["interval"] == words


def test_as_a_report_sees_it(layer: mase_hw.Design) -> None:
    """The cycles follow from the manifest alone."""
    netlist = rebuilt(layer.record, default_catalogue())
    assert netlist is not None and agrees(predict(netlist, default_catalogue()), layer.record)


@pytest.mark.parametrize("engine", ["cocotb", "fast"])
def test_every_engine(layer: mase_hw.Design, engine: str) -> None:
    found = layer.simulate(engine=engine, waves=False)
    assert found.passed and found.interval == layer.timing["interval"]


@pytest.mark.parametrize("engine", ["batch", "cocotb"])
def test_ports_that_nothing_drives(layer: mase_hw.Design, engine: str) -> None:
    """They are 0, and not the random values of the seed: no image is examined that nobody gave."""
    for seed in range(1, 5):
        assert layer.simulate(engine=engine, seed=seed, waves=False).passed


def test_a_slower_memory(layer: mase_hw.Design) -> None:
    """Words and requests wait in two of five cycles: the bits are the same, and only the cycles are more."""
    slow = Slow(layer)
    found = slow.simulate(torch.randn(5, 64), engine="batch", waves=False, check=False)
    assert found.passed and found.interval is not None and found.interval > 1.5 * layer.timing["interval"]
    for reset in (Reset(50), Reset(700), Reset(1, "out")):
        assert slow.simulate(engine="batch", waves=False, reset_at=(reset,), stalls=0.3).passed


def test_blocks_of_one_word(tmp_path: Path) -> None:
    """Requests fill every cycle, and those of a small tensor get their turn in time, which every simulation checks."""

    def made() -> nn.Module:
        return nn.Sequential(nn.Linear(16, 48), nn.Linear(48, 16), nn.Linear(16, 2))

    design = compiled(seeded(made), (1, 16), tmp_path / "bundle", outside(SHARED, shared=[], external_burst=1))
    entries = [e["parameters"] for e in design.manifest["instances"] if e["module"] == "external_source"]
    assert {each["BLOCK"] for each in entries} == {1}
    holds(design)


def test_requests_that_wait_for_each_other(tmp_path: Path) -> None:
    """Blocks of one word are due before all other tensors have had a turn: none is asked for late."""

    def made() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 5), nn.Linear(5, 8))

    memory = {"external_bytes": 16, "external_latency": 1, "external_burst": 1, "external_buffer": 200}
    config = outside(SHARED, shared=[], max_parallelism=4, **memory)
    design = compiled(seeded(made), (3, 3), tmp_path / "bundle", config)
    entries = [e["parameters"] for e in design.manifest["instances"] if e["module"] == "external_source"]
    assert any(each["PACE"] < len(entries) and each["ASKS"] > 1 for each in entries)
    holds(design)


def test_frames_that_come_late(layer: mase_hw.Design) -> None:
    """Nothing waits for a frame that does not come: each is finished before the next is offered."""
    (port,) = (name for name, stream in layer.streams.items() if stream.direction == "in")
    for _ in range(2):
        assert layer.simulate(torch.randn(1, 64), engine="batch", waves=False).frames == 1
    assert layer.simulate(engine="batch", waves=False, stalls=0.9).passed and port == "data_in_0"


@pytest.mark.parametrize("banks", [None, 1])
def test_shared_blocks(banks: int | None, tmp_path: Path) -> None:
    """Weights of four layers for one, three rows each; the biases from memory on the chip, or from outside too."""
    places = {} if banks is None else {"parameters_at": {"layers.0.fc.bias": "ram"}}
    design = compiled(linear(4), (3, 16), tmp_path / "bundle", outside(SHARED, **places))
    assert design.timing["interval"] == 4 * 3 * 16
    if banks is None:
        holds(design)
    else:
        assert design.simulate(engine="batch", waves=False).passed
    for reset in (Reset(50), Reset(130), Reset(1, "out")):
        assert design.simulate(engine="batch", waves=False, reset_at=(reset,)).passed


def test_read_again_for_every_row(tmp_path: Path) -> None:
    """Without a buffer the weights of a layer are read three times, once a row, before those of the next."""
    design = compiled(linear(4), (3, 16), tmp_path / "bundle", outside(SHARED, external_buffer=0))
    holds(design)
    entry = design.manifest["external"]
    assert entry["words_per_frame"] == 3 * entry["words"]
    assert design.timing["interval"] == pytest.approx(entry["words_per_frame"], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("images", [1, 3])
def test_residual_blocks(images: int, tmp_path: Path) -> None:
    def made() -> nn.Module:
        return Blocks(Residual, 3, nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), nn.Conv2d(4, 2, 1))

    holds(compiled(seeded(made), (images, 1, 5, 5), tmp_path / "bundle", outside(SHARED)))


@pytest.mark.slow
def test_transformer(tmp_path: Path) -> None:
    def made() -> nn.Module:
        return Blocks(Transformer, 3, nn.Linear(16, 16), nn.Linear(16, 4))

    holds(compiled(seeded(made), (2, 6, 16), tmp_path / "bundle", outside(SHARED)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "digits_vit"])
def test_digits(name: str, tmp_path: Path, root: Path) -> None:
    """The examples: their interval is that of ROMs, or the words of all weights where those are more."""
    spec = load_model(f"{root / 'examples' / name}.py:model")
    config = load_config(root / "examples" / f"{name}.toml").model_dump(exclude_unset=True)
    fixed, design = (
        mase_hw.compile(spec.model, spec.example_inputs, c, out=tmp_path / kind, calibration=spec.calibration)
        for kind, c in (("rom", config), ("external", outside(config)))
    )
    words = design.manifest["external"]["words_per_frame"]
    assert words == design.manifest["external"]["words"]
    assert design.timing["interval"] == max(fixed.timing["interval"], words)
    # The first frames are faster where memory sets the interval: sources have read ahead by then.
    found = design.simulate(spec.calibration[0][:20], engine="batch", waves=False)
    assert found.passed and (found.fill, found.interval) == (design.timing["fill"], design.timing["interval"])
    slow = Slow(design)
    assert slow.simulate(engine="batch", waves=False, stalls=0.2, check=False).passed


# ---- Sets that are tiles.


def test_a_layer_that_takes_its_frame_again(tmp_path: Path) -> None:
    """Six rows meet the weights of four outputs, then those of the next four: a set is 16 x 4 weights."""
    order = {"order": {"linear": "weights_first"}}
    found = []
    for place in ("rom", "external"):
        config = {**SHARED, "hardware": {"parameters": place, **order}}
        design = compiled(seeded(lambda: nn.Linear(16, 24)), (6, 16), tmp_path / place, config)
        holds(design)
        found.append(design.timing)
        (weight,) = (e["parameters"] for e in design.manifest["instances"] if e["name"] == "u_linear_weight")
        assert (weight["SETS"], weight["REPEATS"], weight["DEPTH"]) == (6, 6, 24)
    assert found[0] == found[1] and design.timing["interval"] == 6 * 16 * 24 // 16
    entry = design.manifest["external"]
    assert entry["words_per_frame"] == entry["words"]


@pytest.mark.parametrize("ahead", [0, 0.4])
def test_less_of_the_next_set_is_held(ahead: float, tmp_path: Path) -> None:
    """A set of 16 beats serves three rows; the rest of the next one comes while the last of them uses it."""
    place = {"layers.0.fc.weight": ahead, "head_0.weight": ahead}
    design = compiled(linear(4), (3, 16), tmp_path / "bundle", outside(SHARED, ahead=place))
    holds(design)
    whole = compiled(linear(4), (3, 16), tmp_path / "whole", outside(SHARED))
    assert design.timing["interval"] >= whole.timing["interval"]
    held = [
        e.parameters["BUFFERED"]
        for e in design.record.instances
        if e.name.endswith(("layers_0_fc_weight", "head_0_weight"))
    ]
    assert held == [16 + math.ceil(16 * ahead)] * 2
    for reset in (Reset(50), Reset(130), Reset(1, "out")):
        assert design.simulate(engine="batch", waves=False, reset_at=(reset,)).passed


def test_less_of_the_next_frame_is_held(tmp_path: Path) -> None:
    """The frame of a layer that takes it again, and its results, in memories of one frame."""
    frames = {"linear.data_in_0": 0, "linear.data_out_0": 0}
    found = []
    for ahead in ({}, frames):
        hardware = {"parameters": "external", "order": {"linear": "weights_first"}, "ahead": ahead}
        folder = tmp_path / str(len(ahead))
        holds(design := compiled(seeded(lambda: nn.Linear(16, 24)), (6, 16), folder, {"hardware": hardware}))
        modules = {e.module: e.parameters for e in design.record.instances}
        found.append((modules["replay_buffer"]["DEPTH"], modules["stream_reorder"]["BANKS"]))
    assert found == [(2 * 6 * 4, 2), (6 * 4, 1)]


@pytest.mark.parametrize(("limit", "held"), [({}, 512), ({"external_buffer": 2 * 72 * 64}, 2 * 72)])
def test_a_buffer_fills_its_block_rams(limit: dict[str, int], held: int, tmp_path: Path) -> None:
    """Two sets of 72 beats of 64 bits take two blocks of 512 x 36 bits, where seven of the eight sets find room."""
    layer = {"parallelism": {"linear": {"data_in_0": 8, "data_out_0": 1}}, "order": {"linear": "weights_first"}}
    config = {**SHARED, "hardware": {"parameters_at": {"linear.weight": "external"}, **layer, **limit}}
    design = compiled(seeded(lambda: nn.Linear(8 * 72, 8)), (2, 8 * 72), tmp_path / "bundle", config)
    holds(design, frames=3)
    (source,) = (e.parameters for e in design.record.instances if e.module == "external_source")
    assert (source["WIDTH"], source["SETS"], source["BUFFERED"]) == (64, 8, held)


class Two(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64, bias=False), nn.Linear(64, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.down(torch.relu(self.up(x))))


def test_the_slowest_layer_goes_on_while_one_behind_it_waits(tmp_path: Path) -> None:
    """Its multipliers never pause: what they give while the next layer waits for its set, a FIFO takes in."""
    found = []
    for given in ({"layers.0.down.data_in_0": 0}, {}):
        config = outside(
            SHARED,
            parallelism={
                f"layers.{block}.{name}": {"data_in_0": 8, "data_out_0": lanes}
                for block in range(3)
                for name, lanes in (("up", 4), ("down", 8))
            },
            ahead={"layers.0.down.weight": 0},
            fifo_depth=given,
            external_burst=1,
        )
        folder = tmp_path / str(len(given))
        model = seeded(lambda: Blocks(Two, 3, nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 4)))
        design = compiled(model, (16, 16), folder, config)
        holds(design, frames=3)
        found.append(design.timing["interval"])
    assert found[1] == 3 * 16 * 16 * 64 // 32 < found[0]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_convolutions_that_take_their_frame_again(shared: bool, tmp_path: Path) -> None:
    """In residual blocks, also where these share hardware: sets are tiles of every layer."""

    def made() -> nn.Module:
        return Blocks(Residual, 3, nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), nn.Conv2d(4, 2, 1))

    layers = [f"layers.{block}.{name}" for block in range(3) for name in ("first", "second")]
    config = {**SHARED, "hardware": {"parameters": "external", "max_parallelism": 2}}
    config["hardware"] |= {"order": dict.fromkeys(layers, "weights_first")} | ({"shared": ["layers"]} if shared else {})
    design = compiled(seeded(made), (1, 1, 5, 5), tmp_path / "bundle", config)
    holds(design)
    modules = [entry["module"] for entry in design.manifest["instances"]]
    assert modules.count("replay_buffer") == modules.count("stream_reorder") == (2 if shared else 6)


# ---- What lies in memory.


def test_how_a_tensor_lies_in_memory() -> None:
    """Six beats of 24 bits in words of 32: four beats fill three words; rows in blocks of two words."""
    size = {"WIDTH": 24, "DEPTH": 8, "SETS": 1, "REPEATS": 1, "BUFFERED": 0}
    (found,) = arranged([size], [1], ExternalMemory(32, 10, 6))
    assert (found["ROW"], found["BLOCK"], found["BASE"]) == (4, 2, 0)
    tensor = Tensor.of({**size, **found})
    assert (tensor.words, tensor.size, tensor.blocks) == (6, 6, 1)
    beats = [0x111111 * (n + 1) for n in range(8)]
    whole = sum(beat << 24 * n for n, beat in enumerate(beats))
    expected = [whole >> 32 * n & 0xFFFFFFFF for n in range(6)]
    words = image([tensor], ["".join(f"{beat:06x}\n" for beat in beats)], "12345678")
    assert words[:-1] == [*expected, 0x12345678]
    assert words[-1] == zlib.crc32(b"".join(word.to_bytes(4, "little") for word in words[:-1]))


@pytest.mark.parametrize("burst", [1, 4, 16])
def test_all_tensors_together_ask_for_a_word_a_cycle(burst: int) -> None:
    """Whatever their sizes: the paces add up to no more, and where sets need no rounding, to no less."""
    sizes = [(512, 64, 1), (104, 8, 1), (40, 1000, 1), (8, 37, 1), (300, 13, 1), (64, 120, 1)]
    given = [{"WIDTH": w, "DEPTH": d, "SETS": s, "REPEATS": 1, "BUFFERED": 0} for w, d, s in sizes]
    found = arranged(given, [1] * len(given), ExternalMemory(64, 40, burst))
    rate = Fraction(0)
    end = 0
    for size, each in zip(given, found, strict=True):
        tensor = Tensor.of({**size, **each})
        assert tensor.base == end and size["DEPTH"] % tensor.beats == 0
        end += tensor.size
        rate += tensor.words / (each["PACE"] + Fraction(each["EXTRA"], each["OF"]))
        # What is on its way, and what leaves, has room.
        assert each["ROOM"] * each["PACE"] > each["DELAY"]
    assert rate == 1


def waited(sources: list[dict[str, int]], latency: int, begins: list[int], cycles: int) -> tuple[int, int]:
    """Requests of a source that wait at most, and cycles from asking for a block to its last word.

    Sources ask at their paces; one request is taken in a cycle, of each source in turn, and a word comes in a cycle.
    """
    words = [Tensor.of({"SETS": 1, "REPEATS": 1, "BUFFERED": 0, **each}).words for each in sources]
    due, parts, last, free, most, longest = list(begins), [0] * len(words), -1, 0, 0, 0
    queues: list[list[int]] = [[] for _ in words]
    for now in range(cycles):
        if asking := [n for n, queue in enumerate(queues) if queue]:
            last = min((n for n in asking if n > last), default=asking[0])
            free = max(free, now + latency) + words[last]
            longest = max(longest, free - queues[last].pop(0))
        for n, each in enumerate(sources):
            if now == due[n]:
                queues[n].append(now)
                parts[n] += each["EXTRA"]
                due[n] += each["PACE"] + parts[n] // each["OF"]
                parts[n] %= each["OF"]
        most = max(most, *map(len, queues))
    return most, longest


def test_words_come_in_time_where_requests_wait() -> None:
    """Of tensors of all sizes, which all ask at once or in any phase: within the delay, but for its four registers."""
    draw, together = random.Random(0), 0
    for _ in range(60):
        count, latency = draw.choice((2, 3, 5, 8, 20)), draw.choice((1, 40))
        sizes = [(draw.choice((64, 128)), min(int(draw.paretovariate(0.6)) + 1, 300)) for _ in range(count)]
        given = [{"WIDTH": w, "DEPTH": d, "SETS": 1, "REPEATS": 1, "BUFFERED": 0} for w, d in sizes]
        found = arranged(given, [1] * count, ExternalMemory(64, latency, draw.choice((1, 1, 4))))
        sources = [{**size, **each} for size, each in zip(given, found, strict=True)]
        begins = [draw.randrange(each["PACE"]) if draw.random() < 0.5 else 0 for each in sources]
        most, longest = waited(sources, latency, begins, 1500)
        assert longest <= sources[0]["DELAY"] - 4
        assert most <= max(each["ASKS"] for each in sources)
        together = max(together, most)
    assert together > 2


# ---- From a bundle to other people's tools.


def test_a_retrained_model(tmp_path: Path) -> None:
    """Its weights are other words at the same places, and the design computes with them."""
    config = outside(CONFIG)
    design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    own = weights_of(design, seeded(Pair), EXAMPLE, CONFIG)
    assert not own.changed and not own.image
    found = weights_of(design, shrunk(seeded(Pair)), EXAMPLE, CONFIG)
    assert set(found.changed) == {"mem/fc_weight.mem", "mem/fc_bias.mem", "mem/external.mem"}
    found.write(tmp_path / "weights", design)
    raw = (tmp_path / "weights" / OUTSIDE).read_bytes()
    entry = design.manifest["external"]
    assert len(raw) == 8 * (entry["words"] + 1) and not (tmp_path / "weights/image.bin").exists()
    lines = (tmp_path / "weights/mem/external.mem").read_text().split()
    assert raw == b"".join(int(line, 16).to_bytes(8, "little") for line in lines)
    # The bundle with the other memory, against the vectors of the other model.
    shutil.copytree(design.path, tmp_path / "other")
    shutil.copy(tmp_path / "weights/mem/external.mem", tmp_path / "other/mem/external.mem")
    other = mase_hw.Design(tmp_path / "other", found.graph, verify=False)
    assert other.simulate(list(VECTORS), engine="batch", waves=False).passed
    with pytest.raises(mase_hw.errors.MismatchError):
        mase_hw.Design(tmp_path / "other", design.graph, verify=False).simulate(
            list(VECTORS), engine="batch", waves=False
        )


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "one_"])
def test_the_testbenches_of_a_bundle(prefix: str, tmp_path: Path, tiny: str) -> None:
    """Both top levels, at the model of the memory; fill and interval as promised."""
    config = outside(CONFIG)
    config["handoff"] = {**config.get("handoff", {}), "prefix": prefix}
    design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    env = dict(find_build_tools().env)
    env["MAKEFLAGS"] = env.get("MAKEFLAGS", "") + tiny
    for top in ("pair", "pair_axis"):
        name = f"{prefix}{top}_tb"
        command = ["verilator", "--binary", "--Mdir", str(tmp_path / name), "-f", f"sim/{name}.f"]
        built = subprocess.run(command, cwd=design.path, env=env, capture_output=True, text=True, check=False)
        assert built.returncode == 0 and "%Warning" not in built.stderr, built.stdout + built.stderr
        done = subprocess.run(
            [tmp_path / name / f"V{name}"], cwd=design.path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and "PASS" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("hardware", "place", "message"),
    [
        ({"parameters_at": {"fc.weight": "external"}, "fast_clock": True}, "fc.weight", "cannot come from external"),
        (
            {"parameters_at": {"fc.weight": "external"}, "implementation": {"fc": "unrolled"}},
            "fc.weight",
            "cannot come from external",
        ),
    ],
)
def test_refused(hardware: dict[str, Any], place: str, message: str, tmp_path: Path) -> None:
    config = {**CONFIG, "hardware": {**CONFIG.get("hardware", {}), **hardware}}
    with pytest.raises(UnsupportedError, match=message) as error:
        mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    assert error.value.node == place


@pytest.mark.parametrize("place", ["fc.weight", "fc.data_in_0", "fc.data_out_0"])
def test_nothing_is_held_there(place: str, tmp_path: Path) -> None:
    config = {**CONFIG, "hardware": {**CONFIG.get("hardware", {}), "ahead": {place: 0.5}}}
    with pytest.raises(mase_hw.errors.ConfigError, match="nothing that is used several times is held there"):
        mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)


def test_lanes_that_make_no_whole_tiles(tmp_path: Path) -> None:
    hardware = {"order": {"linear": "weights_first"}, "parallelism": {"linear": {"data_out_0": 3}}}
    with pytest.raises(UnsupportedError, match="cannot take the whole frame"):
        compiled(nn.Linear(16, 16), (2, 16), tmp_path / "bundle", {**SHARED, "hardware": hardware})


# ---- What a check would miss.

BROKEN = {
    "a late word is not waited for": ("assign out_valid = held_valid && there_q", "assign out_valid = there_q"),
    "a word too many": ("localparam int Words = BLOCK * RowWords;", "localparam int Words = BLOCK * RowWords + 1;"),
    "blocks come a cycle late": ("TimeW'(DELAY - 1)", "TimeW'(DELAY)"),
    "blocks are asked for too slowly": ("LeftW'(PACE) : LeftW'(PACE - 1)", "LeftW'(PACE) : LeftW'(PACE)"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_seen(fault: str, layer: mase_hw.Design, tmp_path: Path) -> None:
    """Faults of the source: in the bits, or in the cycles."""
    shutil.copytree(layer.path, tmp_path / "bundle")
    old, new = BROKEN[fault]
    rtl = tmp_path / "bundle/rtl/lib"
    (path,) = (p for p in (rtl / "external_source.sv", rtl / "external_blocks.sv") if old in p.read_text())
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    folder = tmp_path / "bundle"
    wrong = Slow(layer, folder) if "late word" in fault else mase_hw.Design(folder, layer.graph, verify=False)
    found = wrong.simulate(torch.randn(5, 64), engine="batch", waves=False, check=False, diagnose=False)
    measured = found.fill, found.interval
    assert not found.passed or measured != (layer.timing["fill"], layer.timing["interval"])
    assert re.match("late word|word too", fault) is None or not found.passed
