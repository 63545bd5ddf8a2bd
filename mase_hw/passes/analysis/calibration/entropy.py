"""The threshold that loses least information: TensorRT's entropy calibration.

S. Migacz, "8-bit Inference with TensorRT", GTC 2017, as ONNX Runtime implements it (``get_entropy_threshold`` of
``onnxruntime.quantization.calibrate``, itself after Apache MXNet): for every threshold, the part of a symmetric
histogram within it, with the counts outside added to its two end bins, is a distribution ``p``. Without these counts,
and with its bins merged into as many as there are levels and each spread again over the bins that are occupied, it is
``q``. The threshold is taken for which ``p`` diverges least from ``q`` (Kullback and Leibler). Counting the outside
in ``p`` alone is what makes clipping expensive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mase_hw.passes.analysis.calibration.histogram import Counts, Floats, Points, exponent_for

BINS = 2048
"""Bins at most, as in the publication."""

SMOOTHING = 1e-4
"""Count that an empty bin gets in ``p`` and ``q``, taken evenly off the others."""


@dataclass(frozen=True)
class Symmetric:
    """A histogram with as many bins below zero as above it.

    Args:
        counts: By bin, from minus to plus the largest magnitude; zeros are in the bin that begins there.
        width: Width of a bin.
    """

    counts: Counts
    width: float

    @property
    def half(self) -> int:
        """Bins on each side."""
        return self.counts.size // 2

    @classmethod
    def of(cls, points: Points) -> Symmetric:
        """The histogram of a distribution, with at most :data:`BINS` bins: neighbours are merged until it has."""
        width = points.spread
        if not width:
            width = math.ldexp(1.0, exponent_for(float(points.values.min()), float(points.values.max())))
        at = np.floor(points.values / width).astype(np.int64)
        while max(int(at.max()) + 1, -int(at.min())) > BINS // 2:
            at, width = at // 2, 2 * width
        half = max(int(at.max()) + 1, -int(at.min()), 1)
        return cls(np.bincount(at + half, weights=points.counts, minlength=2 * half).astype(np.int64), width)

    def threshold(self, levels: int) -> float:
        """The threshold for a format that has ``levels`` numbers between minus and plus the threshold.

        All of the range if there are no more bins than levels: then merging them loses nothing, and the histogram does
        not show what clipping would gain.
        """
        reaches = range(levels // 2, self.half + 1)
        return self.width * min(reaches, key=lambda reach: divergence(self.counts, reach, levels), default=self.half)

    def divergence(self, threshold: float, levels: int) -> float:
        """The divergence for a threshold, which is brought to the nearest that is looked at; NaN if none is."""
        if levels // 2 > self.half:
            return math.nan
        reach = min(max(math.ceil(threshold / self.width), levels // 2), self.half)
        return divergence(self.counts, reach, levels)


def divergence(counts: Counts, reach: int, levels: int) -> float:
    """Kullback-Leibler divergence in nats of ``p`` from ``q`` for one threshold; see the module.

    Args:
        counts: A symmetric histogram.
        reach: The threshold in bins.
        levels: Bins into which those within the threshold are merged.
    """
    half = counts.size // 2
    first, last = half - reach, min(half + reach + 1, counts.size)
    inside = counts[first:last]
    p = inside.copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last:].sum()
    merged = inside.size // levels
    starts = np.arange(levels) * merged
    sums = np.add.reduceat(inside, starts)  # the last level takes the bins that are left over
    occupied = np.add.reduceat((p[: levels * merged] != 0).astype(np.int64), starts)
    # Whole counts, as there: a level's share of a bin is rounded down.
    shares = np.where(occupied > 0, sums // np.maximum(occupied, 1), 0)
    q = np.zeros_like(p)
    q[: levels * merged] = np.repeat(shares, merged)
    if not p.any() or not q.any():
        return math.inf
    given, left = _smoothed(p), _smoothed(q)
    return float((given * np.log(given / left)).sum())


def _smoothed(counts: Counts) -> Floats:
    """Shares of the bins, where every empty one gets a little at the others' expense, so that logarithms exist."""
    empty = counts == 0
    taken = SMOOTHING * empty.sum() / (~empty).sum()
    smoothed: Floats = counts.astype(np.float64) + np.where(empty, SMOOTHING, -taken)
    smoothed /= smoothed.sum()
    return smoothed
