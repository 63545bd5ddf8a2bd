"""What the manifest says: everything a tool or a person needs to use the design without reading its RTL."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from mase_hw._version import __version__
from mase_hw.catalogue import Catalogue, Memory, OpDef, default_catalogue
from mase_hw.emit.bundle import own_digest
from mase_hw.emit.netlist import CONNECTORS, Instance, Netlist
from mase_hw.emit.port_entry import port_record
from mase_hw.emit.reference import Reference
from mase_hw.emit.render import counted_edges
from mase_hw.emit.schedule import Schedule
from mase_hw.hardware.external import IMAGE, primed
from mase_hw.host.documents import Json
from mase_hw.nn.streaming import streaming
from mase_hw.ops.products._cache import CACHE, Cache
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import HardwareArgs

CHECKS = ("lib/stream_check.sv", "lib/frame_check.sv")
"""Monitors of the top level, in simulation only."""


def describe_design(
    netlist: Netlist, schedule: Schedule, reference: Reference, catalogue: Catalogue, steady: int | None
) -> Json:
    """The manifest, all but the file hashes.

    Args:
        netlist: The design.
        schedule: Its timing.
        reference: Of its ports.
        catalogue: Where its ops are.
        steady: Of :func:`mase_hw.emit.steady.steady_frame`.
    """
    named = {p.port: (p.name, p.path, p.source) for p in reference.ports}
    graph, nodes = reference.graph, []
    found = (graph.meta_of(node).hardware for node in graph.nodes)
    device = max((each.device_id for each in found if each.module and each.device_id is not None), default=-1)
    for instance in netlist.instances:
        op = catalogue.get(instance.op)
        entry: Json = {"name": instance.name, "node": instance.node, "module": instance.module}
        entry["parameters"] = dict(instance.parameters)
        if instance.op not in CONNECTORS and instance.node in netlist.twins:
            entry["shared_by"] = list(netlist.twins[instance.node])
        if op is not None and (users := custom_name(op)) is not None:
            entry["custom_op"] = users
        if instance.name in schedule.instances:
            entry["timing"] = dataclasses.asdict(schedule.instances[instance.name])
        if op is not None and op.hardware is not None and op.mase_type:
            params = op.hardware.record(instance.parameters)
            entry["work"] = op.hardware.work(params)
            entry["multipliers"] = op.hardware.multipliers(params)
        nodes.append(entry)
    described = {
        "top": netlist.name,
        "clock": "clk",
        "reset": {"name": "rst", "active": "high", "synchronous": True},
        "parameters": {"MEM_DIR": "mem"} if netlist.memories or netlist.tables else {},
        "ports": [msgspec.to_builtins(port_record(s, *named[s.name])) for s in netlist.ports],
        "timing": {
            "fill": schedule.fill,
            "last": schedule.last,
            "interval": schedule.interval,
            "bottleneck": schedule.bottleneck,
            "exact": schedule.exact,
            "steady": steady,
            "unit": "clock cycles; fill is from the first input beat accepted to the first output beat valid",
        },
        "family": (graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()).family,
        **({"device_id": device} if device != -1 else {}),
        "streaming": streaming(graph.model),
        "instances": nodes,
        "memories": [
            {
                "file": f"mem/{file}",
                "instance": name,
                "words": int(netlist.instance(name).parameters["DEPTH"]),
                "bits": int(netlist.instance(name).parameters["WIDTH"]),
                **_chosen(netlist.instance(name).parameters),
            }
            for name, file in sorted(netlist.memories.items())
        ]
        + [_table_entry(*table) for table in netlist.tables],
        "fifos": [dataclasses.asdict(fifo) for fifo in netlist.fifos],
        **({} if netlist.shortfall is None else {"shortfall": dataclasses.asdict(netlist.shortfall)}),
        "edges": counted_edges(netlist),
        "rtl": ["rtl/" + file for file in _rtl_files(netlist)] + [f"rtl/{netlist.name}.sv"],
    }
    parameters = {**_image(netlist, described), **_outside(netlist, described), **_cached(netlist)}
    return {"generator": {"mase_hw": __version__}, **described, **parameters}


def _image(netlist: Netlist, described: Json) -> Json:
    """What the design takes that loads its parameters, if it does."""
    loaded = netlist.loaded
    if not loaded:
        return {}
    words, banks = sum(part.words for _, part in loaded), loaded[0][0].parameters["BANKS"]
    return {"image": {"design": own_digest(described)[:8], "words": words, "banks": banks}}


def _outside(netlist: Netlist, described: Json) -> dict[str, Any]:
    """The external memory that the design reads, if it does."""
    if netlist.outside is None:
        return {}
    tensors = [tensor for _, tensor in netlist.outside_sources]
    return {
        "external": {
            **dataclasses.asdict(netlist.outside),
            "file": IMAGE,
            "design": own_digest(described)[:8],
            "words": sum(tensor.size for tensor in tensors),
            "words_per_frame": sum(tensor.blocks * tensor.words for tensor in tensors),
            "primed": primed([instance.parameters for instance, _ in netlist.outside_sources]),
        }
    }


def _cached(netlist: Netlist) -> dict[str, Any]:
    """The external memory that keeps keys and values, if one does."""
    if netlist.cached is None:
        return {}
    found = [(i.parameters, Cache.of(i.parameters)) for i in netlist.instances if i.op == CACHE]
    return {
        "caches": {
            "bits": netlist.cached.bits,
            "latency": netlist.cached.latency,
            "block": found[0][1].rows,
            "words": sum(cache.size for _, cache in found),
            "flight": sum(int(parameters["ROOM"]) for parameters, _ in found),
            "read": np.sum([cache.read for _, cache in found], axis=0).tolist(),
        }
    }


def custom_name(op: OpDef) -> str | None:
    """The class or function of an op that a user brought; None for one of the package."""
    if default_catalogue().get(op.name) is op:
        return None
    targets: tuple[Any, ...] = (*op.modules, *op.functions)
    return str(targets[0].__name__) if targets else op.name


def _chosen(parameters: Mapping[str, int | str]) -> Json:
    """Where a ROM is to be and how many registers lie behind it, if that was chosen."""
    if "REGISTERS" not in parameters:
        return {}
    return {"place": "block" if "block" in str(parameters["STYLE"]) else "lut", "registers": parameters["REGISTERS"]}


def _table_entry(instance: Instance, file: str, memory: Memory) -> Json:
    """A memory inside a module."""
    entry = {"file": f"mem/{file}", "instance": instance.name, "words": len(memory.words), "bits": memory.bits}
    return entry | ({"note": memory.note} if memory.note else {})


def _rtl_files(netlist: Netlist) -> list[str]:
    return [*netlist.files, *CHECKS]
