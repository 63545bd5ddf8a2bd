"""Stacks of thirty of each kind of layer: model specifications of the long regression of whole networks.

Formats differ from layer to layer, so that a module of the library has thirty sets of parameters.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEPTH = 30


class Function(nn.Module):
    """A layer without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Whatever the function does."""
        return self.function(x)


class Recurrent(nn.Module):
    """A recurrent layer, of which the sequence goes on."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Sequences ``(N, T, C)`` -> the same shape."""
        result: Tensor = self.layer(x)[0]
        return result


class Attention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Sequences ``(N, T, 8)`` -> the same shape."""
        result: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return result


IMAGE, ROWS, STEPS = (8, 8, 8), (4, 32), (4, 8)
# The layer and the shape of a frame.
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(32, 32), ROWS),
    "convolution": (lambda: nn.Conv2d(8, 8, 3, padding=1), IMAGE),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), IMAGE),
    "pointwise": (lambda: nn.Conv2d(8, 8, 1), IMAGE),
    "dilated": (lambda: nn.Conv2d(8, 8, 3, padding=2, dilation=2), IMAGE),
    "convolution_1d": (lambda: nn.Conv1d(8, 8, 3, padding=1), (8, 16)),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Conv2d(8, 8, 2, stride=2)),
        IMAGE,
    ),
    "max_pool": (lambda: nn.MaxPool2d(3, 1, 1), IMAGE),
    "max_pool_apart": (lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.MaxPool2d(2)), IMAGE),
    "avg_pool": (lambda: nn.AvgPool2d(3, 1, 1), IMAGE),
    "adaptive_pool": (lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(8)), IMAGE),
    "layer_norm": (lambda: nn.LayerNorm(32), ROWS),
    "group_norm": (lambda: nn.GroupNorm(2, 8), IMAGE),
    "instance_norm": (lambda: nn.InstanceNorm2d(8), IMAGE),
    "rms_norm": (lambda: nn.RMSNorm(32), ROWS),
    "softmax": (lambda: nn.Softmax(-1), ROWS),
    "log_softmax": (lambda: nn.LogSoftmax(-1), ROWS),
    "gelu": (nn.GELU, ROWS),
    "prelu": (lambda: nn.PReLU(8), IMAGE),
    "sigmoid": (nn.Sigmoid, ROWS),
    "rnn": (lambda: Recurrent(nn.RNN(8, 8, batch_first=True)), STEPS),
    "gru": (lambda: Recurrent(nn.GRU(8, 8, batch_first=True)), STEPS),
    "lstm": (lambda: Recurrent(nn.LSTM(8, 8, batch_first=True)), STEPS),
    "attention": (Attention, STEPS),
    "cat": (lambda: Function(lambda x: torch.cat([x[:, 3:], torch.relu(x[:, :3])], 1)), IMAGE),
    "pad": (lambda: Function(lambda x: F.pad(x[:, :, 1:, 1:], (1, 0, 1, 0))), IMAGE),
    "permute": (lambda: Function(lambda x: x.transpose(1, 2)), (8, 8)),
    "residual": (lambda: Function(lambda x: torch.relu(x) + 0.5 * x), ROWS),
    "std": (lambda: Function(lambda x: x * x.std(-1, keepdim=True)), ROWS),
    "divide": (lambda: Function(lambda x: x / (x.abs() + 1.0)), ROWS),
    "mean": (lambda: Function(lambda x: x - x.mean(-1, keepdim=True)), ROWS),
}


def stack(name: str) -> tuple[nn.Module, Tensor]:
    """Thirty layers of a kind, and an example."""
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    return nn.Sequential(*(make() for _ in range(DEPTH))), torch.randn(1, *shape)
