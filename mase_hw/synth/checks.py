"""What is looked at before and after mapping: capacity, multipliers, memories, constants, removed logic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mase_hw.cost.devices import Device
from mase_hw.errors import ResourceError
from mase_hw.hardware.manifest import Manifest
from mase_hw.hardware.memories import FAMILIES
from mase_hw.synth.report import MappedMemory, Row
from mase_hw.synth.targets import Elaborated, Memory, Target

FULL = 0.8
"""Share of a device above which place and route may fail or be slow."""
_SHALLOW = 64


def check_capacity(use: Mapping[str, int], device: Device, when: str, margin: float = 1.0) -> list[str]:
    """Compare what a design uses with what a device has.

    Args:
        use: By column.
        device: The device.
        when: How the figures were found, for people.
        margin: How far an estimate may exceed the capacity before it is a refusal; multipliers are never estimates.

    Returns:
        A warning for every resource that is nearly used up.

    Raises:
        ResourceError: If the device does not hold the design; every resource that is exceeded is named.
    """
    capacity = device.capacity()
    over = [
        f"{column} {use[column]:,} of {has:,}"
        for column, has in capacity.items()
        if use[column] > has * (1.0 if column == "dsp" else margin)
    ]
    if over:
        raise ResourceError(
            f"the design does not fit the device ({when})",
            node=device.name,
            got="; ".join(over),
            expected=", ".join(f"{column} {has:,}" for column, has in capacity.items()),
            remedy="lower the parallelism, choose a larger device, or leave the device out",
        )
    return [
        f"{device.name} will be {use[column] / has:.0%} full: {use[column]:,} of {has:,} {column} ({when})"
        for column, has in capacity.items()
        if has and use[column] > FULL * has
    ]


def check_family(manifest: Manifest, target: Target) -> list[str]:
    """A warning if the design was not made for the target, so that another one would be chosen for it."""
    made, wanted = manifest.family, target.name
    if made == wanted or wanted not in FAMILIES:  # a target without a family
        return []
    found = f"was made for {made}" if made else "was made for no family, as hardware.family is not set"
    return [
        f'the design {found}, and is mapped to {wanted}: compile it with family = "{wanted}" in [hardware] for the '
        f"multipliers and memories that are chosen for {wanted}"
    ]


def check_elaborated(asked: Elaborated, manifest: Manifest, target: Target) -> list[str]:
    """Look at the design before it is mapped.

    Returns:
        Warnings: memories that cannot be block RAM, multipliers that are not there or do not fit a DSP block.

    Raises:
        ResourceError: If there is a latch.
    """
    if asked.latches:
        raise ResourceError("the design has latches", node=manifest.top, got=", ".join(asked.latches))
    warnings = [_unclocked(memory) for memory in asked.memories if _large(memory, target) and not memory.clocked]
    for entry in manifest.instances:
        wanted, name = entry.multipliers, entry.name
        there = len(asked.multipliers.get(name, []))
        if there < wanted:
            warnings.append(f"{name} asks for {wanted} multipliers and has {there}: the others are constants or merged")
        fitting = asked.fitting(name, target)
        if target.dsp_widths and fitting < there:
            warnings.append(
                f"{there - fitting} multipliers of {name} are wider than a DSP block of {target.name} "
                f"({' x '.join(map(str, target.dsp_widths))} bits)"
            )
    return warnings


def check_rows(rows: Sequence[Row], memories: Sequence[MappedMemory], target: Target) -> list[str]:
    """Look at the mapped design.

    Returns:
        Warnings: instances of which nothing is left, DSP blocks that are not what was asked for, large memories
        outside block RAM, cells that nothing counts.
    """
    warnings = []
    for row in rows:
        if not any(row.counts.values()) and not row.others and row.multipliers:
            warnings.append(f"nothing is left of {row.instance}: its result does not depend on its input")
        if target.dsp_widths and row.fitting != row.counts["dsp"]:
            warnings.append(
                f"{row.instance} has {row.counts['dsp']} DSP blocks for {row.fitting} multipliers that fit one each"
            )
        if row.others:
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(row.others.items()))
            warnings.append(f"{row.instance or 'the top level'} has cells that no column counts: {kinds}")
    for memory in memories:
        bits = memory.words * memory.width
        if target.block_bits and bits >= target.block_bits and memory.place != "block RAM":
            why = f"; it is wide and shallow, {memory.words} words: one LUT per bit" if memory.words <= _SHALLOW else ""
            warnings.append(
                f"{memory.instance}.{memory.name} ({memory.words} x {memory.width} bits) is in {memory.place}, "
                f"not in block RAM{why}"
            )
    return warnings


def check_outputs(netlist: Path, manifest: Manifest) -> list[str]:
    """Look for output bits that mapping made constant.

    Args:
        netlist: The mapped design in Yosys's JSON.
        manifest: Of the bundle.

    Returns:
        A warning a port: constant bits of data are legal (pad lanes, a sign that is never set), but worth a look.

    Raises:
        ResourceError: If a bit is undefined, or a handshake is constant, so that nothing can move.
    """
    ports = json.loads(netlist.read_text(encoding="utf-8"))["modules"][manifest.top]["ports"]
    warnings = []
    for entry in manifest.ports:
        shakes = entry.ready if entry.direction == "in" else entry.valid
        names = [shakes] if entry.direction == "in" else [entry.name, shakes]
        for name in names:
            bits = ports[name]["bits"]
            undefined = [i for i, bit in enumerate(bits) if bit in ("x", "z")]
            constant = [i for i, bit in enumerate(bits) if bit in ("0", "1")]
            if undefined or (constant and name == shakes):
                raise ResourceError(
                    "an output of the netlist is undefined or never moves",
                    node=name,
                    got=f"bits {', '.join(map(str, undefined or constant))}",
                )
            if constant:
                warnings.append(f"{len(constant)} of {len(bits)} bits of {name} are constant")
    return warnings


def _large(memory: Memory, target: Target) -> bool:
    return bool(target.block_bits) and memory.bits >= target.block_bits


def _unclocked(memory: Memory) -> str:
    return (
        f"{memory.instance}.{memory.name} ({memory.words} x {memory.width} bits) cannot be block RAM: "
        "it is read without a clock"
    )
