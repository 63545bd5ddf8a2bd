"""What a manifest says that cannot all be true at once; a hash that was computed anew does not hide it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mase_hw.emit.bundle import MANIFEST
from mase_hw.emit.checks.cycles import other_cycles
from mase_hw.emit.checks.top_level import other_hardware
from mase_hw.emit.port_entry import port_entry, port_stream
from mase_hw.errors import MaseHwError

CLOCK, RESET = "clk", {"name": "rst", "active": "high", "synchronous": True}
"""What every bench drives."""


def named_files(manifest: Mapping[str, Any]) -> set[str]:
    """Every file that a manifest names: RTL, memories, vectors, testbenches and lists of files."""
    handoff = manifest.get("handoff", {"testbenches": [], "tops": []})
    return {
        *manifest["rtl"],
        *(entry["file"] for entry in manifest["memories"]),
        *manifest.get("vectors", {"files": {}})["files"].values(),
        *handoff["testbenches"],
        *(top["list"] for top in handoff["tops"]),
    }


def contradictions(manifest: Mapping[str, Any]) -> list[str]:
    """Everything in a manifest that contradicts something else in it, or what every design has; empty if nothing.

    Args:
        manifest: As read, with all fields that every manifest has.
    """
    return _gathered(check(manifest) for check in (_places, _surroundings, _ports, _lists, other_cycles))


def contradicted(manifest: Mapping[str, Any], folder: Path) -> list[str]:
    """The same of what a manifest says of the hardware, against the files that it names.

    Args:
        manifest: As read, with all fields that every manifest has.
        folder: Of the bundle, whose files are what the manifest says.
    """
    return _gathered([other_hardware(manifest, folder)])


def _gathered(checks: Iterable[Iterator[str]]) -> list[str]:
    found: list[str] = []
    for check in checks:
        try:
            for problem in check:
                found.append(problem)  # what was found before something is missing counts as well
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            found.append(f"something is missing or of the wrong kind: {error!r}")
    return found


def _places(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Files lie in the bundle, and those of the top level among them."""
    for name in manifest["files"]:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or name == MANIFEST:
            yield f"files: {name} is no file of this bundle"
    if (top := f"rtl/{manifest['top']}.sv") not in manifest["rtl"]:
        yield f"rtl: no {top}, but the top level is {manifest['top']!r}"


def _surroundings(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Clock, reset and parameters."""
    parameters = {"MEM_DIR": "mem"} if manifest["memories"] else {}
    for field, expected in (("clock", CLOCK), ("reset", RESET), ("parameters", parameters)):
        if not _same(manifest[field], expected):
            yield f"{field}: {manifest[field]!r}, but this design has {expected!r}"


def _ports(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Every figure of a port follows from its shape, its format and its lanes along each dimension."""
    names = [entry["name"] for entry in manifest["ports"]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"ports: {name} is named {names.count(name)} times"
    for direction in ("in", "out"):
        if not any(entry["direction"] == direction for entry in manifest["ports"]):
            yield f"ports: none has the direction {direction!r}"
    for entry in manifest["ports"]:
        try:
            stream = port_stream(entry)
        except MaseHwError as error:
            yield f"ports.{entry['name']}: {error.message} ({error.got})"
            continue
        whole = port_entry(stream, entry["tensor"], entry["path"])
        for key in sorted((whole.keys() | entry.keys()) - {"beat_order"}):  # which is words for people
            if not _same(whole.get(key), entry.get(key)):
                yield f"ports.{entry['name']}.{key}: {entry.get(key)!r}, but its other fields make {whole.get(key)!r}"
        if stream.layout is not None and stream.shape != stream.layout.stream_shape:
            yield f"ports.{entry['name']}.streamed: {list(stream.shape)}, but its layout is {stream.layout.to_dict()}"


def _lists(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Vectors, edges, memories and the ports of the wrapper, against the ports."""
    ports = {entry["name"]: entry for entry in manifest["ports"]}
    edges = manifest["edges"]
    if not edges or any(type(name) is not str for name in edges) or len(set(edges)) != len(edges):
        yield "edges: not a list of different names, at least one"
    else:
        # The end of an edge is a port of an instance, or of the design.
        ends = {end for name in edges for end in name.split(" to ") if "." not in end}
        for end in sorted(ends ^ ports.keys()):
            yield f"edges: {end} is " + (
                "the end of one, but no port" if end in ends else "a port, but the end of none"
            )
    if "vectors" in manifest:
        frames, files = manifest["vectors"]["frames"], manifest["vectors"]["files"]
        if type(frames) is not int or frames < 1:
            yield f"vectors.frames: {frames!r} is no number of frames"
        if files != (expected := {name: f"vectors/{name}.mem" for name in ports}):
            yield f"vectors.files: {files}, but the ports make {expected}"
    for entry in manifest["memories"]:
        if any(type(entry[key]) is not int or entry[key] < 1 for key in ("words", "bits")):
            yield f"memories: {entry['file']} has {entry['words']!r} words of {entry['bits']!r} bits"
    for entry in manifest.get("handoff", {"axis_ports": []})["axis_ports"]:
        bits = ports[entry["port"]]["bits"]
        if not _same((entry["bits"], entry["tdata"]), (bits, (bits + 7) // 8 * 8)):
            yield f"handoff.axis_ports: {entry}, but the port has {bits} bits"


def _same(a: object, b: object) -> bool:
    """Equal, and of the same kind: 1 is neither True nor 1.0."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
