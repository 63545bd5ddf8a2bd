"""Models of TensorFlow Lite that are quantised to int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import fx

from mase_hw.importers.graph import Writer
from mase_hw.importers.tflite.convert import convert
from mase_hw.importers.tflite.source import parse, read, up_to


def load(
    model: Any, shapes: Mapping[str, tuple[int, ...]] | None, outputs: Sequence[str] | None, host: bool
) -> tuple[fx.GraphModule, Writer]:
    """The graph of a file, or of its bytes; with outputs, of what is computed up to these tensors.

    With ``host``, operations that hardware does not have are nodes for the host.
    """
    source = read(model, shapes) if isinstance(model, Path) else parse(model, "model", shapes)
    return convert(source if outputs is None else up_to(source, outputs), host)
