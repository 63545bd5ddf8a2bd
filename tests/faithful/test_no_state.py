"""What a model may keep although it computes: nothing of it shows in what the next call gives."""

from __future__ import annotations

import encodings
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.faithful.layers import Base
from tests.unit.pipeline import inputs

X = inputs(1, 6)


class Table(Base):
    """Computed at the first call, and kept: the same ever after."""

    def start(self) -> None:
        self.table: dict[str, Tensor] = {}

    def step(self, x: Any) -> None:
        self.table.setdefault("ones", torch.ones(3))


class Last(Base):
    """Keeps its last input for a debugger to look at."""

    def step(self, x: Any) -> None:
        if isinstance(x, Tensor):
            self.last = x


class Trains(Base):
    """Counts in training alone."""

    n = 0

    def step(self, x: Any) -> None:
        self.n += int(self.training)


class Around(Base):
    """Python's and PyTorch's own modules, in a closure or a class, remember much, and nothing is the model's."""

    holds = encodings

    def start(self) -> None:
        import linecache

        self.used = lambda x: (encodings, linecache, nn, x)[3]

    def step(self, x: Any) -> None:
        self.used(b"".decode(f"iso8859_{random.randint(1, 9)}"))


class Merges(Base):
    """As adapters do: weights are merged in evaluation mode, and taken apart again."""

    merged = False

    def train(self, mode: bool = True) -> Any:
        if mode == self.merged:
            self.fc.weight.data.add_(-1.0 if mode else 1.0)
            self.merged = not mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if self.merged else nn.functional.linear(x, self.fc.weight + 1, self.fc.bias)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [Base, Table, Last, Trains, Around, Merges])
def test_what_is_no_state(kind: type[Base], training: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = kind().train(training)
    before = model.fc.weight.clone()
    assert mase_hw.compile(model, X, out=tmp_path / "b").path.is_dir()
    assert torch.equal(model.fc.weight, before) and model.training is training
