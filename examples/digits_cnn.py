"""The digits again, with a convolutional network: images stream through line buffers, no layer is left to the host.

    python examples/digits_cnn.py --out build/digits_cnn

Exit code 0 only if not one bit differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
import digits_mlp

CONFIG = Path(__file__).with_suffix(".toml")
EPOCHS = 15


class DigitsCNN(nn.Module):
    """Two 3x3 convolutions with batch norm, ReLU and 2x2 max pooling, and a linear; images ``(batch, 8, 8)``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Class scores of shape ``(batch, 10)``."""
        x = image.unsqueeze(1)
        x = self.pool(self.relu(self.norm1(self.conv1(x))))
        x = self.pool(self.relu(self.norm2(self.conv2(x))))
        return self.fc(x.flatten(1))


def model() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """What ``mase-hw compile examples/digits_cnn.py:model`` takes: model, example input, calibration batches."""
    digits = digits_mlp.load()
    return digits_mlp.train(digits, DigitsCNN, EPOCHS), digits.test_images[:1], list(digits.train_images.split(256))


if __name__ == "__main__":
    sys.exit(digits_mlp.main(DigitsCNN, CONFIG, EPOCHS))
