"""Calibration methods: what each keeps of a tensor while the data passes, and what it concludes.

A few frames of the calibration data, kept for what needs real inputs later; evenly spread, whatever its size.

A histogram whose bins are powers of two wide, so that any two of them merge exactly.

Bin ``i`` counts the values in ``[i * 2**e, (i + 1) * 2**e)`` for ``-BINS <= i < BINS``. ``e`` is the smallest exponent
for which all values seen so far have a bin; when a value does not, neighbouring bins are added until it does. As
``floor(x / 2**(e+1)) == floor(floor(x / 2**e) / 2)``, the result does not depend on how the data was cut into batches.
Zeros are counted apart: they are exact in every format, and a rectified tensor is full of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from mase_hw.ir.evaluate import Values
from mase_hw.ir.graph import MaseGraph
from mase_hw.passes.analysis.statistics.base import check_bounds

KEPT = "calibration_frames"
"""Where a graph has them: ``graph.meta[KEPT]``, inputs by name of the model's input, frames along dimension 0."""
MOST = 32


class StoredTensor(TypedDict):
    """A tensor as JSON types."""

    dtype: str
    shape: list[int]
    values: Any


class SampleState(TypedDict):
    """Where a :class:`FrameSample` stands, as JSON types."""

    stride: int
    seen: int
    kept: list[dict[str, StoredTensor]]


class HistogramState(TypedDict):
    """The occupied bins of a :class:`Histogram` and what is in them, and the zeros, which are in none."""

    exponent: int | None
    zeros: int
    bins: list[int]
    counts: list[int]


class Range(TypedDict):
    """Smallest and largest value, and how many there were."""

    min: float
    max: float
    count: int


class Conclusion(TypedDict, total=False):
    """What a format is chosen by beyond the exact range."""

    criterion: str
    low: float
    high: float
    histogram: HistogramState


class Observed(Range, Conclusion):
    """What calibration records of a tensor."""

    method: str


class ObserverState(Range, total=False):
    """What an :class:`Observer` goes on from."""

    ends: list[float]
    histogram: HistogramState


class FrameSample:
    """Every n-th frame of a stream of batches, where n doubles whenever there are too many.

    Args:
        graph: A graph with common metadata; a frame has the shapes of its example.
        before: What :meth:`state` of an earlier sample gave, to go on with.
    """

    def __init__(self, graph: MaseGraph, before: SampleState | None = None) -> None:
        self._steps: dict[str, int] = {}
        self._names: dict[str, str] = {}
        for node in graph.nodes:
            if node.op == "placeholder" and "data_out_0" in graph.meta_of(node).common.results.tensors:
                shape = graph.tensor(node, "data_out_0").shape
                self._steps[node.name] = shape[0] if shape else 1
                self._names[node.name] = str(node.target)
        self._stride, self._seen = 1, 0
        self._kept: list[dict[str, Tensor]] = []
        if before:
            self._stride, self._seen = int(before["stride"]), int(before["seen"])
            self._kept = [{name: _tensor(entry) for name, entry in frame.items()} for frame in before["kept"]]

    def add(self, inputs: Values) -> None:
        """Look at a batch: values by name of the placeholder, as the passes know them."""
        given = {name: inputs.get(name) for name in self._steps}
        tensors = {name: value.detach() for name, value in given.items() if isinstance(value, Tensor)}
        counts = {tensor.shape[0] // self._steps[name] if tensor.dim() else 0 for name, tensor in tensors.items()}
        if len(counts) != 1 or len(tensors) != len(self._steps):
            return  # no frames one after the other
        (count,) = counts
        for frame in range(-self._seen % self._stride, count, self._stride):
            if (self._seen + frame) % self._stride:
                continue  # the stride has doubled meanwhile
            cut = {name: (frame * step, (frame + 1) * step) for name, step in self._steps.items()}
            self._kept.append({name: tensors[name][a:b].clone() for name, (a, b) in cut.items()})
            if len(self._kept) > MOST:
                self._kept, self._stride = self._kept[::2], 2 * self._stride
        self._seen += count

    def state(self) -> SampleState:
        """Where the sample stands, as JSON types."""
        kept = [{name: _entry(tensor) for name, tensor in frame.items()} for frame in self._kept]
        return {"stride": self._stride, "seen": self._seen, "kept": kept}

    def stacked(self) -> dict[str, Tensor]:
        """What was kept, by name of the model's input; empty if there is nothing."""
        if not self._kept:
            return {}
        return {target: torch.cat([kept[name] for kept in self._kept]) for name, target in self._names.items()}


def _entry(tensor: Tensor) -> StoredTensor:
    values = tensor.detach().cpu()
    return {"dtype": str(values.dtype).removeprefix("torch."), "shape": list(values.shape), "values": values.tolist()}


def _tensor(entry: StoredTensor) -> Tensor:
    dtype = getattr(torch, entry["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype {entry['dtype']}")
    return torch.tensor(entry["values"], dtype=dtype).reshape(entry["shape"])


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

    def state(self) -> HistogramState:
        """All of it as plain numbers; only the occupied bins."""
        at = np.flatnonzero(self.counts)
        return {
            "exponent": self.exponent,
            "zeros": self.zeros,
            "bins": (at - BINS).tolist(),
            "counts": self.counts[at].tolist(),
        }

    @classmethod
    def from_state(cls, state: HistogramState) -> Histogram:
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
    def conclude(self) -> Conclusion:
        """What :func:`choose_format` needs beyond the range."""

    def range(self) -> Range:
        """Smallest and largest value, and how many there were."""
        return {"min": self.low, "max": self.high, "count": self.count}

    def result(self) -> Observed:
        """The record from which a format is chosen; plain numbers."""
        return {**self.range(), "method": self.method, **self.conclude()}

    def state(self) -> ObserverState:
        """All that is needed to go on later; plain numbers."""
        return {"min": self.low, "max": self.high, "count": self.count}

    def restore(self, state: ObserverState) -> None:
        """Go on from a :meth:`state`."""
        self.low, self.high, self.count = float(state["min"]), float(state["max"]), int(state["count"])


class MinMax(Observer):
    """The exact range."""

    method = "min_max"

    def conclude(self) -> Conclusion:
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

    def conclude(self) -> Conclusion:
        """The averaged range."""
        return {"criterion": "range", "low": self.ends[0], "high": self.ends[1]}

    def state(self) -> ObserverState:
        """With the averages."""
        return {**super().state(), "ends": list(self.ends)}

    def restore(self, state: ObserverState) -> None:
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

    def conclude(self) -> Conclusion:
        """The histogram; the criterion has the name of the method."""
        return {"criterion": self.method, "histogram": self.histogram.state()}

    def state(self) -> ObserverState:
        """With the histogram."""
        return {**super().state(), "histogram": self.histogram.state()}

    def restore(self, state: ObserverState) -> None:
        """With the histogram."""
        super().restore(state)
        self.histogram = Histogram.from_state(state["histogram"])


class Percentile(_Counting):
    """The range between two percentiles, rounded outwards to bins of the histogram, within the observed range."""

    method = "percentile"

    def conclude(self) -> Conclusion:
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
