"""Where the frames are in a program that was exported for one: its numbers hold for one, its graph for any number.

Every tensor of data has one dimension along which frames follow each other, mostly as the outermost part of it. It is
found by computing the shapes for two frames beside those for one, on the meta device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor


def dimension(one: Sequence[int], two: Tensor) -> int | None:
    """The dimension that grows with the number of frames; None if none does, or the shapes differ in other ways."""
    if len(one) != two.dim():
        return None
    grown = [i for i, (a, b) in enumerate(zip(one, two.shape, strict=True)) if a != b]
    return grown[0] if len(grown) == 1 and two.shape[grown[0]] == 2 * one[grown[0]] else None


def reshaped(before: int, target: Sequence[int], front: int = 0) -> tuple[tuple[int, ...], int] | None:
    """The target of a reshape for any number of frames: -1 where they go; None if they do not go into one dimension.

    Args:
        before: Elements of the frames' dimension that lie outside of them, times the sizes in front of it.
        target: Shape of the result for one frame.
        front: Dimensions in front of the frames before, which say where they go among several of size 1.

    Returns:
        The shape, and how many elements of the frames' dimension lie outside of them now.
    """
    for index in (front, *range(len(target))) if target[front : front + 1] == (1,) else range(len(target)):
        if math.prod(target[:index]) == before:
            if index and index == len(target) - 1 and target[index] > 1:
                # Not among the features, over which layers sum: (tokens, frames, heads, size) -> (tokens frames, all).
                return (*target[: index - 1], -1, target[index]), target[index - 1]
            return (*target[:index], -1, *target[index + 1 :]), 1
    return None


def expanded(source: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """The sizes of an expansion for any number of frames: -1 for what stays."""
    new = len(target) - len(source)
    return (*target[:new], *(-1 if a == b else b for a, b in zip(source, target[new:], strict=True)))
