"""Architectures that other people wrote, narrow and of few layers: RTL equal to the quantised model in every bit."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.e2e.architectures import HUGGING_FACE
from tests.e2e.architectures_timm import TIMM, build
from tests.ir.huggingface_models import TOKENS, hf, needed
from tests.unit.pipeline import OWN_FRAMES

pytestmark = pytest.mark.slow

FRAMES, LENGTH, LANES = 3, 6, 4


def lively(model: nn.Module, frames: Tensor | None = None) -> nn.Module:
    """The model with other parameters: those of a beginning of training, zeros and small ones, hide what is before.

    Args:
        model: An architecture.
        frames: What batch norms have their statistics of, if they are to have any.
    """
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.normal_(std=value[0].numel() ** -0.5)
            else:
                value.uniform_(0.5, 1.5)
        if frames is not None:
            for layer in model.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.momentum = 1.0
            model.train()(frames)
    return model.eval()


def first(result: Any) -> Tensor:
    """The first tensor of what a model returns."""
    while not isinstance(result, Tensor):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    return result


def assert_equal(model: nn.Module, batch: Tensor, path: Path, together: bool = True, settled: bool = False) -> None:
    """Every bit of some frames, in the predicted interval."""
    parts = batch.split(len(batch) if together else 1)
    settings = {**OWN_FRAMES, "hardware": {"max_parallelism": LANES}}
    model = lively(model, torch.randn(16, *batch.shape[1:]) if settled else None)
    design = mase_hw.compile(model, batch[:1], settings, out=path, calibration=parts)
    result = design.simulate(batch, engine="batch")
    assert result.passed and result.frames == FRAMES and result.result.mismatches == 0
    assert result.interval == design.timing["interval"]
    with torch.no_grad():
        wanted = torch.cat([first(design.model(part)) for part in parts])
    found = result.outputs["data_out_0"] if hasattr(result, "outputs") else result.output
    assert torch.equal(found, wanted) and (wanted[0] != wanted[1]).any(), "frames that differ tell something"


@needed
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_a_model_of_hugging_face(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    configuration, model, shape, arguments = HUGGING_FACE[name]
    config = getattr(hf, configuration)(**arguments)
    config._attn_implementation = "eager"
    batch = torch.randn(FRAMES, *shape) if shape else torch.randint(2, TOKENS, (FRAMES, LENGTH))
    home, _, cls = model.rpartition(".")
    place = importlib.import_module(f"transformers.models.{home}") if home else hf
    assert_equal(getattr(place, cls)(config), batch, tmp_path / "d")


@pytest.mark.parametrize("name", TIMM)
def test_a_model_of_timm(name: str, tmp_path: Path) -> None:
    # torchvision beside a PyTorch for CPUs alone lacks two operators that it registers implementations for.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    pytest.importorskip("timm")
    torch.manual_seed(0)
    small = TIMM[name]
    batch = torch.randn(FRAMES, 3, small.pixels, small.pixels)
    assert_equal(build(name), batch, tmp_path / "d", small.together, small.settled)
