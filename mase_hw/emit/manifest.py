"""What the manifest says: everything a tool or a person needs to use the design without reading its RTL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from mase_hw._version import __version__
from mase_hw.catalogue import Catalogue, Memory, OpDef, default_catalogue
from mase_hw.emit.bundle import FORMAT_VERSION, own_digest
from mase_hw.emit.netlist import CONNECTORS, Instance, Netlist
from mase_hw.emit.port_entry import port_record
from mase_hw.emit.reference import Reference
from mase_hw.emit.render import counted_edges
from mase_hw.emit.schedule import Schedule
from mase_hw.hardware import manifest
from mase_hw.hardware.external import primed
from mase_hw.ir.custom.hls import WRAPPER
from mase_hw.nn.streaming import streaming
from mase_hw.ops.products._cache import CACHE, Cache
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import HardwareArgs

CHECKS = ("lib/stream_check.sv", "lib/frame_check.sv")
"""Monitors of the top level, in simulation only."""


def describe_design(
    netlist: Netlist, schedule: Schedule, reference: Reference, catalogue: Catalogue, steady: int | None
) -> manifest.Manifest:
    """The manifest, all but the file hashes.

    Args:
        netlist: The design.
        schedule: Its timing.
        reference: Of its ports.
        catalogue: Where its ops are.
        steady: Of :func:`mase_hw.emit.steady.steady_frame`.
    """
    named = {p.port: (p.name, p.path, p.source) for p in reference.ports}
    graph = reference.graph
    found = (graph.meta_of(node).hardware for node in graph.nodes)
    described = manifest.Manifest(
        format_version=FORMAT_VERSION,
        generator={"mase_hw": __version__},
        top=netlist.name,
        clock="clk",
        reset=manifest.Reset(name="rst", active="high", synchronous=True),
        parameters={"MEM_DIR": "mem"} if netlist.memories or netlist.tables else {},
        ports=tuple(port_record(s, *named[s.name]) for s in netlist.ports),
        timing=manifest.Timing(
            fill=schedule.fill,
            last=schedule.last,
            interval=schedule.interval,
            bottleneck=schedule.bottleneck,
            exact=schedule.exact,
            steady=steady,
            unit="clock cycles; fill is from the first input beat accepted to the first output beat valid",
        ),
        family=(graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()).family,
        device_id=max((each.device_id for each in found if each.module and each.device_id is not None), default=-1),
        streaming=streaming(graph.model),
        instances=tuple(_instance(each, netlist, schedule, catalogue) for each in netlist.instances),
        memories=(
            *(_rom(netlist.instance(name), file) for name, file in sorted(netlist.memories.items())),
            *(_table(*table) for table in netlist.tables),
        ),
        fifos=tuple(netlist.fifos),
        shortfall=netlist.shortfall,
        edges=tuple(counted_edges(netlist)),
        rtl=(*(f"rtl/{file}" for file in (*netlist.files, *CHECKS)), f"rtl/{netlist.name}.sv"),
        hls=tuple(_hls(netlist)),
        files={},
        digest="",
    )
    design = own_digest(msgspec.to_builtins(described))[:8]
    return msgspec.structs.replace(
        described, image=_image(netlist, design), external=_outside(netlist, design), caches=_cached(netlist)
    )


def _hls(netlist: Netlist) -> Iterator[manifest.Hls]:
    """The nodes whose RTL an HLS tool makes."""
    found = {made.module: made.context for made in netlist.generated.values() if made.template == WRAPPER}
    for instance in netlist.instances:
        if instance.module in found:
            said = {"top": found[instance.module]["top"], "rtl": found[instance.module]["found"]}
            yield msgspec.convert({"node": instance.node, "module": instance.module, **said}, manifest.Hls)


def _instance(instance: Instance, netlist: Netlist, schedule: Schedule, catalogue: Catalogue) -> manifest.Instance:
    op = catalogue.get(instance.op)
    made = manifest.Instance(
        name=instance.name,
        node=instance.node,
        module=instance.module,
        parameters=dict(instance.parameters),
        shared_by=() if instance.op in CONNECTORS else netlist.twins.get(instance.node, ()),
        custom_op="" if op is None else custom_name(op),
        timing=schedule.instances.get(instance.name),
    )
    if op is None or op.hardware is None or not op.mase_type:
        return made
    params = op.hardware.record(instance.parameters)
    return msgspec.structs.replace(made, work=op.hardware.work(params), multipliers=op.hardware.multipliers(params))


def _image(netlist: Netlist, design: str) -> manifest.Image | None:
    """What the design takes that loads its parameters, if it does."""
    loaded = netlist.loaded
    if not loaded:
        return None
    banks = int(loaded[0][0].parameters["BANKS"])
    return manifest.Image(design=design, words=sum(part.words for _, part in loaded), banks=banks)


def _outside(netlist: Netlist, design: str) -> manifest.External | None:
    """The external memory that the design reads, if it does."""
    memory = netlist.outside
    if memory is None:
        return None
    tensors = [tensor for _, tensor in netlist.outside_sources]
    return manifest.External(
        bits=memory.bits,
        latency=memory.latency,
        burst=memory.burst,
        file=memory.file,
        design=design,
        words=sum(tensor.size for tensor in tensors),
        words_per_frame=sum(tensor.blocks * tensor.words for tensor in tensors),
        primed=primed([instance.parameters for instance, _ in netlist.outside_sources]),
    )


def _cached(netlist: Netlist) -> manifest.Caches | None:
    """The external memory that keeps keys and values, if one does."""
    if netlist.cached is None:
        return None
    found = [(i.parameters, Cache.of(i.parameters)) for i in netlist.instances if i.op == CACHE]
    return manifest.Caches(
        bits=netlist.cached.bits,
        latency=netlist.cached.latency,
        block=found[0][1].rows,
        words=sum(cache.size for _, cache in found),
        flight=sum(int(parameters["ROOM"]) for parameters, _ in found),
        read=tuple(np.sum([cache.read for _, cache in found], axis=0).tolist()),
    )


def custom_name(op: OpDef) -> str:
    """The class or function of an op that a user brought; empty for one of the package."""
    if default_catalogue().get(op.name) is op:
        return ""
    targets: tuple[Any, ...] = (*op.modules, *op.functions)
    return str(targets[0].__name__) if targets else op.name


def _rom(instance: Instance, file: str) -> manifest.Memory:
    """A ROM; where it is to be and how many registers lie behind it, if that was chosen."""
    found = instance.parameters
    made = manifest.Memory(
        file=f"mem/{file}", instance=instance.name, words=int(found["DEPTH"]), bits=int(found["WIDTH"])
    )
    if "REGISTERS" not in found:
        return made
    place = "block" if "block" in str(found["STYLE"]) else "lut"
    return msgspec.structs.replace(made, place=place, registers=int(found["REGISTERS"]))


def _table(instance: Instance, file: str, memory: Memory) -> manifest.Memory:
    """A memory inside a module."""
    words = len(memory.words)
    return manifest.Memory(file=f"mem/{file}", instance=instance.name, words=words, bits=memory.bits, note=memory.note)
