"""The four topologies of MLPerf Tiny as plain PyTorch, with random weights: nothing here is trained.

    mase-hw fit examples/mlperf_tiny.py:resnet8 --device xc7z020 --fps 1000

The layers are those of the benchmark's reference models (https://github.com/mlcommons/tiny, folder ``benchmark``).
Weights are those with which PyTorch initialises, from a fixed seed, so area and cycles are meaningful and the
accuracy is not. Where the reference pads one side of an image more than the other, as TensorFlow does, this pads both
alike; sizes and products are the same.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

Spec = tuple[nn.Module, Tensor]


class _Residual(nn.Module):
    """Two 3x3 convolutions beside the input, or beside a 1x1 convolution of it where the sizes change."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inside, outside, 3, stride)
        self.second = nn.Sequential(nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside))
        self.beside = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.second(self.first(x)) + self.beside(x))


def _convolution(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, with batch norm and ReLU."""
    layer = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups)
    return nn.Sequential(layer, nn.BatchNorm2d(outside), nn.ReLU())


def _separable(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    """A depthwise 3x3 convolution, then a pointwise one."""
    return nn.Sequential(_convolution(inside, inside, 3, stride, inside), _convolution(inside, outside, 1))


def _made(example: Tensor, *layers: nn.Module) -> Spec:
    return nn.Sequential(*layers).eval(), example


def resnet8() -> Spec:
    """Image classification: ResNet-8 on 32 x 32 x 3, 12.5 million products."""
    torch.manual_seed(0)
    blocks = [_Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2)]
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return _made(torch.rand(1, 3, 32, 32), _convolution(3, 16, 3), *blocks, *ends)


def ds_cnn() -> Spec:
    """Keyword spotting: DS-CNN on 49 x 10, 2.7 million products."""
    torch.manual_seed(0)
    first = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12)]
    return _made(torch.rand(1, 1, 49, 10), *first, *(_separable(64, 64) for _ in range(4)), *ends)


def mobilenet() -> Spec:
    """Visual wake words: MobileNetV1 of a quarter of the width on 96 x 96 x 3, 7.5 million products."""
    torch.manual_seed(0)
    widths = [8, 16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256]
    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
    pairs = zip(widths, widths[1:], strides, strict=False)
    blocks = [_separable(inside, outside, stride) for inside, outside, stride in pairs]
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2)]
    return _made(torch.rand(1, 3, 96, 96), _convolution(3, 8, 3, 2), *blocks, *ends)


def autoencoder() -> Spec:
    """Anomaly detection: 640-128-128-128-128-8-128-128-128-128-640, 264 thousand products."""
    torch.manual_seed(0)
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    hidden = [
        layer
        for inside, outside in itertools.pairwise(widths)
        for layer in (nn.Linear(inside, outside), nn.BatchNorm1d(outside), nn.ReLU())
    ]
    return _made(torch.rand(1, 640), *hidden, nn.Linear(128, 640))
