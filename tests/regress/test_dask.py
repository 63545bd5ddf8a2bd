"""The same matrix on a Dask cluster, one worker of which is killed in the middle."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mase_hw.errors import ToolError
from mase_hw.host.pools import dask_pool
from tests.regress.conftest import RELU, Runner

pytestmark = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs the extra cluster")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Path, set[int]]]:
    """A scheduler and two workers, as separate programs; yields the scheduler file and the workers' processes."""
    scheduler_file = tmp_path / "scheduler.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__ADMIN__LOG_LENGTH": "100"}
    common = ["--scheduler-file", str(scheduler_file), "--no-dashboard"]
    worker = ["worker", *common, "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path / "dask")]
    commands = [["scheduler", *common, "--host", "127.0.0.1", "--port", "0"], worker, worker]
    children = []
    try:
        for command in commands:
            children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "dask", *command], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL
                )
            )
        deadline = time.monotonic() + 60
        while not scheduler_file.is_file():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.1)
        distributed = importlib.import_module("distributed")  # here, since importing it takes seconds
        with distributed.Client(scheduler_file=str(scheduler_file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield scheduler_file, {child.pid for child in children[1:]}
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.slow
def test_a_worker_is_killed(runner: Runner, cluster: tuple[Path, set[int]], tmp_path: Path) -> None:
    scheduler_file, pids = cluster
    victim = min(pids)
    finished: set[str] = set()

    def heard(line: str) -> None:
        # There are jobs for both workers left, so each is in the middle of one; it is held while we look.
        if line.startswith("[1/"):
            os.kill(victim, signal.SIGSTOP)
            finished.update(json.loads(p.read_text())["job"] for p in (tmp_path / "out" / "runs").glob("*/result.json"))
            os.kill(victim, signal.SIGKILL)

    entries = [RELU + "seeds = [0, 1, 2, 3, 4, 5]\n", '[[op]]\nop = "linear"\ncase = "uneven_fold"\n']
    with dask_pool(str(scheduler_file)) as pool:
        report = runner(*entries, pool=pool, tell=heard)
    assert report.passed, [r["message"] for r in report.failures]
    assert len(report.results) == 7 == len({r["job"] for r in report.results})
    after = {r["pid"] for r in report.results if r["job"] not in finished}
    assert 1 <= len(finished) <= 5 and after == pids - {victim}, "the other one took over"


def test_no_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("{", "{}", "[]"):
        (tmp_path / "s.json").write_text(text)
        with pytest.raises(ToolError, match="does not answer"), dask_pool(str(tmp_path / "s.json")):
            pass
    with pytest.raises(ToolError, match="does not answer"), dask_pool("tcp://127.0.0.1:1", timeout=0.5):
        pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ToolError, match=r"(?s)Dask is not installed.*mase-hw\[cluster\]"), dask_pool("tcp://x:1"):
        pass
