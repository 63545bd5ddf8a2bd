"""The digits networks of the examples, trained briefly, as calibrated float graphs; made once a process."""

from __future__ import annotations

import functools
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    calibrate_analysis_pass,
    fold_batch_norm_transform_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from tests.conftest import ROOT
from tests.unit.pipeline import RANGES, WIDTHS, rule


@dataclass(frozen=True)
class Digits:
    """A trained model with the data it is calibrated, searched and tested on."""

    net: nn.Module
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @property
    def data(self) -> list[tuple[Tensor, Tensor]]:
        """The training set as pairs of batches, as an evaluation takes it."""
        return list(zip(self.train[0].split(512), self.train[1].split(512), strict=True))

    def graph(self) -> MaseGraph:
        """A fresh calibrated float graph."""
        graph, _ = init_metadata_analysis_pass(MaseGraph(self.net))
        graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"image": self.test[0][:1]}})
        graph, _ = calibrate_analysis_pass(graph, {"data": self.train[0].split(512), **RANGES})
        return graph

    def between(self, low: int, high: int) -> float:
        """Accuracy on the training set halfway between those with everything at two widths."""
        found = []
        for width in (low, high):
            config = {"default": rule(**dict.fromkeys(WIDTHS, width))}
            found.append(accuracy(quantize_transform_pass(self.graph(), config)[0].model, *self.train))
        return sum(found) / 2


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of images whose highest score is the label, counted one by one."""
    with torch.no_grad():
        scores = model(images).tolist()
    hits = [max(range(10), key=lambda i, row=row: row[i]) == label for row, label in zip(scores, labels, strict=True)]
    return sum(hits) / len(hits)


def train(model: nn.Module, images: Tensor, labels: Tensor, rate: float) -> None:
    """Two epochs."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(2):
        for batch in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimiser.step()


def example_module(name: str) -> Any:
    """A module of the examples."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # its dataclass looks for its module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _made(data: Any, net: nn.Module) -> Digits:
    return Digits(net, (data.train_images, data.train_labels), (data.test_images, data.test_labels))


@functools.cache
def digits(seed: int = 0) -> Digits:
    """The trained model; a second of training. Seed 0 is the example's own start."""
    example = example_module("digits_mlp")
    data = example.load()
    return _made(data, example.train(data, epochs=15, **_start(seed)))


def _start(seed: int) -> dict[str, int]:
    return {"seed": seed} if seed else {}


@functools.cache
def digits_vit(epochs: int = 30, layers: int = 2) -> Digits:
    """The transformer; some seconds of training. 30 epochs of two layers are the example's own."""
    example, vit = example_module("digits_mlp"), example_module("digits_vit")
    data = example.load()
    with mock.patch.object(vit, "LAYERS", layers):
        return _made(data, example.train(data, vit.DigitsViT, epochs=epochs))


@functools.cache
def digits_cnn(seed: int = 0, epochs: int = 8) -> Digits:
    """The convolutional one with its batch norms folded; some seconds of training."""
    example = example_module("digits_mlp")
    data = example.load()
    net = example.train(data, example_module("digits_cnn").DigitsCNN, epochs=epochs, **_start(seed))
    graph, _ = init_metadata_analysis_pass(MaseGraph(net))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"image": data.test_images[:1]}})
    graph, _ = fold_batch_norm_transform_pass(graph)
    return _made(data, graph.model)
