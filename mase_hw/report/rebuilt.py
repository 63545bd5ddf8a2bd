"""The netlist of a bundle, as far as timing needs it, from the manifest alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mase_hw.catalogue import Catalogue
from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin
from mase_hw.emit.port_entry import port_stream
from mase_hw.emit.schedule import Schedule, Timeline
from mase_hw.formats import FixedFormat
from mase_hw.opdef import OpDef
from mase_hw.streams import Direction, Stream

_ROM = "(memories)"
_FORK, _FIFO, _SOURCE = "stream_fork", "stream_fifo", "rom_source"


def rebuilt(manifest: Mapping[str, Any], catalogue: Catalogue) -> Netlist | None:
    """The instances of a bundle and the edges between them; what feeds parameters is one memory.

    Args:
        manifest: Of the bundle.
        catalogue: Where the ops of its modules are.

    Returns:
        The netlist; None if a module is not in the catalogue: one of a custom op, or of another version.
    """
    netlist = Netlist(manifest["top"])
    for entry in manifest["ports"]:
        (netlist.inputs if entry["direction"] == "in" else netlist.outputs).append(port_stream(dict(entry)))
    ops: dict[str, list[OpDef]] = {}
    for op in catalogue:
        if op.hardware is not None:
            ops.setdefault(op.hardware.module, []).append(op)
    for entry in manifest["instances"]:
        if entry["module"] == _SOURCE:
            continue
        instance = _instance(entry, ops.get(entry["module"], []))
        if instance is None:
            return None
        netlist.instances.append(instance)
    netlist.memories[_ROM] = ""
    return netlist if _connect(netlist, manifest["edges"]) else None


def agrees(schedule: Schedule, manifest: Mapping[str, Any]) -> bool:
    """Whether a timing is the one that the manifest says."""
    said = manifest["timing"]
    return (schedule.fill, schedule.last, schedule.interval) == (said["fill"], said["last"], said["interval"])


def _instance(entry: Mapping[str, Any], ops: list[OpDef]) -> Instance | None:
    name, module, parameters = entry["name"], entry["module"], entry["parameters"]
    if module in (_FORK, _FIFO):
        ports = tuple(_plain(side, parameters["WIDTH"]) for side in ("in", "out"))
        branches = int(parameters["N"]) if module == _FORK else 0
        return Instance(name, module, parameters, ports, entry["node"], module.removeprefix("stream_"), branches)
    for op in ops:
        facets = op.hardware
        if facets is None:
            continue
        try:
            params = facets.record(parameters)
        except TypeError:  # of another version
            continue
        return Instance(name, module, parameters, tuple(facets.ports(params)), entry["node"], op.name)
    return None


def _plain(side: Direction, bits: int) -> Stream:
    fmt = FixedFormat(1, 0, signed=False)
    return Stream(f"{side}_data", side, (1, bits), fmt, (bits,), f"{side}_valid", f"{side}_ready")


def _connect(netlist: Netlist, edges: list[str]) -> bool:
    """Add the nets, by the names of their ends; whether every port of every instance has one."""
    known = {i.name: i for i in netlist.instances}
    for number, edge in enumerate(edges):
        source, _, sink = edge.partition(" to ")
        if sink.startswith("drain."):
            netlist.drained.append(source)
            continue
        start, end = _pin(source), _pin(sink)
        if any(pin.instance != TOP and pin.instance not in known for pin in (start, end)):
            return False
        netlist.nets.append(Net(f"net_{number}", start, end, _stream(netlist, known, start)))
    driven = {net.sink for net in netlist.nets}
    for instance in netlist.instances:
        for port in instance.ports:
            pin = Pin(instance.name, port.name)
            if port.direction == "in" and pin not in driven:
                netlist.nets.append(Net(f"net_{pin}", Pin(_ROM, "out_data"), pin, port))
    ends = {Pin(TOP, stream.name) for stream in netlist.outputs}
    return ends <= driven and all(_reads(netlist, instance.name) for instance in netlist.instances)


def _reads(netlist: Netlist, name: str) -> bool:
    return any(net.sink.instance == name and net.source.instance != _ROM for net in netlist.nets)


def _pin(text: str) -> Pin:
    instance, dot, port = text.partition(".")
    if not dot:
        return Pin(TOP, text)
    port, bracket, branch = port.partition("[")
    return Pin(instance, port, int(branch.removesuffix("]")) if bracket else None)


def _stream(netlist: Netlist, known: Mapping[str, Instance], pin: Pin) -> Stream:
    ports = netlist.inputs if pin.instance == TOP else known[pin.instance].ports
    found = next(port for port in ports if port.name == pin.port)
    return dataclasses.replace(found, direction="out")


def timeline_of(netlist: Netlist, catalogue: Catalogue) -> Timeline | None:
    """The netlist as a network of beats; None if its parts do not fit each other, as those of another version."""
    try:
        return Timeline(netlist, catalogue)
    except (KeyError, IndexError, StopIteration, ValueError, AssertionError):
        return None
