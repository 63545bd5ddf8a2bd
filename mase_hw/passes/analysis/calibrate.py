"""Observed ranges: the smallest and largest value of every tensor over a data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field
from torch import Tensor, fx

from mase_hw.errors import GraphError
from mase_hw.ir.annotate import named_results
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.passes.analysis.statistics import RangeMinMax
from mase_hw.passes.analysis.statistics.base import check_finite
from mase_hw.passes.analysis.statistics.batches import batches, empty
from mase_hw.passes.base import Info, PassArgs, graph_pass

CALIBRATE_PASS = "calibrate_analysis_pass"
CALIBRATED = "calibrated"
"""Key beside ``stat`` of the range from which a format is chosen."""


class CalibrateArgs(PassArgs):
    """Arguments of :func:`calibrate_analysis_pass`."""

    data: Any = Field(description="iterable of batches: a tensor, a tuple in the order of the inputs, or a dict")
    progress: Callable[[int, int | None], Any] | None = Field(
        default=None, description="called after every batch with the number done and the total, if known"
    )


@graph_pass(CALIBRATE_PASS, args=CalibrateArgs, needs=(COMMON_PASS,))
def calibrate_analysis_pass(graph: MaseGraph, args: CalibrateArgs) -> tuple[MaseGraph, Info]:
    """Run the model over data and record the range of every tensor, parameters included.

    The ranges are at ``meta["software"]["args"][name]["stat"]["range_min_max"]`` (and ``results``) as
    ``min``, ``max`` (Python floats) and ``count`` (numbers seen); a copy at ``[name]["calibrated"]`` is what the
    quantisation chooses formats from. One batch is in memory at a time; its first
    dimension may differ from that of ``dummy_in``, all others are the same.

    Raises:
        ConfigError: If there is no data, or a batch does not fit the inputs.
        FormatError: If data, a weight or an activation is NaN or infinite; names it.

        After an error the metadata is as it was before.
    """
    _refuse_meta(graph)
    parameters = _parameter_ranges(graph)
    seen: dict[tuple[fx.Node, str], RangeMinMax] = {}
    done = 0
    total = len(args.data) if hasattr(args.data, "__len__") else None
    for index, inputs in batches(graph, args.data):
        for name, value in inputs.items():
            if isinstance(value, Tensor):
                check_finite(value, f"input {name} of batch {index}")
        evaluate(graph.model, inputs, lambda node, value: _observe(seen, node, value))
        done += 1
        if args.progress is not None:
            args.progress(done, total)
    if not done:
        raise empty()
    for node in graph.nodes:
        software = graph.meta_of(node).software
        found = {name: parameters[node, name] for n, name in parameters if n is node}
        found |= {arg: seen[source] for arg, source in graph.sources(node).items() if source in seen}
        for arg, observed in found.items():
            _record(software.args, arg, observed)
        for name in graph.meta_of(node).common.results.tensors:
            if (node, name) in seen:
                _record(software.results, name, seen[node, name])
    return graph, {"batches": done, "tensors": len(seen) + len(parameters)}


def _refuse_meta(graph: MaseGraph) -> None:
    """Tensors on the ``meta`` device have no values to observe."""
    empty_ones = [name for name, tensor in graph.model.state_dict().items() if tensor.is_meta]
    if empty_ones:
        raise GraphError(
            "the model has tensors without values (on the meta device), so nothing can be observed",
            node=empty_ones[0],
            got=f"{len(empty_ones)} such tensors",
            remedy="load the weights first",
        )


def _parameter_ranges(graph: MaseGraph) -> dict[tuple[fx.Node, str], RangeMinMax]:
    """Ranges of the parameters of every module; they are constant, so once is enough."""
    ranges: dict[tuple[fx.Node, str], RangeMinMax] = {}
    for node in graph.nodes:
        op, module = graph.op_of(node), graph.meta_of(node).module
        for name in op.parameters if op is not None and module is not None else ():
            parameter = getattr(module, name, None)
            if isinstance(parameter, Tensor):
                ranges[node, name] = RangeMinMax()
                ranges[node, name].update(parameter, f"{node.name}.{name}")
    return ranges


def _observe(seen: dict[tuple[fx.Node, str], RangeMinMax], node: fx.Node, value: Any) -> None:
    for name, result in named_results(value):
        if isinstance(result, Tensor):
            seen.setdefault((node, name), RangeMinMax()).update(result, f"{node.name}.{name}")


def _record(branch: dict[str, Any], name: str, observed: RangeMinMax) -> None:
    if observed.count:
        entry = branch.setdefault(name, {})
        entry.setdefault("stat", {})[RangeMinMax.name] = observed.result()
        # Formats are chosen from this copy: a statistic may be taken again, with other options.
        entry[CALIBRATED] = observed.result()
