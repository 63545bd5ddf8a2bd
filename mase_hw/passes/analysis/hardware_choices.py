"""What the hardware metadata pass chooses besides lanes: how products are computed, and where parameters are kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import fx, nn

from mase_hw.catalogue import Hardware
from mase_hw.nn import Quantized
from mase_hw.ops.products._multipliers import CHOOSES
from mase_hw.passes.analysis.hardware_args import HardwareArgs

BLOCK_COST = 34
"""LUTs that a block RAM of 18 Kbit counts for when a memory is placed: a word of up to 64 lines costs a LUT per bit, a
block holds 36 of them, so that a shallow memory is worth blocks only where it fills their width."""
LUT_WORDS, BLOCK_WORDS, BLOCK_WIDTH = 64, 512, 36


def asked_of(node: fx.Node, hardware: Hardware, module: nn.Module | None, args: HardwareArgs) -> dict[str, Any]:
    """What a request says of implementations: which one is asked for, for which family, and what the weights are."""
    asked = args.implementation.get(node.name, "")
    if not hardware.implementations or not (asked or args.family):
        return {}
    narrow = False
    if isinstance(module, Quantized) and "weight" in module.parameter_names:
        lowest = module.arithmetic.formats["weight"].min_mantissa
        narrow = bool((module.mantissa("weight") > lowest).all())
    return {"implementation": asked, "family": args.family, "narrow": narrow}


def storage(words: int, bits: int) -> str:
    """Where a ROM costs less: ``BRAM`` or ``LUT``, a block counting :data:`BLOCK_COST` LUTs."""
    luts = math.ceil(words / LUT_WORDS) * bits
    blocks = math.ceil(words / BLOCK_WORDS) * math.ceil(bits / BLOCK_WIDTH)
    return "BRAM" if luts > blocks * BLOCK_COST else "LUT"


def interface(
    node: fx.Node, arguments: Mapping[str, Any], hardware: Hardware, params: Any, args: HardwareArgs
) -> dict[str, dict[str, Any]]:
    """What feeds every argument that is not an activation, as MASE lists it.

    Where a family is configured, or a place for the memory, ``registers`` says how many lie behind the memory.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in arguments if not name.startswith("data_in_")}
    ports = {port.name: port for port in hardware.ports(params)}
    for name in found:
        if name not in hardware.static:
            continue
        entry: dict[str, Any] = {"storage": "BRAM", "transpose": False}
        asked = args.memory.get(f"{node.name}.{name}")
        chooses = args.family in CHOOSES
        if name in ports and (asked or chooses):
            port = ports[name]
            place = {"lut": "LUT", "block": "BRAM"}[asked] if asked else storage(port.beats, port.bits)
            bare = 0 if place == "LUT" else 1
            entry |= {"storage": place, "registers": bare if chooses and hardware.registers_static else 2}
        found[name] = entry
    return found
