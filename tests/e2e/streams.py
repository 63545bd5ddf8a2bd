"""Causal models for tests of streaming, as users write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Wave(nn.Module):
    """Gated blocks padded on the left, residual and skip paths (van den Oord et al., WaveNet, arXiv:1609.03499)."""

    def __init__(self, channels: int = 3, kernel: int = 2, blocks: int = 3) -> None:
        super().__init__()
        self.kernel = kernel
        self.first, self.last = nn.Conv1d(1, channels, 1), nn.Conv1d(channels, 2, 1)
        self.filters, self.gates = (
            nn.ModuleList(nn.Conv1d(channels, channels, kernel, dilation=2**i) for i in range(blocks)) for _ in range(2)
        )
        self.mixes = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        skips = []
        for i, (filter, gate, mix) in enumerate(zip(self.filters, self.gates, self.mixes, strict=True)):
            padded = F.pad(x, ((self.kernel - 1) * 2**i, 0))
            y = mix(torch.tanh(filter(padded)) * torch.sigmoid(gate(padded)))
            skips.append(y)
            x = x + y
        result: Tensor = self.last(torch.relu(skips[0] + skips[1] + skips[2]))
        return result


class Chomp(nn.Module):
    """Layers padded on both sides, whose end is cut off behind what follows (Bai et al., TCN, arXiv:1803.01271)."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(3, 3, 3, padding=4, dilation=2, groups=3)
        self.norm = nn.BatchNorm1d(3)
        self.full = nn.Conv1d(3, 4, 4, padding=3, bias=False)
        self.down = nn.Conv1d(3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.depthwise(x)))[:, :, :-4]
        y = self.full(y)[..., :-3]
        return torch.relu(y + self.down(x))


class Down(nn.Module):
    """Strides and poolings along time, some of which stay within a hop, and channels last at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.halve = nn.Conv1d(2, 3, 4, stride=2)
        self.ahead = nn.Conv1d(3, 3, 3, stride=2)
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.halve(F.pad(x, (3, 0)))
        y = F.max_pool1d(F.pad(torch.relu(y), (2, 0)), 3, 1)
        y = F.avg_pool1d(self.ahead(F.pad(y, (1, 0))), 2)
        result: Tensor = self.fc(y.transpose(1, 2))
        return result


class Listen(nn.Module):
    """A GRU over features, one step a column, and an LSTM behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.gru(x)
        y, _ = self.lstm(y)
        result: Tensor = self.fc(y)
        return result


class Mixed(nn.Module):
    """A causal convolution, then an RNN, then both side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 3, padding=2)
        self.rnn = nn.RNN(3, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.conv(x)[:, :, :-2]).transpose(1, 2)
        return torch.cat((y, self.rnn(y)[0]), -1)
