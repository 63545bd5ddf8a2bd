"""What every function that makes hardware of a model takes besides the model, its example and its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from mase_hw.ir.custom.spec import CustomOps

Tell = Callable[[str], object]


class Besides(TypedDict, total=False):
    """Keyword arguments that several functions share.

    Args:
        calibration: Batches from which value ranges are observed; the example if None.
        custom_ops: A user's own ops, as for :func:`mase_hw.compile`.
        progress: Told what is being done.
    """

    calibration: Iterable[Any] | None
    custom_ops: CustomOps | None
    progress: Tell | None


def unpacked(
    calibration: Iterable[Any] | None = None, custom_ops: CustomOps | None = None, progress: Tell | None = None
) -> tuple[Iterable[Any] | None, CustomOps | None, Tell]:
    """The three of them, or what stands for them; any other name is an error of the call."""
    return calibration, custom_ops, progress or (lambda _: None)
