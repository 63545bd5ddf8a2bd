"""Vision transformers of published shapes: time to compile and predict them, interval, multipliers, share of the ideal.

    python -m benchmarks.vision_transformers
    python -m benchmarks.vision_transformers vit_64x192

Lanes are the fewest that give every stage the interval asked for. The share is that of the interval which the work of
the slowest stage takes on its multipliers if each of them multiplies in every cycle.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mase_hw

SHAPES = {
    # tokens without the class token, of what patch, width, heads, layers, hidden width, class token, interval
    "vit_64x192": ((8, 4, 3), (192, 3, 2, 768), False, 100_000),
    "deit_tiny": ((14, 16, 3), (192, 3, 12, 768), True, 1_000_000),
}
"""Patches a side, their rows and channels; width, heads, layers, hidden width; class token; cycles per frame."""


class VisionTransformer(nn.Module):
    """ViT (Dosovitskiy 2020), or DeiT (Touvron 2020) with a class token, with random weights."""

    def __init__(self, patches: tuple[int, int, int], sizes: tuple[int, int, int, int], has_class: bool) -> None:
        super().__init__()
        side, patch, channels = patches
        width, heads, layers, hidden = sizes
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width)) if has_class else None
        self.positions = nn.Parameter(torch.randn(1, side * side + has_class, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        """Class scores of shape ``(batch, 1000)``."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        x = self.norm(self.encoder(x + self.positions))
        return self.fc(x[:, 0] if self.token is not None else x.mean(1))


def fewest(rows: int, size: int, out: int, interval: int) -> dict[str, int]:
    """Lanes of input and output with the fewest multipliers for ``rows`` vectors in ``interval`` cycles."""
    fits = [
        (a * b, abs(a - b), a, b)
        for a, b in itertools.product(range(1, 65), repeat=2)
        if a <= size and b <= out and rows * math.ceil(size / a) * math.ceil(out / b) <= interval
    ]
    _, _, a, b = min(fits)
    return {"data_in_0": a, "data_out_0": b}


def lanes(name: str) -> dict[str, dict[str, int]]:
    """Lanes of everything that multiplies, by node."""
    (side, patch, channels), (width, heads, layers, hidden), has_class, interval = SHAPES[name]
    tokens = side * side + has_class
    found = {"patches": fewest(side * side * patch * patch, channels, width, interval)}
    found["fc"] = fewest(1, width, 1000, interval)
    for layer in range(layers):
        at = f"encoder_layers_{layer}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            found[f"{at}_self_attn_{part}"] = fewest(tokens, width, width, interval)
        found[f"{at}_self_attn_matmul"] = fewest(tokens * heads, width // heads, tokens, interval)
        found[f"{at}_self_attn_matmul_1"] = fewest(tokens * heads, tokens, width // heads, interval)
        found[f"{at}_linear1"] = fewest(tokens, width, hidden, interval)
        found[f"{at}_linear2"] = fewest(tokens, hidden, width, interval)
    return found


def measure(name: str) -> dict[str, Any]:
    """Compile one, and read its manifest."""
    patches, sizes, has_class, _ = SHAPES[name]
    torch.manual_seed(0)
    net = VisionTransformer(patches, sizes, has_class).eval()
    image = torch.randn(1, patches[2], patches[0] * patches[1], patches[0] * patches[1])
    settings = {"hardware": {"max_parallelism": 1, "parallelism": lanes(name)}, "vectors": {"frames": 1}}
    with tempfile.TemporaryDirectory() as folder:
        start, wall = time.process_time(), time.monotonic()
        design = mase_hw.compile(net, image, settings, out=Path(folder) / "design", progress=print)
        seconds, wall = time.process_time() - start, time.monotonic() - wall
    instances = [i for i in design.manifest["instances"] if i.get("multipliers")]
    slowest = max(instances, key=lambda i: i["timing"]["interval"])
    timing = design.timing
    return {
        "seconds": seconds,
        "wall": wall,
        "interval": timing["interval"],
        "exact": timing["exact"],
        "multipliers": sum(i["multipliers"] for i in instances),
        "bottleneck": timing["bottleneck"],
        "slowest": slowest["name"],
        "share": slowest["work"] / slowest["multipliers"] / timing["interval"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=sorted(SHAPES), help="one network only")
    args = parser.parse_args()
    for name in [args.network] if args.network else SHAPES:
        m = measure(name)
        print(
            f"{name}: compiled and predicted in {m['seconds']:.1f} s of processor time; interval {m['interval']:,} "
            f"({'exact' if m['exact'] else 'not exact'}), {m['multipliers']} multipliers, slowest {m['bottleneck']}, "
            f"share of the ideal interval {m['share']:.4f}"
        )


if __name__ == "__main__":
    main()
