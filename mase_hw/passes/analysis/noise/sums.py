"""Streaming sums behind one :class:`~mase_hw.passes.analysis.noise.report.Noise`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.numerics import quantize
from mase_hw.passes.analysis.noise.record import Noise
from mase_hw.passes.evaluation.criteria import decibels


@dataclass
class NoiseSums:
    """Sums in float64 over the elements seen; one batch is in memory at a time.

    Args:
        fmt: Format of the results; None of a node in float.
        overflow: What the node does beyond its format.
    """

    fmt: FixedFormat | None = None
    overflow: Overflow = Overflow.SATURATE
    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    power: float = 0.0
    product: float = 0.0
    absolute: float = 0.0
    worst: float = 0.0
    saturated: int = 0
    low: int = 0
    high: int = 0

    @classmethod
    def of(cls, arithmetic: Arithmetic | None) -> NoiseSums:
        """Sums for the results of a node."""
        if arithmetic is None:
            return cls()
        return cls(arithmetic.formats["data_out_0"], arithmetic.overflow)

    def update(self, exact: Tensor, found: Tensor, name: str) -> None:
        """Take in a batch of float results and of quantised ones; same shape.

        Raises:
            FormatError: If the float result is NaN or infinite.
        """
        want, got = exact.detach().double(), found.detach().double()
        if want.numel() == 0:
            return
        if not bool(want.isfinite().all()):
            raise FormatError(
                "the float network gives a value that is not finite",
                node=name,
                remedy="look for NaN or infinity in the data or the weights",
            )
        error = (got - want).abs()
        self.count += want.numel()
        self.signal += float(want.square().sum())
        self.power += float(got.square().sum())
        self.noise += float(error.square().sum())
        self.product += float((want * got).sum())
        self.absolute += float(error.sum())
        self.worst = max(self.worst, float(error.max()))
        if self.fmt is not None:
            self._format(self.fmt, want, got)

    def _format(self, fmt: FixedFormat, want: Tensor, got: Tensor) -> None:
        over = want > fmt.max_value + fmt.scale / 2
        under = want < fmt.min_value - fmt.scale / 2
        mantissas = quantize(got, fmt)
        if self.overflow is Overflow.SATURATE:
            over, under = over & (mantissas == fmt.max_mantissa), under & (mantissas == fmt.min_mantissa)
        self.saturated += int((over | under).sum())
        self.low = min(self.low, int(mantissas.min()) - fmt.zero_point)
        self.high = max(self.high, int(mantissas.max()) - fmt.zero_point)

    def result(self) -> Noise:
        """The figures of everything taken in."""
        if self.power == self.signal == 0.0:
            cosine = 1.0
        elif 0.0 in (self.power, self.signal):
            cosine = 0.0
        else:
            cosine = self.product / math.sqrt(self.signal) / math.sqrt(self.power)
        count = max(1, self.count)
        return Noise(
            sqnr_db=decibels(self.signal, self.noise),
            cosine=max(-1.0, min(1.0, cosine)),
            mean_abs=self.absolute / count,
            max_abs=self.worst,
            saturation=self.saturated / count,
            used_bits=self._used_bits(),
        )

    def _used_bits(self) -> int | None:
        if self.fmt is None:
            return None
        if self.fmt.zero_point:  # which another format may put elsewhere, so that all codes count
            return max(1, (self.high - self.low).bit_length())
        bits = max(self.high.bit_length(), (-self.low - 1).bit_length() if self.low < 0 else 0)
        return max(1, bits + int(self.fmt.signed))
