"""Parameters through the registers of a system, by the drivers in C and in Python, on the Verilated model."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from mase_hw.errors import ConfigError
from mase_hw.system import SystemOptions, make_system
from mase_hw.system.selftest import build_program
from tests.handoff.designs import CONFIG, EXAMPLE, VECTORS, Pair
from tests.parameters.designs import in_ram, loaded
from tests.unit.pipeline import seeded

MAIN = Path(__file__).with_name("driver.c")


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
    main = system / "software" / "driver.c"
    main.write_text(f"#define BANKS {banks}\n{MAIN.read_text()}")
    program = build_program(system, main=main.relative_to(system), name="driver", make=tiny)
    done = subprocess.run([program], cwd=system, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stdout + done.stderr

    build_program(system, main=Path("software/mase_model_server.c"), name="server", make=tiny)
    spec = importlib.util.spec_from_file_location("mase_driver", system / "software" / "mase_driver.py")
    assert spec is not None and spec.loader is not None
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
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


def test_a_clock_of_its_own_is_refused(tmp_path: Path) -> None:
    design, _ = loaded(seeded(Pair), EXAMPLE, in_ram(CONFIG), tmp_path / "bundle", vectors=VECTORS)
    with pytest.raises(ConfigError, match="cannot load parameters"):
        make_system(design.path, tmp_path / "system", SystemOptions(core_clock=True))
