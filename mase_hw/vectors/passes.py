"""The pass that chooses the test vectors of a bundle, and says what they show."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mase_hw.emit.passes import TOP, VECTORS, Vectors
from mase_hw.emit.reference import Reference
from mase_hw.ir import MaseGraph
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.quantize.calibration.observers import KEPT
from mase_hw.vectors.choose import choose, frames_to_try, measure, stacked
from mase_hw.vectors.playback import Playback, cut, frames_of
from mase_hw.vectors.watch import count_casts


class VectorOptions(PassArgs):
    """How test vectors are chosen; also the table ``vectors`` of a configuration of ``compile``."""

    frames: int = Field(default=16, ge=1, le=1 << 20, description="frames at most, if none are given")
    seed: int = Field(default=0, description="of random frames and of the faults that are drawn")
    faults: int = Field(default=256, ge=1, description="bits of memories that are simulated as the other one, at most")


class VectorArgs(VectorOptions):
    """Arguments of :func:`choose_vectors_analysis_pass`."""

    inputs: Any = Field(default=None, description="inputs that become the vectors as they are; chosen if None")
    example: Any = Field(default=None, description="one frame by name of the input, if there is no calibration data")


@graph_pass("choose_vectors_analysis_pass", args=VectorArgs, needs=(TOP,))
def choose_vectors_analysis_pass(graph: MaseGraph, args: VectorArgs) -> tuple[MaseGraph, Info]:
    """Choose test vectors, or take what is given, and measure what they show.

    Extreme frames come first, then whichever frame of the calibration data, or of random ones, shows most stuck bits of
    memories and wrong casts that were not seen yet. The share that all together show is measured on bits that are
    drawn anew, and only few of a large network. ``emit_cocotb_transform_pass`` writes them.

    Raises:
        ConfigError: If what is given does not fit the model's inputs.
        FormatError: If it holds NaN.
    """
    if args.inputs is None:
        chosen = choose(graph, graph.meta.get(KEPT, {}), args.example or {}, args.frames, args.seed)
        inputs, sources, stacks = chosen.inputs, chosen.sources, chosen.stacks
    else:
        inputs, stacks = Reference(graph).named(args.inputs), None
        sources = {"given": frames_of(graph, inputs)}
    stacks = stacked(graph, inputs) if stacks is None else stacks
    known: list[Playback] = []
    first = cut(graph, inputs, 0, frames_to_try(graph, frames_of(graph, inputs), stacks))
    uses = count_casts(graph, first, stacks, known)
    seen = measure(graph, inputs, uses, args.faults, args.seed, stacks, known)
    entry = {
        "sources": sources,
        "faults": seen.to_json(args.seed),
        "casts": {node: use.to_json() for node, use in uses.items()},
    }
    graph.meta[VECTORS] = Vectors(inputs, entry, stacks)
    return graph, {"frames": frames_of(graph, inputs), **entry}
