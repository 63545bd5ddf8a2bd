"""A float graph and the quantised one made of it, run side by side, node by node, on all data at once.

What a layer gets depends on what was chosen for the layers before it, so every node is run on all data before the next
one is looked at, and a layer may be changed before it is run. A value is freed after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values, rows_of, undisturbed
from mase_hw.numerics import dequantize, quantize
from mase_hw.passes.analysis.statistics.base import batches
from mase_hw.passes.quantize.rounding.layers import Layer

OnLayer = Callable[[Layer, list[Tensor], list[Tensor]], None]
"""Called with a layer, its inputs in the quantised graph and its results in the float graph, batch by batch."""


def walk(exact: MaseGraph, quantised: MaseGraph, given: list[dict[str, object]], on_layer: OnLayer) -> None:
    """Show every layer of a quantised graph, in order of execution; ``on_layer`` may change it.

    Args:
        exact: The float graph.
        quantised: The graph that was made of it.
        given: Inputs, from :func:`some_batches`.
        on_layer: See :data:`OnLayer`.
    """
    with undisturbed(exact.model), undisturbed(quantised.model):
        theirs, mine = _Run(exact, given), _Run(quantised, given)
        known = {node.name for node in exact.nodes}
        for node in quantised.nodes:
            layer = Layer.of(quantised, node)
            if layer is not None and node.name in known:
                source = node.all_input_nodes[0]
                fmt = layer.module.arithmetic.formats["data_in_0"]
                inputs = [_entered(env[source], fmt) for env in mine.values]
                on_layer(layer, inputs, theirs.until(node.name))
            mine.step(node)


def _entered(x: Tensor, fmt: FixedFormat) -> Tensor:
    """What a layer makes of its input; nothing that is on the grid already changes."""
    return dequantize(quantize(x, fmt), fmt)


def some_batches(graph: MaseGraph, data: Iterable[Any], frames: int) -> tuple[list[dict[str, object]], int]:
    """Whole batches until there are so many frames, as inputs by node, and the number of frames.

    Raises:
        ConfigError: If there is no data, or it does not fit.
    """
    found: list[dict[str, object]] = []
    count = 0
    for _, inputs in batches(graph, data):
        found.append(inputs)
        count += rows_of(inputs)
        if count >= frames:
            break
    return found, count


class _Run:
    """A graph on several batches, one node after the other."""

    def __init__(self, graph: MaseGraph, given: list[dict[str, object]]) -> None:
        self.graph = graph
        self.given = given
        self.interpreter = fx.Interpreter(graph.model, garbage_collect_values=False)
        self.values: list[dict[fx.Node, Any]] = [{} for _ in given]
        self._left = iter(graph.nodes)
        self._last = {source: node for node in graph.nodes for source in node.all_input_nodes}

    def step(self, node: fx.Node) -> list[Any]:
        """Run the next node on every batch; its results."""
        results = [self._value(node, inputs, env) for inputs, env in zip(self.given, self.values, strict=True)]
        for env, value in zip(self.values, results, strict=True):
            env[node] = value
            for source in node.all_input_nodes:
                if self._last[source] is node:
                    del env[source]
        return results

    def until(self, name: str) -> list[Any]:
        """Run on until a node is done; its results."""
        for node in self._left:
            results = self.step(node)
            if node.name == name:
                return [value.clone() for value in results]
        raise KeyError(name)

    def _value(self, node: fx.Node, inputs: Values, env: dict[fx.Node, Any]) -> Any:
        if node.op == "placeholder":
            value = inputs[node.name]
            return value.clone() if isinstance(value, Tensor) else value
        if node.op == "output":
            return None
        self.interpreter.env = env
        with torch.no_grad():
            return self.interpreter.run_node(node)
