"""ONNX graphs written by hand, and models exported by torch, with what ONNX' own evaluator gives for them."""

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn

from mase_hw import import_model
from mase_hw.errors import MaseHwError

TYPES = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int64"): TensorProto.INT64, np.dtype("bool"): 9}


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    stored: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    **more: Any,
) -> onnx.ModelProto:
    """A model of these nodes; ``inputs`` are shapes of float32 by name."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(n, more.get(n, TensorProto.FLOAT), list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (stored or {}).items()],
    )
    domains = sorted({n.domain for n in nodes if n.domain})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def take(made: Any, host: bool = False) -> None:
    """Import it, and run what was imported."""
    graph = import_model(made, host=host)
    graph.model(*graph.example.values())


def takes_or_refuses(mutated: Iterable[Any], host: bool, least: int) -> None:
    """Each is taken, or refused with an error of this package; more than so many are refused."""
    refused = 0
    for each in mutated:
        try:
            take(each, host)
        except MaseHwError as error:
            assert str(error)
            refused += 1
    assert refused > least


def node(kind: str, inputs: str, outputs: str = "y", name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; inputs and outputs are split at spaces, ``-`` is one that is left out."""
    given = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(kind, given, outputs.split(), name=name or f"/part/{kind}", **attributes)


def exported(module: nn.Module, *inputs: torch.Tensor, opset: int = 17) -> onnx.ModelProto:
    """What torch's exporter writes."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, file, dynamo=False, opset_version=opset)
    return onnx.load_model_from_string(file.getvalue())


def reference(made: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """What ONNX' own evaluator gives."""
    return list(ReferenceEvaluator(made).run(None, {n: np.asarray(v) for n, v in inputs.items()}))
