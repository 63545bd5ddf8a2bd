"""From statistics to a format: one function, every method's optimum stated.

The width is given, so what is chosen is the fraction width (and the sign, if that is left open). Each method minimises
an error over all fraction widths:

- ``range``: the worst rounding error inside the range, ``step / 2``, of the formats that clip nothing of it. That is
  the finest step that holds both ends, rounded half-even.
- ``mse``: the mean squared error, rounding and clipping together.
- ``entropy``: the Kullback-Leibler divergence of the observed distribution from what is left of it after quantisation,
  where every code's share is spread evenly over the occupied bins that it stands for. After S. Migacz, "8-bit Inference
  with TensorRT", GTC 2017, but the clipped part stays in both distributions, so that candidates are comparable.

Of equal errors the smaller mean squared error wins, then the finer step that clips nothing, then the finer step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mase_hw.errors import FormatError
from mase_hw.formats import MAX_FRAC, FixedFormat
from mase_hw.passes.analysis.calibration.histogram import Floats, Histogram, Points

CRITERIA = ("range", "mse", "entropy")


@dataclass(frozen=True)
class Candidate:
    """A format that was considered.

    Args:
        fmt: The format.
        error: What the method minimises; infinite for a format that ``range`` must not take.
        mse: Mean squared error; NaN if no distribution was observed.
        clipped: Share of the values beyond the format's range; NaN likewise.
    """

    fmt: FixedFormat
    error: float
    mse: float
    clipped: float


@dataclass(frozen=True)
class Choice:
    """A chosen format and why.

    Args:
        fmt: The format.
        criterion: What was minimised.
        low: Lower end of the range that was used.
        high: Upper end of the range that was used.
        candidates: Formats of the chosen sign around the chosen one, coarsest first.
    """

    fmt: FixedFormat
    criterion: str
    low: float
    high: float
    candidates: tuple[Candidate, ...]


def choose_format(
    statistics: Mapping[str, Any] | Points, width: int, signed: bool | None = True, criterion: str | None = None
) -> Choice:
    """Choose the format of ``width`` bits that minimises an error on what was observed.

    Args:
        statistics: What calibration recorded of a tensor (``low``, ``high`` or else ``min``, ``max``, and perhaps
            ``criterion`` and ``histogram``), or the values themselves.
        width: Bits.
        signed: Whether the format has a sign; None to leave it out where nothing negative was observed and that gives
            a finer step.
        criterion: ``range``, ``mse`` or ``entropy``; None for that of the statistics, else ``range``.

    Raises:
        FormatError: If an unsigned format is to hold negative values, the range is not finite, or a criterion needs a
            histogram that was not observed.
    """
    if isinstance(statistics, Points):
        points: Points | None = statistics
        low, high = (float(f(statistics.values)) if statistics.values.size else 0.0 for f in (np.min, np.max))
        smallest = low
    else:
        histogram = statistics.get("histogram")
        points = Histogram.from_state(histogram).points() if histogram is not None else None
        low, high = (float(statistics.get(k, statistics[o])) for k, o in (("low", "min"), ("high", "max")))
        smallest = float(statistics["min"])
        criterion = criterion or statistics.get("criterion")
    criterion = criterion or "range"
    if criterion not in CRITERIA or (criterion != "range" and points is None):
        raise FormatError(
            "the format cannot be chosen by this criterion",
            field="criterion",
            got=criterion,
            expected=" | ".join(CRITERIA if points is not None else CRITERIA[:1]),
            remedy="calibrate with method mse or entropy, which observe a histogram",
        )
    if signed is None:
        signed = smallest < 0
        if not signed:
            plain, plus = (_best(points, low, high, width, s, criterion) for s in (False, True))
            return plain if plain.fmt.frac_width > plus.fmt.frac_width else plus
    return _best(points, low, high, width, signed, criterion)


def _best(points: Points | None, low: float, high: float, width: int, signed: bool, criterion: str) -> Choice:
    cover = FixedFormat.covering(low, high, width, signed)
    if criterion == "range" or points is None or not points.values.size or low == high == 0:
        fracs = range(cover.frac_width - 2, cover.frac_width + 4)
        found = [_candidate(points, FixedFormat(width, f, signed), low, high, "range") for f in fracs if _allowed(f)]
        return Choice(cover, criterion, low, high, tuple(found))
    fracs = range(cover.frac_width - width - 1, cover.frac_width + width + 9)
    found = [_candidate(points, FixedFormat(width, f, signed), low, high, criterion) for f in fracs if _allowed(f)]
    best = min(found, key=lambda c: (c.error, c.mse, c.clipped > 0, -c.fmt.frac_width))
    near = tuple(c for c in found if abs(c.fmt.frac_width - best.fmt.frac_width) <= 3)
    return Choice(best.fmt, criterion, low, high, near)


def _allowed(frac: int) -> bool:
    return abs(frac) <= MAX_FRAC


def _candidate(points: Points | None, fmt: FixedFormat, low: float, high: float, criterion: str) -> Candidate:
    mse, clipped = math.nan, math.nan
    if points is not None and points.values.size:
        mse, clipped = mean_squared_error(points, fmt)
    if criterion == "mse":
        return Candidate(fmt, mse, mse, clipped)
    if criterion == "entropy":
        assert points is not None  # the caller looked
        return Candidate(fmt, divergence(points, fmt), mse, clipped)
    fits = fmt.min_mantissa <= round(math.ldexp(low, fmt.frac_width)) and (
        round(math.ldexp(high, fmt.frac_width)) <= fmt.max_mantissa
    )
    return Candidate(fmt, fmt.scale / 2 if fits else math.inf, mse, clipped)


def _codes(points: Points, fmt: FixedFormat) -> tuple[Floats, Floats]:
    """Every point in steps of the format, and the mantissa it gets."""
    steps = points.values * math.ldexp(1.0, fmt.frac_width)
    return steps, np.clip(np.rint(steps), fmt.min_mantissa, fmt.max_mantissa)


def mean_squared_error(points: Points, fmt: FixedFormat) -> tuple[float, float]:
    """Mean squared error of a format on a distribution, and the share of values it clips.

    A histogram does not show where in its bin a value lies: for steps no wider than a bin, rounding errors are taken
    as uniform, ``step**2 / 12``.
    """
    steps, codes = _codes(points, fmt)
    errors = (steps - codes) ** 2
    clipped = (np.rint(steps) < fmt.min_mantissa) | (np.rint(steps) > fmt.max_mantissa)
    if points.spread and fmt.scale <= points.spread:
        errors[~clipped & (points.values != 0)] = 1 / 12
    total = points.counts.sum()
    mean = float((errors * points.counts).sum() / total)
    return mean * fmt.scale**2, float(points.counts[clipped].sum() / total)


def divergence(points: Points, fmt: FixedFormat) -> float:
    """Kullback-Leibler divergence in nats of the distribution from its quantised form; see the module."""
    _, codes = _codes(points, fmt)
    _, group = np.unique(codes, return_inverse=True)
    mass = np.bincount(group, weights=points.counts)
    spread = mass[group] / np.bincount(group)[group]
    total = points.counts.sum()
    return max(0.0, float((points.counts / total * np.log(points.counts / spread)).sum()))
