"""Designs and simulators that tests share: each is built once a session, also when tests run in several processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

import mase_hw
from mase_hw.host.locks import locked
from mase_hw.simulate.build import simulator
from mase_hw.simulate.build.simulator import PATIENT_RUN, SHORT_RUN, build
from mase_hw.simulate.build.tools import BuildTools, find_build_tools
from mase_hw.simulate.exercise import watched
from tests.e2e.designs import DESIGNS


@dataclass
class Workshop:
    """Compiles designs, and builds their simulators in a folder that all test processes share.

    Args:
        bundles: Folder of this process's bundles.
        shared: Folder of simulators and of Verilator's compiled runtime.
        tools: The build tools.
    """

    bundles: Path
    shared: Path
    tools: BuildTools

    def design(self, name: str) -> mase_hw.Design:
        """A design of :data:`DESIGNS`."""
        case = DESIGNS[name]
        return mase_hw.compile(
            case.model,
            case.example,
            case.config,
            out=self.bundles / name,
            calibration=[case.frames(8)],
            vectors=case.frames(3),
        )

    def work(self, design: mase_hw.Design, folder: Path, name: str) -> Path:
        """A work folder for one test, with the simulator already in it: only the folder of the run is its own."""
        with self.alone():
            dut, cache = watched(design.dut(), self.shared), self.shared / "runtime-cache"
            built = build(dut, self.shared / name, cache_dir=cache, tools=self.tools, cycles=SHORT_RUN)
        target = folder / "work" / "build"
        target.mkdir(parents=True)
        for file in (built.executable, built.folder / "stamp.json"):
            shutil.copy2(file, target)
        return folder / "work"

    def alone(self) -> AbstractContextManager[None]:
        """One build at a time: it keeps all cores busy, and the next one finds the runtime compiled."""
        return locked(self.shared / "lock", "the simulators")


@pytest.fixture(autouse=True)
def _small_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle of these designs takes a few microseconds without optimisation: more are worth it than in general."""
    monkeypatch.setattr(simulator, "SHORT_RUN", PATIENT_RUN)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    base = tmp_path_factory.getbasetemp()
    # A process of pytest-xdist has a folder below the one of the whole run.
    whole = base.parent if base.name.startswith("popen-") else base
    return Workshop(tmp_path_factory.mktemp("bundles"), whole / "e2e-simulators", find_build_tools())


@pytest.fixture(scope="session")
def designs(workshop: Workshop) -> dict[str, mase_hw.Design]:
    """Every design, compiled (which takes milliseconds)."""
    return {name: workshop.design(name) for name in DESIGNS}


@pytest.fixture
def copy(designs: dict[str, mase_hw.Design], tmp_path: Path) -> mase_hw.Design:
    """The bundle of the golden network, to be damaged: its files may differ from the manifest."""
    design = designs["golden"]
    shutil.copytree(design.path, tmp_path / "bundle")
    return mase_hw.Design(tmp_path / "bundle", design.graph, verify=False)


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """Where a bundle would go; afterwards there must be nothing at all."""
    yield tmp_path / "place" / "bundle"
    assert not list(tmp_path.iterdir()), "something was written"
