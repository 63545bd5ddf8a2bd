"""From the operations of a TFLite file to a graph of quantised modules, one rule for every operation.

Nothing is calibrated and nothing is chosen: the file says all integers, and LiteRT's reference kernels say how results
are rounded. Values outside are what integers stand for, ``scale * (integer - zero_point)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import GraphError
from mase_hw.importers.graph import Problems, Refused, Writer
from mase_hw.importers.tflite import (
    blocks,
    functions,
    host,
    layers,
    log_softmax,
    moves,
    places,
    softmax,
    states,
    sums,
    windows,
)
from mase_hw.importers.tflite.source import Operator, Source
from mase_hw.importers.tflite.step import NO_FLOAT, Step, Value, format_of
from mase_hw.nn import QuantizeInput

RULES: dict[str, Callable[[Step], Value | list[Value]]] = {
    **layers.RULES,
    **windows.RULES,
    **sums.RULES,
    **functions.RULES,
    **moves.RULES,
    **places.RULES,
    **softmax.RULES,
    **log_softmax.RULES,
    **states.RULES,
}
"""Operation of the schema -> what writes it."""
WIDE = {
    "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "MAX_POOL_2D",
    "AVERAGE_POOL_2D", "RELU", "RELU6", "MEAN", "CONCATENATION", "PAD", "RESHAPE", "SQUEEZE", "EXPAND_DIMS",
    "TRANSPOSE", "QUANTIZE", *places.RULES,
}  # fmt: skip
"""Operations that are taken with data of 16 bits as well."""
REMEDIES = {
    "CUSTOM": "convert the model with builtin operations only",
    **dict.fromkeys(
        ("IF", "WHILE", "CALL", "CALL_ONCE"), "convert the model with its loops unrolled and its conditions known"
    ),
}


def convert(source: Source, on_host: bool = False) -> tuple[fx.GraphModule, Writer]:
    """The graph of a file.

    Args:
        source: The file.
        on_host: Whether what hardware does not have becomes nodes for the host, as far as these are known.

    Raises:
        UnsupportedError: Names every operation that no rule takes, by its first result, and why.
        GraphError: If an operation reads what is not there, or a result is missing.
    """
    made = _Conversion(blocks.joined(source), {**RULES, **host.RULES} if on_host else RULES)
    made.run()
    return made.module(), made.writer


def _unknown(op: Operator) -> Refused:
    control = "control flow: which operations run is decided by values"
    parts = "frames of its own for parts of a picture, of which no one convolution of stride 1 with VALID padding comes"
    whys = {"IF": control, "WHILE": control, "SPACE_TO_BATCH_ND": parts, "BATCH_TO_SPACE_ND": parts}
    return Refused(whys.get(op.operation, "no such operation is known"), REMEDIES.get(op.operation.split()[0]))


class _Conversion:
    def __init__(self, source: Source, rules: Mapping[str, Callable[[Step], Value | list[Value]]]) -> None:
        self.source, self.rules = source, rules
        self.writer = Writer("Imported")
        self.catalogue = default_catalogue()
        self.problems = Problems("TFLite model")
        self.values: dict[int, Value] = {}
        self.floats: dict[int, fx.Node] = {}
        """Inputs of the model in float, which a QUANTIZE reads."""
        self.sizes: set[int] = set()
        """Tensors that are computed of sizes, which the file has as those of the results that they decide."""
        self.gone: set[int] = set()
        """Tensors of operations that are refused, and what is behind them."""

    def run(self) -> None:
        for index in self.source.inputs:
            info = self.source.tensors[index]
            self.floats[index] = self.writer.input(info.name, info.shape, torch.float32)
        for index in self.source.inputs:
            info = self.source.tensors[index]
            if info.kind == "float32" and not info.scales:
                continue
            try:
                self.values[index] = self._enter(self.floats[index], index)
            except Refused as error:
                self.problems.add(info.name, "input", error)
                self.gone.add(index)
        for op in self.source.operators:
            self._operator(op)
        self.problems.refuse()

    def _enter(self, given: fx.Node, index: int) -> Value:
        info = self.source.tensors[index]
        fmt = format_of(info)
        self.writer.source = f"{info.name}_quantize"
        module = QuantizeInput(fmt, str(given.target))
        node = self.writer.computed(module, [given], info.shape)
        self.writer.sources[node.name] = info.name
        return Value(node, fmt, info.shape)

    def _operator(self, op: Operator) -> None:
        if self._of_sizes(op):
            self.sizes.update(op.outputs)
            return
        known = {*self.values, *self.floats, *self.sizes, *self.gone}
        missing = [i for i in op.inputs if i >= 0 and i not in known and self.source.tensors[i].stored is None]
        missing = [i for i in missing if not self.source.tensors[i].faults]
        if missing:
            raise GraphError(
                "an operation reads what none before it gives",
                node=op.name[:200],
                got=", ".join(self.source.tensors[i].name for i in missing)[:200],
                remedy="the file is damaged, or its operations are not in order",
            )
        if self.gone & set(op.inputs):
            # What is behind is not looked at, but for what is refused in any case.
            if op.operation not in {**self.rules, "QUANTIZE": None, "DEQUANTIZE": None}:
                self.problems.add(op.name, op.operation, _unknown(op))
            self.gone.update(op.outputs)
            return
        if not op.outputs and op.operation not in self.rules:
            self.problems.add(op.name, op.operation, _unknown(op))
            return
        if not op.outputs or (known | set(self.source.inputs)) & set(op.outputs):
            raise GraphError(
                "an operation without a result of its own", node=op.name[:200], remedy="the file is damaged"
            )
        self.writer.source = op.name
        try:
            found = self._value(op)
            self.values.update(zip(op.outputs, found if isinstance(found, list) else [found], strict=False))
        except (Refused, Exception) as error:
            # Torch says in many ways that shapes and settings of a damaged file do not fit.
            self.problems.add(op.name, op.operation, error)
            self.gone.update(op.outputs)

    def _of_sizes(self, op: Operator) -> bool:
        """Whether an operation depends on nothing but sizes and stored numbers, and gives integers without a scale."""
        given = [i for i in op.inputs if i >= 0]
        stored = [i for i in given if self.source.tensors[i].stored is not None]
        counted = all(self.source.tensors[i].kind in ("int32", "int64") for i in op.outputs)
        first = op.operation == "SHAPE" or not self.sizes.isdisjoint(given)
        return first and counted and (op.operation == "SHAPE" or {*given} <= {*self.sizes, *stored})

    def _value(self, op: Operator) -> Value | list[Value]:
        step = Step(op, self.source, self.writer, self.catalogue, self.values)
        first = op.inputs[0] if op.inputs else -1
        of_floats = [i for i in op.inputs if i in self.floats and i not in self.values]
        if op.operation == "QUANTIZE" and of_floats:
            return self._enter(self.floats[first], op.outputs[0])
        if (
            first in self.values
            and self.source.tensors[first].kind == "float32"
            and not self.source.tensors[first].faults
        ):
            if op.operation == "QUANTIZE":
                return functions.quantised_again(step)
            if op.operation in functions.IN_FLOAT:
                return functions.computed_in_float(step)
        if of_floats or any(self.source.tensors[i].kind == "float32" for i in op.inputs if i >= 0):
            raise Refused("it computes in float", NO_FLOAT)
        if op.operation == "DEQUANTIZE":
            return step.data()
        rule = self.rules.get(op.operation)
        if rule is None:
            raise _unknown(op)
        kinds = {self.source.tensors[i].kind for i in (*op.inputs, *op.outputs) if i in self.values or i in op.outputs}
        if "int16" in kinds and (op.operation not in WIDE or (len(kinds) > 1 and op.operation != "QUANTIZE")):
            raise Refused(f"data of {' and '.join(sorted(kinds))}", "quantise the model to int8")
        return rule(step)

    def module(self) -> fx.GraphModule:
        missing = [self.source.tensors[i].name for i in self.source.outputs if i not in self.values]
        if missing or not self.source.outputs:
            raise GraphError(
                "a result of the model is given by no operation",
                node=", ".join(missing)[:200] or self.source.name,
                remedy="the file is damaged",
            )
        results: list[Any] = []
        for index in self.source.outputs:
            value = self.values[index]
            self.writer.source = self.source.tensors[index].name
            if value.function is not None:
                self.problems.add(self.writer.source, "result", Refused("it is computed in float", NO_FLOAT))
                self.problems.refuse()
            results.append(Step.ordered(self.writer, value, first=False))
        return self.writer.finished(results, [self.source.tensors[index].name for index in self.source.outputs])
