"""What becomes of every layer of a model, and what it costs: from a mapped graph, its manifest and the estimate."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from torch import fx

from mase_hw.cost import Resources
from mase_hw.emit.estimate import Part, estimate, of_one
from mase_hw.emit.passes import bundle_of
from mase_hw.hardware.manifest import Instance, Manifest
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import became
from mase_hw.ir.paths import module_at

CONNECTORS = "(between layers)"
"""The row of what belongs to no layer: forks, repacks, reorders and FIFOs."""


@dataclass(frozen=True)
class Traced:
    """A node of the model as it was traced.

    Args:
        name: Of the node.
        what: Class or function.
    """

    name: str
    what: str


@dataclass(frozen=True)
class Layer:
    """What becomes of a layer.

    Args:
        name: Of the traced node.
        what: Its class or function.
        status: ``hardware``, ``free`` (it only renames elements, or became a part of another one), ``refused`` or
            ``unknown`` (not looked at).
        detail: Of ``hardware`` the modules, else what became of it.
        lanes: Elements per beat, in and out; empty if it has no hardware.
        cycles: Cycles per frame that it needs by itself.
        multipliers: How many it has.
        memory_bits: Bits of its memories and FIFOs.
        lut: Look-up tables, estimated, as are the others; None if a module of the layer is not estimated.
        ff: Flip-flops; likewise.
        dsp: DSP blocks; those of the multipliers that an op declares where a module is not estimated.
        bram: Block RAMs; those of the memories that an op declares likewise.
        not_estimated: The number of instances of every module that is not.
        measured: Whether what it takes was measured.
    """

    name: str
    what: str
    status: str
    detail: str
    lanes: str = ""
    cycles: int = 0
    multipliers: int = 0
    memory_bits: int = 0
    lut: int | None = 0
    ff: int | None = 0
    dsp: int = 0
    bram: int = 0
    not_estimated: Mapping[str, int] = field(default_factory=dict)
    measured: bool = False


@dataclass(frozen=True)
class Area:
    """What is known of the area of a design.

    Args:
        family: Of FPGAs.
        measured: Counts by name of the instance; None if all of it is estimated.
    """

    family: str
    measured: Mapping[str, Resources] | None = None

    def of(self, part: Manifest | Part) -> Json:
        """What a design or a part of it takes, as :func:`mase_hw.emit.estimate.estimate` has it."""
        return estimate(part, self.family, self.measured or {})


def traced_layers(graph: MaseGraph) -> list[Traced]:
    """The nodes of a model that compute or move something, in order of execution."""
    found = []
    for node in graph.nodes:
        if node.op == "call_module":
            found.append(Traced(node.name, type(module_at(graph.model, str(node.target))).__name__))
        elif node.op in ("call_function", "call_method"):
            found.append(Traced(node.name, str(node._pretty_print_target(node.target)).rsplit(".", 1)[-1]))
    return found


def origin(name: str, traced: Collection[str]) -> str | None:
    """The traced node that a name belongs to: the same, or the longest of which it is a part (``lstm_gates``)."""
    ends = (len(name), *(end for end in range(len(name) - 1, 0, -1) if name[end] in "_."))
    return next((name[:end] for end in ends if name[:end] in traced), None)


def layers(
    traced: Sequence[Traced],
    refused: Mapping[str, str],
    besides: Collection[str],
    graph: MaseGraph | None,
    area: Area,
) -> list[Layer]:
    """Every layer of the model.

    Args:
        traced: The model as it was traced.
        refused: Why layers are refused, by name.
        besides: Names of layers that were taken out with those.
        graph: The mapped graph, of what is not refused, with its manifest; None if nothing was mapped.
        area: What it takes.
    """
    manifest = None if graph is None else bundle_of(graph).record
    names = {each.name for each in traced}
    groups: dict[str, list[Instance]] = {}
    for instance in manifest.instances if manifest else ():
        groups.setdefault(origin(instance.node, names) or CONNECTORS, []).append(instance)
    found = []
    for each in traced:
        if each.name in refused:
            found.append(Layer(each.name, each.what, "refused", refused[each.name]))
        elif each.name in besides:
            found.append(Layer(each.name, each.what, "unknown", "not looked at: it reads what is refused"))
        elif manifest is None or graph is None:
            found.append(Layer(each.name, each.what, "unknown", "not looked at"))
        elif each.name in groups:
            found.append(_layer(each.name, each.what, groups.pop(each.name), manifest, area))
        else:
            found.append(Layer(each.name, each.what, "free", _free(graph, each.name)))
    for name, rest in groups.items():
        assert manifest is not None  # else there are no groups
        found.append(_layer(name, "", rest, manifest, area))
    return found


def _free(graph: MaseGraph, name: str) -> str:
    gone = became(graph, name)
    if gone is not None:
        return gone.removesuffix(" by fold_batch_norm_transform_pass").removeprefix("was ")
    node: fx.Node | None = next((n for n in graph.nodes if n.name == name), None)
    if node is None:
        return "a part of other layers"
    return "only another shape" if graph.is_implicit(node) else "no hardware of its own"


def _layer(name: str, what: str, instances: list[Instance], manifest: Manifest, area: Area) -> Layer:
    own = {instance.name for instance in instances}
    memories = [memory for memory in manifest.memories if memory.instance in own]
    fifos = [fifo for fifo in manifest.fifos if fifo.instance in own]
    cost = of_one(area.of(Part(instances, memories)))
    bits = sum(m.words * m.bits for m in memories) + sum(f.depth * f.bits for f in fifos)
    modules = [i.module for i in instances if i.module != "rom_source"]
    counted = [f"{modules.count(m)} x {m}" if modules.count(m) > 1 else m for m in dict.fromkeys(modules)]
    computing = [i for i in instances if i.work]
    return Layer(
        name,
        what,
        "hardware",
        ", ".join(counted),
        f"{_lanes(computing[0], 'IN')} to {_lanes(computing[-1], 'OUT')}" if computing else "",
        max((i.timing.interval for i in instances if i.timing is not None), default=0),
        sum(i.multipliers for i in instances),
        bits,
        **cost,
        measured=area.measured is not None,
    )


def _lanes(instance: Instance, side: str) -> int:
    """Elements of a beat of the first stream on a side."""
    prefix = f"DATA_{side}_0_PARALLELISM_DIM_"
    return math.prod(int(value) for key, value in instance.parameters.items() if key.startswith(prefix))
