"""One small bundle with its model and labelled data, which all tests of the command line share."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from mase_hw import cli

MODEL = '''
import torch
from torch import nn


def build():
    """A network whose labels are its own classes, and one label in ten is wrong."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    data = [torch.randn(20, 6) for _ in range(3)]
    labels = [net(x).argmax(1) for x in data]
    for label in labels:
        label[::10] = (label[::10] + 1) % 3
    return net, data[0][:1], data, None, list(zip(data, labels))
'''


@dataclass(frozen=True)
class Place:
    """A folder with ``net.py`` and the bundle ``designs/net`` of it, which has passed a simulation."""

    folder: Path

    @property
    def model(self) -> str:
        return f"{self.folder / 'net.py'}:build"

    @property
    def bundle(self) -> Path:
        return self.folder / "designs" / "net"

    @property
    def runs(self) -> Path:
        """Of regressions, which share what they build."""
        return self.folder / "runs"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"


class Inline:
    """Runs jobs here: a process of its own loads PyTorch first."""

    width = 1

    def __init__(self, width: int) -> None:
        assert width == 1

    def open(self) -> Executor:
        return ThreadPoolExecutor(1)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("cli"))
    (made.folder / "net.py").write_text(MODEL)
    (made.folder / "designs").mkdir()
    assert cli.main(["calibrate", made.model, "--out", str(made.state)]) == cli.OK
    words = ["compile", made.model, "--calibration", str(made.state), "--out", str(made.bundle)]
    assert cli.main([*words, "--simulate", "--engine", "batch"]) == cli.OK
    return made


Child = Callable[..., tuple[int, str]]


@pytest.fixture
def interrupted(tmp_path: Path) -> Child:
    """Runs a command in a process of its own, sends it SIGINT when a file is there, and returns code and output."""

    def run(words: Sequence[str], when: Path, patience: float = 60.0) -> tuple[int, str]:
        log = tmp_path / "child.log"
        child = os.fork()
        if child == 0:  # a copy of this process, which has loaded everything already
            code = 99
            try:
                # Shells start jobs in the background with SIGINT ignored, and children inherit that.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(sink, 1)
                os.dup2(sink, 2)
                sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
                code = cli.main(list(words))
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        deadline = time.monotonic() + patience
        sent = False
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), log.read_text()
            if not sent and when.exists():
                os.kill(child, signal.SIGINT)
                sent = True
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise AssertionError(f"it did not end: {log.read_text()}")
            time.sleep(0.02)

    return run
