"""An independent copy of a graph with its metadata, for passes that try several things on one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mase_hw.ir.graph import MaseGraph
from mase_hw.ir.metadata import MaseMetadata

NUMBERS = frozenset({int, float})


def copy_graph(graph: MaseGraph, share_weights: bool = True) -> MaseGraph:
    """A copy that passes may transform while the original stays as it is.

    Nodes keep their names. Metadata, and what passes left at the graph, is copied; tensors are shared. What
    emission made (netlist, bundle) is left out, and with it the record of those passes.

    Args:
        graph: The graph.
        share_weights: Parameters and buffers stay the same tensors; right as long as nothing trains or writes them.

    Raises:
        GraphError: If the model cannot be copied.
    """
    made = MaseGraph(graph.model, catalogue=graph.catalogue, share_weights=share_weights, skip_init_metadata=True)
    made.cf_args, made.example, made.nested = dict(graph.cf_args), graph.example, graph.nested
    made.meta |= {key: _branches(value) for key, value in graph.notes.items()}
    made.plain = set(graph.plain)
    for old, new in zip(graph.nodes, made.nodes, strict=True):
        given = old.meta.get("mase")
        if isinstance(given, MaseMetadata):
            meta = new.meta["mase"] = MaseMetadata(new, made.model)
            meta.fill(_branches(given))
    made.meta["passes"] = graph.lasting
    if graph.metadata.common.nodes_in or graph.metadata.common.results:
        made.refresh()
    return made


def _branches(value: Any) -> Any:
    """Nested dicts and lists anew, everything else as it is."""
    if isinstance(value, Mapping):
        return {key: _branches(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    # Samples and histograms are long lists of numbers: looking at each of them is most of what a copy costs.
    return value.copy() if NUMBERS.issuperset(map(type, value)) else [_branches(item) for item in value]
