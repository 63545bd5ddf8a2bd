"""Noise analysis: a quantised network beside its float original, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import named_results
from mase_hw.ir.evaluate import evaluate, every_value
from mase_hw.passes.analysis.report_tables import ReportArgs, publish
from mase_hw.passes.analysis.report_tables import Table as ReportTable
from mase_hw.passes.analysis.statistics.base import batches
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.quantize.noise.network import Method, NoiseSums, arithmetic_of, network_noise, origins, stranger
from mase_hw.passes.quantize.noise.record import NodeNoise
from mase_hw.passes.quantize.noise.report import NoiseReport

Progress = Callable[[int, int | None], Any]


def analyse_noise(
    float_graph: MaseGraph | nn.Module,
    quantised_graph: MaseGraph,
    data: Iterable[Any],
    *,
    progress: Progress | None = None,
) -> NoiseReport:
    """Compare every computing node of a quantised network with the float network.

    *Local* noise runs the node's quantised module on the exact float inputs it has in the float network: its own
    quantisation of inputs, parameters and result, and nothing else. *Cumulative* noise compares its result in the
    quantised network, to which everything before it has contributed. A node left in float has no local noise. All
    figures are over all elements of all batches, summed in float64. A batch and its activations are in memory at once.

    Args:
        float_graph: The graph as it was before quantisation, or the module it was made from; its nodes are found by
            name, which quantisation keeps. Simplify and fold it in the same way as the quantised one was.
        quantised_graph: A graph after ``quantize_transform_pass``.
        data: Iterable of batches of inputs: tensors, tuples in order or dicts by name, as for calibration.
        progress: Called after every batch with the number done and the total, if known.

    Returns:
        The report, nodes in order of execution.

    Raises:
        GraphError: If the second graph is not quantised, or the two do not belong together; names the node.
        ConfigError: If there is no data, or a batch does not fit the inputs.
        FormatError: If the float network gives NaN or infinity.
    """
    exact = float_graph if isinstance(float_graph, MaseGraph) else _traced(float_graph, quantised_graph)
    pair = _Pair(exact, quantised_graph)
    done = 0
    total = len(data) if isinstance(data, Sized) else None
    for _, inputs in batches(quantised_graph, data, subject="data"):
        pair.update(inputs)
        done += 1
        if progress is not None:
            progress(done, total)
    return pair.report(done)


def _traced(model: nn.Module, like: MaseGraph) -> MaseGraph:
    return MaseGraph(
        model, cf_args=like.cf_args or None, catalogue=like.catalogue, share_weights=True, example=like.example
    )


class _Pair:
    """Both networks, and the sums of every node."""

    def __init__(self, exact: MaseGraph, quantised: MaseGraph) -> None:
        self.exact = exact
        self.quantised = quantised
        self.origin = origins(exact, quantised)
        self.nodes: dict[str, tuple[fx.Node, Arithmetic | None]] = {}
        for node in quantised.nodes:
            arithmetic = arithmetic_of(quantised, node)
            computes = node.op not in ("placeholder", "get_attr", "output") and not quantised.is_implicit(node)
            if arithmetic is not None or computes:
                self.nodes[node.name] = (node, arithmetic)
        self.local = {name: NoiseSums.of(arithmetic) for name, (_, arithmetic) in self.nodes.items()}
        self.cumulative = {name: NoiseSums.of(arithmetic) for name, (_, arithmetic) in self.nodes.items()}

    def update(self, inputs: dict[str, object]) -> None:
        exact = every_value(self.exact.model, inputs)

        def compare(node: fx.Node, value: Any) -> None:
            if node.name not in self.nodes:
                return
            arithmetic = self.nodes[node.name][1]
            wanted = exact[self.origin[node.name]]
            alone = self._alone(node, exact) if arithmetic is not None else wanted
            for sums, found in ((self.local, alone), (self.cumulative, value)):
                for (_, want), (_, got) in zip(named_results(wanted), named_results(found), strict=True):
                    if isinstance(want, Tensor) and want.dtype.is_floating_point:
                        self._compare(sums[node.name], want, got, node)

        evaluate(self.quantised.model, inputs, compare)

    def _compare(self, sums: NoiseSums, want: Tensor, got: Tensor, node: fx.Node) -> None:
        if want.shape != got.shape:
            raise stranger(node, got=list(got.shape), expected=list(want.shape))
        sums.update(want, got, node.name)

    def _alone(self, node: fx.Node, exact: Mapping[str, Any]) -> Any:
        """The quantised module on the float network's values."""
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: exact[self.origin[n.name]])
        with torch.no_grad():
            return self.quantised.model.get_submodule(str(node.target))(*args, **kwargs)

    def report(self, done: int) -> NoiseReport:
        found = {}
        for name, (node, arithmetic) in self.nodes.items():
            if not self.local[name].count:
                continue
            fmt = arithmetic.formats["data_out_0"] if arithmetic is not None else None
            found[name] = NodeNoise(
                op=self.quantised.meta_of(node).common.mase_op,
                format=str(fmt) if fmt is not None else None,
                width=fmt.width if fmt is not None else None,
                local=self.local[name].result(),
                cumulative=self.cumulative[name].result(),
            )
        return NoiseReport(found, done)


class NoiseArgs(ReportArgs):
    """Arguments of :func:`noise_analysis_pass`."""

    float_graph: Any = Field(description="the float graph, or the module it was made from")
    data: Any = Field(description="iterable of batches of inputs, as for calibration")
    progress: Progress | None = Field(default=None, description="called after every batch")
    plot: Path | None = Field(default=None, description="file for the plot; needs matplotlib")
    network: Method | None = Field(
        default=None, description="what the network loses at its outputs by every node alone: measured or estimated"
    )
    show: bool = Field(default=False, description="print the table if there is no file for it")


@graph_pass("noise_analysis_pass", args=NoiseArgs, needs=("quantize_transform_pass",))
def noise_analysis_pass(graph: MaseGraph, args: NoiseArgs) -> tuple[MaseGraph, Info]:
    """Local and cumulative quantisation noise of every node, as :func:`analyse_noise` has it.

    Args:
        graph: The quantised graph; it is not changed.
        args: ``float_graph``, ``data``, ``network``, ``progress``, ``plot``, ``file_name`` and ``show`` for the table.

    Returns:
        The graph, and the report as plain dicts: ``batches``, ``nodes``, and ``network`` if it was asked for.

    Raises:
        MaseHwError: As :func:`analyse_noise`; if a file cannot be written.
    """
    report = analyse_noise(args.float_graph, graph, args.data, progress=args.progress)
    info = report.to_dict()
    headings, rows = report.rows()
    tables = [ReportTable("Quantisation noise", headings, rows)]
    if args.network is not None:
        exact = args.float_graph if isinstance(args.float_graph, MaseGraph) else _traced(args.float_graph, graph)
        found = network_noise(exact, graph, args.data, method=args.network)
        info["network"] = found.to_dict()
        lines = [[name, f"{found.sqnr_db(name):.1f}"] for name in found.ranking()]
        tables.append(ReportTable(f"At the outputs by one node alone ({args.network})", ["node", ">SQNR dB"], lines))
    publish(tables, info, args)
    if args.plot is not None:
        report.plot(args.plot)
    return graph, info
