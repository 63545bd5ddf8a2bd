"""What a manifest says that cannot all be true at once; a hash that was computed anew does not hide it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from mase_hw.emit.bundle import MANIFEST
from mase_hw.emit.checks.cycles import other_cycles
from mase_hw.emit.checks.top_level import other_hardware
from mase_hw.emit.port_entry import port_record, port_stream
from mase_hw.errors import MaseHwError
from mase_hw.hardware.manifest import Manifest

CLOCK, RESET = "clk", {"name": "rst", "active": "high", "synchronous": True}
"""What every bench drives."""


def named_files(manifest: Manifest) -> set[str]:
    """Every file that a manifest names: RTL, memories, vectors, testbenches and lists of files."""
    vectors, handoff = manifest.vectors, manifest.handoff
    return {
        *manifest.rtl,
        *(entry.file for entry in manifest.memories),
        *(memory.file for memory in manifest.outside),
        *(() if vectors is None else vectors.files.values()),
        *(() if handoff is None else (*handoff.testbenches, *(top.list for top in handoff.tops))),
    }


def contradictions(manifest: Manifest) -> list[str]:
    """Everything in a manifest that contradicts something else in it, or what every design has; empty if nothing.

    Args:
        manifest: As read.
    """
    return [found for check in (_places, _surroundings, _ports, _lists, other_cycles) for found in check(manifest)]


def contradicted(manifest: Manifest, folder: Path) -> list[str]:
    """The same of what a manifest says of the hardware, against the files that it names.

    Args:
        manifest: As read.
        folder: Of the bundle, whose files are what the manifest says.
    """
    return list(other_hardware(manifest, folder))


def _places(manifest: Manifest) -> Iterator[str]:
    """Files lie in the bundle, and those of the top level among them."""
    for name in manifest.files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or name == MANIFEST:
            yield f"files: {name} is no file of this bundle"
    if (top := f"rtl/{manifest.top}.sv") not in manifest.rtl:
        yield f"rtl: no {top}, but the top level is {manifest.top!r}"


def _surroundings(manifest: Manifest) -> Iterator[str]:
    """Clock, reset and parameters."""
    parameters = {"MEM_DIR": "mem"} if manifest.memories else {}
    for field, expected in (("clock", CLOCK), ("reset", RESET), ("parameters", parameters)):
        if (said := msgspec.to_builtins(getattr(manifest, field))) != expected:
            yield f"{field}: {said!r}, but this design has {expected!r}"


def _ports(manifest: Manifest) -> Iterator[str]:
    """Every figure of a port follows from its shape, its format and its lanes along each dimension."""
    names = [entry.name for entry in manifest.ports]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"ports: {name} is named {names.count(name)} times"
    for direction in ("in", "out"):
        if not any(entry.direction == direction for entry in manifest.ports):
            yield f"ports: none has the direction {direction!r}"
    for entry in manifest.ports:
        try:
            stream = port_stream(entry)
        except MaseHwError as error:
            yield f"ports.{entry.name}: {error.message} ({error.got})"
            continue
        whole, said = (
            msgspec.json.decode(msgspec.json.encode(each))
            for each in (port_record(stream, entry.tensor, entry.path, entry.source), entry)
        )
        for key in sorted(whole.keys() - {"beat_order"}):  # which is words for people
            if whole[key] != said[key]:
                yield f"ports.{entry.name}.{key}: {said[key]!r}, but its other fields make {whole[key]!r}"
        layout, vector = stream.layout, (math.prod(stream.shape),)  # a beat may hold parts of several dimensions
        if layout is not None and stream.shape not in (layout.stream_shape, vector):
            yield f"ports.{entry.name}.streamed: {list(stream.shape)}, but its layout is {layout.to_dict()}"


def _lists(manifest: Manifest) -> Iterator[str]:
    """Vectors, edges, memories and the ports of the wrapper, against the ports."""
    ports = {entry.name: entry for entry in manifest.ports}
    edges = manifest.edges
    if not edges or len(set(edges)) != len(edges):
        yield "edges: not a list of different names, at least one"
    else:
        # The end of an edge is a port of an instance, or of the design.
        ends = {end for name in edges for end in name.split(" to ") if "." not in end}
        # Those of a device are ports of its bundle.
        for end in sorted(ports.keys() - ends if manifest.devices else ends ^ ports.keys()):
            yield f"edges: {end} is " + (
                "the end of one, but no port" if end in ends else "a port, but the end of none"
            )
    if manifest.vectors is not None:
        files = manifest.vectors.files
        if files != (expected := {name: f"vectors/{name}.mem" for name in ports}):
            yield f"vectors.files: {files}, but the ports make {expected}"
    for axis in () if manifest.handoff is None else manifest.handoff.axis_ports:
        bits = ports[axis.port].bits if axis.port in ports else 0
        if (axis.bits, axis.tdata) != (bits, (bits + 7) // 8 * 8):
            yield f"handoff.axis_ports: {axis}, but the port has {bits} bits"
