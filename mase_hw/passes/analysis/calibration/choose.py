"""From statistics to a format: one function, every method's optimum stated.

The width is given, so what is chosen is the fraction width (and the sign, if that is left open). Each method minimises
an error over all fraction widths:

- ``range``: the worst rounding error inside the range, ``step / 2``, of the formats that clip nothing of it. That is
  the finest step that holds both ends, rounded half-even.
- ``mse``: the mean squared error, rounding and clipping together.
- ``entropy``: the divergence of what a threshold leaves of the distribution, by the published algorithm (see
  :mod:`~mase_hw.passes.analysis.calibration.entropy`); then the finest step whose format holds the threshold. That
  algorithm knows of no distances, so there is a guard: the step is doubled until the mean squared error is no larger
  than that of the format that ``range`` takes. Outliers that are far enough are kept by it.

Of equal errors the smaller mean squared error wins, then the finer step that clips nothing, then the finer step.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mase_hw.errors import FormatError
from mase_hw.formats import MAX_FRAC, FixedFormat
from mase_hw.passes.analysis.calibration.entropy import Symmetric
from mase_hw.passes.analysis.calibration.histogram import Histogram, Points

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
        high: Upper end of the range that was used; of ``entropy``, of what its threshold leaves.
        candidates: Formats of the chosen sign around the chosen one, coarsest first.
        note: What else decided, if anything did.
    """

    fmt: FixedFormat
    criterion: str
    low: float
    high: float
    candidates: tuple[Candidate, ...]
    note: str = ""


def choose_format(
    statistics: Mapping[str, Any] | Points, width: int, signed: bool | None = True, criterion: str | None = None
) -> Choice:
    """Choose the format of ``width`` bits that minimises an error on what was observed.

    Args:
        statistics: What calibration recorded of a tensor (``low``, ``high`` or else ``min``, ``max``, and perhaps
            ``criterion`` and ``histogram``), or the values themselves.
        width: Bits.
        signed: Whether the format has a sign; None to leave it out where nothing negative was observed and that makes
            the error smaller.
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
    if signed is None and smallest >= 0:
        return _of_either_sign(points, low, high, width, criterion)
    return _best(_Seen.of(points), low, high, width, signed is not False, criterion)


def _of_either_sign(points: Points | None, low: float, high: float, width: int, criterion: str) -> Choice:
    """Without a sign if that errs less; what was observed has no negative values.

    Of the same width and step, a format without a sign has every number that is not negative of the one with a sign,
    and others, so its error is never larger. A divergence says nothing about numbers that are the same but for a sign
    bit; with ``entropy`` the squared errors at the step of the format without a sign are compared.
    """
    plain, plus = (_best(_Seen.of(points), low, high, width, sign, criterion) for sign in (False, True))
    if criterion == "entropy" and points is not None and points.values.size:
        same = FixedFormat(width, plain.fmt.frac_width, signed=True)
        better = mean_squared_error(points, plain.fmt)[0] < mean_squared_error(points, same)[0]
        return plain if better or plus.fmt != same else plus
    errors = [next(c.error for c in choice.candidates if c.fmt == choice.fmt) for choice in (plain, plus)]
    return plain if errors[0] < errors[1] else plus


class _Seen:
    """Points that are equal to others of the same numbers, for remembering what was chosen for them.

    Searches quantise one graph many times at a few widths, from the same statistics every time.
    """

    def __init__(self, points: Points) -> None:
        self.points = points
        numbers = (points.values, points.counts, np.float64(points.spread))
        self._digest = b"".join(hashlib.sha256(part.tobytes()).digest() for part in numbers)

    @classmethod
    def of(cls, points: Points | None) -> _Seen | None:
        return None if points is None else cls(points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Seen) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


@functools.lru_cache(maxsize=512)
def _best(seen: _Seen | None, low: float, high: float, width: int, signed: bool, criterion: str) -> Choice:
    points = None if seen is None else seen.points
    cover = FixedFormat.covering(low, high, width, signed)
    if criterion == "range" or points is None or not points.values.size or low == high == 0:
        fracs = range(cover.frac_width - 2, cover.frac_width + 4)
        found = [_candidate(points, FixedFormat(width, f, signed), low, high, "range") for f in fracs if _allowed(f)]
        return Choice(cover, criterion, low, high, tuple(found))
    if criterion == "entropy":
        return _by_entropy(points, low, high, cover)
    fracs = range(cover.frac_width - width - 1, cover.frac_width + width + 9)
    found = [_candidate(points, FixedFormat(width, f, signed), low, high, criterion) for f in fracs if _allowed(f)]
    best = min(found, key=lambda c: (c.error, c.mse, c.clipped > 0, -c.fmt.frac_width))
    near = tuple(c for c in found if abs(c.fmt.frac_width - best.fmt.frac_width) <= 3)
    return Choice(best.fmt, criterion, low, high, near)


def _by_entropy(points: Points, low: float, high: float, cover: FixedFormat) -> Choice:
    """The finest format that holds the threshold, made coarser until it errs no more than the one of all values."""
    histogram, width, signed = Symmetric.of(points), cover.width, cover.signed
    levels = 2 ** (width if signed else width + 1)
    threshold = histogram.threshold(levels)
    low, high = (min(max(end, -threshold), threshold) for end in (low, high))
    first = chosen = FixedFormat.covering(low, high, width, signed)
    limit = mean_squared_error(points, cover)[0]
    while chosen.frac_width > cover.frac_width and mean_squared_error(points, chosen)[0] > limit:
        chosen = FixedFormat(width, chosen.frac_width - 1, signed)
    near = range(chosen.frac_width - 3, max(chosen.frac_width, first.frac_width) + 4)
    found = []
    for fmt in (FixedFormat(width, frac, signed) for frac in near if _allowed(frac)):
        error = histogram.divergence(-fmt.min_value if signed else fmt.max_value, levels)
        found.append(Candidate(fmt, error, *mean_squared_error(points, fmt)))
    note = "" if chosen == first else f"coarser than {first}, whose squared error is above that of {cover}"
    return Choice(chosen, "entropy", low, high, tuple(found), note)


def _allowed(frac: int) -> bool:
    return abs(frac) <= MAX_FRAC


def _candidate(points: Points | None, fmt: FixedFormat, low: float, high: float, criterion: str) -> Candidate:
    mse, clipped = math.nan, math.nan
    if points is not None and points.values.size:
        mse, clipped = mean_squared_error(points, fmt)
    if criterion == "mse":
        return Candidate(fmt, mse, mse, clipped)
    fits = fmt.min_mantissa <= round(math.ldexp(low, fmt.frac_width)) and (
        round(math.ldexp(high, fmt.frac_width)) <= fmt.max_mantissa
    )
    return Candidate(fmt, fmt.scale / 2 if fits else math.inf, mse, clipped)


def mean_squared_error(points: Points, fmt: FixedFormat) -> tuple[float, float]:
    """Mean squared error of a format on a distribution, and the share of values it clips.

    A histogram does not show where in its bin a value lies: for steps no wider than a bin, rounding errors are taken
    as uniform, ``step**2 / 12``.
    """
    steps = points.values * math.ldexp(1.0, fmt.frac_width)
    rounded = np.rint(steps)
    codes = np.clip(rounded, fmt.min_mantissa, fmt.max_mantissa)
    errors, clipped = (steps - codes) ** 2, codes != rounded
    if points.spread and fmt.scale <= points.spread:
        errors[~clipped & (points.values != 0)] = 1 / 12
    total = points.counts.sum()
    mean = float((errors * points.counts).sum() / total)
    return mean * fmt.scale**2, float(points.counts[clipped].sum() / total)
