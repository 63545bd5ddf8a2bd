"""A search whose workers and whose own process are killed, again and again: it ends as one that was left alone."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mase_hw import cli
from tests.cli.conftest import MODEL

pytest.importorskip("optuna")
ROOT = Path(__file__).resolve().parents[2]
TRIALS = 110
PATIENCE = 900
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
WORDS = ["--method", "trials", "--vary", "widths", "--against", "bit_operations", "--trials", str(TRIALS)]


def records(folder: Path) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Every trial of a journal, in the order in which they were written."""
    found = []
    for line in (folder / "trials.journal").read_text().splitlines():
        attributes = json.loads(line).get("user_attrs", {})
        if "trial" in attributes:
            outcome = {**attributes["outcome"], "seconds": None}
            found.append((attributes["trial"]["number"], attributes["trial"], outcome))
    return found


def done(folder: Path) -> int:
    journal = folder / "trials.journal"
    return journal.read_bytes().count(b'"params"') if journal.is_file() else 0


class Cluster:
    """A scheduler and workers, as separate programs."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.workers = [self._worker() for _ in range(workers)]

    def _start(self, kind: str, *more: str) -> subprocess.Popen[bytes]:
        words = [kind, "--scheduler-file", str(self.file), "--no-dashboard", *more]
        command = [sys.executable, "-m", "dask", *words]
        return subprocess.Popen(command, cwd=self.folder, env=ENV, stderr=subprocess.DEVNULL)

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder / "dask"))

    def kill_one(self, draw: random.Random) -> None:
        """Another one takes its place."""
        victim = self.workers.pop(draw.randrange(len(self.workers)))
        victim.kill()
        victim.wait()
        self.workers.append(self._worker())

    def close(self) -> None:
        for child in (*self.workers, self.scheduler):
            child.kill()
            child.wait()


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster | None]:
    if request.param == "processes":
        yield None
        return
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("needs the extra cluster")
    made = Cluster(tmp_path, 3)
    try:
        yield made
    finally:
        made.close()


def kill_child(driver: subprocess.Popen[bytes], draw: random.Random) -> None:
    """One of the processes that make trials."""
    listed = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    workers = [int(p) for p in listed if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()]
    if workers:
        os.kill(draw.choice(workers), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["processes", "dask"], indirect=True)
def test_killed_and_restarted(cluster: Cluster | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At random times; every trial is there, once, with the seed, digest and outcome of an undisturbed search."""
    (tmp_path / "net.py").write_text(MODEL)
    model, draw = f"{tmp_path / 'net.py'}:build", random.Random(7)
    folder, alone = tmp_path / "killed", tmp_path / "alone"
    assert cli.main(["search", model, *WORDS, "--out", str(tmp_path / "a.toml"), "--storage", str(alone)]) == cli.OK
    words = [model, *WORDS, "--out", str(tmp_path / "k.toml"), "--storage", str(folder)]
    words += ["--jobs", "2"] if cluster is None else ["--dask", str(cluster.file)]
    events = sorted(draw.sample(range(1, TRIALS - 10), 4))
    deadline, starts, kills = time.monotonic() + PATIENCE, 0, 0
    code: int | None = -signal.SIGKILL
    while code == -signal.SIGKILL:
        starts += 1
        driver = subprocess.Popen([sys.executable, "-m", "mase_hw.cli", "search", *words], env=ENV)
        while (code := driver.poll()) is None:
            assert time.monotonic() < deadline, "it took too long"
            if events and done(folder) >= events[0]:
                events.pop(0)
                kills += 1
                if len(events) % 2 == 0:
                    driver.kill()
                elif cluster is None:
                    kill_child(driver, draw)
                else:
                    cluster.kill_one(draw)
            time.sleep(0.02)
    said = capfd.readouterr()
    assert code == 0 and kills == 4 and starts == 3, said.err
    found, expected = records(folder), records(alone)
    assert [number for number, *_ in expected] == list(range(TRIALS))
    assert sorted(found, key=lambda each: each[0]) == expected
    assert (tmp_path / "k.toml").read_bytes() == (tmp_path / "a.toml").read_bytes()
