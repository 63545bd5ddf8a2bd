"""Whether an estimate fits a device, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.cost import unsupported
from mase_hw.cost.devices import RESOURCES, device_of, missing
from mase_hw.emit.estimate import FAMILY
from mase_hw.hardware.memories import BLOCK_BITS
from mase_hw.host.documents import Json

ESTIMATED_BLOCK = BLOCK_BITS
"""Bits of the block RAMs that the estimate counts."""


@dataclass(frozen=True)
class Need:
    """One resource.

    Args:
        resource: ``lut``, ``ff``, ``dsp`` or ``bram``.
        needed: How many the estimate says.
        available: How many there are.
        unknown: What the estimate does not cover, so that it may be more; empty if it covers everything.
    """

    resource: str
    needed: int
    available: int
    unknown: str = ""

    @property
    def exceeds(self) -> bool:
        """Whether there are too few."""
        return self.needed > self.available

    @property
    def fits(self) -> bool:
        """Whether there are enough, as far as an estimate can say that."""
        return not self.exceeds and not self.unknown

    def __str__(self) -> str:
        least = "at least " if self.unknown else ""
        verdict = "fits" if self.fits else "DOES NOT FIT" if self.exceeds else f"NOT KNOWN: {self.unknown}"
        return f"{self.resource}: {least}{self.needed} of {self.available}: {verdict}"


def family_of(device: str | None, made_for: str = "") -> str:
    """The family to estimate for: that of the device, else the one the design is for, where it has a cost model."""
    wanted = made_for if device is None else device_of(device).target
    return FAMILY if unsupported(wanted) else wanted


def needs(estimated: Json, there: Mapping[str, int], block_bits: int, device: str | None = None) -> list[Need]:
    """Compare an estimate with what there is.

    Args:
        estimated: Of :func:`mase_hw.emit.estimate.estimate`.
        there: Numbers by resource.
        block_bits: Bits of a block RAM; where the family is not estimated, smaller ones are counted as many times.
        device: The device that was asked for.
    """
    needed = dict(estimated)
    reasons = []
    if estimated["not_estimated"]:
        reasons.append(f"no estimate of {missing(estimated['not_estimated'])}")
    if device is not None and (reason := unsupported(device_of(device).target)):
        reasons.append(f"{reason}, and these are counts for {FAMILY}")
        needed["bram"] = -(-needed["bram"] * ESTIMATED_BLOCK // block_bits)
    return [Need(name, needed[name], there[name], "; ".join(reasons)) for name in RESOURCES if name in there]
