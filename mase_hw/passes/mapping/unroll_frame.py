"""A quantised network as one node, whose module takes a whole frame per beat, or some positions of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, fx

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import attributes_of
from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.paths import module_at
from mase_hw.nn import Quantized
from mase_hw.opdef import Arithmetic
from mase_hw.ops.unrolled._network import Program, Step
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower._edit import finish

FRAME = "frame"
"""The node, and the op that it is."""
CHANNELS_LAST = "frame_channels_last"
"""The op where images or sequences with their channels first come in several beats."""
_POSITIONS = ("conv1d", "conv2d", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d")
"""Ops whose input has its channels before its positions."""


class UnrollArgs(PassArgs):
    """Arguments of :func:`unroll_frame_transform_pass`."""

    levels: NonNegativeInt = Field(
        default=3, description="additions between two registers; 0 for a register at the output only"
    )
    beats: PositiveInt = Field(
        default=1,
        description="beats of a frame: each has as many rows of an image, or positions of a sequence; registers keep "
        "what windows need of the beat before, and a beat waits where they reach into the one behind",
    )
    mhz: PositiveFloat | None = Field(
        default=None,
        description="clock for which registers are placed by delays of the family, in place of ``levels``",
    )
    family: str = Field(default="", description="family of FPGAs whose delays are taken")
    carry_save: bool = Field(
        default=False,
        description="with ``mhz``: the latest sums of every layer save carries: fewer stages, more look-up tables",
    )


@graph_pass("unroll_frame_transform_pass", args=UnrollArgs, needs=("quantize_transform_pass",))
def unroll_frame_transform_pass(graph: MaseGraph, args: UnrollArgs) -> tuple[MaseGraph, Info]:
    """Make one node of a quantised network of one input and one result.

    Returns:
        The graph, whose node ``frame`` computes what all nodes did, and the names of these.

    Raises:
        UnsupportedError: If there are several inputs or results, or a node is not quantised; or if a frame has no
            positions, or not as many in every beat.
    """
    entries = [node for node in graph.nodes if graph.meta_of(node).common.mase_op == "quantize"]
    (output,) = (node for node in graph.nodes if node.op == "output")
    results = [producer for producer, _ in graph.sources(output).values()]
    if len(entries) != 1 or len(set(results)) != 1:
        raise UnsupportedError(
            "a whole frame per beat is for networks of one input and one result",
            field="hardware.unroll",
            got=f"{len(entries)} inputs, {len(set(results))} results",
            remedy="join the tensors in the model, or leave hardware.unroll out",
        )
    (entry,), result = entries, results[0]
    numbers, steps = {entry: 0}, []
    for node in graph.nodes:
        if graph.meta_of(node).common.results.tensors and node not in numbers and _depends(node, numbers):
            steps.append(_step(graph, node, numbers))
            numbers[node] = len(steps)
    if result is entry:
        raise UnsupportedError("the network computes nothing", node=result.name, field="hardware.unroll")
    given, made = (graph.tensor(node, "data_out_0") for node in (entry, result))
    fmt, out = given.fmt, made.fmt
    assert fmt is not None and out is not None  # both ends of a quantised graph have formats
    kept = tuple(steps[: numbers[result]])
    axis = _axis(tuple(given.shape), kept, args.beats)
    program = Program(
        tuple(given.shape),
        fmt,
        kept,
        args.levels,
        args.beats,
        axis,
        mhz=args.mhz,
        family=args.family,
        carry_save=args.carry_save and args.mhz is not None,
    )
    inside = [node for node in numbers if node is not entry]
    whole = Arithmetic({"data_in_0": fmt, "data_out_0": out}, attributes=attributes_of({"program": program}))
    _replace(graph, entry, result, whole, FRAME if axis == 1 else CHANNELS_LAST)
    return graph, {"modified": True, "unrolled": [node.name for node in inside]}


def _axis(shape: tuple[int, ...], steps: Sequence[Step], beats: int) -> int:
    """The dimension of the input that a beat has a part of."""
    if beats == 1:
        return 1
    images = any(step.op is not None and step.op.name in _POSITIONS for step in steps)
    axis = 2 if images else 1
    if len(shape) < 3 or shape[0] != 1 or shape[axis] % beats:
        raise UnsupportedError(
            "a beat has as many positions of a frame as every other one",
            field="hardware.unroll_beats",
            got=f"{beats} beats, an input {list(shape)}",
            expected=f"a divisor of the {shape[axis]} positions along dimension {axis}"
            if len(shape) > 2
            else "an input of one frame with positions: an image, or a sequence",
            remedy="choose another hardware.unroll_beats, or leave it out",
        )
    return axis


def _depends(node: fx.Node, numbers: dict[fx.Node, int]) -> bool:
    return node.op != "output" and any(given in numbers for given in node.all_input_nodes)


def _step(graph: MaseGraph, node: fx.Node, numbers: dict[fx.Node, int]) -> Step:
    """A node as a step of the program."""
    module, shape = graph.meta_of(node).module, tuple(graph.tensor(node, "data_out_0").shape)
    sources = [producer for name, (producer, _) in graph.sources(node).items() if name.startswith("data_in_")]
    if isinstance(module, Quantized) and all(source in numbers for source in sources):
        parameters = {name: module.mantissa(name) for name in module.parameter_names}
        return Step(node.name, module.op, module.arithmetic, parameters, tuple(numbers[s] for s in sources), shape)
    if not graph.is_implicit(node) or len(sources) != 1:
        raise UnsupportedError(
            "this node is not quantised, so it cannot be part of a whole frame per beat",
            node=node.name,
            field="hardware.unroll",
            got=str(graph.meta_of(node).common.mase_op),
            remedy="quantise it, or compile the parts of the model before and after it",
        )
    (source,) = sources
    before = tuple(graph.tensor(source, "data_out_0").shape)
    order = _renamed(graph, node, source, torch.arange(math.prod(before), dtype=torch.float64).reshape(before))
    return Step(node.name, None, Arithmetic({}), {}, (numbers[source],), shape, order.to(torch.int64))


def _renamed(graph: MaseGraph, node: fx.Node, source: fx.Node, places: Tensor) -> Tensor:
    """What a node that only names elements anew makes of their numbers."""

    def value(given: fx.Node) -> Any:
        return places if given is source else graph.meta_of(given).common.results["data_out_0"].value

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), value)
    target: Any = node.target
    if node.op == "call_module":
        found = module_at(graph.model, str(target))(*args, **kwargs)
    elif node.op == "call_method":
        found = getattr(args[0], str(target))(*args[1:], **kwargs)
    else:
        found = target(*args, **kwargs)
    assert isinstance(found, Tensor)  # an implicit node of one result
    return found


def _replace(graph: MaseGraph, entry: fx.Node, result: fx.Node, arithmetic: Arithmetic, op: str) -> None:
    """Put the node of a program in place of those of its steps."""
    module = Quantized(graph.catalogue[op], arithmetic)
    name = FRAME
    while hasattr(graph.model, name):
        name += "_"
    module.label = name
    graph.model.add_submodule(name, module)
    (output,) = (node for node in graph.nodes if node.op == "output")
    with graph.fx_graph.inserting_before(output):
        node = graph.fx_graph.create_node("call_module", name, (entry,), {}, name=name)
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    meta.common.mase_type, meta.common.mase_op = module.op.mase_type, op
    meta.common.args["data_in_0"] = graph.tensor(entry, "data_out_0").copy()
    meta.common.results["data_out_0"] = graph.tensor(result, "data_out_0").copy()
    output.args = fx.node.map_arg(output.args, lambda given: node if given is result else given)
    graph.fx_graph.eliminate_dead_code(lambda given: given.op in ("placeholder", "output"))
    finish(graph)
