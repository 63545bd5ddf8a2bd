"""Convolutional networks at sizes that simulate here: every layer in hardware, none left to the host."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LeNet5(nn.Module):
    """LeNet-5 for 28x28 images: two convolutions, two average poolings, three linears."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool = nn.AvgPool2d(2)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = x.flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Vgg(nn.Module):
    """VGG's pattern: pairs of 3x3 convolutions with batch norm, max pooling, a linear."""

    def __init__(self, channels: int = 3, size: int = 12, widths: tuple[int, ...] = (6, 8)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = channels
        for width in widths:
            for _ in range(2):
                layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                before = width
            layers.append(nn.MaxPool2d(2))
            size //= 2
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(before * size * size, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class BasicBlock(nn.Module):
    """ResNet's basic block, with a 1x1 convolution on the skip where shapes differ."""

    def __init__(self, before: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        same = stride == 1 and before == width
        self.skip = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


class ResNet(nn.Module):
    """A stem, a block that keeps its shape, one that halves it, global average, a linear."""

    def __init__(self, channels: int = 3, width: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.block1 = BasicBlock(width, width)
        self.block2 = BasicBlock(width, 2 * width, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.pool(self.block2(self.block1(self.stem(x)))), 1))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: widen, depthwise, narrow; a skip where shapes allow."""

    def __init__(self, before: int, width: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = before * expand
        layers: list[nn.Module] = []
        if expand != 1:
            layers += [nn.Conv2d(before, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, width, 1, bias=False),
            nn.BatchNorm2d(width),
        ]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and before == width

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """A stem, three inverted residual blocks, a 1x1 convolution, global average, a linear."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU6())
        self.blocks = nn.Sequential(
            InvertedResidual(4, 4, 1, 1), InvertedResidual(4, 6, 2, 2), InvertedResidual(6, 6, 1, 2)
        )
        self.head = nn.Sequential(nn.Conv2d(6, 12, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU6())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(12, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.blocks(self.stem(x)))
        return self.classifier(x.mean([2, 3]))


def ready(model: nn.Module, seed: int = 0) -> nn.Module:
    """Weights and batch statistics from a seed, in evaluation mode."""
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.3, 0.3)
            nn.init.normal_(module.running_mean, 0, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return model.eval()
