"""The model as it was given beside the float graph that was made of it, on the data that passes by.

Tracing follows the model once, on no values; copying, folding and simplifying come after it. Whatever goes wrong on
that way, or whatever a model does that a graph cannot show, makes the two give different results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mase_hw.compiler.ample_bits import TINY
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values, every_value, rows_of
from mase_hw.ir.faithful.same_function import describe, run
from mase_hw.ir.trace.containers import contents
from mase_hw.ops.arithmetic.where import beyond, stood_for
from mase_hw.passes.analysis.statistics import RangeMinMax
from mase_hw.passes.evaluation.criteria import decibels

MOST_FRAMES = 1024
"""Frames that are compared: whole batches until there are so many."""
KEPT = 4
"""First batches that are kept for what looks at single nodes."""
WHOLE, SINGLE = 1e-2, 0.2
"""Largest error of a result, and of one frame of it, as a share of the result's size (root mean square).

Folding a batch normalisation changes the rounding of floats, by less than 1e-5 per layer; one value that lies on the
step of a threshold may move a frame by more.
"""
NOISE = 1e-5
"""Share of the largest number in the graph that the rounding of float32 may leave in a result."""


@dataclass
class _Worst:
    """Sums over one result of the model.

    Args:
        count: Elements.
        signal: Sum of the squares of what the model gives.
        noise: Sum of the squares of the differences.
        frame: Largest mean square of the differences in a frame.
        eps: Step of floats of this type at 1.
    """

    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    frame: float = 0.0
    eps: float = 0.0

    def faulty(self, largest: float) -> bool:
        """Whether floats alone do not explain the differences; not a number never is explained."""
        size = math.sqrt(self.signal / self.count)
        coarse, floor = 64 * self.eps, (NOISE + self.eps) * largest + TINY
        whole = math.sqrt(self.noise / self.count) <= max(WHOLE, coarse) * size + floor
        return not (whole and math.sqrt(self.frame) <= max(SINGLE, coarse) * size + floor)


class Original:
    """Compares a model with its graph, batch by batch.

    Args:
        model: The model as it was given.
        graph: The float graph, simplified and folded.
    """

    def __init__(self, model: nn.Module, graph: MaseGraph) -> None:
        self.model = model
        self.graph = graph
        self.batches: list[dict[str, object]] = []
        """The first batches, by name of the graph's input."""
        self._names = {n.name: str(n.target) for n in graph.nodes if n.op == "placeholder"}
        self._frames = 0
        self._worst: dict[int, _Worst] = {}
        self._bad: tuple[float, dict[str, object]] = (-1.0, {})

    def watch(self, inputs: Values, found: Any) -> None:
        """Take in a batch and what the graph made of it.

        Args:
            inputs: By name of the graph's input.
            found: The result of the graph.

        Raises:
            GraphError: If the model cannot be run on it, or gives another structure of results.
        """
        if len(self.batches) < KEPT:
            self.batches.append(dict(inputs))
        if self._frames >= MOST_FRAMES:
            return
        self._frames += rows_of(inputs)
        wanted = self.wanted(inputs)
        a, b = contents(wanted), contents(found)
        fits = [isinstance(x, Tensor) == isinstance(y, Tensor) for x, y in zip(a, b, strict=False)]
        same = len(a) == len(b) and all(fits)
        if not same or any(isinstance(x, Tensor) and x.shape != y.shape for x, y in zip(a, b, strict=True)):
            raise _parted(f"{describe(found)}", f"{describe(wanted)}", None)
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            if isinstance(x, Tensor) and x.numel():
                self._compare(index, x.detach(), y.detach(), inputs)

    def wanted(self, inputs: Values) -> Any:
        """What the model gives for a batch, by name of the graph's input."""
        with _Sorted():
            return run(self.model, self._arguments(inputs), "the calibration data")

    def _arguments(self, inputs: Values) -> dict[str, object]:
        return {self._names[name]: value for name, value in inputs.items() if not self._names[name].startswith("*")}

    def _compare(self, index: int, wanted: Tensor, found: Tensor, inputs: Values) -> None:
        worst = self._worst.setdefault(index, _Worst())
        if wanted.is_floating_point():  # what a mask leaves out is another number in the graph, and as far
            far = beyond(found) & (wanted.abs() >= stood_for(found).abs() / 2)
            wanted = torch.where(far, found, wanted)
            wanted, found = (value.masked_fill(beyond(found) & (wanted == found), 0) for value in (wanted, found))
        error = (wanted.double() - found.double()).square()
        worst.count += wanted.numel()
        worst.signal += float(wanted.double().square().sum())
        worst.noise += float(error.sum())
        frame = float((error.flatten(1).mean(1) if error.dim() > 1 else error).max())
        worst.frame = frame if math.isnan(frame) else max(worst.frame, frame)
        worst.eps = torch.finfo(wanted.dtype).eps if wanted.dtype.is_floating_point else 0.0
        if not frame <= self._bad[0]:
            self._bad = (frame, dict(inputs))

    def check(self) -> None:
        """Refuse a graph that gave something else than the model.

        Raises:
            GraphError: Names the first layer behind which the two differ, if it is one.
        """
        largest = self._largest()
        for worst in self._worst.values():
            if worst.faulty(largest):
                snr = decibels(worst.signal, worst.noise)
                found = "not finite" if snr is None or math.isnan(snr) else f"{snr:.1f} dB"
                raise _parted(
                    f"a signal-to-noise ratio of {found}", f"at least {-20 * math.log10(WHOLE):.0f} dB", self._first()
                )

    def _largest(self) -> float:
        """The largest magnitude of any number in the graph, as it was observed."""
        found = [0.0]
        for node in self.graph.nodes:
            for entry in self.graph.meta_of(node).software.results.values():
                ends = entry.get("stat", {}).get(RangeMinMax.name, {})
                found += [abs(float(ends[end])) for end in ("min", "max") if end in ends]
        return max(found)

    def _first(self) -> str | None:
        """The first node that differs: from the model's layer of the same path, or from all nodes as they were traced.

        Folding puts two nodes into one, so that a node of the graph may stand for a later one of the trace.
        """
        inputs, theirs = self._bad[1], dict[str, object]()
        with _recorded(self.model, theirs):
            run(self.model, self._arguments(inputs), "the calibration data")
        traced = MaseGraph(
            self.model, cf_args=self.graph.cf_args or None, catalogue=self.graph.catalogue, example=self.graph.example
        )
        plain, folded = every_value(traced.model, inputs), every_value(self.graph.model, inputs)
        for node in traced.nodes:
            path = str(node.target)
            if node.op == "call_module" and path in theirs and not _close(theirs.pop(path), plain[node.name]):
                return node.name
        for name, value in folded.items():
            if isinstance(value, Tensor) and not any(_close(value, other) for other in plain.values()):
                return name
        return None


class _Sorted(TorchFunctionMode):
    """``topk(sorted=False)`` in the order that hardware has, which is one of those that PyTorch may choose."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.topk, Tensor.topk, torch.ops.aten.topk.default):
            args, kwargs = args[:4], {**(kwargs or {}), "sorted": True}
        return func(*args, **(kwargs or {}))


def _close(a: Any, b: Any) -> bool:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape):
        return False
    return float((a.double() - b.double()).square().sum()) <= WHOLE**2 * float(a.double().square().sum())


@contextmanager
def _recorded(model: nn.Module, results: dict[str, object]) -> Iterator[None]:
    """The result of the first call of every module, by its path, while the block runs."""

    def keep(path: str) -> Any:
        def hook(module: nn.Module, given: Any, result: Any) -> None:
            results.setdefault(path, result.detach().clone() if isinstance(result, Tensor) else (result,))

        return hook

    handles = [module.register_forward_hook(keep(path)) for path, module in model.named_modules() if path]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _parted(got: str, expected: str, node: str | None) -> GraphError:
    return GraphError(
        "the graph that was traced gives other results than the model, on the data it was observed with",
        node=None if node is None else f"first at node {node}",
        got=got,
        expected=expected,
        remedy="forward probably decides by values, by what a call before left behind, or by something that is not in "
        "the model; or a layer computes something else than its class says",
    )
