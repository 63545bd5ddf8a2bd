"""The layer to which the tests of state add what changes."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Base(nn.Module):
    """A layer, and what a test adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.start()

    def start(self) -> None:
        """What is there at first."""

    def forward(self, x: Tensor) -> Tensor:
        self.step(x)
        return self.fc(x)

    def step(self, x: Any) -> None:
        """What happens at every call."""
