"""What every device of a design takes, once it is known what stands between its layers and at the ends of its links."""

from __future__ import annotations

from mase_hw.cost.devices import Resources
from mase_hw.cost.links import receiving, sending
from mase_hw.cost.model import cost_of
from mase_hw.devices.design import DevicesDesign
from mase_hw.devices.fit import DevicesFit
from mase_hw.emit.estimate import estimate


def taken(design: DevicesDesign, family: str) -> dict[int, Resources]:
    """What the devices take by the estimates: their bundles, FIFOs included, and the ends of their links.

    Args:
        design: On several devices.
        family: A family with a cost model.

    Returns:
        By the number of the device.

    Raises:
        ConfigError: If there is no model of the family.
    """
    found: dict[int, Resources] = {}
    for number, each in design.designs.items():
        use = estimate(each.record, family)
        left = tuple(module for module, n in use["not_estimated"].items() for _ in range(n))
        found[number] = Resources(use["lut"], use["ff"], use["dsp"], use["bram"], left)
    lanes = {i.name: cost_of(i.module, i.parameters, family) for i in design.whole.record.instances}
    for link in design.record.links:
        found[link.source] += sending(link.width, link.bits, link.clock_ratio, link.credits)
        found[link.sink] += receiving(link.width, link.bits, link.credits, family)
        found[link.sink] += lanes.get(f"{link.name}_repack", Resources())
    return found


def beyond(found: DevicesFit, design: DevicesDesign) -> dict[int, dict[str, int]]:
    """By how much devices take more than they have, as they were built.

    Args:
        found: What was chosen.
        design: Compiled from that.

    Returns:
        Of every device that has too little, how much of what.
    """
    use = taken(design, found.config.hardware.family)
    over = {
        number: {
            name: getattr(each, name) - most
            for name, most in found.runs[number].goal.budgets.items()
            if getattr(each, name) > most
        }
        for number, each in use.items()
    }
    return {number: much for number, much in over.items() if much}
