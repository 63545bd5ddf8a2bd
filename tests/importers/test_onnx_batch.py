"""Files of ONNX with an open number of frames, or another one than 1: the shapes of ONNX Runtime, or none."""

from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto
from onnxruntime import InferenceSession

import mase_hw
from mase_hw.errors import UnsupportedError
from tests.importers.graphs import model, node

FRAMES = 5


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def one(kind: str, stored: dict[str, Any] | None = None, **attributes: Any) -> tuple[Any, Any]:
    return [node(kind, " ".join(["x", *(stored or {})]), **attributes)], stored or {}


def sized(*after: Any, **stored: Any) -> tuple[Any, Any]:
    """A reshape to what is computed of the shape of the data."""
    first = [node("Shape", "x", "s", "shape"), node("Gather", "s which", "n", "one")]
    return [*first, *after, node("Concat", "n rest", "t", axis=0), node("Reshape", "x t")], stored


TAKEN: dict[str, tuple[Any, Any]] = {
    "all_of_it": one("Slice", {"s": ints(0), "e": ints((1 << 63) - 1), "a": ints(0)}),
    "flatten": one("Flatten", axis=1),
    "rows": one("Flatten", axis=2),
    "rows_by_size": one("Reshape", {"s": ints(-1, 4)}),
    "features": one("Reshape", {"s": ints(0, -1)}),
    "vector": one("Reshape", {"s": ints(-1)}),
    "by_shape": sized(which=ints(0), rest=ints(-1)),
    "by_product": sized(node("Mul", "n three", "n2"), which=ints(0), rest=ints(-1), three=ints(3)),
    "by_elements": ([node("Size", "x", "n"), node("Unsqueeze", "n z", "s"), node("Reshape", "x s")], {"z": ints(0)}),
    "expand": one("Expand", {"s": ints(2, 1, 3, 4)}),
    "columns": ([node("Transpose", "x", "t", perm=[1, 0, 2]), node("Flatten", "t", axis=2)], {}),
}
TAKEN["by_product"][0][3].input[0] = "n2"
REFUSED: dict[str, tuple[Any, Any]] = {
    "first_three": one("Slice", {"s": ints(0), "e": ints(3), "a": ints(0)}),
    "but_the_last": one("Slice", {"s": ints(0), "e": ints(-1), "a": ints(0)}),
    "one_row": one("Flatten", axis=0),
    "one_row_from_behind": one("Flatten", axis=-3),
    "reshape_to_one": one("Reshape", {"s": ints(1, -1)}),
    "reshape_for_one": one("Reshape", {"s": ints(1, 12)}),
    "reshape_to_vector_of_one": one("Reshape", {"s": ints(12)}),
    "rows_of_all": one("Reshape", {"s": ints(3, -1)}),
    "by_another_size": sized(which=ints(1), rest=ints(-1)),
    "expand_to_five": one("Expand", {"s": ints(5, 3, 4)}),
    "columns_of_all": ([node("Transpose", "x", "t", perm=[1, 0, 2]), node("Flatten", "t", axis=1)], {}),
    "resize": ([node("Unsqueeze", "x z", "u"), node("Resize", "u - - s")], {"z": ints(1), "s": ints(1, 1, 6, 8)}),
    "softmax": one("Softmax", axis=0),
    "mean": one("ReduceMean"),
    "sum": one("CumSum", {"a": np.int64(0)}),
    "norm": one("LpNormalization", axis=0),
    "place": ([node("ArgMax", "x", "p", axis=0), node("Cast", "p", to=1)], {}),
    "pad": one("Pad", {"p": ints(1, 0, 0, 0, 0, 0)}),
}  # fmt: skip


def made(case: tuple[Any, Any], first: Any) -> ModelProto:
    return model(case[0], {"x": (first, 3, 4)}, case[1])


def frames() -> Any:
    return np.random.default_rng(0).standard_normal((FRAMES, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("name", TAKEN)
def test_as_the_runtime(name: str) -> None:
    x = frames()
    want = InferenceSession(made(TAKEN[name], "N").SerializeToString()).run(["y"], {"x": x})[0]
    found = mase_hw.import_model(made(TAKEN[name], "N")).model(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", REFUSED)
def test_along_the_batch(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"node\(s\) of the ONNX model cannot be taken"):
        mase_hw.import_model(made(REFUSED[name], "N"))


@pytest.mark.parametrize("name", ["one_row", "reshape_to_one", "reshape_for_one"])
def test_the_remedy(name: str) -> None:
    """A file for one frame says so, and is taken; a fixed number of frames is no other one."""
    with pytest.raises(UnsupportedError, match="set the first size of its inputs to 1 in the file"):
        mase_hw.import_model(made(REFUSED[name], "N"))
    x = frames()[:1]
    want = InferenceSession(made(REFUSED[name], 1).SerializeToString()).run(["y"], {"x": x})[0]
    found = mase_hw.import_model(made(REFUSED[name], 1)).model(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(found, want)


def test_another_number_of_frames() -> None:
    """The remedy is followed: one frame of a file for five."""
    file, x = made(one("Flatten", axis=1), FRAMES), frames()
    with pytest.raises(UnsupportedError, match=r"import_model\(path, shapes=\{name: \(1, ...\)\}\)"):
        mase_hw.import_model(file)
    want = InferenceSession(file.SerializeToString()).run(["y"], {"x": x})[0]
    found = mase_hw.import_model(file, shapes={"x": (1, 3, 4)}).model(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(found, want)
    for name in ("first_three", "reshape_to_one"):
        with pytest.raises(UnsupportedError, match="works along the batch"):
            mase_hw.import_model(made(REFUSED[name], FRAMES), shapes={"x": (1, 3, 4)})
