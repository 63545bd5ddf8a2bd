"""How many threads PyTorch computes with while a model is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from mase_hw.compiler.stages import CALIBRATE, EQUALIZATION, ROUNDING
from mase_hw.passes.pipeline import Step

OVER_DATA = (EQUALIZATION, CALIBRATE, ROUNDING)
"""Steps whose work grows with the calibration data; the others run the model on a few frames."""


@contextmanager
def torch_threads(*, data: bool) -> Iterator[Callable[[Step], None]]:
    """Let PyTorch compute with one thread, but for steps over calibration data; afterwards it is as before.

    A compilation runs thousands of small operations with Python between them. The threads that share one of them spin
    until the next: with two, MobileNetV2 at 224x224 took a third more time of the processor, and was compiled no
    earlier.

    Args:
        data: Whether there are batches to calibrate with.

    Yields:
        What sets the number of threads of a step, called before it.
    """
    given = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield lambda step: torch.set_num_threads(given if data and step.name in OVER_DATA else 1)
    finally:
        torch.set_num_threads(given)
