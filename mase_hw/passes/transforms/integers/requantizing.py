"""How numbers get another scale: the settings of a requantisation, in one place for all that put one."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mase_hw.formats import MULTIPLIER_BITS, FixedFormat, Multipliers, Rounding
from mase_hw.opdef import Arithmetic
from mase_hw.ops.requantize import requantization, requantization_by


@dataclass(frozen=True)
class Requantizing:
    """Settings of a requantisation; as the arguments of :func:`mase_hw.ops.requantize.requantization`.

    Args:
        rounding: Of the product; with ``twice``, ``half_away``.
        bits: Bits of the largest multiplier.
        exact: Every channel has a multiplier of all bits, as in TensorFlow Lite.
        twice: TensorFlow Lite's two roundings.
        found: Multipliers that are known; of the others only the rounding counts then.
    """

    rounding: Rounding = Rounding.HALF_EVEN
    bits: int = MULTIPLIER_BITS
    exact: bool = False
    twice: bool = False
    found: Multipliers | None = None

    def between(self, have: FixedFormat, want: FixedFormat) -> tuple[Arithmetic, dict[str, Tensor]]:
        """Arithmetic and parameters of the requantisation from one format to another.

        Raises:
            FormatError: Scales too far apart.
        """
        if self.found is not None:
            return requantization_by(have, want, self.found, self.rounding)
        return requantization(have, want, bits=self.bits, rounding=self.rounding, exact=self.exact, twice=self.twice)
