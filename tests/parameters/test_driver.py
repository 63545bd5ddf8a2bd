"""Parameters through the registers of a system, by the drivers in C and in Python, on the Verilated model."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.system import SystemOptions, make_system
from mase_hw.system.selftest import build_program, run_selftest
from tests.handoff.designs import CONFIG, EXAMPLE, VECTORS, Pair
from tests.parameters.designs import in_ram, loaded
from tests.unit.pipeline import seeded

HERE = Path(__file__).parent


def run_c(system: Path, source: str, head: str, tiny: str) -> None:
    """Compile a program with the driver and the model, and run it."""
    main = system / "software" / source
    main.write_text(f"{head}{(HERE / source).read_text()}")
    shutil.copy(HERE / "checks.h", main.parent)
    program = build_program(system, main=main.relative_to(system), name=main.stem, make=tiny)
    done = subprocess.run([program], cwd=system, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stdout + done.stderr


def python_driver(system: Path, tiny: str) -> Any:
    """The driver of a system, and the model that it talks to."""
    build_program(system, main=Path("software/mase_model_server.c"), name="server", make=tiny)
    spec = importlib.util.spec_from_file_location("mase_driver", system / "software" / "mase_driver.py")
    assert spec is not None and spec.loader is not None
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    return driver


def as_c(name: str, raw: bytes) -> str:
    """Bytes as an array."""
    return f"static const uint8_t {name}[] = {{{', '.join(map(str, raw))}}};\n"


@pytest.mark.parametrize("banks", [1, 2])
def test_both_drivers(banks: int, tmp_path: Path, tiny: str) -> None:
    config = in_ram(CONFIG, parameter_banks=banks)
    design, sets = loaded(seeded(Pair), EXAMPLE, config, tmp_path / "bundle", vectors=VECTORS)
    system = tmp_path / "system"
    make_system(design.path, system, SystemOptions(bus=32, burst=2, outstanding=2))
    folders = [tmp_path / name for name in ("own", "other")]
    for folder, each in zip(folders, sets, strict=True):
        each.write(folder, design)
        header = (folder / "mase_weights.h").read_text()
        (system / "software" / f"{folder.name}.h").write_text(header)
    run_c(system, "driver.c", f"#define BANKS {banks}\n", tiny)
    driver = python_driver(system, tiny)
    hal = driver.Model(stalls=20)
    hal.patience = 20_000
    try:
        device = driver.Device(hal)
        for folder, each in zip(folders, sets, strict=True):
            assert device.selftest(weights=folder).startswith("PASS: 5 frames")
            assert device.recall() == each.image
        assert device.selftest().startswith("FAIL: data_out_0"), "the vectors of the other parameters"
        with pytest.raises(driver.MaseError, match="BAD_IMAGE"):
            device.store(sets[0].image[:-4])
        changed = bytearray(sets[0].image)
        changed[12] ^= 1
        with pytest.raises(driver.MaseError, match="BAD_IMAGE"):
            device.store(bytes(changed))
        if banks == 1:
            with pytest.raises(driver.MaseError, match="NOT_STORED"):
                device.selftest()
        device.store(sets[0].image)
        assert device.selftest().startswith("PASS")
        assert hal.ask("v") == "0", "violations of AXI4"
    finally:
        hal.close()


def test_parameters_in_memory(tmp_path: Path, tiny: str) -> None:
    """Two inputs, whose frames share the bus with the parameters; the last image is used in the middle of a job."""
    config = in_ram(CONFIG, parameters="external", external_bytes=4, external_latency=1)
    design, sets = loaded(seeded(Pair), EXAMPLE, config, tmp_path / "bundle", vectors=VECTORS)
    system = tmp_path / "system"
    make_system(design.path, system, SystemOptions(bus=32, burst=2, outstanding=2))
    images = as_c("own", sets[0].outside) + as_c("other", sets[1].outside)
    (system / "software" / "images.h").write_text(images)
    run_c(system, "memory.c", "", tiny)
    folders = [tmp_path / name for name in ("own", "other")]
    for folder, each in zip(folders, sets, strict=True):
        each.write(folder, design)
    driver = python_driver(system, tiny)
    hal = driver.Model(stalls=20)
    hal.patience = 100_000
    try:
        device = driver.Device(hal)
        own = [sets[0].vectors[port.name] for port in device._inputs]
        with pytest.raises(driver.MaseError, match="NOT_STORED"):
            device.run(*own, integers=True)
        for folder in folders:
            assert device.selftest(weights=folder).startswith("PASS: 5 frames")
        assert device.selftest().startswith("PASS: 5 frames"), "the bundle's own"
        changed = bytearray(sets[1].outside)
        changed[-1] ^= 1
        with pytest.raises(driver.MaseError, match="BAD_IMAGE"):
            device.use(bytes(changed))
        given = [np.concatenate([values] * 8) for values in own]
        device.counters(clear=True)
        device.start(*given, integers=True)
        while device.counters()["frames_out"] < 3:
            pass
        device.use(sets[1].outside)
        device.wait()
        results = device.read(integers=True)
        name = device._outputs[0].name
        of = [np.concatenate([each.vectors[name]] * 8) for each in sets]
        equal = [np.array([np.array_equal(a, b) for a, b in zip(results[0], one, strict=True)]) for one in of]
        first = int(np.argmin(equal[0]))
        assert 0 < first < 40 and equal[0][:first].all() and equal[1][first:].all(), "frames of one set, then the other"
        assert hal.ask("v") == "0", "violations of AXI4"
    finally:
        hal.close()


def test_the_selftest_of_a_retrained_model(tmp_path: Path, tiny: str) -> None:
    """Its image and its results, of parameters on the chip and of others in memory."""
    config = in_ram(CONFIG, parameters="external", parameters_at={"fc.bias": "ram"})
    design, sets = loaded(seeded(Pair), EXAMPLE, config, tmp_path / "bundle", vectors=VECTORS)
    assert design.record.image is not None and design.record.external is not None
    for name, each in zip(("own", "other"), sets, strict=True):
        each.write(tmp_path / name, design)
    system = tmp_path / "system"
    make_system(design.path, system, weights=tmp_path / "other")
    build_program(system, make=tiny)
    found = run_selftest(system, stalls=20)
    assert found.passed, found.text
    # Results of one set with the parameters of another one differ.
    text = (system / "software/mase_vectors.c").read_text()
    make_system(design.path, system, weights=tmp_path / "own")
    own = (system / "software/mase_vectors.c").read_text()
    start = [each.index("const uint32_t mase_image") for each in (text, own)]
    (system / "software/mase_vectors.c").write_text(text[: start[0]] + own[start[1] :])
    assert run_selftest(system).text.startswith("FAIL: frame 0")
    with pytest.raises(ConfigError, match="no weights of this bundle"):
        make_system(design.path, system, weights=design.path)


@pytest.mark.parametrize(
    ("place", "options", "message"),
    [
        ("ram", {"core_clock": True}, "cannot load parameters"),
        ("external", {"core_clock": True}, "cannot load parameters"),
        ("external", {"data": "stream"}, "come on streams"),
        ("external", {"bus": 32}, "not as wide as a word"),
    ],
)
def test_refused(place: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = in_ram(CONFIG, parameters=place)
    design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    with pytest.raises(ConfigError, match=message):
        make_system(design.path, tmp_path / "system", SystemOptions(**options))
