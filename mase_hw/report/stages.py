"""Where the time goes: of every stage of a design, the cycles in which it works, waits for input, or is held back.

The netlist of a bundle, as far as timing needs it, from the manifest alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mase_hw.beat_times import BeatNetwork, Cycles, Waits
from mase_hw.catalogue import Catalogue
from mase_hw.emit.build import OF_POSITIONS
from mase_hw.emit.loops import count_passes
from mase_hw.emit.netlist import LOOP_ENTRY, TOP, Instance, Net, Netlist, Pin
from mase_hw.emit.port_entry import port_stream
from mase_hw.emit.schedule import FRAMES, Schedule, Timeline
from mase_hw.formats import FixedFormat
from mase_hw.hardware.external import FETCHED
from mase_hw.hardware.image import LOADED, ROM
from mase_hw.hardware.manifest import Instance as ManifestInstance
from mase_hw.hardware.manifest import Manifest
from mase_hw.host.documents import Json
from mase_hw.opdef import OpDef
from mase_hw.ops.products._cache import CACHE, Cache
from mase_hw.streams import Direction, Stream

_ROM = "(memories)"
_FORK, _FIFO = "stream_fork", "stream_fifo"


def rebuilt(manifest: Manifest, catalogue: Catalogue) -> Netlist | None:
    """The instances of a bundle and the edges between them; what feeds parameters is one memory.

    Args:
        manifest: Of the bundle.
        catalogue: Where the ops of its modules are.

    Returns:
        The netlist; None if a module is not in the catalogue: one of a custom op, or of another version.
    """
    netlist = Netlist(manifest.top)
    slot = manifest.decode.slot_port if manifest.decode else ""
    for port in manifest.ports:
        if port.name == slot:
            netlist.slot = port_stream(port)
        else:
            (netlist.inputs if port.direction == "in" else netlist.outputs).append(port_stream(port))
    aside, edges = _aside(slot, manifest)
    ops: dict[str, list[OpDef]] = {}
    for op in catalogue:
        if op.hardware is not None:
            ops.setdefault(op.hardware.module, []).append(op)
    for entry in manifest.instances:
        if entry.module in (ROM, LOADED, OF_POSITIONS) or entry.name in aside:
            continue
        if entry.module == FETCHED:
            plain = (_plain("out", int(entry.parameters["WIDTH"])),)
            netlist.instances.append(Instance(entry.name, FETCHED, entry.parameters, plain, entry.node, FETCHED))
            netlist.memories[entry.name] = ""
            continue
        if entry.module == CACHE:
            cache = Cache.of(entry.parameters)
            ports = (_plain("in", cache.width), _plain("out", cache.schedule.banks * cache.width))
            netlist.instances.append(Instance(entry.name, CACHE, entry.parameters, ports, entry.node, CACHE))
            continue
        instance = _instance(entry, ops.get(entry.module, []))
        if instance is None:
            return None
        netlist.instances.append(instance)
    netlist.memories[_ROM] = ""
    return netlist if _connect(netlist, edges) else None


def _aside(slot: str, manifest: Manifest) -> tuple[set[str], list[str]]:
    """The instances through which the slots of tokens go, and the edges that do not carry them.

    They are known before they are needed, as parameters are.
    """
    connectors = {entry.name for entry in manifest.instances if entry.module in (_FORK, _FIFO)}
    aside: set[str] = set()
    edges = []
    for edge in manifest.edges:
        source, sink = (end.partition(".")[0] for end in edge.split(" to "))
        if source != slot and source not in aside:
            edges.append(edge)
        elif sink in connectors:
            aside.add(sink)
    return aside, edges


def agrees(schedule: Schedule, manifest: Manifest) -> bool:
    """Whether a timing is the one that the manifest says."""
    said = manifest.timing
    return (schedule.fill, schedule.last, schedule.interval) == (said.fill, said.last, said.interval)


def _instance(entry: ManifestInstance, ops: list[OpDef]) -> Instance | None:
    name, module, parameters = entry.name, entry.module, entry.parameters
    if module in (_FORK, _FIFO):
        ports = tuple(_plain(side, int(parameters["WIDTH"])) for side in ("in", "out"))
        branches = int(parameters["N"]) if module == _FORK else 0
        return Instance(name, module, parameters, ports, entry.node, module.removeprefix("stream_"), branches)
    for op in ops:
        facets = op.hardware
        if facets is None:
            continue
        try:
            params = facets.record(parameters)
        except TypeError:  # of another version
            continue
        return Instance(name, module, parameters, tuple(facets.ports(params)), entry.node, op.name)
    return None


def _plain(side: Direction, bits: int) -> Stream:
    fmt = FixedFormat(1, 0, signed=False)
    return Stream(f"{side}_data", side, (1, bits), fmt, (bits,), f"{side}_valid", f"{side}_ready")


def _connect(netlist: Netlist, edges: Sequence[str]) -> bool:
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
                source = f"u_{instance.node}_{port.name}"
                source = source if source in netlist.memories else _ROM
                netlist.nets.append(Net(f"net_{pin}", Pin(source, "out_data"), pin, port))
    for instance in netlist.instances:
        if instance.op == LOOP_ENTRY:
            count_passes(netlist, instance.name)
    ends = {Pin(TOP, stream.name) for stream in netlist.outputs}
    return ends <= driven and all(_reads(netlist, instance.name) for instance in netlist.instances)


def _reads(netlist: Netlist, name: str) -> bool:
    return name in netlist.memories or any(
        net.sink.instance == name and net.source.instance not in netlist.memories for net in netlist.nets
    )


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


Runs = list[tuple[int, int, int]]
"""State, first cycle and cycles, one after the other."""
STATES = ("works", "waits for input", "is held back")


@dataclass(frozen=True)
class Stage:
    """One module of the design.

    Args:
        instance: Its instance.
        node: The node it belongs to.
        module: Its RTL module.
        interval: Cycles per frame that it needs by itself.
        first: Its states in one frame from idle.
        steady: Its states in an interval of the steady state; None if the design did not settle.
    """

    instance: str
    node: str
    module: str
    interval: int
    first: Runs
    steady: Runs | None

    @property
    def shares(self) -> list[float]:
        """Of the steady state, or else of the first frame, the share of the cycles in each state."""
        runs = self.first if self.steady is None else self.steady
        total = sum(length for _, _, length in runs)
        return [sum(n for state, _, n in runs if state == kind) / total for kind in range(len(STATES))]

    def to_json(self) -> Json:
        """JSON types."""
        kept = {name: getattr(self, name) for name in ("instance", "node", "module", "interval", "first", "steady")}
        return {**kept, "shares": self.shares}


def stages(timeline: Timeline, schedule: Schedule) -> list[Stage]:
    """Follow every beat of the design, and say of every module what it does in each cycle.

    One frame: inputs are offered at full rate from idle, and nothing follows. Steady state: frames follow each other
    without end, offered at full rate; an interval of it, as it repeats from then on. Of a module that is several in a
    row the one with most steps is looked at.

    Args:
        timeline: The design as a network of beats.
        schedule: Its predicted timing.
    """
    first, _ = timeline.network()
    first.advance()
    steady, _ = timeline.network()
    interval = steady.settle(FRAMES)
    found, number = [], timeline.stages_before
    for name, part in timeline.parts.items():
        if not part.stages:
            continue
        number += timeline.stages_of(name) - len(part.stages)
        longest = max(range(len(part.stages)), key=lambda i: part.stages[i].steps)
        alone = _runs(first.waits(number + longest).states(0, schedule.last + 1), 0)
        again = None if interval is None else _runs(_folded(steady, number + longest, interval), 0)
        found.append(Stage(name, part.instance.node, part.instance.module, part.interval, alone, again))
        number += len(part.stages)
    return found


def _folded(network: BeatNetwork, number: int, interval: int) -> Cycles:
    """The states of a module in an interval: in the last one that is known, by the cycle modulo the interval."""
    known: Waits = network.waits(number)
    after = (int(known.at[-1]) + 1) // interval * interval
    return known.states(after - interval, after)


def _runs(states: Cycles, first: int) -> Runs:
    """Equal states after each other as one."""
    cuts = np.flatnonzero(np.diff(states)) + 1
    starts, ends = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(states)]])
    return [(int(states[a]), first + int(a), int(b - a)) for a, b in zip(starts, ends, strict=True)]
