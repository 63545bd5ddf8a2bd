"""Where time is in a tensor, and where an op that only moves elements takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import fx

from mase_hw.streams import IntArray


@dataclass(frozen=True)
class Flow:
    """Columns of a stream in a tensor of one hop.

    Args:
        dim: The dimension of time.
        left: Columns of zeros before those of the hop.
        right: Columns behind those of the hop, which somebody must cut off.
        source: Where the columns of the hop alone are, if there are zeros before them.
    """

    dim: int
    left: int = 0
    right: int = 0
    source: fx.Node | None = None

    @property
    def plain(self) -> bool:
        """Whether these are the columns of the hop and no others."""
        return not self.left and not self.right


class NotCausal(Exception):
    """Why a node cannot go from hop to hop.

    Args:
        problem: The reason.
        remedy: What to do.
        elsewhere: Time is probably another dimension than the one that was tried.
    """

    def __init__(self, problem: str, remedy: str = "", elsewhere: bool = False) -> None:
        super().__init__(problem)
        self.remedy, self.elsewhere = remedy, elsewhere


def moved(shape: Sequence[int], dim: int, places: IntArray) -> int:
    """The dimension of time behind an op that only moves elements.

    Args:
        shape: Of what it takes.
        dim: The dimension of time in it.
        places: Number of the element that every element of the result is, negative for a zero.

    Every column of the result must take from one column of the input, the same elements for each, and columns must
    stay in order; one may become several. A single column says nothing, so then it must stay where it was, or the last
    dimension with as many elements before it.

    Raises:
        NotCausal: If there is no such dimension.
    """
    length = shape[dim]
    inner = math.prod(shape[dim + 1 :])
    columns = (places // inner) % length
    rest = np.where(places < 0, places, places // (inner * length) * inner + places % inner)
    fits = []
    for at in range(1, places.ndim):
        size = places.shape[at]
        if size % length:
            continue
        wanted = np.arange(size) // (size // length)
        wanted = wanted.reshape([-1 if d == at else 1 for d in range(places.ndim)])
        same = bool((rest == np.take(rest, [0], at)).all())
        # Zeros that an op puts in belong to every column alike.
        if same and bool(((columns == wanted) | (places < 0)).all()):
            fits.append(at)
    if length == 1:
        before = math.prod(shape[:dim])
        fits = [at for at in fits if places.shape[at] == 1 and (at == dim or math.prod(places.shape[:at]) == before)]
        fits = [at for at in fits if at == dim and math.prod(places.shape[:at]) == before] or fits
    if not fits:
        raise NotCausal("it moves columns in time, or mixes time with another dimension", "keep time as a dimension")
    return fits[-1]
