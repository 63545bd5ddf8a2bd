"""The parameters of a retrained model for each of several devices: what each one loads, or reads from its memory."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.compiler.weights import KIND, VECTORS, Weights, make_weights, packed, replaceable, retrained_model
from mase_hw.design.design import Design, attach_model
from mase_hw.devices.design import DevicesDesign
from mase_hw.emit.bundle import Bundle
from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.streams import IntArray


@dataclass(frozen=True)
class DevicesWeights:
    """What the devices are loaded with.

    Args:
        graph: The quantised model of the whole with these parameters, in the formats of the design.
        devices: Of every device whose parameters can be replaced, by number.
        vectors: The vectors of the whole with the results of these parameters, as of
            :class:`mase_hw.compiler.weights.Weights`.
    """

    graph: MaseGraph
    devices: Mapping[int, Weights]
    vectors: Mapping[str, IntArray]

    def write(self, folder: Path, design: DevicesDesign) -> Json:
        """Write a folder with those of the devices, each as of one design, and the vectors of the whole.

        Returns:
            Its manifest.

        Raises:
            EmitError: If it cannot be written.
        """
        made = Bundle()
        places = {number: f"device_{number}" for number in self.devices}
        described = {
            place: self.devices[number].add_to(made, design.designs[number], f"{place}/")
            for number, place in places.items()
        }
        made.add(VECTORS, packed(self.vectors))
        made.manifest |= {**KIND, "design": design.whole.manifest["digest"], "devices": described}
        made.write(folder)
        return made.manifest


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
    graph, results = retrained_model(design.whole, retrained)
    for number, each in design.designs.items():
        made = make_weights(each, retrained, part=True)
        if made.image or made.outside:
            found[number] = made
    if not found:
        replaceable(design.whole.record, str(design.path))
    return DevicesWeights(graph, found, results)


def attach_devices(design: DevicesDesign, compile_into: Callable[[Path], DevicesDesign]) -> None:
    """Compile the model again, for the graphs of all devices, if it gives the very hardware of the bundles.

    Args:
        design: As loaded; its designs have their graphs afterwards.
        compile_into: Compiles the model into a folder that does not exist yet.

    Raises:
        ConfigError: If the model gives other hardware, or other devices.
    """
    with tempfile.TemporaryDirectory() as folder:
        again = compile_into(Path(folder) / "devices")
        if again.designs.keys() != design.designs.keys():
            raise ConfigError(
                "the model is not on the devices of the design",
                node=str(design.path),
                field="--config",
                got=f"devices {', '.join(map(str, again.designs))}",
                expected=f"devices {', '.join(map(str, design.designs))}",
                remedy="give the configuration it was compiled with",
            )
        for number, each in design.designs.items():
            attach_model(each, functools.partial(_made, again.designs[number]))
        attach_model(design.whole, functools.partial(_made, again.whole))


def _made(design: Design, _: Path) -> Design:
    return design
