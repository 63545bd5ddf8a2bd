"""What rules share: parts of tensors one after the other, and volumes as images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other."""
    return torch.cat(tuple(parts), dim) if len(parts) > 1 else parts[0]


def spaced(parts: Sequence[tuple[Tensor | None, int]], shape: Sequence[int], dim: int) -> Tensor:
    """Tensors one after the other, and zeros where there is none.

    Args:
        parts: Tensors and their sizes along the dimension.
        shape: Of the result, for one frame.
        dim: Not that of the frames.
    """
    made: list[Tensor] = []
    gap = 0
    last = max(k for k, (part, _) in enumerate(parts) if part is not None)
    after = sum(size for _, size in parts[last + 1 :])
    for place, (part, size) in enumerate(parts[: last + 1]):
        if part is None:
            gap += size
            continue
        own = (*shape[:dim], size, *shape[dim + 1 :])
        end = after if place == last else 0
        made.append(_between(part, own, dim, gap, end) if gap or end else part)
        gap = 0
    return joined(made, dim)


def _between(x: Tensor, shape: Sequence[int], dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after, along a dimension; where that is the channels, in the order in which they travel."""
    if len(shape) == 3 and dim == 1:
        return F.pad(x.transpose(1, 2).unsqueeze(-1), (0, 0, before, after)).squeeze(-1).transpose(1, 2)
    if len(shape) == 2:
        return F.pad(x.unsqueeze(1), (before, after)).squeeze(1)
    if len(shape) > 3 and dim == 1:
        padded = F.pad(x.flatten(2).transpose(1, 2), (before, after)).transpose(1, 2)
        return padded.reshape(-1, before + shape[1] + after, *shape[2:])
    return F.pad(x, (0, 0) * (len(shape) - dim - 1) + (before, after))


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
