"""``RNN``, ``GRU`` and ``LSTM`` of ONNX files: as ONNX Runtime computes them, and in hardware bit for bit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnxruntime import InferenceSession

import mase_hw
from mase_hw.errors import UnsupportedError
from tests.importers.graphs import model, node

STEPS, INPUTS, UNITS = 5, 3, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
R = np.random.default_rng(40)


def arr(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def network(
    kind: str,
    result: str = "Y",
    directions: int = 1,
    stored: dict[str, Any] | None = None,
    names: Sequence[str] = ("w", "r", "b"),
    data: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """Frames with their steps, turned for the layer and back again; ``result`` is one of its results."""
    gates, layout = GATES[kind] * UNITS, attributes.get("layout", 0)
    own = {
        "w": arr(directions, gates, INPUTS), "r": arr(directions, gates, UNITS), "b": arr(directions, 2 * gates),
        **(stored or {}),
    }  # fmt: skip
    if kind == "GRU":
        attributes = {"linear_before_reset": 1, **attributes}
    before = [] if layout else [node("Transpose", "x", "t", "first", perm=[1, 0, 2])]
    if data:
        before.append(node("Transpose", "start", "h", "begin", perm=[1, 0, 2]))
    results = " ".join(name if name == result else "-" for name in ("Y", "Y_h", "Y_c"))
    given = list(names)
    layer = node(kind, " ".join(["x" if layout else "t", *given]), "one", hidden_size=UNITS, **attributes)
    del layer.output[:]
    layer.output.extend("" if n == "-" else n for n in results.split()[: 2 if kind != "LSTM" else 3])
    order = {"Y": [2, 0, 1, 3], "Y_h": [1, 0, 2], "Y_c": [1, 0, 2]}[result]
    behind = [node("Identity", result)] if layout else [node("Transpose", result, perm=order, name="last")]
    inputs = {"x": (1, STEPS, INPUTS)} | ({"start": (1, directions, UNITS)} if data else {})
    return model([*before, layer, *behind], inputs, {n: own[n] for n in given if n in own})


ZEROS = np.zeros((1, 1, UNITS), np.float32)
CASES: dict[str, Any] = {
    **{f"{kind.lower()}_{result.lower()}": lambda kind=kind, result=result: network(kind, result)
       for kind in GATES for result in ("Y", "Y_h", "Y_c") if kind == "LSTM" or result != "Y_c"},
    **{f"{kind.lower()}_both_ways": lambda kind=kind: network(kind, directions=2, direction="bidirectional")
       for kind in GATES},
    **{f"{kind.lower()}_backwards": lambda kind=kind: network(kind, direction="reverse") for kind in GATES},
    "last_of_both_ways": lambda: network("LSTM", "Y_h", 2, direction="bidirectional"),
    "last_backwards": lambda: network("GRU", "Y_h", direction="reverse"),
    "relu": lambda: network("RNN", activations=["Relu"]),
    "without_biases": lambda: network("LSTM", names=("w", "r")),
    "lengths": lambda: network("GRU", stored={"n": np.array([STEPS], np.int32)}, names=("w", "r", "b", "n")),
    "zeros": lambda: network("LSTM", stored={"z": ZEROS}, names=("w", "r", "b", "-", "z", "z")),
    "stored_states": lambda: network("LSTM", stored={"h0": arr(1, 1, UNITS), "c0": arr(1, 1, UNITS)},
                                     names=("w", "r", "b", "-", "h0", "c0")),
    "stored_state": lambda: network("GRU", stored={"h0": arr(1, 1, UNITS)}, names=("w", "r", "b", "-", "h0")),
    "given_state": lambda: network("GRU", names=("w", "r", "b", "-", "h"), data=True),
    "no_peepholes": lambda: network("LSTM", stored={"p": np.zeros((1, 3 * UNITS), np.float32)},
                                    names=("w", "r", "b", "-", "-", "-", "p")),
}  # fmt: skip


def frames(made: onnx.ModelProto, count: int) -> dict[str, np.ndarray]:
    return {v.name: arr(count, *[d.dim_value for d in v.type.tensor_type.shape.dim][1:]) for v in made.graph.input}


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime_computes(name: str) -> None:
    made = CASES[name]()
    x = frames(made, 3)
    session = InferenceSession(made.SerializeToString())
    want = np.concatenate([session.run(None, {n: v[i : i + 1] for n, v in x.items()})[0] for i in range(3)])
    found = mase_hw.import_model(made).model(*map(torch.from_numpy, x.values())).detach().numpy()
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_frames_first() -> None:
    """The other layout, which ONNX Runtime does not have."""
    one, other = network("GRU", "Y_h"), network("GRU", "Y_h", layout=1)
    del other.graph.initializer[:]
    other.graph.initializer.extend(one.graph.initializer)
    x = torch.from_numpy(arr(3, STEPS, INPUTS))
    assert torch.equal(*(mase_hw.import_model(made).model(x) for made in (one, other)))


@pytest.mark.parametrize(
    "name", ["lstm_y", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gru_both_ways", "given_state", "lstm_y_c"))]
)
def test_in_hardware(name: str, tmp_path: Path) -> None:
    made = CASES[name]()
    graph = mase_hw.import_model(made)
    design = mase_hw.compile(graph, graph.example, out=tmp_path / "design")
    inputs = [torch.from_numpy(v) for v in frames(made, 3).values()]
    result = design.simulate(inputs if len(inputs) > 1 else inputs[0], engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    assert (result.fill, result.interval) == (design.timing["fill"], design.timing["interval"])


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: network("LSTM", activations=["Relu", "Tanh", "Tanh"]), "activations"),
        (lambda: network("LSTM", clip=1.0), "clip"),
        (lambda: network("LSTM", input_forget=1), "input_forget"),
        (lambda: network("GRU", direction="sideways"), "sideways"),
        (lambda: network("RNN", stored={"n": np.array([2], np.int32)}, names=("w", "r", "b", "n")), "end before 5"),
        (lambda: network("LSTM", stored={"p": np.ones((1, 3 * UNITS), np.float32)},
                         names=("w", "r", "b", "-", "-", "-", "p")), "peepholes"),
        (lambda: network("GRU", stored={"b": arr(1, 5 * UNITS)}), "biases of the shape"),
        (lambda: network("GRU", directions=2), "of the shape"),
        (lambda: network("LSTM", stored={"h0": arr(1, 1, UNITS)}, names=("w", "r", "b", "-", "h0")), "one initial"),
        (lambda: network("LSTM", stored={"h0": arr(1, 3, UNITS)}, names=("w", "r", "b", "-", "h0", "h0")),
         r"the shape \[1, 3, 4\]"),
        # What PyTorch writes of an LSTM with a projection: zeros as well say that the layer is another one.
        (lambda: network("LSTM", stored={"h0": np.zeros((1, 1, UNITS + 2), np.float32)},
                         names=("w", "r", "b", "-", "h0", "h0")), r"the shape \[1, 1, 6\]"),
    ],
)  # fmt: skip
def test_refused(made: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        mase_hw.import_model(made())
    assert "/part/" in str(caught.value)
