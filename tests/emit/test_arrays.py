"""numpy arrays wherever a model's inputs are taken: the same bits as with tensors, and a clear refusal of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.emit.reference import Reference
from mase_hw.errors import ConfigError
from mase_hw.ir.inputs import as_tensor
from mase_hw.passes.evaluation import evaluate_statistic
from tests.emit.bundles import content
from tests.emit.designs import DESIGNS
from tests.unit.pipeline import inputs

X, Y = inputs(6, 4), inputs(4, 2, 3)
MODEL = torch.nn.Linear(4, 2)


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    model, example, config = DESIGNS["two_inputs"]
    return mase_hw.compile(model, example, config, out=tmp_path_factory.mktemp("arrays") / "b")


def reference_of(design: mase_hw.Design) -> Reference:
    assert design.graph is not None
    return Reference(design.graph)


def backwards(array: Any) -> Any:
    """The same values behind a negative stride, which torch refuses to share."""
    return array[::-1].copy()[::-1]


@pytest.mark.parametrize(
    "given",
    [
        (X.numpy(), Y.numpy()),
        [X, Y.numpy()],
        {"y": Y.numpy(), "x": X.numpy()},
        (X.numpy().astype(np.float64), backwards(Y.numpy())),
        (X.numpy().astype(">f4"), Y.numpy()),
    ],
)
def test_arrays_give_the_bits_of_tensors(design: mase_hw.Design, given: Any) -> None:
    reference = reference_of(design)
    wanted, found = reference.run((X, Y)), reference.run(given)
    for side, other in zip(wanted, found, strict=True):
        assert side.keys() == other.keys() and all((side[n] == other[n]).all() for n in side)
    assert all(t.dtype is torch.float32 for t in reference.named(given).values())


def test_one_array_alone(tmp_path: Path) -> None:
    """As example, calibration and vectors: the bundle is the same, byte for byte."""
    data = inputs(8, 4)
    as_tensors = mase_hw.compile(MODEL, data[:1], out=tmp_path / "a", calibration=[data], vectors=data)
    array = data.numpy()
    as_arrays = mase_hw.compile(MODEL, array[:1], out=tmp_path / "b", calibration=[(array,)], vectors=array)
    assert content(as_tensors.path) == content(as_arrays.path)
    found = reference_of(as_arrays).named(array)
    assert list(found) == ["input"] and torch.equal(found["input"], data)
    targets = MODEL(data).detach()
    both = [evaluate_statistic(MODEL, [pair], "mse") for pair in ((data, targets), (array, targets.numpy()))]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("data.npy", ["no inputs of the model", "got: str", "for x, y; or numpy arrays"]),
        ([0.5, 1.0], ["no inputs of the model", "got: list of float"]),
        ({"x": X, "y": [1, 2]}, ["no inputs of the model", "got: dict of list"]),
        (None, ["no inputs of the model", "got: NoneType"]),
        (7, ["no inputs of the model", "got: int"]),
        (X.numpy(), ["wrong number of inputs", "got: 1", "['x', 'y']"]),
        ((X.numpy(), Y.numpy().astype(str)), ["does not hold real numbers", "where: y", "dtype <U"]),
        ((X.numpy(), Y.numpy().astype(complex)), ["does not hold real numbers", "where: y", "complex128"]),
        ((X.numpy()[:4], Y), ["shape of the example", "where: x", "[4, 4]"]),
    ],
)
def test_what_is_no_input(design: mase_hw.Design, given: Any, texts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        reference_of(design).named(given)
    for text in texts:
        assert text in str(caught.value), str(caught.value)


def test_integers_and_floats_are_not_mixed_up() -> None:
    """An integer may become a float that is the same number; nothing else changes its kind."""

    def made(array: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        tensor: torch.Tensor = as_tensor(np.array(array), MODEL, dtype, "x")
        return tensor

    assert made([1, 2]).dtype is torch.int64 and made([True]).dtype is torch.bool
    assert made([1.5]).dtype is torch.float32 and made([1.5], torch.float64).dtype is torch.float64
    assert torch.equal(made([1, 255], torch.float32), torch.tensor([1.0, 255.0]))
    assert torch.equal(made([1, 255], torch.uint8), torch.tensor([1, 255], dtype=torch.uint8))
    for array, dtype in (([2**24 + 1], torch.float32), ([256], torch.uint8), ([1.0], torch.int64)):
        with pytest.raises(ConfigError, match="numbers that the model's input cannot"):
            made(array, dtype)
    with pytest.raises(ConfigError, match="numbers that the model's input cannot"):
        made(np.array([2**64 - 1], dtype=np.uint64))
    ours = np.ones(2, dtype=np.float32)
    as_tensor(ours, MODEL, None, "x")[0] = 5
    assert ours.tolist() == [1, 1], "the array stays the user's"
