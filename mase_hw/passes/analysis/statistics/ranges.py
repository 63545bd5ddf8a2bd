"""Ranges: from the smallest to the largest value, and between two quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from mase_hw.passes.analysis.statistics.base import RangeOptions, Reducing, check_bounds


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

    def result(self) -> dict[str, Any]:
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

    def result(self) -> dict[str, Any]:
        """``min``, ``max`` and ``count`` (values per row)."""
        self._seen = [torch.cat(self._seen, dim=1)]
        upper = self.options.quantile
        # numpy, because torch.quantile takes no more than 16 million values.
        values = self._seen[0].double().cpu().numpy()
        low, high = (torch.as_tensor(b) for b in np.quantile(values, [1 - upper, upper], axis=1))
        return {"min": self.listed(low), "max": self.listed(high), "count": self.count}
