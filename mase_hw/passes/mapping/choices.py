"""What the hardware metadata pass chooses besides lanes: how products are computed, and where parameters are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx, nn

from mase_hw.catalogue import Hardware
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.hardware.memories import FAMILIES, UNNAMED, Family
from mase_hw.ir import TensorMetadata
from mase_hw.ir.records import Entries
from mase_hw.nn import Quantized
from mase_hw.passes.mapping.args import MADE_FOR_WEIGHTS, WEIGHTS_FIRST, HardwareArgs

ADDER_LEVELS = 3
"""Additions between two registers of an unrolled layer if nothing is said."""
STORAGE = {"lut": "LUT", "block": "BRAM"}
"""What MASE's metadata calls the places of memories."""
OUTSIDE = "DRAM"
"""The same of a memory outside."""


def asked_of(node: fx.Node, hardware: Hardware, modules: Sequence[nn.Module | None], args: HardwareArgs) -> Entries:
    """What a request says of implementations and orders: what is asked for, for which family, what the weights are.

    Args:
        node: The node.
        hardware: Its facets.
        modules: Of all nodes that share its hardware.
        args: What was configured.
    """
    asked, order = args.implementation.get(node.name, ""), args.order.get(node.name, "")
    fast = args.is_fast(node.name)
    if not hardware.implementations:
        levels = args.adder_levels.get(node.name, hardware.levels)
        if hardware.levels and not levels:
            raise ConfigError(
                "a stage of a division gives a bit of the quotient at least",
                field=f"hardware.adder_levels.{node.name}",
                got=levels,
                expected="1 or more",
            )
        return {"fast": fast, "levels": levels}
    if not (asked or order or args.family or fast):
        return {}
    narrow = False
    module = modules[0]
    if asked in MADE_FOR_WEIGHTS and isinstance(module, Quantized):
        parameters = {name: module.mantissa(name) for name in module.parameter_names}
        levels = args.adder_levels.get(node.name, ADDER_LEVELS)
        return {"parameters": parameters, "levels": levels, "solver": args.constant_solver}
    if isinstance(module, Quantized) and "weight" in module.parameter_names:
        lowest = module.arithmetic.formats["weight"].min_mantissa
        narrow = all(bool((m.mantissa("weight") > lowest).all()) for m in modules if isinstance(m, Quantized))
    return {"implementation": asked, "family": args.family, "narrow": narrow, "order": order, "fast": fast}


def interface(
    node: fx.Node,
    arguments: Entries,
    hardware: Hardware,
    params: Any,
    args: HardwareArgs,
    sets: int = 1,
) -> dict[str, Entries]:
    """What feeds every argument that is not an activation, as MASE lists it.

    Where a family is configured, or a place for the memory, ``registers`` says how many lie behind the memory. What is
    loaded while the design runs has ``banks``; what is read from a memory outside has that as its storage. A memory
    has so many ``sets`` of parameters.

    Raises:
        UnsupportedError: If a parameter is to be kept in large RAM, or to be loaded where it is a part of the module,
            or to be read from outside where it is not known when the module takes it.
    """
    found: dict[str, Entries] = {name: {} for name in arguments if not name.startswith("data_in_")}
    streams = {port.name: port for port in hardware.ports(params)}
    places = {name: args.parameters_at.get(f"{node.name}.{name}", args.parameters) for name in found}
    taken = hardware.takes(params) if "external" in places.values() else {}
    for name, kept in places.items():
        loaded, outside = kept == "ram", kept == "external"
        if loaded and name not in streams and isinstance(arguments[name], TensorMetadata):
            raise _inside(f"{node.name}.{name}", hardware.module)
        if outside and f"{node.name}.{name}" in args.parameters_at and name not in taken:
            raise _not_outside(f"{node.name}.{name}", hardware.module, args.is_fast(node.name))
        if name not in hardware.static:
            continue
        if outside and name in taken:
            found[name] = {"storage": OUTSIDE, "transpose": False}
            continue
        entry: Entries = {"storage": "BRAM", "transpose": False}
        if loaded:
            entry["banks"] = args.parameter_banks
        asked = args.memory.get(f"{node.name}.{name}")
        family = FAMILIES.get(args.family, UNNAMED)
        chooses = bool(args.family) and family.behind > 0
        if name in streams and (asked or chooses):
            port = streams[name]
            place = asked or family.place(sets * port.beats, port.bits, args.block_cost, entry.get("banks", 0))
            if place == "ultra":
                raise _no_contents(f"{node.name}.{name}", args.family, family)
            bare = 0 if place == "lut" else family.behind
            entry |= {"storage": STORAGE[place], "registers": bare if chooses and hardware.registers_static else 2}
        found[name] = entry
    return found


def _not_outside(place: str, module: str, fast: bool) -> UnsupportedError:
    return UnsupportedError(
        "this parameter cannot come from external memory",
        node=place,
        field="hardware.parameters_at",
        got=f"external, for {module}" + (" with hardware.fast_clock" if fast else ""),
        expected="a weight or bias of a linear layer or a convolution with multipliers, without hardware.fast_clock",
        remedy=f'set hardware.parameters_at."{place}" = "rom" or "ram"',
    )


def _inside(place: str, module: str) -> UnsupportedError:
    return UnsupportedError(
        "this parameter is a part of its module, so that it cannot be loaded",
        node=place,
        field="hardware.parameters",
        got=f"ram, for {module}",
        expected="rom",
        remedy=f'set hardware.parameters_at."{place}" = "rom", or choose another implementation',
    )


def _no_contents(place: str, name: str, family: Family) -> UnsupportedError:
    why = "starts at zero, so that it holds no parameters" if family.large else "is not among what this family has"
    return UnsupportedError(
        f"large RAM {why}",
        node=place,
        field=f"hardware.memory.{place}",
        got=f"ultra, for {name or 'no family'}",
        expected="block or lut",
        remedy="ask for 'block', or leave the choice to the cost",
    )


def tiled(node: str, facets: Hardware, params: Any) -> tuple[Any, int]:
    """The module of a layer for one tile of its output channels, and how many there are.

    Raises:
        UnsupportedError: If it cannot take the frame again for each of them.
    """
    found = facets.tiled(params)
    if found is None:
        raise UnsupportedError(
            "this layer cannot take the whole frame for one tile of its output channels after the other",
            node=node,
            field=f"hardware.order.{node}",
            got=WEIGHTS_FIRST,
            expected="output lanes that divide the channels, no groups, and one position a beat",
            remedy="choose other lanes or another order",
        )
    return found
