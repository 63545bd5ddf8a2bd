"""Calibration methods: what each keeps of a tensor while the data passes, and what it concludes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from mase_hw.passes.analysis.calibration.histogram import Histogram
from mase_hw.passes.analysis.statistics.base import check_bounds

Method = Literal["min_max", "moving_average", "percentile", "entropy", "mse"]


class MethodOptions(BaseModel):
    """Options of the methods."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    momentum: float = Field(
        default=0.9, ge=0, lt=1, description="of ``moving_average``: weight of the past at every batch"
    )
    percentile: float = Field(
        default=99.99,
        gt=50,
        le=100,
        description="of ``percentile``: upper end of the range in percent; the lower end is 100 minus this",
    )


class Observer(ABC):
    """What a method keeps of one tensor; every method also knows the exact range and the number of values."""

    method: ClassVar[str]

    def __init__(self, options: MethodOptions) -> None:
        self.options = options
        self.low = self.high = 0.0
        self.count = 0

    def update(self, tensor: Tensor, where: str) -> None:
        """Take in a batch; an empty one changes nothing.

        Raises:
            FormatError: If it has NaN or infinite values; ``where`` names it.
        """
        if tensor.numel() == 0 or tensor.is_complex():
            return
        tensor = tensor.detach()
        tensor = tensor.to(torch.uint8) if tensor.dtype is torch.bool else tensor
        bounds = torch.aminmax(tensor)
        check_bounds(bounds.min, bounds.max, where)
        low, high = float(bounds.min), float(bounds.max)
        self.take(tensor, low, high)
        first = self.count == 0
        self.low = low if first else min(self.low, low)
        self.high = high if first else max(self.high, high)
        self.count += tensor.numel()

    def take(self, tensor: Tensor, low: float, high: float) -> None:
        """Take in a batch with values, whose range is given; ``count`` is that before."""
        return  # the range alone is enough for some

    @abstractmethod
    def conclude(self) -> dict[str, Any]:
        """What :func:`choose_format` needs beyond the range."""

    def range(self) -> dict[str, Any]:
        """Smallest and largest value, and how many there were."""
        return {"min": self.low, "max": self.high, "count": self.count}

    def result(self) -> dict[str, Any]:
        """The record from which a format is chosen; plain numbers."""
        return {**self.range(), "method": self.method, **self.conclude()}

    def state(self) -> dict[str, Any]:
        """All that is needed to go on later; plain numbers."""
        return self.range()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.low, self.high, self.count = float(state["min"]), float(state["max"]), int(state["count"])


class MinMax(Observer):
    """The exact range."""

    method = "min_max"

    def conclude(self) -> dict[str, Any]:
        """The range itself."""
        return {"criterion": "range"}


class MovingAverage(Observer):
    """Ends of the batches' ranges, averaged exponentially; depends on how the data is cut into batches."""

    method = "moving_average"

    def __init__(self, options: MethodOptions) -> None:
        super().__init__(options)
        self.ends = (0.0, 0.0)

    def take(self, tensor: Tensor, low: float, high: float) -> None:
        """``average = momentum * average + (1 - momentum) * batch``; the first batch as it is."""
        m = self.options.momentum
        old = self.ends if self.count else (low, high)
        self.ends = (m * old[0] + (1 - m) * low, m * old[1] + (1 - m) * high)

    def conclude(self) -> dict[str, Any]:
        """The averaged range."""
        return {"criterion": "range", "low": self.ends[0], "high": self.ends[1]}

    def state(self) -> dict[str, Any]:
        """With the averages."""
        return {**super().state(), "ends": list(self.ends)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """With the averages."""
        super().restore(state)
        self.ends = (float(state["ends"][0]), float(state["ends"][1]))


class _Counting(Observer):
    """Methods that look at a histogram."""

    def __init__(self, options: MethodOptions) -> None:
        super().__init__(options)
        self.histogram = Histogram()

    def take(self, tensor: Tensor, low: float, high: float) -> None:
        """Count the values."""
        self.histogram.update(tensor)

    def conclude(self) -> dict[str, Any]:
        """The histogram; the criterion has the name of the method."""
        return {"criterion": self.method, "histogram": self.histogram.state()}

    def state(self) -> dict[str, Any]:
        """With the histogram."""
        return {**super().state(), "histogram": self.histogram.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """With the histogram."""
        super().restore(state)
        self.histogram = Histogram.from_state(state["histogram"])


class Percentile(_Counting):
    """The range between two percentiles, rounded outwards to bins of the histogram, within the observed range."""

    method = "percentile"

    def conclude(self) -> dict[str, Any]:
        """The clipped range and the histogram, which shows what is clipped."""
        share = self.options.percentile / 100
        low = max(self.low, self.histogram.quantile(1 - share, upper=False))
        high = min(self.high, self.histogram.quantile(share, upper=True))
        return {"criterion": "range", "low": low, "high": high, "histogram": self.histogram.state()}


class Entropy(_Counting):
    """The whole distribution, for the smallest loss of information."""

    method = "entropy"


class Mse(_Counting):
    """The whole distribution, for the smallest mean squared error."""

    method = "mse"


OBSERVERS: dict[str, type[Observer]] = {kind.method: kind for kind in (MinMax, MovingAverage, Percentile, Entropy, Mse)}
"""Every method by its name."""
