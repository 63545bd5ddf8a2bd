"""Whether an estimate fits a device, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.emit.estimate import BLOCK_BITS
from mase_hw.errors import ConfigError, suggest
from mase_hw.synth.targets import DEVICES, TARGETS

ESTIMATED_BLOCK = BLOCK_BITS
"""Bits of the block RAMs that the estimate counts."""
RESOURCES = ("lut", "ff", "dsp", "bram")


@dataclass(frozen=True)
class Need:
    """One resource.

    Args:
        resource: ``lut``, ``ff``, ``dsp`` or ``bram``.
        needed: How many the estimate says.
        available: How many there are.
    """

    resource: str
    needed: int
    available: int

    @property
    def fits(self) -> bool:
        """Whether there are enough."""
        return self.needed <= self.available


def available(device: str | None, limits: Mapping[str, int | None]) -> tuple[dict[str, int], int]:
    """What there is: of a device, and numbers, which count before those of the device.

    Args:
        device: Its name; None for no device.
        limits: Numbers by resource; None for no limit.

    Returns:
        Numbers by resource, and the bits of a block RAM.

    Raises:
        ConfigError: If there is no such device or resource, or a number is negative.
    """
    for resource, number in limits.items():
        if resource not in RESOURCES:
            raise ConfigError("unknown resource", field="limits", got=resource, remedy=suggest(resource, RESOURCES))
        if number is not None and number < 0:
            raise ConfigError("a budget cannot be negative", field=resource, got=number, expected=">= 0")
    found, bits = {}, ESTIMATED_BLOCK
    if device is not None:
        known = DEVICES.get(device.lower())
        if known is None:
            raise ConfigError("unknown device", field="device", got=device, remedy=suggest(device.lower(), DEVICES))
        found, bits = known.capacity(), TARGETS[known.target].block_bits
    return {**found, **{name: number for name, number in limits.items() if number is not None}}, bits


def needs(estimated: Mapping[str, int], there: Mapping[str, int], block_bits: int) -> list[Need]:
    """Compare an estimate with what there is.

    Args:
        estimated: Of :func:`mase_hw.emit.estimate.estimate`.
        there: Numbers by resource.
        block_bits: Bits of a block RAM; smaller ones are counted as many times.
    """
    needed = dict(estimated)
    needed["bram"] = -(-needed["bram"] * ESTIMATED_BLOCK // block_bits)
    return [Need(name, needed[name], there[name]) for name in RESOURCES if name in there]
