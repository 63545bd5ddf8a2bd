"""What the coverage says of a layer is so: each one that counts gets hardware, and each that gets it is counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.catalogue import default_catalogue
from mase_hw.cli.coverage import ANALYSIS, HARDWARE, LOWERED, MISSING, rows
from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.ir import MaseGraph
from mase_hw.passes import add_hardware_metadata_analysis_pass
from scripts.reference_coverage import TRACED
from tests.unit.pipeline import annotated

FEATURES: dict[str, tuple[Any, ...]] = {
    **{name: () for name in ("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity",
                             "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU",
                             "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Dropout",
                             "AlphaDropout", "GLU", "Flatten")},
    "Threshold": (0.5, 0.25), "Linear": (8, 3), "BatchNorm1d": (8,), "Unflatten": (1, (2, 4)), "LayerNorm": (8,),
    "RMSNorm": (8,), "Softmax": (1,), "Softmin": (1,), "LogSoftmax": (1,),
}  # fmt: skip
SEQUENCES: dict[str, tuple[Any, ...]] = {
    "Conv1d": (4, 3, 3), "ConvTranspose1d": (4, 3, 2, 2), "MaxPool1d": (2,), "AvgPool1d": (2,), "LPPool1d": (2, 2),
    "AdaptiveAvgPool1d": (3,), "AdaptiveMaxPool1d": (3,), "ConstantPad1d": (1, 0.0), "ZeroPad1d": (1,),
    "ReflectionPad1d": (1,), "ReplicationPad1d": (1,), "CircularPad1d": (1,), "Dropout1d": (),
    "FeatureAlphaDropout": (), "InstanceNorm1d": (4,),
    **{name: (6, 3) for name in ("LSTM", "GRU", "RNN")},
}  # fmt: skip
CELLS: dict[str, tuple[Any, ...]] = {name: (4, 3) for name in ("LSTMCell", "GRUCell", "RNNCell")}
IMAGES: dict[str, tuple[Any, ...]] = {
    "Conv2d": (4, 3, 3), "ConvTranspose2d": (4, 3, 2, 2), "MaxPool2d": (2,), "AvgPool2d": (2,), "LPPool2d": (2, 2),
    "AdaptiveAvgPool2d": (1,), "AdaptiveMaxPool2d": (1,), "ConstantPad2d": (1, 0.0), "ZeroPad2d": (1,),
    "ReflectionPad2d": (1,), "ReplicationPad2d": (1,), "CircularPad2d": (1,), "Dropout2d": (), "BatchNorm2d": (4,),
    "SyncBatchNorm": (4,), "Upsample": (None, 2, "bilinear"), "UpsamplingNearest2d": (None, 2),
    "UpsamplingBilinear2d": (None, 2), "PixelShuffle": (2,), "PixelUnshuffle": (2,), "ChannelShuffle": (2,),
    "LocalResponseNorm": (3,), "CrossMapLRN2d": (3,), "Unfold": (2,), "Softmax2d": (), "GroupNorm": (2, 4),
    "InstanceNorm2d": (4,),
}  # fmt: skip
VOLUMES: dict[str, tuple[Any, ...]] = {
    "Conv3d": (2, 3, 2), "ConvTranspose3d": (2, 3, 2, 2), "MaxPool3d": (2,), "AvgPool3d": (2,), "LPPool3d": (2, 2),
    "AdaptiveAvgPool3d": (1,), "AdaptiveMaxPool3d": (1,), "ConstantPad3d": (1, 0.0), "ZeroPad3d": (1,),
    "ReflectionPad3d": (1,), "ReplicationPad3d": (1,), "CircularPad3d": (1,), "Dropout3d": (), "BatchNorm3d": (2,),
    "InstanceNorm3d": (2,),
}  # fmt: skip
BLOCKS: dict[str, tuple[Any, ...]] = {"Fold": ((3, 4), 2)}
PAIRS: dict[str, tuple[Any, ...]] = {"Bilinear": (4, 4, 3), "CosineSimilarity": (), "PairwiseDistance": ()}
TOKENS: dict[str, tuple[Any, ...]] = {
    "TransformerEncoderLayer": (8, 2, 6, 0.1, F.relu, 1e-5, True),
    "TransformerEncoder": (nn.TransformerEncoderLayer(8, 2, 6, batch_first=True), 1, None, False),
}
MEMORIES: dict[str, tuple[Any, ...]] = {
    "TransformerDecoderLayer": (8, 2, 6, 0.1, F.relu, 1e-5, True),
    "Transformer": (8, 2, 1, 1, 6, 0.1, F.relu, None, None, 1e-5, True),
    "TransformerDecoder": (nn.TransformerDecoderLayer(8, 2, 6, batch_first=True), 1),
}  # fmt: skip
TRIPLES: dict[str, tuple[Any, ...]] = {"MultiheadAttention": (8, 2, 0.0, True, False, False, None, None, True)}
IDS: dict[str, tuple[Any, ...]] = {"Embedding": (9, 4), "EmbeddingBag": (9, 4)}
GROUPS: dict[str, tuple[dict[str, tuple[Any, ...]], tuple[tuple[int, ...], ...]]] = {
    "features": (FEATURES, ((1, 8),)),
    "sequences": (SEQUENCES, ((1, 4, 6),)),
    "cells": (CELLS, ((1, 4),)),
    "images": (IMAGES, ((1, 4, 4, 6),)),
    "volumes": (VOLUMES, ((1, 2, 3, 4, 4),)),
    "blocks": (BLOCKS, ((1, 8, 6),)),
    "pairs": (PAIRS, ((1, 4), (1, 4))),
    "tokens": (TOKENS, ((1, 4, 8),)),
    "memories": (MEMORIES, ((1, 4, 8), (1, 4, 8))),
    "ids": (IDS, ((1, 5),)),
    "triples": (TRIPLES, ((1, 4, 8), (1, 4, 8), (1, 4, 8))),
}
"""Constructor arguments by name of a layer, and the shapes of its inputs."""
COVERED = {row.name for row in rows()["layers"] if row.status in (HARDWARE, LOWERED)}


class Net(nn.Module):
    """Every layer reads the inputs; what it gives, or the first part of it, is an output."""

    def __init__(self, layers: dict[str, nn.Module], count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.count = count

    def forward(self, x: Tensor, y: Tensor | None = None, z: Tensor | None = None) -> Any:
        given = (x, y, z)[: self.count]
        return [self._first(name, layer(*given)) for name, layer in self.layers.items()]

    def _first(self, name: str, result: Any) -> Any:
        return result[0] if name in ("LSTM", "GRU", "RNN", "LSTMCell", "MultiheadAttention") else result


def test_an_example_for_every_layer_that_counts() -> None:
    listed = {row.name for row in rows()["layers"] if row.status in (HARDWARE, LOWERED, ANALYSIS, MISSING)}
    examples = {name for layers, _ in GROUPS.values() for name in layers}
    assert examples <= listed and examples >= COVERED, "what is counted is shown"


@pytest.mark.parametrize("group", GROUPS)
def test_a_layer_that_counts_gets_hardware(group: str) -> None:
    """The passes of ``compile`` up to modules, parameters and streams; the catalogue and the designs prove the bits."""
    arguments, shapes = GROUPS[group]
    layers = {name: getattr(nn, name)(*given) for name, given in arguments.items() if name in COVERED}
    if not layers:
        pytest.skip("none of these layers is in hardware yet")
    model = Net(layers, len(shapes)).eval()
    drawn = (torch.randint(0, 9, shape) if group == "ids" else torch.randn(shape) for shape in shapes)
    example = dict(zip("xyz", drawn, strict=False))
    graph = MaseGraph(model, cf_args={name: None for name in "xyz" if name not in example} or None)
    graph = quantise_pipeline(example).run(graph).graph
    add_hardware_metadata_analysis_pass(graph)
    for node in graph.nodes:
        meta = graph.meta_of(node)
        if node.op == "call_module" and not meta.hardware.is_implicit:
            assert meta.hardware.module, node.name


class Call(nn.Module):
    """A function that enlarges."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Any:
        return getattr(F, self.name)(x, scale_factor=2)


def test_functions_that_are_traced_into() -> None:
    for name, becomes in TRACED.items():
        graph = annotated(Call(name), torch.randn(1, 2, 3, 3))
        assert becomes in [graph.meta_of(n).common.mase_op for n in graph.nodes]
        assert default_catalogue().of_target(getattr(F, name)) is None
