"""The digits a third time, with a transformer: 16 patches become tokens that attend to each other, all in hardware.

    python examples/digits_vit.py --out build/digits_vit

Exit code 0 only if not one bit differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
import digits_mlp

CONFIG = Path(__file__).with_suffix(".toml")
EPOCHS = 30
TOKENS, WIDTH, HEADS, LAYERS = 16, 32, 2, 2


class DigitsViT(nn.Module):
    """16 patches of 2x2 pixels, two encoder layers of width 32, the mean of all tokens; images ``(batch, 8, 8)``."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, 2, stride=2)
        self.positions = nn.Parameter(torch.randn(1, TOKENS, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Class scores of shape ``(batch, 10)``."""
        x = self.patches(image.unsqueeze(1)).flatten(2).transpose(1, 2)
        x = self.encoder(x + self.positions)
        return self.fc(self.norm(x).mean(1))


def model() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """What ``mase-hw compile examples/digits_vit.py:model`` takes: model, example input, calibration batches."""
    digits = digits_mlp.load()
    return digits_mlp.train(digits, DigitsViT, EPOCHS), digits.test_images[:1], list(digits.train_images.split(256))


if __name__ == "__main__":
    sys.exit(digits_mlp.main(DigitsViT, CONFIG, EPOCHS))
