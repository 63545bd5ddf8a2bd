"""Mean and variance: online in constant memory, or precise from all values.

Both accumulate in float64 and give the population's variance unless ``correction`` says otherwise, so they agree
with each other and with ``numpy.var``.

Sources: B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics
4(3), 1962, generalised from one value to whole batches by T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating
formulae and a pairwise algorithm for computing sample variances", COMPSTAT 1982. The corrected two-pass algorithm
is from the same authors' "Algorithms for computing the sample variance", The American Statistician 37(3), 1983.

Ranges: from the smallest to the largest value, and between two quantiles.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeVar

import numpy as np
import torch
from pydantic import AliasChoices, Field
from torch import Tensor

from mase_hw.host.documents import Json
from mase_hw.passes.analysis.statistics.base import RangeOptions, Reducing, ReducingOptions, Statistic, check_bounds

_BLOCK = 1 << 20
"""Values converted to float64 at a time; fixed, so that a result does not depend on how the data came."""


class VarianceOptions(ReducingOptions):
    """Options of a variance."""

    correction: int = Field(
        default=0,
        ge=0,
        description="the sum of squares is divided by ``count - correction``; 1 gives the unbiased estimate",
    )


AnyVariance = TypeVar("AnyVariance", bound=VarianceOptions)


class Moments(Reducing[AnyVariance]):
    """Mean and sum of squared deviations of every row."""

    keys = ("variance", "mean", "count")

    @abstractmethod
    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and sum of squared deviations, float64, one a row."""

    def mean_and_variance(self) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of every row; None for too few values."""
        degrees = self.count - self.options.correction
        if degrees < 1:
            return None
        mean, squares = self.moments()
        return mean, squares / degrees

    def result(self) -> Json:
        """``variance``, ``mean`` and ``count`` (values per row); both ``"NA"``, as in MASE, for too few values."""
        found = self.mean_and_variance()
        if found is None:
            return {"variance": "NA", "mean": "NA", "count": self.count}
        return {"variance": self.listed(found[1]), "mean": self.listed(found[0]), "count": self.count}


class VarianceOnline(Moments[VarianceOptions]):
    """Welford's algorithm, batch by batch as Chan et al. merge it; holds two numbers per row."""

    name = "variance_online"

    def __init__(self, options: VarianceOptions | None = None, batched: bool = True) -> None:
        super().__init__(options or VarianceOptions(), batched)
        self._mean: Tensor | None = None
        self._squares: Tensor | None = None

    def merge(self, rows: Tensor, where: str) -> None:
        """Merge the batch's own mean and sum of squares with those so far."""
        new = rows.shape[1]
        mean, squares = two_pass([rows])
        if self._mean is None or self._squares is None:
            self._mean, self._squares = mean, squares
            return
        total = self.count + new
        delta = mean - self._mean
        self._mean = self._mean + delta * (new / total)
        self._squares = self._squares + squares + delta * delta * (self.count * new / total)

    def moments(self) -> tuple[Tensor, Tensor]:
        """What was accumulated."""
        assert self._mean is not None and self._squares is not None  # asked only when count > 0
        return self._mean, self._squares


class VariancePrecise(Moments[VarianceOptions]):
    """Two passes over all values, which are kept until then; the same bits however the data is cut."""

    name = "variance_precise"

    def __init__(self, options: VarianceOptions | None = None, batched: bool = True) -> None:
        super().__init__(options or VarianceOptions(), batched)
        self._seen: list[Tensor] = []

    def merge(self, rows: Tensor, where: str) -> None:
        """Keep the values; a copy, as later operations may write the tensor."""
        self._seen.append(rows.clone())

    def moments(self) -> tuple[Tensor, Tensor]:
        """Both passes over everything."""
        self._seen = [torch.cat(self._seen, dim=1)]
        return two_pass(self._seen)


def two_pass(pieces: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations of every row, by the corrected two-pass algorithm in float64."""
    step = max(1, _BLOCK // pieces[0].shape[0])
    blocks = [p[:, start : start + step] for p in pieces for start in range(0, p.shape[1], step)]
    count = sum(b.shape[1] for b in blocks)
    mean = _total([b.double().sum(1) for b in blocks]) / count
    deviations = [((d := b.double() - mean[:, None]).sum(1), (d * d).sum(1)) for b in blocks]
    first, second = (_total([d[i] for d in deviations]) for i in range(2))
    return mean, second - first * first / count


def _total(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


class NSigmaOptions(RangeOptions, VarianceOptions):
    """Options of the n-sigma range."""

    num_sigma: float = Field(
        default=3,
        ge=0,
        validation_alias=AliasChoices("num_sigma", "n_sigma"),
        description="half the width of the range in standard deviations",
    )
    var_mode: Literal["online", "precise"] = Field(
        default="online", description="which variance is used: one pass with constant memory, or all values kept"
    )


class RangeNSigma(Statistic[NSigmaOptions]):
    """Mean plus and minus some standard deviations; covers 99.7 % of a normal distribution for three."""

    name = "range_n_sigma"
    keys = ("min", "max", "count")

    def __init__(self, options: NSigmaOptions | None = None, batched: bool = True) -> None:
        super().__init__(options or NSigmaOptions(), batched)
        kind = VarianceOnline if self.options.var_mode == "online" else VariancePrecise
        self._variance: VarianceOnline | VariancePrecise = kind(self.options, batched)

    def take(self, tensor: Tensor, where: str) -> None:
        """Hand the tensor on."""
        self._variance.take(tensor.abs() if self.options.abs else tensor, where)
        self.count = self._variance.count

    def result(self) -> Json:
        """``min``, ``max`` and ``count`` (values per row); ``"NA"``, as in MASE, for too few values."""
        found = self._variance.mean_and_variance()
        if found is None:
            return {"min": "NA", "max": "NA", "count": self.count}
        mean, variance = found
        reach = self.options.num_sigma * variance.sqrt()
        low, high = (self._variance.listed(bound) for bound in (mean - reach, mean + reach))
        return {"min": low, "max": high, "count": self.count}


class RangeMinMax(Reducing[RangeOptions]):
    """Smallest and largest value; exact and online. NaN and infinity are refused."""

    name = "range_min_max"
    keys = ("min", "max", "count")

    def __init__(self, options: RangeOptions | None = None, batched: bool = True) -> None:
        super().__init__(options or RangeOptions(), batched)
        self._low: Tensor | None = None
        self._high: Tensor | None = None

    def merge(self, rows: Tensor, where: str) -> None:
        """Merge the bounds of every row."""
        rows = rows.abs() if self.options.abs else rows
        if rows.shape[0] == 1:
            low, high = (bound.reshape(1) for bound in torch.aminmax(rows))
        else:
            low, high = rows.amin(1), rows.amax(1)  # ten times as fast as torch.aminmax along a dimension
        check_bounds(low, high, where)
        self._low = low if self._low is None else torch.minimum(self._low, low)
        self._high = high if self._high is None else torch.maximum(self._high, high)

    def result(self) -> Json:
        """``min``, ``max`` and ``count`` (values per row)."""
        assert self._low is not None and self._high is not None  # asked only when count > 0
        return {"min": self.listed(self._low), "max": self.listed(self._high), "count": self.count}


class QuantileOptions(RangeOptions):
    """Options of the quantile range."""

    quantile: float = Field(
        default=0.975, ge=0.5, le=1, description="the upper bound; the lower bound is ``1 - quantile``"
    )


class RangeQuantile(Reducing[QuantileOptions]):
    """The range between two quantiles, linearly interpolated in float64 as ``numpy.quantile`` does.

    Exact, so all values are kept: which ones are needed is known only at the end.
    """

    name = "range_quantile"
    keys = ("min", "max", "count")

    def __init__(self, options: QuantileOptions | None = None, batched: bool = True) -> None:
        super().__init__(options or QuantileOptions(), batched)
        self._seen: list[Tensor] = []

    def merge(self, rows: Tensor, where: str) -> None:
        """Keep the values; a copy, as later operations may write the tensor."""
        self._seen.append(rows.abs() if self.options.abs else rows.clone())

    def result(self) -> Json:
        """``min``, ``max`` and ``count`` (values per row)."""
        self._seen = [torch.cat(self._seen, dim=1)]
        upper = self.options.quantile
        # numpy, because torch.quantile takes no more than 16 million values.
        values = self._seen[0].double().cpu().numpy()
        low, high = (torch.as_tensor(b) for b in np.quantile(values, [1 - upper, upper], axis=1))
        return {"min": self.listed(low), "max": self.listed(high), "count": self.count}
