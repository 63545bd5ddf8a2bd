"""What rules share: parts of tensors one after the other, and volumes as images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other."""
    return torch.cat(tuple(parts), dim) if len(parts) > 1 else parts[0]


def space_as_images(x: Tensor, channels: int, sizes: Sequence[int]) -> Tensor:
    """``(N, C, D, H, W)`` -> ``(N D, C, H, W)``: a volume is an image after the other, so nothing moves."""
    return x.permute(0, 2, 1, 3, 4).reshape(-1, channels, *sizes[1:])


def images_as_space(x: Tensor, depth: int, channels: int, sizes: Sequence[int]) -> Tensor:
    """``(N D, C, H, W)`` -> ``(N, C, D, H, W)``; ``sizes`` are rows and columns."""
    return x.reshape(-1, depth, channels, *sizes).permute(0, 2, 1, 3, 4)


def pair(sizes: Sequence[int]) -> tuple[int, int]:
    """Two sizes, as layers of images take them."""
    rows, columns = sizes
    return rows, columns
