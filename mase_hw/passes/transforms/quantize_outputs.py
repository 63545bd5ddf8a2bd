"""What leaves the model, and what only passes it on: results that have more bits than others."""

from __future__ import annotations

from torch import fx

from mase_hw.catalogue import OpDef
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.passes.transforms.quantize_config import QuantizeArgs

_COARSE, _FINE = FixedFormat(2, 0), FixedFormat(2, 1)


def leaves(graph: MaseGraph, args: QuantizeArgs, node: fx.Node) -> bool:
    """Whether nothing but the output of the model reads a result, or the same numbers in other places."""
    reads = [
        user.op == "output" or (_passes_on(graph, args, user) and leaves(graph, args, user)) for user in node.users
    ]
    return bool(reads) and all(reads)


def passes_out(graph: MaseGraph, args: QuantizeArgs, node: fx.Node) -> bool:
    """Whether a node passes numbers on to the output of the model, with all bits that they have."""
    return args.output_width is not None and _passes_on(graph, args, node) and leaves(graph, args, node)


def _passes_on(graph: MaseGraph, args: QuantizeArgs, node: fx.Node) -> bool:
    """Whether the result of a node is numbers of its data, and no rule for the node gives them other bits."""
    op = graph.op_of(node)
    if op is None or graph.is_implicit(node):
        return op is not None
    config, specific = args.config_for(node.name, op.name)
    given = any(key.startswith(("data_in_", "data_out_")) for key in specific)
    return config.quantised and not given and _moves(op)


def _moves(op: OpDef) -> bool:
    """Whether the results of an op are numbers of its data, in other places or chosen among them; not what it computes.

    The default format says so: finer data gives a finer result, and what has a sign keeps it.
    """
    if op.default_out is None or op.rounds or op.non_negative:
        return False
    fmt = op.default_out({name: _FINE if name.startswith("data_in_") else _COARSE for name in op.formats})
    return fmt.signed and fmt.frac_width == _FINE.frac_width
