"""The driver, unchanged, on a RISC-V in a LiteX SoC around the system of the digits MLP."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.host.toolchain import find
from mase_hw.system import make_system
from mase_hw.system.board import MHZ, make_bitstream, place
from mase_hw.system.soc import build_soc, run_soc, write_soc
from tests.parameters.designs import in_ram, loaded
from tests.passes.digits import digits
from tests.system.test_driver import FRAMES, ROOT
from tests.system.test_driver import bundle as bundle

MISSING = [tool for tool in map(find, ("litex", "riscv-gcc")) if tool.problem]
pytestmark = pytest.mark.skipif(bool(MISSING), reason="; ".join(f"{one.problem}: {one.remedy}" for one in MISSING))
DRIVER = ("mase_driver", "mase_metal", "mase_litex")
CODE_BYTES = 8192


@pytest.fixture(scope="module")
def gateware(bundle: mase_hw.Design, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SoC."""
    system = tmp_path_factory.mktemp("soc") / "system"
    make_system(bundle.path, system)
    return write_soc(system)


@pytest.fixture(scope="module")
def simulator(gateware: Path) -> Path:
    """Compiled: most of the time of these tests."""
    return build_soc(gateware)


def test_a_risc_v_runs_the_selftest(bundle: mase_hw.Design, gateware: Path, simulator: Path) -> None:
    """Every bit, twice in the same buffers, and the cycles of a frame as the manifest predicts them."""
    interval = bundle.manifest["timing"]["interval"]
    result = run_soc(simulator, gateware)
    assert result.text.splitlines()[0] == (
        f"PASS: {FRAMES} frames, {interval} cycles for the last ({interval} predicted)"
    )
    assert result.passed


@pytest.mark.parametrize("calls", [r"hal->clean\(.*\);", r"hal->invalidate\(.*\);"], ids=["clean", "invalidate"])
def test_a_forgotten_cache_is_seen(calls: str, gateware: Path, simulator: Path, tmp_path: Path) -> None:
    """The same hardware, but the driver does not write caches back, or does not drop their lines."""
    other = tmp_path / "system"
    shutil.copytree(gateware.parents[2], other, ignore=shutil.ignore_patterns("build"))
    driver = other / "software/mase_driver.c"
    text, count = re.subn(calls, ";", driver.read_text(encoding="utf-8"))
    assert count
    driver.write_text(text, encoding="utf-8")
    result = run_soc(simulator, write_soc(other))
    assert not result.passed and result.text.startswith("FAIL: frame 0, element 0: got ")


def test_the_driver_is_small(gateware: Path) -> None:
    """Code and constants of the driver with the hardware layer of LiteX, for RV32."""
    objects = [str(gateware.parent / "program" / f"{name}.o") for name in DRIVER]
    command = [str(find("riscv-gcc").path).removesuffix("gcc") + "size", *objects]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sizes = [int(line.split()[0]) for line in done.stdout.splitlines()[1:]]
    assert 1000 < sum(sizes) < CODE_BYTES


def test_what_the_first_router_does_not_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for nextpnr, without an end but with the second router."""
    program = tmp_path / "program"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *router2*) echo \'{"fmax": {"c": {"achieved": 51}}, "utilization": {"X": '
        '{"used": 1, "available": 2}}}\' > ulx3s_5.timing.json;; *--seed*) while :; do :; done;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr("mase_hw.synth.tools.find_programs", lambda name: {name: program})
    monkeypatch.setattr("mase_hw.system.board.ROUTER_S", 1)
    said: list[str] = []
    assert place(tmp_path, [5], said.append)["mhz"] == {"5": 51.0}
    assert any("second router" in line for line in said)


@pytest.mark.slow
def test_a_bitstream(gateware: Path) -> None:
    """For the board: its clock is met, and everything fits."""
    found = make_bitstream(gateware.parents[2], [1], print)
    assert found["mhz"]["1"] >= MHZ
    assert all(cells["used"] <= cells["available"] for cells in found["use"].values())
    assert Path(found["bitstream"]).stat().st_size > 100_000
    assert found["load"].endswith(found["bitstream"])


@pytest.mark.slow
@pytest.mark.parametrize("place", ["ram", "external"])
def test_the_driver_loads_the_parameters(place: str, tmp_path: Path) -> None:
    """Those of a retrained model, whose results differ; in memory they come as fast as the SDRAM brings them."""
    trained = digits()
    images = trained.train[0]
    config = in_ram(load_config(ROOT / "examples" / "digits_mlp.toml").model_dump(exclude_unset=True), parameters=place)
    design, sets = loaded(
        trained.net,
        images[:1],
        config,
        tmp_path / "bundle",
        calibration=list(images.split(256)),
        vectors=(trained.test[0][:FRAMES],),
    )
    sets[1].write(tmp_path / "weights", design)
    make_system(design.path, tmp_path / "system", weights=tmp_path / "weights")
    gateware = write_soc(tmp_path / "system")
    result = run_soc(build_soc(gateware), gateware)
    assert result.passed, result.text
    found = re.match(r"PASS: 6 frames, (\d+) cycles for the last \((\d+) predicted\)", result.text)
    assert found is not None
    cycles, predicted = map(int, found.groups())
    # Half a word per cycle, of which refreshes, new rows and the frames themselves take a part: 2,275 of 830 cycles.
    assert cycles == predicted if place == "ram" else 2 * predicted < cycles < 3 * predicted, result.text
