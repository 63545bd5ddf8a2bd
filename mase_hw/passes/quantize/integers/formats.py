"""Scales and zero points from what was observed.

The width is given; what is chosen is the range, from which the scale follows: the observed one, or the part of it that
minimises the mean squared error, rounding and clipping together. Scales are float32 numbers, as files keep them, so
that the product of two is a float64 number exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import ScaledFormat, steps_of
from mase_hw.host.documents import Json
from mase_hw.passes.quantize.calibration.choose import Symmetric
from mase_hw.passes.quantize.calibration.observers import Histogram, Points
from mase_hw.passes.quantize.formats import check_weight_method

SHARES = tuple(1 - 0.02 * k for k in range(46))
"""Shares of the observed range that are tried, largest first."""


def of_range(low: float, high: float, width: int, signed: bool | None, affine: bool) -> ScaledFormat:
    """The format whose numbers cover a range, with 0 among them.

    Args:
        low: Its lower end.
        high: Its upper end.
        width: Bits.
        signed: Whether mantissas have a sign; None to leave it out where nothing is negative.
        affine: With a zero point, so that both ends are used; else 0 has the mantissa 0.

    Raises:
        FormatError: A range that is not finite, or a negative one without a sign and without a zero point.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        raise FormatError("the observed range is not finite", got=f"[{low}, {high}]", expected="two finite numbers")
    low, high = min(low, 0.0), max(high, 0.0)
    plus = low == 0.0 if signed is None else not signed
    first, last = (0, (1 << width) - 1) if plus else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if affine and low < 0.0:
        scale = _float32((high - low) / (last - first))
        return ScaledFormat.make(width, scale, min(max(round(first - low / scale), first), last), signed=not plus)
    if plus and low < 0.0:
        raise FormatError("an unsigned format cannot hold a negative range", got=low, expected="low >= 0")
    # One bit with a sign has -1 and 0.
    return ScaledFormat.make(width, _float32(max(high, -low) / max(last, 1)), signed=not plus)


def aligned(fmt: ScaledFormat, step: Fraction) -> ScaledFormat:
    """As many numbers over the same range, or up to twice of it, with a step that is a power of two of another one.

    Args:
        fmt: A format with one scale.
        step: The other step.
    """
    (own,) = steps_of(fmt)
    ratio = own / step
    power = ratio.numerator.bit_length() - ratio.denominator.bit_length() - 1
    while Fraction(2) ** power < ratio:
        power += 1
    scale, first = float(step * Fraction(2) ** power), fmt.mantissas.min_mantissa
    zero = fmt.zero_point
    if zero:
        zero = min(max(round(first - (first - zero) * fmt.scale / scale), first), fmt.mantissas.max_mantissa)
    return ScaledFormat.make(fmt.width, scale, zero, signed=fmt.signed)


def _float32(scale: float) -> float:
    found = float(np.float32(scale))
    return found if found > 0.0 and math.isfinite(found) else 1.0


def from_statistics(
    statistics: Json | Points, width: int, signed: bool | None, affine: bool
) -> tuple[ScaledFormat, str]:
    """The format of data from what calibration recorded, and why.

    Raises:
        ConfigError: A method that chooses among powers of two only.
    """
    if isinstance(statistics, Points):
        points: Points | None = statistics
        values = statistics.values
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        criterion = "mse"
    else:
        histogram = statistics.get("histogram")
        points = Histogram.from_state(histogram).points() if histogram is not None else None
        low, high = (float(statistics[k if k in statistics else o]) for k, o in (("low", "min"), ("high", "max")))
        criterion = str(statistics.get("criterion") or "range")
    reason = f"observed [{low:.6g}, {high:.6g}]"
    if signed is False and low < 0 and not affine:
        low = 0.0  # what a reader that gives 0 for negative numbers leaves
    if criterion == "entropy" and points is not None:
        threshold = Symmetric.of(points).threshold(2 ** (width if low < 0 else width + 1))
        low, high = max(low, -threshold), min(high, threshold)
        reason += f", entropy [{low:.6g}, {high:.6g}]"
    elif criterion == "mse" and points is not None and points.values.size and low < high:
        found = [of_range(low * share, high * share, width, signed, affine) for share in SHARES]
        errors = [squared_error(points, fmt) for fmt in found]
        best = int(np.argmin(errors))
        return found[best], f"{reason}, mse with {round(100 * SHARES[best])} % of it"
    return of_range(low, high, width, signed, affine), reason


def squared_error(points: Points, fmt: ScaledFormat) -> float:
    """Mean squared error of a format on a distribution, as :mod:`mase_hw.passes.quantize.calibration.choose` has it."""
    steps = points.values / fmt.scale
    codes = np.clip(np.rint(steps), fmt.min_mantissa - fmt.zero_point, fmt.max_mantissa - fmt.zero_point)
    errors = (steps - codes) ** 2
    if points.spread and fmt.scale <= points.spread:
        # Where in its bin a value lies is not known.
        errors[(np.abs(steps - codes) <= 0.5) & (points.values != 0)] = 1 / 12
    return float((errors * points.counts).sum() / points.counts.sum()) * fmt.scale**2


def of_weights(
    node: str, weight: Tensor, width: int, *, channels: bool, affine: bool, narrow: bool, method: str
) -> tuple[ScaledFormat, str]:
    """The format of weights, with a scale for every index of their first dimension or one for all.

    An *affine* range has a zero point of its own in every channel. What the hardware stores are the integers less
    it, which need one bit more, and whose limits say what the ``width`` bits of a channel can be.

    Raises:
        ConfigError: If the method looks at more than the weights.
        FormatError: If a weight is not finite.
    """
    check_weight_method(node, method)
    rows = weight.detach().double().cpu().reshape(weight.shape[0] if channels else 1, -1).numpy()
    if not np.isfinite(rows).all():
        raise FormatError("a weight is not finite", node=f"{node}.weight", expected="finite numbers")
    narrow = narrow and not affine and width >= 2
    found = [_of_row(row, width, affine, narrow, method) for row in rows]
    scales = [scale for scale, _, _ in found]
    reason = f"{'per output channel' if channels else 'for the tensor'} by {method}{', affine' if affine else ''}"
    if affine:
        limits = ([low for _, low, _ in found], [high for _, _, high in found])
        return ScaledFormat.make(width + 1, scales, low=limits[0], high=limits[1]), reason
    return ScaledFormat.make(width, scales, narrow=narrow), reason


def _of_row(row: np.ndarray[Any, Any], width: int, affine: bool, narrow: bool, method: str) -> tuple[float, int, int]:
    """Scale and limits of the weights of one channel."""
    low, high = (min(float(row.min()), 0.0), max(float(row.max()), 0.0)) if row.size else (0.0, 0.0)
    if low == high:
        return 1.0, 0, 0 if affine else 1
    tried = list(_ranges(low, high, width, affine, narrow, SHARES if method == "mse" else (1.0,)))
    if len(tried) == 1:
        return tried[0]
    scales, lows, highs = (np.array(each)[:, None] for each in zip(*tried, strict=True))
    steps = row[None] / scales
    errors = ((np.clip(np.rint(steps), lows, highs) - steps) ** 2).sum(1) * scales[:, 0] ** 2
    return tried[int(np.argmin(errors))]


def _ranges(
    low: float, high: float, width: int, affine: bool, narrow: bool, shares: tuple[float, ...]
) -> Iterator[tuple[float, int, int]]:
    """Scales with the smallest and the largest integer, for shares of a range."""
    for share in shares:
        if affine:
            last = (1 << width) - 1
            scale = _float32((high - low) * share / last)
            zero = min(max(round(-low * share / scale), 0), last)
            yield scale, -zero, last - zero
        else:
            last = (1 << (width - 1)) - 1
            scale = _float32(max(high, -low) * share / max(last, 1))
            yield scale, -last - (0 if narrow else 1), last


def of_bias(bias: Tensor, folded: Tensor, scales: list[float], limit: int) -> ScaledFormat:
    """The format of a bias at the scale of the products, as wide as its integers are.

    Args:
        bias: Floats of shape ``(out,)``.
        folded: What the zero point of the data takes off each, as integers.
        scales: Scale of the products, of every channel or of all.
        limit: Most bits; what is beyond saturates.
    """
    exact = bias.detach().double().cpu() / torch.tensor(scales, dtype=torch.float64)
    if not bool(torch.isfinite(exact).all()):
        raise FormatError("a bias is not finite", expected="finite numbers")
    integers = exact.round()
    largest = int(max(integers.abs().max(), (integers - folded.cpu()).abs().max())) if exact.numel() else 0
    return ScaledFormat.make(min(max(2, largest.bit_length() + 1), limit), scales)
