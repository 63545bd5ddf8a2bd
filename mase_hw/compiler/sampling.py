"""What chooses the next token in hardware, behind the scores of a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat, format_of_places
from mase_hw.formats.attributes import attributes_of
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import new_metadata
from mase_hw.nn import Quantized
from mase_hw.opdef import Arithmetic
from mase_hw.options.decode import DecodeOptions
from mase_hw.passes.base import Info

WEIGHTS = FixedFormat(16, 16, signed=False)
"""Of the candidates: their softmax."""


def append_sampling(graph: MaseGraph, options: DecodeOptions) -> tuple[MaseGraph, Info]:
    """Put what chooses a token behind the scores of a quantised graph, whose result is the token then.

    Args:
        graph: A quantised graph of one result, scores ``(1, tokens, ids)``.
        options: How it is chosen.

    Raises:
        UnsupportedError: If the result is something else.
    """
    (output,) = (node for node in graph.nodes if node.op == "output")
    found = [producer for producer, _ in graph.sources(output).values()]
    tensors = [graph.tensor(node, "data_out_0") for node in found]
    shapes = [list(tensor.shape) for tensor in tensors]
    fmt = tensors[0].fmt if len(tensors) == 1 else None
    if fmt is None or len(shapes[0]) != 3 or shapes[0][0] != 1 or isinstance(fmt, ScaledFormat):
        raise UnsupportedError(
            "the model does not give the scores of the next token",
            node=", ".join(node.name for node in found),
            field="decode.sample",
            got=shapes,
            expected="one result, fixed-point scores (1, tokens, ids)",
            remedy="leave decode.sample out, or return the scores alone",
        )
    (scores,), (_, tokens, size) = found, shapes[0]
    ids = format_of_places(size)
    row, count = (1, tokens), min(options.candidates, size)
    if options.sample == "greedy":
        chosen = _append(graph, "argmax", [scores], [fmt], ids, row, {"dim": 2})
    else:
        top: dict[str, Any] = {"size": size, "count": count, "largest": True}
        best = _append(graph, "top_values", [scores], [fmt], fmt, (*row, count), top)
        places = _append(graph, "top_places", [scores], [fmt], ids, (*row, count), top)
        scale = {"dim": 2, "size": count, "scale": 1 / options.temperature}
        weights = _append(graph, "softmax", [best], [fmt], WEIGHTS, (*row, count), scale)
        chosen = _append(graph, "draw", [weights, places], [WEIGHTS, ids], ids, row, {"seed": options.seed})
    output.args = fx.node.map_arg(output.args, lambda node: chosen if node is scores else node)
    common = graph.meta_of(output).common
    for tensor in (*common.args.tensors.values(), *common.results.tensors.values()):
        tensor.shape = list(row)
    graph.fx_graph.lint()
    graph.model.recompile()
    graph.refresh()
    return graph, {"modified": True, "chosen": chosen.name}


def _append(
    graph: MaseGraph,
    op: str,
    inputs: Sequence[fx.Node],
    formats: Sequence[FixedFormat],
    result: FixedFormat,
    shape: tuple[int, ...],
    attributes: Mapping[str, Any],
) -> fx.Node:
    """A quantised op before the output."""
    named = {f"data_in_{index}": fmt for index, fmt in enumerate(formats)} | {"data_out_0": result}
    module = Quantized(graph.catalogue[op], Arithmetic(named, attributes=attributes_of(attributes)))
    name = module.label = f"sample_{op}"
    graph.model.add_submodule(name, module)
    (output,) = (node for node in graph.nodes if node.op == "output")
    with graph.fx_graph.inserting_before(output):
        node = graph.fx_graph.create_node("call_module", name, tuple(inputs), {}, name=name)
    meta = new_metadata(graph, node)
    for index, source in enumerate(inputs):
        meta.common.args[f"data_in_{index}"] = graph.tensor(source, "data_out_0").copy()
    for key, value in attributes.items():
        meta.common.args[key] = value
    tensor = meta.common.results["data_out_0"] = graph.tensor(inputs[0], "data_out_0").copy()
    tensor.shape = list(shape)
    return node
