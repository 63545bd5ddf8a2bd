"""The Python driver and the UIO layer on the Verilated model, and the C sources under other compilers."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mase_hw.system import Frame, make_system, system_options
from mase_hw.system.selftest import build_program
from tests.handoff.designs import FRAMES, VECTORS, emit

HERE = Path(__file__).parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Isoftware"]
SOURCES = ("mase_driver", "mase_selftest", "mase_vectors")


@pytest.fixture(scope="session")
def served(pair: Path, tiny: str) -> Path:
    """The system with the program that serves its model to Python."""
    build_program(pair, main=Path("software/mase_model_server.c"), name="server", make=tiny)
    return pair


@pytest.fixture
def driver(served: Path) -> Any:
    """The module, loaded from the system's folder."""
    return load(served)


def load(system: Path) -> Any:
    """The Python driver of a system."""
    spec = importlib.util.spec_from_file_location("mase_driver", system / "software/mase_driver.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(driver: Any) -> Iterator[Callable[..., Any]]:
    """Opens models, which end with the test; they give up after a short while."""
    opened = []

    def open_model(**options: Any) -> Any:
        opened.append(driver.Model(**options))
        opened[-1].patience = 20_000
        return opened[-1]

    yield open_model
    for hal in opened:
        assert hal.ask("v") == "0", "violations of AXI4"
        hal.close()


@pytest.fixture
def frames() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return VECTORS[0].view(FRAMES, 2, 5).numpy(), VECTORS[1].view(FRAMES, 1, 4).numpy()


def fails(code: str, call: Callable[..., Any], *given: Any, **named: Any) -> None:
    """The call ends with that code, whose text the C driver has as well."""
    with pytest.raises(RuntimeError, match=f"^{code}: .") as info:
        call(*given, **named)
    assert vars(info.value)["code"] == code


@pytest.mark.parametrize("interrupt", [False, True])
def test_python_driver(driver: Any, model: Callable[..., Any], frames: Any, interrupt: bool, tmp_path: Path) -> None:
    """Real numbers in and out are those of the quantised model, one frame or several; the vectors pass."""
    device = driver.Device(model(stalls=40, interrupt=interrupt))
    assert re.fullmatch(r"PASS: 5 frames, \d+ cycles for the last \(6 predicted\)", device.selftest())
    quantised: Any = emit(tmp_path / "bundle").model
    with torch.no_grad():
        results = [quantised(*map(torch.from_numpy, pair)) for pair in zip(*frames, strict=True)]
    got = device.run(*frames)
    for index, output in enumerate(got):
        assert np.array_equal(output, np.stack([result[index].numpy() for result in results]))
    # The scales are 2^-3 and 2^-4; a frame by itself, and without its sizes of 1, is one frame.
    integers = device.read(integers=True)
    assert np.array_equal(integers[0], got[0] * 8) and np.array_equal(integers[1], got[1] * 16)
    single = device.run(frames[0][2], frames[1][2, 0])
    assert all(np.array_equal(one[0], many[2]) for one, many in zip(single, got, strict=True))
    codes = (
        np.clip(np.rint(frames[0].astype(float) * 16), -64, 63),
        np.clip(np.rint(frames[1].astype(float) * 16), -64, 63),
    )
    assert all(np.array_equal(a, b) for a, b in zip(device.run(*codes, integers=True), integers, strict=True))
    counters = device.counters()
    assert counters["frames_out"] == counters["frames_in"] == 16 and counters["frames_flagged"] == 0


def test_python_faults(driver: Any, model: Callable[..., Any], frames: Any, served: Path, tmp_path: Path) -> None:
    """Each ends with its code, and the next frames are right."""
    hal = model(stalls=20, interrupt=True)
    device = driver.Device(hal)
    fails("NOT_STARTED", device.wait)
    fails("NOT_STARTED", device.read)
    fails("NO_FRAMES", device.run, frames[0][:0], frames[1][:0])
    with pytest.raises(ValueError, match=r"data_in_0: shape \(5, 5, 2\), expected \(2, 5\)"):
        device.run(frames[0].transpose(0, 2, 1), frames[1])
    with pytest.raises(ValueError, match="data_in_1: an integer does not fit into 7 bits"):
        device.run(np.zeros((1, 2, 5), int), np.full((1, 1, 4), 300), integers=True)
    with pytest.raises(ValueError, match="frames at the inputs"):
        device.run(frames[0], frames[1][:3])
    right = device.run(*frames)
    for kind, way, code in ((1, "in", "BUS_READ"), (2, "out", "BUS_WRITE")):
        hal.ask("f", kind, device._buffers[way][2][0])
        fails(code, device.run, *frames)
        hal.ask("f", 0, 0)
        assert device.selftest().startswith("PASS")
    device.start(*frames)
    fails("BUSY", device.start, *frames)
    hal.write(driver.REG["CONTROL"], 3)
    fails("OVERRUN", device.wait)
    device.start(*frames)
    hal.ask("f", 3, 0)
    fails("TIMEOUT", device.wait)
    fails("TIMEOUT", device.reset)
    hal.ask("f", 0, 0)
    device.reset()
    device.start(*frames)
    hal.write(driver.REG["CONTROL"], 6)
    fails("ABANDONED", device.wait)
    hal.ask("l", 1)
    assert all(np.array_equal(a, b) for a, b in zip(device.run(*frames), right, strict=True))
    hal.invalidate = lambda buffer: buffer[1].fill(0xA5)
    assert device.selftest().startswith("FAIL: data_out_0, frame 0, element ")
    manifest = json.loads((served / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "design": "0" * 64}))
    fails("WRONG_DESIGN", driver.Device, hal, tmp_path)


def test_overlay(driver: Any, model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls that the PYNQ layer makes, answered by the model: without one of the flushes nothing is right."""
    hal = model()

    class Buffer(np.ndarray[Any, Any]):
        handle: Any
        physical_address: int

        def flush(self) -> None:
            hal.clean(self.handle)

        def invalidate(self) -> None:
            hal.invalidate(self.handle)

    def allocate(shape: tuple[int, ...], dtype: Any) -> Any:
        data, address, handle = hal.allocate(*shape)
        assert data.dtype == dtype
        buffer = data.view(Buffer)
        buffer.physical_address, buffer.handle = address, handle
        return buffer

    class Overlay:
        def __init__(self, bitfile: str) -> None:
            assert bitfile == "system.bit"
            self.ip_dict = {"accelerator": {"phys_addr": 0x43C00000}}

    class Registers:
        read, write = staticmethod(hal.read), staticmethod(hal.write)

        def __init__(self, base: int, length: int) -> None:
            assert (base, length) == (0x43C00000, 128)

    stand_in = types.SimpleNamespace(Overlay=Overlay, MMIO=Registers, allocate=allocate)
    monkeypatch.setitem(sys.modules, "pynq", stand_in)
    device = driver.Device(driver.Overlay("system.bit"))
    assert device.selftest().startswith("PASS") and device.selftest().startswith("PASS")
    monkeypatch.setattr(Buffer, "flush", lambda self: None)
    assert device.selftest(timeout=2.0).startswith("PASS"), "the same vectors are there already"
    device._buffers.clear()
    assert device.selftest(timeout=2.0).startswith("FAIL")


class Channel:
    """A channel of PYNQ's driver of an AXI DMA: one transfer at a time, and memory is looked at when it waits."""

    error = False

    def __init__(self) -> None:
        self.buffer: Any = None
        self.data: Any = None  # of the transfer, once it is complete

    @property
    def idle(self) -> bool:
        return self.buffer is None or self.data is not None

    def transfer(self, buffer: Any) -> None:
        assert self.buffer is None, "the transfer before has not been waited for"
        self.buffer, self.data = buffer, None

    def wait(self) -> None:
        assert self.data is not None
        self.buffer[:], self.buffer = self.data, None


@torch.no_grad()
def test_streams_through_pynqs_dma(frames: Any, tmp_path: Path) -> None:
    """A transfer for each frame at every port; the accelerator behind the DMAs knows the vectors' frames alone."""
    design = emit(tmp_path / "bundle")
    manifest = make_system(design.path, tmp_path / "system", system_options(data="stream", bus=32))
    module, expected = load(tmp_path / "system"), design.model
    keys = {"width": "element_bits", "slot": "slot_bits", "signed": "signed", "size": "elements", "port": "port"}
    sides = [
        [Frame(lanes=1, row=1, bus=32, note="", **{k: entry[v] for k, v in keys.items()}) for entry in entries]
        for entries in (manifest["frames"]["in"], manifest["frames"]["out"])
    ]
    integers = [(vectors.view(FRAMES, -1) * 16).round().clamp(-64, 63) for vectors in VECTORS]
    given = [[f.pack([int(v) for v in t[i]]) for f, t in zip(sides[0], integers, strict=True)] for i in range(FRAMES)]
    channels = [[Channel() for _ in side] for side in sides]
    behind = 0  # frames by which the results are late

    def step() -> None:
        """All inputs have come, and all results can go."""
        if all(channel.buffer is not None and channel.data is None for side in channels for channel in side):
            index = given.index([channel.buffer.tobytes() for channel in channels[0]])
            results = expected(*(torch.from_numpy(array[index - behind]) for array in frames))
            for channel in channels[0]:
                channel.data = channel.buffer.copy()
            for channel, frame, result, scale in zip(channels[1], sides[1], results, (8, 16), strict=True):
                raw = frame.pack([int(value) for value in (result * scale).flatten()])
                channel.data = np.frombuffer(raw, np.uint8)

    registers = {module.REG["MAGIC"]: module.REG["MAGIC_VALUE_IS"], module.REG["VERSION"]: 1 << 16}
    digest = int(manifest["design"][:16], 16)
    registers |= {module.REG["DIGEST_LOW"]: digest & 0xFFFFFFFF, module.REG["DIGEST_HIGH"]: digest >> 32}
    times = itertools.count()
    hal = types.SimpleNamespace(
        **{"base": 0, "limit": (1 << 64) - 1, "patience": 50, "sleep": None},
        read=lambda offset: registers.get(offset, 0),
        write=registers.__setitem__,
        now=lambda: step() or next(times),
        allocate=lambda size: (data := np.zeros(size, np.uint8), 0, data),
        overlay=types.SimpleNamespace(
            **{
                f"dma{index}": types.SimpleNamespace(sendchannel=channels[0][index], recvchannel=channels[1][index])
                for index in range(2)
            }
        ),
    )
    device = module.Device(hal)
    got = device.run(*frames)
    for index in range(FRAMES):
        results = expected(*(torch.from_numpy(array[index]) for array in frames))
        assert all(np.array_equal(a[index], b.numpy()) for a, b in zip(got, results, strict=True))
    assert re.fullmatch(r"PASS: 5 frames, 0 cycles for the last \(\d+ predicted\)", device.selftest())
    behind = 1
    assert device.selftest().startswith("FAIL: data_out_0, frame 0, element ")
    behind = 0
    with pytest.raises(ValueError, match="only `run`"):
        device.start(*frames)
    hal.now = lambda: next(times)
    fails("TIMEOUT", device.run, *frames)


# What is broken in the layer over an AXI DMA: a text that occurs once, and what stands there instead.
DMA_FAULTS = {
    "nothing": ("", ""),
    "the length comes first": ("DMACR, DMACR_RUN);", "LENGTH, bytes);"),
    "an event is left": ("DMASR, DMASR_EVENTS);", "DMASR, 0);"),
    "the second frame is the first": ("dma->source += MASE_INPUT_BYTES;", ""),
    "the second result is over the first": ("dma->target += MASE_OUTPUT_BYTES;", ""),
    "a port is forgotten": (
        "for (k = 0; k < count; k++) {\n        uint32_t end",
        "k = 0;\n    {\n        uint32_t end",
    ),
    "a part begins with its record": ("address + parts[k].offset, end", "address, end"),
    "a frame is a beat short": ("end - parts[k].offset);", "end - parts[k].offset - MASE_BUS_BYTES);"),
    "an error is not looked for": ("(state & DMASR_ERRORS) != 0", "(state & 0) != 0"),
    "an error resets nothing": ("if (dma->ending) {\n            begin_reset(dma);", "if (dma->ending) {"),
    "a reset leaves the DMAs": ("dma->busy = 0;\n        begin_reset(dma);", "dma->busy = 0;"),
    "a second start is taken": ("if (dma->busy) {\n        dma->errors |= MASE_ERRORS_OVERRUN;", "if (0) {"),
}


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with two inputs and two outputs on streams."""
    folder = tmp_path_factory.mktemp("streams")
    make_system(emit(folder / "bundle").path, folder / "system", system_options(data="stream", bus=32))
    return folder / "system"


@pytest.mark.parametrize(
    "name", ["nothing", *(pytest.param(f, marks=pytest.mark.slow) for f in DMA_FAULTS if f != "nothing")]
)
def test_the_c_driver_on_an_axi_dma(streams: Path, tmp_path: Path, name: str) -> None:
    """Frames, errors and resets, without undefined behaviour; what is broken is seen."""
    layer = (streams / "software/mase_axi_dma.c").read_text(encoding="utf-8")
    old, new = DMA_FAULTS[name]
    assert not old or layer.count(old) == 1
    (tmp_path / "layer.c").write_text(layer.replace(old, new) if old else layer, encoding="utf-8")
    sources = [*(f"software/{part}.c" for part in SOURCES), str(tmp_path / "layer.c"), str(HERE / "axi_dma.c")]
    checks = [*STRICT, "-O1", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
    words = ["gcc", *(["-std=c99", "-Isoftware"] if old else checks), *sources, "-o", str(tmp_path / "driver")]
    subprocess.run(words, cwd=streams, check=True, capture_output=True)
    done = subprocess.run([str(tmp_path / "driver")], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode != 0) == bool(old), done.stdout + done.stderr


def test_uio_on_files(pair: Path, tiny: str, tmp_path: Path) -> None:
    """Buffers used again and again pass; a result that is not synchronised does not."""
    build_program(pair, main=HERE / "uio_files.c", name="uio", make=f"{tiny} MORE=mase_uio")
    (tmp_path / "uio0").write_bytes(0x4D415345.to_bytes(4, "little") + bytes(4092))
    (tmp_path / "udmabuf0").write_bytes(bytes(8192))
    values = {"phys_addr": "0x40000000", "size": "8192"}
    for name in ("sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device"):
        values[name] = "0"
    for name, value in values.items():
        (tmp_path / name).write_text(f"{value}\n")
    command = ["build/uio", str(tmp_path)]
    done = subprocess.run(command, cwd=pair, capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done
    assert lines[0] == "registers 4d415345"
    assert [line.partition(":")[0] for line in lines[1:]] == ["PASS", "PASS", "FAIL"]
    assert (tmp_path / "uio0").read_bytes()[0x34:0x38] == 0x12345678.to_bytes(4, "little")
    assert [(tmp_path / f"sync_for_{whose}").read_text() for whose in ("cpu", "device")] == ["1\n", "1\n"]


@pytest.mark.parametrize(
    "compiler",
    [
        ["gcc"],
        ["clang"],
        ["riscv64-unknown-elf-gcc", "-march=rv32im", "-mabi=ilp32"],
        ["arm-none-eabi-gcc", "-mcpu=cortex-a9"],
        ["aarch64-linux-gnu-gcc"],
    ],
    ids=lambda words: words[0],
)
def test_compilers(pair: Path, tmp_path: Path, compiler: list[str]) -> None:
    """Without a warning; a host's compiler takes the UIO layer too."""
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    hosted = compiler[0] in ("gcc", "clang")
    for part in (*SOURCES, *(["mase_uio"] if hosted else [])):
        words = [*compiler, "-O2", *STRICT, "-ffreestanding" if not hosted else "-O1"]
        subprocess.run([*words, "-c", f"software/{part}.c", "-o", str(tmp_path / "o")], cwd=pair, check=True)


def test_sanitizers(pair: Path, tmp_path: Path) -> None:
    """Every fault again, with the driver, the self-test and the program checked for undefined behaviour."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("gcc is not installed")
    checks = ["-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
    objects = []
    for path in (*(f"software/{part}.c" for part in SOURCES), str(HERE / "faults.c")):
        objects.append(str(tmp_path / f"{Path(path).stem}.o"))
        subprocess.run(["gcc", "-O1", *STRICT, *checks, "-c", path, "-o", objects[-1]], cwd=pair, check=True)
    libraries = ["build/mase_model.o", "build/model/Vsystem__ALL.a", "build/model/libverilated.a", "-pthread"]
    linked = subprocess.run(
        ["g++", *checks, *objects, *libraries, "-o", str(tmp_path / "faults")],
        cwd=pair,
        capture_output=True,
        check=False,
    )
    assert linked.returncode == 0, linked.stderr[-2000:]
    done = subprocess.run(
        [str(tmp_path / "faults")], cwd=pair, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]


def test_notice(pair: Path) -> None:
    """Every file says which of the two licences of the notice it has; memory contents are the model's."""
    texts = [path for path in pair.rglob("*") if path.suffix in (".sv", ".c", ".h", ".cpp", ".py")]
    ours = [path for path in texts if "build" not in path.parts]
    assert len(ours) > 20
    for path in ours:
        head = "".join(path.read_text().splitlines(keepends=True)[:2])
        assert "SPDX-License-Identifier: Apache-2.0" in head or "Generated by mase_hw" in head, path
