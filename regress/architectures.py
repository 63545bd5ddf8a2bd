"""Architectures that people build, small: model specifications of the regression matrices."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(before: int, after: int, size: int = 3, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size of the image, and its activation."""
    return nn.Sequential(nn.Conv2d(before, after, size, padding=size // 2, groups=groups), nn.ReLU())


class SqueezeExcite(nn.Module):
    """MobileNetV3's block (Howard et al., arXiv:1905.02244): expand, depthwise, gate of every channel, project."""

    def __init__(self, width: int = 4, expanded: int = 8) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(width, expanded, 1), nn.Hardswish())
        depthwise = nn.Conv2d(expanded, expanded, 3, padding=1, groups=expanded)
        self.depthwise = nn.Sequential(depthwise, nn.Hardswish())
        squeeze, excite = nn.Conv2d(expanded, width, 1), nn.Conv2d(width, expanded, 1)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), squeeze, nn.ReLU(), excite, nn.Hardsigmoid())
        self.project = nn.Conv2d(expanded, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, width, H, W)`` -> the same shape."""
        y = self.depthwise(self.expand(x))
        return x + self.project(y * self.gate(y))


class UNet(nn.Module):
    """One level down and up again by a transposed convolution (Ronneberger et al., arXiv:1505.04597)."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.bottom = conv(2, 4), nn.Sequential(nn.MaxPool2d(2), conv(4, 6))
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.join, self.head = conv(8, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, 2, H, W)`` of even sizes -> the same shape."""
        skipped = self.down(x)
        return self.head(self.join(torch.cat([skipped, self.up(self.bottom(skipped))], dim=1)))


class Inception(nn.Module):
    """Five branches of different length, joined (Szegedy et al., arXiv:1409.4842)."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = conv(4, 2, 1), nn.Sequential(conv(4, 2, 1), conv(2, 3))
        self.five = nn.Sequential(conv(4, 2, 1), conv(2, 2), conv(2, 2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(4, 2, 1))
        self.mean = nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, 4, H, W)`` -> ``(N, 10, H, W)``."""
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x), self.mean(x)], dim=1)


class Keywords(nn.Module):
    """A keyword spotter: features of a sound, two layers of GRU, a score for every word."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(4, 6, num_layers=2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Features ``(N, T, 4)`` -> scores ``(N, 3)``."""
        _, state = self.gru(x)
        scores: Tensor = self.fc(torch.relu(state[-1]))
        return scores


class Gated(nn.Module):
    """A causal dilated convolution with a gate, and a residual path."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.filter, self.gate = (nn.Conv1d(3, 3, 2, dilation=dilation) for _ in range(2))
        self.mix = nn.Conv1d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(N, 3, T)`` -> the same shape."""
        y = F.pad(x, (self.dilation, 0))
        return x + self.mix(torch.tanh(self.filter(y)) * torch.sigmoid(self.gate(y)))


class Wave(nn.Module):
    """A causal stack in which every sample sees the eight before it (van den Oord et al., arXiv:1609.03499)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, 3, 1), nn.Conv1d(3, 2, 1)
        self.blocks = nn.Sequential(Gated(1), Gated(2), Gated(4))

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(N, 1, T)`` -> ``(N, 2, T)``."""
        return self.last(torch.relu(self.blocks(self.first(x))))


def squeeze_excite() -> tuple[nn.Module, Tensor]:
    """One number for each channel is broadcast to the image."""
    torch.manual_seed(10)
    return SqueezeExcite(), torch.rand(1, 4, 5, 6) * 2 - 1


def unet() -> tuple[nn.Module, Tensor]:
    """A transposed convolution, and a path around half of the network."""
    torch.manual_seed(11)
    return UNet(), torch.rand(1, 2, 6, 8) * 2 - 1


def inception() -> tuple[nn.Module, Tensor]:
    """Five ways of different length between one fork and one join."""
    torch.manual_seed(12)
    return Inception(), torch.rand(1, 4, 5, 6) * 2 - 1


def keywords() -> tuple[nn.Module, Tensor]:
    """Recurrences one after the other; the result is the last state."""
    torch.manual_seed(13)
    return Keywords(), torch.randn(1, 7, 4)


def wave() -> tuple[nn.Module, Tensor]:
    """Convolutions in time that see the past alone."""
    torch.manual_seed(14)
    return Wave(), torch.rand(1, 1, 12) * 2 - 1


class Listener(nn.Module):
    """Causal convolutions and a GRU behind them, for a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.wave = Wave()
        self.gru = nn.GRU(2, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(1, 1, T)`` -> states ``(1, T, 4)``."""
        result: Tensor = self.gru(self.wave(x).transpose(1, 2))[0]
        return result


def stream() -> tuple[nn.Module, Tensor]:
    """One hop of a stream that goes on from frame to frame."""
    torch.manual_seed(15)
    return Listener(), torch.rand(1, 1, 4) * 2 - 1
