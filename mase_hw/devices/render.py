"""The modules around the bundles: one for each device, with the ends of its links, and one for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mase_hw._version import __version__
from mase_hw.catalogue import verilog_params
from mase_hw.devices.records import Device, Link
from mase_hw.emit.netlist import Netlist
from mase_hw.hardware.library import environment
from mase_hw.ops.structural import RepackParams
from mase_hw.streams import Stream

_WAY = (("word", "output", "send_word", "there_word"), ("word_valid", "output", "send_valid", "there_valid"))
"""Of a link's end: its signals, their direction where it sends, and what they are called on the way."""
_BACK = ("credit", "input", "send_credit", "there_credit")


def repacked(have: Stream, want: Stream) -> RepackParams | None:
    """What stands between the two ends of a link if their lanes differ."""
    if have.same_beats(want):
        return None
    return RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])


def render_device(
    device: Device, netlist: Netlist, links: Sequence[Link], streams: Mapping[str, Stream], ports: Mapping[str, str]
) -> str:
    """The module that is put on a device.

    Args:
        device: Which one.
        netlist: Of its bundle.
        links: All of them.
        streams: What every link carries, as it is sent.
        ports: The names of its bundle's ports that are ports of the whole, and what they are called there.
    """
    declared: list[tuple[str, str, str]] = []
    nets: list[tuple[int, str]] = []
    ends: list[dict[str, Any]] = []
    of_core = {"MEM_DIR": "MEM_DIR"} if _has_memory(netlist) else {}
    core: dict[str, str] = {}
    for stream in netlist.ports:
        handshake = {stream.name: stream.bits, stream.valid: 1, stream.ready: 1}
        core |= {name: name for name in handshake}
        if stream.name in ports:
            for name, bits in handshake.items():
                inward = (stream.direction == "in") == (name != stream.ready)
                declared.append(("input" if inward else "output", _range(bits), name))
            continue
        nets += [(bits, name) for name, bits in handshake.items()]
        sends = stream.direction == "out"
        link = next(
            each
            for each in links
            if (device.number, stream.name)
            == ((each.source, each.source_port) if sends else (each.sink, each.sink_port))
        )
        turned = {"output": "input", "input": "output"}
        for signal, way, *_ in (*_WAY, _BACK):
            bits = link.bits if signal == "word" else 1
            declared.append((way if sends else turned[way], _range(bits), f"{stream.name}_{signal}"))
        sizes = {"WIDTH": link.width, "WORD": link.bits}
        outside = {signal: f"{stream.name}_{signal}" for signal, *_ in (*_WAY, _BACK)}
        if sends:
            parameters = {**sizes, "PACE": link.clock_ratio, "CREDITS": link.credits}
            inside = {"in_data": stream.name, "in_valid": stream.valid, "in_ready": stream.ready}
            ends.append(_instance("link_send", f"u_{stream.name}_send", parameters, inside | outside))
            continue
        parameters, came = {**sizes, "CREDITS": link.credits}, stream.name
        if (repack := repacked(streams[link.name], stream)) is not None:
            came = f"{stream.name}_sent"
            nets += [(link.width, came), (1, f"{came}_valid"), (1, f"{came}_ready")]
            sides = _sides("in", came, f"{came}_valid", f"{came}_ready")
            sides |= _sides("out", stream.name, stream.valid, stream.ready)
            ends.append(_instance("stream_repack", f"u_{stream.name}_repack", verilog_params(repack), sides))
        valid, ready = (stream.valid, stream.ready) if came == stream.name else (f"{came}_valid", f"{came}_ready")
        ends.append(
            _instance(
                "link_receive", f"u_{stream.name}_receive", parameters, outside | _sides("out", came, valid, ready)
            )
        )
    summary = f"device {device.number}: the bundle's {device.top}, and the ends of its links."
    instances = [_instance(device.top, "u_core", of_core, core), *ends]
    return _rendered(device.module, summary, bool(of_core), declared, nets, instances)


def render_whole(
    name: str,
    devices: Sequence[tuple[Device, Netlist, Mapping[str, str]]],
    links: Sequence[Link],
    ports: Sequence[Stream],
) -> str:
    """The module of all devices, with the ways between them.

    Args:
        name: Of the module.
        devices: Each with the netlist of its bundle, and the names of ports of that which are ports of the whole.
        links: Between them.
        ports: Of the whole.
    """
    declared: list[tuple[str, str, str]] = []
    for stream in ports:
        forward, backward = ("input", "output") if stream.direction == "in" else ("output", "input")
        packed = f"[{stream.lanes - 1}:0][{stream.fmt.width - 1}:0] "
        declared += [(forward, packed, stream.name), (forward, "", stream.valid), (backward, "", stream.ready)]
    nets: list[tuple[int, str]] = []
    instances = []
    memory = False
    for device, netlist, named in devices:
        connections: dict[str, str] = {}
        for stream in netlist.ports:
            if stream.name in named:
                outer = named[stream.name]
                connections |= {stream.name: outer, stream.valid: f"{outer}_valid", stream.ready: f"{outer}_ready"}
                continue
            sends = stream.direction == "out"
            for link in links:
                end = (link.source, link.source_port) if sends else (link.sink, link.sink_port)
                if end == (device.number, stream.name):
                    for signal, _, sent, there in (*_WAY, _BACK):
                        connections[f"{stream.name}_{signal}"] = f"{link.name}_{sent if sends else there}"
        has = {"MEM_DIR": "MEM_DIR"} if _has_memory(netlist) else {}
        memory |= bool(has)
        instances.append(_instance(device.module, f"u_device_{device.number}", has, connections))
    for link in links:
        signals = [signal for _, _, *both in (*_WAY, _BACK) for signal in both]
        nets += [(link.bits if signal.endswith("word") else 1, f"{link.name}_{signal}") for signal in signals]
        way = {signal: f"{link.name}_{signal}" for signal in signals}
        instances.append(_instance("link_line", f"u_{link.name}", {"WORD": link.bits, "LATENCY": link.latency}, way))
    summary = "all devices and the ways between them, for simulation."
    checks = [
        {"name": s.name, "bits": s.bits, "label": label, "frame": s.frame_beats}
        for s, label in zip(ports, boundary(devices, ports), strict=True)
    ]
    return _rendered(name, summary, memory, declared, nets, instances, checks)


def boundary(devices: Sequence[tuple[Device, Netlist, Mapping[str, str]]], ports: Sequence[Stream]) -> list[str]:
    """What the monitors at the ports of the whole are called."""
    ends = {outer: f"device_{d.number}.{port}" for d, _, named in devices for port, outer in named.items()}
    return [f"{s.name} to {ends[s.name]}" if s.direction == "in" else f"{ends[s.name]} to {s.name}" for s in ports]


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _has_memory(netlist: Netlist) -> bool:
    return bool(netlist.memories or netlist.tables)


def _sides(side: str, data: str, valid: str, ready: str) -> dict[str, str]:
    return {f"{side}_data": data, f"{side}_valid": valid, f"{side}_ready": ready}


def _instance(
    module: str, name: str, parameters: Mapping[str, object], connections: Mapping[str, str]
) -> dict[str, Any]:
    return {"module": module, "name": name, "parameters": parameters, "connections": connections}


def _rendered(
    name: str,
    summary: str,
    memory: bool,
    ports: Sequence[tuple[str, str, str]],
    nets: Sequence[tuple[int, str]],
    instances: Sequence[Mapping[str, Any]],
    checks: Sequence[Mapping[str, Any]] = (),
) -> str:
    template = environment().get_template("top/linked.sv.j2")
    return template.render(
        version=__version__,
        name=name,
        summary=summary,
        memory=memory,
        ports=ports,
        nets=nets,
        instances=instances,
        checks=checks,
    )
