"""From the nodes of an ONNX file to a graph, one rule for every operation."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx

from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.importers.graph import Problems, Ref, Refused, Writer
from mase_hw.importers.onnx import (
    attention,
    control,
    einsum,
    functions,
    known,
    layers,
    pools,
    qonnx,
    quantisers,
    recurrent,
    reductions,
    runtime,
    shapes,
)
from mase_hw.importers.onnx.source import Node, Source, Subgraph, modern
from mase_hw.importers.onnx.step import Step

_ROOMS: tuple[Any, ...] = (
    functions, reductions, layers, attention, recurrent, einsum, pools, shapes, known, quantisers, runtime, control
)  # fmt: skip
RULES: dict[str, Any] = {name: rule for room in _ROOMS for name, rule in room.RULES.items()}
"""Operation of ONNX' own domain -> what writes it."""
_MICROSOFT = {**quantisers.MICROSOFT, **runtime.MICROSOFT}
DOMAINS = {"": RULES, "com.microsoft": _MICROSOFT} | dict.fromkeys(qonnx.DOMAINS, qonnx.RULES)
"""Domain -> its operations."""
_OF_CODES = {*quantisers.RULES, *runtime.RULES, *_MICROSOFT, *quantisers.MOVES}
"""Operations that read quantised integers."""
_SIZES = ("Shape", "Size")
"""Operations that give sizes of data."""
_GONE = object()
"""The result of a node that is refused."""


def convert(source: Source) -> tuple[fx.GraphModule, Writer]:
    """The graph of a file.

    Raises:
        UnsupportedError: Names every node that no rule takes, as the file calls it, and why.
        GraphError: If a node reads what is not there, or a result is missing.
    """
    made = _Conversion(source)
    made.run()
    return made.module(), made.writer


def _unknown(node: Node) -> Refused:
    return Refused(f"no such operation is known{f' in {node.domain[:60]}' if node.domain else ''}")


class _Conversion:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.writer = Writer("Imported")
        self.problems = Problems("ONNX model")
        self.values: ChainMap[str, Any] = ChainMap(dict(source.stored))
        self.many: dict[str, Tensor] = {}
        """Sizes and what is computed of them, by name, as they are for many frames."""
        self.readers = Counter(name for node in source.nodes for name in node.reads if name)
        self.readers.update(source.outputs)

    def run(self) -> None:
        for name, (shape, dtype) in self.source.inputs.items():
            self.values[name] = self.writer.input(name, shape, dtype)
        self._write(self.source.nodes)
        self.problems.refuse()

    def _write(self, nodes: Sequence[Node]) -> None:
        for given in nodes:
            node, stored = modern(given, self.source.opset)
            self.values.update(stored)
            missing = [name for name in node.inputs if name and name not in self.values]
            if missing:
                raise GraphError(
                    "a node reads what no node before it gives",
                    node=node.name[:200],
                    got=", ".join(missing)[:200],
                    remedy="the file is damaged, or its nodes are not in order",
                )
            inputs = [self.values[name] if name else None for name in node.inputs]
            results: list[Any] = [_GONE] * len(node.outputs)
            if any(value is _GONE for value in inputs):
                # What is behind is not looked at, but for what is refused in any case.
                if node.operation not in DOMAINS.get(node.domain, {}):
                    self.problems.add(node.name, node.operation, _unknown(node))
            else:
                self.writer.source = node.name
                try:
                    results = self._results(node, inputs)
                except control.Gone:
                    pass  # what is refused inside is noted
                except (Refused, Exception) as error:
                    # Torch says in many ways that shapes and attributes of a damaged file do not fit.
                    self.problems.add(node.name, node.operation, error)
            self.values.update(zip(node.outputs, results, strict=True))

    def inside(self, graph: Subgraph, given: Sequence[Any], node: Node) -> list[Any]:
        """The results of a graph inside a node.

        Args:
            graph: The graph.
            given: Its inputs.
            node: The node; sizes among the results are those of its first results.
        """
        self.values = self.values.new_child(graph.stored)
        self.values.update(zip(graph.inputs, given, strict=True))
        self._write(graph.nodes)
        found = [self.values.get(name, _GONE) for name in graph.outputs]
        for name, inner in zip(node.outputs, graph.outputs, strict=False):
            if inner in self.many:
                self.many[name] = self.many[inner]
        self.values = self.values.parents
        if any(v is _GONE for v in found):
            raise control.Gone
        return found

    def _results(self, node: Node, inputs: list[Ref | None]) -> list[Any]:
        step = Step(node, inputs, self.writer, self.source.opset, self.readers)
        if self.source.open:
            step.of_many = [self.many.get(name, value) for name, value in zip(node.inputs, inputs, strict=True)]
        step.inside = lambda graph, given: self.inside(graph, given, node)
        rule = DOMAINS.get(node.domain, {}).get(node.operation)
        if rule is None:
            raise _unknown(node)
        of_codes = [s for s in map(self.writer.codes_of, inputs) if s is not None]
        if of_codes and node.operation == "Clip":
            rule = quantisers.clip
        elif of_codes and node.operation == "Cast":
            rule = runtime.numbers
        elif of_codes and node.operation not in _OF_CODES:
            raise Refused("it computes with quantised integers", "put a DequantizeLinear before it")
        found = rule(step)
        node.refuse_unread()
        results = found if isinstance(found, list) else [found]
        inner = node.operation in control.RULES
        if not inner and (any(name in self.many for name in node.inputs) or node.operation in _SIZES):
            self._of_many(step, rule, results)
        if of_codes and node.operation in quantisers.MOVES:
            for result in results:
                self.writer.codes(result, of_codes[0])
        unread = [name for name in node.outputs[len(results) :] if name and self.readers[name]]
        if unread:
            raise Refused(f"its results {', '.join(unread)[:120]} are not known")
        return (results + [None] * len(node.outputs))[: len(node.outputs)]

    def _of_many(self, step: Step, rule: Any, results: list[Any]) -> None:
        """What a node that computes sizes gives for many frames."""
        sizes = [isinstance(v, Tensor) and v.dim() <= 1 and not v.dtype.is_floating_point for v in results]
        if step.of_many is None or not all(sizes):
            return
        found = rule(step.for_many())
        for name, value in zip(step.node.outputs, found if isinstance(found, list) else [found], strict=False):
            self.many[name] = value

    def module(self) -> fx.GraphModule:
        missing = [name for name in self.source.outputs if not isinstance(self.values.get(name), fx.Node | Tensor)]
        if missing or not self.source.outputs:
            raise GraphError(
                "a result of the model is given by no node",
                node=", ".join(missing)[:200] or self.source.name,
                remedy="the file is damaged",
            )
        constant = [name for name in self.source.outputs if not isinstance(self.values[name], fx.Node)]
        if constant:
            raise GraphError(
                "a result of the model depends on no input",
                node=", ".join(constant)[:200],
                remedy="take it out of the outputs of the model",
            )
        codes = [name for name in self.source.outputs if self.writer.codes_of(self.values[name]) is not None]
        if codes:
            raise UnsupportedError(
                "a result of the model is quantised integers",
                node=", ".join(codes)[:200],
                expected="values",
                remedy="end the model with a DequantizeLinear; the hardware gives the integers on its port",
            )
        return self.writer.finished([self.values[name] for name in self.source.outputs], self.source.outputs)
