"""Matrices in a temporary folder; the compiled runtime of Verilator is shared by all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mase_hw.host.pools import Pool
from mase_hw.regress.regress import RegressOptions, Report, regress

NETWORKS = Path(__file__).with_name("networks.py")
Runner = Callable[..., Report]


def network(name: str, function: str, **keys: str) -> str:
    """An entry of a matrix."""
    lines = ["[[network]]", f'name = "{name}"', f'model = "{NETWORKS}:{function}"', "frames = 4"]
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in keys.items())]) + "\n"


RELU = '[[op]]\nop = "relu"\ncase = "serial"\n'


def write(folder: Path, *entries: str) -> Path:
    """A matrix file."""
    path = folder / "matrix.toml"
    path.write_text('name = "small"\n' + "\n".join(entries))
    return path


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


def out_folder(folder: Path, runtime: Path) -> Path:
    """A folder for a regression whose runtime library is that of the session."""
    out = folder / "out"
    (out / "builds").mkdir(parents=True, exist_ok=True)
    link = out / "builds" / "runtime-cache"
    if not link.exists():
        os.symlink(runtime, link)
    return out


class Here:
    """One thread of this process: starting another one, which loads torch, takes longer than the jobs of most tests."""

    width = 1

    def open(self) -> Executor:
        return ThreadPoolExecutor(self.width)


@pytest.fixture
def runner(tmp_path: Path, runtime: Path) -> Runner:
    """Run entries in this test's folder, one after the other in this process unless told otherwise."""

    def run(*entries: str, pool: Pool | None = None, tell: Any = None, **options: Any) -> Report:
        out, chosen = out_folder(tmp_path, runtime), RegressOptions(**options)
        return regress(write(tmp_path, *entries), out, options=chosen, pool=pool or Here(), tell=tell)

    return run
