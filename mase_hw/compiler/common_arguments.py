"""Keyword arguments that all functions share which make hardware of a model, beside its example and configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack

from mase_hw.errors import refuse_unknown
from mase_hw.ir.custom.spec import CustomOps

Tell = Callable[[str], object]


class CommonArguments(TypedDict, total=False):
    """Keyword arguments that several functions share.

    Args:
        calibration: Batches from which value ranges are observed; the example if None.
        custom_ops: A user's own ops, as for :func:`mase_hw.compile`.
        progress: Told what is being done.
    """

    calibration: Iterable[Any] | None
    custom_ops: CustomOps | None
    progress: Tell | None


def unpacked(**common: Unpack[CommonArguments]) -> tuple[Iterable[Any] | None, CustomOps | None, Tell]:
    """The three of them, or what stands for them.

    Raises:
        ConfigError: If there is another one.
    """
    for name in common:
        refuse_unknown(name, CommonArguments.__annotations__, "there is no such argument", field=name)
    return common.get("calibration"), common.get("custom_ops"), common.get("progress") or (lambda _: None)
