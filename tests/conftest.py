"""What every test shares."""

import gc
import itertools
import os
import random
import re
import sys
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from mase_hw.simulate.build.tools import BuildTools

# Before torch and numpy are imported: one thread a process, since the tests themselves run in several processes.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Yosys is WebAssembly and keeps its compiled form; beside the packages rather than in the home directory.
os.environ.setdefault("YOWASP_CACHE_DIR", str(Path(sys.prefix) / "cache" / "yowasp"))

# Verilator's runtime is compiled once for all tests of all processes, not once for the caches of each.
os.environ.setdefault("MASE_HW_RUNTIME", str(Path(sys.prefix) / "cache" / "mase_hw"))

# Several processes build simulators side by side already: one compiler each reads the headers of a model once.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("MASE_HW_COMPILERS", "1")

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile("mase_hw", deadline=None, derandomize=True, database=None)
settings.load_profile("mase_hw")

ROOT = Path(__file__).resolve().parent.parent
GARBAGE = 20_000
"""Objects that are made before some are looked at; the 700 of Python mean thousands of searches a minute."""
LONGEST = (
    "tests/docs/test_examples.py",
    "tests/docs/test_tutorials.py",
    "tests/handoff/test_testbench.py",
    "tests/hygiene/test_style.py",
    "tests/report/test_browser.py",
    "tests/synth/test_flow.py",
)
"""Files with tests of 8 seconds and more: one of them at the end would have a core to itself."""
NAME = 40
"""Characters of a test's name in that of its folder."""
_LONG = tomllib.loads((ROOT / "tests" / "long_runs.toml").read_text(encoding="utf-8"))
LONG_RUNS = _LONG["moved"]
"""Tests of ``make test-long``, with what proves the same in every run; without brackets, all cases of a test."""
KEPT: dict[str, list[str]] = _LONG["kept"]
"""Tests of which these cases belong to every run, and the others to ``make test-long``."""
SAMPLED: dict[str, int] = _LONG["sampled"]
"""Tests of which one of every so many cases belongs to every run, and the others to ``make test-long``."""
CI = frozenset(_LONG["ci"]["tests"])
"""Tests of ``make test-ci``, but for those that are marked for longer runs."""
CASES = pytest.StashKey[dict[str, int]]()
"""How many cases of each of them there are that nothing else makes long."""
OFTEN = pytest.StashKey[list[str]]()
"""Every test that CI runs."""
COLLECTED = pytest.StashKey[set[str]]()
"""Every test that this run found, chosen or not."""


def pytest_configure() -> None:
    """Thousands of tests are about to be made, none of which goes away again: looking for garbage takes a quarter."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is garbage, but not among the million objects of what was imported and collected.

    Code that asks ``gc.get_objects`` calls ``gc.unfreeze`` first: what is frozen is not among them.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    """Before the process ends all is garbage again; else libraries that count would say that it leaks."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remember what there is before any of it is deselected; begin with what takes longest."""
    config.stash[COLLECTED] = {item.nodeid for item in items}
    long = {name for moved in LONG_RUNS for name in moved["tests"]}
    cases: dict[str, list[pytest.Item]] = {function: [] for function in SAMPLED}
    for item in items:
        function, _, case = item.nodeid.partition("[")
        if not long.isdisjoint((item.nodeid, function)) or (function in KEPT and case[:-1] not in KEPT[function]):
            item.add_marker(pytest.mark.slow)
        elif function in SAMPLED and item.get_closest_marker("slow") is None:
            cases[function].append(item)
    config.stash[CASES] = {function: len(found) for function, found in cases.items()}
    for function, found in cases.items():
        for begin in range(0, len(found), SAMPLED[function]):
            row = found[begin : begin + SAMPLED[function]]
            # Not the first of each: where cases are products of parameters, that would always be the same value of one.
            stays = zlib.crc32(row[0].nodeid.encode()) % len(row)
            for item in (*row[:stays], *row[stays + 1 :]):
                item.add_marker(pytest.mark.slow)
    for item in items:
        if item.nodeid in CI:
            item.add_marker(pytest.mark.ci)
    config.stash[OFTEN] = [item.nodeid for item in items if item.get_closest_marker("slow") is None]
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def seed(name: str, module: object = None) -> None:
    """What is drawn without a seed depends on a name alone, not on the tests that ran before in this process.

    Args:
        name: Of a test or a fixture.
        module: Its generators (``R = np.random.default_rng(...)``) begin anew as well.
    """
    number = zlib.crc32(name.encode())
    random.seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number)
        for value in vars(module).values() if module else ():
            if isinstance(value, numpy.random.Generator):
                value.bit_generator.state = numpy.random.default_rng(number).bit_generator.state
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(number)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    """Which test is the first to need a fixture differs between runs."""
    seed(f"{request.node.nodeid}:{fixturedef.argname}[{getattr(request, 'param_index', 0)}]")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """So does what ran before it in its process."""
    seed(item.nodeid, getattr(item, "module", None))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes an empty folder for a test of a name.

    Numbered in the order of the tests: pytest's own fixture looks for the next number among all folders there are,
    which takes 3 ms once there are thousands.
    """
    base, numbers = tmp_path_factory.mktemp("tests"), itertools.count()

    def make(name: str) -> Path:
        folder = base / f"{next(numbers)}_{re.sub(r'[^a-zA-Z0-9_]', '_', name)[:NAME]}"
        folder.mkdir(mode=0o700)
        return folder

    return make


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, folders: Callable[[str], Path]) -> Path:
    """An empty folder of this test, in place of pytest's fixture of this name; it stays as that one does."""
    return folders(request.node.name)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session that all its workers use."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def tools() -> "BuildTools":
    """What builds simulators."""
    from mase_hw.simulate.build.tools import find_build_tools  # not before the variables above are set

    return find_build_tools()


@pytest.fixture(scope="session")
def clean_env() -> dict[str, str]:
    """The environment for a subprocess: that of the tests without what a surrounding make adds."""
    inherited = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKE_TERMOUT", "MAKE_TERMERR", "PYTHONPATH"}
    return {key: value for key, value in os.environ.items() if key not in inherited}
