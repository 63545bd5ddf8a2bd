"""The modules around the bundles: one for each device, with the ends of its links, and one for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw._version import __version__
from mase_hw.catalogue import verilog_params
from mase_hw.devices.records import Device, Link
from mase_hw.emit.netlist import Netlist
from mase_hw.hardware.library import rendered
from mase_hw.hardware.manifest import Manifest, OnDevice
from mase_hw.hardware.parameter_ports import LoadSignal, parameter_ports
from mase_hw.ops.structural import RepackParams
from mase_hw.streams import Stream

_WAY = (("word", "output", "send_word", "there_word"), ("word_valid", "output", "send_valid", "there_valid"))
"""Of a link's end: its signals, their direction where it sends, and what they are called on the way."""
_BACK = ("credit", "input", "send_credit", "there_credit")
_MEMORY, _MODEL = ("MEM_DIR",), ("MEMORY_MODEL", "MEMORY_STALLS")
"""Parameters of a module that reads memory files, and of one that reads external memory."""


@dataclass(frozen=True)
class Within:
    """A device within the whole.

    Args:
        device: Which one.
        manifest: Of its bundle.
        netlist: Of that.
        ends: The names of its ports that are ports of the whole, and what they are called there.
    """

    device: Device
    manifest: Manifest
    netlist: Netlist
    ends: Mapping[str, str]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of its modules; all are passed on from the whole."""
        memory = _MEMORY if self.netlist.memories or self.netlist.tables else ()
        return (*memory, *(_MODEL if self.manifest.external is not None else ()))

    @property
    def described(self) -> OnDevice:
        """What the manifest of the whole says of it."""
        return OnDevice(
            begins=f"device_{self.device.number}.", image=self.manifest.image, external=self.manifest.external
        )

    def link(self, stream: Stream, links: Sequence[Link]) -> Link:
        """The link of a port that is none of the whole."""
        number, sends = self.device.number, stream.direction == "out"
        ends = [(n.source, n.source_port) if sends else (n.sink, n.sink_port) for n in links]
        return links[ends.index((number, stream.name))]


def repacked(have: Stream, want: Stream) -> RepackParams | None:
    """What stands between the two ends of a link if their lanes differ."""
    if have.same_beats(want):
        return None
    return RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])


def render_device(within: Within, links: Sequence[Link], streams: Mapping[str, Stream]) -> str:
    """The module that is put on a device.

    Args:
        within: Which one.
        links: All of them.
        streams: What every link carries, as it is sent.
    """
    device = within.device
    declared: list[tuple[str, str, str]] = []
    nets: list[tuple[int, str]] = []
    ends: list[dict[str, Any]] = []
    loading = parameter_ports(within.manifest)
    core: dict[str, str] = {port.name: port.name for port in loading}
    for stream in within.netlist.ports:
        handshake = {stream.name: stream.bits, stream.valid: 1, stream.ready: 1}
        core |= {name: name for name in handshake}
        if stream.name in within.ends:
            for name, bits in handshake.items():
                inward = (stream.direction == "in") == (name != stream.ready)
                declared.append(("input" if inward else "output", _range(bits), name))
            continue
        nets += [(bits, name) for name, bits in handshake.items()]
        sends = stream.direction == "out"
        link = within.link(stream, links)
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
    instances = [_instance(device.top, "u_core", _passed(within), core), *ends]
    declared += _declared(loading)
    return _rendered(device.module, summary, within.parameters, declared, nets, instances)


def render_whole(name: str, devices: Sequence[Within], links: Sequence[Link], ports: Sequence[Stream]) -> str:
    """The module of all devices, with the ways between them.

    Args:
        name: Of the module.
        devices: All of them.
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
    # No frame is given to a device that still reads ahead of its memory what it is to hold.
    wait = max((each.manifest.external.primed for each in devices if each.manifest.external is not None), default=0)
    begun = [stream for stream in ports if stream.direction == "in" and wait]
    for each in devices:
        connections: dict[str, str] = {}
        for stream in each.netlist.ports:
            if stream.name in each.ends:
                outer = each.ends[stream.name]
                held = f"{outer}_begun" if outer in (of.name for of in begun) else outer
                connections |= {stream.name: outer, stream.valid: f"{held}_valid", stream.ready: f"{held}_ready"}
                continue
            link = each.link(stream, links)
            for signal, _, sent, there in (*_WAY, _BACK):
                connections[f"{stream.name}_{signal}"] = f"{link.name}_{sent if stream.direction == 'out' else there}"
        loading = parameter_ports(each.manifest)
        connections |= {port.name: each.described.port + port.name for port in loading}
        declared += _declared(loading, each.described.port)
        instances.append(_instance(each.device.module, f"u_device_{each.device.number}", _passed(each), connections))
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
    parameters = tuple(dict.fromkeys(name for each in devices for name in each.parameters))
    return _rendered(name, summary, parameters, declared, nets, instances, checks=checks, begun=begun, wait=wait)


def boundary(devices: Sequence[Within], ports: Sequence[Stream]) -> list[str]:
    """What the monitors at the ports of the whole are called."""
    ends = {outer: f"device_{d.device.number}.{port}" for d in devices for port, outer in d.ends.items()}
    return [f"{s.name} to {ends[s.name]}" if s.direction == "in" else f"{ends[s.name]} to {s.name}" for s in ports]


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _passed(within: Within) -> dict[str, str]:
    return {name: name for name in within.parameters}


def _declared(loading: Sequence[LoadSignal], begin: str = "") -> Iterator[tuple[str, str, str]]:
    """Ports for parameters."""
    return ((port.direction, port.range, begin + port.name) for port in loading)


def _sides(side: str, data: str, valid: str, ready: str) -> dict[str, str]:
    return {f"{side}_data": data, f"{side}_valid": valid, f"{side}_ready": ready}


def _instance(
    module: str, name: str, parameters: Mapping[str, object], connections: Mapping[str, str]
) -> dict[str, Any]:
    return {"module": module, "name": name, "parameters": parameters, "connections": connections}


def _rendered(
    name: str,
    summary: str,
    parameters: tuple[str, ...],
    ports: Sequence[tuple[str, str, str]],
    nets: Sequence[tuple[int, str]],
    instances: Sequence[Mapping[str, Any]],
    **whole: Any,
) -> str:
    return rendered(
        "top/linked.sv.j2",
        version=__version__,
        name=name,
        summary=summary,
        parameters=parameters,
        ports=ports,
        nets=nets,
        instances=instances,
        **{"checks": (), "begun": (), "wait": 0, **whole},
    )
