"""Everything that a report says of one bundle, as JSON types: stored beside it, or computed from what is stored.

Histograms of weights and activations beside the range that was chosen for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from torch import Tensor

from mase_hw._version import __version__
from mase_hw.catalogue import Catalogue, default_catalogue
from mase_hw.emit.estimate import Part, basis, estimate, filled, memory_blocks, of_one
from mase_hw.emit.schedule import Schedule, Timeline, predict
from mase_hw.errors import CatalogueError, GraphError, MaseHwError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.manifest import Instance, Manifest, Vectors
from mase_hw.hardware.memories import BLOCK_BITS
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.draw import render
from mase_hw.ir.draw.cards import make_card
from mase_hw.ir.evaluate import evaluate
from mase_hw.nn import Quantized
from mase_hw.passes.explanation import explain
from mase_hw.passes.quantize.calibration.observers import KEPT
from mase_hw.passes.quantize.quantisation_summary import SUMMARY, Summary
from mase_hw.report.limits import limits
from mase_hw.report.proof import buffers, energies, not_checked, simulations, syntheses
from mase_hw.report.stages import agrees, rebuilt, stages, timeline_of
from mase_hw.report.tokens import token_costs

BINS = 48
MOST_NODES = 200
"""Tensors of which a histogram is made, of each kind."""


def weights(graph: MaseGraph) -> list[Json]:
    """Of every parameter the values before quantisation, and what became of them."""
    found = []
    for node in graph.nodes:
        module = graph.meta_of(node).module
        if not isinstance(module, Quantized):
            continue
        for name in module.parameter_names:
            value = getattr(module, name, None)
            if not isinstance(value, Tensor) or not value.dtype.is_floating_point or not value.numel():
                continue
            whole = module.mantissa(name).detach().cpu()
            zero = float(((whole == 0) & (value.detach().cpu() != 0)).double().mean())
            found.append(_entry(f"{node.name}.{name}", value, module.arithmetic.formats[name], zero))
            if len(found) >= MOST_NODES:
                return found
    return found


def activations(graph: MaseGraph) -> tuple[list[Json], int]:
    """Of every quantised result its values on the frames of the calibration data that were kept; and their number."""
    kept = graph.meta.get(KEPT)
    if not kept:
        return [], 0
    inputs = {n.name: kept[str(n.target)] for n in graph.nodes if n.op == "placeholder" and str(n.target) in kept}
    found: list[Json] = []

    def look(node: Any, value: Any) -> None:
        module = graph.meta_of(node).module
        if isinstance(module, Quantized) and isinstance(value, Tensor) and len(found) < MOST_NODES and value.numel():
            fmt = module.arithmetic.formats["data_out_0"]
            zero = float((value == 0).double().mean())
            found.append(_entry(node.name, value, fmt, zero))

    try:
        evaluate(graph.model, inputs, look)
    except (MaseHwError, KeyError):  # inputs that were not kept
        return [], 0
    return found, max((len(value) for value in kept.values()), default=0)


def _entry(name: str, value: Tensor, fmt: FixedFormat, zero: float) -> Json:
    """A histogram over the values and the range together; shares of what is at or beyond the ends, and of zeros."""
    flat = value.detach().cpu().double().reshape(-1).numpy()
    flat = flat[np.isfinite(flat)]
    low, high = float(flat.min(initial=fmt.min_value)), float(flat.max(initial=fmt.max_value))
    counts, edges = np.histogram(flat, bins=BINS, range=(low, high))
    half = fmt.scale / 2
    clipped = float(((flat < fmt.min_value - half) | (flat > fmt.max_value + half)).mean()) if flat.size else 0.0
    ends = float(((flat <= fmt.min_value) | (flat >= fmt.max_value)).mean()) if flat.size else 0.0
    return {
        "name": name,
        "format": str(fmt),
        "range": [fmt.min_value, fmt.max_value],
        "counts": counts.tolist(),
        "edges": [float(edges[0]), float(edges[-1])],
        "values": int(flat.size),
        "clipped": clipped,
        "at_ends": ends,
        "zero": zero,
    }


Facts = Json
_NEEDS_MODEL = "needs the model: name it with --model (and --config), or write the report where it is compiled"


def facts(
    name: str,
    manifest: Manifest,
    graph: MaseGraph | None,
    work: Path,
    evaluated: Sequence[Json] = (),
    picture: str | None = None,
) -> Facts:
    """Collect what is known of a bundle.

    Args:
        name: What the bundle is called.
        manifest: Of the bundle.
        graph: The graph behind it; without it why formats were chosen and what quantisation cost are missing, and the
            report says so.
        work: Where simulations and synthesis left what they found.
        evaluated: What evaluations of the bundle showed.
        picture: The drawing of the network that is in the bundle; None for one of an older version.
    """
    missing: list[str] = []
    estimated = estimate(manifest)
    played, others = simulations(work, manifest.digest)
    mapped = syntheses(work, manifest.top, estimated)
    if others:
        missing.append(f"{others} simulations in {work.name} are of another bundle and are not shown")
    found: Facts = {
        "name": name,
        "top": manifest.top,
        "digest": manifest.digest,
        "generator": manifest.generator,
        "reported_by": __version__,
        "ports": msgspec.to_builtins(manifest.ports),
        "timing": msgspec.to_builtins(manifest.timing),
        "instances": [_instance(entry, manifest) for entry in manifest.instances],
        "area": {
            "estimate": estimated,
            "basis": basis(),
            "mapped": mapped,
            "memories": _memories(manifest, mapped),
            "filled": filled(manifest.memories, manifest.fifos),
        },
        "energy": energies(work, manifest.digest),
        "buffers": buffers(played, manifest.fifos),
        "simulations": played,
        "evaluations": [dict(each) for each in evaluated],
        "not_checked": not_checked(played, mapped, manifest.vectors),
        "vectors": _vectors(manifest.vectors),
        "files": len(manifest.files),
    }
    found["work"] = sum(entry["work"] for entry in found["instances"])
    found["multipliers"] = sum(entry["multipliers"] for entry in found["instances"])
    # Lanes that share a multiplier have a product each.
    shared = (entry["multipliers"] * int(entry["parameters"].get("PACKED", 1)) for entry in found["instances"])
    found["products"] = sum(shared)
    found["stages"] = _stages(manifest, graph, missing)
    found["decode"] = _decode(manifest, default_catalogue() if graph is None else graph.catalogue)
    if not evaluated:
        criterion = "" if manifest.decode is None else " --criterion perplexity"
        what = "perplexity of the hardware" if criterion else "accuracy"
        missing.append(f"{what}: `mase-hw evaluate MODEL --bundle BUNDLE{criterion}` measures it on labelled data")
    if graph is None:
        if picture is None:
            missing.append(f"the picture of the network: this {_NEEDS_MODEL}")
        missing.append(f"why formats were chosen and what quantisation cost: this {_NEEDS_MODEL}")
        missing.append(f"the change of lanes that would pay {_NEEDS_MODEL}")
        nodes = {entry["node"]: _built(entry["node"], found["instances"]) for entry in found["instances"]}
        more = {"picture": picture, "nodes": nodes, "limits": None, "quantisation": None}
        return {**found, "missing": missing, **more}
    found["picture"] = render(graph) if picture is None else picture
    found["nodes"] = {node.name: _node(graph, node, found["instances"]) for node in graph.nodes}
    found["limits"] = _limits(graph, missing)
    found["quantisation"] = _quantisation(graph, missing)
    return {**found, "missing": missing}


def _instance(entry: Instance, manifest: Manifest) -> Json:
    name = entry.name
    memories = [each for each in manifest.memories if each.instance == name]
    fifos = [each for each in manifest.fifos if each.instance == name]
    return {
        "name": name,
        "node": entry.node,
        "module": entry.module,
        "parameters": entry.parameters,
        "cycles": None if entry.timing is None else entry.timing.interval,
        "multipliers": entry.multipliers,
        "work": entry.work,
        "memory_bits": sum(m.words * m.bits for m in memories) + sum(f.depth * f.bits for f in fifos),
        "estimate": of_one(estimate(Part([entry], memories))),
    }


def _memories(manifest: Manifest, mapped: list[Json]) -> list[Json]:
    """Every memory, what of the block RAMs it takes it fills, and where synthesis put it."""
    found = []
    for memory in manifest.memories:
        words, bits = memory.words, memory.bits
        blocks = memory_blocks(memory)
        places = {
            f"{report['target']}: {each['place']}"
            for report in mapped
            for each in report["memories"]
            if each["instance"] == memory.instance and (each["words"], each["width"]) == (words, bits)
        }
        fill = words * bits / (blocks * BLOCK_BITS) if blocks else None
        found.append({**msgspec.to_builtins(memory), "blocks": blocks, "fill": fill, "places": sorted(places)})
    return found


def _vectors(known: Vectors | None) -> Json | None:
    if known is None:
        return None
    return {"frames": known.frames, "sources": known.sources or None, "faults": known.faults or None}


def _decode(manifest: Manifest, catalogue: Catalogue) -> Json | None:
    """What tokens cost, at some positions; None of a design that does not generate."""
    costs = token_costs(manifest, catalogue)
    if manifest.decode is None:
        return None
    known = {"tokens": []} if costs is None else {"weight_bytes": costs.weight_bytes, "tokens": costs.rows()}
    return {**known, "paces": list(map(list, manifest.decode.paces))}


def _stages(manifest: Manifest, graph: MaseGraph | None, missing: list[str]) -> list[Json] | None:
    """Of every stage when it works and waits; None if the design cannot be followed."""
    timeline, schedule = _followed(manifest, graph)
    if timeline is None or schedule is None:
        missing.append("when each stage works: the bundle has modules that this version does not know")
        return None
    if not schedule.exact:
        missing.append("when each stage works is not exact: a module says only when its results depart")
    return [stage.to_json() for stage in stages(timeline, schedule)]


def _followed(manifest: Manifest, graph: MaseGraph | None) -> tuple[Timeline | None, Schedule | None]:
    catalogue = default_catalogue() if graph is None else graph.catalogue
    netlist = rebuilt(manifest, catalogue)
    timeline = None if netlist is None else timeline_of(netlist, catalogue)
    if netlist is None or timeline is None:
        return None, None
    try:
        schedule = predict(netlist, catalogue, None, timeline.solved)
    except CatalogueError:  # of another version
        return None, None
    return (timeline, schedule) if agrees(schedule, manifest) else (None, None)


def _limits(graph: MaseGraph, missing: list[str]) -> Json | None:
    netlist, schedule = graph.meta.get("netlist"), graph.meta.get("schedule")
    if netlist is None or schedule is None:
        missing.append("the change of lanes that would pay: the design was not mapped in this process")
        return None
    return asdict(limits(graph, netlist, schedule))


def _node(graph: MaseGraph, node: Any, instances: list[Json]) -> Json:
    card = make_card(graph, node)
    why = ""
    if isinstance(graph.meta_of(node).module, Quantized):
        try:
            why = str(explain(graph, node.name))
        except GraphError:  # of a graph that came quantised
            why = ""
    rows = [list(row) for row in card.rows]
    known = {"op": card.op, "rows": rows, "details": list(card.details), "explanation": why}
    return {**_built(node.name, instances), **known}


def _built(node: str, instances: list[Json]) -> Json:
    """What is known of a node from its instances alone."""
    own = [entry for entry in instances if entry["node"] == node]
    return {
        "op": ", ".join(dict.fromkeys(entry["module"] for entry in own)),
        "rows": [],
        "details": [],
        "instances": [entry["name"] for entry in own],
        "cycles": max((entry["cycles"] or 0 for entry in own), default=0),
        "multipliers": sum(entry["multipliers"] for entry in own),
        "memory_bits": sum(entry["memory_bits"] for entry in own),
        "explanation": "",
    }


def _quantisation(graph: MaseGraph, missing: list[str]) -> Json:
    summary = graph.note(SUMMARY, Summary)
    if summary is None:
        missing.append("noise by node: the model came quantised, so that there is no float model to compare with")
    values, frames = activations(graph)
    lost = {} if summary is None else {each.node: each.clipped for each in summary.nodes}
    for each in values:  # a quantised value never lies beyond the range: the float one did
        each["clipped"] = lost.get(each["name"])
    if not frames:
        missing.append("histograms of activations: no frames of calibration data were kept")
    return {
        "summary": None if summary is None else summary.to_dict(),
        "weights": weights(graph),
        "activations": values,
        "frames": frames,
    }
