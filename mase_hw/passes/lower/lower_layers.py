"""Layers that other layers express become those: transposed convolutions, other paddings, enlargement and the like."""

from __future__ import annotations

import copy
import operator

from torch import nn

from mase_hw.ir import MaseGraph
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.layers.attention_layers import ATTENTION, lower_attention_layer
from mase_hw.passes.lower.layers.call import call_of, expand
from mase_hw.passes.lower.layers.recurrent import CELLS, RECURRENT, lower_cell, lower_recurrent
from mase_hw.passes.lower.layers.rules import RULES
from mase_hw.passes.lower.layers.whole import SPATIAL, behind_frames, refuse_unbatched, results_apart, whole_frames


@edit.lowering("lower_layers_transform_pass")
def lower_layers_transform_pass(graph: MaseGraph) -> dict[str, str]:
    """Write layers without hardware of their own as layers that have it.

    A rule for each is in ``mase_hw/passes/lower/layers``. The result is the same up to the order in which
    floats are added. The node that computes the result keeps the name; where several are needed the path of the module
    names all of them, so that a configuration reaches them by it. What writes in place is written as what does not: its
    readers are connected to it already. What no rule covers stays as it is.

    A reduction of all dimensions (``x.mean()``) of an example with one row along dimension 0 is that of a frame, and so
    is one of a dimension 0 in front of that of the frames (``torch.stack(parts).mean(0)``). A layer of images that gets
    one without a dimension for frames is refused. Slices are lowered after this.
    """
    lowered = {**results_apart(graph), **whole_frames(graph), **behind_frames(graph), **_without_indices(graph)}
    while found := _lower(graph):
        # What a rule makes may be lowered in its turn.
        lowered = {**found, **lowered}
    return lowered


def _lower(graph: MaseGraph) -> dict[str, str]:
    """Apply every rule once to what is there; node -> what it was."""
    lowered: dict[str, str] = {}
    for node in graph.nodes:
        meta = graph.meta_of(node)
        name = meta.common.mase_op
        if isinstance(meta.module, RECURRENT) and graph.op_of(node) is not None:
            lower_recurrent(graph, node, meta.module)
            lowered[node.name] = name
            continue
        if isinstance(meta.module, CELLS) and graph.op_of(node) is not None:
            lower_cell(graph, node, meta.module)
            lowered[node.name] = name
            continue
        if isinstance(meta.module, ATTENTION) and graph.op_of(node) is not None:
            lower_attention_layer(graph, node, meta.module)
            lowered[node.name] = name
            continue
        rule = RULES.get(name)
        if (rule is None and name not in SPATIAL) or graph.op_of(node) is None:
            continue
        call = call_of(graph, node)
        if call is not None:
            refuse_unbatched(call)
        if rule is None:
            continue
        body = None if call is None else rule(call)
        if call is not None and body is not None:
            edit.carry_type(graph, expand(graph, node, body, call.inputs))
            lowered[node.name] = name
    return lowered


def _without_indices(graph: MaseGraph) -> dict[str, str]:
    """Poolings that return the positions of maxima to nobody, without these; node -> what it was."""
    changed: dict[str, str] = {}
    for node in graph.nodes:
        meta = graph.meta_of(node)
        if meta.common.args.get("return_indices") is not True or len(meta.common.results) != 2:
            continue
        users = list(node.users)
        first = all(user.target is operator.getitem and user.args[1] == 0 for user in users)
        if not first or not users or not isinstance(meta.module, nn.Module):
            continue
        pool = copy.copy(meta.module)
        pool.return_indices = False  # type: ignore[assignment]
        graph.model.add_submodule(f"{node.name}_values", pool)
        node.target = f"{node.name}_values"
        meta.common.args["return_indices"] = False
        del meta.common.results["data_out_1"]
        for user in users:
            edit.bypass(graph, user, node)
        changed[node.name] = meta.common.mase_op
    return changed
