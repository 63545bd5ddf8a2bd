"""What is no model of ONNX that can be taken: an error that names the nodes, and never a crash, a hang or a file."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import mase_hw
from mase_hw.cli import main
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from tests.importers.graphs import model, node, take, takes_or_refuses
from tests.importers.qdq_networks import branches
from tests.importers.qonnx_networks import NETWORKS
from tests.importers.qoperator_networks import layers, residual
from tests.importers.test_onnx_recurrent import CASES as RECURRENT
from tests.importers.test_qdq import chain

MUTATIONS = 220
"""Of one file; half of them damaged bytes, half whole files with other values."""


KINDS = (
    "Conv", "Gemm", "Concat", "Split", "Slice", "Gather", "Expand", "Resize", "Pad", "Range", "ConstantOfShape",
    "Squeeze", "BatchNormalization", "If", "Transpose", "QuantizeLinear", "DequantizeLinear", "QLinearConv",
    "QGemm", "QLinearAdd", "QLinearConcat", "QLinearAveragePool", "QLinearSigmoid", "ConvInteger", "MatMulInteger",
    "LSTM", "GRU", "Einsum", "TopK", "Tile", "LRN", "CumSum", "OneHot", "Trilu", "LpPool", "Col2Im", "GatherElements",
)  # fmt: skip


def network() -> onnx.ModelProto:
    r = np.random.default_rng(3)

    def f32(*shape: int) -> Any:
        return r.standard_normal(shape).astype(np.float32)

    return model(
        [
            node("Conv", "x w b", "c", "first", strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Relu", "c", "d", "second"),
            node("MaxPool", "d", "e", "third", kernel_shape=[2, 2]),
            node("Shape", "d", "s"),
            node("Gather", "s zero", "n"),
            node("Concat", "n rest", "t", axis=0),
            node("Reshape", "e t", "f", "fifth"),
            node("Gemm", "f g h", "y", "last", transB=1),
        ],
        {"x": (1, 2, 7, 7)},
        {
            "w": f32(3, 2, 3, 3),
            "b": f32(3),
            "zero": np.array([0]),
            "rest": np.array([-1]),
            "g": f32(4, 27),
            "h": f32(4),
        },
    )


def damaged(data: bytes, r: random.Random) -> bytes:
    kind, at = r.randrange(5), r.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + r.randbytes(r.randrange(1, 9)) + data[at + r.randrange(4) :]
    if kind == 3:
        end = min(len(data), at + r.randrange(1, 40))
        return data[:at] + data[end:]
    return data[:at] + data[at : at + r.randrange(1, 60)] * 2 + data[at:]


def changed(made: onnx.ModelProto, r: random.Random) -> onnx.ModelProto:
    """The same model with one value that it does not expect."""
    odd = [0, -1, 2, 3, 7, 1 << 20, 1 << 31, (1 << 63) - 1, -(1 << 63)]
    n = r.choice(made.graph.node)
    kind = r.randrange(6)
    if kind == 0 and n.attribute:
        a = r.choice(n.attribute)
        if a.ints:
            a.ints[r.randrange(len(a.ints))] = r.choice(odd)
        else:
            a.i = r.choice(odd)
    elif kind == 1:
        n.op_type = r.choice(KINDS)
    elif kind == 2:
        t = r.choice(made.graph.initializer)
        t.dims[:] = [r.choice(odd), *t.dims[1:]]
    elif kind == 3:
        n.input[r.randrange(len(n.input))] = r.choice(
            ["x", "w", "e", "nowhere", "", n.output[0], *made.graph.node[0].input]
        )
    elif kind == 4:
        t = r.choice([i for i in made.graph.initializer if len(i.raw_data) <= 8])
        t.raw_data = np.array([r.choice(odd)], np.int64).tobytes()[: len(t.raw_data)]
    else:
        r.choice(made.graph.input[0].type.tensor_type.shape.dim).dim_value = r.choice(odd)
    return made


FILES: dict[str, Callable[[], onnx.ModelProto]] = {
    "float": network,
    "qdq": chain,
    "qdq_scales": lambda: branches().model(),
    "qonnx": lambda: NETWORKS["functions"]().model(),
    "qoperator": lambda: onnx.ModelProto.FromString(residual()),
    "recurrent": lambda: RECURRENT["lengths"](),
    "host": lambda: onnx.ModelProto.FromString(layers()),
}


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.slow) if k == "qoperator" else k for k in FILES])
def test_mutations(kind: str, part: int) -> None:
    """A mutated file gives a graph that runs, or an error of this package."""
    whole = FILES[kind]()
    data, r = whole.SerializeToString(), random.Random(part)
    host = kind == "host"
    take(whole, host)
    takes_or_refuses(
        (damaged(data, r) if part else changed(onnx.ModelProto.FromString(data), r) for _ in range(MUTATIONS // 2)),
        host,
        MUTATIONS // 8,
    )


BAD: dict[str, tuple[Callable[[], onnx.ModelProto], type[Exception], list[str]]] = {
    "unknown operations, all at once": (
        lambda: model([node("Det", "x", "a", "one"), node("Relu", "a", "b"), node("NonZero", "x", "c", "two")],
                      {"x": (1, 2, 2)},
                      outputs=["b", "c"]),
        UnsupportedError, ["one (Det)", "two (NonZero)", "2 node(s)"]),
    "unknown attribute": (
        lambda: model([node("Conv", "x w", name="conv", colour=3)], {"x": (1, 1, 3, 3)},
                      {"w": np.ones((1, 1, 1, 1), np.float32)}),
        UnsupportedError, ["conv", "colour", "take out attributes"]),
    "another domain": (
        lambda: model([helper.make_node("Relu", ["x"], ["y"], name="mine", domain="my.own")], {"x": (1, 2)}),
        UnsupportedError, ["mine", "my.own"]),
    "a graph within an operation of another domain": (
        lambda: model([helper.make_node("Fancy", ["x"], ["y"], name="mine", domain="my.own",
                                        body=helper.make_graph([], "inner", [], []))], {"x": (1, 2)}),
        UnsupportedError, ["mine (Fancy): no such operation is known in my.own"]),
    "dynamic sizes": (lambda: model([node("Relu", "x")], {"x": ("N", 3, "height", "width")}), UnsupportedError,
                      ["dimension 2 is 'height'", "dimension 3 is 'width'", "shapes=", "FILE.py:FUNCTION"]),
    "a batch": (lambda: model([node("Relu", "x")], {"x": (4, 3)}), UnsupportedError, ["first size is not 1"]),
    "control flow": (
        lambda: model([node("If", "c", name="choose", then_branch=helper.make_graph([], "t", [], []),
                            else_branch=helper.make_graph([], "e", [], []))], {"c": (1,)}, c=TensorProto.BOOL),
        UnsupportedError, ["choose", "control flow"]),
    "an old version": (lambda: model([node("Relu", "x")], {"x": (1, 3)}, opset=5), UnsupportedError,
                       ["opset 5", "6 to 28", "or convert it with onnx.version_converter"]),
    "numbers of 64 bits": (lambda: model([node("Relu", "x")], {"x": (1, 3)}, x=TensorProto.DOUBLE), UnsupportedError,
                           ["x: elements of the type float64", "begins in float32"]),
    "scales of a bias along no dimension": (
        lambda: model([node("DequantizeLinear", "b s", "c", "bias"), node("Add", "x c")], {"x": (1, 3)},
                      {"b": np.ones(3, np.int32), "s": np.float32([1, 2, 3])}),
        UnsupportedError, ["bias (DequantizeLinear)", "shape [3] along axis 1 of [3]", "set its axis to 0"]),
    "frames that mix": (lambda: model([node("Softmax", "x", name="over", axis=0)], {"x": (1, 3)}), UnsupportedError,
                        ["over", "batch"]),
    "a weight that is data": (lambda: model([node("Conv", "x w", name="conv")],
                                            {"x": (1, 1, 3, 3), "w": (1, 1, 3, 3)}),
                              UnsupportedError, ["conv", "the weight depends on data"]),
    "a missing value": (lambda: model([node("Add", "x nowhere", name="sum")], {"x": (1, 3)}), GraphError,
                        ["sum", "nowhere"]),
    "no result": (lambda: model([node("Relu", "x", "z")], {"x": (1, 3)}), GraphError, ["y"]),
    "shapes that do not fit": (lambda: model([node("Add", "x z", name="sum")], {"x": (1, 3), "z": (1, 4)}),
                               UnsupportedError, ["sum (Add)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, kind, words = BAD[name]
    made = make()
    with pytest.raises(kind) as caught:
        mase_hw.import_model(made)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    file = tmp_path / "net.onnx"
    file.write_bytes(made.SerializeToString())
    assert main(["compile", str(file), "--out", str(tmp_path / "out")]) != 0
    assert words[0] in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_sizes_that_are_given() -> None:
    made = model([node("Relu", "x")], {"x": ("N", 3, "height", "width")})
    graph = mase_hw.import_model(made, shapes={"x": (1, 3, 4, 5)})
    assert graph.example["x"].shape == (1, 3, 4, 5)
    with pytest.raises(UnsupportedError, match="was given"):
        mase_hw.import_model(made, shapes={"x": (1, 4, 4, 5)})
    with pytest.raises(ConfigError, match="has not"):
        mase_hw.import_model(made, shapes={"z": (1, 3, 4, 5)})


def external(tmp_path: Path, location: str, offset: int = 0, length: int = 36) -> Path:
    made = model([node("Conv", "x w")], {"x": (1, 1, 4, 4)}, {"w": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    folder = tmp_path / "model"
    folder.mkdir()
    for place in (folder / "w.bin", tmp_path / "secret.bin"):
        place.write_bytes(b"\0" * 4 + np.arange(9, dtype="<f4").tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    file = folder / "net.onnx"
    file.write_bytes(made.SerializeToString())
    return file


def test_external_data(tmp_path: Path) -> None:
    graph = mase_hw.import_model(external(tmp_path, "w.bin", 4))
    weight = next(graph.model.parameters())
    assert torch.equal(weight.detach().reshape(-1), torch.arange(9.0))


@pytest.mark.parametrize(
    ("location", "offset", "length"),
    [
        ("../secret.bin", 0, 36),
        ("link.bin", 0, 36),
        ("/etc/hostname", 0, 36),
        ("", 0, 36),
        ("w.bin", 8, 36),
        ("w.bin", -4, 36),
        ("w.bin", 0, 35),
        ("missing.bin", 0, 36),
        ("w.bin\0", 0, 36),
    ],
)
def test_external_data_elsewhere(location: str, offset: int, length: int, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="stored tensor"):
        mase_hw.import_model(external(tmp_path, location, offset, length))


def test_names_that_are_no_text() -> None:
    data = network().SerializeToString().replace(b"fifth", b"fif\xff\xfe").replace(b"MaxPool", b"Max\xffool")
    with pytest.raises(UnsupportedError, match="third"):
        mase_hw.import_model(data)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        mase_hw.import_model(tmp_path / "missing.onnx")
    with pytest.raises(ConfigError, match="there is no such file"):
        (tmp_path / "folder.onnx").mkdir()
        mase_hw.import_model(tmp_path / "folder.onnx")
    with pytest.raises(ConfigError, match="can be imported"):
        mase_hw.import_model("net.pb")
    with pytest.raises(ConfigError, match=r"torch\.export\.load if you trust it"):
        mase_hw.import_model(tmp_path / "net.pt2")
    with pytest.raises(GraphError, match="not a whole ONNX file"):
        mase_hw.import_model(b"")
