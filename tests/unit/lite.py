"""One op as a model of TensorFlow Lite, run by LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.formats import ScaledFormat
from tests.importers.tflite_files import File, Value, executed, schema

Codes = npt.NDArray[np.int8]
Place = tuple[Sequence[int], ScaledFormat]
"""Shape and format of a tensor of 8 bits."""


def reference(
    op: str, options: str, settings: dict[str, Any], data: Sequence[tuple[Codes, ScaledFormat]], result: Place,
    whole: Sequence[int] = (), version: int = 2,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """What the reference kernel of an op gives.

    Args:
        op: Name of the op in the schema.
        options: Name of its options, or an empty string.
        settings: Their fields.
        data: Codes and format of every input.
        result: Shape and format.
        whole: Integers that are a further input.
        version: Of the op.
    """
    file = File()
    inputs = [file.input(*codes.shape, scale=fmt.scale, zero=fmt.zero_point).index for codes, fmt in data]
    shape, fmt = result
    made = file.tensor(shape, [fmt.scale], [fmt.zero_point], name="result")
    chosen = getattr(schema, f"{options}T")() if options else None
    for name, value in settings.items():
        setattr(chosen, name, value)
    file.operation(op, [*inputs, *([file.numbers(whole)] if whole else [])], [made], chosen, version)
    file.output(Value(made, tuple(shape)))
    found: npt.NDArray[np.int64] = executed(file.data(), [codes[None] for codes, _ in data])["result"][0]
    return found.astype(np.int64)
