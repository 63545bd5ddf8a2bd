"""What a design will roughly need on a device, from its manifest alone: no tool has seen it yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mase_hw.cost import Resources, cost_of
from mase_hw.emit.yosys import MAPPERS
from mase_hw.hardware.external import FETCHED, Tensor
from mase_hw.hardware.manifest import Fifo, Instance, Manifest, Memory
from mase_hw.hardware.memories import BLOCK_BITS, UNNAMED, block_rams
from mase_hw.host.documents import Json

FAMILY = "xc7"
"""Estimated for where nothing else is said."""
BASIS = (
    "the structure of every module (sums, registers, memories) by its parameters, with what a bit of each kind of "
    "logic takes fitted to what Yosys maps for {title}; a layer of constants takes one LUT for each bit that both "
    "operands of an addition have"
)
"""Measured on modules and networks that nothing was fitted to; a test holds it to a factor of two on all others."""

NOT_MEASURED: Mapping[str, Resources] = {}
BESIDE = ""
"""The name of what lies in the top level beside its instances, among measured counts."""


def basis(family: str = FAMILY) -> str:
    """What an estimate rests on."""
    return BASIS.format(title=MAPPERS[family].title)


@dataclass(frozen=True)
class Part:
    """Some instances of a design, and their memories."""

    instances: Sequence[Instance]
    memories: Sequence[Memory]


def estimate(manifest: Manifest | Part, family: str = FAMILY, measured: Mapping[str, Resources] = NOT_MEASURED) -> Json:
    """Estimate look-up tables, flip-flops, DSP blocks and block RAMs (of 18 Kbit).

    Args:
        manifest: Of a bundle; its instances and memories are looked at, and what loads parameters or reads them from
            outside.
        family: A family with a cost model.
        measured: Counts by name of the instance, in place of what is estimated of it; of all that is beside the
            instances by an empty name.

    Returns:
        ``lut``, ``ff``, ``dsp``, ``bram``, and ``not_estimated``: the number of instances of every module of which no
        estimate is known. If there is one, the counts are what is known at least: of such an instance the multipliers
        and memories that it declares.
    """
    memories: dict[str, list[tuple[int, int]]] = {}
    for each in manifest.memories:
        memories.setdefault(each.instance, []).append((each.words, each.bits))
    found = [
        measured[entry.name]
        if entry.name in measured
        else cost_of(
            entry.module,
            entry.parameters,
            family,
            multipliers=entry.multipliers,
            memories=memories.get(entry.name, ()),
        )
        for entry in manifest.instances
    ]
    if isinstance(manifest, Manifest) and BESIDE in measured:
        found.append(measured[BESIDE])
    elif isinstance(manifest, Manifest):
        found += [cost_of(module, parameters, family) for module, parameters in beside(manifest)]
    return sum(found, Resources()).to_json()


def beside(manifest: Manifest) -> list[tuple[str, dict[str, int]]]:
    """The modules beside the instances, with their parameters: what loads parameters, or reads external memory.

    Numbers by stream or source, of 32 bits each, are one number, that of the first one lowest.
    """
    image, external = manifest.image, manifest.external
    found: list[tuple[str, dict[str, int]]] = []
    if image is not None:
        found.append(("parameter_load", {"WORDS": image.words, "BANKS": image.banks}))
    if external is not None:
        sources = [i.parameters for i in manifest.instances if i.module.removeprefix(manifest.prefix) == FETCHED]
        words = [Tensor.of(parameters).words for parameters in sources]
        room = sum(int(parameters["ROOM"]) for parameters in sources)
        found.append(("external_reader", {"SOURCES": len(sources), "WORDS": _vector(words), "ROOM": room}))
        sizes = {"BUS": external.bits, "WORDS": external.words, "BURST": external.burst}
        found.append(("external_image", sizes))
    if found:
        ins, outs = ([port.beats for port in manifest.ports if port.direction == side] for side in ("in", "out"))
        numbers = {"INPUTS": len(ins), "OUTPUTS": len(outs), "IN_BEATS": _vector(ins), "OUT_BEATS": _vector(outs)}
        found.append(("frame_gate", numbers))
    return found


def _vector(values: Sequence[int]) -> int:
    return sum(value << 32 * number for number, value in enumerate(values))


def of_one(estimated: Json) -> Json:
    """An estimate of a part in which what is not known is None: nothing is known of logic where a module is missing."""
    unknown = {"lut": None, "ff": None} if estimated["not_estimated"] else {}
    return {**estimated, **unknown}


def counted(estimated: Json, name: str) -> str:
    """A count of an estimate, for people."""
    number = estimated[name]
    if number is None:
        return "unknown"
    return f"at least {number:,}" if estimated["not_estimated"] else f"{number:,}"


def memory_blocks(memory: Memory) -> int:
    """Block RAMs of 18 Kbit that an entry ``memories`` of a manifest is estimated to take, where it is to be."""
    if not memory.place:
        return block_rams(memory.words, memory.bits)
    return UNNAMED.block.count(memory.words, memory.bits) if memory.place == "block" else 0


def filled(memories: Iterable[Memory], fifos: Iterable[Fifo]) -> float | None:
    """The share of the estimated block RAMs' bits that parameters, tables and FIFOs use; None if there are none."""
    found = [(memory_blocks(m), m.words * m.bits) for m in memories]
    found += [(block_rams(fifo.depth, fifo.bits), fifo.depth * fifo.bits) for fifo in fifos]
    blocks = sum(number for number, _ in found)
    return sum(bits for number, bits in found if number) / (blocks * BLOCK_BITS) if blocks else None
