"""The parameters of a retrained model for each of several devices: what each one loads, or reads from its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mase_hw.compiler.weights import Weights, make_weights, replaceable, retrained_results
from mase_hw.devices.design import DevicesDesign
from mase_hw.ir import MaseGraph
from mase_hw.streams import IntArray


@dataclass(frozen=True)
class DevicesWeights:
    """What the devices are loaded with.

    Args:
        devices: Of every device whose parameters can be replaced, by number.
        vectors: The vectors of the whole with the results of these parameters, as of
            :class:`mase_hw.compiler.weights.Weights`.
    """

    devices: Mapping[int, Weights]
    vectors: Mapping[str, IntArray]


def make_devices_weights(design: DevicesDesign, retrained: MaseGraph) -> DevicesWeights:
    """The parameters of a retrained model, in the formats of a design on several devices.

    Args:
        design: As it was compiled; it stays as it is.
        retrained: The quantised graph of the other model: its formats are not looked at, its parameters are.

    Raises:
        ConfigError: If no device loads anything, the model is another one, a value is outside its format, or a
            parameter differs that is not loaded.
        EmitError: If a code occurs that the multipliers were chosen without.
    """
    found: dict[int, Weights] = {}
    results = retrained_results(design.whole, retrained)
    for number, each in design.designs.items():
        made = make_weights(each, retrained, part=True)
        if made.image or made.outside:
            found[number] = made
    if not found:
        replaceable(design.whole.record, str(design.path))
    return DevicesWeights(found, results)
