"""Devices whose parameters are loaded, or come from memories outside: every bit, in the cycles that were predicted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.devices import DevicesDesign, DevicesWeights, compile_devices, load_devices, make_devices_weights
from mase_hw.errors import ConfigError, EmitError, MismatchError
from mase_hw.hardware.beats import encode
from mase_hw.hardware.external import image_words
from mase_hw.ir import MaseGraph
from mase_hw.simulate.build.tools import find_build_tools, run_tool
from mase_hw.simulate.plan import Reset
from tests.parameters.designs import shrunk
from tests.parameters.test_external import Slow

from .test_devices import exact

CUTS = {"second": 1, "third": 2}
OUTSIDE = {"first.weight": "external", "second.weight": "external", "third.weight": "external"}
PLACES = {**OUTSIDE, "second.bias": "ram", "third.bias": "ram", "third.weight": "ram"}


class Net(nn.Module):
    """Three layers, one for each device."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.third(self.second(self.first(x).relu()).relu())
        return result


EXAMPLE = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))


def network() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


def made(out: Path, places: dict[str, str], **hardware: Any) -> DevicesDesign:
    hardware = {"device": CUTS, "parameters_at": places, "max_parallelism": 4, **hardware}
    config = {"hardware": hardware, "links": {"bits": 8, "latency": 3}, "vectors": {"frames": 4}}
    return compile_devices(network(), EXAMPLE[:1], config, out=out, calibration=[EXAMPLE])


def copied(design: DevicesDesign, out: Path) -> DevicesDesign:
    """Another folder with the same bundles, to be spoilt."""
    shutil.copytree(design.path, out, ignore=shutil.ignore_patterns("*.work"))
    return load_devices(out)


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> DevicesDesign:
    """Two devices with memories of their own, and two that load parameters."""
    return made(tmp_path_factory.mktemp("parameters") / "made", PLACES)


def test_every_bit_and_cycle(design: DevicesDesign) -> None:
    """The memory of the second device decides the rate; a reset in the middle reads ahead again."""
    exact(design, torch.randn(9, 8))
    assert design.timing["interval"] == 32 and design.report().endswith("what limits it: device 1")
    assert design.simulate(engine="batch", reset_at=(Reset(40), Reset(1, "out"))).passed
    devices = design.whole.record.devices.values()
    assert [each.external is not None for each in devices] == [True, True, False]
    assert [each.image is not None for each in devices] == [False, True, True]
    for number, each in design.designs.items():
        if (external := each.record.external) is not None:
            assert external.file == f"mem/external_{number}.mem"
            words = (design.whole.path / external.file).read_text().split()
            assert len(words) == image_words(external.bits, external.words)


def test_each_by_itself(design: DevicesDesign) -> None:
    for each in design.designs.values():
        found = each.simulate(engine="batch")
        assert found.passed and found.fill == each.timing["fill"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cocotb", "fast"])
def test_every_engine(design: DevicesDesign, engine: str) -> None:
    found = design.simulate(torch.randn(9, 8), engine=engine)
    assert (found.fill, found.interval) == (design.timing["fill"], design.timing["interval"])


def test_slow_memories(design: DevicesDesign) -> None:
    """Words and requests wait in two of five cycles: the bits are the same, and only the cycles are more."""
    slow = Slow(design.whole)
    found = slow.simulate(torch.randn(9, 8), engine="batch", diagnose=False)
    assert found.passed and found.interval is not None and found.interval > 1.5 * design.timing["interval"]
    assert slow.simulate(engine="batch", stalls=0.3, diagnose=False).passed


@pytest.mark.parametrize("file", ["external_0", "external_1", "second_bias", "third_weight"])
def test_a_word_that_is_wrong(design: DevicesDesign, tmp_path: Path, file: str) -> None:
    """Of every memory, each of which one device reads."""
    copy = copied(design, tmp_path / "copy")
    folder = copy.whole.path / "mem"
    first, rest = (folder / f"{file}.mem").read_text().split("\n", 1)
    wrong = int(first, 16) ^ int("4" * len(first), 16) % (1 << 4 * len(first) - 1)
    (folder / f"{file}.mem").write_text(f"{wrong:0{len(first)}x}\n{rest}")
    with pytest.raises(EmitError, match="changed after emission"):
        copy.simulate(engine="batch", waves=False)
    copy.whole.verify = False
    with pytest.raises(MismatchError):
        copy.simulate(engine="batch", waves=False)


@pytest.mark.slow
def test_the_devices_wait_for_their_memories(tmp_path: Path) -> None:
    """Else the first frame would come before the second device holds what was predicted."""
    design = made(tmp_path / "made", {"second.weight": "external"})
    exact(design, torch.randn(9, 8))
    top = design.whole.path / f"rtl/{design.whole.record.top}.sv"
    (external,) = design.whole.record.outside
    text = top.read_text()
    assert text.count(f"held_q == 32'd{external.primed}") == 1
    top.write_text(text.replace(f"held_q == 32'd{external.primed}", "held_q == 32'd1"))
    design.whole.verify = False
    found = design.simulate(torch.randn(9, 8), engine="batch", waves=False, check=False)
    assert found.fill is not None and found.fill > design.timing["fill"]


@pytest.mark.slow
def test_loading(design: DevicesDesign, tmp_path: Path) -> None:
    """A retrained model is loaded into two devices, in one simulation of all: the results are its own."""
    other = shrunk(network(), kinds=(nn.Linear,))
    with torch.no_grad():  # what is outside, or in ROM, stays
        for name in ("first.weight", "first.bias", "second.weight"):
            other.get_parameter(name).copy_(network().get_parameter(name))
    found = make_devices_weights(design, quantised(other))
    assert {n: bool(each.image) for n, each in found.devices.items()} == {0: False, 1: True, 2: True}
    assert found.devices[1].changed == ("mem/second_bias.mem",)
    before, after = design.whole.vectors()[1], found.vectors
    assert any(not np.array_equal(before[name], after[name].reshape(before[name].shape)) for name in before)
    assert loads(design, found, tmp_path) == "PASS"
    with torch.no_grad():
        other.get_parameter("first.bias").mul_(0.5)
    with pytest.raises(ConfigError, match="a parameter differs that is not loaded"):
        make_devices_weights(design, quantised(other))


def quantised(model: nn.Module) -> MaseGraph:
    settings = load_config({"hardware": {"max_parallelism": 4}})
    return quantised_graph(model, torch.randn(1, 8), settings, [EXAMPLE], None, lambda _: None)


def loads(design: DevicesDesign, found: DevicesWeights, folder: Path) -> str:
    """Build the bench of the whole, and run it; what it said last."""
    streams, given = design.whole.streams, found.vectors
    into, out = (next(s for s in streams.values() if s.direction == way) for way in ("in", "out"))
    before = dict(
        zip(
            (into.name, out.name),
            (design.whole.vectors()[0][into.name], design.whole.vectors()[1][out.name]),
            strict=True,
        )
    )
    for name, stream, tensor in (
        ("in", into, given[into.name]),
        ("out.0", out, before[out.name]),
        ("out.1", out, given[out.name]),
    ):
        (folder / f"{name}.bin").write_bytes(encode(stream, stream.pack(tensor)))
    for number in (1, 2):
        (folder / f"image.{number}.bin").write_bytes(found.devices[number].image)
    sizes = {"IN_BYTES": (into.bits + 7) // 8, "OUT_BYTES": (out.bits + 7) // 8}
    (folder / "ports.h").write_text("".join(f"#define {name} {size}\n" for name, size in sizes.items()))
    tools, record = find_build_tools(), design.whole.record
    command = [
        *(*tools.verilate, "--cc", "--exe", "--build", "-j", "1", "--assert", "--x-initial", "unique"),
        *("-CFLAGS", f"-I{folder} -O0", "--prefix", "Vdut", "--top-module", record.top, "-GMEMORY_MODEL=1"),
        *("--Mdir", str(folder / "build"), "-o", "bench"),
        *(str(design.whole.path / file) for file in record.rtl),
        str(Path(__file__).with_name("loads.cpp")),
    ]
    done = run_tool(command, tools.env, folder)
    assert done.returncode == 0, done.stdout
    done = run_tool([str(folder / "build/bench"), str(folder), "+verilator+rand+reset+2"], tools.env, design.whole.path)
    return done.stdout.splitlines()[-1]
