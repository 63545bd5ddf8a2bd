"""What every test shares."""

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch and numpy are imported: one thread a process, since the tests themselves run in several processes.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Yosys is WebAssembly and keeps its compiled form; beside the packages rather than in the home directory.
os.environ.setdefault("YOWASP_CACHE_DIR", str(Path(sys.prefix) / "cache" / "yowasp"))

# Verilator's runtime is compiled once for all tests of all processes, not once for the caches of each.
os.environ.setdefault("MASE_HW_RUNTIME", str(Path(sys.prefix) / "cache" / "mase_hw"))

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile("mase_hw", deadline=None, derandomize=True, database=None)
settings.load_profile("mase_hw")

ROOT = Path(__file__).resolve().parent.parent
COLLECTED = pytest.StashKey[set[str]]()
"""Every test that this run found, chosen or not."""


def pytest_configure() -> None:
    """Thousands of tests are about to be made, none of which goes away again: looking for garbage takes a quarter."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is garbage. Nothing is frozen: what is frozen is not among ``gc.get_objects``."""
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remember what there is before any of it is deselected."""
    config.stash[COLLECTED] = {item.nodeid for item in items}


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session that all its workers use."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def clean_env() -> dict[str, str]:
    """The environment for a subprocess: that of the tests without what a surrounding make adds."""
    inherited = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKE_TERMOUT", "MAKE_TERMERR", "PYTHONPATH"}
    return {key: value for key, value in os.environ.items() if key not in inherited}
