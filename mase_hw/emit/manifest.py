"""What the manifest says: everything a tool or a person needs to use the design without reading its RTL."""

from __future__ import annotations

import dataclasses
from typing import Any

from mase_hw._version import __version__
from mase_hw.catalogue import Catalogue, Memory
from mase_hw.emit.netlist import Instance, Netlist
from mase_hw.emit.reference import Reference
from mase_hw.emit.schedule import Schedule
from mase_hw.formats import FixedFormat
from mase_hw.layouts import Layout
from mase_hw.streams import Stream


def port_entry(stream: Stream, tensor: str) -> dict[str, Any]:
    """Manifest entry of a port."""
    return {
        "name": stream.name,
        "direction": stream.direction,
        "valid": stream.valid,
        "ready": stream.ready,
        "tensor": tensor,
        "shape": list(stream.tensor_shape),
        "streamed": list(stream.shape),
        "layout": None if stream.layout is None else stream.layout.to_dict(),
        "format": format_entry(stream.fmt),
        "lanes": stream.lanes,
        "parallelism": list(stream.lane_dims),
        "beats": stream.beats,
        "bits": stream.bits,
        "beat_order": "streamed sizes, the last one fastest; lane 0 in the low bits; pad lanes are 0",
    }


def format_entry(fmt: FixedFormat) -> dict[str, Any]:
    """A format, and the factor that turns its integers into values."""
    return {
        "type": "fixed",
        "width": fmt.width,
        "frac_width": fmt.frac_width,
        "signed": fmt.signed,
        "scale": fmt.scale,
    }


def port_stream(entry: dict[str, Any]) -> Stream:
    """The stream of a manifest entry; the inverse of :func:`port_entry`."""
    fmt = FixedFormat(entry["format"]["width"], entry["format"]["frac_width"], entry["format"]["signed"])
    return Stream(
        entry["name"],
        entry["direction"],
        tuple(entry["streamed"]),
        fmt,
        tuple(entry["parallelism"]),
        entry["valid"],
        entry["ready"],
        layout=None if entry["layout"] is None else Layout.from_dict(entry["layout"]),
    )


def describe_design(netlist: Netlist, schedule: Schedule, reference: Reference, catalogue: Catalogue) -> dict[str, Any]:
    """The manifest, all but the file hashes."""
    names = {p.port: p.name for p in (*reference.inputs, *reference.outputs)}
    nodes = []
    for instance in netlist.instances:
        op = catalogue.get(instance.op)
        entry: dict[str, Any] = {"name": instance.name, "node": instance.node, "module": instance.module}
        entry["parameters"] = dict(instance.parameters)
        if instance.name in schedule.instances:
            entry["timing"] = dataclasses.asdict(schedule.instances[instance.name])
        if op is not None and op.hardware is not None and op.mase_type:
            params = op.hardware.params(**instance.parameters)
            entry["work"] = op.hardware.work(params)
            entry["multipliers"] = op.hardware.multipliers(params)
        nodes.append(entry)
    return {
        "generator": {"mase_hw": __version__},
        "top": netlist.name,
        "clock": "clk",
        "reset": {"name": "rst", "active": "high", "synchronous": True},
        "parameters": {"MEM_DIR": "mem"} if netlist.memories or netlist.tables else {},
        "ports": [port_entry(s, names[s.name]) for s in (*netlist.inputs, *netlist.outputs)],
        "timing": {
            "fill": schedule.fill,
            "last": schedule.last,
            "interval": schedule.interval,
            "bottleneck": schedule.bottleneck,
            "exact": schedule.exact,
            "unit": "clock cycles; fill is from the first input beat accepted to the first output beat valid",
        },
        "instances": nodes,
        "memories": [
            {
                "file": f"mem/{file}",
                "instance": name,
                "words": int(netlist.instance(name).parameters["DEPTH"]),
                "bits": int(netlist.instance(name).parameters["WIDTH"]),
            }
            for name, file in sorted(netlist.memories.items())
        ]
        + [_table_entry(*table) for table in netlist.tables],
        "fifos": [dataclasses.asdict(fifo) for fifo in netlist.fifos],
        "rtl": ["rtl/" + file for file in _rtl_files(netlist)] + [f"rtl/{netlist.name}.sv"],
    }


def _table_entry(instance: Instance, file: str, memory: Memory) -> dict[str, Any]:
    """A memory inside a module."""
    entry = {"file": f"mem/{file}", "instance": instance.name, "words": len(memory.words), "bits": memory.bits}
    return entry | ({"note": memory.note} if memory.note else {})


def _rtl_files(netlist: Netlist) -> list[str]:
    return [*netlist.files, *(["lib/stream_check.sv"] if netlist.nets else [])]
