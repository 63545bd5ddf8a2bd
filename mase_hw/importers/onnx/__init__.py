"""Models of ONNX, in float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import fx

from mase_hw.importers.graph import Writer
from mase_hw.importers.onnx.convert import convert
from mase_hw.importers.onnx.source import parse, read, up_to


def load(
    model: Any, shapes: Mapping[str, tuple[int, ...]] | None, outputs: Sequence[str] | None, host: bool
) -> tuple[fx.GraphModule, Writer]:
    """The graph of a file, of its bytes, or of a ``ModelProto``; with outputs, of what is computed up to these.

    Where values are rounded decides what is for the ``host``: :mod:`mase_hw.importers.settle` finds it.
    """
    if isinstance(model, Path):
        source = read(model, shapes)
    else:
        data = model if isinstance(model, bytes) else model.SerializeToString()
        source = parse(data, "model", None, shapes)
    return convert(source if outputs is None else up_to(source, outputs))
