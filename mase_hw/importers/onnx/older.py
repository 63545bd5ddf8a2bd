"""Forms of operations in older versions of ONNX, in which inputs of today were attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.importers.onnx.source import Node

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
INPUTS: dict[str, tuple[int, tuple[str, ...]]] = {
    **{f"Reduce{name}": (18, ("axes",)) for name in _REDUCTIONS},
    "ReduceSum": (13, ("axes",)),
    "Squeeze": (13, ("axes",)),
    "Unsqueeze": (13, ("axes",)),
    "Split": (13, ("split",)),
    "Dropout": (12, ("ratio",)),
    "Clip": (11, ("min", "max")),
    "Pad": (11, ("pads", "value")),
    "Slice": (10, ("starts", "ends", "axes")),
    "TopK": (10, ("k",)),
    "Upsample": (9, ("scales",)),
}
"""Operation -> the version since which these attributes are inputs, behind the first one."""


def modern(node: Node, opset: int) -> tuple[Node, dict[str, Tensor]]:
    """A node with inputs in the place of such attributes, and what these inputs are, by name."""
    since, names = INPUTS.get(node.operation, (0, ()))
    if node.domain or opset >= since:
        return node, {}
    given: dict[str, Any] = dict(node.attributes)
    if node.operation == "Upsample" and "scales" not in given:  # version 1
        given["scales"] = [1.0, 1.0, given.pop("height_scale", 1.0), given.pop("width_scale", 1.0)]
    found = {name: _tensor(given.pop(name), name) for name in names if isinstance(given.get(name), int | float | list)}
    inputs = [*node.inputs, *(f"{node.outputs[0]}:{name}" if name in found else "" for name in names)]
    stored = {f"{node.outputs[0]}:{name}": value for name, value in found.items()}
    return dataclasses.replace(node, inputs=inputs, attributes=given), stored


def _tensor(value: float | Sequence[float], name: str) -> Tensor:
    values = value if isinstance(value, list) else [value]
    made = torch.tensor(values, dtype=torch.float32 if name in ("scales", "value") else None)
    return made if isinstance(value, list) or name == "k" else made[0]
