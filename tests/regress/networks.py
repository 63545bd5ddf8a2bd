"""Models for the tests of the regression runner: one that behaves, one that kills its worker once, one that always."""

import os
import signal
from pathlib import Path

import torch
from torch import Tensor, nn


def good() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.rand(1, 4) * 2 - 1


def deadly() -> tuple[nn.Module, Tensor]:
    """Kills the process that loads it, while the file named by REGRESS_DEADLY exists; ``once`` in it removes it."""
    trap = Path(os.environ["REGRESS_DEADLY"])
    if trap.is_file():
        if trap.read_text() == "once":
            trap.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return good()


def broken() -> tuple[nn.Module, Tensor]:
    raise RuntimeError("this model cannot be made \x00 <at all>")
