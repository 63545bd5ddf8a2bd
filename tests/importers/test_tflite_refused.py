"""What is no TFLite model that can be taken: an error that names the tensors, and never a crash, a hang or a file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
import torch

import mase_hw
from mase_hw.cli import main
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from tests.importers.graphs import take, takes_or_refuses
from tests.importers.test_onnx_refused import damaged
from tests.importers.tflite_files import File, schema
from tests.importers.tflite_mlperf import softmax
from tests.importers.tflite_networks import NETWORKS

MUTATIONS = 70
"""Of one file and of one kind: damaged bytes, damaged numbers, and whole files with other values."""
ODD = [0, -1, 1, 2, 7, 126, 1 << 16, (1 << 31) - 1, -(1 << 31)]
OPERATIONS = [*range(5), 9, 14, 17, 18, 19, 22, 25, 32, 34, 40, 41, 114, 117, 200, 5000]
"""Numbers of operations, most of which are taken."""


def wild(data: bytes, r: random.Random) -> bytes:
    """The same with one aligned number of 4 bytes, as offsets and lengths are, that points anywhere."""
    at = 4 * r.randrange(2, len(data) // 4)
    number = r.choice([0, 1, 4, len(data), len(data) // 2, r.randrange(len(data)), 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
    return data[:at] + number.to_bytes(4, "little") + data[at + 4 :]


def changed(file: File, r: random.Random) -> bytes:
    """A whole file with one value that it does not expect."""
    graph, kind = file.graph, r.randrange(8)
    tensor, op = r.choice(graph.tensors), r.choice(graph.operators)
    if kind == 0:
        tensor.shape = [*tensor.shape[1:], r.choice(ODD)][: len(tensor.shape)]
    elif kind == 1:
        tensor.type = r.choice(list(range(18)))
    elif kind == 2 and tensor.quantization.scale is not None:
        tensor.quantization.scale = [r.choice([0.0, -1.0, np.nan, np.inf, 1e-38, 1e38])] * len(
            tensor.quantization.scale
        )
    elif kind == 3 and tensor.quantization.zeroPoint is not None:
        tensor.quantization.zeroPoint = [r.choice([*ODD, 128, -129, 1 << 62])]
    elif kind == 4:
        places = op.inputs if r.random() < 0.7 else op.outputs
        places[r.randrange(len(places))] = r.choice([-1, -7, len(graph.tensors), 1 << 30, *range(len(graph.tensors))])
    elif kind == 5:
        r.choice(file.model.operatorCodes).builtinCode = r.choice(
            [0, 1, 2, 3, 4, 9, 14, 17, 18, 19, 22, 25, 32, 34, 40, 41, 114, 117, 200, 5000]
        )
    elif kind == 6 and op.builtinOptions is not None:
        numbers = [k for k, v in vars(op.builtinOptions).items() if isinstance(v, int) and not isinstance(v, bool)]
        if numbers:
            limit = 127  # some are stored in one byte
            setattr(op.builtinOptions, r.choice(numbers), max(-limit, min(limit, r.choice(ODD))))
    elif kind == 7:
        op.builtinOptionsType = 0
        op.builtinOptions = None
    return file.data()


def softmaxes() -> File:
    """Operations for the host, in the middle and at the end."""
    f = File(16)
    x = f.dense(f.input(1, 6, scale=0.02, zero=3), 5)
    f.output(softmax(f, f.dense(f.binary("MUL", x, softmax(f, x), 0.01), 4)))
    return f


@pytest.mark.parametrize("kind", ["bytes", "numbers", "values"])
@pytest.mark.parametrize("name", ["strides", "averages", "functions", "softmaxes"])
def test_mutations(name: str, kind: str) -> None:
    """A mutated file gives a graph that runs, or an error of this package."""
    made, host = NETWORKS.get(name, softmaxes), name == "softmaxes"
    data, r = made().data(), random.Random(kind)
    take(data, host)
    change = {"values": lambda: changed(made(), r), "bytes": lambda: damaged(data, r), "numbers": lambda: wild(data, r)}
    takes_or_refuses((change[kind]() for _ in range(MUTATIONS)), host, MUTATIONS // 8)


def net(change: Callable[[File], Any] = lambda _: None) -> File:
    """A convolution and a layer, changed."""
    f = File(9)
    x = f.input(1, 5, 4, 3, scale=0.03, zero=4)
    f.output(f.dense(f.conv(x, 5), 3))
    change(f)
    return f


def negated() -> File:
    """A dequantised result whose sign changes."""
    f = net()
    values, other = (f.tensor((1, 3), dtype=np.float32) for _ in range(2))
    f.operation("DEQUANTIZE", [f.graph.outputs[0]], [values])
    f.operation("NEG", [values], [other])
    f.graph.outputs = [other]
    return f


def quantisation(tensor: int, **values: Any) -> Callable[[File], Any]:
    def change(f: File) -> None:
        for name, value in values.items():
            setattr(f.graph.tensors[tensor].quantization, name, value)

    return change


def tensor(number: int, **values: Any) -> Callable[[File], Any]:
    def change(f: File) -> None:
        for name, value in values.items():
            setattr(f.graph.tensors[number], name, value)

    return change


def codes(f: File, *found: str) -> None:
    for kind, name in zip(f.model.operatorCodes, found, strict=True):
        kind.builtinCode = getattr(schema.BuiltinOperator, name)
        kind.deprecatedBuiltinCode = min(kind.builtinCode, 127)


def custom(f: File) -> None:
    codes(f, "CUSTOM", "FULLY_CONNECTED")
    f.model.operatorCodes[0].customCode = "os.system"


def wide_sums(f: File) -> None:
    bias = f.graph.tensors[2]
    f.model.buffers[bias.buffer].data = np.full(5, (1 << 31) - 1000, np.int32).view(np.uint8)


def two_graphs(f: File) -> None:
    f.model.subgraphs.append(f.graph)


def in_float() -> File:
    f = File(1)
    x = f.input(1, 4, dtype=np.float32)
    y = f.tensor((1, 4), dtype=np.float32, name="ran_in_float")
    f.operation("RELU", [x.index], [y])
    f.graph.outputs = [y]
    return f


def with_a_float_tail() -> File:
    f = net()
    last = f.graph.outputs[0]
    shape = tuple(f.graph.tensors[last].shape)
    values, y = (f.tensor(shape, dtype=np.float32, name=name) for name in ("values", "tail"))
    f.operation("DEQUANTIZE", [last], [values])
    f.operation("RELU", [values], [y])
    f.graph.outputs = [y]
    return f


def without_results() -> File:
    """What a vendor's operation may be: it gives nothing that another one reads."""
    f = net()
    f.operation("ASSIGN_VARIABLE", [f.graph.outputs[0]], [])
    return f


def of_other_ranks() -> File:
    f = File(3)
    x = f.input(1, 4, scale=0.03)
    f.output(f.binary("ADD", f.dense(x, 4), f.reshape(x, 1, 1, 4), 0.5))
    return f


def fake_quantised(dtype: Any) -> File:
    f = File(1)
    x = f.input(1, 4, dtype=dtype)
    y = f.tensor((1, 4), dtype=dtype, name="as_if_rounded")
    f.operation("FAKE_QUANT", [x.index], [y])
    f.graph.outputs = [y]
    return f


# Tensors of net: 0 the input, 1 weight, 2 bias, 3 result of the convolution, 4 weight, 5 bias, 6 result.
BAD: dict[str, tuple[Callable[[], File], type[Exception], list[str]]] = {
    "unknown operations, all at once": (
        lambda: net(lambda f: codes(f, "COS", "SVDF")), UnsupportedError, ["t3 (COS)", "no such operation"]),
    "a custom operation": (lambda: net(custom), UnsupportedError, ["t3 (CUSTOM os.system)", "builtin operations only"]),
    "control flow": (
        lambda: net(lambda f: codes(f, "WHILE", "FULLY_CONNECTED")), UnsupportedError,
        ["t3 (WHILE)", "control flow", "loops unrolled"]),
    "several graphs": (lambda: net(two_graphs), UnsupportedError, ["several graphs", "2 graphs"]),
    "a fake quantisation": (
        lambda: fake_quantised(np.int8), UnsupportedError, ["as_if_rounded (FAKE_QUANT)", "no such operation"]),
    "a fake quantisation of floats": (
        lambda: fake_quantised(np.float32), UnsupportedError, ["as_if_rounded (FAKE_QUANT)", "computes in float"]),
    "floats": (in_float, UnsupportedError, ["ran_in_float (RELU)", "int8"]),
    "a float tail": (with_a_float_tail, UnsupportedError, ["tail (RELU)", "outputs=[name]"]),
    "an operation without results": (without_results, UnsupportedError, ["(ASSIGN_VARIABLE): no such operation"]),
    "16 bits with a zero point": (
        lambda: net(tensor(0, type=schema.TensorType.INT16)), UnsupportedError, ["zero point 4", "quantise the model"]),
    "a batch": (lambda: net(tensor(0, shape=[2, 5, 4, 3])), UnsupportedError, ["input", "first size is not 1"]),
    "sizes left open": (
        lambda: net(tensor(0, shapeSignature=[-1, -1, 4, 3])), UnsupportedError, ["input", "left open"]),
    "a scale of zero": (
        lambda: net(quantisation(1, scale=[0.0] * 5)), UnsupportedError,
        ["t3", "t1", "above 0", "quantise the model again"]),
    "an infinite scale": (lambda: net(quantisation(3, scale=[np.inf])), UnsupportedError, ["t3", "inf"]),
    "a negative scale": (lambda: net(quantisation(6, scale=[-0.5])), UnsupportedError, ["t6", "-0.5"]),
    "a zero point out of range": (lambda: net(quantisation(3, zeroPoint=[200])), UnsupportedError, ["t3", "200"]),
    "weights with a zero point": (
        lambda: net(quantisation(1, zeroPoint=[0, 0, 1, 0, 0])), UnsupportedError, ["t3", "zero point of 1"]),
    "scales along another dimension": (
        lambda: net(quantisation(1, scale=[0.1] * 3, zeroPoint=[0] * 3, quantizedDimension=3)),
        UnsupportedError, ["t3", "dimension 3"]),
    "scales that are too far apart": (
        lambda: net(quantisation(3, scale=[1e20])), UnsupportedError, ["t3", "ratio of its scales"]),
    "sums beyond 32 bits": (lambda: net(wide_sums), UnsupportedError, ["t3", "more than 32 bits hold"]),
    "16 bits": (lambda: net(tensor(3, type=schema.TensorType.INT16)), UnsupportedError, ["t3", "int16"]),
    "a stored tensor of another size": (
        lambda: net(tensor(4, shape=[3, 7])), UnsupportedError, ["t6", "bytes for the shape"]),
    "a result of another size": (lambda: net(tensor(3, shape=[1, 5, 4, 6])), UnsupportedError, ["t3", "[1, 5, 4, 6]"]),
    "operands of two ranks": (of_other_ranks, UnsupportedError, ["t6", "[1, 4] and [1, 1, 4]", "repeat the smaller"]),
    "a state": (lambda: net(tensor(3, isVariable=True)), UnsupportedError, ["t3", "a state"]),
    "weights of float16": (
        lambda: net(lambda f: setattr(f.graph.tensors[1], "type", 1)), UnsupportedError,
        ["t3", "weights of float16, which are for data in float", "TFLITE_BUILTINS_INT8"]),
    "a function in float as a result": (
        negated, UnsupportedError, ["t8", "computed in float", "TFLITE_BUILTINS_INT8"]),
    "a weight that is data": (
        lambda: net(lambda f: f.graph.operators[1].inputs.__setitem__(1, 3)), UnsupportedError,
        ["t6", "the weight depends on data"]),
    "a missing value": (
        lambda: net(lambda f: f.graph.operators.pop(0)), GraphError, ["t6", "t3", "none before it gives"]),
    "no result": (lambda: net(lambda f: f.graph.operators.pop()), GraphError, ["t6", "given by no operation"]),
    "a tensor beyond the last": (
        lambda: net(lambda f: f.graph.operators[0].inputs.__setitem__(0, 99)), GraphError, ["t3", "number 99"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, kind, words = BAD[name]
    data = make().data()
    with pytest.raises(kind) as caught:
        mase_hw.import_model(data)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    file = tmp_path / "net.tflite"
    file.write_bytes(data)
    assert main(["compile", str(file), "--out", str(tmp_path / "out")]) != 0
    assert words[0] in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["net.tflite"]


def test_the_remedy_of_a_float_tail() -> None:
    f = with_a_float_tail()
    whole, cut = mase_hw.import_model(net().data()), mase_hw.import_model(f.data(), outputs=["t6"])
    x = torch.randn(3, *next(iter(whole.example.values())).shape[1:], generator=torch.Generator().manual_seed(4))
    assert torch.equal(cut.model(x), whole.model(x))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        mase_hw.import_model(tmp_path / ("missing" * 60 + ".tflite"))
    with pytest.raises(ConfigError, match="there is no such file"):
        mase_hw.import_model(tmp_path / "missing.tflite")
    other = tmp_path / "other.tflite"
    other.write_bytes(b"PK\3\4 no model at all")
    with pytest.raises(GraphError, match="not a whole TFLite file"):
        mase_hw.import_model(other)


@pytest.mark.parametrize("field", [4, 10])
def test_a_length_beyond_the_file(field: int) -> None:
    """Of the tensors and of the operations, told before anything of that length is read."""
    data = net().data()
    table = tflite.Model.GetRootAs(data, 0).Subgraphs(0)._tab
    at = table.Vector(table.Offset(field)) - 4
    assert int.from_bytes(data[at : at + 4], "little") in (2, 7)
    for length in (len(data) // 4 + 1, 0xFFFFFFFF):
        with pytest.raises(GraphError, match=f"a vector of {length} elements"):
            mase_hw.import_model(data[:at] + length.to_bytes(4, "little") + data[at + 4 :])


def test_shapes_of_the_file() -> None:
    data = net().data()
    assert mase_hw.import_model(data, shapes={"input": (1, 5, 4, 3)}).example["input"].shape == (1, 5, 4, 3)
    with pytest.raises(ConfigError, match="fixed sizes"):
        mase_hw.import_model(data, shapes={"input": (1, 6, 4, 3)})
