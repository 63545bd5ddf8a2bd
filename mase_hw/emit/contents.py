"""What modules hold of their nodes: the memories inside them, and what modules that are made are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from mase_hw.catalogue import Arithmetic, Hardware, Memory
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.image import LOADED, ROM
from mase_hw.ir import MaseGraph
from mase_hw.layouts import Layout
from mase_hw.nn import Quantized
from mase_hw.streams import Stream


def arithmetic_of(
    graph: MaseGraph, node: fx.Node, layouts: Mapping[str, Layout], ports: Sequence[Stream]
) -> Arithmetic | None:
    """The arithmetic of a quantised node, with its streams and parameters among the attributes.

    Args:
        graph: The graph.
        node: Any node with a module.
        layouts: The order of its tensors.
        ports: The streams of the module.

    Returns:
        None for a node that is not quantised.
    """
    meta = graph.meta_of(node)
    module = meta.module
    if not isinstance(module, Quantized):
        return None
    tensors = {**meta.common.args.tensors, **meta.common.results.tensors}
    streamed: Attributes = {
        "shapes": {name: tuple(tensor.shape) for name, tensor in tensors.items()},
        "layouts": dict(layouts),
        "parallelism": {port.name: port.lane_dims for port in ports},
        "parameters": {name: module.mantissa(name) for name in module.parameter_names},
    }
    return dataclasses.replace(module.arithmetic, attributes={**module.arithmetic.attributes, **streamed})


def memories_of(node: fx.Node, facets: Hardware, whole: Arithmetic | None) -> dict[str, tuple[str, Memory]]:
    """The memories inside a node's module, and their files."""
    found = {} if whole is None else facets.memories(whole)
    return {name: (f"{node.name}_{name.lower().removesuffix('_file')}.mem", m) for name, m in found.items()}


def kept_where(kept: Mapping[str, Any]) -> dict[str, int | str]:
    """Parameters of a memory that say where it is kept, from the metadata; none if that was not chosen."""
    if "registers" not in kept:
        return {}
    # No block RAM is read without a clock: nothing need be said of a ROM that is.
    look_up = "distributed" if "banks" in kept else "logic" if kept["registers"] else "auto"
    style = "block" if kept["storage"] == "BRAM" else look_up
    return {"REGISTERS": kept["registers"], "STYLE": f'"{style}"'}


def stored(port: Stream, kept: Mapping[str, Any], passes: int, file: str = "") -> tuple[str, dict[str, int | str]]:
    """The module that streams a parameter from the chip, and its parameters.

    Args:
        port: The stream that the layer takes.
        kept: What the metadata says of the place.
        passes: Of a frame, each with parameters of its own.
        file: Of its content, as an expression; empty where that does not matter.
    """
    sets = passes * port.parts
    parameters: dict[str, int | str] = {
        "WIDTH": port.bits,
        "DEPTH": passes * port.beats,
        **({"SETS": sets, "REPEATS": port.repeat} if sets > 1 and port.repeat > 1 else {}),
        **({"BANKS": kept["banks"]} if "banks" in kept else {}),
        **({"MEM_FILE": file} if file else {}),
    }
    return LOADED if "banks" in kept else ROM, parameters | kept_where(kept)
