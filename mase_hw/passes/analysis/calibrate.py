"""Observed ranges: the smallest and largest value of every tensor over a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, fx

from mase_hw.errors import ConfigError, FormatError
from mase_hw.ir.annotate import named_results
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import check_inputs
from mase_hw.passes.base import Info, PassArgs, graph_pass

CALIBRATE_PASS = "calibrate_analysis_pass"


class CalibrateArgs(PassArgs):
    """Arguments of :func:`calibrate_analysis_pass`."""

    data: Any = Field(description="iterable of batches: a tensor, a tuple in the order of the inputs, or a dict")
    progress: Callable[[int, int | None], Any] | None = Field(
        default=None, description="called after every batch with the number done and the total, if known"
    )


@dataclass
class Range:
    """Smallest and largest value seen, and how many were seen."""

    min: float = math.inf
    max: float = -math.inf
    count: int = 0

    def update(self, tensor: Tensor, where: str) -> None:
        """Take in a tensor.

        Raises:
            FormatError: If it has NaN or infinite values; ``where`` names it.
        """
        if tensor.numel() == 0 or tensor.is_complex():
            return
        tensor = tensor.detach()
        low, high = torch.aminmax(tensor.to(torch.uint8) if tensor.dtype is torch.bool else tensor)
        bounds = float(low), float(high)
        if not all(map(math.isfinite, bounds)):
            nan = math.isnan(bounds[0])
            raise FormatError(
                f"{where} has {'NaN' if nan else 'infinite'} values",
                node=where,
                got="NaN" if nan else f"range {list(bounds)}",
                expected="finite numbers, which a fixed-point format can hold",
                remedy="clean the data, or look at the weights and the layers in front of this tensor",
            )
        self.min, self.max = min(self.min, bounds[0]), max(self.max, bounds[1])
        self.count += tensor.numel()

    def as_stat(self) -> dict[str, Any]:
        """The statistic as MASE's tree has it."""
        return {"min": self.min, "max": self.max, "count": self.count}


@graph_pass(CALIBRATE_PASS, args=CalibrateArgs, needs=(COMMON_PASS,))
def calibrate_analysis_pass(graph: MaseGraph, args: CalibrateArgs) -> tuple[MaseGraph, Info]:
    """Run the model over data and record the range of every tensor, parameters included.

    The ranges are at ``meta["software"]["args"][name]["stat"]["range_min_max"]`` (and ``results``) as
    ``min``, ``max`` (Python floats) and ``count`` (numbers seen). One batch is in memory at a time; its first
    dimension may differ from that of ``dummy_in``, all others are the same.

    Raises:
        ConfigError: If there is no data, or a batch does not fit the inputs.
        FormatError: If data, a weight or an activation is NaN or infinite; names it.

        After an error the metadata is as it was before.
    """
    parameters = _parameter_ranges(graph)
    seen: dict[tuple[fx.Node, str], Range] = {}
    batches = 0
    total = len(args.data) if hasattr(args.data, "__len__") else None
    for index, inputs in _batches(graph, args.data):
        for name, value in inputs.items():
            if isinstance(value, Tensor):
                Range().update(value, f"input {name} of batch {index}")
        evaluate(graph.model, inputs, lambda node, value: _observe(seen, node, value))
        batches += 1
        if args.progress is not None:
            args.progress(batches, total)
    if not batches:
        raise ConfigError(
            "there is no calibration data",
            field="data",
            got="an empty iterable",
            remedy="pass at least one batch; a generator that was used up once is empty",
        )
    for node in graph.nodes:
        software = graph.meta_of(node).software
        found = {name: parameters[node, name] for n, name in parameters if n is node}
        found |= {arg: seen[source] for arg, source in graph.sources(node).items() if source in seen}
        for arg, observed in found.items():
            _record(software.args, arg, observed)
        for name in graph.meta_of(node).common.results.tensors:
            if (node, name) in seen:
                _record(software.results, name, seen[node, name])
    return graph, {"batches": batches, "tensors": len(seen) + len(parameters)}


def _parameter_ranges(graph: MaseGraph) -> dict[tuple[fx.Node, str], Range]:
    """Ranges of the parameters of every module; they are constant, so once is enough."""
    ranges: dict[tuple[fx.Node, str], Range] = {}
    for node in graph.nodes:
        op, module = graph.op_of(node), graph.meta_of(node).module
        for name in op.parameters if op is not None and module is not None else ():
            parameter = getattr(module, name, None)
            if isinstance(parameter, Tensor):
                ranges[node, name] = Range()
                ranges[node, name].update(parameter, f"{node.name}.{name}")
    return ranges


def _observe(seen: dict[tuple[fx.Node, str], Range], node: fx.Node, value: Any) -> None:
    for name, result in named_results(value):
        if isinstance(result, Tensor):
            seen.setdefault((node, name), Range()).update(result, f"{node.name}.{name}")


def _record(branch: dict[str, Any], name: str, observed: Range) -> None:
    if observed.count:
        branch.setdefault(name, {}).setdefault("stat", {})["range_min_max"] = observed.as_stat()


def _batches(graph: MaseGraph, data: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every batch as a dict by input, checked against the shapes the metadata was made with."""
    if isinstance(data, Tensor | Mapping | str) or not hasattr(data, "__iter__"):
        raise ConfigError(
            "calibration data is not an iterable of batches",
            field="data",
            got=type(data).__name__,
            remedy="pass a list of batches or a data loader; wrap a single batch as [batch]",
        )
    places = [n for n in graph.nodes if n.op == "placeholder"]
    names = [str(n.target) for n in places if not str(n.target).startswith("*")]
    for index, batch in enumerate(data):
        what = f"data[{index}]"
        if isinstance(batch, Tensor):
            batch = (batch,)
        if isinstance(batch, list | tuple):
            if len(batch) > len(names):
                raise ConfigError(
                    "a batch has more tensors than the model has inputs",
                    field=what,
                    got=len(batch),
                    expected=", ".join(names),
                    remedy="yield only the inputs, without labels",
                )
            batch = dict(zip(names, batch, strict=False))
        if not isinstance(batch, Mapping):
            raise ConfigError("a batch is neither tensor, tuple nor dict", field=what, got=type(batch).__name__)
        inputs = check_inputs(graph, batch, what)
        for node in places:
            _check_shape(graph, node, inputs[node.name], what)
        yield index, inputs


def _check_shape(graph: MaseGraph, node: fx.Node, value: Any, what: str) -> None:
    expected = graph.meta_of(node).common.results.tensors.get("data_out_0")
    if not isinstance(value, Tensor) or expected is None:
        return
    if len(value.shape) != len(expected.shape) or list(value.shape[1:]) != expected.shape[1:]:
        raise ConfigError(
            "a batch does not have the shape of dummy_in",
            field=f"{what}.{node.target}",
            got=list(value.shape),
            expected=["any", *expected.shape[1:]] if expected.shape else [],
        )
