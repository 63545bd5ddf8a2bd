"""Statistics of tensors over a data set, each under its name in MASE's metadata tree.

Every statistic takes one batch after the other. ``variance_online``, ``range_n_sigma`` (by default) and
``range_min_max`` hold a few numbers per tensor; ``record``, ``variance_precise`` and ``range_quantile`` keep all
values.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from mase_hw.host.documents import Json
from mase_hw.passes.analysis.statistics.base import (
    Options,
    RangeOptions,
    Record,
    RecordOptions,
    Statistic,
    check_finite,
)
from mase_hw.passes.analysis.statistics.moments import (
    NSigmaOptions,
    QuantileOptions,
    RangeMinMax,
    RangeNSigma,
    RangeQuantile,
    VarianceOnline,
    VarianceOptions,
    VariancePrecise,
)

__all__ = [
    "STATISTICS",
    "Collection",
    "RangeMinMax",
    "RangeNSigma",
    "RangeQuantile",
    "Record",
    "Statistic",
    "StatisticsConfig",
    "VarianceOnline",
    "VariancePrecise",
]

STATISTICS: dict[str, type[Statistic[Any]]] = {
    kind.name: kind for kind in (Record, VarianceOnline, VariancePrecise, RangeNSigma, RangeQuantile, RangeMinMax)
}
"""Every statistic by its name."""


class StatisticsConfig(BaseModel):
    """Which statistics to take, with their options; a statistic that is not named is not taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    record: RecordOptions | None = Field(default=None, description="all values: ``data``, ``count``")
    variance_online: VarianceOptions | None = Field(
        default=None, description="Welford's variance with constant memory: ``variance``, ``mean``, ``count``"
    )
    variance_precise: VarianceOptions | None = Field(
        default=None, description="variance from all values, which are kept: ``variance``, ``mean``, ``count``"
    )
    range_n_sigma: NSigmaOptions | None = Field(
        default=None, description="mean plus and minus some standard deviations: ``min``, ``max``, ``count``"
    )
    range_quantile: QuantileOptions | None = Field(
        default=None, description="two quantiles of all values, which are kept: ``min``, ``max``, ``count``"
    )
    range_min_max: RangeOptions | None = Field(
        default=None, description="smallest and largest value with constant memory: ``min``, ``max``, ``count``"
    )

    def chosen(self) -> dict[str, Options]:
        """The options of the statistics to take, by name."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: options for name, options in found.items() if options is not None}


class Collection:
    """The chosen statistics of one tensor.

    Args:
        config: Which, and with which options.
        batched: Dimension 0 counts samples (an activation); otherwise the tensor is one sample (a weight).
    """

    def __init__(self, config: StatisticsConfig, batched: bool = True) -> None:
        self._statistics = [STATISTICS[name](options, batched) for name, options in config.chosen().items()]

    def update(self, tensor: Tensor, where: str) -> None:
        """Take in a tensor.

        Raises:
            FormatError: If it has NaN or infinite values; ``where`` names it.
            ConfigError: If an option does not fit it.
        """
        check_finite(tensor, where)
        for statistic in self._statistics:
            statistic.update(tensor, where)

    def results(self) -> dict[str, Json]:
        """The result of every statistic that saw a value, by name."""
        return {s.name: s.result() for s in self._statistics if s.count}
