"""Attention and Transformer layers that are the whole model, and shapes of attention that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import MaseHwError

TOKENS, WIDTH = 6, 8
SETTINGS = {"hardware": {"max_parallelism": 2}, "vectors": {"frames": 1, "faults": 4}}


def modules(design: mase_hw.Design) -> list[str]:
    return [instance["module"] for instance in design.manifest["instances"]]


def test_an_encoder_layer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True).eval()
    frames = torch.randn(5, TOKENS, WIDTH)
    alone, inside = (
        mase_hw.compile(net, frames[:1], SETTINGS, out=tmp_path / name, calibration=[frames])
        for name, net in (("alone", layer), ("inside", nn.Sequential(layer)))
    )
    assert modules(alone) == modules(inside)
    assert alone.timing == {**inside.timing, "bottleneck": alone.timing["bottleneck"]}  # named after the layer
    simulation = alone.simulate(frames, engine="batch")
    assert simulation.passed and simulation.frames == 5 and simulation.interval == alone.timing["interval"]
    noise = (next(iter(simulation.outputs.values())) - layer(frames)).square().mean()
    assert noise < 0.01 * layer(frames).square().mean()


@pytest.mark.parametrize(
    "layer, inputs, results",
    [
        (nn.MultiheadAttention(WIDTH, 2, batch_first=True), 3, 2),
        (nn.TransformerDecoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True), 2, 1),
    ],
    ids=["attention", "decoder"],
)
def test_layers_of_several_inputs(layer: nn.Module, inputs: int, results: int, tmp_path: Path) -> None:
    """An attention gives the weights as well."""
    example = tuple(torch.randn(1, TOKENS, WIDTH) for _ in range(inputs))
    design = mase_hw.compile(layer.eval(), example, SETTINGS, out=tmp_path / "design")
    directions = [port["direction"] for port in design.manifest["ports"]]
    assert (directions.count("in"), directions.count("out")) == (inputs, results)
    assert "stream_reorder" not in modules(design)


def test_a_changed_part_of_the_model_is_seen(tmp_path: Path) -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True).eval()
    layer.linear1.forward = lambda x: nn.functional.linear(x, layer.linear1.weight)  # type: ignore[method-assign]
    with pytest.raises(MaseHwError, match="linear1"):
        mase_hw.compile(layer, torch.randn(1, TOKENS, WIDTH), SETTINGS, out=tmp_path / "design")
    assert not (tmp_path / "design").exists()


class Heads(nn.Module):
    """Five heads of a width of eight."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.view(x.shape[0], x.shape[1], 5, x.shape[2] // 5).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(y, y, y)


class Groups(nn.Module):
    """Four heads of queries for three of keys."""

    def forward(self, x: Tensor) -> Tensor:
        q = x.unflatten(-1, (4, 2)).transpose(1, 2)
        k = x[..., :6].unflatten(-1, (3, 2)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)


@pytest.mark.parametrize(
    "net, words", [(Heads(), ["'view'", "[1, 6, 8]"]), (Groups(), ["scaled_dot_product_attention", "[1, 3, 6, 2]"])]
)
def test_heads_that_do_not_divide(net: nn.Module, words: list[str], tmp_path: Path) -> None:
    """The node is named, with the shapes it got."""
    with pytest.raises(MaseHwError) as refused:
        mase_hw.compile(net, torch.randn(1, TOKENS, WIDTH), SETTINGS, out=tmp_path / "design")
    assert all(word in str(refused.value) for word in words)
    assert not (tmp_path / "design").exists()


def test_another_length(tmp_path: Path) -> None:
    """A design has the length of its example; a program for any length is refused before anything is written."""
    layer: Any = nn.Sequential(nn.Linear(WIDTH, WIDTH)).eval()
    example = torch.randn(1, TOKENS, WIDTH)
    program = torch.export.export(layer, (example,), dynamic_shapes=({1: torch.export.Dim("length", max=16)},))
    with pytest.raises(MaseHwError, match=r"dynamic|length"):
        mase_hw.compile(program, example, SETTINGS, out=tmp_path / "program")
    assert not (tmp_path / "program").exists()
    design = mase_hw.compile(layer, example, SETTINGS, out=tmp_path / "design")
    with pytest.raises(MaseHwError, match="shape of the example") as refused:
        design.simulate(torch.randn(2, TOKENS + 1, WIDTH), engine="batch")
    assert "[2, 7, 8]" in str(refused.value)
