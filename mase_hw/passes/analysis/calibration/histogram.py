"""A histogram whose bins are powers of two wide, so that any two of them merge exactly.

Bin ``i`` counts the values in ``[i * 2**e, (i + 1) * 2**e)`` for ``-BINS <= i < BINS``. ``e`` is the smallest exponent
for which all values seen so far have a bin; when a value does not, neighbouring bins are added until it does. As
``floor(x / 2**(e+1)) == floor(floor(x / 2**e) / 2)``, the result does not depend on how the data was cut into batches.
Zeros are counted apart: they are exact in every format, and a rectified tensor is full of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BINS = 2048
"""Bins on each side of zero: 16 and more for every step of an 8-bit format that covers the range."""
_FAR = 100
"""Powers of two up to this are ordinary numbers in float32."""
_LOWEST = -1000
"""Finest exponent; below it, float64 runs out of exponents."""

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Points:
    """A distribution as weighted points.

    Args:
        values: The points.
        counts: How often each occurs.
        spread: Width of the bin around each point other than zero; 0 for exact values.
    """

    values: Floats
    counts: Counts
    spread: float = 0.0

    @classmethod
    def exact(cls, values: Floats) -> Points:
        """Every value as its own point."""
        found, counts = np.unique(values, return_counts=True)
        return cls(found.astype(np.float64), counts.astype(np.int64))


class Histogram:
    """Counts of values; see the module."""

    def __init__(self) -> None:
        self.exponent: int | None = None
        self.counts: Counts = np.zeros(2 * BINS, dtype=np.int64)
        self.zeros = 0

    def update(self, tensor: Tensor) -> None:
        """Count the values of a tensor of any shape; they must be finite."""
        flat = tensor.detach().reshape(-1)
        zeros = flat.numel() - int(torch.count_nonzero(flat))
        self.zeros += zeros
        if zeros == flat.numel():
            return
        low, high = (float(bound) for bound in torch.aminmax(flat))
        self._reach(exponent_for(low, high))
        assert self.exponent is not None  # _reach sets it
        if flat.dtype is torch.float32 and -_FAR <= self.exponent <= 0:
            # Nothing becomes smaller, so that it is exact.
            scaled = flat * math.ldexp(1.0, -self.exponent)
        else:
            # In two steps: 2**-exponent alone may be beyond float64.
            half = -self.exponent // 2
            scaled = flat.to(torch.float64) * math.ldexp(1.0, half) * math.ldexp(1.0, -self.exponent - half)
        bins = scaled.floor_().add_(BINS).to(torch.int32)
        self.counts += torch.bincount(bins, minlength=2 * BINS).cpu().numpy()
        self.counts[BINS] -= zeros

    def _reach(self, exponent: int) -> None:
        if self.exponent is None:
            self.exponent = exponent
        while self.exponent < exponent:
            # Bins 2k and 2k + 1 become bin k; bin 0 stands at an even index.
            merged = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.zeros_like(self.counts)
            self.counts[BINS // 2 : BINS // 2 + BINS] = merged
            self.exponent += 1

    def points(self) -> Points:
        """Centres of the occupied bins, and zero."""
        at = np.flatnonzero(self.counts)
        width = 0.0 if self.exponent is None else math.ldexp(1.0, self.exponent)
        values: Floats = (at.astype(np.float64) - BINS + 0.5) * np.float64(width)
        if not self.zeros:
            return Points(values, self.counts[at], width)
        where = int(np.searchsorted(values, 0.0))
        return Points(np.insert(values, where, 0.0), np.insert(self.counts[at], where, self.zeros), width)

    def quantile(self, share: float, *, upper: bool) -> float:
        """Edge of the bin that holds a quantile: of its order statistic, rounded outwards.

        Args:
            share: From 0 to 1; the order statistic is ``numpy.quantile(..., method="inverted_cdf")``.
            upper: The upper edge of the bin rather than the lower one.
        """
        points = self.points()
        total = int(points.counts.sum())
        rank = max(1, math.ceil(share * total))
        at = int(np.searchsorted(np.cumsum(points.counts), rank))
        value = float(points.values[at])
        if value == 0.0:
            return 0.0
        return value + (0.5 if upper else -0.5) * points.spread

    def state(self) -> dict[str, Any]:
        """All of it as plain numbers; only the occupied bins."""
        at = np.flatnonzero(self.counts)
        return {
            "exponent": self.exponent,
            "zeros": self.zeros,
            "bins": (at - BINS).tolist(),
            "counts": self.counts[at].tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Histogram:
        """The histogram of a :meth:`state`."""
        made = cls()
        made.exponent, made.zeros = state["exponent"], int(state["zeros"])
        made.counts[np.asarray(state["bins"], dtype=np.int64) + BINS] = state["counts"]
        return made


def exponent_for(low: float, high: float) -> int:
    """The smallest exponent for which both values have a bin."""

    def fits(exponent: int) -> bool:
        return all(-BINS <= math.floor(math.ldexp(v, -exponent)) < BINS for v in (low, high))

    exponent = max(_LOWEST, math.frexp(max(abs(low), abs(high)))[1] - BINS.bit_length() - 1)
    while not fits(exponent):
        exponent += 1
    return exponent
