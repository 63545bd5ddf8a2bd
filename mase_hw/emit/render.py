"""Netlist -> SystemVerilog text. The templates only loop; everything they print is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec.structs import asdict

from mase_hw._version import __version__
from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin
from mase_hw.emit.schedule import Schedule
from mase_hw.hardware.external import image_words
from mase_hw.hardware.library import rendered
from mase_hw.hardware.manifest import Caches, External, Image
from mase_hw.opdef import Generated
from mase_hw.ops.products._cache import CACHE, Cache, turns
from mase_hw.streams import Stream

LOAD_BUS = ("bank", "load_begin", "load_next", "load_back", "load_data")
"""What every memory that is loaded is told."""
READ_BUS = ("ask_valid", "ask_address", "ask_ready", "word_valid", "full", "late")
"""What every source that reads external memory has of its own."""
HEADER_WITH_MEMORY = """\
module {} #(
    // Folder of the memory files, seen from where the tool runs.
    parameter MEM_DIR = "mem"{}
) ("""
CACHE_BUS = (
    *("asked", "room", "word_valid", "late", "begins", "stored"),
    *("write_valid", "write_ready", "write_address", "write_data", "write_last"),
)
"""What every cache in external memory has of its own."""
MEMORY_MODEL = """,
    // In simulation, a model of the external memory in place of its ports, and cycles of 256 in which it pauses.
    parameter int MEMORY_MODEL = 0,
    parameter int MEMORY_STALLS = 0"""


def describe(stream: Stream) -> str:
    """One line that says what a port carries."""
    shape = "x".join(map(str, stream.tensor_shape)) or "scalar"
    if stream.shape != stream.tensor_shape:
        shape += f" streamed as {'x'.join(map(str, stream.shape))}"
    return (
        f"{stream.name}: {shape}, {stream.fmt} (value = {stream.fmt.rule}), "
        f"{stream.lanes} lanes, {stream.beats} beats per frame, innermost dimension first, lane 0 in the low bits"
    )


def render_top(
    netlist: Netlist,
    schedule: Schedule,
    needs: Iterable[tuple[str, str, int]],
    image: Image | None = None,
    external: External | None = None,
    caches: Caches | None = None,
) -> str:
    """Render the top level.

    Args:
        netlist: A verified netlist.
        schedule: Its predicted timing, for the header.
        needs: Of :func:`mase_hw.emit.causality.needed`.
        image: What the manifest says of parameters that are loaded.
        external: What it says of external memory.
        caches: What it says of keys and values there.

    Returns:
        SystemVerilog text.
    """
    ports = netlist.ports
    drives_mem = [*netlist.memories, *netlist.tables]
    return rendered(
        "top/top.sv.j2",
        version=__version__,
        name=netlist.name,
        summary=f"{len(netlist.instances)} instances, {len(drives_mem)} memories",
        port_notes=[describe(s) for s in ports],
        fill=f"{'' if schedule.exact else 'at least '}{schedule.fill}",
        interval=schedule.interval,
        bottleneck=schedule.bottleneck,
        header=HEADER_WITH_MEMORY.format(netlist.name, MEMORY_MODEL if netlist.outside or netlist.cached else "")
        if drives_mem
        else f"module {netlist.name} (",
        unused=[(_unused(i, port), 1) for i in netlist.instances for port, value in i.tied.items() if not value]
        + [(_unused(i, port), bits) for i in netlist.instances for port, bits in i.unread.items()],
        ports=[_port(s) for s in ports],
        nets=[{"name": n.name, "bits": n.stream.bits} for n in netlist.nets],
        assigns=_assigns(netlist),
        loading=None if image is None else {**asdict(image), "memories": len(netlist.loaded)},
        outside=None if external is None else _outside(netlist, external),
        cached=None if caches is None else _cached(netlist, caches),
        gate=_gate(netlist) if _gated(netlist) else None,
        gated=[_port(stream) for stream in _gated(netlist)],
        reset=_reset(netlist),
        joined=_joined,
        drained=[_port(s) for s in netlist.inputs if s.name in netlist.drained],
        instances=_instances(netlist),
        checks=[
            {"name": n.name, "bits": n.stream.bits, "label": _label(n), "frame": _frame(netlist, n)}
            for n in netlist.nets
        ]
        + [
            {"name": s.name, "bits": s.bits, "label": _drain(s), "frame": s.frame_beats}
            for s in netlist.inputs
            if s.name in netlist.drained
        ],
        frames=[_frames(netlist, *each) for each in needs],
    )


def _reset(netlist: Netlist) -> str:
    """What resets the core: also a change of its parameters."""
    return "parameters_core_rst" if netlist.loaded else "rst" if netlist.outside is None else "external_rst"


def _gate(netlist: Netlist) -> dict[str, object]:
    """What frames pass before they begin."""

    def beats(streams: Sequence[Stream]) -> str:
        return ", ".join(f"32'd{stream.frame_beats}" for stream in reversed(streams))

    return {
        "outputs": [_port(stream) for stream in netlist.outputs],
        "in_beats": beats(_gated(netlist)),
        "out_beats": beats(netlist.outputs),
    }


def _gated(netlist: Netlist) -> list[Stream]:
    """The inputs at which frames may have to wait for parameters before they begin."""
    waits = netlist.loaded or netlist.outside
    return [stream for stream in netlist.inputs if stream.name not in netlist.drained] if waits else []


def _outside(netlist: Netlist, external: External) -> dict[str, object]:
    """What external memory is read by."""
    found = netlist.outside_sources
    return {
        **asdict(external),
        "depth": image_words(external.bits, external.words),
        "sources": len(found),
        "blocks": ", ".join(f"32'd{tensor.words}" for _, tensor in reversed(found)),
        "room": sum(int(instance.parameters["ROOM"]) for instance, _ in found),
        "file": PurePosixPath(external.file).name,
    }


def _cached(netlist: Netlist, caches: Caches) -> dict[str, object]:
    """What reads and writes keys and values."""
    found = [Cache.of(i.parameters) for i in netlist.instances if i.op == CACHE]
    told = [turns(cache) for cache in reversed(found)]
    each = [(name, "{" + ", ".join(f"32'd{one[name]}" for one in told) + "}") for name in told[0]]
    return {**asdict(caches), "count": len(found), "rows": found[0].schedule.rows, "each": each}


def _joined(ports: Sequence[Mapping[str, object]], signal: str) -> str:
    """A signal of several ports as the elements of a vector, that of the first one lowest."""
    return ", ".join(signal.replace("%s", str(port["name"])) for port in reversed(ports))


def _frames(netlist: Netlist, out: str, into: str, need: int) -> dict[str, object]:
    """A monitor that no frame of an output leaves before it came at an input."""
    beats = {s.name: s.frame_beats for s in (*netlist.inputs, *netlist.outputs)}
    name = netlist.free(f"frames_{out}_of_{into}")
    return {"name": name, "out": out, "into": into, "frame_in": beats[into], "frame_out": beats[out], "need": need}


def render_generated(made: Generated) -> str:
    """SystemVerilog text of a module that is made for its constants."""
    return rendered(made.template, module=made.module, **made.context)


def counted_edges(netlist: Netlist) -> list[str]:
    """The edges whose monitors count frames and say at the end of a simulation how many there were, by their names."""
    drains = [_drain(stream) for stream in netlist.inputs if stream.name in netlist.drained]
    return [*(_label(net) for net in netlist.nets if _frame(netlist, net)), *drains]


def _drain(stream: Stream) -> str:
    return f"{stream.name} to drain.{stream.name}"


def _label(net: Net) -> str:
    return f"{net.source} to {net.sink}"


def _frame(netlist: Netlist, net: Net) -> int:
    """Beats of a frame; 0 for what comes from a memory, which repeats without end and is read ahead."""
    root = net
    while root.source.instance != TOP and root.source.instance not in netlist.memories:
        ports = netlist.instance(root.source.instance).ports
        if "in_data" not in (port.name for port in ports):
            break
        root = netlist.net_into(root.source.instance, "in_data")
    return 0 if root.source.instance in netlist.memories else net.stream.frame_beats


def _port(stream: Stream) -> dict[str, object]:
    into = stream.direction == "in"
    return {
        "name": stream.name,
        "valid": stream.valid,
        "ready": stream.ready,
        "lanes": stream.lanes,
        "width": stream.fmt.width,
        "data_direction": "input" if into else "output",
        "ready_direction": "output" if into else "input",
    }


def _assigns(netlist: Netlist) -> list[dict[str, str]]:
    lines = []
    # A fork has one data output, the net of its first branch; the others differ only in their handshakes.
    first_branch = {(n.source.instance, n.source.port): n.name for n in netlist.nets if n.source.branch == 0}
    gate = "_gated" if _gated(netlist) else ""
    for net in netlist.nets:
        if net.source.instance == TOP:
            lines += [
                (net.name, net.source.port),
                (f"{net.name}_valid", f"{net.source.port}{gate}_valid"),
                (f"{net.source.port}{gate}_ready", f"{net.name}_ready"),
            ]
        if net.source.branch:
            lines.append((net.name, first_branch[net.source.instance, net.source.port]))
        if net.sink.instance == TOP:
            lines += [
                (net.sink.port, net.name),
                (f"{net.sink.port}_valid", f"{net.name}_valid"),
                (f"{net.name}_ready", f"{net.sink.port}_ready"),
            ]
    return [{"left": left, "right": right} for left, right in lines]


def _instances(netlist: Netlist) -> list[dict[str, object]]:
    ends = {n.source: n for n in netlist.nets} | {n.sink: n for n in netlist.nets}
    loaded = {instance.name: turn for turn, (instance, _) in enumerate(netlist.loaded)}
    places = {instance.name: place for place, (instance, _) in enumerate(netlist.outside_sources)}
    places |= {name: place for place, name in enumerate(i.name for i in netlist.instances if i.op == CACHE)}
    return [_instance(ends, i, loaded, places, _reset(netlist)) for i in netlist.instances]


def _instance(
    ends: Mapping[Pin, Net], instance: Instance, turns: Mapping[str, int], places: Mapping[str, int], rst: str
) -> dict[str, object]:
    connections: list[tuple[str, str]] = []
    for port in instance.ports:
        many = instance.branches and port.direction == "out"
        nets = [ends[Pin(instance.name, port.name, i)] for i in (range(instance.branches) if many else (None,))]
        connections.append((port.name, nets[0].name))
        for signal, suffix in ((port.valid, "valid"), (port.ready, "ready")):
            names = [f"{net.name}_{suffix}" for net in nets]
            # The highest branch is the leftmost element of a concatenation.
            connections.append((signal, names[0] if len(names) == 1 else "{" + ", ".join(reversed(names)) + "}"))
    connections += [(name, value or _unused(instance, name)) for name, value in instance.tied.items()]
    connections += [(name, _unused(instance, name)) for name in instance.unread]
    if instance.name in turns:
        turn, rst = turns[instance.name], "parameters_source_rst"
        connections += [(name, f"parameters_{name}") for name in LOAD_BUS]
        connections += [("load_read", f"parameters_load_read[{turn}]"), ("load_turn", f"parameters_load_done[{turn}]")]
        connections += [("load_done", f"parameters_load_done[{turn + 1}]")]
    if instance.op == CACHE:
        named = [(name, f"caches_{name}[{places[instance.name]}]") for name in CACHE_BUS]
        connections += [*named, ("word_data", "caches_data")]
    elif instance.name in places:
        named = [(name, f"external_{name}[{places[instance.name]}]") for name in READ_BUS]
        connections += [*named, ("word_data", "external_data")]
        # Not by parameters that are loaded: it is at the begin of a frame whenever the design is empty.
        rst = "external_rst"
    return {
        "module": instance.module,
        "name": instance.name,
        "comment": f"{instance.node}: {instance.op}",
        "parameters": [
            *((name, str(value)) for name, value in instance.parameters.items()),
            *((name, f'{{MEM_DIR, "/{file}"}}') for name, (file, _) in instance.memories.items()),
        ],
        "connections": connections,
        "rst": rst,
    }


def _unused(instance: Instance, port: str) -> str:
    return unused_name(instance.name, port)


def unused_name(instance: str, port: str) -> str:
    """Net of the top level for an output that nobody reads; Verilator knows ``unused`` in a name."""
    return f"unused_{instance.removeprefix('u_')}_{port}"
