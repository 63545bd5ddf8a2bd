"""A quantised network, or a part of it, as one node, whose module takes a whole frame per beat, or some positions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, fx

from mase_hw.errors import ConfigError, UnsupportedError, refuse_unknown
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.formats.attributes import attributes_of
from mase_hw.ir import MaseGraph, MaseMetadata, TensorMetadata
from mase_hw.ir.module_paths import translations
from mase_hw.ir.paths import module_at
from mase_hw.nn import Quantized
from mase_hw.opdef import Arithmetic
from mase_hw.ops.concat import holding_all
from mase_hw.ops.unrolled._network import Program, Step
from mase_hw.ops.unrolled.several import inputs_of
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.lower._edit import finish
from mase_hw.passes.mapping.args import HardwareArgs

FRAME = "frame"
"""The node, and the op that it is."""
CHANNELS_LAST = "frame_channels_last"
"""The op where images or sequences with their channels first come in several beats."""
SEVERAL = "frame_of_several"
"""The op of several inputs."""
RESULT = "frame_result"
"""The op, and the nodes, of several results, each of which is a part of that of the frame."""
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
    first: str = Field(default="", description="the node that the part begins with; by default the input of the model")
    last: str = Field(default="", description="the node that it ends with; by default that of the result")


def unroll_args(asked: HardwareArgs) -> UnrollArgs:
    """The arguments that the table ``hardware`` of a configuration gives."""
    return UnrollArgs(
        levels=asked.unroll_levels,
        beats=asked.unroll_beats,
        mhz=asked.unroll_mhz,
        family=asked.family,
        carry_save=asked.unroll_carry_save,
        first=asked.unroll_first,
        last=asked.unroll_last,
    )


@dataclass(frozen=True)
class Part:
    """Nodes that become one, and what they compute.

    Args:
        entries: The nodes whose results they take.
        results: Those whose results are read behind them.
        nodes: Their names.
        program: What they compute; of several results all elements in a row, in a format that holds all.
        op: The op that the one node is.
    """

    entries: tuple[str, ...]
    results: tuple[str, ...]
    nodes: tuple[str, ...]
    program: Program
    op: str


@graph_pass("unroll_frame_transform_pass", args=UnrollArgs, needs=("quantize_transform_pass",))
def unroll_frame_transform_pass(graph: MaseGraph, args: UnrollArgs) -> tuple[MaseGraph, Info]:
    """Make one node of a quantised network, or of a part of it; of several results each is a slice of that of the node.

    Returns:
        The graph, whose node ``frame`` computes what all nodes did, and the names of these.

    Raises:
        ConfigError: If a node that the part begins or ends with is not in the graph, or not on a way to the other.
        UnsupportedError: If there are several inputs or results and a frame comes in several beats, or one of them is
            an image inside of a network; if a node is not quantised; or if a frame has no positions, or not as many
            in every beat.
    """
    part = part_of(graph, args)
    put(graph, part)
    return graph, {"modified": True, "unrolled": list(part.nodes)}


def part_of(graph: MaseGraph, args: UnrollArgs) -> Part:
    """The nodes that become one, and what they compute; the graph stays as it is.

    Raises:
        MaseHwError: As the pass.
    """
    entries, inside, results = _ends(graph, args)
    alone = len(entries) == 1 and len(results) == 1
    formats = [_format(graph, entry) for entry in entries]
    shapes = [tuple(graph.tensor(entry, "data_out_0").shape) for entry in entries]
    shape, steps, numbers = shapes[0], list[Step](), {entries[0]: 0}
    inputs: tuple[tuple[int, FixedFormat], ...] = ()
    if len(entries) > 1:
        taken, total = inputs_of(shapes)
        steps = list(taken)
        shape, inputs = (1, total), tuple((math.prod(of), fmt) for of, fmt in zip(shapes, formats, strict=True))
        numbers = {entry: number for number, entry in enumerate(entries, 1)}
    for node in graph.nodes:
        if node in inside:
            steps.append(_step(graph, node, numbers))
            numbers[node] = len(steps)
    if alone:
        del steps[numbers[results[0]] :]
    else:
        _check_alone(graph, args, (*entries, *results))
    if len(results) > 1:
        steps += _in_a_row(graph, results, numbers, len(steps))
    axis = _axis(shape, steps, args.beats)
    if alone and args.beats == 1 and (args.first or args.last) and _positions_last(graph, (*entries, *results)):
        axis = 2
    saved = args.carry_save and args.mhz is not None
    program = Program(
        shape,
        formats[0],
        tuple(steps),
        args.levels,
        args.beats,
        axis,
        mhz=args.mhz,
        family=args.family,
        carry_save=saved,
        inputs=inputs,
    )
    names = tuple(node.name for node in numbers if node not in entries)
    op = SEVERAL if inputs else FRAME if axis == 1 else CHANNELS_LAST
    return Part(tuple(entry.name for entry in entries), tuple(node.name for node in results), names, program, op)


def _format(graph: MaseGraph, node: fx.Node) -> FixedFormat:
    """The format of what a node gives."""
    return _known(graph.tensor(node, "data_out_0").fmt)


def _known(fmt: FixedFormat | None) -> FixedFormat:
    assert fmt is not None  # all tensors of a quantised graph have formats
    return fmt


def _check_alone(graph: MaseGraph, args: UnrollArgs, ends: Sequence[fx.Node]) -> None:
    """Refuse what a part of one input and one result alone can have."""
    inner = (args.first or args.last) and _positions_last(graph, ends)
    if args.beats > 1 or inner:
        raise UnsupportedError(
            "images inside of a network have one input and one result where they are one expression"
            if inner
            else "a frame in several beats has one input and one result",
            field="hardware.unroll_first" if inner else "hardware.unroll_beats",
            got=f"inputs or results: {', '.join(node.name for node in ends)}",
            remedy="leave it out, or let the part begin earlier or end later",
        )


def _in_a_row(graph: MaseGraph, results: Sequence[fx.Node], numbers: dict[fx.Node, int], count: int) -> list[Step]:
    """Steps that put all elements of several results in a row, in the narrowest format that holds all."""
    formats = {f"data_in_{k}": _format(graph, node) for k, node in enumerate(results)}
    shapes = [tuple(graph.tensor(node, "data_out_0").shape) for node in results]
    sizes = [math.prod(shape) for shape in shapes]
    flat = [
        Step(node.name, None, Arithmetic({}), {}, (numbers[node],), (1, size), torch.arange(size).reshape(1, size))
        for node, size in zip(results, sizes, strict=True)
    ]
    own = Arithmetic({**formats, "data_out_0": holding_all(formats)}, attributes=attributes_of({"dim": 1}))
    inputs = tuple(range(count + 1, count + 1 + len(flat)))
    return [*flat, Step(FRAME, graph.catalogue["cat"], own, {}, inputs, (1, sum(sizes)))]


def put(graph: MaseGraph, part: Part) -> str:
    """Put a node in place of those that a part is made of, in a copy of its graph as well; the name of the node."""
    entries, results = ([graph.node(name) for name in names] for names in (part.entries, part.results))
    formats = {f"data_in_{k}": _format(graph, entry) for k, entry in enumerate(entries)}
    tensors = [graph.tensor(node, "data_out_0") for node in results]
    out = tensors[0].copy()
    if len(results) > 1:
        out = dataclasses.replace(out, shape=list(part.program.steps[-1].shape), value=None)
        out.fmt = part.program.steps[-1].arithmetic.formats["data_out_0"]
    formats["data_out_0"] = _known(out.fmt)
    arithmetic = Arithmetic(formats, attributes=attributes_of({"program": part.program}))
    behind = next(node for node in reversed(graph.nodes) if node in results)
    node = _insert(graph, behind, part.op, arithmetic, entries, out)
    begin, given = 0, [node]
    for result, tensor in zip(results, tensors, strict=True):
        if len(results) > 1:
            given.append(_result(graph, given[-1], node, tensor, begin))
            begin += math.prod(tensor.shape)
        result.replace_all_uses_with(given[-1], lambda user: user.name not in part.nodes)
    _put_behind(graph, given)
    graph.fx_graph.eliminate_dead_code(lambda given: given.op in ("placeholder", "output"))
    finish(graph)
    return node.name


def _result(graph: MaseGraph, behind: fx.Node, row: fx.Node, tensor: TensorMetadata, begin: int) -> fx.Node:
    """The node, behind another one, of one result, whose elements are in a row with those of others."""
    shape = tuple(tensor.shape)
    attributes = attributes_of({"begin": begin, "length": math.prod(shape), "out_shape": shape})
    formats = {"data_in_0": _format(graph, row), "data_out_0": _known(tensor.fmt)}
    # The row has place for more than the result ever is: no bit that is dropped says anything.
    arithmetic = Arithmetic(formats, Rounding.FLOOR, Overflow.WRAP, attributes)
    return _insert(graph, behind, RESULT, arithmetic, [row], tensor.copy())


def _put_behind(graph: MaseGraph, made: Sequence[fx.Node]) -> None:
    """Move nodes that read one of those behind the last of these, which come in order."""
    moved, last, first = set(made), made[-1], made[0]
    for node in list(graph.nodes):
        if node is first:
            return
        if any(source in moved for source in node.all_input_nodes):
            last.append(node)
            moved.add(node)
            last = node


def _ends(graph: MaseGraph, args: UnrollArgs) -> tuple[list[fx.Node], set[fx.Node], list[fx.Node]]:
    """The nodes whose results a part takes, the nodes of it, and those whose results are read behind it."""
    if not args.first and not args.last:
        return _whole(graph)
    first = _named(graph, args.first, "hardware.unroll_first", 0) if args.first else None
    last = _named(graph, args.last, "hardware.unroll_last", -1) if args.last else None
    inside = nodes_between(graph, first, last)
    if not inside:
        raise ConfigError(
            "no node is on a way from the first node of the part to its last",
            field="hardware.unroll_first" if args.first else "hardware.unroll_last",
            got=f"{args.first or 'the input'} to {args.last or 'the result'}",
            remedy="name a later node as hardware.unroll_last",
        )
    entries, results = ends_of(graph, inside)
    return entries, inside, results


def _whole(graph: MaseGraph) -> tuple[list[fx.Node], set[fx.Node], list[fx.Node]]:
    """The same of the whole network."""
    inside = nodes_between(graph, None, None)
    entries, results = ends_of(graph, inside)
    if not results:
        (output,) = (node for node in graph.nodes if node.op == "output")
        raise UnsupportedError("the network computes nothing", node=output.name, field="hardware.unroll")
    return entries, inside, results


def _named(graph: MaseGraph, name: str, field: str, place: int) -> fx.Node:
    """The node of a name, or of the path of a module the first or last one."""
    found = translations(graph, [name]).get(name, [name])[place]
    nodes = {node.name: node for node in nodes_between(graph, None, None)}
    refuse_unknown(found, nodes, "there is no such node", field=field)
    return nodes[found]


def nodes_between(graph: MaseGraph, first: fx.Node | None, last: fx.Node | None) -> set[fx.Node]:
    """The nodes on a way from the first one to the last one, both included; by default from inputs, or to results.

    Of nodes that only name elements anew those before the first one belong to it.
    """
    while first is not None and len(sources := _data(graph, first)) == 1 and graph.is_implicit(sources[0]):
        first = sources[0]
    entered = {node for node in graph.nodes if graph.meta_of(node).common.mase_op == "quantize"}
    since = set(entered) if first is None else {first}
    for node in graph.nodes:
        if any(given in since for given in node.all_input_nodes):
            since.add(node)
    until = {node for node in graph.nodes if node.op == "output"} if last is None else {last}
    for node in reversed(graph.nodes):
        if any(user in until for user in node.users):
            until.add(node)
    both = (since & until) - entered
    return {node for node in both if node.op != "output" and graph.meta_of(node).common.results.tensors}


def ends_of(graph: MaseGraph, inside: Collection[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
    """The nodes outside whose results those inside take as data, and those inside whose results are read outside."""
    taken = {source for node in inside for source in _data(graph, node) if source not in inside}
    read = [node for node in graph.nodes if node in inside and any(user not in inside for user in node.users)]
    return [node for node in graph.nodes if node in taken], read


def _data(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """What a node takes as data."""
    return [producer for name, (producer, _) in graph.sources(node).items() if name.startswith("data_in_")]


def _positions_last(graph: MaseGraph, ends: Sequence[fx.Node]) -> bool:
    """Whether an end of a part is an image, or a sequence whose channels come first, which are streamed so."""
    most = max(len(graph.tensor(node, "data_out_0").shape) for node in ends)
    return most > 3 or (most == 3 and any(graph.meta_of(node).common.mase_op in _POSITIONS for node in graph.nodes))


def axis_of(shape: tuple[int, ...], ops: Iterable[str]) -> int:
    """The dimension along which a tensor has positions, by the ops that read it."""
    return 2 if len(shape) > 2 and any(op in _POSITIONS for op in ops) else 1


def _axis(shape: tuple[int, ...], steps: Sequence[Step], beats: int) -> int:
    """The dimension of the input that a beat has a part of."""
    if beats == 1:
        return 1
    axis = axis_of(shape, [step.op.name for step in steps if step.op is not None])
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


def _insert(
    graph: MaseGraph,
    behind: fx.Node,
    op: str,
    arithmetic: Arithmetic,
    given: Sequence[fx.Node],
    out: TensorMetadata,
) -> fx.Node:
    """A quantised node behind another one."""
    module = Quantized(graph.catalogue[op], arithmetic)
    name = RESULT if op == RESULT else FRAME
    while hasattr(graph.model, name):
        name += "_"
    module.label = name
    graph.model.add_submodule(name, module)
    with graph.fx_graph.inserting_after(behind):
        node = graph.fx_graph.create_node("call_module", name, tuple(given), {}, name=name)
    meta = node.meta["mase"] = MaseMetadata(node, graph.model)
    meta.common.mase_type, meta.common.mase_op = module.op.mase_type, op
    for k, source in enumerate(given):
        meta.common.args[f"data_in_{k}"] = graph.tensor(source, "data_out_0").copy()
    meta.common.results["data_out_0"] = out
    return node
