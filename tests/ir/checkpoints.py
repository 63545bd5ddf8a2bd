"""Shared by the tests of checkpoints: a quantised graph, and a forger who knows how to make the sums right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.checkpoint.document import Document
from mase_hw.passes import calibrate_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass

EIGHT = {"data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}


class Small(nn.Module):
    """Layers, a function with a parameter of the model, a method, dropout in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Dropout(0.25))
        self.weight = nn.Parameter(torch.randn(5, 8))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        x = self.inner(x.flatten(start_dim=1))
        return F.relu(F.linear(x, self.weight))


def batch(seed: int = 0) -> Tensor:
    return torch.randn(3, 3, 4, generator=torch.Generator().manual_seed(seed))


def graph(**args: Any) -> MaseGraph:
    torch.manual_seed(0)
    return MaseGraph(Small().eval(), add_metadata_args={"dummy_in": {"x": batch()}, **args})


def quantised() -> MaseGraph:
    made = graph()
    made, _ = calibrate_analysis_pass(made, {"data": [batch(1), batch(2)]})
    made, _ = quantize_transform_pass(made, {"default": {"config": {"name": "fixed", **EIGHT}}})
    return made


def forge(stem: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the document, and make its sum right again."""
    file = stem.with_name(f"{stem.name}.mz")
    header, _, body = file.read_text().partition("\n")
    document = json.loads(body)
    edit(document)
    text = json.dumps(document)
    old = header.split("sha256=")[1].split()[0]
    file.write_text(header.replace(old, hashlib.sha256(text.encode()).hexdigest()) + "\n" + text)


def document_of(stem: Path) -> Document:
    text = stem.with_name(f"{stem.name}.mz").read_text().partition("\n")[2]
    return Document.model_validate(json.loads(text))


def files_of(stem: Path) -> tuple[bytes, bytes]:
    mz, pt = (stem.with_name(f"{stem.name}.{ending}").read_bytes() for ending in ("mz", "pt"))
    return mz, pt
