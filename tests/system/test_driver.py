"""The C driver and its self-test on the Verilated model of the whole system of the digits MLP."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyslang
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.cli import main
from mase_hw.errors import ConfigError, EmitError
from mase_hw.host.lint import lint
from mase_hw.simulate.build.tools import find_build_tools, lint_bundle
from mase_hw.synth.tools import run_yosys
from mase_hw.system import Frame, SystemOptions, make_system, run_selftest
from mase_hw.system.selftest import build_program
from tests.handoff.conftest import tiny as tiny
from tests.passes.digits import digits
from tests.unit.pipeline import rule

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.c")
FRAMES = 6


class Long(nn.Module):
    """A ReLU of a long vector."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(x)


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    """The digits MLP as in the example, with test images as vectors."""
    trained = digits()
    images = trained.train[0]
    return mase_hw.compile(
        trained.net,
        images[:1],
        ROOT / "examples" / "digits_mlp.toml",
        out=tmp_path_factory.mktemp("system") / "bundle",
        calibration=list(images.split(256)),
        vectors=(trained.test[0][:FRAMES],),
    )


@pytest.fixture(scope="session")
def system(bundle: mase_hw.Design, tiny: str) -> Path:
    """Its system, compiled with the program that provokes faults."""
    folder = bundle.path.parent / "system"
    make_system(bundle.path, folder)
    build_program(folder, main=FAULTS, name="faults", make=tiny)
    return folder


@pytest.fixture
def copy(system: Path, tmp_path: Path) -> Callable[[str, str, str], Path]:
    """A copy of the system with a text of its software replaced; the hardware is compiled already."""

    def copied(file: str, old: str, new: str) -> Path:
        folder = tmp_path / "copy"
        shutil.copytree(system, folder)
        path = folder / "software" / file
        text, count = re.subn(old, new, path.read_text(encoding="utf-8"), count=1)
        assert count == 1
        path.write_text(text, encoding="utf-8")
        return folder

    return copied


@pytest.mark.parametrize(("stalls", "interrupt"), [(0, False), (60, True)])
def test_selftest_passes(bundle: mase_hw.Design, system: Path, stalls: int, interrupt: bool) -> None:
    """Every bit, and the cycles of a frame as the manifest predicts them, however the memory stalls."""
    interval = bundle.manifest["timing"]["interval"]
    result = run_selftest(system, stalls=stalls, interrupt=interrupt)
    assert result.text == f"PASS: {FRAMES} frames, {interval} cycles for the last ({interval} predicted)"
    assert result.passed


@pytest.mark.parametrize("name", ["system", "pair", "clocked"])
def test_every_fault_has_its_code(name: str, request: pytest.FixtureRequest) -> None:
    """Also: the memory of the model has seen no violation of AXI4 in all of that."""
    folder: Path = request.getfixturevalue(name)
    done = subprocess.run(["build/faults"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all faults have their codes"), done.stdout[-3000:]


@pytest.mark.parametrize(
    "register", ["MAGIC", "DIGEST_LOW", "CONTROL", "STATUS", "INTERRUPT_STATUS", "SOURCE_LOW", "TARGET_LOW", "FRAMES"]
)
def test_a_flipped_offset_is_seen(copy: Callable[[str, str, str], Path], register: str) -> None:
    """Four bits of each offset could be flipped; the one that leads to the next register."""
    other = copy("mase_registers.h", rf"#define MASE_{register} 0x(\w+)u", rf"#define MASE_{register} (0x\1u ^ 4u)")
    # A driver that does not find the end of its job would wait as long as the self-test allows.
    path = other / "software/mase_model_main.c"
    path.write_text(path.read_text().replace("1000000000u", "20000u"))
    result = run_selftest(other)
    assert not result.passed and not result.text.startswith("PASS")


def test_the_first_element_that_differs(copy: Callable[[str, str, str], Path], bundle: mase_hw.Design) -> None:
    """Names frame, element and both values; what it expects is a vector with one bit flipped."""
    words = (bundle.path / "vectors/data_out_0.mem").read_text().split()
    lanes = [int(word, 16) >> (16 * lane) & 0xFFFF for word in words[:5] for lane in (0, 1)]
    value = struct.unpack("<h", struct.pack("<H", lanes[3]))[0]
    first = r"(mase_vectors_out\[MASE_VECTORS\]\[MASE_OUTPUT_BYTES\] = \{\s*\{(?:\d+, ){6})(\d+)"
    result = run_selftest(copy("mase_vectors.c", first, r"\g<1>(\g<2> ^ 1)"))
    assert result.text == f"FAIL: frame 0, element 3: got {value}, expected {value ^ 1}"


def test_the_same_bytes(bundle: mase_hw.Design, system: Path, tmp_path: Path) -> None:
    manifest = make_system(bundle.path, tmp_path / "again")
    for name in manifest["files"]:
        assert (tmp_path / "again" / name).read_bytes() == (system / name).read_bytes(), name
    assert (tmp_path / "again" / "manifest.json").read_bytes() == (system / "manifest.json").read_bytes()
    assert manifest["design"] == bundle.manifest["digest"]
    digest = (system / "software/mase_design.h").read_text()
    assert f"0x{manifest['design'][:8]}u" in digest and f"0x{manifest['design'][8:16]}u" in digest


def test_two_inputs_and_two_outputs(pair: Path) -> None:
    """A channel for every port, every bit as the model has it; a record has the ports one behind the other."""
    result = run_selftest(pair, stalls=50)
    assert result.passed and result.text.startswith("PASS: 5 frames"), result.text
    frames = json.loads((pair / "manifest.json").read_text())["frames"]
    assert [(f["port"], f["offset"], f["bytes"]) for f in frames["in"]] == [("data_in_0", 0, 12), ("data_in_1", 12, 4)]
    assert [(f["port"], f["offset"], f["bytes"]) for f in frames["out"]] == [("data_out_0", 0, 8), ("data_out_1", 8, 4)]


def test_a_clock_for_the_core(clocked: Path) -> None:
    """Its cycles are those of the manifest, although the bus counts others, and the period drifts."""
    interval = json.loads((clocked / "manifest.json").read_text())["interval"]
    result = run_selftest(clocked)
    assert result.text == f"PASS: 5 frames, {interval} cycles for the last ({interval} predicted)"
    assert run_selftest(clocked, stalls=50, interrupt=True).passed
    assert {path.name for path in (clocked / "constraints").iterdir()} == {"clocks.xdc", "clocks.sdc"}


def test_the_top_level_is_clean(
    system: Path, pair: Path, clocked: Path, tmp_path: Path, bundle: mase_hw.Design
) -> None:
    """For Verible and for Verilator with every warning, with frames in memory and on streams, one port and two."""
    tools = find_build_tools()
    make_system(bundle.path, tmp_path / "stream", SystemOptions(data="stream", bus=32, elements="packed"))
    make_system(pair.parent / "bundle", tmp_path / "streams", SystemOptions(data="stream", core_clock=True))
    for folder in (system, pair, clocked, tmp_path / "stream", tmp_path / "streams"):
        top = (folder / "rtl/top.f").read_text().strip()
        assert not lint([folder / f"rtl/{top}.sv"])
        assert lint_bundle(folder, top, tools) == lint_bundle(folder, top, tools, "-DSYNTHESIS") == ""


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
def test_other_tools_take_the_whole_system(system: Path, clocked: Path, tmp_path: Path) -> None:
    """Without an error of slang, and, as the plain Verilog that Yosys writes, without a warning of Icarus."""
    for folder in (system, clocked):
        top, files = (folder / "rtl/top.f").read_text().strip(), (folder / "rtl/files.f").read_text().split()
        texts = {file: (folder / file).read_text(encoding="utf-8") for file in files}
        assert slang_errors(texts, top) == []
        path = f"rtl/{top}.sv"
        assert slang_errors({**texts, path: texts[path].replace(".clk", ".clock", 1)}, top)
        work = shutil.copytree(folder, tmp_path / folder.parent.name)
        read = f"read_slang -j 1 --ignore-assertions --top {top} {' '.join(files)}"
        run_yosys([read, "proc", "write_verilog -noattr plain.v"], work, "y.log", lambda _: None)
        command = ["iverilog", "-g2012", "-Wall", "-s", top, "-o", str(work / "top.vvp"), str(work / "plain.v")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stdout + done.stderr


def slang_errors(texts: dict[str, str], top: str) -> list[str]:
    """Files and codes of what slang refuses."""
    options = pyslang.ast.CompilationOptions()
    options.topModules = {top}
    bag, manager = pyslang.Bag([options]), pyslang.SourceManager()
    compilation = pyslang.ast.Compilation(bag)
    for path, text in texts.items():
        compilation.addSyntaxTree(pyslang.syntax.SyntaxTree.fromText(text, manager, path, path, bag))
    found = compilation.getAllDiagnostics()
    return [f"{manager.getFileName(each.location)}: {each.code}" for each in found if each.isError()]


def test_frames() -> None:
    """Little endian, aligned as C has it or without gaps, zeros at the end."""
    common = {"port": "p", "signed": True, "lanes": 2, "row": 5, "size": 5, "bus": 64, "note": ""}
    aligned, packed = (Frame(width=12, slot=slot, **common) for slot in (16, 12))
    values = [-2048, 2047, -1, 5, 1]
    assert aligned.pack(values) == struct.pack("<5h", *values).ljust(16, b"\0")
    bits = "".join(f"{value & 0xFFF:012b}" for value in reversed(values))
    assert packed.pack(values) == int(bits, 2).to_bytes(8, "little")
    assert aligned.unpack(aligned.pack(values)) == packed.unpack(packed.pack(values)) == values


def test_refused(tmp_path: Path, bundle: mase_hw.Design, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EmitError, match="not a bundle"):
        make_system(tmp_path, tmp_path / "system")
    with pytest.raises(EmitError, match="lies in a bundle"):
        make_system(bundle.path, bundle.path / "system")
    assert not (tmp_path / "system").exists()
    with pytest.raises(ConfigError, match="no self-test"):
        run_selftest(tmp_path)
    assert main(["system", str(bundle.path), "--out", str(tmp_path / "system"), "--burst", "257"]) == 2
    assert "--burst" in capsys.readouterr().err


def test_command(tmp_path: Path, bundle: mase_hw.Design, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "system"
    assert main(["system", str(bundle.path), "--out", str(out), "--data", "stream", "--bus", "32", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["system"] == json.loads((out / "manifest.json").read_text())
    with pytest.raises(ConfigError, match="data = 'stream'"):
        run_selftest(out)


@pytest.mark.slow
@pytest.mark.parametrize("bus", [32, 64, 128])
@pytest.mark.parametrize("elements", ["aligned", "packed"])
def test_every_width(tmp_path: Path, bundle: mase_hw.Design, tiny: str, bus: int, elements: str) -> None:
    options = SystemOptions.model_validate({"bus": bus, "elements": elements, "burst": 5, "address_bits": 40})
    make_system(bundle.path, tmp_path / "system", options)
    build_program(tmp_path / "system", make=tiny)
    assert run_selftest(tmp_path / "system", stalls=30).passed


@pytest.mark.slow
def test_long_frames_keep_the_bus_busy(tmp_path: Path, tiny: str) -> None:
    """A beat of the bus per cycle in each direction: the interval is met within 2 %."""
    frame = torch.linspace(-4, 4, 16384).repeat(4, 1)
    config = {
        "quantize": {"default": rule(data_in_width=8, data_in_frac_width=4, data_out_width=8, data_out_frac_width=4)},
        "hardware": {"parallelism": {"relu": {"data_in_0": 8}}},
    }
    design = mase_hw.compile(Long().eval(), frame[:1], config, out=tmp_path / "bundle", vectors=(frame,))
    interval = design.manifest["timing"]["interval"]
    assert interval == 2048
    make_system(design.path, tmp_path / "system")
    build_program(tmp_path / "system", make=tiny)
    result = run_selftest(tmp_path / "system")
    assert result.passed
    cycles = int(re.findall(r"(\d+) cycles", result.text)[0])
    assert interval <= cycles <= 1.02 * interval, result.text
