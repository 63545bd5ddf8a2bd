"""Common metadata: op, arguments and results of every node, with shapes, types and values."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from mase_hw.ir.annotated import INIT_PASS
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.passes.base import Info, PassArgs, graph_pass


class CommonArgs(PassArgs):
    """Arguments of :func:`add_common_metadata_analysis_pass`."""

    dummy_in: dict[str, object] | None = Field(
        default=None, description="a tensor for every input of the model, by the name of the argument"
    )
    add_value: bool | None = Field(
        default=None,
        description="keep the tensors themselves in the metadata, as ``value``; they are unless this is false",
    )
    force_device_meta: bool = Field(
        default=False,
        description="compute shapes only, without reading or copying a weight; ``value`` is a tensor on the device "
        "meta, so ``add_value`` cannot be asked for",
    )


@graph_pass(COMMON_PASS, args=CommonArgs, needs=(INIT_PASS,))
def add_common_metadata_analysis_pass(graph: MaseGraph, args: CommonArgs) -> tuple[MaseGraph, Info]:
    """Fill ``common`` of every node and of the graph from one evaluation.

    Args:
        graph: A graph with initialised metadata.
        args: ``dummy_in`` (required unless the model has no inputs), ``add_value``, ``force_device_meta``.

    Returns:
        The graph, and the number of nodes by ``mase_op``.

    After an error the metadata is as it was before.

    Raises:
        ConfigError: If an input is missing, unexpected or no tensor.
        UnsupportedError: If a node is no op of the catalogue.
        GraphError: If the evaluation fails; names the node and the shapes.
    """
    graph.add_common_metadata(args.dummy_in or {}, args.add_value, args.force_device_meta)
    ops = Counter(graph.meta_of(node).common.mase_op for node in graph.nodes)
    return graph, {"nodes": len(graph.nodes), "ops": dict(sorted(ops.items()))}
