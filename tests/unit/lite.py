"""One op as a model of TensorFlow Lite, run by LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mase_hw.formats import ScaledFormat

Codes = npt.NDArray[np.int8]
Place = tuple[Sequence[int], ScaledFormat]
"""Shape and format of a tensor of 8 bits."""


def reference(
    op: str, options: str, settings: dict[str, Any], data: Sequence[tuple[Codes, ScaledFormat]], result: Place,
    whole: Sequence[int] = (), version: int = 2,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """What the reference kernel of an op gives.

    Args:
        op: Name of the op in the schema.
        options: Name of its options, or an empty string.
        settings: Their fields.
        data: Codes and format of every input.
        result: Shape and format.
        whole: Integers that are a further input.
        version: Of the op.
    """
    flatbuffers = pytest.importorskip("flatbuffers")
    schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")
    runtime: Any = pytest.importorskip("ai_edge_litert.interpreter")
    model, graph, code, node = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    model.version, model.buffers, graph.tensors = 3, [schema.BufferT()], []

    def tensor(shape: Sequence[int], fmt: ScaledFormat | None, content: Any = None) -> int:
        made, buffer = schema.TensorT(), schema.BufferT()
        made.shape, made.name, made.buffer = list(shape), f"t{len(graph.tensors)}", len(model.buffers)
        made.type = schema.TensorType.INT32 if fmt is None else schema.TensorType.INT8
        if content is not None:
            buffer.data = np.frombuffer(np.asarray(content, dtype=np.int32).tobytes(), dtype=np.uint8)
        if fmt is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale, made.quantization.zeroPoint = [fmt.scale], [fmt.zero_point]
        model.buffers.append(buffer)
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    graph.inputs = [tensor(codes.shape, fmt) for codes, fmt in data]
    node.inputs = [*graph.inputs, *([tensor([len(whole)], None, whole)] if whole else [])]
    graph.outputs = node.outputs = [tensor(*result)]
    number = getattr(schema.BuiltinOperator, op)
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), version
    if options:
        node.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        node.builtinOptions = getattr(schema, f"{options}T")()
        for name, value in settings.items():
            setattr(node.builtinOptions, name, value)
    graph.operators, model.subgraphs, model.operatorCodes = [node], [graph], [code]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    kernels = runtime.OpResolverType.BUILTIN_REF
    interpreter = runtime.Interpreter(model_content=bytes(builder.Output()), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    for place, (codes, _) in zip(interpreter.get_input_details(), data, strict=True):
        interpreter.set_tensor(place["index"], codes)
    interpreter.invoke()
    found: npt.NDArray[np.int64] = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(np.int64)
    return found
